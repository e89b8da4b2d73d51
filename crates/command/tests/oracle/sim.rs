//! A host in memory: interfaces, a tree, and runs that send all their frames at once. Shared by the
//! tests that compare answers with those of a real kernel.

use command::{
    ControlTree, Device, Facts, LinkState, NO_FRAME, PgctrlCommand, ThreadCommand, TreeFile, VERSION_LINE,
};
use packet::{DeviceFacts, MacAddr};
use std::net::Ipv4Addr;

/// Longest run that is simulated.
const FRAMES_MAX: u64 = 100_000;
const BOOT_NS: u64 = 7_000_000_000;

/// One interface of the host.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) mac: MacAddr,
    pub(crate) v4: Option<Ipv4Addr>,
    pub(crate) is_loopback: bool,
    pub(crate) is_up: bool,
}

impl Link {
    pub(crate) fn new(name: &str, last_byte: u8, v4: [u8; 4]) -> Self {
        let mac = MacAddr([0x52, 0x54, 0, 0x12, 0x34, last_byte]);
        Self { name: name.to_owned(), mac, v4: Some(v4.into()), is_loopback: false, is_up: true }
    }

    pub(crate) fn loopback() -> Self {
        Self { mac: MacAddr::ZERO, is_loopback: true, ..Self::new("lo", 0, [127, 0, 0, 1]) }
    }
}

/// The host.
pub(crate) struct Sim {
    pub(crate) tree: ControlTree,
    pub(crate) links: Vec<Link>,
    now_ns: u64,
}

impl Sim {
    pub(crate) fn new(cpus: u32, links: Vec<Link>) -> Self {
        Self { tree: ControlTree::new(0..cpus), links, now_ns: BOOT_NS }
    }

    fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    fn facts(&self, name: &str) -> Facts {
        let link = self.link(command::interface_of(name)).expect("device instances go with their interface");
        Facts { link: device_facts(link), forbids_shared_skb: link.is_loopback, ..Facts::default() }
    }

    /// One write: the number of bytes taken, or the name of an errno.
    pub(crate) fn write(&mut self, file: &str, bytes: &[u8]) -> Result<usize, String> {
        let name = |refused: command::Refusal| format!("{:?}", refused.errno());
        match self.tree.entry(file) {
            None => Err("ENOENT".to_owned()),
            Some(TreeFile::Pgctrl) => {
                match PgctrlCommand::parse(bytes).map_err(name)? {
                    PgctrlCommand::Start => self.run_all(),
                    PgctrlCommand::Stop => {}
                    PgctrlCommand::Reset => drop(self.tree.reset()),
                    // The kernel does not have it.
                    PgctrlCommand::StartAt { .. } => {}
                }
                Ok(bytes.len())
            }
            Some(TreeFile::Thread { cpu }) => {
                let command = ThreadCommand::parse(bytes).map_err(name)?;
                self.thread_command(cpu, command).map_err(name).map(|()| bytes.len())
            }
            Some(TreeFile::Device { .. }) => {
                let facts = self.facts(file);
                self.tree.write_device(file, bytes, &facts).map_err(name)
            }
        }
    }

    fn thread_command(&mut self, cpu: u32, command: ThreadCommand) -> Result<(), command::Refusal> {
        match command {
            ThreadCommand::AddDevice { name } => {
                let text = String::from_utf8_lossy(&name).into_owned();
                let link = self.link(command::interface_of(&text));
                let state = link.map(|link| LinkState { is_up: link.is_up, is_ethernet_or_loopback: true });
                self.tree.add_device(cpu, &name, state).map(|_| ())
            }
            ThreadCommand::RemoveAll => self.tree.remove_all(cpu).map(|_| ()),
            ThreadCommand::MaxBeforeSoftirq => self.tree.max_before_softirq(cpu),
        }
    }

    /// What reading a file says, one character for each byte; `None` when there is no such file.
    pub(crate) fn read(&self, file: &str) -> Option<String> {
        let text = match self.tree.entry(file)? {
            TreeFile::Pgctrl => VERSION_LINE.as_bytes().to_vec(),
            TreeFile::Thread { cpu } => self.tree.thread(cpu)?.read(),
            TreeFile::Device { .. } => {
                self.tree.device(file)?.read(&self.facts(file), self.now_ns, Some("mem"))
            }
        };
        Some(text.into_iter().map(char::from).collect())
    }

    fn run_all(&mut self) {
        let links = self.links.clone();
        self.now_ns += 1_000_000;
        for device in self.tree.devices_mut() {
            let link = links.iter().find(|link| link.name == device.interface()).expect("its interface");
            run(device, link, self.now_ns);
        }
        self.now_ns += 3_000_000_000;
    }
}

fn device_facts(link: &Link) -> DeviceFacts {
    let v6_link_local = (!link.is_loopback).then(|| "fe80::5054:ff:fe12:3456".parse().expect("an address"));
    DeviceFacts { mac: link.mac, v4: link.v4, v6_link_local, tx_queues: 1, cpu: 0 }
}

fn run(device: &mut Device, link: &Link, now_ns: u64) {
    let facts = device_facts(link);
    let plan = device.start(&facts, now_ns, 2026).expect("every configuration of the oracle can be sent");
    assert_eq!(device.result, b"Starting");
    if !link.is_up {
        return device.stop(now_ns + 12_345, NO_FRAME);
    }
    assert!((1..=FRAMES_MAX).contains(&device.config.count), "a run of {} frames", device.config.count);
    let mut frame = vec![0; plan.frame_len_max() as usize];
    for _ in 0..device.config.count {
        plan.emit(&mut device.cursor, 0, &mut frame);
        device.counters.sofar += 1;
    }
    let calls = device.config.count.div_ceil(u64::from(device.config.frames_each_call()));
    device.counters.idle_ns += calls * device.config.delay_ns;
    let fragments = command::fragments(&device.config, &plan, device.cursor[packet::Slot::FRAME_SIZE] as u32);
    device.stop(now_ns + device.counters.idle_ns + 12_345_678, fragments);
}

/// Compares, letting each of the placeholders in `expected` stand for any run of its characters.
pub(crate) fn same(expected: &str, got: &str) -> bool {
    type Accepts = fn(char) -> bool;
    let places: [(&str, Accepts); 4] = [
        ("<num>", |c| c.is_ascii_digit() || c == '-'),
        ("<mac>", |c| c.is_ascii_hexdigit() || c == ':'),
        ("<ip>", |c| c.is_ascii_hexdigit() || matches!(c, ':' | '.')),
        ("<hex>", |c| c.is_ascii_hexdigit()),
    ];
    let found = places.iter().filter_map(|(place, accepts)| Some((expected.find(place)?, *place, accepts)));
    let first = found.min_by_key(|(at, ..)| *at);
    let Some((at, place, accepts)) = first else { return expected == got };
    let Some(rest) = got.strip_prefix(&expected[..at]) else { return false };
    let len = rest.chars().take_while(|c| accepts(*c)).count();
    (1..=len).rev().any(|len| same(&expected[at + place.len()..], &rest[len..]))
}
