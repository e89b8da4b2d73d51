//! The tables, the schemas and `docs/json.md` agree. `UPDATE=1` rewrites the schemas and the tables
//! of the page.

use facts::{DOCUMENTS, Field, Kind, Row};
use std::collections::BTreeSet;
use std::fs;
use testkit::root;

#[test]
fn each_document_has_its_schema() {
    let folder = root().join("schema");
    let mut files = BTreeSet::new();
    for document in DOCUMENTS {
        let schema = serde_json::to_string_pretty(&document.schema()).expect("it is JSON") + "\n";
        let path = folder.join(document.schema_file());
        testkit::compare(&path, &schema).unwrap_or_else(|difference| panic!("{difference}"));
        assert!(files.insert(document.schema_file()), "two documents have the name {}", document.name);
    }
    let there = fs::read_dir(&folder).expect("the folder is there").map(|entry| entry.expect("it is read"));
    for name in there.map(|entry| entry.file_name().into_string().expect("names are UTF-8")) {
        assert!(files.contains(&name), "schema/{name} belongs to no document: remove it");
    }
}

/// The page has a place for the table of each document, between two comments.
#[test]
fn the_tables_of_the_page_are_those_of_the_documents() {
    let path = root().join("docs/json.md");
    let mut page = fs::read_to_string(&path).expect("the page is there");
    for document in DOCUMENTS {
        let start = format!("<!-- fields of {} -->\n\n", document.name);
        let (before, rest) = page.split_once(&start).unwrap_or_else(|| panic!("docs/json.md lacks {start}"));
        let (_, after) = rest.split_once("\n<!-- end of fields -->\n").expect("each table has its end");
        page = format!("{before}{start}{}\n<!-- end of fields -->\n{after}", document.table());
    }
    testkit::compare(&path, &page).unwrap_or_else(|difference| panic!("{difference}"));
}

/// Units by the ends of names.
const UNITS: [(&str, &str); 8] = [
    ("_ns", "ns"),
    ("_pps", "frames/s"),
    ("_cps", "connections/s"),
    ("_bps", "bits/s"),
    ("_ppb", "ppb"),
    ("_bytes", "bytes"),
    ("_percent", "percent"),
    ("_s", "s"),
];

fn check(field: &Field, place: &str) {
    let unit_of = |kind: Kind| match kind {
        Kind::Count(unit) | Kind::Integer(unit) | Kind::Number(unit) => Some(unit),
        _ => None,
    };
    let name = format!("{place}.{}", field.name);
    // `tx_rate_bytes` is a word of the Open Traffic Generator's model.
    let end = UNITS.iter().find(|(end, _)| field.name.ends_with(end));
    if let (Some((_, unit)), Some(of_kind)) = (end, unit_of(field.kind)) {
        assert!(of_kind == *unit || of_kind == format!("{unit}/s"), "{name} is in {of_kind:?}");
    }
    match field.kind {
        Kind::Object(groups) | Kind::Objects(groups) => check_rows(groups, &name),
        Kind::Variants { variants, .. } => {
            variants.iter().for_each(|variant| check_fields(variant.fields, &name));
        }
        _ => {}
    }
}

fn check_fields(fields: &[Field], place: &str) {
    let mut names = BTreeSet::new();
    for field in fields {
        assert!(names.insert(field.name), "{place} has {} twice", field.name);
        check(field, place);
    }
}

fn check_rows(groups: &[&[Row]], place: &str) {
    for row in groups.iter().copied().flatten() {
        assert!(!row.1.is_empty(), "{place}: {:?} have no meaning", row.0);
        check_fields(row.0, place);
    }
}

#[test]
fn each_field_has_a_meaning_and_the_unit_of_its_name() {
    for document in DOCUMENTS {
        check_rows(document.groups, document.name);
    }
}
