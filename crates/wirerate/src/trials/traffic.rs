//! What one search sends: a frame size, a number of flows, a number of threads.

use super::frame_size::FrameSize;
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
    /// Options of `wirerate send`.
    pub(super) fn send_options(&self) -> Vec<String> {
        let size = self.size.into_iter().flat_map(FrameSize::send_options);
        let flows = self.flows.into_iter().flat_map(|count| ["--flows".to_owned(), count.to_string()]);
        let threads = self.threads.into_iter().flat_map(|count| ["--threads".to_owned(), count.to_string()]);
        size.chain(flows).chain(threads).collect()
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

    #[test]
    fn a_sweep_has_each_combination_once() {
        let sizes = [FrameSize::Bytes(64), FrameSize::Mix("simple")];
        let all = all(&sizes, &[Count(1), Count(1000)], &[]);
        let pairs: Vec<_> = all.iter().map(|traffic| (traffic.size, traffic.flows)).collect();
        let [first, second] = sizes.map(Some);
        assert_eq!(pairs, [(first, Some(1)), (first, Some(1000)), (second, Some(1)), (second, Some(1000))]);
        assert_eq!(all[3].send_options()[2..], ["--flows", "1000"]);
    }

    #[test]
    fn frames_go_through_as_many_flows() {
        for flows in [1, 2, 1000, 64_000, 100_000, 1_000_000] {
            let traffic = Traffic { flows: Some(flows), ..Traffic::default() };
            let options = traffic.send_options();
            let with_mac =
                ["--dst-mac".to_owned(), "02:00:00:00:00:02".to_owned()].into_iter().chain(options);
            let send = super::super::tester::send_args("t0", &with_mac.collect::<Vec<_>>()).unwrap();
            let config = sender::config::config(&send).unwrap();
            assert_eq!(u64::from(config.signature.flow_count), flows);
        }
    }
}
