//! What a device knows of a frame beside its bytes: tags that it took off are in the file again.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{TIME_LIMIT, run, until, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};

/// Tests of tags and clocks.
pub(crate) const CASES: &[Case] = &[
    case(
        "hardware::a_tag_beside_the_frame_is_put_back",
        &["bash", "clang", "tc", "tshark"],
        a_tag_beside_the_frame_is_put_back,
    ),
    case("hardware::times_without_a_device_clock_are_the_kernels", &["bash"], times_are_the_kernels),
];

/// Gives every frame the tag 7 of 802.1Q with priority 5, beside its bytes, as a VLAN device does.
const TAG: &str = "\
static long (*const push)(void *, unsigned short, unsigned short) = (void *)18;
__attribute__((section(\"tc\"), used)) int tag(void *skb) { push(skb, 0x0081, 5 << 13 | 7); return 0; }
char terms[] __attribute__((section(\"license\"), used)) = \"GPL\";";

fn push_tags(lab: &Lab) {
    let [source, object] = ["tag.c", "tag.o"].map(|name| lab.file(name).display().to_string());
    std::fs::write(&source, TAG).expect("the lab's folder can be written");
    run(&["clang", "-O2", "-target", "bpf", "-c", &source, "-o", &object]);
    run(&["tc", "-n", &lab.tx_netns, "qdisc", "add", "dev", TX_DEV, "clsact"]);
    let filter = format!("-n {} filter add dev {TX_DEV} egress bpf da obj {object} sec tc", lab.tx_netns);
    run(&["tc"].into_iter().chain(filter.split(' ')).collect::<Vec<_>>());
}

fn a_tag_beside_the_frame_is_put_back() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    push_tags(&lab);
    for snaplen in ["96", "46"] {
        let file = lab.file("x.pcapng");
        let words = format!("{RX_DEV} --netns {} --count 2 --snaplen {snaplen}", lab.rx_netns);
        let running = wirerate_start(&format!("capture {words} -w {}", file.display()));
        running.until_it_says("capturing on rx0");
        until("the program is there", || lab.has_xdp());
        let two = "for i in 1 2; do echo $i > /dev/udp/198.18.0.2/9; done";
        run(&["ip", "netns", "exec", &lab.tx_netns, "bash", "-c", two]);
        running.wait(TIME_LIMIT).expect_code(0);
        let path = file.to_str().expect("a plain path");
        let fields = ["vlan.id", "vlan.priority", "frame.len", "frame.cap_len", "udp.dstport"];
        let mut words = vec!["tshark", "-r", path, "-T", "fields"];
        fields.iter().for_each(|field| words.extend(["-e", field]));
        let cap_len = if snaplen == "96" { 48 } else { 46 };
        let row = format!("7\t5\t48\t{cap_len}\t9\n");
        assert_eq!(run(&words), row.repeat(2));
    }
    Ok(())
}

fn times_are_the_kernels() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for clock in ["utc", "system"] {
        let file = lab.file("x.pcapng");
        let words = format!("{RX_DEV} --netns {} --count 3 --json --clock {clock}", lab.rx_netns);
        let running = wirerate_start(&format!("capture {words} -w {}", file.display()));
        running.until_it_says("capturing on rx0");
        let three = "for i in 1 2 3; do echo $i > /dev/udp/198.18.0.2/9; done";
        run(&["ip", "netns", "exec", &lab.tx_netns, "bash", "-c", three]);
        let ended = running.wait(TIME_LIMIT).expect_code(0);
        let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("one line of JSON");
        assert_eq!((&report["hardware_time"], &report["software_time"]), (&0.into(), &3.into()), "{report}");
        assert_eq!(report["clocks"].as_array().map(Vec::len), Some(0));
    }
    let refused = wirerate_run(&format!("capture {RX_DEV} --netns {} --clock phc", lab.rx_netns));
    refused.expect_code(3).says(&["rx0 has no clock of its own that stamps received frames"]);
    Ok(())
}
