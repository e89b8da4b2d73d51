//! The file of `--streams`: JSON, one object per stream. Its members are options of `send` without
//! the dashes, and those of a stream itself.

use crate::frame_args::{FRAME_OPTIONS, FrameArgs, FrameOption, SetFrameOption};
use crate::send::SendArgs;
use clap::Args;
use packet::Arrivals;
use program::outcome::Failure;
use program::waiting_read;
use sender::job::{SendJob, StreamEntry};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::num::NonZeroU32;
use std::path::Path;
use std::str::FromStr;
use units::{Nanos, arrivals, time_with_unit};

/// Options of a run that each stream has for itself.
const OF_RUN: &[&str] = &["count", "duration", "rate", "pps", "delay", "arrivals"];
/// Members that are not options of `send`.
const OF_STREAM: &[&str] = &["name", "frame", "start", "weight", "burst", "gap"];
/// A file for error messages.
const EXAMPLE: &str = r#"[{"name": "a", "dst": "198.18.0.2", "pps": "10k", "count": 1000}, {"name": "b", "dst": "198.18.0.3"}]"#;

/// What the options of a run ask for, with the streams of its file.
///
/// # Errors
/// Refused when the file cannot be read, bad usage for anything that is not a list of streams.
pub fn job_of(args: SendArgs) -> Result<SendJob, Failure> {
    let path = args.streams.clone();
    let mut job = args.job();
    if let Some(path) = path {
        job.streams = read(&path, &job)?;
    }
    Ok(job)
}

/// The streams of a file, for the device of `run`.
fn read(path: &Path, run: &SendJob) -> Result<Vec<StreamEntry>, Failure> {
    let text = waiting_read::read_to_string(path).map_err(|why| Failure::read(path, why))?;
    parse(&text, run).map_err(|why| {
        Failure::usage(format!("read {}", path.display()), why).try_this(format!("streams such as {EXAMPLE}"))
    })
}

pub(crate) fn parse(text: &str, run: &SendJob) -> Result<Vec<StreamEntry>, String> {
    let value: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
    let list = match &value {
        Value::Object(object) => object.get("streams").and_then(Value::as_array),
        value => value.as_array(),
    };
    let list = list.ok_or("expected a list of streams")?;
    if list.is_empty() {
        return Err("it has no streams".to_owned());
    }
    let mut streams: Vec<StreamEntry> = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let object = value.as_object().ok_or_else(|| format!("stream {}: expected an object", index + 1))?;
        let stream = entry(object, index, run)?;
        if streams.iter().any(|other| other.name == stream.name) {
            return Err(format!("two streams have the name {}", stream.name));
        }
        streams.push(stream);
    }
    Ok(streams)
}

fn entry(object: &Map<String, Value>, index: usize, run: &SendJob) -> Result<StreamEntry, String> {
    let number = (index + 1).to_string();
    let name = member(object, "name")?.unwrap_or(number);
    let said = |why: String| format!("stream {name}: {why}");
    let time = |key: &str| -> Result<Option<u64>, String> {
        let text = member(object, key).map_err(said)?;
        let time = text.map(|text| time_with_unit(&text).map_err(|why| said(format!("{key}: {why}"))));
        Ok(time.transpose()?.map(|Nanos(ns)| ns))
    };
    let whole = |key: &str| -> Result<Option<NonZeroU32>, String> {
        let text = member(object, key).map_err(said)?;
        let bad = |text: String| said(format!("{key} {text}: expected a whole number from 1 on"));
        text.map(|text| text.parse().map_err(|_| bad(text))).transpose()
    };
    let mut job = job(object, run).map_err(said)?;
    match (whole("burst")?, time("gap")?) {
        (Some(_), Some(_)) if job.arrivals.is_some() => {
            return Err(said("burst and gap are its arrivals: leave out one of them".to_owned()));
        }
        (Some(frames), gap_ns @ Some(_)) => job.arrivals = Some(Arrivals::Bursts { frames, gap_ns }),
        (None, None) => {}
        (Some(_), None) => return Err(said("burst needs a gap, such as \"gap\": \"1ms\"".to_owned())),
        (None, Some(_)) => return Err(said("gap needs a burst, such as \"burst\": 8".to_owned())),
    }
    Ok(StreamEntry {
        job,
        frame: member(object, "frame").map_err(said)?,
        start_ns: time("start")?.unwrap_or(0),
        weight: whole("weight")?,
        name,
    })
}

/// A text or a number.
fn member(object: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value @ (Value::String(_) | Value::Number(_))) => Ok(text_of(value)),
        Some(_) => Err(format!("{key}: expected a text or a number")),
    }
}

/// A text or a number, or with commas between them a list of such.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(list) => {
            let list: Option<Vec<String>> = list.iter().map(text_of).collect();
            list.map(|list| list.join(","))
        }
        _ => None,
    }
}

/// What a stream sends. What concerns the whole run is as for the run.
fn job(object: &Map<String, Value>, run: &SendJob) -> Result<SendJob, String> {
    let of_send = SendArgs::augment_args(clap::Command::new("send"));
    let is_of_send = |key: &str| of_send.get_arguments().any(|option| option.get_long() == Some(key));
    let mut frames = FrameArgs::default();
    for (key, value) in object {
        match FRAME_OPTIONS.iter().find(|option| option.name() == *key) {
            Some(option) => set(&mut frames, option, value).map_err(|why| format!("{key}: {why}"))?,
            None if OF_RUN.contains(&key.as_str()) || OF_STREAM.contains(&key.as_str()) => {}
            None if is_of_send(key) => return Err(format!("{key} is an option of the whole run")),
            None => return Err(format!("{key} is no option of a stream")),
        }
    }
    frames.check()?;
    let mut job = SendJob {
        device: run.device.clone(),
        duration: run.duration,
        catch_up: run.catch_up,
        netns: run.netns.clone(),
        xmit_mode: run.xmit_mode,
        skb_priority: run.skb_priority,
        is_of_file: true,
        ..frames.job()
    };
    for key in OF_RUN {
        if let Some(text) = member(object, key)? {
            set_of_run(&mut job, key, &text).map_err(|why| format!("{key}: {why}"))?;
        }
    }
    let rates = [("rate", job.rate.is_some()), ("pps", job.pps.is_some()), ("delay", job.delay.is_some())];
    let mut rates = rates.iter().filter(|(_, is_given)| *is_given);
    match (rates.next(), rates.next()) {
        (Some((one, _)), Some((other, _))) => Err(format!("{one} cannot be used with {other}")),
        _ => Ok(job),
    }
}

/// Sets an option of frames.
fn set(frames: &mut FrameArgs, option: &FrameOption, value: &Value) -> Result<(), String> {
    match (&option.set, value) {
        (_, Value::Null) | (SetFrameOption::Switch(_), Value::Bool(false)) => Ok(()),
        (SetFrameOption::Switch(set), Value::Bool(true)) => {
            set(frames);
            Ok(())
        }
        (SetFrameOption::Switch(_), _) => Err("expected true or false".to_owned()),
        (SetFrameOption::Value(set), value) => {
            let text = text_of(value).ok_or("expected a text or a number")?;
            set(frames, &text)
        }
    }
}

/// Sets one of [`OF_RUN`].
fn set_of_run(job: &mut SendJob, key: &str, text: &str) -> Result<(), String> {
    fn parsed<T>(text: &str) -> Result<Option<T>, String>
    where
        T: FromStr<Err: Display>,
    {
        text.parse().map(Some).map_err(|why| format!("{why}"))
    }
    match key {
        "count" => job.count = parsed(text)?,
        "duration" => job.duration = parsed(text)?,
        "rate" => job.rate = parsed(text)?,
        "pps" => job.pps = parsed(text)?,
        "delay" => job.delay = Some(time_with_unit(text).map_err(|why| why.to_string())?),
        _ => job.arrivals = Some(arrivals(text).map_err(|why| why.to_string())?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Count, Pps};

    fn run() -> SendJob {
        SendJob { device: "veth0".to_owned(), duration: Some(Nanos(3_000_000_000)), ..SendJob::default() }
    }

    #[test]
    fn members_are_options_of_send_and_those_of_a_stream() {
        let text = r#"{"streams": [
            {"name": "web", "dst": "198.18.0.2", "udp-dst": 80, "pps": "10k", "count": 5, "udp-checksum": true,
             "random": ["src", "udp-src"], "src": "198.18.1.0/24", "udp-src": "1-9", "start": "2ms", "burst": 4, "gap": "1ms"},
            {"frame": "{ eth() }", "weight": 3}]}"#;
        let [web, other] = &parse(text, &run()).unwrap()[..] else { panic!("two streams") };
        assert_eq!((web.name.as_str(), web.start_ns, web.weight), ("web", 2_000_000, None));
        assert_eq!((web.job.count, web.job.pps), (Some(Count(5)), Some(Pps(10_000).into())));
        assert!(web.job.udp_checksum && web.job.random.len() == 2);
        let frames = NonZeroU32::new(4).unwrap();
        assert_eq!(web.job.arrivals, Some(Arrivals::Bursts { frames, gap_ns: Some(1_000_000) }));
        assert_eq!((other.name.as_str(), other.frame.as_deref()), ("2", Some("{ eth() }")));
        assert_eq!((other.weight, other.job.duration), (NonZeroU32::new(3), Some(Nanos(3_000_000_000))));
    }

    #[test]
    fn a_member_sets_what_its_option_sets() {
        for (members, words) in [
            (
                r#""udp-dst": "1-9", "vlan": [5, 6], "vlan-prio": "3,4""#,
                "--udp-dst 1-9 --vlan 5,6 --vlan-prio 3,4",
            ),
            (r#""frame-size": 64, "tos": "0x2e", "svlan": null"#, "--frame-size 64 --tos 0x2e"),
            (
                r#""frame-imix": "64:7,594:4", "syn": true, "tcp": true"#,
                "--frame-imix 64:7,594:4 --tcp --syn",
            ),
            (r#""icmp": "echo", "no-timestamp": false, "ttl": 3"#, "--icmp echo --ttl 3"),
            (r#""random": ["src", "udp-src"], "payload": "a,b""#, "--random src,udp-src --payload a,b"),
            (
                r#""vlan": 5, "svlan": 7, "svlan-prio": 1, "flows": "1k""#,
                "--vlan 5 --svlan 7 --svlan-prio 1 --flows 1k",
            ),
        ] {
            let streams = parse(&format!("[{{{members}}}]"), &run()).unwrap();
            let args = program::args_of::<SendArgs>(&format!("veth0 --duration 3s {words}")).unwrap();
            let of_options = SendJob { is_of_file: true, ..args.job() };
            assert_eq!(format!("{:?}", streams[0].job), format!("{of_options:?}"));
        }
    }

    #[test]
    fn errors_name_the_stream_and_the_member() {
        for (text, why) in [
            ("[]", "it has no streams"),
            ("{}", "expected a list of streams"),
            ("[7]", "stream 1: expected an object"),
            (r#"[{"name": "a", "color": 1}]"#, "stream a: color is no option of a stream"),
            (r#"[{"threads": 2}]"#, "stream 1: threads is an option of the whole run"),
            (r#"[{"burst": 2}]"#, "stream 1: burst needs a gap"),
            (r#"[{"start": "5"}]"#, "stream 1: start: 5 has no unit"),
            (r#"[{"pps": "fast"}]"#, "stream 1: pps: \"fast\" does not begin with a number"),
            (r#"[{"pps": 5, "delay": "1ms"}]"#, "stream 1: pps cannot be used with delay"),
            (r#"[{"ttl": 256}]"#, "stream 1: ttl: 256 is not from 0 to 255"),
            (r#"[{"icmp": "mask"}]"#, "stream 1: icmp: mask is none of echo, reply"),
            (r#"[{"random": ["src", "color"]}]"#, "stream 1: random: color is none of dst, src, udp-dst, "),
            (r#"[{"size": true}]"#, "stream 1: size: expected a text or a number"),
            (r#"[{"tcp": "yes"}]"#, "stream 1: tcp: expected true or false"),
            (r#"[{"vlan-prio": 3}]"#, "stream 1: vlan-prio needs vlan"),
            (r#"[{"tcp": true, "icmp": "echo"}]"#, "stream 1: tcp cannot be used with icmp"),
            (r#"[{"size": 60, "frame-imix": "64:1"}]"#, "stream 1: size cannot be used with frame-imix"),
            (r#"[{"weight": 0}]"#, "stream 1: weight 0: expected a whole number from 1 on"),
            (r#"[{"name": "a"}, {"name": "a"}]"#, "two streams have the name a"),
        ] {
            let refusal = parse(text, &run()).unwrap_err();
            assert!(refusal.starts_with(why), "{text}: {refusal}");
        }
    }
}
