//! `wirerate exec` and `wirerate serve`: scripts that write control files, and what then arrives.

use crate::lab::{Lab, Peer, RX_DEV, RX_MAC, TX_DEV, TX_MAC};
use crate::program::{Outcome, Running, in_netns, run, until, wirerate, wirerate_run, wirerate_start};
use crate::readers::{Frame, on_the_wire};
use crate::send::sending;
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tests of the control tree.
pub(crate) const CASES: &[Case] = &[
    case("control::a_script_sends_what_its_receiver_counts", &[], script_counts),
    case("control::ctrl_c_ends_the_run_and_the_script_reads_its_result", &[], ctrl_c),
    case("control::commands_during_a_run_lose_no_frame", &["dumpcap", "editcap"], during_a_run),
    case("control::commands_between_bursts_send_no_frame_twice", &["dumpcap", "editcap"], between_bursts),
    case("control::a_device_that_goes_down_ends_its_run_normally", &[], link_goes_down),
    case("control::sixty_four_device_instances_share_a_thread", &[], sixty_four)
        .with_lock("uses all slots of the XDP dispatcher"),
    case("control::unpaced_devices_of_one_thread_all_send_and_begin_at_one_instant", &[], sharing),
    case("control::devices_whose_delay_is_out_of_reach_all_send", &[], out_of_reach),
    case("control::eight_device_instances_on_two_threads_all_send_their_count", &[], eight_on_two),
    case("control::a_daemon_serves_writers_and_goes_politely", &[], daemon),
    case("control::frames_for_others_are_no_errors_of_the_receive_path", &[], frames_for_others),
    case("control::a_size_beyond_65535_is_an_error_before_the_first_frame", &[], too_long),
    case("control::a_script_in_another_netns_sends_from_there", &["bash"], in_another_netns),
    case("control::frames_longer_than_the_mtu_are_an_error_at_start", &[], longer_than_the_mtu),
    case("control::words_that_documents_have_are_taken_as_the_kernel_takes_them", &[], as_the_kernel),
    case("control::a_daemon_that_cannot_serve_leaves_no_directory", &[], daemon_fails),
    case("control::a_refused_write_is_printed_with_its_reason", &["setpriv"], refused_writes),
    case("control::a_daemon_prints_where_its_files_are_and_how_to_stop_it", &[], daemon_announces),
    case("control::without_fuse_the_error_names_it_and_the_way_to_get_it", &["unshare"], no_fuse),
    case(
        "control::a_line_of_send_and_its_script_send_the_same_frames",
        &["dumpcap", "editcap"],
        same_as_send,
    ),
    case("control::a_priority_reaches_its_class_of_the_qdisc", &["tc"], priorities),
    case("control::answers_are_those_of_a_real_pktgen", &["python3"], answers_of_the_oracle),
    case("control::frames_are_those_of_a_real_pktgen", &["python3", "dumpcap"], frames_of_the_oracle),
];

/// For what hangs; a loaded machine has taken over two minutes for the frames of the oracle.
const LIMIT: Duration = Duration::from_secs(600);

/// Shell: `pg FILE COMMAND...` writes commands, one each.
/// `until_sent N` waits until `tx0` has sent so many frames, a minute at most.
const PG: &str = "set -eu
P=/proc/net/pktgen
pg() { file=$1; shift; for command; do echo \"$command\" > $P/$file; done; }
until_sent() {
    for try in $(seq 3000); do
        sofar=$(sed -n 's/.*pkts-sofar: \\([0-9]*\\).*/\\1/p' $P/tx0)
        if [ $sofar -ge $1 ]; then return; fi
        sleep 0.02
    done
    return 1
}
";

/// A script under `exec` in the sender's namespace.
fn exec(lab: &Lab, script: &str) -> Running {
    let mut command = wirerate();
    let script = format!("{PG}pg kpktgend_0 'add_device {TX_DEV}'\npg {TX_DEV} 'dst_mac {RX_MAC}'\n{script}");
    command.args(["exec", "--netns", &lab.tx_netns, "--", "bash", "-c", &script]);
    Running::start(command)
}

/// The second of its two directories has files that it would hide.
fn daemon_fails() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let [tree, slots] = ["tree", "slots"].map(|name| lab.file(name));
    fs::create_dir(&slots)?;
    fs::write(slots.join("precious"), "")?;
    let words = format!("serve --dry-run --mount {} --mgcap {}", tree.display(), slots.display());
    let refused = wirerate_run(&words).expect_code(3);
    refused.says(&["is not empty"]);
    assert!(!refused.stderr.contains("FUSE session"), "{}", refused.stderr);
    assert!(!tree.exists(), "{} was made and is still there", tree.display());
    assert!(slots.join("precious").exists());
    Ok(())
}

/// The shell prints "I/O error" for these, or nothing.
fn refused_writes() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = "P=/proc/net/pktgen
        echo add_device uxa0 > $P/kpktgend_0
        printf 'dst 198.18.0.2\\n' > $P/tx0
        echo dst 198.18.0 > $P/tx0
        echo begin > $P/pgctrl
        setpriv --bounding-set=-net_admin sh -c 'echo stop > /proc/net/pktgen/pgctrl'
        true";
    let refused = [
        "wirerate: kpktgend_0: add_device uxa0: there is no device \"uxa0\" in this network namespace\n",
        "wirerate: tx0: dst 198.18.0: dst_min: \"198.18.0\" is not an IPv4 address\n",
        "wirerate: pgctrl: begin: \"begin\" is not a pgctrl command (`wirerate help commands` lists them)\n",
        "wirerate: pgctrl: the writer needs CAP_NET_ADMIN\n",
    ];
    let of = |option: &str| {
        let script = format!("echo add_device {TX_DEV} > /proc/net/pktgen/kpktgend_1; {script}");
        let mut command = wirerate();
        command.args(["exec", "--netns", &lab.tx_netns, option, "--", "sh", "-c", &script]);
        Running::start(command).wait(LIMIT).expect_code(0)
    };
    let printed = of("--name=refused");
    printed.says(&refused);
    assert_eq!(printed.stderr.matches("wirerate: ").count(), refused.len(), "{}", printed.stderr);
    assert!(!of("--quiet").stderr.contains("wirerate: "));
    Ok(())
}

fn daemon_announces() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let [tree, slots] = ["tree", "slots"].map(|name| lab.file(name));
    let words = format!("serve --dry-run --mount {} --mgcap {}", tree.display(), slots.display());
    for quiet in ["", "--quiet"] {
        let daemon = wirerate_start(&format!("{words} {quiet}"));
        until("the files are there", || tree.join("pgctrl").exists() && slots.join(".control").exists());
        if quiet.is_empty() {
            daemon.until_it_says(&format!("stop with Ctrl-C or `kill {}`", daemon.id()));
        }
        assert!(fs::write(tree.join("pgctrl"), "begin\n").is_err());
        daemon.signal(Signal::SIGTERM);
        let ended = daemon.wait(LIMIT).expect_code(0);
        if quiet.is_empty() {
            let places = [&tree, &slots].map(|dir| format!("are in {}\n", dir.display()));
            ended.says(&[&places[0], &places[1], "wirerate: pgctrl: begin: \"begin\" is not"]);
        } else {
            assert_eq!(ended.stderr, "");
        }
    }
    Ok(())
}

/// An empty directory over /dev, as in a container without the device.
fn no_fuse() -> TestResult {
    let mut command = std::process::Command::new("unshare");
    let script =
        format!("mount -t tmpfs none /dev && exec {} exec -- true", wirerate().get_program().display());
    command.args(["--mount", "sh", "-c", &script]);
    let refused = Running::start(command).wait(LIMIT).expect_code(3);
    assert_eq!(
        refused.stderr,
        "wirerate: cannot set up the control files for CMD: the control files need FUSE, and /dev/fuse \
         cannot be opened: No such file or directory\n  \
         try: `modprobe fuse`; for a container: start it with `--device /dev/fuse`\n"
    );
    Ok(())
}

#[track_caller]
fn run_script(lab: &Lab, script: &str) -> Outcome {
    exec(lab, script).wait(LIMIT).expect_code(0)
}

/// The number behind `label`.
#[track_caller]
fn number(text: &str, label: &str) -> u64 {
    let rest = text.split_once(label).unwrap_or_else(|| panic!("no {label} in {text}")).1.trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or_else(|_| panic!("no number behind {label} in {text}"))
}

fn script_counts() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = "pg tx0 'count 12345' 'pkt_size 100' 'show_engine 1'; pg pgctrl start; cat $P/tx0";
    let text = run_script(&lab, script).stdout;
    assert_eq!(number(&text, "pkts-sofar:"), 12345, "{text}");
    assert!(text.contains("Result: OK: ") && text.contains(" usec, 12345 (100byte,0frags)"), "{text}");
    assert_eq!(lab.received_at_last(12345), 12345);
    assert!(!fs::exists("/proc/net/pktgen")?, "nothing is seen outside");
    Ok(())
}

/// HTB takes a priority that is the number of one of its classes for just that; class 2 is for all
/// others.
fn priorities() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let tc = |words: &str| {
        let all = format!("ip netns exec {} tc {words}", lab.tx_netns);
        run(&all.split(' ').collect::<Vec<_>>())
    };
    tc(&format!("qdisc add dev {TX_DEV} root handle 1: htb default 2"));
    for class in ["1:2", "1:5"] {
        tc(&format!("class add dev {TX_DEV} parent 1: classid {class} htb rate 10gbit quantum 60000"));
    }
    let through = |class: &str| {
        let text = tc(&format!("-s class show dev {TX_DEV}"));
        let (_, rest) =
            text.split_once(&format!("class htb {class} ")).unwrap_or_else(|| panic!("no {class}: {text}"));
        number(rest.split_once(" bytes ").unwrap_or_else(|| panic!("no counter: {text}")).1, "")
    };
    // Fragments are what skb cannot do, so af_packet takes over.
    for (engine, setting) in [("skb", "frags 0"), ("af_packet", "frags 2")] {
        let before = (through("1:2"), through("1:5"));
        let script = format!(
            "pg tx0 'xmit_mode queue_xmit' '{setting}' 'show_engine 1' 'count 300' 'skb_priority 65541'
            pg pgctrl start; cat $P/tx0; pg tx0 'skb_priority 0' 'count 70'; pg pgctrl start"
        );
        let text = run_script(&lab, &script).stdout;
        assert!(text.contains(&format!("engine: {engine}")), "{text}");
        assert_eq!((through("1:2") - before.0, through("1:5") - before.1), (70, 300), "{engine}");
    }
    assert_eq!(lab.received_at_last(740), 740);
    Ok(())
}

fn ctrl_c() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = "trap true INT
        pg tx0 'count 0' 'ratep 5000'; echo ready >&2; pg pgctrl start; echo status $?; cat $P/tx0";
    let running = exec(&lab, script);
    running.until_it_says("ready");
    until("frames arrive", || lab.received() > 100);
    running.signal(Signal::SIGINT);
    let text = running.wait(LIMIT).expect_code(0).stdout;
    assert!(text.starts_with("status 0\n") && text.contains("\nResult: OK: "), "{text}");
    let sent = number(&text, "pkts-sofar:");
    assert_eq!(lab.received_at_last(sent), sent);
    Ok(())
}

fn during_a_run() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = "pg tx0 'count 3000' 'ratep 200'
        pg pgctrl start &
        until_sent 20; pg tx0 'pkt_size 200'; until_sent 40; pg tx0 'udp_dst_min 4000' 'ratep 4000'
        for i in 1 2 3 4 5; do cat $P/tx0 $P/kpktgend_0 > /dev/null; done
        wait; cat $P/tx0";
    let mut text = String::new();
    let seen = on_the_wire(&lab, 3000, || text = run_script(&lab, script).stdout);
    assert!(text.contains("pkts-sofar: 3000  errors: 0"), "{text}");
    assert_eq!(number(&text, "seq_num:"), 3001, "{text}");
    assert!(text.contains("3000 (200byte,0frags)"), "{text}");
    assert_eq!(lab.received_at_last(3000), 3000);
    assert!(numbers(&seen).into_iter().eq(1..=3000), "{:?}", numbers(&seen));
    Ok(())
}

/// The numbers of the pktgen headers, in order.
fn numbers(frames: &[Frame]) -> Vec<u32> {
    let number = |frame: &Frame| u32::from_be_bytes(frame.bytes[46..50].try_into().expect("four bytes"));
    let mut numbers: Vec<_> = frames.iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

fn between_bursts() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    // 32 at a time, so 160 a second, for 19 seconds without a signal; then single ones.
    let script = "pg tx0 'count 3000' 'burst 32' 'ratep 5'
        pg pgctrl start &
        until_sent 100; pg tx0 'burst 1'
        for port in 4001 4002 4003 4004; do pg tx0 \"udp_dst_min $port\"; done
        pg tx0 'ratep 4000'; wait";
    let seen = numbers(&on_the_wire(&lab, 3000, || drop(run_script(&lab, script))));
    let mut next = 1;
    for same in seen.chunk_by(|one, other| one == other) {
        assert_eq!(same[0], next, "{seen:?}");
        assert!(same.len() == 1 || same.len() <= 32 && next < 2900, "{} of {next}", same.len());
        next += same.len() as u32;
    }
    assert!(next == 3001 && seen[2999] == 3000 && seen[2998] == 2999, "{seen:?}");
    Ok(())
}

fn link_goes_down() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    // What sets it down is no child of the shell that writes: the signal of its end would end the
    // run as well.
    let script = "pg tx0 'count 0' 'ratep 1000'
        ((until_sent 101; ip link set tx0 down) &)
        pg pgctrl start; cat $P/tx0; cat $P/kpktgend_0";
    let text = run_script(&lab, script).stdout;
    assert!(text.contains("\nResult: OK: ") && text.contains("Stopped: tx0 \n"), "{text}");
    assert!(number(&text, "pkts-sofar:") > 100, "{text}");
    Ok(())
}

/// Row 21 of docs/pktgen.md. `exec` sets the MAC of the other end.
fn frames_for_others() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = "pg tx0 'count 5' 'xmit_mode netif_receive'; pg pgctrl start; cat $P/tx0";
    let text = run_script(&lab, script).stdout;
    assert!(text.contains("     pkts-sofar: 5  errors: 0\n") && text.contains("\nResult: OK: "), "{text}");
    assert_eq!(lab.received(), 0);
    Ok(())
}

/// Row 22.
fn too_long() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = "pg tx0 'count 5' 'pkt_size 65536'; grep Result $P/tx0; pg pgctrl start; cat $P/tx0";
    let text = run_script(&lab, script).stdout;
    assert!(text.starts_with("Result: OK: pkt_size=65536\n"), "{text}");
    assert!(
        text.ends_with("Result: ERROR: pkt_size 65536 is too long: a frame has at most 65535 bytes\n"),
        "{text}"
    );
    assert!(text.contains("     pkts-sofar: 0  errors: 0\n"), "{text}");
    assert_eq!(lab.received(), 0);
    Ok(())
}

/// Each namespace has a `tx0`.
fn in_another_netns() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let home = &lab.rx_netns;
    run(&["ip", "-n", home, "link", "add", "dev", TX_DEV, "type", "veth", "peer", "name", "tx9"]);
    run(&["ip", "-n", home, "link", "set", "dev", TX_DEV, "up"]);
    let inner = format!(
        "{PG}pg kpktgend_0 'add_device {TX_DEV}'; pg {TX_DEV} 'dst_mac {RX_MAC}' 'count 300'; pg pgctrl start"
    );
    let script = format!("ip netns exec {} bash -c \"$0\"; ls /proc/net/pktgen/{TX_DEV}", lab.tx_netns);
    let mut command = wirerate();
    command.args(["exec", "--netns", home, "--", "bash", "-c", &script, &inner]);
    let ended = Running::start(command).wait(LIMIT).expect_code(2);
    ended.says(&["No such file or directory", "tx0 sent 300 frames, 0 errors: OK: "]);
    assert_eq!(lab.received_at_last(300), 300);
    Ok(())
}

/// Row 23.
fn longer_than_the_mtu() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = "pg tx0 'count 5' 'pkt_size 1600'; grep Result $P/tx0; pg pgctrl start; cat $P/tx0";
    let text = run_script(&lab, script).stdout;
    assert!(text.starts_with("Result: OK: pkt_size=1600\n"), "{text}");
    assert!(
        text.contains("Result: ERROR: frames of 1600 bytes are too long for tx0: its MTU is 1500"),
        "{text}"
    );
    assert!(text.contains("     pkts-sofar: 0  errors: 0\n"), "{text}");
    assert_eq!(lab.received(), 0);
    Ok(())
}

/// The table "As in the kernel" of docs/pktgen.md.
fn as_the_kernel() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = "pg tx0 'flag IPV6'; grep Result $P/tx0
        pg tx0 'vlan_id 5' 'svlan_id 6' 'svlan_id 4096'; grep -e vlan_id -e Result $P/tx0
        printf 'count 5\\npkt_size 100\\n' | dd of=$P/tx0 status=none; grep -e Params -e Result $P/tx0";
    let text = run_script(&lab, script).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "Result: Flag -:IPV6:- unknown",
            "Result: OK: svlan_id=6",
            "Params: count 5  min_pkt_size: 0  max_pkt_size: 0",
            "Result: OK: count=5",
        ]
    );
    Ok(())
}

fn sixty_four() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = "for i in $(seq 63); do pg kpktgend_0 \"add_device tx0@$i\"; pg tx0@$i 'count 100'; done
        pg tx0 'count 100'; pg pgctrl start; cat $P/kpktgend_0; grep -hc 'pkts-sofar: 100 ' $P/tx0* | sort | uniq -c
        for file in $P/tx0*; do echo 'ratep 200' > $file; done
        pg pgctrl start; grep -hc 'pkts-sofar: 100  errors: 0' $P/tx0* | sort | uniq -c";
    let text = run_script(&lab, script).stdout;
    assert!(text.starts_with("Running: \nStopped: tx0@63 tx0@62 "), "{text}");
    assert_eq!(text.matches(" 64 1\n").count(), 2, "unpaced and paced: {text}");
    assert_eq!(lab.received_at_last(12_800), 12_800);
    Ok(())
}

/// Row 23 of docs/pktgen.md: the kernel sends on the newest until that has ended.
fn sharing() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let text = run_script(
        &lab,
        &until_all_send("for i in 1 2 3 4 5; do add kpktgend_$((i % 2)) $i 'count 0'; done"),
    )
    .stdout;
    let started: Vec<_> = text.lines().filter(|line| line.contains("started: ")).collect();
    assert_eq!(started.len(), 5, "{text}");
    let begun = |line: &&str| number(line, "started:");
    assert!(started.iter().all(|line| begun(line) == begun(&started[0])), "{text}");
    assert!(text.contains("attached: 2\n"), "one XDP program for each of the two threads: {text}");
    Ok(())
}

fn out_of_reach() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    run_script(&lab, &until_all_send("for i in 1 2 3; do add kpktgend_0 $i 'count 0' 'delay 1'; done"));
    Ok(())
}

/// A script that ends once all devices that `add` has added have sent 10,000 frames; it prints
/// their times.
fn until_all_send(add: &str) -> String {
    format!(
        "add() {{ thread=$1; i=$2; shift 2; pg $thread \"add_device tx0@$i\"; pg tx0@$i 'dst_mac {RX_MAC}' \"$@\"; }}
        pg kpktgend_0 rem_device_all; {add}
        pg pgctrl start &
        all() {{ for file in $P/tx0@*; do grep -q 'pkts-sofar: [0-9][0-9][0-9][0-9][0-9]' $file || return 1; done; }}
        for try in $(seq 3000); do if all; then break; fi; sleep 0.02; done
        echo attached: $(grep -lx 'link_type:.xdp' /proc/$PPID/fdinfo/* 2>/dev/null | wc -l)
        pg pgctrl stop; wait; all; grep -h started: $P/tx0@*"
    )
}

fn eight_on_two() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let script = "for i in 1 2 3; do pg kpktgend_0 \"add_device tx0@$i\"; done
        for i in 4 5 6 7; do pg kpktgend_1 \"add_device tx0@$i\"; done
        for file in $P/tx0*; do echo 'count 200' > $file; done
        for i in 2 3 6 7; do pg tx0@$i 'ratep 400'; done
        pg pgctrl start; cat $P/kpktgend_[01]; grep -hc 'pkts-sofar: 200  errors: 0' $P/tx0* | sort | uniq -c";
    let text = run_script(&lab, script).stdout;
    assert!(text.contains("Stopped: tx0@3 tx0@2 tx0@1 tx0 \n"), "{text}");
    assert!(text.contains("Stopped: tx0@7 tx0@6 tx0@5 tx0@4 \n"), "{text}");
    assert!(text.ends_with(" 8 1\n"), "{text}");
    assert_eq!(lab.received_at_last(1600), 1600);
    Ok(())
}

fn daemon() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let dir = lab.file("pktgen");
    let words = format!("serve --netns {} --mount {}", lab.tx_netns, dir.display());
    let daemon = wirerate_start(&words);
    until("the tree is there", || dir.join("pgctrl").exists());
    for (file, text) in [
        ("kpktgend_1", format!("add_device {TX_DEV}")),
        (TX_DEV, format!("dst_mac {RX_MAC}")),
        (TX_DEV, "count 500".into()),
        ("pgctrl", "start".into()),
        (TX_DEV, "count 0".into()),
        (TX_DEV, "ratep 1000".into()),
    ] {
        fs::write(dir.join(file), text)?;
    }
    assert_eq!(lab.received_at_last(500), 500);
    let second = wirerate_run(&words);
    assert_eq!(second.code, Some(3));
    assert!(second.stderr.contains("is already served by process"), "{}", second.stderr);
    let pgctrl = dir.join("pgctrl");
    let writer = std::thread::spawn(move || fs::write(pgctrl, "start\n"));
    until("it sends", || lab.received() > 600);
    daemon.signal(Signal::SIGTERM);
    daemon.wait(LIMIT).expect_code(0);
    assert!(writer.join().expect("the writer ends").is_ok(), "a writer that waits gets its answer");
    assert!(!dir.exists());
    Ok(())
}

/// Options of `send`, and what says the same in a script.
const SAME: &[(&str, &[&str])] = &[
    ("--mpls 16,0x0002000a", &["mpls 00010040,0002000a"]),
    ("--mpls 16,17 --random mpls", &["mpls 00010140,00011140"]),
    (
        "--vlan 5 --vlan-p 7 --vlan-cfi --svlan 6 --svlan-p 3 --svlan-cfi --size 80",
        &["vlan_id 5", "vlan_p 7", "vlan_cfi 1", "svlan_id 6", "svlan_p 3", "svlan_cfi 1", "pkt_size 80"],
    ),
    (
        "--vlan 5 --svlan 6 --random vlan,svlan --size 70",
        &["vlan_id 5", "svlan_id 6", "flag VID_RND", "flag SVID_RND", "pkt_size 70"],
    ),
    ("--clone 7 --udp-src 9-108", &["clone_skb 7", "udp_src_max 109"]),
    ("--frags 3 --size 200", &["frags 3", "pkt_size 200"]),
    ("--tos 0xb8 --csum", &["tos b8", "flag UDPCSUM"]),
    ("--imix 60:7,594:4,1514:1", &["imix_weights 60,7 594,4 1514,1"]),
    (
        "--flows 4 --flow-len 5 --dst 10.0.0.1-10.0.0.9",
        &["flows 4", "flowlen 5", "flag FLOW_SEQ", "dst_min 10.0.0.1", "dst_max 10.0.0.9"],
    ),
    (
        "--flows 4 --flow-len 5 --dst 10.0.0.0/24 --random dst,flow",
        &["flows 4", "flowlen 5", "flag IPDST_RND", "dst_min 10.0.0.0", "dst_max 10.0.1.0"],
    ),
    (
        "--queues cpu --skb-priority 6 --node 0",
        &["flag QUEUE_MAP_CPU", "skb_priority 6", "flag NODE", "node 0"],
    ),
    (
        "--queues 2 --size 61-66",
        &["queue_map_min 2", "queue_map_max 2", "min_pkt_size 61", "max_pkt_size 66"],
    ),
    (
        "--xmit-mode queue_xmit --size 61-67 --random size",
        &["xmit_mode queue_xmit", "min_pkt_size 61", "max_pkt_size 68", "flag TXSIZE_RND"],
    ),
];

fn same_as_send() -> TestResult {
    const FRAMES: usize = 60;
    let lab = Lab::new(Peer::Gro);
    for (words, commands) in SAME {
        let mut sent = on_the_wire(&lab, FRAMES, || {
            let words = format!("--no-timestamp --seed 11 --count {FRAMES} --cpus 0 {words}");
            wirerate_run(&sending(&lab, &words)).expect_code(0);
        });
        let commands: String = commands.iter().map(|command| format!(" '{command}'")).collect();
        let scripted = on_the_wire(&lab, FRAMES, || {
            let all = "'pkt_size 60' 'dst 198.18.0.2' 'seed 11' 'flag NO_TIMESTAMP'";
            run_script(&lab, &format!("pg tx0 'count {FRAMES}' {all}{commands}\npg pgctrl start"));
        });
        sent.iter_mut().zip(&scripted).for_each(|(sent, scripted)| sent.time_ns = scripted.time_ns);
        assert_eq!(sent, scripted, "{words}");
    }
    Ok(())
}

/// Answers of the oracle that differ on purpose: scenario, steps, and their row of
/// docs/pktgen.md.
const OTHER_ANSWERS: &[(&str, &[u32], &str)] = &[
    (
        "thread/rename",
        &[3, 4, 5, 7, 8, 9],
        "row 7: device instances follow their interface and keep their suffix",
    ),
    ("xmit/veth", &[2, 3, 8, 9, 10, 11, 12], "row 8: no skb is shared, so veth may have clone_skb and burst"),
    ("flag/each", &[22], "row 10: NODE_ALLOC as the HOWTO has it"),
    ("device/unknown", &[9, 12, 13, 14], "row 10: svlan, dstmac and srcmac as the HOWTO has them"),
];

fn answers_of_the_oracle() -> TestResult {
    let oracle = oracle();
    let lab = Lab::new(Peer::Gro);
    // A tap carries no frames here, but it is a device that shares skbs.
    let script = format!(
        "ip link set lo up; ip tuntap add tap0 mode tap; ip link set tap0 up; cd {}
        exec python3 replay_commands.py --fresh --sharing-device tap0 commands.jsonl",
        oracle.display()
    );
    let mut command = wirerate();
    command.args(["exec", "--netns", &lab.tx_netns, "--", "bash", "-c", &script]);
    let out = Running::start(command).wait(LIMIT).expect_code(1).stdout;
    let (summary, failed) =
        out.trim_end().rsplit_once('\n').map_or(("", ""), |(failed, summary)| (summary, failed));
    let expected: Vec<(String, &str)> = OTHER_ANSWERS
        .iter()
        .flat_map(|(scenario, steps, why)| {
            steps.iter().map(move |s| (format!("FAIL {scenario} step {s}: "), *why))
        })
        .collect();
    for line in failed.lines() {
        assert!(expected.iter().any(|(start, _)| line.starts_with(start)), "{line}");
    }
    for (start, why) in &expected {
        let differs = failed.lines().any(|line| line.starts_with(start));
        assert!(differs, "{start}differs no longer; it was listed for {why}");
    }
    assert_eq!(summary, format!("581 passed, {} failed, 0 skipped", expected.len()));
    Ok(())
}

/// Cases of the oracle that differ on purpose, and why.
const OTHER_FRAMES: &[(&str, &str)] = &[
    ("burst-2", "docs/pktgen.md, row 2: exactly `count` frames are sent"),
    ("burst-4", "docs/pktgen.md, row 2: exactly `count` frames are sent"),
];

fn frames_of_the_oracle() -> TestResult {
    let oracle = oracle();
    let tool = oracle.join("check_frames.py").display().to_string();
    let data = oracle.join("frames.json").display().to_string();
    let lab = Lab::new(Peer::Gro);
    let names: Vec<String> = run(&["python3", &tool, "--list", &data])
        .lines()
        .filter_map(|line| line.split('\t').next().map(str::to_owned))
        .collect();
    assert!(names.len() > 60, "{names:?}");
    let mut script = "pg pgctrl reset\n".to_owned();
    for name in &names {
        script += &run(&["python3", &tool, "--commands", name, TX_DEV, &data]);
        script += &format!("\ncat $P/{TX_DEV} > {}; pg pgctrl reset\n", status_file(&lab, name).display());
    }
    let wire = lab.file("wire.pcapng");
    let mut dumpcap = in_netns(&lab.rx_netns, "dumpcap");
    dumpcap.args(["-B", "64", "-i", RX_DEV, "-w"]).arg(&wire);
    let watcher = Running::start(dumpcap);
    watcher.until_it_says("File: ");
    run_script(&lab, &script);
    // It says how many it has as they come, so once it has all of them nothing is on its way any
    // more.
    let all = format!("Packets: {} ", lab.received());
    watcher.until_it_says(&all);
    watcher.signal(Signal::SIGINT);
    watcher.wait(LIMIT).expect_code(0);
    let failed: Vec<String> =
        names.iter().filter_map(|name| check(&lab, &tool, &data, name, &wire)).collect();
    for (name, why) in OTHER_FRAMES {
        let differs = failed.iter().any(|text| text.starts_with(&format!("{name} ")));
        assert!(differs, "{name} differs no longer; it was listed for this: {why}");
    }
    let is_meant =
        |text: &&String| OTHER_FRAMES.iter().any(|(name, _)| text.starts_with(&format!("{name} ")));
    let unmeant: Vec<_> = failed.iter().filter(|text| !is_meant(text)).collect();
    assert!(unmeant.is_empty(), "{}", unmeant.into_iter().cloned().collect::<Vec<_>>().join("\n"));
    Ok(())
}

fn status_file(lab: &Lab, name: &str) -> PathBuf {
    lab.file(&format!("{name}.status"))
}

/// What the oracle finds wrong with the frames and the device file of a case, if anything.
fn check(lab: &Lab, tool: &str, data: &str, name: &str, wire: &Path) -> Option<String> {
    let mut command = std::process::Command::new("python3");
    command.args([tool, "--case", name, "--capture"]).arg(wire).arg("--status").arg(status_file(lab, name));
    command.args([
        "--device",
        TX_DEV,
        "--src-mac",
        TX_MAC,
        "--src-ip",
        "198.18.0.1",
        "--src-ip6",
        "::",
        data,
    ]);
    let outcome = Running::start(command).wait(LIMIT);
    (outcome.code != Some(0)).then(|| format!("{name} {}{}", outcome.stdout, outcome.stderr))
}

/// The folder with the recordings of a real pktgen.
fn oracle() -> PathBuf {
    testkit::root().join("lab/oracle")
}
