//! What reading the file of a device instance says (specification 1.5).
//!
//! Five spaces before every line that goes on; one or two spaces between values as in the kernel.

use crate::address::ipv6_text;
use crate::table::device_command;
use crate::{Device, FLAGS, Facts};
use packet::{Config, Flags, Slot, XmitMode};
use std::fmt::Write;

impl Device {
    /// The text of the file at `now_ns` since boot. `engine` is what sends, or would send, its
    /// frames; it shows only after `show_engine 1`.
    pub fn read(&self, facts: &Facts, now_ns: u64, engine: Option<&str>) -> Vec<u8> {
        let mut config = self.config.clone();
        if self.is_running {
            self.cursor.write_back(&mut config);
        }
        let mut text = String::new();
        for line in params(&config, self.name(), facts) {
            text += &line;
            text.push('\n');
        }
        if let Some(engine) = engine.filter(|_| self.show_engine) {
            text += &format!("     engine: {engine}\n");
        }
        for line in self.current(now_ns) {
            text += &line;
            text.push('\n');
        }
        let mut text = text.into_bytes();
        text.extend(b"Result: ");
        text.extend(if self.result.is_empty() { b"Idle" } else { self.result.as_slice() });
        text.push(b'\n');
        text
    }

    fn current(&self, now_ns: u64) -> Vec<String> {
        let (counters, cursor) = (&self.counters, &self.cursor);
        let mut lines = vec![
            "Current:".to_owned(),
            format!("     pkts-sofar: {}  errors: {}", counters.sofar, counters.errors),
        ];
        if !self.config.imix.is_empty() {
            let counts = cursor.imix_counts.iter().copied().chain(std::iter::repeat(0));
            let pairs =
                self.config.imix.iter().zip(counts).map(|(entry, count)| (u64::from(entry.size), count));
            lines.push(format!("     imix_size_counts: {}", spaced_pairs(pairs)));
        }
        let stopped_ns = if self.is_running { now_ns } else { counters.stopped_ns };
        let (started_us, stopped_us) = (counters.started_ns / 1000, stopped_ns / 1000);
        lines.push(format!(
            "     started: {started_us}us  stopped: {stopped_us}us idle: {}us",
            counters.idle_ns / 1000
        ));
        lines.push(format!(
            "     seq_num: {}  cur_dst_mac_offset: {}  cur_src_mac_offset: {}",
            cursor.seq_num as i32,
            cursor[Slot::DST_MAC_OFFSET] as i32,
            cursor[Slot::SRC_MAC_OFFSET] as i32
        ));
        lines.push(if self.config.flags.has(Flags::IPV6) {
            format!("     cur_saddr: {}  cur_daddr: {}", ipv6_text(cursor.src_v6), ipv6_text(cursor.dst_v6()))
        } else {
            format!("     cur_saddr: {}  cur_daddr: {}", cursor.src_v4(), cursor.dst_v4())
        });
        lines.push(format!(
            "     cur_udp_dst: {}  cur_udp_src: {}",
            cursor[Slot::UDP_DST],
            cursor[Slot::UDP_SRC]
        ));
        lines.push(format!("     cur_queue_map: {}", cursor.queue));
        lines.push(format!("     flows: {}", cursor.flows_started));
        lines
    }
}

fn params(config: &Config, name: &str, facts: &Facts) -> Vec<String> {
    let (min, max) = (config.min_pkt_size, config.max_pkt_size);
    let mut lines = vec![format!("Params: count {}  min_pkt_size: {min}  max_pkt_size: {max}", config.count)];
    if !config.imix.is_empty() {
        let pairs = config.imix.iter().map(|entry| (u64::from(entry.size), entry.weight));
        lines.push(format!("     imix_weights: {}", spaced_pairs(pairs)));
    }
    lines.push(format!(
        "     frags: {}  delay: {}  clone_skb: {}  ifname: {name}",
        config.frags, config.delay_ns, config.clone_skb
    ));
    lines.push(written(config, &["flows", "flowlen"], " "));
    lines.push(written(config, &["queue_map_min", "queue_map_max"], "  "));
    if config.skb_priority != 0 {
        lines.push(written(config, &["skb_priority"], ""));
    }
    lines.extend(addresses(config, facts));
    lines.extend(tags(config));
    lines.extend(transmit(config));
    lines.push(format!("     Flags: {}", flag_words(config)));
    if config.seed.is_some() {
        lines.push(written(config, &["seed"], ""));
    }
    lines
}

/// A line of settings that read as they are written.
fn written(config: &Config, words: &[&str], between: &str) -> String {
    let value = |word: &str| device_command(word.as_bytes()).and_then(|spec| (spec.value)(config));
    let texts = words.iter().map(|word| format!("{word}: {}", value(word).unwrap_or_default()));
    format!("     {}", texts.collect::<Vec<_>>().join(between))
}

fn addresses(config: &Config, facts: &Facts) -> [String; 5] {
    let [first, second] = if config.flags.has(Flags::IPV6) {
        let masks = (ipv6_text(config.dst6_min), ipv6_text(config.dst6_max));
        [
            format!("     saddr: {}  min_saddr: ::  max_saddr: ::", ipv6_text(config.src6)),
            format!("     daddr: {}  min_daddr: {}  max_daddr: {}", ipv6_text(config.dst6), masks.0, masks.1),
        ]
    } else {
        [written(config, &["dst_min", "dst_max"], "  "), written(config, &["src_min", "src_max"], "  ")]
    };
    let src_mac = if config.src_mac.is_zero() { facts.link.mac } else { config.src_mac };
    [
        first,
        second,
        format!("     src_mac: {src_mac} dst_mac: {}", config.dst_mac),
        written(config, &["udp_src_min", "udp_src_max", "udp_dst_min", "udp_dst_max"], "  "),
        format!(
            "     src_mac_count: {}  dst_mac_count: {}",
            config.src_mac_count as i32, config.dst_mac_count as i32
        ),
    ]
}

fn tags(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    if !config.mpls.is_empty() {
        let labels: Vec<String> = config.mpls.iter().map(|label| format!("{label:08x}")).collect();
        lines.push(format!("     mpls: {}", labels.join(", ")));
    }
    if let Some(id) = config.vlan_id {
        lines.push(format!("     vlan_id: {id}  vlan_p: {}  vlan_cfi: {}", config.vlan_p, config.vlan_cfi));
    }
    if let Some(id) = config.svlan_id {
        lines
            .push(format!("     svlan_id: {id}  vlan_p: {}  vlan_cfi: {}", config.svlan_p, config.svlan_cfi));
    }
    if config.tos != 0 {
        lines.push(format!("     tos: 0x{:02x}", config.tos));
    }
    if config.traffic_class != 0 {
        lines.push(format!("     traffic_class: 0x{:02x}", config.traffic_class));
    }
    lines
}

fn transmit(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let burst = config.burst as i32;
    if burst > 1 {
        lines.push(format!("     burst: {burst}"));
    }
    if config.node >= 0 {
        lines.push(written(config, &["node"], ""));
    }
    match config.xmit_mode {
        XmitMode::StartXmit => {}
        XmitMode::NetifReceive => lines.push("     xmit_mode: netif_receive".to_owned()),
        // The kernel turns this word around, and only here.
        XmitMode::QueueXmit => lines.push("     xmit_mode: xmit_queue".to_owned()),
    }
    lines
}

/// Names in the order of their bits. A flag with an opposite says one of the two, but only while
/// flows are on.
fn flag_words(config: &Config) -> String {
    let mut words = String::new();
    for spec in FLAGS {
        let is_on = config.flags.has(spec.flag);
        let word = match spec.opposite {
            None => is_on.then_some(spec.name),
            Some(_) if config.flows == 0 => None,
            Some(opposite) => Some(if is_on { spec.name } else { opposite }),
        };
        words += &word.map(|word| format!("{word}  ")).unwrap_or_default();
        if spec.flag == Flags::IPSEC && is_on && config.spi != 0 {
            words += &format!("spi:{}  ", config.spi);
        }
    }
    words
}

/// `a,b c,d ` with a space behind each pair.
fn spaced_pairs(pairs: impl Iterator<Item = (u64, u64)>) -> String {
    pairs.fold(String::new(), |mut text, (first, second)| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{first},{second} ");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDevice;

    #[test]
    fn a_new_device_instance_reads_as_in_the_kernel() {
        let text =
            String::from_utf8(TestDevice::new().device.read(&Facts::default(), 5_000, Some("xdp"))).unwrap();
        let expected = "Params: count 1000  min_pkt_size: 0  max_pkt_size: 0\n     \
             frags: 0  delay: 0  clone_skb: 0  ifname: eth0@1\n     flows: 0 flowlen: 0\n     \
             queue_map_min: 0  queue_map_max: 0\n     dst_min:   dst_max: \n     src_min:   src_max: \n     \
             src_mac: 00:00:00:00:00:00 dst_mac: 00:00:00:00:00:00\n     \
             udp_src_min: 9  udp_src_max: 9  udp_dst_min: 9  udp_dst_max: 9\n     \
             src_mac_count: 0  dst_mac_count: 0\n     Flags: SHARED  \nCurrent:\n     \
             pkts-sofar: 0  errors: 0\n     started: 0us  stopped: 0us idle: 0us\n     \
             seq_num: 0  cur_dst_mac_offset: 0  cur_src_mac_offset: 0\n     \
             cur_saddr: 0.0.0.0  cur_daddr: 0.0.0.0\n     cur_udp_dst: 0  cur_udp_src: 0\n     \
             cur_queue_map: 0\n     flows: 0\nResult: Idle\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn all_conditional_lines_come_in_the_kernels_order() {
        let test = TestDevice::after(&[
            "imix_weights 64,1",
            "skb_priority 7",
            "vlan_id 5",
            "svlan_id 6",
            "tos 28",
            "traffic_class b8",
            "burst 4",
            "node 0",
            "xmit_mode netif_receive",
            "flows 3",
            "flag IPSEC",
            "spi 9",
            "seed 3",
            "show_engine 1",
        ]);
        let text = String::from_utf8(test.device.read(&test.facts, 0, Some("xdp"))).unwrap();
        let starts: Vec<&str> =
            text.lines().map(|line| line.trim().split([':', ' ']).next().unwrap()).collect();
        assert_eq!(
            starts[..24],
            [
                "Params",
                "imix_weights",
                "frags",
                "flows",
                "queue_map_min",
                "skb_priority",
                "dst_min",
                "src_min",
                "src_mac",
                "udp_src_min",
                "src_mac_count",
                "vlan_id",
                "svlan_id",
                "tos",
                "traffic_class",
                "burst",
                "node",
                "xmit_mode",
                "Flags",
                "seed",
                "engine",
                "Current",
                "pkts-sofar",
                "imix_size_counts",
            ]
        );
        assert!(text.contains(
            "     Flags: FLOW_RND  IPSEC  spi:9  SHARED  \n     seed: 3\n     engine: xdp\nCurrent:\n"
        ));
    }

    #[test]
    fn the_order_of_flows_shows_only_while_there_are_flows() {
        let mut test = TestDevice::after(&["flag FLOW_SEQ"]);
        assert_eq!(test.line("Flags").unwrap(), "Flags: SHARED  ");
        test.write("flows 1");
        assert_eq!(test.line("Flags").unwrap(), "Flags: FLOW_SEQ  SHARED  ");
        test.write("flag FLOW_RND");
        assert_eq!(test.line("Flags").unwrap(), "Flags: FLOW_RND  SHARED  ");
    }

    #[test]
    fn no_flag_leaves_one_space() {
        assert_eq!(TestDevice::after(&["flag !SHARED"]).line("Flags").unwrap(), "Flags: ");
    }
}
