//! Threads and device instances: adding, finding and removing them (specification sections 1 and
//! 3).

use crate::device::NAME_LEN_MAX;
use crate::{Device, Facts, Fault, LinkState, Refusal, Thread};

/// The file of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeFile {
    /// `pgctrl`.
    Pgctrl,
    /// `kpktgend_N`.
    Thread {
        /// Its CPU.
        cpu: u32,
    },
    /// A device instance.
    Device {
        /// The CPU of its thread.
        cpu: u32,
    },
}

/// Everything behind the files of one network namespace, as plain data.
#[derive(Clone, Debug)]
pub struct ControlTree {
    threads: Vec<Thread>,
    /// The switch that `debug` sets, one for the whole tree.
    pub debug: u32,
}

impl ControlTree {
    /// A tree with one thread for each CPU and no device instance.
    pub fn new(cpus: impl IntoIterator<Item = u32>) -> Self {
        Self { threads: cpus.into_iter().map(Thread::new).collect(), debug: 0 }
    }

    /// The threads, in the order given to [`ControlTree::new`].
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// The thread of a CPU.
    pub fn thread(&self, cpu: u32) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.cpu() == cpu)
    }

    /// Mutable reference to the thread of a CPU, to change its device instances.
    pub fn thread_mut(&mut self, cpu: u32) -> Option<&mut Thread> {
        self.threads.iter_mut().find(|thread| thread.cpu() == cpu)
    }

    /// All device instances, thread by thread, newest first.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.threads.iter().flat_map(|thread| &thread.devices)
    }

    /// Mutable references to all device instances, thread by thread, newest first.
    pub fn devices_mut(&mut self) -> impl Iterator<Item = &mut Device> {
        self.threads.iter_mut().flat_map(|thread| &mut thread.devices)
    }

    /// The device instance of that name.
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.devices().find(|device| device.name() == name)
    }

    /// Mutable reference to the device instance of that name.
    pub fn device_mut(&mut self, name: &str) -> Option<&mut Device> {
        self.devices_mut().find(|device| device.name() == name)
    }

    /// The names of all files: `pgctrl`, the threads, the device instances.
    pub fn names(&self) -> Vec<String> {
        let mut names = vec!["pgctrl".to_owned()];
        names.extend(self.threads.iter().map(Thread::file_name));
        names.extend(self.devices().map(|device| device.name().to_owned()));
        names
    }

    /// What the file of a name is, `None` when there is no such file.
    pub fn entry(&self, name: &str) -> Option<TreeFile> {
        if name == "pgctrl" {
            return Some(TreeFile::Pgctrl);
        }
        if let Some(thread) = self.threads.iter().find(|thread| thread.file_name() == name) {
            return Some(TreeFile::Thread { cpu: thread.cpu() });
        }
        let has_it = |thread: &&Thread| thread.devices.iter().any(|device| device.name() == name);
        self.threads.iter().find(has_it).map(|thread| TreeFile::Device { cpu: thread.cpu() })
    }

    /// `add_device`: puts a new device instance in front of the others of its thread, and writes
    /// the thread's result. `link` is what the host says about the interface of the name; `None`
    /// for "no such interface".
    ///
    /// # Errors
    /// In this order: EBUSY for a name in use on any thread, ENODEV, EINVAL for another kind of
    /// interface or for a name that no file can have, ENETDOWN.
    pub fn add_device(
        &mut self,
        cpu: u32,
        name: &[u8],
        link: Option<LinkState>,
    ) -> Result<&mut Device, Refusal> {
        let checked = self.check_new_name(name, link).map_err(|fault| Refusal { fault, span: 0..name.len() });
        let Some(thread) = self.thread_mut(cpu) else {
            return Err(Refusal { fault: Fault::NoThread { cpu }, span: 0..0 });
        };
        thread.result = if checked.is_ok() {
            b"OK: add_device=".to_vec()
        } else {
            b"ERROR: can not add device ".to_vec()
        };
        thread.result.extend(&name[..name.len().min(NAME_LEN_MAX)]);
        thread.devices.insert(0, Device::new(checked?));
        Ok(&mut thread.devices[0])
    }

    fn check_new_name(&self, bytes: &[u8], link: Option<LinkState>) -> Result<String, Fault> {
        let name = String::from_utf8_lossy(bytes).into_owned();
        if self.device(&name).is_some() {
            return Err(Fault::NameTaken { name });
        }
        match link {
            None => Err(Fault::NoInterface { name }),
            Some(link) if !link.is_ethernet_or_loopback => Err(Fault::NotEthernet { name }),
            Some(link) if !link.is_up => Err(Fault::InterfaceDown { name }),
            // The kernel also takes names that are not UTF-8; nothing else on a Linux host does any
            // more.
            Some(_) if !self.can_be_a_file(bytes) => Err(Fault::NotAFileName { name }),
            Some(_) => Ok(name),
        }
    }

    fn can_be_a_file(&self, name: &[u8]) -> bool {
        let is_plain = !name.is_empty() && !name.contains(&b'/') && name != b"." && name != b"..";
        is_plain && std::str::from_utf8(name).is_ok_and(|name| self.entry(name).is_none())
    }

    /// `rem_device_all`: removes all device instances of a thread and writes its result. The caller
    /// ends their runs.
    ///
    /// # Errors
    /// [`Fault::NoThread`].
    pub fn remove_all(&mut self, cpu: u32) -> Result<Vec<Device>, Refusal> {
        let thread = self.thread_for_command(cpu)?;
        thread.result = b"OK: rem_device_all".to_vec();
        Ok(std::mem::take(&mut thread.devices))
    }

    /// `max_before_softirq`: says that it has no effect.
    ///
    /// # Errors
    /// [`Fault::NoThread`].
    pub fn max_before_softirq(&mut self, cpu: u32) -> Result<(), Refusal> {
        let text = b"OK: Note! max_before_softirq is obsoleted -- Do not use";
        self.thread_for_command(cpu)?.result = text.to_vec();
        Ok(())
    }

    fn thread_for_command(&mut self, cpu: u32) -> Result<&mut Thread, Refusal> {
        self.thread_mut(cpu).ok_or(Refusal { fault: Fault::NoThread { cpu }, span: 0..0 })
    }

    /// `reset`: removes all device instances. The results of the threads stay.
    pub fn reset(&mut self) -> Vec<Device> {
        self.threads.iter_mut().flat_map(|thread| std::mem::take(&mut thread.devices)).collect()
    }

    /// Removes one device instance. The caller ends its run.
    pub fn remove_device(&mut self, name: &str) -> Option<Device> {
        let is_it = |device: &mut Device| device.name() == name;
        self.threads.iter_mut().find_map(|thread| thread.devices.extract_if(.., is_it).next())
    }

    /// Gives device instances new names, all at once, so that two may swap theirs: what is wanted,
    /// as old name and new. Returns what was done; a name that is taken, or that no file can have,
    /// leaves its device instance as it is. (The kernel loses track of an interface that is
    /// renamed; docs/pktgen.md, row 7.)
    pub fn rename_devices(&mut self, wanted: Vec<(String, String)>) -> Vec<(String, String)> {
        let mut moves = wanted;
        // One that has to stay keeps its name from another, which has to stay then as well.
        while let Some(blocked) = (0..moves.len()).find(|index| !self.may_move(&moves, *index)) {
            moves.remove(blocked);
        }
        for device in self.devices_mut() {
            if let Some((_, new)) = moves.iter().find(|(old, _)| old == device.name()) {
                device.rename(new.clone());
            }
        }
        moves
    }

    fn may_move(&self, moves: &[(String, String)], index: usize) -> bool {
        let (old, new) = &moves[index];
        let becomes_free = moves.iter().any(|(other, _)| other == new) && self.device(new).is_some();
        let is_wanted_before = moves[..index].iter().any(|(_, other)| other == new);
        self.device(old).is_some()
            && !is_wanted_before
            && (becomes_free || self.can_be_a_file(new.as_bytes()))
    }

    /// One write to the file of a device instance, `debug` included, which is one switch for the
    /// whole tree.
    ///
    /// # Errors
    /// [`Fault::NoInterface`] when there is no such device instance; otherwise the [`Refusal`] of
    /// the command by the device instance ([`Device::write`]).
    pub fn write_device(&mut self, name: &str, bytes: &[u8], facts: &Facts) -> Result<usize, Refusal> {
        let debug = self.debug;
        let Some(device) = self.device_mut(name) else {
            return Err(Refusal { fault: Fault::NoInterface { name: name.to_owned() }, span: 0..0 });
        };
        device.debug = debug;
        let written = device.write(bytes, facts);
        self.debug = device.debug;
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;
    use crate::interface_of;

    const UP: Option<LinkState> = Some(LinkState { is_up: true, is_ethernet_or_loopback: true });

    fn tree(names: &[(u32, &str)]) -> ControlTree {
        let mut tree = ControlTree::new([0, 1]);
        for (cpu, name) in names {
            tree.add_device(*cpu, name.as_bytes(), UP).unwrap();
        }
        tree
    }

    fn listed(tree: &ControlTree) -> String {
        tree.devices().map(Device::name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn interface_is_what_stands_before_the_first_at() {
        for (name, interface) in [
            ("lo", "lo"),
            ("lo@", "lo"),
            ("lo@a@b", "lo"),
            ("@0", ""),
            ("0123456789abcdefgh@1", "0123456789abcdef"),
        ] {
            assert_eq!(interface_of(name), interface);
        }
        assert_eq!(interface_of("0123456789abcdé"), "0123456789abcdé");
        assert_eq!(interface_of("0123456789abcdeé"), "0123456789abcde");
    }

    #[test]
    fn errors_come_in_the_kernels_order() {
        let mut tree = tree(&[(0, "lo@0")]);
        let down = Some(LinkState { is_up: false, is_ethernet_or_loopback: true });
        let other = Some(LinkState { is_up: false, is_ethernet_or_loopback: false });
        let cases: [(&str, Option<LinkState>, Errno); 8] = [
            ("lo@0", None, Errno::EBUSY),
            ("", None, Errno::ENODEV),
            ("ppp0/x", other, Errno::EINVAL),
            ("eth0/x", down, Errno::ENETDOWN),
            ("eth0@x/y", UP, Errno::EINVAL),
            ("pgctrl", UP, Errno::EINVAL),
            ("kpktgend_1", UP, Errno::EINVAL),
            ("..", UP, Errno::EINVAL),
        ];
        for (name, link, errno) in cases {
            assert_eq!(tree.add_device(1, name.as_bytes(), link).unwrap_err().errno(), errno, "{name}");
            let result = format!("Result: ERROR: can not add device {name}\n");
            assert!(String::from_utf8(tree.thread(1).unwrap().read()).unwrap().ends_with(&result), "{name}");
        }
        assert_eq!(listed(&tree), "lo@0");
        assert_eq!(tree.add_device(0, b"lo@\xff", UP).unwrap_err().errno(), Errno::EINVAL);
        assert!(tree.thread(0).unwrap().read().ends_with(b"Result: ERROR: can not add device lo@\xff\n"));
        assert_eq!(tree.add_device(7, b"lo", UP).unwrap_err().fault, Fault::NoThread { cpu: 7 });
    }

    #[test]
    fn newest_comes_first_and_files_are_found() {
        let mut tree = tree(&[(0, "lo@0"), (0, "lo"), (1, "eth0")]);
        assert_eq!(listed(&tree), "lo lo@0 eth0");
        assert_eq!(tree.names(), ["pgctrl", "kpktgend_0", "kpktgend_1", "lo", "lo@0", "eth0"]);
        assert_eq!(tree.entry("eth0"), Some(TreeFile::Device { cpu: 1 }));
        assert_eq!(tree.entry("kpktgend_1"), Some(TreeFile::Thread { cpu: 1 }));
        assert_eq!(tree.entry("kpktgend_2"), None);
        tree.device_mut("lo@0").unwrap().is_running = true;
        assert_eq!(
            tree.thread(0).unwrap().read(),
            b"Running: lo@0 \nStopped: lo \nResult: OK: add_device=lo\n"
        );
    }

    #[test]
    fn removing_keeps_what_is_not_meant() {
        let mut tree = tree(&[(0, "lo@0"), (0, "eth0"), (1, "eth0@1"), (1, "eth00")]);
        assert_eq!(tree.remove_device("eth0").map(|device| device.name().to_owned()), Some("eth0".into()));
        assert!(tree.remove_device("eth0@1").is_some() && tree.remove_device("eth0@1").is_none());
        assert_eq!(listed(&tree), "lo@0 eth00");
        assert_eq!(tree.remove_all(0).unwrap().len(), 1);
        assert_eq!(tree.thread(0).unwrap().read(), b"Running: \nStopped: \nResult: OK: rem_device_all\n");
        assert_eq!(tree.reset().len(), 1);
        assert_eq!(tree.names().len(), 3);
    }

    fn moves(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
        wanted.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect()
    }

    #[test]
    fn a_taken_name_is_left_to_its_owner() {
        let mut tree = tree(&[(0, "eth0"), (1, "eth0@1"), (1, "eth00")]);
        let wanted = moves(&[("eth0", "wan7"), ("eth0@1", "wan7@1")]);
        assert_eq!(tree.rename_devices(wanted.clone()), wanted);
        assert_eq!(listed(&tree), "wan7 eth00 wan7@1");
        assert_eq!(tree.device("wan7@1").unwrap().interface(), "wan7");
        assert_eq!(tree.rename_devices(moves(&[("eth00", "wan7"), ("gone", "eth9")])), []);
        assert_eq!(tree.rename_devices(moves(&[("eth00", "a/b"), ("wan7", "eth00")])), []);
        assert_eq!(listed(&tree), "wan7 eth00 wan7@1");
    }

    #[test]
    fn names_that_are_swapped_do_not_collide() {
        let mut tree = tree(&[(0, "e0"), (1, "e1"), (1, "e2")]);
        let wanted = moves(&[("e0", "e1"), ("e1", "e2"), ("e2", "e0")]);
        assert_eq!(tree.rename_devices(wanted.clone()), wanted);
        assert_eq!(listed(&tree), "e1 e0 e2", "the newest of a thread comes first");
    }

    #[test]
    fn debug_is_one_switch_for_all() {
        let mut tree = tree(&[(0, "lo@0"), (1, "lo@1")]);
        tree.write_device("lo@0", b"debug 1", &Facts::default()).unwrap();
        tree.write_device("lo@1", b"count 1", &Facts::default()).unwrap();
        assert_eq!(tree.debug, 1);
        tree.write_device("lo@1", b"debug 0", &Facts::default()).unwrap();
        assert_eq!(tree.debug, 0);
        assert!(tree.write_device("lo", b"count 1", &Facts::default()).is_err());
    }
}
