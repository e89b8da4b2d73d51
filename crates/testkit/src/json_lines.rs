//! Checks the JSON lines that the program prints against the schemas of their documents.
//!
//! A small validator of JSON Schema: it knows the keywords that these schemas have, and panics at
//! any other, so that none is ignored.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Documents without a schema: `docs/bench.md` describes their rows.
const WITHOUT_SCHEMA: [&str; 1] = ["wirerate.bench/1"];

/// Checks each line of `text` that is an object with a field `schema` of ours.
///
/// # Panics
/// When one does not fit its schema, or has none.
#[track_caller]
pub fn check_json_lines(text: &str) {
    // A program that was killed may leave a last line without its end.
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    for line in lines.filter(|line| line.starts_with("{\"schema\":\"wirerate.")) {
        match serde_json::from_str(line) {
            Ok(value) => check_json(&value),
            Err(error) => panic!("{error}: {line}"),
        }
    }
}

/// Checks one object.
///
/// # Panics
/// When it does not fit its schema, or has none.
#[track_caller]
pub fn check_json(value: &Value) {
    let name = value["schema"].as_str().expect("the object names its schema");
    if WITHOUT_SCHEMA.contains(&name) {
        return;
    }
    let advice = "change its record, then run UPDATE=1 cargo test -p wirerate --test documents";
    let schema = schemas().get(name).unwrap_or_else(|| panic!("{name} has no schema: {advice}"));
    if let Err(fault) = validate(schema, value, name) {
        panic!("{fault}\n{advice}\n{value}");
    }
}

/// Checks an object against this schema.
///
/// # Errors
/// The first field that does not fit, and why.
pub fn check_json_with(schema: &Value, value: &Value) -> Result<(), String> {
    validate(schema, value, "the object")
}

/// The files in the folder `schema`.
const FILES: &[&str] = &include!(concat!(env!("OUT_DIR"), "/schemas.rs"));

/// The schemas by the name of their documents.
fn schemas() -> &'static BTreeMap<String, Value> {
    static SCHEMAS: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let schema = |text: &&str| {
            let schema: Value = serde_json::from_str(text).expect("a schema is JSON");
            (schema["title"].as_str().expect("it has the name of its document").to_owned(), schema)
        };
        FILES.iter().map(schema).collect()
    })
}

/// Validates `value`, which stands at `place`.
fn validate(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let keywords = schema.as_object().expect("a schema is an object");
    for (keyword, rule) in keywords {
        let fits = match keyword.as_str() {
            "$schema" | "title" | "description" | "unit" => true,
            "type" => match rule {
                Value::Array(types) => types.iter().any(|rule| has_type(rule, value)),
                rule => has_type(rule, value),
            },
            "const" => value == rule,
            "enum" => rule.as_array().is_some_and(|words| words.contains(value)),
            "minimum" => value.as_f64().is_none_or(|value| value >= rule.as_f64().unwrap_or(f64::NAN)),
            "maximum" => value.as_f64().is_none_or(|value| value <= rule.as_f64().unwrap_or(f64::NAN)),
            "required" => {
                let names = rule.as_array().expect("it is a list").iter().filter_map(Value::as_str);
                let missing = |name: &&str| value.is_object() && value.get(*name).is_none();
                match names.into_iter().find(missing) {
                    Some(name) => return Err(format!("{place}: the field {name} is missing")),
                    None => true,
                }
            }
            "properties" | "additionalProperties" => validate_fields(keywords, value, place)?,
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    validate(rule, item, &format!("{place}[{index}]"))?;
                }
                true
            }
            "anyOf" => validate_any(rule, value, place)?,
            _ => panic!("this validator does not know the keyword {keyword} of {place}"),
        };
        if !fits {
            return Err(format!("{place}: {value} does not fit {keyword} {rule}"));
        }
    }
    Ok(())
}

fn has_type(rule: &Value, value: &Value) -> bool {
    match rule.as_str() {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some("null") => value.is_null(),
        _ => panic!("there is no type {rule}"),
    }
}

/// Validates each field with the schema of its name, or with that of all others.
fn validate_fields(
    keywords: &serde_json::Map<String, Value>,
    value: &Value,
    place: &str,
) -> Result<bool, String> {
    for (name, field) in value.as_object().into_iter().flatten() {
        let known = keywords.get("properties").and_then(|fields| fields.get(name));
        let place = format!("{place}.{name}");
        match known.or(keywords.get("additionalProperties")) {
            Some(Value::Bool(false)) => return Err(format!("{place}: the schema has no such field")),
            Some(schema) => validate(schema, field, &place)?,
            None => return Err(format!("{place}: the schema does not say which fields there may be")),
        }
    }
    Ok(true)
}

/// Validates with the one of several schemas that is for this kind of object: its fields with a
/// `const` have the words of `value`.
fn validate_any(rule: &Value, value: &Value, place: &str) -> Result<bool, String> {
    let is_for = |schema: &&Value| {
        let fields = schema["properties"].as_object().expect("each schema is that of an object");
        fields.iter().all(|(name, field)| field.get("const").is_none_or(|word| value[name] == *word))
    };
    let schemas = rule.as_array().expect("anyOf is a list");
    let schema = schemas.iter().find(is_for).ok_or_else(|| format!("{place}: no schema is for {value}"))?;
    validate(schema, value, place).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(schema: &Value, value: Value) -> String {
        validate(schema, &value, "x").expect_err("it does not fit")
    }

    #[test]
    fn faults_name_the_field_and_the_rule() {
        let schema = json!({
            "type": "object",
            "properties": {
                "sent": { "type": "integer", "minimum": 0, "maximum": u64::MAX },
                "why": { "type": ["string", "null"] },
                "rows": { "type": "array", "items": { "type": "string", "enum": ["a"] } },
            },
            "required": ["sent"],
            "additionalProperties": false,
        });
        assert_eq!(validate(&schema, &json!({"sent": u64::MAX, "why": null, "rows": ["a"]}), "x"), Ok(()));
        assert_eq!(fault(&schema, json!({"why": "so"})), "x: the field sent is missing");
        assert_eq!(fault(&schema, json!({"sent": 1, "new": 2})), "x.new: the schema has no such field");
        assert_eq!(fault(&schema, json!({"sent": 1.5})), "x.sent: 1.5 does not fit type \"integer\"");
        assert_eq!(fault(&schema, json!({"sent": -1})), "x.sent: -1 does not fit minimum 0");
        assert_eq!(fault(&schema, json!({"sent": null})), "x.sent: null does not fit type \"integer\"");
        let word = fault(&schema, json!({"sent": 1, "rows": ["a", "b"]}));
        assert_eq!(word, "x.rows[1]: \"b\" does not fit enum [\"a\"]");
    }

    #[test]
    #[should_panic(expected = "wirerate.nothing/1 has no schema")]
    fn a_document_without_a_schema_is_refused() {
        check_json_lines("text\n{\"schema\":\"wirerate.nothing/1\",\"sent\":1}\n");
    }
}
