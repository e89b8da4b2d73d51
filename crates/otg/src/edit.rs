//! Changes of a configuration in force: rates and sizes of flows, flows added and removed.
//!
//! They work on the JSON of the configuration, which is read again as a whole. So a change is
//! refused for what a new configuration would be refused.

use crate::request::RequestRefusal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn invalid(error: impl Into<String>) -> RequestRefusal {
    RequestRefusal::Invalid(vec![error.into()])
}

/// The list of flows of a configuration.
fn flows(config: &mut Value) -> &mut Vec<Value> {
    if !config["flows"].is_array() {
        config["flows"] = json!([]);
    }
    config["flows"].as_array_mut().expect("it was made an array")
}

fn name_of(flow: &Value) -> &str {
    flow["name"].as_str().unwrap_or_default()
}

/// Applies a `ConfigUpdate`: the named properties of flows.
///
/// # Errors
/// Unknown flows, and properties beside rate and size.
pub fn update(config: &Value, update: &Value) -> Result<Value, RequestRefusal> {
    if update.get("protocols").is_some() {
        return Err(RequestRefusal::Unsupported("updates of protocols are not supported".to_owned()));
    }
    let changes = &update["flows"];
    let mut config = config.clone();
    let properties: Vec<&str> = list(changes, "property_names").iter().filter_map(Value::as_str).collect();
    if properties.is_empty() {
        return Err(invalid("flows.property_names: name rate or size"));
    }
    let flows = flows(&mut config);
    let places: BTreeMap<String, usize> =
        flows.iter().enumerate().map(|(place, flow)| (name_of(flow).to_owned(), place)).collect();
    for change in list(changes, "flows") {
        let name = name_of(change);
        let place = places.get(name).ok_or_else(|| invalid(format!("there is no flow named {name}")))?;
        let flow = &mut flows[*place];
        for property in &properties {
            match change.get(property) {
                Some(value) => flow[*property] = value.clone(),
                None => drop(flow.as_object_mut().and_then(|flow| flow.remove(*property))),
            }
        }
    }
    Ok(config)
}

/// Applies a `ConfigAppend`: flows behind the last one.
///
/// # Errors
/// Resources beside flows.
pub fn append(config: &Value, append: &Value) -> Result<Value, RequestRefusal> {
    let mut config = config.clone();
    for resource in list(append, "config_append_list") {
        flows(&mut config).extend(list(resource, "flows").iter().cloned());
    }
    Ok(config)
}

/// Applies a `ConfigDelete`: flows by name.
///
/// # Errors
/// Unknown flows.
pub fn delete(config: &Value, delete: &Value) -> Result<Value, RequestRefusal> {
    let mut config = config.clone();
    let flows = flows(&mut config);
    let mut left: BTreeSet<String> = flows.iter().map(|flow| name_of(flow).to_owned()).collect();
    for resource in list(delete, "config_delete_list") {
        for name in list(resource, "flows").iter().filter_map(Value::as_str) {
            if !left.remove(name) {
                return Err(invalid(format!("there is no flow named {name}")));
            }
        }
    }
    flows.retain(|flow| left.contains(name_of(flow)));
    Ok(config)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_properties_change() {
        let config = json!({"flows": [{"name": "a", "rate": {"pps": 1}, "size": {"fixed": 64}}]});
        let change = json!({"flows": {"property_names": ["rate"], "flows": [
            {"name": "a", "rate": {"pps": 2}, "size": {"fixed": 100}}]}});
        let expected = json!({"flows": [{"name": "a", "rate": {"pps": 2}, "size": {"fixed": 64}}]});
        assert_eq!(update(&config, &change), Ok(expected));
    }

    #[test]
    fn flows_are_appended_and_deleted_by_name() {
        let added = json!({"config_append_list": [{"choice": "flows", "flows": [{"name": "b"}]}]});
        let config = append(&json!({}), &added).unwrap();
        assert_eq!(config, json!({"flows": [{"name": "b"}]}));
        let gone = json!({"config_delete_list": [{"choice": "flows", "flows": ["b"]}]});
        assert_eq!(delete(&config, &gone), Ok(json!({"flows": []})));
        assert_eq!(delete(&json!({}), &gone), Err(invalid("there is no flow named b")));
    }
}
