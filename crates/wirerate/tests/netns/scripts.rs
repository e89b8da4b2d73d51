//! Scripts for the kernel's pktgen under `wirerate exec`: the kernel's own samples, and those of
//! the folder `pktgen`, which give the same commands as the examples of pktgen's documents.

use crate::lab::{Lab, Peer, RX_MAC, TX_DEV};
use crate::program::{Outcome, Running, run, until, wirerate};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tests of scripts.
pub(crate) const CASES: &[Case] = &[
    case("scripts::the_samples_of_the_kernel_send_what_they_say", &[], samples_send),
    case("scripts::a_sample_that_injects_into_the_receive_path", &[], sample_receives),
    case("scripts::ctrl_c_ends_a_sample_with_its_results", &[], sample_interrupted),
    case("scripts::one_device_sends_ten_million_clones", &[], one_device),
    case("scripts::every_set_up_of_the_paper_is_accepted", &[], set_ups),
    case("scripts::ten_devices_send_until_ctrl_c", &[], ten_devices_until_ctrl_c),
    case("scripts::a_wireless_station_sends_its_count", &[], wireless_session),
];

const LIMIT: Duration = Duration::from_secs(120);

/// The samples as they are called on a machine with two threads and more: script, options, frames
/// that arrive.
const SAMPLES: &[(&str, &str, u64)] = &[
    ("pktgen_sample01_simple.sh", "-n 1000 -d 198.18.0.2", 1000),
    ("pktgen_sample01_simple.sh", "-n 1000 -d 198.18.0.0/24 -p 9-109 -k -s 100", 1000),
    ("pktgen_sample01_simple.sh", "-n 500 -6 -d fd00::2 -v", 500),
    ("pktgen_sample01_simple.sh", "-n 500 -6 -d fd00::/112 -p 9", 500),
    ("pktgen_sample01_simple.sh", "-n 50 -w 1000000 -d 198.18.0.2", 50),
    ("pktgen_sample01_simple.sh", "-n 600 -c 3 -d 198.18.0.2", 600),
    ("pktgen_sample02_multiqueue.sh", "-n 1000 -t 2 -v", 2000),
    ("pktgen_sample02_multiqueue.sh", "-n 1000 -f 1 -p 9-109 -d 198.18.0.0/24", 1000),
    ("pktgen_sample03_burst_single_flow.sh", "-n 1000 -t 2", 2000),
    ("pktgen_sample03_burst_single_flow.sh", "-n 1001 -b 8 -s 1000", 1001),
    ("pktgen_sample04_many_flows.sh", "-n 20000 -t 2 -d 198.18.0.0/24", 40000),
    ("pktgen_sample05_flow_per_thread.sh", "-n 1000 -t 2 -b 4", 2000),
    ("pktgen_bench_xmit_mode_queue_xmit.sh", "-n 1000 -t 2 -p 9-109", 2000),
];

/// The folder with the samples of the kernel's source.
fn samples() -> Result<PathBuf, String> {
    let tool = testkit::root().join("tools/kernel-samples.sh");
    let output = std::process::Command::new(tool).output().map_err(|error| error.to_string())?;
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said.trim().into()) } else { Err(why.into_owned()) }
}

/// A script of the kernel's under `exec`, in the sender's namespace.
fn sample(lab: &Lab, script: &str, options: &str) -> Result<Running, String> {
    let mut command = wirerate();
    command.args(["exec", "--netns", &lab.tx_netns, "--", "bash"]).arg(samples()?.join(script));
    command.args(["-i", TX_DEV, "-m", RX_MAC]).args(options.split_whitespace());
    Ok(Running::start(command))
}

fn samples_send() -> TestResult {
    for (script, options, count) in SAMPLES {
        let lab = Lab::new(Peer::Gro);
        let outcome = sample(&lab, script, options)?.wait(LIMIT).expect_code(0);
        let name = format!("{script} {options}");
        assert!(outcome.stdout.contains("Result: OK: "), "{name}: {outcome:?}");
        // Where a result is not OK the scripts print it there.
        assert!(!outcome.stderr.contains("Result:"), "{name}: {}", outcome.stderr);
        assert_eq!(lab.received_at_last(*count), *count, "{name}: {outcome:?}");
    }
    Ok(())
}

fn sample_receives() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = "pktgen_bench_xmit_mode_netif_receive.sh";
    let outcome = sample(&lab, script, "-n 20000 -t 2")?.wait(LIMIT).expect_code(0);
    let results = outcome.stdout.matches(", 20000 (60byte,0frags)").count();
    assert_eq!(results, 2, "{outcome:?}");
    assert_eq!(lab.received(), 0, "nothing goes out");
    Ok(())
}

fn sample_interrupted() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = sample(&lab, "pktgen_sample03_burst_single_flow.sh", "-n 0 -w 10000")?;
    until("frames arrive", || lab.received() > 1000);
    running.signal(Signal::SIGINT);
    let outcome = running.wait(LIMIT).expect_code(0);
    assert!(outcome.stdout.contains("Result: OK: "), "{outcome:?}");
    Ok(())
}

/// A script of the folder `pktgen` beside this file, under `exec` in the sender's namespace.
fn script(lab: &Lab, name: &str, arguments: &[&str]) -> Running {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/netns/pktgen").join(name);
    let mut command = wirerate();
    command.args(["exec", "--netns", &lab.tx_netns, "--", "bash"]).arg(path).args(arguments);
    Running::start(command)
}

/// Interfaces eth1 to eth11 as the paper has them, each one end of a pair whose other end listens.
fn add_ethernets(lab: &Lab) {
    for number in 1..=11 {
        let (near, far) = (format!("eth{number}"), format!("far{number}"));
        run(&["ip", "-n", &lab.tx_netns, "link", "add", &near, "type", "veth", "peer", "name", &far]);
        run(&["ip", "netns", "exec", &lab.tx_netns, "ethtool", "-K", &far, "gro", "on"]);
        for end in [near, far] {
            run(&["ip", "-n", &lab.tx_netns, "link", "set", &end, "up"]);
        }
    }
}

/// `pgset` prints the result of a command that was not accepted, and nothing else.
#[track_caller]
fn accepted(outcome: Outcome, name: &str) -> Outcome {
    let is_good = !outcome.stdout.contains("Result:") && !outcome.stderr.contains("write error");
    assert!(is_good, "{name}\n{outcome:?}");
    outcome
}

fn one_device() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    add_ethernets(&lab);
    let name = "one_device.sh";
    let outcome = accepted(script(&lab, name, &[]).wait(LIMIT).expect_code(0), name);
    outcome.says(&["pkts-sofar: 10000000  errors: 0", "clone_skb: 1000000", "10000000 (60byte,0frags)"]);
    Ok(())
}

fn set_ups() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    add_ethernets(&lab);
    for name in [
        "two_devices_one_cpu.sh",
        "two_devices_two_cpus.sh",
        "two_devices_first_of_two_cpus.sh",
        "random_destinations.sh",
        "ipv6.sh",
        "flows.sh",
    ] {
        accepted(script(&lab, name, &[]).wait(LIMIT).expect_code(0), name);
    }
    Ok(())
}

/// Ten devices on two threads without a count: all of them send until Ctrl-C (docs/pktgen.md,
/// row 24).
fn ten_devices_until_ctrl_c() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    add_ethernets(&lab);
    let running = script(&lab, "ten_devices.sh", &[]);
    let is_silent = |device: &str| {
        let text = run(&["ip", "-n", &lab.tx_netns, "-s", "-j", "link", "show", device]);
        text.contains("\"rx\":{\"bytes\":0,")
    };
    until("frames from all ten", || (2..=11).all(|number| !is_silent(&format!("far{number}"))));
    running.signal(Signal::SIGINT);
    let outcome = running.wait(LIMIT).expect_code(0);
    assert_eq!(outcome.stdout.matches("Result: OK: ").count(), 10, "{outcome:?}");
    assert!(!outcome.stdout.contains(" usec, 0 ("), "a device sent nothing: {outcome:?}");
    // 192.168.3.1010 and 192.168.3.1011 are not addresses (docs/pktgen.md, row 1). Everything
    // else is accepted.
    assert_eq!(outcome.stdout.matches("is not an IPv4 address").count(), 2, "{outcome:?}");
    assert_eq!(outcome.stderr.matches("write error").count(), 2, "{outcome:?}");
    Ok(())
}

fn wireless_session() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    run(&["ip", "-n", &lab.tx_netns, "link", "set", TX_DEV, "down"]);
    run(&["ip", "-n", &lab.tx_netns, "link", "set", TX_DEV, "name", "wlan1"]);
    run(&["ip", "-n", &lab.tx_netns, "link", "set", "wlan1", "up"]);
    let text = script(&lab, "wireless.sh", &[RX_MAC]).wait(LIMIT).expect_code(0).stdout;
    assert!(text.starts_with("Params: count 10000  min_pkt_size: 600  max_pkt_size: 600\n"), "{text}");
    assert!(
        text.contains("pkts-sofar: 10000  errors: 0") && text.contains("10000 (600byte,0frags)"),
        "{text}"
    );
    assert_eq!(lab.received_at_last(10000), 10000);
    Ok(())
}
