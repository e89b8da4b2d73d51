//! A check of long configurations that holds one flow in memory at a time.
//!
//! JSON in memory takes thirty times its text, so a long configuration is refused before all of it
//! is there.

use crate::body::{FLOWS_MAX, read_element, read_json};
use crate::config::OtgConfig;
use crate::model;
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
    let element = model::field(&model::message("Config"), FLOWS);
    let Some(flow) = element.kind().as_message().cloned() else { return Ok(()) };
    let flows = flows.into_iter().enumerate().map(|(index, place)| {
        let read = read_element(&flow, &text[place]);
        read.map_err(|error| format!("{FLOWS}[{index}]: {error}"))
    });
    OtgConfig::check_one_by_one(&rest, flows)
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
