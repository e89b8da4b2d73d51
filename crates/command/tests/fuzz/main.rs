//! Random commands for a whole tree: whatever is written, it is taken or refused with words, the
//! settings can be said again, and a run either has a plan or a result that says why not.
//!
//! Two thirds of the writes follow the grammar of the table of commands, with values at their
//! edges; the rest is the same with bytes changed, and bytes of any kind.

mod write;

use command::{
    ControlTree, Device, Facts, FileKind, LinkState, PgctrlCommand, Refusal, ThreadCommand, Touches,
};
use packet::{DeviceFacts, FRAME_LEN_MAX, MacAddr, Plan, PlanError, Rng};

/// Bytes of the kernel's buffer for a result; no text may be longer.
const RESULT_LEN_MAX: usize = 512;
/// Tags and labels that a frame can get during a run, when its size is fixed already.
const TAGS_LEN_MAX: u32 = 16 * 4;

#[test]
fn commands_make_a_plan_or_say_why_not() {
    testkit::fuzz!("commands_make_a_plan_or_say_why_not", 30_000, |seed| {
        let rng = &mut Rng(seed);
        let facts = facts(rng);
        let mut tree = ControlTree::new([0, 3]);
        let link = LinkState { is_up: true, is_ethernet_or_loopback: true };
        tree.add_device(0, b"eth0", Some(link)).expect("the first one");
        for _ in 0..rng.below(30) {
            let file = write::place(rng);
            write_to(&mut tree, file, &write::write(rng, file), &facts, rng);
        }
        for device in tree.devices_mut() {
            run(device, &facts, rng);
        }
    });
}

#[test]
fn no_bytes_do_harm() {
    testkit::fuzz!("no_bytes_do_harm", 30_000, |seed| {
        let rng = &mut Rng(seed);
        let facts = facts(rng);
        let mut tree = ControlTree::new([0, 3]);
        for file in [FileKind::Thread, FileKind::Pgctrl, FileKind::Device, FileKind::Device, FileKind::Device]
        {
            write_to(&mut tree, file, &write::bytes(rng), &facts, rng);
        }
        let mut device = Device::new("eth0@1");
        for _ in 0..20 {
            write_device(&mut device, &write::bytes(rng), &facts);
        }
    });
}

/// A host that has some things and lacks others.
fn facts(rng: &mut Rng) -> Facts {
    let link = DeviceFacts {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        v4: (rng.below(2) == 0).then_some([10, 0, 0, 1].into()),
        v6_link_local: (rng.below(2) == 0).then(|| "fe80::1".parse().expect("an address")),
        tx_queues: rng.below(5) as u16,
        cpu: rng.below(4),
    };
    Facts {
        link,
        forbids_shared_skb: rng.below(4) == 0,
        has_xfrm: rng.below(4) > 0,
        possible_nodes: vec![0..=3],
    }
}

/// One write to a file of that kind, as the file system passes it on.
fn write_to(tree: &mut ControlTree, file: FileKind, bytes: &[u8], facts: &Facts, rng: &mut Rng) {
    match file {
        FileKind::Pgctrl => match PgctrlCommand::parse(bytes) {
            Ok(PgctrlCommand::Reset) if rng.below(4) == 0 => assert!(tree.reset().len() < 100),
            Ok(_) => {}
            Err(refused) => assert_says(&refused, bytes),
        },
        FileKind::Thread => tell_thread(tree, bytes, rng),
        FileKind::Device => {
            let count = tree.devices().count() as u32;
            let chosen = tree.devices_mut().nth(rng.below(count) as usize);
            let Some(name) = chosen.map(|device| device.name().to_owned()) else { return };
            // Most go through the tree, which keeps one `debug` for all; the checks are the
            // device's.
            let _ = tree.write_device(&name, b"debug 1", facts);
            let device = tree.device_mut(&name).expect("it is there");
            write_device(device, bytes, facts);
        }
    }
    assert_eq!(tree.names().len(), 3 + tree.devices().count());
    for thread in tree.threads() {
        assert!(thread.read().starts_with(b"Running: ") && thread.read().ends_with(b"\n"));
    }
}

fn tell_thread(tree: &mut ControlTree, bytes: &[u8], rng: &mut Rng) {
    let cpu = [0, 3, 7][rng.below(3) as usize];
    let link = LinkState { is_up: rng.below(8) > 0, is_ethernet_or_loopback: rng.below(8) > 0 };
    let done = match ThreadCommand::parse(bytes) {
        Ok(ThreadCommand::AddDevice { name }) => {
            let link = (rng.below(8) > 0).then_some(link);
            let added = tree.add_device(cpu, &name, link).map(|device| device.name().to_owned());
            added.map(|name| assert!(tree.entry(&name).is_some(), "{name} has no file"))
        }
        Ok(ThreadCommand::RemoveAll) => tree.remove_all(cpu).map(drop),
        Ok(ThreadCommand::MaxBeforeSoftirq) => tree.max_before_softirq(cpu),
        Err(refused) => return assert_says(&refused, bytes),
    };
    if let Err(refused) = done {
        assert!(!refused.to_string().is_empty());
    }
}

#[track_caller]
fn assert_says(refused: &Refusal, bytes: &[u8]) {
    assert!(refused.span.start <= refused.span.end && refused.span.end <= bytes.len(), "{refused:?}");
    assert!(refused.errno().raw() > 0 && refused.to_string().len() > 5, "{refused:?}");
}

/// One write to a device file, and what is true after each.
#[track_caller]
fn write_device(device: &mut Device, bytes: &[u8], facts: &Facts) {
    let before = device.clone();
    let written = device.write(bytes, facts);
    assert_touches(before, device, command::touches(bytes, facts));
    match written {
        Ok(len) => assert_eq!(len, bytes.len()),
        Err(refused) => assert_says(&refused, bytes),
    }
    let shown = String::from_utf8_lossy(bytes);
    assert!(device.result.len() < RESULT_LEN_MAX, "{shown:?} has a result of {} bytes", device.result.len());
    assert!(device.config.flags.0 < 1 << 19, "{shown:?} sets flags that there are none of");
    assert!(device.config.imix.iter().all(|entry| entry.weight > 0), "{shown:?}");
    assert_well_formed(device, facts);
}

/// A write changes no more of a running transmission than the table has.
#[track_caller]
fn assert_touches(mut before: Device, after: &Device, touches: Touches) {
    if !after.is_running || touches == Touches::Frames {
        return;
    }
    let mut after = after.clone();
    for device in [&mut before, &mut after] {
        device.cursor.write_back(&mut device.config);
        device.cursor.follow(&device.config);
    }
    before.config.seed = after.config.seed;
    if touches == Touches::Pace {
        (before.config.count, before.config.delay_ns) = (after.config.count, after.config.delay_ns);
    }
    assert_eq!((&before.config, &before.cursor), (&after.config, &after.cursor));
    assert_eq!(before.counters, after.counters);
}

/// A read-out is `Params:`, lines with five spaces, `Current:`, more of those, and a result.
#[track_caller]
fn assert_well_formed(device: &Device, facts: &Facts) {
    let text = device.read(facts, 1, Some("mem"));
    assert_eq!(text.last(), Some(&b'\n'));
    let head = head(&text);
    let lines: Vec<&str> = head.lines().collect();
    assert!(lines[0].starts_with("Params: count "));
    assert_eq!(lines.iter().filter(|line| **line == "Current:").count(), 1);
    let goes_on = |line: &&str| line.starts_with("     ") && !line.starts_with("      ");
    assert!(lines[1..].iter().all(|line| goes_on(line) || *line == "Current:"), "{head}");
    let has_v6 = head.contains("     saddr:");
    assert_eq!(device.config.flags.has(packet::Flags::IPV6), has_v6, "{head}");
    let expected = if device.result.is_empty() { b"Idle" } else { device.result.as_slice() };
    assert_eq!(&text[head.len() + b"Result: ".len()..text.len() - 1], expected);
}

/// All that stands before the result, which may hold bytes of any kind.
#[track_caller]
fn head(text: &[u8]) -> &str {
    let end = text.windows(9).position(|window| window == b"\nResult: ").expect("a result") + 1;
    std::str::from_utf8(&text[..end]).expect("settings are text")
}

/// Starts it, makes frames, changes settings during the run, and stops it.
#[track_caller]
fn run(device: &mut Device, facts: &Facts, rng: &mut Rng) {
    device.cursor.src_v6 = device.config.src6;
    device.cursor.set_dst_v6(device.config.dst6);
    let plan = match device.start(&facts.link, 1, 7) {
        Ok(plan) => plan,
        Err(error) => {
            assert_deserved(&error, device);
            let said = format!("ERROR: {error}").into_bytes();
            assert!(device.result == said && !device.is_running && said.len() > 12, "{error:?}");
            return assert_well_formed(device, facts);
        }
    };
    let mut frame_size = make_frames(device, &plan);
    for _ in 0..rng.below(4) {
        write_device(device, &write::write(rng, FileKind::Device), facts);
        match Plan::new(&device.config, &facts.link, &device.cursor) {
            Ok(plan) => frame_size = make_frames(device, &plan),
            Err(error) => {
                assert_deserved(&error, device);
                device.fail(2, &error.to_string());
                assert!(device.result.starts_with(b"ERROR: ") && !device.is_running);
                return assert_well_formed(device, facts);
            }
        }
    }
    device.stop(2_000_000, command::fragments(&device.config, &plan, frame_size));
    assert!(device.is_ok() && !device.is_running, "{:?}", device.result);
    assert_well_formed(device, facts);
}

/// What cannot be planned asks for what cannot be.
#[track_caller]
fn assert_deserved(error: &PlanError, device: &Device) {
    let is_so = match error {
        PlanError::NoDestination { .. } => device.config.flags.has(packet::Flags::IPDST_RND),
        PlanError::TooLong { frame_len } => *frame_len > FRAME_LEN_MAX,
        PlanError::NoAssociation { .. } => device.config.asks_for_ipsec(),
        _ => false,
    };
    assert!(is_so, "{error:?} of {:?}", device.config);
}

/// A few frames of a plan, none longer than it says; the size of the last.
#[track_caller]
fn make_frames(device: &mut Device, plan: &Plan) -> u32 {
    let frame_len_max = plan.frame_len_max();
    assert!(frame_len_max <= FRAME_LEN_MAX + TAGS_LEN_MAX, "{frame_len_max}");
    let mut bytes = vec![0; frame_len_max as usize];
    for _ in 0..5 {
        let len = plan.emit(&mut device.cursor, 1_000_002_000, &mut bytes);
        assert!(plan.ipsec.is_some() || len > 57, "a frame of {len} bytes");
        device.counters.sofar += 1;
    }
    device.cursor[packet::Slot::FRAME_SIZE] as u32
}
