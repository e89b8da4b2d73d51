//! One object of a configuration, read field by field.
//!
//! A reader collects all errors of a configuration, each with the path of its value. A field that
//! is set and that nothing reads is not supported: [`ConfigNode::end`] reports it.

use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Errors and warnings of an answer, each; beyond it, their number.
pub const FINDINGS_MAX: usize = 100;
/// Values in the lists of all fields of a configuration: each takes 16 bytes, and eight more while
/// its flow is sent.
const VALUES_MAX: usize = 4_000_000;

/// What is wrong with a configuration, and what is accepted but not done.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    errors: RefCell<FindingList>,
    warnings: RefCell<FindingList>,
    /// Values of all lists so far.
    values: Cell<usize>,
}

/// The first sentences, and the number of further ones.
#[derive(Debug, Default)]
struct FindingList {
    sentences: Vec<String>,
    more: usize,
}

impl FindingList {
    fn add(&mut self, path: &str, text: impl Display) {
        match self.sentences.len() < FINDINGS_MAX {
            true => self.sentences.push(format!("{path}: {text}")),
            false => self.more += 1,
        }
    }

    fn finish(mut self, what: &str) -> Vec<String> {
        if self.more > 0 {
            self.sentences.push(format!("and {} more {what}", self.more));
        }
        self.sentences
    }
}

impl Findings {
    pub(crate) fn error(&self, path: &str, text: impl Display) {
        self.errors.borrow_mut().add(path, text);
    }

    /// True if an error was found at a path that begins with this.
    pub(crate) fn has_error_at(&self, path: &str) -> bool {
        self.errors.borrow().sentences.iter().any(|sentence| sentence.starts_with(path))
    }

    pub(crate) fn warn(&self, path: &str, text: impl Display) {
        self.warnings.borrow_mut().add(path, text);
    }

    /// Counts the values of a list. False after an error: they are too many with those of the lists
    /// before.
    pub(crate) fn has_place_for(&self, path: &str, values: usize) -> bool {
        let sum = self.values.get().saturating_add(values);
        self.values.set(sum);
        if sum > VALUES_MAX {
            self.error(path, format!("the lists of values up to here have more than {VALUES_MAX} values"));
        }
        sum <= VALUES_MAX
    }

    /// The warnings, if there are no errors; otherwise the errors.
    pub(crate) fn finish(self) -> Result<Vec<String>, Vec<String>> {
        let errors = self.errors.into_inner().finish("errors");
        if errors.is_empty() { Ok(self.warnings.into_inner().finish("warnings")) } else { Err(errors) }
    }
}

/// An object and its path.
pub(crate) struct ConfigNode<'a> {
    fields: &'a Map<String, Value>,
    path: String,
    findings: &'a Findings,
    read: RefCell<BTreeSet<&'static str>>,
}

impl<'a> ConfigNode<'a> {
    /// The whole configuration.
    pub(crate) fn root(fields: &'a Map<String, Value>, findings: &'a Findings) -> Self {
        Self { fields, path: String::new(), findings, read: RefCell::default() }
    }

    /// An object that is read apart from the whole, at this path.
    pub(crate) fn element(fields: &'a Map<String, Value>, path: String, findings: &'a Findings) -> Self {
        Self { fields, path, findings, read: RefCell::default() }
    }

    /// Reads an object, and reports the fields that `read` did not read.
    pub(crate) fn whole<T>(self, read: impl FnOnce(&Self) -> T) -> T {
        let value = read(&self);
        self.end();
        value
    }

    /// Reports the fields that were not read.
    fn end(self) {
        let read = self.read.take();
        for (name, value) in self.fields.iter().filter(|(name, _)| !read.contains(name.as_str())) {
            if !is_empty(value) {
                self.findings.error(&self.at(name), "is not supported");
            }
        }
    }

    /// The path of a field.
    pub(crate) fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Its own path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn findings(&self) -> &'a Findings {
        self.findings
    }

    /// An error of the object itself.
    pub(crate) fn error(&self, text: impl Display) {
        self.findings.error(&self.path, text);
    }

    /// A field that is set.
    pub(crate) fn get(&self, name: &'static str) -> Option<&'a Value> {
        self.read.borrow_mut().insert(name);
        self.fields.get(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Fields that have no effect here.
    pub(crate) fn ignore(&self, names: &[&'static str]) {
        self.read.borrow_mut().extend(names);
    }

    pub(crate) fn text(&self, name: &'static str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    /// A text that must be there.
    pub(crate) fn required(&self, name: &'static str) -> &'a str {
        self.text(name).filter(|text| !text.is_empty()).unwrap_or_else(|| {
            self.findings.error(&self.at(name), "is required");
            ""
        })
    }

    pub(crate) fn flag(&self, name: &'static str, default: bool) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    /// A whole number within `range`.
    pub(crate) fn number(&self, name: &'static str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let Some(value) = self.get(name).and_then(Value::as_u64) else { return default };
        if !range.contains(&value) {
            let text = match *range.end() {
                u64::MAX => format!("{value} is below {}", range.start()),
                end => format!("{value} is not in {} to {end}", range.start()),
            };
            self.findings.error(&self.at(name), text);
        }
        value.clamp(*range.start(), *range.end())
    }

    /// A number that is finite and not negative.
    pub(crate) fn float(&self, name: &'static str, default: f64) -> f64 {
        let Some(value) = self.get(name) else { return default };
        // Protobuf's JSON has NaN and the infinities as text.
        let value = value.as_f64().unwrap_or(f64::NAN);
        if value.is_finite() && value >= 0.0 {
            return value;
        }
        self.findings.error(&self.at(name), "is not a number of 0 or more");
        default
    }

    pub(crate) fn object(&self, name: &'static str) -> Option<ConfigNode<'a>> {
        let fields = self.get(name)?.as_object()?;
        Some(ConfigNode { fields, path: self.at(name), findings: self.findings, read: RefCell::default() })
    }

    /// The objects of a list.
    pub(crate) fn objects(&self, name: &'static str) -> Vec<ConfigNode<'a>> {
        let list = self.list(name).iter().enumerate();
        let node = |(index, value): (usize, &'a Value)| {
            let path = format!("{}[{index}]", self.at(name));
            let fields = value.as_object()?;
            Some(ConfigNode { fields, path, findings: self.findings, read: RefCell::default() })
        };
        list.filter_map(node).collect()
    }

    pub(crate) fn list(&self, name: &'static str) -> &'a [Value] {
        self.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn texts(&self, name: &'static str) -> Vec<String> {
        self.list(name).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The name of the chosen body: that of `choice`, or of the only body that is set, or the
    /// default of the model. Bodies that are not chosen are not read, so they are reported.
    pub(crate) fn choice(&self, default: &'static str) -> &'a str {
        if let Some(choice) = self.text("choice") {
            return choice;
        }
        let mut bodies = self.fields.keys().map(String::as_str).filter(|name| *name != "metric_tags");
        match (bodies.next(), bodies.next()) {
            (Some(body), None) => body,
            _ => default,
        }
    }
}

/// True for empty values.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(flag) => !flag,
        Value::Number(_) | Value::String(_) => false,
    }
}
