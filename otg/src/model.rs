//! The whole model of the Open Traffic Generator, from its protobuf descriptor.
//!
//! JSON and protobuf are checked against all of it. So an unknown field is told apart from one that
//! wirerate does not support.

use prost_reflect::prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, FieldDescriptor, MessageDescriptor, SerializeOptions,
};
use serde_json::Value;
use std::sync::LazyLock;

/// `model/README.md` says where it is from.
const DESCRIPTOR: &[u8] = include_bytes!("../model/otg.fds.zst");

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let descriptor = zstd::decode_all(DESCRIPTOR).expect("the descriptor is compressed by zstd");
    // It refers to messages of protobuf itself, which the global pool has.
    let mut pool = DescriptorPool::global();
    pool.decode_file_descriptor_set(&descriptor[..]).expect("the descriptor is whole");
    pool
});

/// The message of that name, such as `Config`.
///
/// # Panics
/// If the model has none.
pub fn message(name: &str) -> MessageDescriptor {
    POOL.get_message_by_name(&format!("otg.{name}"))
        .unwrap_or_else(|| panic!("the model has no message {name}"))
}

/// The field of that name.
///
/// # Panics
/// If the message has none.
pub fn field(message: &MessageDescriptor, name: &str) -> FieldDescriptor {
    let field = message.get_field_by_name(name);
    field.unwrap_or_else(|| panic!("{} has no field {name}", message.full_name()))
}

/// Writes field `number` of a message, which is a text, bytes, or a message itself.
pub fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// JSON text to a message.
///
/// # Errors
/// Text that is not JSON, unknown fields, values of the wrong type. The error begins with the path
/// of the value.
pub fn parse_json(descriptor: MessageDescriptor, text: &[u8]) -> Result<DynamicMessage, String> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let parsed = DynamicMessage::deserialize_with_options(descriptor, tracked, &options);
    let parsed = parsed.map_err(|error| match track.path().to_string() {
        path if path == "." => error.to_string(),
        path => format!("{path}: {error}"),
    })?;
    json.end().map_err(|error| error.to_string())?;
    Ok(parsed)
}

/// JSON to a message.
///
/// # Errors
/// Unknown fields, values of the wrong type.
pub fn from_json(descriptor: MessageDescriptor, json: Value) -> Result<DynamicMessage, String> {
    DynamicMessage::deserialize(descriptor, json).map_err(|error| error.to_string())
}

/// A message as JSON: names as in the model, numbers as numbers, only the fields that are set.
///
/// # Panics
/// Never: each message has a JSON form.
pub fn to_json(message: &DynamicMessage) -> Value {
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .expect("a message of the model has a JSON form")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Value, String> {
        parse_json(message("Config"), text.as_bytes()).map(|config| to_json(&config))
    }

    #[test]
    fn numbers_of_64_bits_are_taken_as_text_and_given_as_numbers() {
        let flow = r#"{"flows": [{"name": "f", "rate": {"choice": "pps", "pps": "1000"}, "size": null}]}"#;
        let got = config(flow).unwrap();
        assert_eq!(got["flows"][0]["rate"], serde_json::json!({"choice": "pps", "pps": 1000}));
        assert_eq!(got["flows"][0].get("size"), None);
    }

    #[test]
    fn explicit_zeros_are_kept() {
        let text = r#"{"flows": [{"name": "f", "metrics": {"enable": false}}]}"#;
        assert_eq!(config(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn errors_begin_with_the_path() {
        for (text, start) in [
            (r#"{"flows": [{"ratee": 1}]}"#, "flows[0]"),
            (r#"{"flows": [{"name": 7}]}"#, "flows[0].name"),
            (r#"{"flows": [{"rate": {"choice": "quick"}}]}"#, "flows[0].rate.choice"),
            (r#"{"flows": [{"rate": {"pps": -1}}]}"#, "flows[0].rate.pps"),
        ] {
            let error = config(text).unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
        assert!(config("{").unwrap_err().contains("EOF"));
        assert!(config("{} {}").unwrap_err().contains("trailing"));
    }
}
