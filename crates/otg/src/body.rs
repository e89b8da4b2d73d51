//! Bodies of calls: JSON or protobuf to JSON that fits the model.
//!
//! The elements of long lists, such as ports and flows, are checked one by one, because a message
//! with its descriptor takes many times the memory of its text.

use crate::model::to_json;
use prost_reflect::prost::bytes::{Buf, Bytes};
use prost_reflect::prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost_reflect::{
    DeserializeOptions, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage,
    Value as DynamicValue,
};
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// The message of a configuration.
pub(crate) const CONFIG: &str = "otg.Config";
/// Most ports of a configuration.
pub const PORTS_MAX: usize = 4096;
/// Most flows of a configuration, and elements of its other lists.
pub const FLOWS_MAX: usize = 1 << 16;

/// Elements that a list may have.
fn list_max(field: &FieldDescriptor) -> usize {
    if field.name() == "ports" { PORTS_MAX } else { FLOWS_MAX }
}

fn too_many(field: &FieldDescriptor) -> String {
    format!("more than {} {} are not supported", list_max(field), field.name())
}

/// The message of the elements of a list; none for other fields.
fn element_of(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    if field.is_list() { field.kind().as_message().cloned() } else { None }
}

fn options() -> DeserializeOptions {
    DeserializeOptions::new().deny_unknown_fields(true)
}

/// JSON text to checked JSON.
///
/// # Errors
/// Text that is not JSON, unknown fields, values of the wrong type, more elements than
/// [`PORTS_MAX`] and [`FLOWS_MAX`] allow. The error begins with the path of the value.
pub fn read_json(descriptor: MessageDescriptor, text: &[u8]) -> Result<Value, String> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let read = BodyVisitor(descriptor).deserialize(tracked).map_err(|error| {
        let path = track.path().to_string();
        if path == "." { error.to_string() } else { format!("{path}: {error}") }
    })?;
    json.end().map_err(|error| error.to_string())?;
    Ok(Value::Object(read))
}

/// Reads the fields of a message.
struct BodyVisitor(MessageDescriptor);

impl<'de> DeserializeSeed<'de> for BodyVisitor {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Map<String, Value>;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut json = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let field = self.0.get_field_by_name(&name).or_else(|| self.0.get_field_by_json_name(&name));
            let Some(field) = field else {
                return Err(A::Error::custom(format!("unrecognized field name '{name}'")));
            };
            if json.contains_key(field.name()) {
                return Err(A::Error::custom(format!("the field {name} is there twice")));
            }
            if let Some(element) = element_of(&field) {
                let list = entries.next_value_seed(ListVisitor { element, field: &field })?;
                if !list.is_empty() {
                    json.insert(field.name().to_owned(), Value::Array(list));
                }
            } else {
                let value = entries.next_value_seed(FieldSeed { whole: &self.0, name })?;
                json.extend(value);
            }
        }
        Ok(json)
    }
}

/// Reads a field that is not a list of messages.
struct FieldSeed<'a> {
    whole: &'a MessageDescriptor,
    name: String,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        let value: Value = serde::Deserialize::deserialize(source)?;
        let fields = MapDeserializer::new(std::iter::once((self.name, value)));
        let message = DynamicMessage::deserialize_with_options(self.whole.clone(), fields, &options());
        let message = message.map_err(|error: serde_json::Error| D::Error::custom(error))?;
        match known_json(&message).map_err(D::Error::custom)? {
            Value::Object(fields) => Ok(fields),
            _ => Ok(Map::new()),
        }
    }
}

/// Reads a list of messages.
struct ListVisitor<'a> {
    element: MessageDescriptor,
    field: &'a FieldDescriptor,
}

impl<'de> DeserializeSeed<'de> for ListVisitor<'_> {
    type Value = Vec<Value>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ListVisitor<'_> {
    type Value = Vec<Value>;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "a list")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while list.len() < list_max(self.field) {
            match elements.next_element_seed(ElementSeed(&self.element))? {
                Some(element) => list.push(element),
                None => return Ok(list),
            }
        }
        match elements.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom(too_many(self.field))),
            None => Ok(list),
        }
    }
}

struct ElementSeed<'a>(&'a MessageDescriptor);

impl<'de> DeserializeSeed<'de> for ElementSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        let element = DynamicMessage::deserialize_with_options(self.0.clone(), source, &options())?;
        known_json(&element).map_err(D::Error::custom)
    }
}

/// A message as JSON.
///
/// # Errors
/// A value of an enum that the model does not have: protobuf keeps it as a number. The path of its
/// field is in front.
fn known_json(message: &DynamicMessage) -> Result<Value, String> {
    match unknown_enum(message) {
        None => Ok(to_json(message)),
        Some(error) => Err(error),
    }
}

fn unknown_enum(message: &DynamicMessage) -> Option<String> {
    message.fields().find_map(|(field, value)| {
        let name = field.name();
        let is_scalar = !matches!(field.kind(), Kind::Enum(_) | Kind::Message(_));
        match value {
            _ if is_scalar => None,
            DynamicValue::List(list) => list
                .iter()
                .enumerate()
                .find_map(|(index, value)| Some(format!("{name}[{index}]{}", unknown_value(&field, value)?))),
            value => Some(format!("{name}{}", unknown_value(&field, value)?)),
        }
    })
}

/// What is wrong with a value of a field, behind the path of the field.
fn unknown_value(field: &FieldDescriptor, value: &DynamicValue) -> Option<String> {
    match (field.kind(), value) {
        // 0 is what protobuf has for no value; the model has no such value.
        (Kind::Enum(names), DynamicValue::EnumNumber(number)) => (*number == 0
            || names.get_value(*number).is_none())
        .then(|| format!(": the model has no value {number}")),
        (_, DynamicValue::Message(inner)) => Some(format!(".{}", unknown_enum(inner)?)),
        _ => None,
    }
}

/// An element of a list of messages, likewise.
pub(crate) fn read_element(element: &MessageDescriptor, text: &[u8]) -> Result<Value, String> {
    let mut json = serde_json::Deserializer::from_slice(text);
    ElementSeed(element).deserialize(&mut json).map_err(|error| error.to_string())
}

/// Protobuf to checked JSON.
///
/// # Errors
/// Bytes that are not the message, fields that the model does not have, more elements than
/// [`PORTS_MAX`] and [`FLOWS_MAX`] allow.
pub fn read_protobuf(descriptor: MessageDescriptor, mut bytes: Bytes) -> Result<Value, String> {
    let (mut json, mut others) = (Map::new(), Vec::new());
    while bytes.has_remaining() {
        let whole = bytes.clone();
        let (number, wire) = decode_key(&mut bytes).map_err(|error| error.to_string())?;
        let field = descriptor.get_field(number).filter(|_| wire == WireType::LengthDelimited);
        let part = field.and_then(|field| Some((part_of(&field)?, field)));
        let Some((part, field)) = part else {
            skip_field(wire, number, &mut bytes, DecodeContext::default())
                .map_err(|error| error.to_string())?;
            others.extend_from_slice(&whole[..whole.len() - bytes.len()]);
            continue;
        };
        let len = decode_varint(&mut bytes).map_err(|error| error.to_string())?;
        let len = usize::try_from(len).ok().filter(|len| *len <= bytes.len());
        let inner = bytes.split_to(len.ok_or("a field is longer than its message")?);
        if !field.is_list() {
            json.insert(field.name().to_owned(), read_protobuf(part, inner)?);
            continue;
        }
        let list = json.entry(field.name()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            if list.len() >= list_max(&field) {
                return Err(too_many(&field));
            }
            let element = known_json(&decode(part, inner)?);
            let at = |error| format!("{}[{}].{error}", field.name(), list.len());
            let element = element.map_err(at)?;
            list.push(element);
        }
    }
    if let Value::Object(fields) = known_json(&decode(descriptor, others.into())?)? {
        json.extend(fields);
    }
    Ok(Value::Object(json))
}

/// The message of a field that is read on its own: an element of a list, or the configuration.
fn part_of(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    let is_config = |message: &MessageDescriptor| message.full_name() == CONFIG;
    element_of(field).or_else(|| field.kind().as_message().filter(|message| is_config(message)).cloned())
}

fn decode(descriptor: MessageDescriptor, bytes: Bytes) -> Result<DynamicMessage, String> {
    let message = DynamicMessage::decode(descriptor, bytes).map_err(|error| error.to_string())?;
    let unknown = message.unknown_fields().next().map(|field| field.number());
    match unknown {
        Some(number) => {
            let name = message.descriptor().name().to_owned();
            Err(format!("{name}: the model has no field number {number}"))
        }
        None => Ok(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::message;
    use prost_reflect::prost::Message;
    use serde_json::json;

    fn config(text: &str) -> Result<Value, String> {
        read_json(message("Config"), text.as_bytes())
    }

    fn by_protobuf(json: Value) -> Result<Value, String> {
        let request = json!({"config": json});
        let request = crate::model::from_json(message("SetConfigRequest"), request).unwrap();
        Ok(read_protobuf(message("SetConfigRequest"), request.encode_to_vec().into())?["config"].take())
    }

    #[test]
    fn numbers_of_64_bits_are_taken_as_text_and_given_as_numbers() {
        let flow = r#"{"flows": [{"name": "f", "rate": {"choice": "pps", "pps": "1000"}, "size": null}]}"#;
        let got = config(flow).unwrap();
        assert_eq!(got["flows"][0]["rate"], json!({"choice": "pps", "pps": 1000}));
        assert_eq!(got["flows"][0].get("size"), None);
    }

    #[test]
    fn both_forms_give_the_same() {
        let text = r#"{"flows": [{"name": "f", "metrics": {"enable": false}}, {"name": "g"}],
            "ports": [{"name": "p", "location": "eth1"}], "options": {"port_options": {}}}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(config(text).unwrap(), expected);
        assert_eq!(by_protobuf(expected.clone()).unwrap(), expected);
        assert_eq!(config(r#"{"flows": null, "ports": [], "options": null}"#).unwrap(), json!({}));
        let metrics = r#"{"choice": "flow", "flow": {"flow_names": ["f"]}}"#;
        let got = read_json(message("MetricsRequest"), metrics.as_bytes()).unwrap();
        assert_eq!(got, serde_json::from_str::<Value>(metrics).unwrap());
    }

    #[test]
    fn errors_begin_with_the_path() {
        for (text, start) in [
            (r#"{"flows": [{"ratee": 1}]}"#, "flows[0]"),
            (r#"{"flows": [{"name": 7}]}"#, "flows[0].name"),
            (r#"{"flows": [{"rate": {"choice": "quick"}}]}"#, "flows[0].rate.choice"),
            (r#"{"flows": [{"rate": {"pps": -1}}]}"#, "flows[0].rate.pps"),
            (r#"{"flow": []}"#, "unrecognized field name 'flow'"),
            (r#"{"flows": 7}"#, "flows: invalid type"),
            (r#"{"flows": [], "flows": [{}], "flows": []}"#, "the field flows is there twice"),
        ] {
            let error = config(text).unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
        assert!(config("{").unwrap_err().contains("EOF"));
        assert!(config("{} {}").unwrap_err().contains("trailing"));
        assert!(config("").unwrap_err().contains("EOF"));
    }

    #[test]
    fn lists_have_a_longest_length() {
        for (name, max) in [("ports", PORTS_MAX), ("flows", FLOWS_MAX)] {
            let list = |count: usize| json!({name: vec![json!({"name": "x"}); count]});
            assert_eq!(config(&list(max).to_string()).unwrap()[name].as_array().map(Vec::len), Some(max));
            let error = config(&list(max + 1).to_string()).unwrap_err();
            assert!(error.starts_with(&format!("{name}: {}", too_many_text(name, max))), "{error}");
            assert_eq!(by_protobuf(list(max + 1)).unwrap_err(), too_many_text(name, max));
        }
    }

    fn too_many_text(name: &str, max: usize) -> String {
        format!("more than {max} {name} are not supported")
    }

    /// A client of another version of the model has further values. Protobuf has 0 for no value.
    #[test]
    fn an_unknown_value_of_an_enum_is_refused() {
        let flow = |choice: Value| json!({"flows": [{}, {"duration": {"choice": choice}}]});
        for number in [9, 0] {
            let why = format!("duration.choice: the model has no value {number}");
            let error = config(&flow(json!(number)).to_string()).unwrap_err();
            assert!(error.starts_with(&format!("flows[1]: {why}")), "{error}");
            assert_eq!(by_protobuf(flow(json!(number))).unwrap_err(), format!("flows[1].{why}"));
        }
        let unspecified = config(&flow(json!("unspecified")).to_string()).unwrap_err();
        assert!(unspecified.contains("the model has no value 0"), "{unspecified}");
        assert_eq!(by_protobuf(flow(json!("continuous"))), config(&flow(json!("continuous")).to_string()));
        let state = r#"{"port": {"choice": "link", "link": {"state": 7}}}"#;
        let error = read_json(message("ControlState"), state.as_bytes()).unwrap_err();
        assert!(error.contains("port.link.state: the model has no value 7"), "{error}");
        let columns = r#"{"port": {"column_names": ["link", 99]}}"#;
        let error = read_json(message("MetricsRequest"), columns.as_bytes()).unwrap_err();
        assert!(error.contains("port.column_names[1]: the model has no value 99"), "{error}");
    }

    #[test]
    fn protobuf_is_checked() {
        let unknown = |number: u8| vec![number << 3 | 2, 1, b'x'];
        let read = |bytes: Vec<u8>| read_protobuf(message("Config"), bytes.into()).unwrap_err();
        assert_eq!(read(unknown(15)), "Config: the model has no field number 15");
        assert!(read(vec![0xff]).contains("varint"), "{}", read(vec![0xff]));
        assert_eq!(read(vec![1 << 3 | 2, 9]), "a field is longer than its message");
    }
}
