//! Documents as JSON Schema, draft 2020-12.
//!
//! An object has no fields but those of its record (`additionalProperties`), since the schema
//! belongs to the version of wirerate that it comes with. `unit` is a note for readers of the
//! schema.

use crate::document::Document;
use crate::field::{Field, Kind, Part, Variant, fields_of};
use serde_json::{Map, Value, json};

impl Document {
    /// The file of its schema in the folder `schema`: `wirerate.send-2.json`.
    pub fn schema_file(&self) -> String {
        self.name.replace('/', "-") + ".json"
    }

    /// Its JSON Schema.
    pub fn schema(&self) -> Value {
        let mut schema = of_parts(self.parts, Some(("schema", self.name)));
        let head = [
            ("$schema", json!("https://json-schema.org/draft/2020-12/schema")),
            ("title", json!(self.name)),
            ("description", json!(self.about)),
        ];
        schema.extend(head.map(|(key, value)| (key.to_owned(), value)));
        Value::Object(schema)
    }
}

type Object = Map<String, Value>;

/// The schema of an object with these parts, and with a field that has a fixed value.
fn of_parts(parts: &[Part], fixed: Option<(&str, &str)>) -> Object {
    let (mut properties, mut required) = (Object::new(), Vec::new());
    if let Some((name, value)) = fixed {
        properties.insert(name.to_owned(), json!({ "const": value }));
        required.push(name);
    }
    let fields = fields_of(parts);
    for field in &fields {
        let is_new = properties.insert(field.name.to_owned(), Value::Object(of_field(field))).is_none();
        assert!(is_new, "{} stands twice in a record", field.name);
        required.extend((!field.is_optional).then_some(field.name));
    }
    entries(json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    }))
}

fn of_field(field: &Field) -> Object {
    let mut schema = of_kind(field.kind);
    if field.is_nullable {
        let kind = schema.get("type").cloned();
        if let Some(kind) = kind {
            schema.insert("type".to_owned(), json!([kind, "null"]));
        }
        if let Some(Value::Array(words)) = schema.get_mut("enum") {
            words.push(Value::Null);
        }
    }
    if !field.meaning.is_empty() {
        schema.insert("description".to_owned(), json!(field.sentence()));
    }
    schema
}

fn of_kind(kind: Kind) -> Object {
    let schema = match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Word(words) => json!({ "type": "string", "enum": words }),
        Kind::Count(_) => json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }),
        Kind::Integer(_) => json!({ "type": "integer" }),
        Kind::Number(_) => json!({ "type": "number" }),
        Kind::List(kind) => json!({ "type": "array", "items": of_kind(*kind) }),
        Kind::Object(parts) => return of_parts(parts, None),
        Kind::Objects(parts) => json!({ "type": "array", "items": of_parts(parts, None) }),
        Kind::Variants { tag, variants } => {
            let of = |variant: &Variant| of_parts(variant.parts, Some((tag, variant.word)));
            let variants: Vec<Object> = variants.iter().map(of).collect();
            json!({ "type": "array", "items": { "anyOf": variants } })
        }
        Kind::Map(kind) => json!({ "type": "object", "additionalProperties": of_kind(*kind) }),
    };
    let mut schema = entries(schema);
    if let Kind::Count(unit) | Kind::Integer(unit) | Kind::Number(unit) = kind
        && !unit.is_empty()
    {
        schema.insert("unit".to_owned(), json!(unit));
    }
    schema
}

fn entries(value: Value) -> Object {
    match value {
        Value::Object(entries) => entries,
        other => unreachable!("{other} is written as an object above"),
    }
}
