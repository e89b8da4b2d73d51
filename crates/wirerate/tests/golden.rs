//! What the program says: help, version and error texts, compared with `tests/golden`. `UPDATE=1`
//! rewrites them.

mod tries;

use std::process::{Command, Stdio};
use testkit::Folder;

struct Said {
    status: i32,
    stdout: String,
    stderr: String,
}

fn wirerate(args: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_wirerate"))
        .args(args)
        .stdin(Stdio::null())
        .env_remove("COLUMNS")
        .output()
        .expect("the binary under test starts");
    let stderr = String::from_utf8(output.stderr).expect("it prints UTF-8");
    let stdout = String::from_utf8(output.stdout).expect("it prints UTF-8");
    tries::check(&stderr);
    testkit::check_json_lines(&stdout);
    Said {
        status: output.status.code().expect("it was not killed"),
        stdout,
        stderr: without_namespaces(stderr),
    }
}

/// Network namespaces of the machine that an error lists, as one word.
fn without_namespaces(stderr: String) -> String {
    let Some((first, rest)) = stderr.split_once("no-such-namespace (") else { return stderr };
    let (_, rest) = rest.split_once(')').expect("the list ends");
    format!("{first}no-such-namespace (NAMESPACES){rest}")
}

/// The answers to other programs' words, those that no other test makes the program print included.
#[test]
fn advice_for_the_words_of_other_programs_can_be_pasted() {
    for foreign_word in wirerate::other_tools::FOREIGN_WORDS {
        let tries = foreign_word.tries.iter().map(|advice| format!("  try: {advice}\n"));
        tries::check(&tries.collect::<String>());
    }
    for command in
        ["tcpdump", "pktgen", "iperf3", "listen", "devices", "version", "sned", "replay", "exec", "capture"]
    {
        let said = wirerate(&[command]);
        assert!(said.status == 2 && said.stderr.contains("\n  try: "), "{}", said.stderr);
        assert_eq!(said.stderr.find("wirerate: cannot "), Some(0), "{}", said.stderr);
        assert!(!said.stderr.lines().skip(1).any(|line| !line.starts_with("  try: ")), "{}", said.stderr);
    }
}

/// Each wrong option before and after the other ones: the advice stood behind a second `--`, named
/// options that the command has not, or repeated the fault.
#[test]
fn advice_for_a_wrong_option_can_be_pasted_wherever_it_stands() {
    const PATH: &str = "--tx eth8 --rx eth9 --dst 198.18.0.2";
    let commands = [
        ("send", "eth9 --dst 198.18.0.2 --count 10"),
        ("capture", "eth9 -w /dev/null"),
        ("count", "eth9"),
        ("sink", "eth9"),
        ("receive", "eth9"),
        ("reflect", "eth9"),
        ("measure", PATH),
        ("search", PATH),
        ("rfc2544", PATH),
        ("replay", "eth9 no-such.pcapng"),
        ("connect", "eth9 --dst 198.18.0.2 --cps 10"),
        ("accept", "eth9 --listen 198.18.0.2:80"),
    ];
    let wrong = [
        "--size 64",
        "--sizes 64",
        "--frame-sizes 64",
        "-t 1",
        "-c 5",
        "-q",
        "-J",
        "--netns C",
        "--flows 4",
        "--max-pps 500",
        "--pps 0",
        "-i eth9",
        "--udp",
        "-n 5",
        "-v",
        "--mbps 10",
        "-b 1G",
        "-P 2",
        "-p 9",
        "-R",
        "--dscp 46",
        "--bidirectional",
        "--random sport",
        "--expect lost",
        "--csv",
        "-w x.pcap",
        "--vlan 5000",
        "-e",
        "-D",
        "-u",
        "--ramp 1M",
        "--imix nonsense",
        "--help-me",
        "--duration 1h30",
        "--rate fast",
    ];
    let mut refused = 0;
    for (command, rest) in commands {
        for option in wrong {
            let lines = [format!("{command} {option} {rest}"), format!("{command} {rest} {option}")];
            let dashed = rest.strip_prefix("--tx eth8 --rx eth9 ");
            let dashed = dashed.map(|rest| format!("{command} --tx eth8 --rx eth9 {option} -- {rest}"));
            for line in lines.into_iter().chain(dashed) {
                // Its `try:` lines are parsed as they are.
                let said = wirerate(&line.split(' ').collect::<Vec<_>>());
                assert!(said.status == 2 || said.status == 3, "{line}: {}{}", said.status, said.stderr);
                let is_told = said.stderr.starts_with("wirerate: ");
                assert!(is_told && !said.stderr.contains("invalid digit"), "{line}: {}", said.stderr);
                for advice in said.stderr.lines().filter(|advice| advice.contains("  try: ")) {
                    assert!(advice.matches(" -- ").count() < 2, "{line}: {advice}");
                }
                refused += usize::from(said.status == 2);
            }
        }
    }
    assert!(refused > 300, "{refused}");
}

/// An answer named a word `DEV` where the device was typed, `--icmp` was answered with TCP, and
/// files without `-w` with `--write <FILE> must be given`.
#[test]
fn foreign_words_of_capture_replay_and_measure_are_answered_with_what_was_typed() {
    let mut text = String::new();
    for line in [
        "capture lab0 --netns a -Y udp",
        "capture -i lab0 -K",
        "capture lab0 -tttt",
        "capture lab0 -G 60",
        "capture lab0 -C 5",
        "capture lab0 -W 3",
        "capture lab0 -b files:3",
        "capture lab0 -z gzip -w x",
        "capture lab0 -d",
        "send lab0 -R",
        "send lab0 --icmp",
        "send lab0 --gtp 5",
        "send lab0 -B 198.18.0.1",
        "send lab0 --dst 198.18.0.2 --window 5",
        "replay tests/golden/version.txt no-such-dev",
        "replay tests/golden/version.txt no-such-dev --netns a --dry-run",
        "replay tests/golden/version.txt",
        "replay lab0",
        "replay -i lab0",
        "replay lab0 f.pcap --topspeed",
        "measure lab0 lab1",
        "measure --tx lab0 --rx lab1 --dst nowhere --count 5",
        "measure --tx lab0 --rx lab1 --no-such-option 5",
        "search --tx lab0 --rx lab1 --dst 198.18.0.2 --count 5",
        "search --tx lab0 --pps 5k --rx lab1 --dst 198.18.0.2",
        "rfc2544 --tx lab0 --rx lab1 --dst 198.18.0.2 -- --rate 1Gbit",
        "send lab0 --dst 198.18.0.2 --vlan 5000",
        "send lab0 --dst 198.18.0.2 --vlan 5,6 --svlan 7",
        "send lab0 --dst 198.18.0.2 --size 60 --frame-size 64",
        "send lab0 --dst 198.18.0.2 --imix complex",
        "send lab0 --dst 198.18.0.2 --flows 10 --random sport --sport 1-9",
        "send lab0 --dst 198.18.0.2 --udp-src 5 --udp-dst 6 --flows 7",
        "send lab0 --dst 198.18.0.2 --flows 7 --flow-len 3 --random flow",
        "rfc2544 lab0 lab1",
        "receive lab0 udp port 9",
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        let said = wirerate(&args);
        assert_eq!((said.status, said.stdout.as_str()), (2, ""), "{line}");
        text += &format!("$ wirerate {line}\n{}", said.stderr);
    }
    testkit::golden("other_tools_but_send.txt", &text);
}

/// `measure -t 1`, `-q`, `-J`, `--netns` and options of send before `--` were answered with a line
/// that had `--` twice.
#[test]
fn commands_on_a_path_take_the_options_of_send_anywhere() {
    for line in [
        "measure --tx lab0 --rx lab1 --netns no-such-namespace --dst 198.18.0.2 -t 1 -q -J",
        "measure -c 5 --allow-default-route --tx lab0 --netns no-such-namespace --rx lab1 -- --dst 198.18.0.2",
        "measure --dst 198.18.0.2 --pps 5k --flows 7 --netns no-such-namespace --tx lab0 --rx lab1",
        "search --tx lab0 --netns no-such-namespace --rx lab1 --dst 198.18.0.2 --flows 1,2 -t 1m -q -J",
        "search --tcp --tx lab0 --netns no-such-namespace --rx lab1 --size 60,simple --dst 198.18.0.2",
        "rfc2544 --dst 198.18.0.2 --tx lab0 --netns no-such-namespace --rx lab1 --sizes 64,1518",
        "rfc2544 --dst 198.18.0.2 --tx lab0 --netns no-such-namespace --rx lab1 --size 60 -J",
    ] {
        let said = wirerate(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(said.status, 3, "{line}: {}", said.stderr);
        assert!(said.stderr.contains("no network namespace named no-such-namespace"), "{}", said.stderr);
    }
}

/// Compares everything `args` makes the program say with the golden file `name`.
fn golden(name: &str, args: &[&str]) {
    let said = wirerate(args);
    let text =
        format!("$ wirerate {}\n{}{}exit code {}\n", args.join(" "), said.stdout, said.stderr, said.status);
    testkit::golden(name, &text);
}

#[test]
fn version() {
    let said = wirerate(&["--version"]);
    let profile = concat!("profile ", env!("WIRERATE_PROFILE"));
    assert!(said.stdout.contains(profile), "{}", said.stdout);
    assert!(said.stdout.contains("features all"), "{}", said.stdout);
    let stdout = said.stdout.replace(profile, "profile PROFILE");
    testkit::golden(
        "version.txt",
        &format!("$ wirerate --version\n{stdout}{}exit code {}\n", said.stderr, said.status),
    );
}

#[test]
fn an_error_of_a_command_with_json_is_a_line_of_json() {
    for (args, what, why, exit_code) in [
        (&["send", "no-device", "--json", "--dst", "198.18.0.2"][..], "send on no-device", "no-device", 3),
        (
            &["send", "lo", "-J", "--pps", "0", "--dst-mac", "02:00:00:00:00:02", "--dry-run"],
            "send at --pps 0",
            "no frame",
            2,
        ),
        (&["analyze", "/no/such/file", "-qJ"], "read /no/such/file", "No such file", 3),
    ] {
        let said = wirerate(args);
        let line: serde_json::Value = serde_json::from_str(&said.stdout).expect("a line of JSON");
        assert_eq!((&line["schema"], &line["what"]), (&"wirerate.error/1".into(), &what.into()), "{line}");
        assert_eq!((&line["exit_code"], said.status), (&exit_code.into(), exit_code), "{line}");
        assert!(line["why"].as_str().is_some_and(|text| text.contains(why)), "{line}");
        assert!(line["try"].as_array().is_some_and(|tries| !tries.is_empty()), "{line}");
        assert!(said.stderr.contains(why), "{}", said.stderr);
    }
    let unread = wirerate(&["send", "lo", "--json", "--no-such-option"]);
    let line: serde_json::Value = serde_json::from_str(&unread.stdout).expect("a line of JSON");
    assert_eq!(line["what"], "use --no-such-option with send", "{line}");
    assert_eq!(wirerate(&["send", "no-device"]).stdout, "");
}

#[test]
fn help() {
    golden("help.txt", &["--help"]);
}

#[test]
fn report_of_a_file_that_is_no_result_file_is_refused() {
    golden("report_no_file.txt", &["report", "/no/such/file.jsonl"]);
    golden("report_no_result.txt", &["report", "tests/golden/version.txt"]);
}

#[test]
fn report_writes_the_page() {
    let folder = Folder::new("report");
    let path = folder.file("report.html");
    let said = wirerate(&["report", "../report/tests/golden/short.jsonl", "-o", &path]);
    let page = std::fs::read_to_string(&path);
    assert_eq!((said.status, said.stdout.as_str(), said.stderr.as_str()), (0, "", ""));
    assert_eq!(
        page.expect("it was written"),
        wirerate(&["report", "../report/tests/golden/short.jsonl"]).stdout
    );
}

#[test]
fn no_command_is_bad_usage() {
    golden("no_command.txt", &[]);
}

#[test]
fn unknown_command_is_bad_usage() {
    golden("unknown_command.txt", &["sned", "eth0"]);
    golden("help_unknown_command.txt", &["help", "sned"]);
}

#[test]
fn help_commands_is_the_table() {
    let said = wirerate(&["help", "commands"]);
    assert_eq!(said.status, 0, "{}", said.stderr);
    for word in ["pkt_size", "rem_device_all", "UDPDST_RND"] {
        assert!(said.stdout.contains(word), "{word}");
        assert!(wirerate(&["man"]).stdout.contains(word), "{word}");
    }
}

/// Nothing is cut: each command has its usage, its options in lines that a terminal shows, and a
/// text for each option.
#[test]
fn help_of_each_command_is_whole() {
    help_of_subcommands_is_whole(&wirerate::parser(), "");
}

/// `words` name `parent`, without the name of the program; each is followed by a blank.
fn help_of_subcommands_is_whole(parent: &clap::Command, words: &str) {
    let is_listed = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    for command in parent.get_subcommands().filter(is_listed) {
        let name = format!("{words}{}", command.get_name());
        let said = wirerate(&name.split(' ').chain(["--help"]).collect::<Vec<_>>());
        assert_eq!((said.status, said.stderr.as_str()), (0, ""), "{name}");
        assert!(said.stdout.contains(&format!("Usage: wirerate {name}")), "{name}: {}", said.stdout);
        let wide = said.stdout.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{name}");
        for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
            let about = option.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty(), "{} of {name} has no text", option.get_id());
            let is_there = option.get_long().is_none_or(|long| said.stdout.contains(&format!("--{long}")));
            assert!(is_there, "{} of {name} is not in its help", option.get_id());
        }
        help_of_subcommands_is_whole(command, &format!("{name} "));
    }
}

/// Fields that do not depend on the machine or the moment.
const SHOW: [&str; 7] =
    ["send", "no-such-dev", "--dry-run=3", "--no-timestamp", "--seed", "7", "--udp-checksum"];

fn show(name: &str, words: &str) {
    let args: Vec<_> = SHOW.into_iter().chain(words.split_whitespace()).collect();
    golden(name, &args);
}

#[test]
fn dry_run_shows_the_first_frames() {
    show("dry_run_v4.txt", "--dst 198.18.0.0/30 --dst-mac 02:00:00:00:00:02 --udp-dst 10-12 --rate 1Gbit");
    show("dry_run_v6.txt", "--dst fd00::/112 --src fd01::1 --size 86-1514 --vlan 5 --svlan 9 --random size");
    show("dry_run_json.txt", "--dst 198.18.0.0/15 --random dst,udp-src --udp-src 1000-1999 --json --count 2");
}

#[test]
fn frames_of_the_packet_language_are_shown_decoded() {
    let udp = "{ eth(da=02:00:00:00:00:02) ipv4(sa=10.0.0.1, da=10.0.0.2) udp(sp=4000, dp=4001) \"hello\" }";
    let said = wirerate(&["send", "x", "--frame", udp, "--dry-run", "--count", "1"]);
    assert_eq!(said.status, 0, "{}", said.stderr);
    assert!(said.stdout.contains("UDP       4000 > 4001  checksum right"), "{}", said.stdout);
    let said = wirerate(&["send", "x", "--frame", "{ fill(0xff, 20) }", "--dry-run", "--count", "1"]);
    assert!(
        said.stdout.contains("payload   6 bytes\n    000e  ff ff ff ff ff ff\n"),
        "{}{}",
        said.stdout,
        said.stderr
    );
    assert!(!said.stderr.contains("no destination MAC"), "{}", said.stderr);
    let said = wirerate(&["send", "x", "--frame", "{ udp() }", "--dry-run", "--count", "1"]);
    assert!(said.stderr.contains("packet 1 has no destination MAC: it is zero"), "{}", said.stderr);
    let said = wirerate(&["send", "x", "--frame", udp, "--dst", "10.0.0.1"]);
    assert_eq!(said.status, 2, "{}", said.stderr);
}

#[test]
fn any_frame_is_decoded_by_a_dry_run() {
    let packets = "\
        { eth(da=02:00:00:00:00:02) vlan(id=5) ipv4(sa=198.18.0.1, da=198.18.0.2, ttl=64) tcp(sp=4000, dp=80, syn) }
        { eth(da=02:00:00:00:00:02) ipv4(sa=198.18.0.1, da=198.18.0.2) icmp4(echorequest, id=1, seq=2) \"hello\" }
        { arp(request, sip=198.18.0.1, tip=198.18.0.2) }
        { ipv4(sa=198.18.0.1, da=198.18.0.2) udp(sp=5000) vxlan(vni=42) eth() ipv4(da=10.0.0.2) tcp(csum=1) }";
    golden("dry_run_any.txt", &["send", "x", "--frame", packets, "--dry-run", "--count", "4", "--quiet"]);
    golden(
        "dry_run_any_json.txt",
        &["send", "x", "--frame", packets, "--dry-run", "--count", "4", "--quiet", "--json"],
    );
}

/// The packet that the options describe, as `--dry-run` prints it, makes the same frames.
#[test]
fn options_and_the_packet_that_a_dry_run_prints_make_the_same_frames() {
    for options in [
        "--tcp --syn --dport 80 --sport 1024-65535 --random udp-src,src --src 10.0.0.0/8",
        "--icmp echo --payload hello --ttl 3 --vlan 5 --svlan 6",
        "--arp --size 60",
        "--tcp --size 60-1514 --random size",
        "--payload hello --imix 60:7,594:4,1514:1",
        "--vxlan 42 --tcp --inner-dst 10.0.0.1-10.0.0.9",
        "--gre --inner-dst fd00::2 --payload 0x00ff22",
    ] {
        let run = ["send", "x", "--seed", "5", "--count", "9", "--no-timestamp", "--dry-run=9"];
        let to = ["--dst", "198.18.0.2", "--dst-mac", "02:00:00:00:00:02"];
        let by_options: Vec<&str> = run.into_iter().chain(to).chain(options.split(' ')).collect();
        let by_options = wirerate(&by_options);
        assert_eq!(by_options.status, 0, "{}", by_options.stderr);
        let packet = by_options.stderr.lines().find_map(|line| line.strip_prefix("wirerate: --frame '"));
        let (packet, sizes) = packet.and_then(|text| text.split_once('\'')).expect("the packet is printed");
        let sizes: Vec<&str> = sizes.split_whitespace().collect();
        let by_packet = wirerate(&[&run[..], &["--frame", packet], &sizes].concat());
        assert_eq!(by_packet.stdout, by_options.stdout, "{packet}");
        assert!(!by_packet.stdout.contains("WRONG"), "{}", by_packet.stdout);
    }
}

#[test]
fn options_that_do_not_combine_say_why() {
    for (name, words) in [
        ("options_arp_ttl.txt", &["--dst", "198.18.0.2", "--arp", "--ttl", "3"][..]),
        ("options_icmp_port.txt", &["--dst", "198.18.0.2", "--icmp", "echo", "--dport", "80"]),
        ("options_tcp_icmp.txt", &["--dst", "198.18.0.2", "--icmp", "echo", "--tcp"]),
        ("options_syn_alone.txt", &["--dst", "198.18.0.2", "--syn"]),
        ("options_no_destination.txt", &["--tcp"]),
        ("options_bad_payload.txt", &["--dst", "198.18.0.2", "--payload", "0x123"]),
        ("options_no_payload_file.txt", &["--dst", "198.18.0.2", "--payload", "@/no/such/file"]),
        ("options_inner_alone.txt", &["--dst", "198.18.0.2", "--inner-dst", "198.19.0.9"]),
        ("frame_with_dst.txt", &["--frame", "{ eth() }", "--dst", "198.18.0.2"]),
        ("frame_short_size.txt", &["--frame", "{ eth() }", "--size", "10-90"]),
        ("frame_with_tcp.txt", &["--frame", "{ eth() }", "--tcp"]),
        ("frame_with_signature.txt", &["--frame", "{ eth() }", "--signature", "full"]),
        ("frame_with_queues.txt", &["--frame", "{ eth() }", "--queues", "0-3"]),
        ("frame_no_capture.txt", &["--frame", "{ pcap(\"/no/such/file.pcap\", 1) }"]),
    ] {
        golden(name, &[&["send", "x", "--dry-run"], words].concat());
    }
}

#[test]
fn a_frame_of_a_capture_is_sent() {
    let folder = std::env::temp_dir().join(format!("wirerate-pcap-frame-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder in /tmp");
    let file = folder.join("a.pcap").to_str().expect("a plain path").to_owned();
    let written = wirerate(&["trafgen", "{ eth() 1 2 3 } { eth() 4 5 6 }", "-n", "2", "-o", &file]);
    let packet = format!("{{ pcap(\"{file}\", 2) }}");
    let shown = wirerate(&["send", "x", "--frame", &packet, "--dry-run=1", "--count", "1"]);
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    assert_eq!((written.status, shown.status), (0, 0), "{}{}", written.stderr, shown.stderr);
    assert!(shown.stdout.contains("000e  04 05 06\n"), "{}", shown.stdout);
}

#[test]
fn a_file_in_the_packet_language_is_shown_by_send() {
    let folder = Folder::new("frames");
    let file = &folder.file("x.cfg");
    std::fs::write(file, wirerate(&["trafgen", "--example"]).stdout).expect("a file for the frames");
    let said = wirerate(&["send", "x", "--frames", file, "--dry-run=3", "--count", "3"]);
    assert_eq!((said.status, said.stdout.matches("frame ").count()), (0, 3), "{}", said.stderr);
    std::fs::write(file, "{ eth(da=1 }").expect("another text");
    let said = wirerate(&["send", "x", "--frames", file, "--dry-run"]);
    std::fs::remove_file(file).expect("the file is there");
    assert_eq!(said.status, 2, "{}", said.stderr);
    assert!(said.stderr.contains(&format!("cannot read {file}: ")), "{}", said.stderr);
    let said = wirerate(&["send", "x", "--frames", file, "--dry-run"]);
    assert_eq!(said.status, 3, "{}", said.stderr);
}

#[test]
fn words_that_cannot_be_read_are_underlined() {
    for (name, words) in [
        ("bad_rate.txt", "--rate 1Gbut"),
        ("bad_duration.txt", "--duration 10parsec"),
        ("bad_address.txt", "--dst 10.0.0.1-10.0.0.300"),
        ("bad_field.txt", "--random dst,flavour"),
    ] {
        show(name, words);
    }
}

#[test]
fn errors_of_a_packet_show_the_place() {
    for (name, packet) in [
        ("trafgen_unknown_function.txt", "{ eth(), ipx(), 1 }"),
        ("trafgen_unknown_field.txt", "{ eth(), udp(source=5) }"),
        ("trafgen_bad_value.txt", "{\n  ipv4(sa=198.18.0.256)\n}"),
        ("trafgen_bad_argument.txt", "{ fill(0xff,) }"),
        ("trafgen_bad_range.txt", "{ udp(sp=dinc(9, 3)) }"),
        ("trafgen_bad_layer.txt", "{ udp() tcp() }"),
        ("trafgen_late_header.txt", "{ fill(0, 14), ipv4() }"),
        ("trafgen_no_end.txt", "{ 1, 2 "),
        ("trafgen_no_header.txt", "{ fill(0, 40) csumudp(30, 34) }"),
    ] {
        golden(name, &["trafgen", packet, "-o", "never.pcap", "-n", "1"]);
    }
    golden("trafgen_no_device.txt", &["trafgen", "{ eth() }", "-o", "no-such-dev", "-n", "1"]);
    golden("trafgen_verbose.txt", &["trafgen", "{ udp(sp=dinc(), dp=drnd(80, 90)) drnd(9) }", "-V"]);
}

#[test]
fn the_example_of_trafgen_is_a_configuration() {
    let example = wirerate(&["trafgen", "--example"]).stdout;
    let verbose = wirerate(&["trafgen", &example, "--verbose"]);
    assert_eq!(verbose.status, 0, "{}", verbose.stderr);
    assert!(verbose.stdout.contains("packet 1: 67 bytes"), "{}", verbose.stdout);
}

#[test]
fn trafgen_reads_the_frames_that_it_wrote() {
    let folder = Folder::new("trafgen");
    let file = |name: &str| folder.file(name);
    let example = wirerate(&["trafgen", "--example"]).stdout;
    let write = |input: &[&str], out: &str| {
        let run = wirerate(&[&["trafgen", "-n", "6", "-E", "1", "-o", &file(out)], input].concat());
        assert_eq!(run.status, 0, "{}", run.stderr);
    };
    write(&[&example], "a.cfg");
    write(&["-i", &file("a.cfg")], "a.pcap");
    write(&["--in", &file("a.pcap")], "b.cfg");
    write(&[&format!("{{ pcap(\"{}\", 1) }} {{ pcap(\"{0}\", 2) }}", file("a.pcap")), "-P", "1"], "c.cfg");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("the file is there");
    assert_eq!(read("a.cfg"), read("b.cfg"));
    let first_two = |text: &str| text.split_inclusive("}\n").take(2).collect::<String>();
    assert_eq!(first_two(&read("c.cfg")), first_two(&read("a.cfg")));
}

#[test]
fn trafgen_passes_a_configuration_through_cpp() {
    testkit::needs!(testkit::has_program("cpp"));
    let folder = Folder::new("cpp");
    let path = folder.file("x.cfg");
    let text = "#include <stddef.h>\n{ fill(BYTE, ETH_ALEN), c16(ETH_P_IP | TCP_FLAG_SYN) }\n";
    std::fs::write(&path, text).expect("the file can be written");
    let run = wirerate(&["trafgen", "-i", &path, "-p", "-D", "BYTE=0xab", "-V"]);
    assert_eq!(run.stdout, "packet 0: 8 bytes\n  0000  ab ab ab ab ab ab 08 02\n", "{}", run.stderr);
}

#[test]
fn words_that_do_not_go_together_are_bad_usage() {
    for (name, words) in [
        ("rate_and_pps.txt", "--dst 10.0.0.1 --rate 1Gbit --pps 1M"),
        ("threads_and_cpus.txt", "--dst 10.0.0.1 --threads 2 --cpus 0,1"),
        ("no_destination.txt", ""),
        ("v6_range.txt", "--dst fd00::1-fd00::9"),
        ("last_port.txt", "--dst 10.0.0.1 --udp-dst 60000-65535"),
        ("short_frame.txt", "--dst 10.0.0.1 --size 42"),
        ("rate_zero.txt", "--dst 10.0.0.1 --rate 0bit"),
        ("no_netns.txt", "--dst 10.0.0.1 --netns no-such-namespace"),
        ("unwritable.txt", "--dst 10.0.0.1 --write /proc/no/such/frames.pcapng"),
    ] {
        show(name, words);
    }
}

/// The device is looked for before anything that needs a privilege.
#[test]
fn a_missing_device_is_refused() {
    golden("no_device.txt", &["send", "no-such-dev", "--dst", "10.0.0.1"]);
    golden("doctor_no_device.txt", &["doctor", "no-such-dev"]);
}

#[test]
fn an_api_for_other_hosts_needs_a_token() {
    golden("otg_open_address.txt", &["otg", "--listen", "0.0.0.0:8443"]);
}

#[test]
fn dry_run_writes_a_file_that_begins_as_pcapng() {
    let folder = Folder::new("dry-run");
    let path = folder.file("x.pcapng");
    let said = wirerate(&["send", "x", "--dst", "10.0.0.1", "--dry-run=5", "--write", &path]);
    let bytes = std::fs::read(&path).expect("the file was written");
    assert_eq!(said.status, 0, "{}", said.stderr);
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    let frames = bytes.windows(4).filter(|window| *window == 0xbe9b_e955_u32.to_be_bytes()).count();
    assert_eq!(frames, 5);
}

#[test]
fn man_page_and_completions_name_every_command() {
    let elvish = wirerate(&["completions", "elvish"]);
    for said in [wirerate(&["man"]), elvish, wirerate(&["complete", "--", "wirerate", ""])] {
        assert_eq!(said.status, 0, "{}", said.stderr);
        for command in ["send", "capture", "man", "completions"] {
            assert!(said.stdout.contains(command), "{command}: {}", said.stdout);
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        let said = wirerate(&["completions", shell]);
        assert!(said.stdout.contains("command wirerate complete -- "), "{shell}: {}", said.stderr);
    }
}

/// What a user of iperf3, trafgen, mausezahn or pktgen's scripts types at first.
#[test]
fn words_of_other_tools_get_the_nearest_useful_answer() {
    let mut answers = String::new();
    for words in [
        "--sctp",
        "--hex 00",
        "--latency",
        "--gtp 5",
        "--gtp",
        "--replay f.pcap",
        "--mac 02:00:00:00:00:01",
        "--dest 10.0.0.1",
        "-n 1000",
        "-s 60",
        "-m 02:00:00:00:00:01",
        "-r f.pcap",
        "-w f.pcap",
        "-R",
        "-4",
        "--pps -5",
        "-c 10.0.0.1",
        "-Z",
        "--dts 10.0.0.1",
        "--rate 100MB",
        "extra",
        "--pps",
        "--dst localhost",
    ] {
        let args: Vec<_> = ["send", "no-such-dev"].into_iter().chain(words.split(' ')).collect();
        let said = wirerate(&args);
        assert_eq!(said.status, 2, "{words}: {}", said.stderr);
        assert!(said.stderr.starts_with("wirerate: "), "{}", said.stderr);
        for noise in ["Usage:", "tip:", "For more information", "-- -"] {
            assert!(!said.stderr.contains(noise), "{words}: {}", said.stderr);
        }
        answers += &format!("$ wirerate send no-such-dev {words}\n{}", said.stderr);
    }
    testkit::golden("other_tools_send.txt", &answers);
}

/// iperf3's and pktgen's spellings make the same frames at the same times as wirerate's own.
#[test]
fn words_of_other_tools_with_a_clear_meaning_are_accepted() {
    let frames = |words: &str| {
        let args: Vec<_> = SHOW.into_iter().chain(words.split_whitespace()).collect();
        let said = wirerate(&args);
        assert_eq!(said.status, 0, "{words}: {}", said.stderr);
        said.stdout
    };
    let ours =
        "--dst 10.0.0.1 --udp-dst 5201 --udp-src 7 --size 1400 --rate 1Gbit --count 1000 --duration 10s";
    let theirs = "--dst 10.0.0.1 -u -p 5201 --sport 7 -l 1400 -b 1G -c 1e3 -t 10 -P 2 -P 1 -i 1 -q";
    assert_eq!(frames(ours), frames(theirs));
    assert_eq!(frames(ours), frames(&ours.replace("--udp-dst", "--dport").replace("--size", "--len")));
    assert_eq!(frames("--dst 10.0.0.1 --pps 1e6"), frames("--dst 10.0.0.1 --pps 5 --pps 1,000,000"));
    let help = wirerate(&["send", "help"]);
    assert_eq!((help.status, help.stdout), (0, wirerate(&["send", "--help"]).stdout));
}

/// The commands after `try:` of these answers run as they are.
#[test]
fn commands_that_answers_offer_can_be_pasted() {
    let folder = Folder::new("tries");
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_wirerate"));
    let path = format!("{}:/usr/bin:/bin", binary.parent().expect("it is in a folder").display());
    for word in ["--sctp", "--hex", "--gtp", "--dts"] {
        let said = wirerate(&["send", "no-such-dev", word]);
        let tries = said.stderr.lines().filter_map(|line| line.trim().strip_prefix("try: "));
        for command in tries.map(|line| line.split(" (").next().unwrap_or(line)) {
            let dry = "wirerate send no-such-dev --dry-run";
            let line = match command.split_once(' ') {
                _ if !command.starts_with("--") => command.to_owned(),
                Some(("--frame", _)) => format!("{dry} {command}"),
                Some(_) => format!("{dry} --dst 10.0.0.1 {command}"),
                None => format!("{dry} {command} 10.0.0.1"),
            };
            let mut shell = Command::new("sh");
            let run = shell.args(["-c", &line]).env("PATH", &path).current_dir(&*folder).output();
            let run = run.expect("there is a shell");
            assert!(run.status.success(), "{line}: {}", String::from_utf8_lossy(&run.stderr));
        }
    }
}
