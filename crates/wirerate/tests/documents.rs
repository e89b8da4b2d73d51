//! The records that commands print, the schemas and `docs/json.md` agree. `UPDATE=1` rewrites the
//! schemas and the tables of the page.

use facts::{Document, Field, Kind, fields_of};
use program::row_printer::Row;
use program::rx_stats::{CaptureRow, ReceiveRow};
use receiver::count;
use sender::watch::SendSecond;
use sender::{plain_frame, raw_frame, streams};
use std::collections::BTreeSet;
use std::fs;
use testkit::root;
use wirerate::cmd;

/// All documents.
fn documents() -> Vec<Document> {
    vec![
        wirerate::json_error::ERROR,
        plain_frame::FRAME,
        raw_frame::RAW_FRAME,
        streams::STREAM_FRAME,
        cmd::capture::report::CAPTURE,
        CaptureRow::DOCUMENT,
        count::COUNT,
        ReceiveRow::DOCUMENT,
        receiver::MEASURE,
        receiver::MEASURE_TOTAL,
        receiver::Second::DOCUMENT,
        receiver::MEASURE_FLOW,
        connections::CONNECT,
        connections::ConnectRow::DOCUMENT,
        cmd::accept::ACCEPT,
        cmd::accept::AcceptRow::DOCUMENT,
        program::runs::RUNS,
        ports::OTG_FLOW,
        program::device_files::MGCAP,
        cmd::timestamp::TIMESTAMP,
        sender::report::SEND,
        SendSecond::DOCUMENT,
        cmd::replay::report::REPLAY,
        cmd::rewrite::REWRITE,
        cmd::info::INFO,
        export::EXPORT,
        doctor::report::DOCTOR,
        fleets::FLEET,
        fleets::FLEET_HOST,
        fleets::FLEET_PLAN,
        fleets::FLEET_STOP,
        cmd::demo::report::DEMO,
        trials::TRIAL,
        trials::SEARCH,
        trials::RFC2544,
    ]
}

#[test]
fn each_document_has_its_schema() {
    let folder = root().join("schema");
    let mut files = BTreeSet::new();
    for document in documents() {
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
    for document in documents() {
        let start = format!("<!-- fields of {} -->\n\n", document.name);
        let (before, rest) = page.split_once(&start).unwrap_or_else(|| panic!("docs/json.md lacks {start}"));
        let (_, after) = rest.split_once("\n<!-- end of fields -->\n").expect("each table has its end");
        page = format!("{before}{start}{}\n<!-- end of fields -->\n{after}", document.table());
    }
    testkit::compare(&path, &page).unwrap_or_else(|difference| panic!("{difference}"));
}

fn check_fields(fields: Vec<Field>, place: &str) {
    let mut names = BTreeSet::new();
    for field in fields {
        let name = format!("{place}.{}", field.name);
        assert!(names.insert(field.name), "{name} stands there twice");
        assert!(!field.meaning.is_empty(), "{name} has no meaning");
        if let Kind::Object(parts) | Kind::Objects(parts) = field.kind {
            check_fields(fields_of(parts), &name);
        }
    }
}

#[test]
fn each_field_has_a_meaning_and_a_name_of_its_own() {
    documents().iter().for_each(|document| check_fields(fields_of(document.parts), document.name));
}
