//! Documents as tables of `docs/json.md`.

use crate::document::Document;
use crate::field::{Field, Kind, fields_of};
use std::fmt::Write;

impl Document {
    /// Its fields as a table: name, type with the unit, and meaning. The fields of an object follow
    /// it, as `object.field`, those of a list of objects as `list[].field`.
    pub fn table(&self) -> String {
        let mut out = String::from("| field | type | meaning |\n|---|---|---|\n");
        fields_of(self.parts).iter().for_each(|field| line(&mut out, "", field));
        out
    }
}

/// The line of a field, and the lines of the objects in it. `path` stands before each name.
fn line(out: &mut String, path: &str, field: &Field) {
    let Field { name, kind, .. } = field;
    writeln!(out, "| `{path}{name}` | {} | {} |", type_text(field), field.sentence()).expect(TO_STRING);
    let mut inner = |parts, mark| {
        let path = format!("{path}{name}{mark}.");
        fields_of(parts).iter().for_each(|field| line(out, &path, field));
    };
    match kind {
        Kind::Object(parts) => inner(parts, ""),
        Kind::Objects(parts) => inner(parts, "[]"),
        Kind::Variants { tag, variants } => {
            for variant in *variants {
                let names: Vec<_> = fields_of(variant.parts).iter().map(|field| quoted(field.name)).collect();
                let place = format!("`{path}{name}[]` with `{tag}` `{}`", variant.word);
                let note = if variant.meaning.is_empty() { "" } else { ": " };
                let meaning = variant.meaning;
                writeln!(out, "| {place} | object | {}{note}{meaning} |", names.join(", ")).expect(TO_STRING);
            }
        }
        _ => {}
    }
}

const TO_STRING: &str = "a String takes any text";

fn quoted(word: &str) -> String {
    format!("`{word}`")
}

/// The type of a field in words, such as `integer (ns) or null; may be absent`.
fn type_text(field: &Field) -> String {
    let null = if field.is_nullable { " or null" } else { "" };
    let absent = if field.is_optional { "; may be absent" } else { "" };
    format!("{}{null}{absent}", kind_text(field.kind))
}

fn kind_text(kind: Kind) -> String {
    let number = |name: &str, unit: &str| match unit {
        "" => name.to_owned(),
        unit => format!("{name} ({unit})"),
    };
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Flag => "true or false".to_owned(),
        Kind::Word(words) => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "),
        Kind::Count(unit) => number("integer", unit),
        Kind::Integer(unit) => number("signed integer", unit),
        Kind::Number(unit) => number("number", unit),
        Kind::List(kind) => format!("list: {}", kind_text(*kind)),
        Kind::Object(_) => "object".to_owned(),
        Kind::Objects(_) | Kind::Variants { .. } => "list of objects".to_owned(),
        Kind::Map(kind) => format!("object of names: {}", kind_text(*kind)),
    }
}
