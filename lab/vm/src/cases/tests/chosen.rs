//! The tests that run in the machines: one for each thing that may differ between kernels. A test
//! takes about ten seconds where processors are emulated, so slow ones are left out.

/// Tests of one executable.
pub(super) struct SelectedTests {
    /// Whose they are, for the table.
    pub(super) package: &'static str,
    /// The name of the executable, which no other crate has.
    pub(super) executable: &'static str,
    /// All of them must run and pass.
    pub(super) names: &'static [&'static str],
}

const fn of(
    package: &'static str,
    executable: &'static str,
    names: &'static [&'static str],
) -> SelectedTests {
    SelectedTests { package, executable, names }
}

/// None of them needs tshark, which is larger than all else in a machine, or what 6.1 does not
/// have: of that there are other tests, which say what takes its place.
pub(super) const CHOSEN: &[SelectedTests] = &[
    of("bpf", "capture_bound", &["without_driver_metadata_the_plain_program_is_used"]),
    of("bpf", "capture_program", &["frames_in_several_pieces_keep_the_right_bytes"]),
    of(
        "bpf",
        "receive_program",
        &[
            "an_announced_end_is_noted_and_not_counted",
            "each_branch_counts_as_the_meter_does",
            "long_frames_in_pieces_are_measured",
        ],
    ),
    of(
        "host",
        "namespaces",
        &["the_far_end_of_a_veth_is_asked_whether_it_polls_where_its_namespace_has_a_name"],
    ),
    of("engine", "wire", &["af_xdp_sends_on_the_queues_that_the_plan_names"]),
    of(
        "engine",
        "modes",
        &["exact_counts_go_into_the_receive_path", "skb_sends_on_the_queues_that_the_plan_names"],
    ),
    of("engine", "bytes", &["jumbo_frames_and_fragments_go_by_the_engine_that_can"]),
    of("capture", "session", &["generic_mode_captures_on_devices_that_know_nothing_of_xdp"]),
    of(
        "ctlfs",
        "fs",
        &[
            "writes_return_their_length_or_the_errno",
            "a_program_that_waits_in_one_thread_starts_another_program_in_a_second",
        ],
    ),
    of(
        "wirerate",
        "netns",
        &[
            "send::a_peer_without_xdp_or_gro_is_refused_by_xdp_and_served_by_skb",
            "send::every_engine_sends_exactly_its_count_and_the_same_bytes",
            "capture::drop_mode_hides_frames_from_the_host",
            "capture::leaves_no_program_when_killed",
            "sources::a_taken_device_is_captured_another_way",
            "sources::a_thousand_switches_lose_nothing",
            "count::sink_counts_every_frame_and_ends_it",
            "mgcap::ip_mgcap_works_under_exec",
            "control::a_daemon_serves_writers_and_goes_politely",
            "control::a_script_sends_what_its_receiver_counts",
            "doctor::names_the_engine_that_send_takes_and_why",
            "round_trip::a_snaplen_cuts_and_keeps_the_original_length",
            "receive::second_copies_are_duplicates",
            "receive::two_cpus_share_a_flow_under_a_lock",
            "replay::frames_arrive_as_they_are_and_in_order",
            "trafgen::a_frame_beyond_the_mtu_says_so",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn sources(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let paths = entries.map(|entry| entry.expect("a folder can be read").path());
        paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
    }

    /// A renamed test is noticed here, not only after a machine has started.
    #[test]
    fn selected_tests_exist() {
        for tests in CHOSEN {
            let folder = testkit::root().join("crates").join(tests.package).join("tests");
            let text: String = sources(&folder)
                .iter()
                .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
                .map(|path| fs::read_to_string(path).expect("a source is text"))
                .collect();
            for name in tests.names {
                let function = name.rsplit("::").next().expect("a name has a last part");
                assert!(text.contains(function), "{} has no test {name}", tests.package);
            }
        }
    }
}
