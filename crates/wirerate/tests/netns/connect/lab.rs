//! A client's device `c0`, a server's device `s0`, and a router between them if wanted; nginx, nsd
//! and others behind the server's device.

use crate::lab::{OwnNetns, Scratch};
use crate::places::{Place, Places};
use crate::program::{Running, in_netns, run, until};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What lies between the two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    /// A veth pair.
    Nothing,
    /// A router of the kernel.
    Router,
    /// A bridge of the kernel.
    Bridge,
}

/// The namespaces; dropping it removes them.
#[derive(Debug)]
pub(crate) struct ConnectLab {
    pub(crate) client: OwnNetns,
    pub(crate) server: OwnNetns,
    pub(crate) between: Option<OwnNetns>,
    scratch: Scratch,
    _neighbours: Place,
}

/// The kernel has one neighbour table of 1,024 entries for all namespaces, and the clients of a lab
/// take 256. A full table would lose the server's answers.
static NEIGHBOUR_TABLE: Places = Places::new(3);

const SERVER_SYSCTLS: &str =
    "net.core.somaxconn=65535 net.ipv4.tcp_max_syn_backlog=65535 net.ipv6.conf.all.accept_dad=0";

impl ConnectLab {
    /// Makes the namespaces. `link` has more words for the veth pairs, such as `mtu 9000`.
    pub(crate) fn new(between: Between, link: &str) -> Self {
        let lab = Self {
            _neighbours: NEIGHBOUR_TABLE.take(),
            client: OwnNetns::new("c"),
            server: OwnNetns::new("s"),
            between: (between != Between::Nothing).then(|| OwnNetns::new("m")),
            scratch: Scratch::new(),
        };
        let (client, server) = (&lab.client.name, &lab.server.name);
        ip(&format!("netns exec {server} sysctl -qw {SERVER_SYSCTLS}"));
        match &lab.between {
            None => veth((client, "c0", 1), (server, "s0", 2), link),
            Some(middle) => {
                let middle = &middle.name;
                veth((client, "c0", 1), (middle, "m0", 3), link);
                veth((middle, "m1", 4), (server, "s0", 2), link);
                gro(middle, "m0");
            }
        }
        gro(server, "s0");
        match between {
            Between::Router => lab.address_routed(),
            Between::Bridge => {
                let middle = lab.middle();
                ip(&format!("-n {middle} link add b0 type bridge"));
                ip(&format!("-n {middle} link set b0 up"));
                ["m0", "m1"].iter().for_each(|port| ip(&format!("-n {middle} link set {port} master b0")));
                lab.address_flat();
            }
            Between::Nothing => lab.address_flat(),
        }
        lab
    }

    fn address_flat(&self) {
        for (netns, device, host) in [(&self.client, "c0", 1), (&self.server, "s0", 2)] {
            ip(&format!("-n {netns} addr add 198.18.0.{host}/15 dev {device}"));
            ip(&format!("-n {netns} addr add fd00:18::{host}/64 dev {device} nodad"));
        }
        for netns in [&self.client.name, &self.server.name] {
            let tentative = ["ip", "-n", netns, "-6", "address", "show", "tentative"];
            until("addresses can be used", || run(&tentative).is_empty());
        }
    }

    /// The clients are in 198.18.0.0/16, and the server has 198.19.0.2.
    fn address_routed(&self) {
        let middle = self.middle();
        ip(&format!("netns exec {middle} sysctl -qw net.ipv4.ip_forward=1"));
        ip(&format!("-n {} addr add 198.18.0.1/16 dev c0", self.client));
        ip(&format!("-n {middle} addr add 198.18.0.3/16 dev m0"));
        ip(&format!("-n {middle} addr add 198.19.0.3/16 dev m1"));
        ip(&format!("-n {} addr add 198.19.0.2/16 dev s0", self.server));
        ip(&format!("-n {} route add 198.19.0.0/16 via 198.18.0.3", self.client));
        ip(&format!("-n {} route add 198.18.0.0/16 via 198.19.0.3", self.server));
    }

    pub(crate) fn middle(&self) -> &str {
        &self.between.as_ref().expect("the lab has something between").name
    }

    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.scratch.file(name)
    }

    /// Loads rules into the namespace between, one per line.
    pub(crate) fn nft(&self, rules: &str) {
        let path = self.file("rules.nft");
        std::fs::write(&path, rules).unwrap();
        run(&["ip", "netns", "exec", self.middle(), "nft", "-f", &path.display().to_string()]);
    }

    /// The router loses this many of 1,000 packets, in each direction.
    pub(crate) fn lose(&self, per_mille: u32) {
        self.nft(&format!(
            "flush ruleset\ntable inet loss {{\nchain forward {{\ntype filter hook forward priority 0\n\
             numgen random mod 1000 < {per_mille} drop\n}}\n}}\n"
        ));
    }

    /// Starts nginx at port 80 of the server, with files of some sizes.
    pub(crate) fn nginx(&self) -> Running {
        let folder = self.file("www");
        std::fs::create_dir(&folder).unwrap();
        for len in [0, 1, 1460, 1461, 100_000] {
            std::fs::write(folder.join(len.to_string()), vec![b'x'; len]).unwrap();
        }
        let conf = self.file("nginx.conf");
        std::fs::write(&conf, nginx_conf(&folder)).unwrap();
        let mut command = in_netns(&self.server.name, "nginx");
        command.args(["-c", &conf.display().to_string()]);
        let running = Running::start(command);
        until("nginx listens", || self.listens(80));
        running
    }

    pub(crate) fn listens(&self, port: u16) -> bool {
        let found = run(&["ip", "netns", "exec", &self.server.name, "ss", "-Hln"]);
        found.lines().any(|line| line.split_whitespace().any(|word| word.ends_with(&format!(":{port}"))))
    }

    /// A counter of the server's kernel, since the namespace was made.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let text = run(&["ip", "netns", "exec", &self.server.name, "nstat", "-asz", name]);
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Connections that the server's kernel has established.
    pub(crate) fn established(&self) -> usize {
        let words = ["ip", "netns", "exec", &self.server.name, "ss", "-Htn", "state", "established"];
        run(&words).lines().count()
    }

    /// True when an XDP program is on the client's device.
    pub(crate) fn has_xdp(&self) -> bool {
        run(&["ip", "-n", &self.client.name, "link", "show", "dev", "c0"]).contains("xdp")
    }
}

/// Runs `ip` with words.
pub(crate) fn ip(words: &str) {
    run(&[&["ip"][..], &words.split_whitespace().collect::<Vec<_>>()].concat());
}

/// GRO on a device that is up makes it accept frames from XDP.
pub(crate) fn gro(netns: &str, device: &str) {
    run(&["ip", "netns", "exec", netns, "ethtool", "-K", device, "gro", "on"]);
}

/// A veth pair, up. Each end has a namespace, a name, and the last byte of its MAC address.
pub(crate) fn veth(one: (&str, &str, u8), other: (&str, &str, u8), link: &str) {
    ip(&format!(
        "link add {} netns {} {link} type veth peer name {} netns {} {link}",
        one.1, one.0, other.1, other.0
    ));
    for (netns, device, mac) in [one, other] {
        ip(&format!("-n {netns} link set {device} address 02:00:00:00:00:{mac:02x} up"));
        ip(&format!("-n {netns} link set lo up"));
    }
}

fn nginx_conf(folder: &Path) -> String {
    let folder = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("{name}_temp_path {folder}/temporary-{name};\n"))
        .collect();
    format!(
        "worker_processes 1; worker_rlimit_nofile 60000; pid {folder}/nginx.pid;\n\
         error_log {folder}/error.log; daemon off; user root;\n\
         events {{ worker_connections 50000; multi_accept on; }}\n\
         http {{ access_log off; keepalive_requests 1000000; keepalive_timeout 600;\n\
         client_header_timeout 600; large_client_header_buffers 8 16k; {temporary}\n\
         server {{ listen 80 backlog=65535 so_keepalive=1s:1s:5; listen [::]:80 backlog=65535 ipv6only=on;\n\
         root {folder}; location = / {{ return 200 \"ok\\n\"; }}\n\
         location = /where {{ return 200 \"$server_addr:$server_port\\n\"; }} }} }}\n"
    )
}

/// The JSON of the last line of a report.
#[track_caller]
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text.lines().last().expect("a report")).expect("JSON")
}

/// A count of a report.
#[track_caller]
pub(crate) fn count(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("no count {name}: {report}"))
}

/// A python program in the server's namespace.
pub(crate) fn python(lab: &ConnectLab, program: &str) -> Command {
    let mut command = in_netns(&lab.server.name, "python3");
    command.args(["-c", program]);
    command
}
