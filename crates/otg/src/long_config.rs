//! A check of long configurations that holds one flow in memory at a time.
//!
//! JSON in memory takes thirty times its text, and forty times the same as protobuf, so a long
//! configuration is refused before all of it is there.

use crate::body::{CONFIG, FLOWS_MAX, read_element, read_json, read_protobuf};
use crate::config::OtgConfig;
use crate::model;
use prost_reflect::MessageDescriptor;
use prost_reflect::prost::bytes::{Buf, Bytes};
use prost_reflect::prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};
use std::ops::Range;

/// Bytes of a configuration that is checked flow by flow.
const LONG_LEN: usize = 1 << 20;
const FLOWS: &str = "flows";

/// Checks a long configuration, as [`OtgConfig::read`] does. Nothing is checked if it is short, or
/// is not an object with a list of flows: [`read_json`] says what is wrong with it.
///
/// # Errors
/// All that is wrong or not supported, each with its path.
pub fn check_long_config(text: &[u8]) -> Result<(), Vec<String>> {
    if text.len() < LONG_LEN {
        return Ok(());
    }
    let Some((rest, flows)) = without_flows(text) else { return Ok(()) };
    if flows.len() > FLOWS_MAX {
        return Ok(());
    }
    let Ok(Value::Object(rest)) = read_json(model::message("Config"), &rest) else { return Ok(()) };
    let Some((_, flow)) = flow_field() else { return Ok(()) };
    let flows = flows.into_iter().enumerate().map(|(index, place)| {
        let read = read_element(&flow, &text[place]);
        read.map_err(|error| format!("{FLOWS}[{index}]: {error}"))
    });
    OtgConfig::check_one_by_one(&rest, flows)
}

/// Checks a long configuration as a message of protobuf, or in one, flow by flow. Nothing is
/// checked if it is short, or if it cannot be split: [`read_protobuf`] says what is wrong with it.
///
/// # Errors
/// All that is wrong or not supported, each with its path.
pub fn check_long_message(descriptor: &MessageDescriptor, message: &Bytes) -> Result<(), Vec<String>> {
    if message.len() < LONG_LEN {
        return Ok(());
    }
    let Some((number, flow)) = flow_field() else { return Ok(()) };
    let config = config_of(descriptor, message.clone());
    let Some((rest, flows)) = config.and_then(|config| split(config, number)) else { return Ok(()) };
    if flows.len() > FLOWS_MAX {
        return Ok(());
    }
    let Ok(Value::Object(rest)) = read_protobuf(model::message("Config"), rest.into()) else { return Ok(()) };
    let flows = flows.into_iter().enumerate().map(|(index, bytes)| {
        read_protobuf(flow.clone(), bytes).map_err(|error| format!("{FLOWS}[{index}].{error}"))
    });
    OtgConfig::check_one_by_one(&rest, flows)
}

/// Number and message of the flows of a configuration.
fn flow_field() -> Option<(u32, MessageDescriptor)> {
    let field = model::field(&model::message("Config"), FLOWS);
    Some((field.number(), field.kind().as_message().cloned()?))
}

/// The only configuration of a message.
fn config_of(descriptor: &MessageDescriptor, message: Bytes) -> Option<Bytes> {
    if descriptor.full_name() == CONFIG {
        return Some(message);
    }
    let mut fields = descriptor.fields();
    let is_config =
        |kind: prost_reflect::Kind| kind.as_message().is_some_and(|kind| kind.full_name() == CONFIG);
    let field = fields.find(|field| is_config(field.kind()))?;
    let (_, mut configs) = split(message, field.number())?;
    if configs.len() == 1 { configs.pop() } else { None }
}

/// A message without the messages that have this number, and those.
fn split(mut message: Bytes, number: u32) -> Option<(Vec<u8>, Vec<Bytes>)> {
    let (mut rest, mut found) = (Vec::new(), Vec::new());
    while message.has_remaining() {
        let whole = message.clone();
        let (this, wire) = decode_key(&mut message).ok()?;
        if this == number && wire == WireType::LengthDelimited {
            let len = usize::try_from(decode_varint(&mut message).ok()?).ok()?;
            found.push((len <= message.len()).then(|| message.split_to(len))?);
            continue;
        }
        skip_field(wire, this, &mut message, DecodeContext::default()).ok()?;
        rest.extend_from_slice(&whole[..whole.len() - message.len()]);
    }
    Some((rest, found))
}

/// The text of an object without its list of flows, and the places of the flows.
fn without_flows(text: &[u8]) -> Option<(Vec<u8>, Vec<Range<usize>>)> {
    let (mut rest, mut flows) = (vec![b'{'], None);
    let mut at = behind(text, 0, b'{')?;
    while peek(text, at)? != b'}' {
        if rest.len() > 1 {
            at = behind(text, at, b',')?;
        }
        let key = value_at(text, at)?;
        let name: String = serde_json::from_slice(&text[key.clone()]).ok()?;
        let value = value_at(text, behind(text, key.end, b':')?)?;
        at = value.end;
        let separator = if rest.len() > 1 { "," } else { "" };
        rest.extend(separator.bytes());
        if name == FLOWS && flows.is_none() && text.get(value.start) == Some(&b'[') {
            flows = Some(elements(text, value.start)?);
            rest.extend(br#""flows":[]"#);
        } else {
            rest.extend_from_slice(&text[key.start..value.end]);
        }
    }
    rest.push(b'}');
    Some((rest, flows?))
}

/// The places of the elements of the list that starts there.
fn elements(text: &[u8], start: usize) -> Option<Vec<Range<usize>>> {
    let (mut places, mut at) = (Vec::new(), behind(text, start, b'[')?);
    while peek(text, at)? != b']' {
        if !places.is_empty() {
            at = behind(text, at, b',')?;
        }
        let place = value_at(text, at)?;
        at = place.end;
        places.push(place);
    }
    Some(places)
}

/// The place of the value behind the white space there.
fn value_at(text: &[u8], at: usize) -> Option<Range<usize>> {
    let start = at + text.get(at..)?.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let mut values = Deserializer::from_slice(&text[start..]).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(start..start + values.byte_offset())
}

/// The byte behind the white space there.
fn peek(text: &[u8], at: usize) -> Option<u8> {
    text.get(at..)?.iter().copied().find(|byte| !byte.is_ascii_whitespace())
}

/// The place behind this byte, which is the next one behind white space.
fn behind(text: &[u8], at: usize, byte: u8) -> Option<usize> {
    let spaces = text.get(at..)?.iter().position(|byte| !byte.is_ascii_whitespace())?;
    (text[at + spaces] == byte).then_some(at + spaces + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_reflect::prost::Message;
    use serde_json::json;

    /// More than a mebibyte of flows, of which each tenth has an error, and one that does not fit
    /// the model.
    fn long(faults: bool) -> Value {
        let flow = |number: usize| {
            let port = if faults && number % 10 == 3 { "nope" } else { "p" };
            let mut flow = json!({"name": format!("f, [{number}] \"x\""), "tx_rx": {"port": {"tx_name": port}},
                "payload": {"fixed": {"pattern": "00".repeat(200)}}});
            if faults && number == 7 {
                flow["nothing"] = json!(1);
            }
            flow
        };
        json!({"ports": [{"name": "p", "location": "a"}], "flows": (0..3000).map(flow).collect::<Vec<_>>(),
            "layer1": [{"name": "l", "port_names": ["p"]}]})
    }

    #[test]
    fn a_long_configuration_has_the_same_errors_as_a_whole() {
        let mut config = long(true);
        let text = serde_json::to_vec_pretty(&config).unwrap();
        assert!(text.len() > LONG_LEN);
        let errors = check_long_config(&text).unwrap_err();
        assert!(errors[0].starts_with("flows[7]: unrecognized field name 'nothing'"), "{errors:?}");
        config["flows"][7].as_object_mut().unwrap().remove("nothing");
        let text = serde_json::to_vec(&config).unwrap();
        let errors = check_long_config(&text).unwrap_err();
        assert_eq!(errors, OtgConfig::read(&config, 1).unwrap_err());
        assert_eq!((errors.len(), &errors[100][..]), (101, "and 200 more errors"));
        assert_eq!(check_long_config(&serde_json::to_vec(&long(false)).unwrap()), Ok(()));
    }

    #[test]
    fn a_long_message_has_the_same_errors_as_its_text() {
        let mut config = long(true);
        config["flows"][7].as_object_mut().unwrap().remove("nothing");
        let errors = check_long_config(&serde_json::to_vec(&config).unwrap()).unwrap_err();
        let check = |name: &str, json: Value| {
            let bytes = model::from_json(model::message(name), json).unwrap().encode_to_vec();
            check_long_message(&model::message(name), &bytes.into())
        };
        assert_eq!(check("Config", config.clone()), Err(errors.clone()));
        assert_eq!(check("SetConfigRequest", json!({"config": config})), Err(errors));
        assert_eq!(check("SetConfigRequest", json!({"config": long(false)})), Ok(()));
        config["flows"][7]["duration"] = json!({"choice": 99});
        let why = "flows[7].duration.choice: the model has no value 99";
        assert_eq!(check("Config", config), Err(vec![why.to_owned()]));
    }

    #[test]
    fn what_is_no_message_is_left_to_the_reader() {
        let config = model::message("Config");
        for bytes in [vec![0xff; LONG_LEN], [vec![2 << 3 | 2, 200, 200, 200], vec![0; LONG_LEN]].concat()] {
            assert_eq!(check_long_message(&config, &bytes.into()), Ok(()));
        }
        let two = [vec![1 << 3 | 2, 0], vec![1 << 3 | 2, 0]].concat();
        assert_eq!(config_of(&model::message("SetConfigRequest"), two.into()), None);
    }

    #[test]
    fn what_is_no_configuration_is_left_to_the_reader() {
        let padding = " ".repeat(LONG_LEN);
        for text in
            ["{", "[]", r#"{"flows": [1,}"#, r#"{"flows": 3}"#, r#"{"ports": []}"#, r#"{"flows": [] "a"}"#]
        {
            assert_eq!(check_long_config(format!("{padding}{text}").as_bytes()), Ok(()), "{text}");
        }
        assert_eq!(
            without_flows(br#"{"flows": [], "a": 1}"#).map(|(rest, _)| rest),
            Some(br#"{"flows":[],"a": 1}"#.to_vec())
        );
    }
}
