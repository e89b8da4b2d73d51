//! The receiver in Rust: what `receive.bpf.c` does in the kernel, for captured frames and as the
//! reference of its tests.

use crate::icmp_error::IcmpError;
use crate::latency::{HISTOGRAM_LEN, histogram_index};
use crate::line::{FlowDetail, FlowLine};
use crate::order::Arrivals;
use crate::signature::{AnnouncedEnd, Found, Mark, Signature, find, find_in_start, is_stamped};
use crate::totals::{STREAMS_MAX, Totals};
use crate::unwrap::{NUMBER_START, first_number, unwrap_number};
use crate::wide_window::WideWindow;

/// Bits of the time in a mark.
const MARK_TIME_MASK: u64 = (1 << 48) - 1;
/// A latency above this in a mark is a negative one.
const MARK_TIME_HALF: u64 = 1 << 47;

/// What the receiver must know of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterOptions {
    /// Flows of a stream, if frames do not carry their flow: flow = number modulo this.
    pub flow_count: u32,
    /// Sending threads.
    pub stream_count: u32,
    /// The run; `None` accepts every run.
    pub run: Option<u16>,
    /// One in 2^n frames has a time stamp.
    pub stamp_shift: u32,
    /// Flows that frames may carry themselves, if more than those of all streams.
    pub carried_flows: u32,
    /// A first copy with a longer latency is late.
    pub deadline_ns: Option<u64>,
    /// The window of each flow has [`crate::WIDE_WINDOW_LEN`] numbers instead of
    /// [`crate::WINDOW_LEN`].
    pub has_wide_window: bool,
}

impl Default for MeterOptions {
    fn default() -> Self {
        Self {
            flow_count: 1,
            stream_count: STREAMS_MAX as u32,
            run: None,
            stamp_shift: 0,
            carried_flows: 0,
            deadline_ns: None,
            has_wide_window: false,
        }
    }
}

impl MeterOptions {
    /// Flows of all streams, or that frames may carry.
    pub fn line_count(&self) -> usize {
        (self.flow_count as usize * self.stream_count as usize).max(self.carried_flows as usize)
    }
}

/// When and where a frame arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Time in nanoseconds, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Wall clock minus CLOCK_MONOTONIC.
    pub wall_offset_ns: u64,
    /// The CPU.
    pub cpu: u16,
    /// True if the device stamped it.
    pub is_hardware: bool,
    /// True if its time is not known: it has no latency.
    pub is_untimed: bool,
}

/// A receiver.
#[derive(Clone, Debug)]
pub struct Meter {
    options: MeterOptions,
    /// Up to the highest one with frames, as the details are.
    lines: Vec<FlowLine>,
    /// One for each line, if the options have wide windows.
    wide_windows: Vec<WideWindow>,
    /// One for each line, if the order is kept in full.
    arrivals: Option<Vec<Arrivals>>,
    details: Vec<FlowDetail>,
    /// False if the times of marks cannot be compared with those of arrivals.
    has_boot_clock: bool,
    totals: Totals,
    histogram: Vec<u64>,
    stream_at: [u64; STREAMS_MAX],
    announced: Option<u64>,
}

/// A frame of this run.
struct Measured {
    line: usize,
    number: u64,
    latency: Option<u64>,
    stamp_number: u32,
}

impl Meter {
    /// A receiver without frames.
    ///
    /// # Panics
    /// Without flows, or with more than [`STREAMS_MAX`] streams.
    pub fn new(options: MeterOptions) -> Self {
        assert!(options.line_count() > 0 && options.stream_count as usize <= STREAMS_MAX, "{options:?}");
        Self {
            options,
            lines: Vec::new(),
            wide_windows: Vec::new(),
            arrivals: None,
            details: Vec::new(),
            has_boot_clock: true,
            totals: Totals::default(),
            histogram: vec![0; HISTOGRAM_LEN],
            stream_at: [0; STREAMS_MAX],
            announced: None,
        }
    }

    /// Keeps all numbers of each flow, for [`Self::arrivals`].
    #[must_use]
    pub fn with_arrivals(self) -> Self {
        Self { arrivals: Some(Vec::new()), ..self }
    }

    /// For arrivals of which only the wall clock is known: marks have no latency.
    #[must_use]
    pub fn without_boot_clock(self) -> Self {
        Self { has_boot_clock: false, ..self }
    }

    /// Counts an Ethernet frame without FCS.
    pub fn receive(&mut self, frame: &[u8], arrival: Arrival) {
        self.take(find(frame), frame, frame.len(), arrival);
    }

    /// Counts a frame of `frame_len` bytes of which only those at the `start` are known. Returns
    /// false, and counts nothing, if the others decide what it is.
    pub fn receive_start(&mut self, start: &[u8], frame_len: usize, arrival: Arrival) -> bool {
        let found = find_in_start(start, frame_len);
        let is_known = found.is_some();
        if is_known {
            self.take(found, start, frame_len, arrival);
        }
        is_known
    }

    fn take(&mut self, found: Option<Found>, start: &[u8], frame_len: usize, arrival: Arrival) {
        self.totals.frames += 1;
        self.totals.frame_bytes += frame_len as u64;
        if matches!(found, Some(Found::Front(_) | Found::End(_)))
            && let Some(error) = IcmpError::in_frame(start)
        {
            self.totals.others.icmp_errors += 1;
            self.totals.icmp_error = error;
            return;
        }
        let measured = match found {
            None => {
                self.totals.others.foreign += 1;
                return;
            }
            Some(Found::Front(signature)) => self.front(&signature, arrival),
            Some(Found::End(mark)) => self.end(mark, arrival),
            Some(Found::Announced(end)) => return self.take_end(end, frame_len),
        };
        if let Some(measured) = measured {
            if measured.line >= self.lines.len() {
                self.lines.resize(measured.line + 1, FlowLine::default());
                if self.options.has_wide_window {
                    self.wide_windows.resize(measured.line + 1, WideWindow::default());
                }
                self.details.resize(measured.line + 1, FlowDetail::default());
                if let Some(arrivals) = &mut self.arrivals {
                    arrivals.resize(measured.line + 1, Arrivals::default());
                }
            }
            let time_ns = (!arrival.is_untimed).then_some(arrival.time_ns);
            self.details[measured.line].receive(frame_len, time_ns);
            self.totals.received_bytes += frame_len as u64;
            self.count(&measured, arrival);
        }
    }

    fn front(&mut self, signature: &Signature, arrival: Arrival) -> Option<Measured> {
        if !signature.is_plausible() {
            self.totals.others.damaged += 1;
            return None;
        }
        let arrived_ns = arrival.time_ns.wrapping_add(arrival.wall_offset_ns);
        let latency = signature.sent_ns().map(|sent_ns| arrived_ns.wrapping_sub(sent_ns));
        let (line, number) = match signature.full {
            None => self.scheduled(signature)?,
            Some(full) => (self.flow_of_run(full.flow, full.run)?, NUMBER_START + full.number),
        };
        Some(Measured { line, number, latency, stamp_number: signature.seq_num })
    }

    /// Flow and number of a frame that does not carry them.
    fn scheduled(&mut self, signature: &Signature) -> Option<(usize, u64)> {
        let (flow_count, stream) = (self.options.flow_count, usize::from(signature.stream));
        if stream >= self.options.stream_count as usize {
            self.totals.others.damaged += 1;
            return None;
        }
        let at = &mut self.stream_at[stream];
        let number = match *at {
            0 => first_number(signature.seq_num, flow_count),
            at => unwrap_number(at, signature.seq_num),
        };
        *at = number.max(*at);
        let lowest = &mut self.totals.lowest_inverted[stream];
        *lowest = (*lowest).max(!number);
        let flow = (number % u64::from(flow_count)) as usize;
        Some((stream * flow_count as usize + flow, number / u64::from(flow_count)))
    }

    /// Notes the end, unless it is that of another run. The frame is not counted.
    fn take_end(&mut self, end: AnnouncedEnd, frame_len: usize) {
        self.totals.frames -= 1;
        self.totals.frame_bytes -= frame_len as u64;
        let is_of_run = self.options.run.is_none_or(|wanted| end.run.is_none_or(|run| run == wanted));
        self.announced = if is_of_run { Some(end.sent) } else { self.announced };
    }

    fn end(&mut self, mark: Mark, arrival: Arrival) -> Option<Measured> {
        let line = self.flow_of_run(u32::from(mark.flow), mark.run)?;
        let number = match self.line(line).high {
            0 => first_number(mark.seq_num, 1),
            high => unwrap_number(high - 1, mark.seq_num),
        };
        let latency = arrival.time_ns.wrapping_sub(mark.time_ns) & MARK_TIME_MASK;
        let latency = if latency >= MARK_TIME_HALF { latency | !MARK_TIME_MASK } else { latency };
        let latency = (mark.time_ns != 0 && self.has_boot_clock).then_some(latency);
        Some(Measured { line, number, latency, stamp_number: mark.seq_num })
    }

    /// The line of a flow, if the frame is of this run.
    fn flow_of_run(&mut self, flow: u32, run: u16) -> Option<usize> {
        if self.options.run.is_some_and(|wanted| wanted != run) {
            self.totals.others.stale += 1;
            return None;
        }
        if flow as usize >= self.options.line_count() {
            self.totals.others.damaged += 1;
            return None;
        }
        self.totals.with_flow += 1;
        Some(flow as usize)
    }

    fn count(&mut self, measured: &Measured, arrival: Arrival) {
        let totals = &mut self.totals;
        totals.received += 1;
        let is_stamped = is_stamped(measured.stamp_number, self.options.stamp_shift) && !arrival.is_untimed;
        let latency = measured.latency.filter(|_| is_stamped).map(u64::cast_signed);
        let latency_ns = latency.map(|latency| latency.max(0).unsigned_abs());
        let line = &mut self.lines[measured.line];
        if !line.is_empty() && measured.number > line.high {
            totals.after_gap = totals.after_gap.max(measured.number);
        }
        let number = measured.number;
        let kept = self.arrivals.as_mut().map(|arrivals| &mut arrivals[measured.line]);
        let transit = match (kept, self.wide_windows.get_mut(measured.line)) {
            (Some(arrivals), _) => {
                let is_first = arrivals.receive(number);
                line.receive_known(arrivals, is_first, number, arrival.cpu, latency)
            }
            (None, Some(wide)) => line.receive_wide(wide, number, arrival.cpu, latency),
            (None, None) => line.receive(number, arrival.cpu, latency),
        };
        totals.unusual.moves += u64::from(transit.is_moved);
        if let Some(latency_ns) = latency {
            totals.latency(latency_ns);
        }
        if transit.held > 0 {
            totals.reordered(transit.held);
        }
        if let (Some(latency_ns), true) = (latency_ns, transit.is_unique) {
            totals.stamped += 1;
            totals.hardware_time += u64::from(arrival.is_hardware);
            totals.unusual.negative += u64::from(latency.is_some_and(|latency| latency < 0));
            totals.late += u64::from(self.options.deadline_ns.is_some_and(|deadline| latency_ns > deadline));
            self.histogram[histogram_index(latency_ns)] += 1;
        }
        if let Some(difference_ns) = transit.ipdv_ns.filter(|_| self.options.stamp_shift == 0) {
            totals.ipdv(difference_ns);
        }
    }

    /// What the receiver was told.
    pub fn options(&self) -> &MeterOptions {
        &self.options
    }

    /// The flows up to the last one with frames: those of stream 0, then those of stream 1.
    pub fn lines(&self) -> &[FlowLine] {
        &self.lines
    }

    /// A flow, by its place among the flows of all streams.
    pub fn line(&self, index: usize) -> FlowLine {
        self.lines.get(index).copied().unwrap_or_default()
    }

    /// Bytes and times of a flow, by its place among the flows of all streams.
    pub fn detail(&self, index: usize) -> FlowDetail {
        self.details.get(index).copied().unwrap_or_default()
    }

    /// The numbers of each flow up to the last one with frames, if they are kept.
    pub fn arrivals(&self) -> Option<&[Arrivals]> {
        self.arrivals.as_deref()
    }

    /// The numbers that were sent, once the sender has announced the end of its run.
    pub fn announced(&self) -> Option<u64> {
        self.announced
    }

    /// Counts of all flows.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Latencies by [`histogram_index`].
    pub fn histogram(&self) -> &[u64] {
        &self.histogram
    }
}
