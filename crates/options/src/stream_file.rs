//! The file of `--streams`: JSON, one object per stream. Its members are options of `send` without
//! the dashes, and those of a stream itself.

use crate::send::{FrameArgs, SendArgs};
use clap::{Args, CommandFactory, Parser};
use packet::Arrivals;
use program::outcome::Failure;
use program::waiting_read;
use sender::job::{SendJob, StreamEntry};
use serde_json::{Map, Value};
use std::num::NonZeroU32;
use std::path::Path;
use units::{Nanos, time_with_unit};

/// Options of a run that each stream has for itself.
const OF_RUN: &[&str] = &["count", "duration", "rate", "pps", "delay", "arrivals"];
/// Members that are not options of `send`.
const OF_STREAM: &[&str] = &["name", "frame", "start", "weight", "burst", "gap"];
/// A file for error messages.
const EXAMPLE: &str = r#"[{"name": "a", "dst": "198.18.0.2", "pps": "10k", "count": 1000}, {"name": "b", "dst": "198.18.0.3"}]"#;

/// The options of one stream, for the parser.
#[derive(Parser)]
#[command(name = "stream")]
struct StreamWords {
    #[command(flatten)]
    args: SendArgs,
}

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
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(format!("{key}: expected a text or a number")),
    }
}

/// The options of a stream. What concerns the whole run is as for the run.
fn job(object: &Map<String, Value>, run: &SendJob) -> Result<SendJob, String> {
    let parser = StreamWords::command();
    let frames = FrameArgs::augment_args(clap::Command::new("frames"));
    let named = |command: &clap::Command, key: &str| {
        command.get_arguments().any(|option| option.get_long() == Some(key))
    };
    let mut words = vec!["stream".to_owned(), run.device.clone()];
    for (key, value) in object.iter().filter(|(key, _)| !OF_STREAM.contains(&key.as_str())) {
        if !OF_RUN.contains(&key.as_str()) && !named(&frames, key) {
            let why = match named(&parser, key) {
                true => "is an option of the whole run",
                false => "is no option of a stream",
            };
            return Err(format!("{key} {why}"));
        }
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        match value {
            Value::Bool(true) => words.push(format!("--{key}")),
            Value::Bool(false) | Value::Null => {}
            Value::Array(list) => {
                let list: Option<Vec<String>> = list.iter().map(text).collect();
                words.push(format!("--{key}={}", list.ok_or(format!("{key}: expected texts"))?.join(",")));
            }
            value => words.push(format!("--{key}={}", text(value).ok_or(format!("{key}: expected a text"))?)),
        }
    }
    let StreamWords { args } = StreamWords::try_parse_from(words).map_err(|why| {
        let text = why.render().to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })?;
    let job = args.job();
    Ok(SendJob {
        duration: job.duration.or(run.duration),
        catch_up: run.catch_up,
        netns: run.netns.clone(),
        xmit_mode: run.xmit_mode,
        skb_priority: run.skb_priority,
        is_of_file: true,
        ..job
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Count, Pps};

    fn run() -> SendJob {
        StreamWords::parse_from(["stream", "veth0", "--duration", "3s"]).args.job()
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
    fn errors_name_the_stream_and_the_member() {
        for (text, why) in [
            ("[]", "it has no streams"),
            ("{}", "expected a list of streams"),
            ("[7]", "stream 1: expected an object"),
            (r#"[{"name": "a", "color": 1}]"#, "stream a: color is no option of a stream"),
            (r#"[{"threads": 2}]"#, "stream 1: threads is an option of the whole run"),
            (r#"[{"burst": 2}]"#, "stream 1: burst needs a gap"),
            (r#"[{"start": "5"}]"#, "stream 1: start: 5 has no unit"),
            (r#"[{"pps": "fast"}]"#, "stream 1: invalid value 'fast' for '--pps <PPS>'"),
            (r#"[{"weight": 0}]"#, "stream 1: weight 0: expected a whole number from 1 on"),
            (r#"[{"name": "a"}, {"name": "a"}]"#, "two streams have the name a"),
        ] {
            let refusal = parse(text, &run()).unwrap_err();
            assert!(refusal.starts_with(why), "{text}: {refusal}");
        }
    }
}
