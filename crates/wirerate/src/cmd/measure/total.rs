//! The sums of several directions as one report.

use capture::ReceiveResult;
use measure::{Figures, Loss};
use program::active_window::ActiveRate;
use program::rx_stats::RxHead;
use receiver::{Report, SenderCounts};

/// The report of all directions, each with the counts of its sender; `rates` are those of their
/// frames.
pub(super) fn of(
    parts: Vec<(ReceiveResult, SenderCounts)>,
    rates: &[ActiveRate],
    late_is_lost: bool,
) -> Report {
    let report = |(result, sender): &(ReceiveResult, SenderCounts)| {
        let mut report = Report::new(RxHead::default(), result, None);
        report.join(*sender);
        if late_is_lost {
            report.lose_late();
        }
        report
    };
    let reports: Vec<Report> = parts.iter().map(report).collect();
    let count =
        |count: fn(&Loss) -> u64| reports.iter().filter_map(|report| report.loss.as_ref()).map(count).sum();
    let loss = Loss {
        sent: count(|loss| loss.sent),
        lost_min: count(|loss| loss.lost_min),
        lost_max: count(|loss| loss.lost_max),
        excess: count(|loss| loss.excess),
        late: count(|loss| loss.late),
    };
    // Numbers of different directions are no sequence.
    let missing = reports.iter().map(|report| report.figures.missing).sum();
    let rejected = reports.iter().map(|report| report.rejected).sum();
    let head = RxHead { device: format!("{} directions together", parts.len()), ..RxHead::default() };
    let sum = parts.into_iter().map(|(result, _)| result).reduce(ReceiveResult::and);
    let sum = sum.expect("there are directions");
    let active = ActiveRate::together(rates);
    let head = RxHead { duration_ns: sum.elapsed.as_nanos() as u64, active, ..head };
    let total = Report::new(head, &sum, None);
    Report { loss: Some(loss), rejected, figures: Figures { missing, ..total.figures.clone() }, ..total }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Arrival, Meter, MeterOptions, Signature};
    use program::rx_stats::Cpu;
    use std::time::Duration;

    /// `count` frames of `latency_ns`, each second one lost except 10 that the driver rejected.
    fn part(count: u32, latency_ns: u64) -> (ReceiveResult, SenderCounts) {
        let mut meter = Meter::new(MeterOptions::default());
        for number in (0..2 * count).step_by(2) {
            let mut frame = [0; 60];
            Signature { seq_num: number, sec: 1, usec: number, ..Signature::default() }
                .emit(&mut frame[42..]);
            let time_ns = 1_000_000_000 + u64::from(number) * 1000 + latency_ns;
            meter.receive(&frame, Arrival { time_ns, ..Arrival::default() });
        }
        let result = ReceiveResult {
            options: *meter.options(),
            lines: meter.lines().to_vec(),
            totals: meter.totals().clone(),
            histogram: meter.histogram().to_vec(),
            cpus: vec![0, u64::from(count)],
            lost_ring: 0,
            reflected: None,
            announced: None,
            clock_uncertainty_ns: 20,
            elapsed: Duration::from_secs(1),
            is_device_gone: false,
        };
        let offered = u64::from(2 * count);
        (result, SenderCounts { numbers: offered - 10, offered, rejected: 10 })
    }

    #[test]
    fn the_total_is_the_sum_of_its_directions() {
        let total = of(vec![part(100, 5000), part(50, 9000)], &[], false);
        assert_eq!((total.figures.unique, total.figures.missing, &total.figures.broken), (150, 128, &vec![]));
        assert_eq!(total.loss, Some(Loss { sent: 280, lost_min: 130, lost_max: 130, excess: 0, late: 0 }));
        assert_eq!(total.rejected, Some(20));
        let latency = total.figures.latency.as_ref().expect("time stamps");
        assert_eq!((latency.stamped, latency.min_ns, latency.max_ns), (150, 5000, 9000));
        assert_eq!(total.cpus, [Cpu { cpu: 1, received: 150 }]);
        let text = total.to_string();
        assert!(text.starts_with("2 directions together: 150 frames received in 1.000 s\n"), "{text}");
        assert!(!text.contains("source"), "{text}");
        assert!(total.total_line().starts_with("{\"schema\":\"wirerate.measure-total/1\""));
    }
}
