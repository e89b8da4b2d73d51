//! `receive.bpf.c`: a receiver that measures loss, order and latency of every flow in the driver.

use crate::shared::SharedArray;
use crate::tags::{TagMaps, TaggedFrames};
use crate::xdp::{self, LoadedProgram, XdpLink, XdpModeChoice};
use crate::{BpfError, SinkVerdict, abi, log, skel};
use libbpf_rs::MapHandle;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use measure::{FlowDetail, FlowLine, IcmpError, OtherFrames, TagPart, Totals, UnusualFrames};
use std::collections::BTreeSet;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering::Release, fence};

const OBJECT: &str = "receive";

/// The settings of a receiver that are constant while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverParams {
    /// What becomes of a frame with a signature; the host receives all others.
    pub verdict: SinkVerdict,
    /// MAC address of the device, if frames with a signature go back to their sender instead:
    /// addresses and ports are swapped, and the driver transmits the frame (XDP_TX).
    pub reflect_as: Option<[u8; 6]>,
    /// Flows of a stream, if frames do not carry their flow.
    pub flow_count: u32,
    /// Sending threads, at most `WR_STREAMS_MAX`.
    pub stream_count: u32,
    /// Flows that frames may carry themselves, if more than those of all streams.
    pub carried_flows: u32,
    /// True if several CPUs receive frames of one flow: each flow has a lock.
    pub is_shared: bool,
    /// True if the window of each flow has [`measure::WIDE_WINDOW_LEN`] numbers, which takes 128
    /// bytes more.
    pub has_wide_window: bool,
    /// True if bytes and times of each flow are kept: [`Receiver::detail`].
    pub has_details: bool,
    /// True if frames are counted by values in them: [`Receiver::set_tag`].
    pub has_tags: bool,
    /// The device, in the network namespace of the calling thread, whose driver gives the times at
    /// which it stamped frames (Linux 6.3); [`Receiver::set_clock_line`] converts them. `None` for
    /// the time of the kernel.
    pub stamps_of: Option<u32>,
    /// True if the time is that of [`Receiver::set_test_time`].
    pub has_test_clock: bool,
    /// True if each run of the program increments the number in its frame, UDP over IPv4. So
    /// repeated runs of `BPF_PROG_RUN` measure a stream.
    pub counts_up: bool,
}

/// The program in the kernel. Nothing is counted until it is attached.
#[derive(Debug)]
pub struct Receiver {
    program: LoadedProgram,
    stamps_refusal: Option<String>,
    lines: SharedArray<abi::FlowLine>,
    details: Option<SharedArray<abi::FlowDetail>>,
    tags: Option<TagMaps>,
    cpus: SharedArray<abi::ReceiveCpu>,
    histograms: SharedArray<abi::Histogram>,
    control: SharedArray<abi::ReceiveControl>,
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.linear.as_fd()
    }
}

impl Receiver {
    /// Loads the program. It accepts every run and stamps every frame. If kernel or driver do not
    /// give time stamps, it is loaded without; see [`Self::stamps_refusal`].
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN, ENOMEM with too many flows),
    /// [`BpfError::MapMemory`].
    pub fn load(params: &ReceiverParams) -> Result<Self, BpfError> {
        let plain = ReceiverParams { stamps_of: None, ..*params };
        let bound = params.stamps_of.map(|_| log::loading(OBJECT, || load_fds(params, true))).transpose();
        let (bound, stamps_refusal) = match bound {
            Ok(loaded) => (loaded, None),
            Err(refusal) => (None, Some(refusal.to_string())),
        };
        let loaded = match bound {
            Some(loaded) => loaded,
            // Kernels before 5.18 reject multi-buffer programs.
            None => log::loading(OBJECT, || {
                load_fds(&plain, true).or_else(|error| load_fds(&plain, false).map_err(|_| error))
            })?,
        };
        let line_count = line_count(params) as usize;
        let details = || SharedArray::new(loaded.details.as_fd(), "wr_flow_details", line_count);
        let tags = |values| {
            let rules = SharedArray::new(loaded.tag_rules.as_fd(), "wr_tag_rules", line_count + 1)?;
            Ok(TagMaps { rules, values })
        };
        let receiver = Self {
            tags: loaded.tag_values.map(tags).transpose()?,
            details: params.has_details.then(details).transpose()?,
            lines: SharedArray::new(loaded.lines.as_fd(), "wr_flow_lines", line_count)?,
            cpus: SharedArray::new(loaded.cpus.as_fd(), "wr_receive_cpus", loaded.cpu_count)?,
            histograms: SharedArray::new(loaded.histograms.as_fd(), "wr_histograms", loaded.cpu_count)?,
            control: SharedArray::new(loaded.control.as_fd(), "wr_receive_page", 1)?,
            program: loaded.program,
            stamps_refusal,
        };
        receiver.set_run(None);
        receiver.set_deadline_ns(None);
        Ok(receiver)
    }

    /// Why the program does not read the time stamps of the driver: the error of the verifier.
    pub fn stamps_refusal(&self) -> Option<&str> {
        self.stamps_refusal.as_deref()
    }

    /// The program for multi-buffer frames, if loaded.
    pub fn frags_program(&self) -> Option<BorrowedFd<'_>> {
        self.program.frags()
    }

    /// Attaches it to a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`BpfError::XdpBusy`] if a program is attached, [`BpfError::XdpAttach`] with the error of
    /// each mode that was tried.
    pub fn attach(&self, ifindex: u32, ifname: &str, mode: XdpModeChoice) -> Result<XdpLink, BpfError> {
        self.program.attach(ifindex, ifname, mode)
    }

    /// Frames of other runs are stale; `None` accepts every run.
    pub fn set_run(&self, run: Option<u16>) {
        let run = run.map_or(abi::ReceiveLimit::WR_ANY_RUN.0, u32::from);
        self.control.set_half_word(0, offset_of!(abi::ReceiveControl, run), run);
    }

    /// One in 2^`shift` frames has a time stamp.
    pub fn set_stamp_shift(&self, shift: u32) {
        self.control.set_half_word(0, offset_of!(abi::ReceiveControl, stamp_shift), shift);
    }

    /// First copies with a longer latency are late; none are without a deadline.
    pub fn set_deadline_ns(&self, deadline_ns: Option<u64>) {
        let at = offset_of!(abi::ReceiveControl, deadline_ns);
        self.control.set_word(0, at, deadline_ns.unwrap_or(u64::MAX));
    }

    /// Wall clock minus CLOCK_MONOTONIC.
    pub fn set_wall_offset_ns(&self, offset_ns: u64) {
        self.control.set_word(0, offset_of!(abi::ReceiveControl, wall_offset_ns), offset_ns);
    }

    /// CLOCK_MONOTONIC as a function of the clock of the device: `offset_ns` more than its time
    /// `at_ns`, and `drift` / 2^32 more with each nanosecond. One thread sets it, at most once in
    /// the time that a frame takes in the program.
    pub fn set_clock_line(&self, at_ns: i64, offset_ns: i64, drift: i64) {
        let in_force = offset_of!(abi::ReceiveControl, clock_line);
        let next = self.control.counter(0, in_force).wrapping_add(1);
        let line =
            offset_of!(abi::ReceiveControl, clock_lines) + (next % 2) as usize * size_of::<abi::ClockLine>();
        for (place, value) in [
            (offset_of!(abi::ClockLine, at_ns), at_ns),
            (offset_of!(abi::ClockLine, offset_ns), offset_ns),
            (offset_of!(abi::ClockLine, drift), drift),
        ] {
            self.control.set_word(0, line + place, value.cast_unsigned());
        }
        // The program must not see the number before the line.
        fence(Release);
        self.control.set_word(0, in_force, next);
    }

    /// The time of a program with a test clock, and that of the device, 0 for none.
    pub fn set_test_time(&self, time_ns: u64, hardware_ns: u64) {
        self.control.set_word(0, offset_of!(abi::ReceiveControl, test_time_ns), time_ns);
        self.control.set_word(0, offset_of!(abi::ReceiveControl, test_hardware_ns), hardware_ns);
    }

    /// All flows: those of stream 0, then those of stream 1. A line whose flow receives frames
    /// meanwhile may mix old and new words.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = FlowLine> + '_ {
        (0..self.lines.len()).map(|index| self.line(index))
    }

    /// One flow, by its place among [`Self::lines`].
    pub fn line(&self, index: usize) -> FlowLine {
        self.lines.get(index).into()
    }

    /// Bytes and times of one flow, by its place among [`Self::lines`], if they are kept.
    pub fn detail(&self, index: usize) -> Option<FlowDetail> {
        self.details.as_ref().map(|details| details.get(index).into())
    }

    /// The frames of a flow, by its place among [`Self::lines`], or all frames of the device, are
    /// counted by the values of these parts from now on; by none if there are no parts.
    ///
    /// # Panics
    /// Without [`ReceiverParams::has_tags`].
    pub fn set_tag(&self, line: Option<usize>, parts: &[TagPart]) {
        let tags = self.tags.as_ref().expect("the receiver counts values");
        tags.set(line.unwrap_or_else(|| self.lines.len()), parts);
    }

    /// Frames by the values of [`Self::set_tag`]; none without it. At most 65,536 values are
    /// counted.
    pub fn tagged(&self) -> Vec<TaggedFrames> {
        self.tags.as_ref().map_or_else(Vec::new, TagMaps::read)
    }

    /// Drops what was counted by values of these flows, or of all frames of the device (`None`).
    /// They are not counted by values until [`Self::set_tag`].
    pub fn forget_tagged(&self, lines: &BTreeSet<Option<usize>>) {
        if let Some(tags) = &self.tags {
            let lines = lines.iter().map(|line| line.unwrap_or_else(|| self.lines.len()));
            tags.forget(&lines.collect::<BTreeSet<usize>>());
        }
    }

    /// Counts per CPU, from CPU 0 on.
    pub fn per_cpu(&self) -> impl ExactSizeIterator<Item = Totals> + '_ {
        (0..self.cpus.len()).map(|cpu| self.cpus.get(cpu).into())
    }

    /// Counts of all CPUs.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.per_cpu().for_each(|cpu| totals.add(&cpu));
        totals
    }

    /// Frames with the signature of this run, from CPU 0 on.
    pub fn received_per_cpu(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        let at = offset_of!(abi::ReceiveCpu, received);
        (0..self.cpus.len()).map(move |cpu| self.cpus.counter(cpu, at))
    }

    /// The numbers that were sent, once the sender has announced the end of its run.
    pub fn announced(&self) -> Option<u64> {
        let word = |at| self.control.counter(0, at);
        let is_announced = word(offset_of!(abi::ReceiveControl, end_count)) > 0;
        is_announced.then(|| word(offset_of!(abi::ReceiveControl, end_sent)))
    }

    /// Latencies of all CPUs by bucket.
    pub fn histogram(&self) -> Vec<u64> {
        let mut sum = vec![0; abi::ReceiveLimit::WR_HISTOGRAM_LEN.0 as usize];
        for cpu in (0..self.cpus.len()).filter(|cpu| self.cpus.get(*cpu).stamped > 0) {
            let counts = self.histograms.get(cpu);
            sum.iter_mut().zip(counts.count).for_each(|(sum, count)| *sum += count);
        }
        sum
    }
}

impl From<abi::FlowDetail> for FlowDetail {
    fn from(detail: abi::FlowDetail) -> Self {
        let abi::FlowDetail { frame_bytes, first_ns, last_ns, .. } = detail;
        Self { frame_bytes, first_ns, last_ns }
    }
}

impl From<abi::FlowLine> for FlowLine {
    fn from(line: abi::FlowLine) -> Self {
        Self {
            high: line.high,
            window: line.window,
            unique_cpu: line.unique_cpu,
            latency_sum_ns: line.latency_sum_ns,
            duplicate: line.duplicate,
            reordered: line.reordered,
            too_old: line.too_old,
            stamped: line.stamped,
            jitter16: line.jitter16,
            transit: line.transit_ns,
            latency_min_inverted: line.latency_min_inverted,
            latency_max_ns: line.latency_max_ns,
        }
    }
}

impl From<abi::ReceiveCpu> for Totals {
    fn from(cpu: abi::ReceiveCpu) -> Self {
        Self {
            frames: cpu.frames,
            frame_bytes: cpu.frame_bytes,
            received: cpu.received,
            received_bytes: cpu.received_bytes,
            others: OtherFrames {
                stale: cpu.stale,
                damaged: cpu.damaged,
                foreign: cpu.foreign,
                icmp_errors: cpu.icmp_errors,
            },
            icmp_error: IcmpError { kind: cpu.icmp_error_kind, from: cpu.icmp_error_from },
            stamped: cpu.stamped,
            late: cpu.late,
            hardware_time: cpu.hardware_time,
            unusual: UnusualFrames { moves: cpu.moves, negative: cpu.negative },
            with_flow: cpu.with_flow,
            held: cpu.held,
            held_max: cpu.held_max,
            lowest_inverted: cpu.lowest_inverted,
            ipdv_min_inverted: cpu.ipdv_min_inverted,
            ipdv_max: cpu.ipdv_max,
            after_gap: cpu.after_gap,
            latency_min_inverted: cpu.latency_min_inverted,
        }
    }
}

/// Descriptors of a loaded object.
struct ReceiverFds {
    program: LoadedProgram,
    lines: OwnedFd,
    details: OwnedFd,
    tag_rules: OwnedFd,
    tag_values: Option<MapHandle>,
    cpus: OwnedFd,
    histograms: OwnedFd,
    control: OwnedFd,
    cpu_count: usize,
}

fn line_count(params: &ReceiverParams) -> u32 {
    params.flow_count.saturating_mul(params.stream_count).max(params.carried_flows)
}

fn load_fds(params: &ReceiverParams, frags: bool) -> libbpf_rs::Result<ReceiverFds> {
    let cpu_count = libbpf_rs::num_possible_cpus()?;
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::receive::ReceiveSkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_receive_verdict = params.verdict.code();
    settings.wr_counts_up = params.counts_up;
    settings.wr_is_reflector = params.reflect_as.is_some();
    settings.wr_own_mac = params.reflect_as.unwrap_or_default();
    settings.wr_flow_count = params.flow_count;
    settings.wr_stream_count = params.stream_count;
    settings.wr_line_count = line_count(params);
    settings.wr_is_shared = params.is_shared;
    settings.wr_has_details = params.has_details;
    settings.wr_has_tags = params.has_tags;
    settings.wr_has_wide_window = params.has_wide_window;
    settings.wr_has_test_clock = params.has_test_clock;
    open.progs.wr_receive_frags.set_autoload(frags);
    for bound in [&mut open.progs.wr_receive_hw, &mut open.progs.wr_receive_hwf] {
        xdp::bind(bound, params.stamps_of);
    }
    open.maps.wr_flow_lines.set_max_entries(line_count(params))?;
    let entries = |is_used| if is_used { line_count(params) } else { 1 };
    open.maps.wr_flow_locks.set_max_entries(entries(params.is_shared))?;
    open.maps.wr_flow_details.set_max_entries(entries(params.has_details))?;
    if params.has_tags {
        open.maps.wr_tag_rules.set_max_entries(line_count(params) + 1)?;
        open.maps.wr_tag_values.set_max_entries(abi::ReceiveLimit::WR_TAG_VALUES.0)?;
    }
    open.maps.wr_wide_windows.set_max_entries(entries(params.has_wide_window))?;
    open.maps.wr_receive_cpus.set_max_entries(cpu_count as u32)?;
    open.maps.wr_histograms.set_max_entries(cpu_count as u32)?;
    let skel = open.load()?;
    let keep = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
    let linear = skel.progs.wr_receive.as_fd();
    let mut program = LoadedProgram::keep(linear, frags.then(|| skel.progs.wr_receive_frags.as_fd()))?;
    if params.stamps_of.is_some() {
        program.keep_bound([skel.progs.wr_receive_hw.as_fd(), skel.progs.wr_receive_hwf.as_fd()])?;
    }
    Ok(ReceiverFds {
        program,
        lines: keep(skel.maps.wr_flow_lines.as_fd())?,
        details: keep(skel.maps.wr_flow_details.as_fd())?,
        tag_rules: keep(skel.maps.wr_tag_rules.as_fd())?,
        tag_values: params.has_tags.then(|| MapHandle::try_from(&skel.maps.wr_tag_values)).transpose()?,
        cpus: keep(skel.maps.wr_receive_cpus.as_fd())?,
        histograms: keep(skel.maps.wr_histograms.as_fd())?,
        control: keep(skel.maps.wr_receive_page.as_fd())?,
        cpu_count,
    })
}
