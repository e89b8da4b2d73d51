//! Groups of devices: all of a namespace, or those of some names or patterns. Devices join a group
//! while it is captured.

use crate::backend::filter::{self, SocketFilter, netmask_of};
use crate::backend::hwtstamp::Hardware;
use crate::backend::nic_stats::NicLoss;
use crate::device_group::DeviceGroup;
use crate::interfaces::{InterfaceTable, Numbering};
use crate::promiscuous::Promiscuity;
use crate::record::ring_handle::{RingDevice, RingDevices};
use crate::time::utc::monotonic_now_ns;
use crate::{CaptureDirection, CaptureError, ClockMode, Options, describe};
use host::{Link, LinkEvents, MacAddr, Stack};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Types of devices whose frames begin with an Ethernet header (`ARPHRD_ETHER`, `ARPHRD_LOOPBACK`).
const ETHERNET_TYPES: [u32; 2] = [libc::ARPHRD_ETHER as u32, libc::ARPHRD_LOOPBACK as u32];
/// Devices of other names that the kernel's filter turns away: two instructions each, of 4,096 that
/// a filter may have. The process turns the frames of others away.
const REFUSED_MAX: usize = 1_000;

/// What happened to a group while it is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// A device of this name is captured, too.
    Joined(String),
    /// A device belongs to the group and is not captured.
    Refused {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// A device was deleted or left the namespace.
    Left(String),
}

/// One device.
pub(crate) struct CaptureDevice {
    pub(crate) link: Link,
    pub(crate) numbering: Numbering,
    /// Since it was opened.
    pub(crate) nic_loss: NicLoss,
    /// Its clock, where it stamps frames, or why it has none.
    pub(crate) hardware: Hardware,
    pub(crate) promiscuity: Promiscuity,
    /// True once it was found not to be in its namespace any more, where its tap goes on.
    pub(crate) has_moved: AtomicBool,
    /// What the process checks of its frames, if it is one of a group with a filter.
    pub(crate) filter: Option<DeviceFilter>,
    /// Its name and address when it was last seen; both may change.
    seen: Mutex<(String, Option<MacAddr>)>,
}

/// The devices whose frames reach the rings of one tap: one, or those of a group.
pub(crate) struct TapDevices {
    /// In the order of their interfaces.
    all: RwLock<Arc<Vec<Arc<CaptureDevice>>>>,
    group: Option<Group>,
}

/// Whose frame it is.
#[derive(Clone)]
pub(crate) enum Owner {
    Device(Arc<CaptureDevice>),
    /// A device that does not belong to the group, or cannot be captured.
    Other,
    /// A device that was gone before anything of it was known.
    Unknown,
}

impl TapDevices {
    /// A tap of one device.
    pub(crate) fn one(device: CaptureDevice) -> Arc<Self> {
        Arc::new(Self { all: RwLock::new(Arc::new(vec![Arc::new(device)])), group: None })
    }

    /// The devices that belong to a group now; others join later. If a file
    /// `holds_one_link_type`, only those whose frames are of the kind of the first one do.
    ///
    /// # Errors
    /// When there is none that can be captured, for the first of them; and those of a filter.
    pub(crate) fn of_group(
        rule: DeviceGroup,
        stack: Arc<Stack>,
        options: &Options,
        interfaces: Arc<InterfaceTable>,
        holds_one_link_type: bool,
    ) -> Result<Arc<Self>, CaptureError> {
        // Before the first look, so that no change is missed.
        let events = LinkEvents::here()?;
        let filter = options.filter.as_ref().map(|expression| GroupFilter::new(expression, options));
        let group = Group {
            rule,
            stack,
            interfaces,
            clock: options.clock,
            is_promiscuous: options.promiscuous,
            is_loopback_once: options.direction == CaptureDirection::Both,
            filter: filter.transpose()?,
            link_type: OnceLock::new(),
            events,
            refused: Mutex::default(),
            turned_away: Mutex::default(),
            refilter: OnceLock::new(),
            changes: Mutex::default(),
            generation: AtomicU64::new(0),
            is_stamped: AtomicBool::new(false),
            networks_asked_s: AtomicU64::new(0),
        };
        let links = group.stack.links()?;
        let devices = Self { all: RwLock::default(), group: Some(group) };
        let group = devices.group.as_ref().expect("it is one");
        let (mut refused, mut first_error) = (HashMap::new(), None);
        for link in links.into_iter().filter(|link| group.rule.has(&link.name)) {
            let (name, index) = (link.name.clone(), link.index);
            match group.admit(link) {
                Ok(device) => {
                    if holds_one_link_type {
                        // The first one sets it.
                        let _ = group.link_type.set(describe::link_type(&device.link)?);
                    }
                    devices.push(device);
                }
                Err(error) => {
                    refused.insert(index, name.clone());
                    group.tell(GroupChange::Refused { name, why: error.to_string() });
                    first_error.get_or_insert(error);
                }
            }
        }
        if devices.all().is_empty() {
            let gone = || CaptureError::NoDeviceOfGroup { group: group.rule.to_string() };
            return Err(first_error.unwrap_or_else(gone));
        }
        *group.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
        Ok(Arc::new(devices))
    }

    /// True if devices may join.
    pub(crate) fn is_group(&self) -> bool {
        self.group.is_some()
    }

    /// The devices by now, at least one.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<CaptureDevice>>> {
        Arc::clone(&self.all.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The first one, or the only one.
    pub(crate) fn first(&self) -> Arc<CaptureDevice> {
        Arc::clone(&self.all()[0])
    }

    /// The device, or what the user called the group.
    pub(crate) fn name(&self) -> String {
        match &self.group {
            Some(group) => group.rule.to_string(),
            None => self.first().link.name.clone(),
        }
    }

    /// The interfaces of all devices below number `end`.
    pub(crate) fn numbers(&self, end: usize) -> Vec<u32> {
        let numbers = |device: &Arc<CaptureDevice>| device.numbering.numbers();
        self.all().iter().flat_map(numbers).filter(|number| (*number as usize) < end).collect()
    }

    /// True if the sockets are to give the stamps of devices: one has a clock, and no device stamps
    /// frames by a clock that cannot be read. None that does may join then.
    pub(crate) fn wants_stamps(&self) -> bool {
        let (all, group) = (self.all(), self.group.as_ref());
        let mut hardware = all.iter().map(|device| &device.hardware);
        let wants = hardware.clone().any(|hardware| hardware.clock.is_some())
            && hardware.all(|hardware| hardware.refusal.is_none());
        group.inspect(|group| group.is_stamped.store(wants, Relaxed));
        wants
    }

    /// The filter of the group, if it has one.
    pub(crate) fn filter(&self) -> Option<&GroupFilter> {
        self.group.as_ref()?.filter.as_ref()
    }

    /// Numbers of devices that do not belong to the group now, for the kernel to turn away.
    pub(crate) fn others(&self) -> Vec<u32> {
        let Some(group) = self.group.as_ref().filter(|group| !group.rule.is_all()) else { return Vec::new() };
        let links = group.stack.links().unwrap_or_default();
        let is_other = |link: &&Link| {
            !group.rule.has(&link.name) && !self.all().iter().any(|device| device.link.index == link.index)
        };
        let others = links.iter().filter(is_other).map(|link| link.index).take(REFUSED_MAX);
        let mut turned_away = group.turned_away.lock().unwrap_or_else(PoisonError::into_inner);
        *turned_away = others.collect();
        turned_away.iter().copied().collect()
    }

    /// What makes the kernel ask for [`Self::others`] anew: a device of another name got one that
    /// belongs to the group.
    pub(crate) fn set_refilter(&self, refilter: Box<dyn Fn() + Send + Sync>) {
        if let Some(group) = &self.group {
            // A tap is attached once.
            let _ = group.refilter.set(refilter);
        }
    }

    /// True if frames that leave by a loopback device, where they come in again, are left out.
    pub(crate) fn shows_loopback_once(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.is_loopback_once)
    }

    /// Grows when what was known of devices may not be true any more.
    pub(crate) fn generation(&self) -> u64 {
        self.group.as_ref().map_or(0, |group| group.generation.load(Relaxed))
    }

    /// The changes since this was last asked.
    pub(crate) fn take_changes(&self) -> Vec<GroupChange> {
        let changes = |group: &Group| {
            std::mem::take(&mut *group.changes.lock().unwrap_or_else(PoisonError::into_inner))
        };
        self.group.as_ref().map_or_else(Vec::new, changes)
    }

    /// Whose frames have this number. Asks the kernel about one that is not known.
    pub(crate) fn owner(&self, ifindex: u32) -> Owner {
        let Some(group) = &self.group else { return Owner::Device(self.first()) };
        let find = |is_here: bool| {
            let is_it = |device: &&Arc<CaptureDevice>| {
                device.link.index == ifindex && (!is_here || !device.has_moved.load(Relaxed))
            };
            self.all().iter().rev().find(is_it).cloned()
        };
        if let Some(device) = find(true) {
            return Owner::Device(device);
        }
        match group.stack.find_link(ifindex) {
            Ok(Some(link)) if group.rule.has(&link.name) => {
                self.join(group, link);
                find(true).map_or(Owner::Other, Owner::Device)
            }
            Ok(Some(_)) => Owner::Other,
            // Its last frames, after it was deleted.
            Ok(None) | Err(_) => match find(false) {
                Some(device) => Owner::Device(device),
                None if group.rule.is_all() && !group.has_refused(ifindex) => Owner::Unknown,
                None => Owner::Other,
            },
        }
    }

    /// Watches which devices of the group come and go, until [`Self::stop_watching`].
    pub(crate) fn watch(&self) {
        while self.group.as_ref().is_some_and(|group| group.events.wait()) {
            self.look();
        }
    }

    /// Ends [`Self::watch`].
    pub(crate) fn stop_watching(&self) {
        self.group.iter().for_each(|group| group.events.close());
    }

    /// Finds out which devices have come and gone, if the kernel has announced a change.
    fn look(&self) {
        let Some(group) = self.group.as_ref().filter(|group| group.events.take()) else { return };
        let Ok(links) = group.stack.links() else { return };
        for device in self.all().iter().filter(|device| !device.has_moved.load(Relaxed)) {
            if !links.iter().any(|link| device.is(link)) {
                // Should it come back, it is another device.
                device.has_moved.store(true, Relaxed);
                device.promiscuity.end();
                group.tell(GroupChange::Left(device.link.name.clone()));
            }
        }
        group.forget_refused(&links);
        for link in links.into_iter().filter(|link| group.rule.has(&link.name)) {
            self.join(group, link);
        }
        group.generation.fetch_add(1, Relaxed);
    }

    /// Compiles the filters of devices anew that have another IPv4 network than before.
    pub(crate) fn look_at_networks(&self) {
        let Some(group) = &self.group else { return };
        let Some(filter) = group.filter.as_ref().filter(|filter| filter.ethernet.is_none()) else { return };
        let now_s = monotonic_now_ns() / 1_000_000_000;
        if group.networks_asked_s.swap(now_s, Relaxed) == now_s {
            return;
        }
        for device in self.all().iter().filter(|device| !device.has_moved.load(Relaxed)) {
            let netmask = netmask_of(&group.stack, &device.link);
            let Some(own) = device.filter.as_ref().filter(|own| own.netmask() != netmask) else { continue };
            // It was compiled for this device before; a failure leaves that one in place.
            if let Ok(compiled) = filter.compile(&device.link, netmask) {
                own.replace(compiled, netmask);
                group.generation.fetch_add(1, Relaxed);
            }
        }
    }

    /// Adds a device, unless it is there or was refused.
    fn join(&self, group: &Group, link: Link) {
        // Held until it has joined: several readers may ask for it.
        let mut refused = group.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |device: &Arc<CaptureDevice>| device.link.index == link.index && !device.has_moved.load(Relaxed);
        if refused.contains_key(&link.index) || self.all().iter().any(is_it) {
            return;
        }
        let (name, index) = (link.name.clone(), link.index);
        match group.admit(link) {
            Ok(device) => {
                self.push(device);
                let turned_away = group.turned_away.lock().unwrap_or_else(PoisonError::into_inner);
                let is_turned_away = turned_away.contains(&index);
                drop(turned_away);
                group.refilter.get().filter(|_| is_turned_away).into_iter().for_each(|refilter| refilter());
                group.tell(GroupChange::Joined(name));
            }
            Err(error) => {
                refused.insert(index, name.clone());
                group.tell(GroupChange::Refused { name, why: error.to_string() });
            }
        }
    }

    fn push(&self, device: CaptureDevice) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut *all).push(Arc::new(device));
    }
}

impl RingDevices for TapDevices {
    fn of_interface(&self, interface: usize) -> RingDevice {
        let all = self.all();
        let later = all.partition_point(|device| device.numbering.numbers().start as usize <= interface);
        RingDevice::of(&all[later.saturating_sub(1)].link)
    }
}

/// A group and what its devices are captured with.
struct Group {
    rule: DeviceGroup,
    stack: Arc<Stack>,
    interfaces: Arc<InterfaceTable>,
    clock: ClockMode,
    /// Whether devices are made promiscuous.
    is_promiscuous: bool,
    is_loopback_once: bool,
    filter: Option<GroupFilter>,
    /// The only kind of frames that the file can hold, if there is but one.
    link_type: OnceLock<u16>,
    events: LinkEvents,
    /// Numbers and names of devices that cannot be captured, also of some that are gone: frames of
    /// theirs may still be in a ring.
    refused: Mutex<HashMap<u32, String>>,
    /// Numbers of devices whose frames the kernel turns away.
    turned_away: Mutex<HashSet<u32>>,
    refilter: OnceLock<Box<dyn Fn() + Send + Sync>>,
    changes: Mutex<Vec<GroupChange>>,
    generation: AtomicU64,
    /// True if the sockets give the stamps of devices.
    is_stamped: AtomicBool,
    /// When networks were last asked for, in seconds.
    networks_asked_s: AtomicU64,
}

impl Group {
    fn tell(&self, change: GroupChange) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
    }

    fn has_refused(&self, ifindex: u32) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&ifindex)
    }

    /// A number that was that of a refused device may be another device's by now.
    fn forget_refused(&self, links: &[Link]) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other =
            |index: u32, name: &str| links.iter().any(|link| link.index == index && link.name != name);
        refused.retain(|index, name| !is_other(*index, name));
        if refused.len() > REFUSED_MAX {
            refused.retain(|index, _| links.iter().any(|link| link.index == *index));
        }
    }

    fn admit(&self, link: Link) -> Result<CaptureDevice, CaptureError> {
        if self.link_type.get().is_some_and(|only| describe::link_type(&link).ok() != Some(*only)) {
            let what = "a device with another kind of frames";
            return Err(CaptureError::Contradiction { what, other: "the pcap format" });
        }
        let hardware = Hardware::of(&self.stack, &link, self.clock)?;
        if let Some(why) = hardware.refusal.clone().filter(|_| self.is_stamped.load(Relaxed)) {
            return Err(CaptureError::ClockOfGroup { ifname: link.name, why });
        }
        let filter = self.filter.as_ref().map(|filter| filter.of_device(&self.stack, &link)).transpose()?;
        let promiscuity = Promiscuity::of(&link, self.is_promiscuous);
        let clock = hardware.clock.as_deref();
        let numbering = self.interfaces.add(&self.stack, &link, clock, promiscuity.is_on())?;
        Ok(CaptureDevice::new(&self.stack, link, numbering, hardware, promiscuity, filter))
    }
}

/// A filter for the frames of a group.
pub(crate) struct GroupFilter {
    expression: String,
    snaplen: u32,
    interrupted: Arc<AtomicBool>,
    /// For frames with an Ethernet header, if the kernel can run one for all devices that have
    /// such frames. Else the process runs that of each device.
    ethernet: Option<SocketFilter>,
}

impl GroupFilter {
    fn new(expression: &str, options: &Options) -> Result<Self, CaptureError> {
        let interrupted = Arc::clone(&options.interrupted);
        let compiled = filter::compile(expression, pcapng::LINK_TYPE_ETHERNET, options.snaplen, &interrupted);
        let ethernet = match compiled {
            Ok(classic) => Some(SocketFilter::new(classic)).filter(|filter| !filter.sees_all()),
            // It may take the netmask of a device, or another kind of frames.
            Err(CaptureError::Filter { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { expression: expression.to_owned(), snaplen: options.snaplen, interrupted, ethernet })
    }

    /// What the process checks of frames of `link`, a device of `stack`.
    fn of_device(&self, stack: &Stack, link: &Link) -> Result<DeviceFilter, CaptureError> {
        let netmask = netmask_of(stack, link);
        Ok(DeviceFilter(Mutex::new((Arc::new(self.compile(link, netmask)?), netmask))))
    }

    /// Without a network, `ip broadcast` is what is broadcast in all networks.
    fn compile(&self, link: &Link, netmask: Option<u32>) -> Result<SocketFilter, CaptureError> {
        if let Some(filter) = &self.ethernet
            && describe::link_type(link)? == pcapng::LINK_TYPE_ETHERNET
        {
            return Ok(filter.clone());
        }
        let netmask = netmask.unwrap_or(0);
        let filter = filter::for_device_in(&self.expression, link, self.snaplen, netmask, &self.interrupted)?;
        Ok(SocketFilter::in_process(filter))
    }

    /// What the kernel runs on frames of devices of these types (`ARPHRD_*`), if anything.
    pub(crate) fn of_kernel(&self) -> Option<(&::filter::Classic, &'static [u32])> {
        self.ethernet.as_ref().map(|filter| (&filter.kernel, &ETHERNET_TYPES[..]))
    }
}

/// What the process checks of frames of one device of a group, and the netmask that it was compiled
/// for.
pub(crate) struct DeviceFilter(Mutex<(Arc<SocketFilter>, Option<u32>)>);

impl DeviceFilter {
    /// The filter as of now.
    pub(crate) fn get(&self) -> Arc<SocketFilter> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    fn netmask(&self) -> Option<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    fn replace(&self, filter: SocketFilter, netmask: Option<u32>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Arc::new(filter), netmask);
    }
}

impl CaptureDevice {
    /// True if this is what has become of the device. Numbers are used again.
    fn is(&self, link: &Link) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = link.index == self.link.index
            && (&link.kind, link.layer) == (&self.link.kind, self.link.layer)
            && (link.name == seen.0 || (link.mac.is_some() && link.mac == seen.1));
        if is_it {
            *seen = (link.name.clone(), link.mac);
        }
        is_it
    }

    /// A device that counts from now on.
    pub(crate) fn new(
        stack: &Stack,
        link: Link,
        numbering: Numbering,
        hardware: Hardware,
        promiscuity: Promiscuity,
        filter: Option<DeviceFilter>,
    ) -> Self {
        let nic_loss = NicLoss::new(stack, &link);
        let seen = Mutex::new((link.name.clone(), link.mac));
        let has_moved = AtomicBool::new(false);
        Self { link, numbering, nic_loss, hardware, promiscuity, has_moved, filter, seen }
    }
}
