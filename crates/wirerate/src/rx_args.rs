//! Arguments of `capture`, `count` and `sink` that select devices and frames.
//!
//! tcpdump's and dumpcap's options work where wirerate has the same; where it has not, the answer
//! names the program that has.

use crate::device_patterns;
use host::{CommandPlace, DevicePlace, HostError, Link, Netns, Stack};
use program::outcome::Failure;

/// Arguments that select the devices and frames of `capture`, `count` and `sink`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RxArgs {
    /// The device, DEV or DEV@NETNS, or several for a capture. Words after them are a filter, as
    /// with --filter
    #[arg(value_name = "DEV")]
    pub words: Vec<String>,
    /// A device, as with tcpdump; all words without an option are then the filter
    #[arg(short, long = "interface", value_name = "DEV")]
    pub interfaces: Vec<String>,
    /// Only frames that match, such as 'udp port 9'; in the language of pcap-filter(7). Of a
    /// capture with several outputs the k-th filter is that of the k-th --write
    #[arg(short, long = "filter", value_name = "EXPRESSION")]
    pub filters: Vec<String>,
    /// Do not make the device promiscuous: a card drops frames for other addresses
    #[arg(short = 'p', long = "no-promisc", visible_alias = "no-promiscuous-mode")]
    pub no_promisc: bool,
    /// Network namespace of devices that are named without one: a name, a path such as
    /// /proc/PID/ns/net, or a process ID
    #[arg(long, value_name = "NETNS")]
    pub netns: Option<String>,
    /// Print no progress and no notes, only errors and the report
    #[arg(short, long)]
    pub quiet: bool,
    /// Options of tcpdump that do nothing here or need another program
    #[command(flatten)]
    pub tcpdump: TcpdumpArgs,
}

/// Options of tcpdump that do nothing here, and options that another program has to be used for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TcpdumpArgs {
    /// Addresses are never looked up
    #[arg(short = 'n', action = clap::ArgAction::Count, hide = true)]
    pub no_names: u8,
    /// Frames are written as they come
    #[arg(short = 'U', long = "packet-buffered", hide = true)]
    pub packet_buffered: bool,
    /// Lines are written as they come
    #[arg(short = 'l', hide = true)]
    pub line_buffered: bool,
    /// Frames are shown at once
    #[arg(long, hide = true)]
    pub immediate_mode: bool,
    /// Times are in nanoseconds
    #[arg(long, hide = true)]
    pub nano: bool,
    /// Times are in nanoseconds: no other precision is taken
    #[arg(long, value_name = "nano", value_parser = ["nano"], hide = true)]
    pub time_stamp_precision: Option<String>,
    /// Read a file
    #[arg(short = 'r', value_name = "FILE", hide = true)]
    pub read: Option<String>,
    /// List devices
    #[arg(short = 'D', long = "list-interfaces", hide = true)]
    pub list: bool,
    /// Print more
    #[arg(short = 'v', action = clap::ArgAction::Count, hide = true)]
    pub verbose: u8,
    /// Print as ASCII
    #[arg(short = 'A', hide = true)]
    pub ascii: bool,
    /// Print in hexadecimal and ASCII
    #[arg(short = 'X', action = clap::ArgAction::Count, hide = true)]
    pub hex_ascii: u8,
    /// Print in hexadecimal
    #[arg(short = 'x', action = clap::ArgAction::Count, hide = true)]
    pub hex: u8,
    /// Print link-layer headers
    #[arg(short = 'e', hide = true)]
    pub link_headers: bool,
}

/// What [`RxArgs`] select.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// The devices, at least one.
    pub devices: Vec<String>,
    /// Their namespace.
    pub netns: Option<Netns>,
    /// Which frames, for all outputs or the first one.
    pub filter: Option<String>,
    /// Which frames each output gets, in the order of the options; empty if words are the filter.
    pub filters: Vec<String>,
    /// True if a word named several devices: `any`, or a pattern.
    pub is_group: bool,
    /// The words that named the devices, as they were typed.
    pub typed: Vec<String>,
    /// The first word of the filter, if it was taken for one because no device has its name.
    pub first_filter_word: Option<String>,
}

impl RxArgs {
    /// Finds the devices and the filter among the words of `wirerate VERB`.
    ///
    /// # Errors
    /// No device, or an option that only another program has.
    pub fn targets(&self, verb: &str) -> Result<Targets, Failure> {
        self.refuse_other_programs(verb)?;
        let first = self.interfaces.first().or(self.words.first());
        let act = self.act(verb, first.map_or("a device", String::as_str));
        let (netns, stack) = self.place().map_err(|why| Failure::host(&act, why))?;
        let is_group = |name: &str| verb == "capture" && device_patterns::is_pattern(name, &stack);
        let exists = |name: &str| stack.link(name).is_ok() || is_group(name);
        let (typed, words) = split(&self.interfaces, &self.words, exists);
        let Some(first) = typed.first() else {
            return Err(Failure::usage(verb, "no device is named").try_this(self.command(
                verb,
                &up(&stack),
                "",
            )));
        };
        let mut devices = Vec::new();
        for name in typed {
            let named =
                if is_group(name) { device_patterns::matching(name, &stack) } else { vec![name.clone()] };
            if named.is_empty() {
                let why = format!("no device has a name like {name}");
                return Err(Failure::usage(act, why).try_this(self.command(verb, &up(&stack), "")));
            }
            let is_new = |name: &String| !devices.contains(name);
            let new: Vec<String> = named.into_iter().filter(is_new).collect();
            devices.extend(new);
        }
        if devices.iter().any(|name| name == "any" && !exists(name)) {
            let why = "an XDP program and its rings belong to one device, so `any` cannot stand for all";
            return Err(Failure::usage(act, why).try_this(self.command(verb, &up(&stack), &words.join(" "))));
        }
        // Here, because the error of this look-up names the namespace.
        if let Some(why) = devices.iter().find_map(|name| stack.link(name.as_str()).err()) {
            let failure = Failure::host(act, why);
            if !self.interfaces.is_empty() || (!first.contains(' ') && words.is_empty()) {
                return Err(failure);
            }
            let filter = self.words.join(" ");
            return Err(
                failure.try_this(format!("the device first: {}", self.command(verb, &up(&stack), &filter)))
            );
        }
        self.refuse_filters(verb, words)?;
        let first_filter = self.filters.first();
        let filter = first_filter.map(String::as_str).into_iter().chain(words.iter().map(String::as_str));
        let filter = filter.collect::<Vec<_>>().join(" ");
        let mut filters = self.filters.clone();
        if let Some(first) = filters.first_mut() {
            first.clone_from(&filter);
        }
        Ok(Targets {
            is_group: typed.iter().any(|name| is_group(name)),
            devices,
            typed: typed.to_vec(),
            netns,
            filter: (first_filter.is_some() || !words.is_empty()).then_some(filter),
            filters,
            first_filter_word: words.first().filter(|_| self.interfaces.is_empty()).cloned(),
        })
    }

    /// The namespace of the devices, and its network stack.
    ///
    /// # Errors
    /// When the namespace is not there or cannot be entered.
    pub fn place(&self) -> Result<(Option<Netns>, Stack), HostError> {
        let netns = self.netns.as_deref().map(Netns::named).transpose()?;
        let stack = netns.as_ref().map_or_else(Stack::here, Stack::of)?;
        Ok((netns, stack))
    }

    /// The first of the devices after `-i`, or else the first word, if no device has that name now
    /// or matches that pattern.
    pub fn missing(&self, stack: &Stack) -> Option<&str> {
        let names = match &self.interfaces[..] {
            [] => self.words.get(..1).unwrap_or_default(),
            names => names,
        };
        let is_missing = |name: &&str| match device_patterns::is_pattern(name, stack) {
            true => device_patterns::matching(name, stack).is_empty(),
            false => stack.link(*name).is_err(),
        };
        names.iter().map(String::as_str).find(is_missing)
    }

    /// Takes the namespace from devices that are named `DEV@NETNS`.
    ///
    /// # Errors
    /// Bad usage for devices of several namespaces.
    pub fn split_devices(&mut self, verb: &str) -> Result<(), Failure> {
        let (are_options, netns) = (!self.interfaces.is_empty(), self.netns.clone());
        let words = if are_options { &mut self.interfaces } else { &mut self.words };
        if !words.iter().any(|word| word.contains('@')) {
            return Ok(());
        }
        let stack = netns.as_deref().map_or_else(Netns::current, Netns::named).and_then(|it| Stack::of(&it));
        let exists = |name: &str| stack.as_ref().is_ok_and(|stack| stack.link(name).is_ok());
        let is_device = |(index, word): &(usize, &String)| {
            are_options || *index == 0 || word.contains('@') || exists(word)
        };
        let count = words.iter().enumerate().take_while(is_device).count();
        let place = |word: &String| DevicePlace::of(word, netns.as_deref());
        let places: Vec<DevicePlace> = words[..count].iter().map(place).collect();
        let devices: Vec<String> = places.iter().map(|place| place.device.clone()).collect();
        if places.iter().any(|place| place.netns != places[0].netns) {
            let names = places.iter().map(DevicePlace::to_string).collect::<Vec<_>>().join(" and ");
            let why = "the devices of a capture are in one network namespace";
            return Err(Failure::usage(format!("{verb} on {names}"), why)
                .try_this(format!("`wirerate {verb} {}`, and another one for the rest", places[0])));
        }
        let given: Vec<String> = words.splice(..count, devices.iter().cloned()).collect();
        if are_options
            && let Some(again) = self.words.first_mut()
            && let Some(index) = given.iter().position(|word| word == again)
        {
            again.clone_from(&devices[index]);
        }
        self.netns.clone_from(&places[0].netns);
        Ok(())
    }

    /// `capture on eth0 in lab`
    pub fn act(&self, verb: &str, device: &str) -> String {
        let verb = if verb == "sink" { "count" } else { verb };
        match &self.netns {
            Some(netns) => format!("{verb} on {device} in {netns}"),
            None => format!("{verb} on {device}"),
        }
    }

    /// A command line for these devices, in backquotes.
    fn command(&self, verb: &str, devices: &[String], rest: &str) -> String {
        let mut words = format!("wirerate {verb}");
        let netns = self.netns.iter().map(|netns| format!("--netns {netns}"));
        let rest = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
        // `count` and `sink` take one device.
        let count_max = if verb == "capture" { devices.len() } else { 1 };
        for word in devices.iter().take(count_max).cloned().chain(netns).chain(rest) {
            words.push(' ');
            words.push_str(&word);
        }
        format!("`{words}`")
    }

    /// Refuses several filters where one is possible, or with words that belong to none of them.
    fn refuse_filters(&self, verb: &str, words: &[String]) -> Result<(), Failure> {
        if self.filters.len() < 2 {
            return Ok(());
        }
        let all = self.filters.iter().map(|filter| format!("({filter})")).collect::<Vec<_>>().join(" or ");
        if verb != "capture" {
            let failure = Failure::usage("use several filters", format!("`wirerate {verb}` has one"));
            return Err(failure.try_this(format!("-f '{all}'")));
        }
        if !words.is_empty() {
            let why = format!("'{}' belongs to none of the {} filters", words.join(" "), self.filters.len());
            return Err(Failure::usage("use several filters", why)
                .try_this("each filter as one word: -f 'udp port 9' -f tcp"));
        }
        Ok(())
    }

    fn refuse_other_programs(&self, verb: &str) -> Result<(), Failure> {
        let TcpdumpArgs { read, list, verbose, ascii, hex_ascii, hex, link_headers, .. } = &self.tcpdump;
        if let Some(file) = read {
            let why = format!("`wirerate {verb}` receives from a device and reads no files");
            return Err(Failure::usage(format!("read {file}"), why).try_this(format!(
                "`tcpdump -n -r {file}` to print it, `wirerate analyze {file}` to measure it, or `wirerate \
                 replay DEV {file}` to send it"
            )));
        }
        if *list {
            let list = CommandPlace::of(self.netns.as_deref()).ip("-br link");
            return Err(Failure::usage("list devices", format!("`wirerate {verb}` takes the name of one"))
                .try_this(format!("`{list}`, or `wirerate doctor DEV` for what works on one")));
        }
        let print = [
            ("v", *verbose > 0),
            ("A", *ascii),
            ("X", *hex_ascii > 0),
            ("x", *hex > 0),
            ("e", *link_headers),
        ];
        if let Some((option, _)) = print.into_iter().find(|(_, is_given)| *is_given) {
            let devices = [&self.interfaces[..], &self.words[..]].concat();
            let devices = if devices.is_empty() { vec!["eth0".to_owned()] } else { devices };
            let print = format!("-w - | tcpdump -n -{option} -r -");
            let refused = Failure::usage(
                format!("print frames (-{option})"),
                "wirerate prints one line per frame (--print) and leaves the rest to tcpdump",
            );
            return Err(refused.try_this(self.command("capture", &devices, &print)));
        }
        Ok(())
    }
}

/// The devices and the words of a filter. With `interfaces`, all words are the filter, except a
/// first one that names one of them again; without, the first word is a device, and so are those
/// behind it until the first that is not there.
fn split<'a>(
    interfaces: &'a [String],
    words: &'a [String],
    exists: impl Fn(&str) -> bool,
) -> (&'a [String], &'a [String]) {
    if !interfaces.is_empty() {
        let is_again = words.first().is_some_and(|word| interfaces.contains(word));
        return (interfaces, &words[usize::from(is_again)..]);
    }
    let more = words.iter().skip(1).take_while(|word| exists(word)).count();
    words.split_at(words.len().min(1 + more))
}

/// Devices that are up, for an example; the loopback device if it is the only one.
fn up(stack: &Stack) -> Vec<String> {
    const COUNT_MAX: usize = 3;
    let links = stack.links().unwrap_or_default();
    let up = links.iter().filter(|link| link.is_up() && !link.is_loopback());
    let names: Vec<String> = up.map(|link: &Link| link.name.clone()).take(COUNT_MAX).collect();
    if names.is_empty() { vec!["lo".to_owned()] } else { names }
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::args_of;

    fn parsed(words: &str) -> RxArgs {
        args_of(words).unwrap()
    }

    /// `capture eth1 udp port 9` said that there was no device udp.
    #[test]
    fn words_behind_the_devices_are_the_filter() {
        let exists = |name: &str| ["eth1", "eth2"].contains(&name);
        for (words, devices, filter) in [
            ("eth1", "eth1", ""),
            ("eth1 eth2", "eth1 eth2", ""),
            ("eth1 udp port 9", "eth1", "udp port 9"),
            ("eth1 eth2 host 198.18.0.1 and eth1", "eth1 eth2", "host 198.18.0.1 and eth1"),
            ("eth9 eth1", "eth9 eth1", ""),
            ("udp port 9", "udp", "port 9"),
            ("-i eth1 udp port 9", "eth1", "udp port 9"),
            ("eth1 -i eth1", "eth1", ""),
            ("eth1 -ni eth1 udp port 9", "eth1", "udp port 9"),
            ("-i eth1 -i eth2 host eth1", "eth1 eth2", "host eth1"),
            ("--interface eth9 -nn tcp", "eth9", "tcp"),
            ("", "", ""),
        ] {
            let args = parsed(words);
            let (got, rest) = split(&args.interfaces, &args.words, exists);
            assert_eq!((got.join(" "), rest.join(" ")), (devices.to_owned(), filter.to_owned()), "{words}");
        }
    }

    #[test]
    fn devices_have_their_namespace_behind_an_at() {
        let path = "/proc/self/ns/net";
        for (words, expected) in [
            (format!("lo@{path} udp port 9"), "lo udp port 9"),
            (format!("-i lo@{path} udp port 9"), "lo udp port 9"),
            (format!("-i lo@{path} lo@{path} udp"), "lo lo udp"),
            (format!("lo@{path} lo@{path} udp"), "lo lo udp"),
        ] {
            let mut args = parsed(&words);
            args.split_devices("capture").unwrap();
            let got = [&args.interfaces[..], &args.words].concat().join(" ");
            assert_eq!((got.as_str(), args.netns.as_deref()), (expected, Some(path)), "{words}");
            assert_eq!(args.targets("capture").expect("lo is there").devices[0], "lo");
        }
        let refused = parsed(&format!("lo@{path} lo udp")).split_devices("capture").unwrap_err().to_string();
        assert!(refused.contains("in one network namespace"), "{refused}");
    }

    #[test]
    fn words_behind_a_filter_option_are_added_to_it() {
        let targets = parsed("lo --filter udp port 9 -n").targets("capture").expect("lo is there");
        assert_eq!(targets.filter.as_deref(), Some("udp port 9"));
        assert_eq!(targets.devices, ["lo"]);
        assert_eq!(parsed("lo").targets("capture").expect("lo is there").filter, None);
    }

    #[test]
    fn wildcards_and_other_programs_options_are_refused_with_the_way_to_go() {
        for (words, why, to_try) in [
            ("", "no device is named", "  try: `wirerate capture "),
            ("udp port 9", "there is no device udp", "udp port 9`"),
            (
                "-r x.pcap",
                "`wirerate capture` receives from a device and reads no files",
                "`tcpdump -n -r x.pcap`",
            ),
            (
                "-r x.pcap",
                "cannot read x.pcap",
                "`wirerate analyze x.pcap` to measure it, or `wirerate replay DEV x.pcap`",
            ),
            ("-D", "takes the name of one", "`ip -br link`"),
            ("eth1 -vv", "print frames (-v)", "`wirerate capture eth1 -w - | tcpdump -n -v -r -`"),
            ("-i eth1 -X", "print frames (-X)", "`wirerate capture eth1 -w - | tcpdump -n -X -r -`"),
        ] {
            let text = parsed(words).targets("capture").expect_err(words).to_string();
            assert!(text.contains(why) && text.contains(to_try), "{words}: {text}");
        }
        let text = parsed("any").targets("count").expect_err("one program counts one device").to_string();
        assert!(text.contains("`any` cannot stand for all") && text.contains("`wirerate count "), "{text}");
        let group = parsed("any udp").targets("capture").expect("there is lo");
        assert!(group.is_group && group.devices.contains(&"lo".to_owned()));
        assert_eq!((group.typed, group.filter.as_deref()), (vec!["any".to_owned()], Some("udp")));
    }

    /// `-i eth0 -i late0 --wait` waited for eth0 only.
    #[test]
    fn all_devices_of_an_option_are_waited_for_and_else_the_first_word() {
        let stack = Stack::here().unwrap();
        for (words, missing) in [
            ("-i lo -i late0", Some("late0")),
            ("-i lo -i l?", None),
            ("-i late*", Some("late*")),
            ("late0 udp", Some("late0")),
            ("lo udp", None),
            ("any", None),
            ("", None),
        ] {
            assert_eq!(parsed(words).missing(&stack), missing, "{words}");
        }
    }
}
