//! What one search sends: a frame size, a number of flows, a number of threads.

use super::frame_size::FrameSize;
use program::outcome::Failure;
use sender::SendJob;
use units::Count;

/// What the options of a search set; the rest is as the options of send say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Frame size with FCS, or a mix.
    pub(crate) size: Option<FrameSize>,
    /// Number of flows.
    pub(crate) flows: Option<u64>,
    /// Sending threads of each direction.
    pub(crate) threads: Option<u32>,
}

impl Traffic {
    /// Lets a sender send this.
    ///
    /// # Errors
    /// Bad usage if its own options say something else.
    pub(super) fn enter(&self, job: &mut SendJob) -> Result<(), Failure> {
        let twice = |what: &str, other: &str| {
            let why = format!("the options of send have {other}, too");
            Failure::usage(format!("search with {what}"), why).try_this("leave one of the two out")
        };
        if let Some(size) = self.size {
            if job.size.is_some() || job.mix.is_some() {
                return Err(twice("sizes of its own", "a size"));
            }
            size.enter(job);
        }
        if let Some(flows) = self.flows {
            let flows = u32::try_from(flows).map_err(|_| {
                Failure::usage(format!("search with {flows} flows"), format!("more than {}", u32::MAX))
            })?;
            job.flows = Some(flows);
        }
        if let Some(threads) = self.threads {
            if job.cpus.is_some() {
                return Err(twice("threads of its own", "a list of CPUs"));
            }
            job.threads = Some(threads);
        }
        Ok(())
    }
}

/// Each combination once. An empty list leaves the choice to the options of send.
pub(super) fn all(sizes: &[FrameSize], flows: &[Count], threads: &[u32]) -> Vec<Traffic> {
    let mut all = Vec::new();
    for size in each(sizes) {
        for flows in each(flows) {
            for threads in each(threads) {
                all.push(Traffic { size, flows: flows.map(|flows| flows.0), threads });
            }
        }
    }
    all
}

fn each<T: Copy>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Interval;

    #[test]
    fn a_sweep_has_each_combination_once() {
        let sizes = [FrameSize::Bytes(64), FrameSize::Mix("simple")];
        let all = all(&sizes, &[Count(1), Count(1000)], &[]);
        let pairs: Vec<_> = all.iter().map(|traffic| (traffic.size, traffic.flows)).collect();
        let [first, second] = sizes.map(Some);
        assert_eq!(pairs, [(first, Some(1)), (first, Some(1000)), (second, Some(1)), (second, Some(1000))]);
        let mut job = SendJob::default();
        all[3].enter(&mut job).unwrap();
        assert_eq!((job.flows, job.size, job.mix.is_some()), (Some(1000), None, true));
        let refusal = all[0].enter(&mut job).unwrap_err().to_string();
        assert!(refusal.contains("the options of send have a size, too"), "{refusal}");
    }

    #[test]
    fn frames_go_through_as_many_flows() {
        for flows in [1, 2, 1000, 64_000, 100_000, 1_000_000] {
            let traffic = Traffic { flows: Some(flows), ..Traffic::default() };
            let dst_mac = Some(Interval::one("02:00:00:00:00:02".parse().unwrap()));
            let mut job = SendJob { device: "t0".to_owned(), dst_mac, ..SendJob::default() };
            traffic.enter(&mut job).unwrap();
            let config = sender::config::config(&job).unwrap();
            assert_eq!(u64::from(config.signature.flow_count), flows);
        }
    }
}
