//! Documents as tables of `docs/json.md`.

use crate::document::{Document, Field, Kind, Row, rows};
use std::fmt::Write;

impl Document {
    /// Its fields as a table: name, type with the unit, and meaning. The fields of an object follow
    /// it, as `object.field`, those of a list of objects as `list[].field`.
    pub fn table(&self) -> String {
        let mut out = String::from("| field | type | meaning |\n|---|---|---|\n");
        for row in self.rows() {
            line(&mut out, "", row);
        }
        out
    }
}

/// The line of a row, and the lines of the objects in it. `path` stands before each name.
fn line(out: &mut String, path: &str, row: &Row) {
    let Row(fields, meaning) = row;
    let names: Vec<String> = fields.iter().map(|field| format!("`{path}{}`", field.name)).collect();
    let mut types: Vec<String> = fields.iter().map(type_text).collect();
    types.dedup();
    writeln!(out, "| {} | {} | {meaning} |", names.join(", "), types.join("; ")).expect(TO_STRING);
    for field in *fields {
        match field.kind {
            Kind::Object(groups) => {
                rows(groups).for_each(|row| line(out, &format!("{path}{}.", field.name), row));
            }
            Kind::Objects(groups) => {
                rows(groups).for_each(|row| line(out, &format!("{path}{}[].", field.name), row));
            }
            Kind::Variants { tag, variants } => {
                for variant in variants {
                    let names: Vec<_> = variant.fields.iter().map(|field| quoted(field.name)).collect();
                    let place = format!("`{path}{}[]` with `{tag}` `{}`", field.name, variant.word);
                    let note = if variant.meaning.is_empty() { "" } else { ": " };
                    let meaning = variant.meaning;
                    writeln!(out, "| {place} | object | {}{note}{meaning} |", names.join(", "))
                        .expect(TO_STRING);
                }
            }
            _ => {}
        }
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
