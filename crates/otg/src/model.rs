//! The whole model of the Open Traffic Generator, from its protobuf descriptor.
//!
//! JSON and protobuf are checked against all of it. So an unknown field is told apart from one that
//! wirerate does not support.

use prost_reflect::prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, MessageDescriptor, SerializeOptions};
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
