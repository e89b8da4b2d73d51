//! What `#[derive(Described)]` makes of a structure, compared with what serde writes of it.

use facts::{Described, Document, Field, Kind, OtherFrames, Record, fields_of};
use serde::Serialize;

#[derive(Serialize, Described)]
#[serde(rename_all = "snake_case")]
enum End {
    Count,
    DeviceGone,
    #[serde(rename = "HIP")]
    Hip,
}

#[derive(Serialize, Described)]
struct Share {
    /// The part.
    name: &'static str,
}

#[derive(Serialize, Described)]
#[serde(tag = "protocol", rename_all = "lowercase")]
enum Layer {
    /// Tags.
    Vlan { id: u16, end: End },
    /// The rest.
    Bytes {
        #[serde(flatten)]
        share: Share,
    },
}

#[derive(Serialize, Described)]
struct Clock {
    /// How far it may be
    /// from UTC.
    bound_ns: u64,
}

#[derive(Serialize, Described)]
struct Report<'a> {
    /// Frames.
    #[fact(unit = "frames")]
    sent: u64,
    /// Their rate; `null` without one.
    rate_pps: Option<f64>,
    /// Of files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<u32>,
    /// Of files only; `null` if they do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<Option<u64>>,
    /// Why it ended.
    end: End,
    /// The parts.
    shares: Vec<Share>,
    /// The headers.
    layers: Vec<Layer>,
    /// A path, as text.
    #[fact(kind = Kind::Text)]
    path: Option<&'a [u8]>,
    /// Its name.
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip)]
    secret: i8,
    #[serde(flatten)]
    clock: Option<Clock>,
    #[serde(flatten)]
    others: OtherFrames,
}

fn field(name: &str) -> Field {
    let found = fields_of(<Report<'_> as Record>::PARTS).into_iter().find(|field| field.name == name);
    found.unwrap_or_else(|| panic!("there is no field {name}"))
}

#[test]
fn a_field_has_the_type_the_unit_and_the_meaning_of_the_member() {
    let sent = field("sent");
    assert_eq!((sent.kind, sent.meaning), (Kind::Count("frames"), "Frames."));
    assert_eq!(field("rate_pps").kind, Kind::Number("frames/s"), "the end of the name is the unit");
    assert_eq!(field("end").kind, Kind::Word(&["count", "device_gone", "HIP"]));
    assert_eq!(field("shares").kind, Kind::Objects(Share::PARTS));
    assert_eq!(field("type").kind, Kind::Text, "the name is that of serde");
    assert_eq!(field("path").kind, Kind::Text, "the attribute says what serde writes");
    assert_eq!(field("bound_ns").meaning, "How far it may be from UTC.");
    assert_eq!(field("foreign").kind, Kind::Count("frames"), "the counts of a group");
    let names: Vec<_> = fields_of(<Report<'_> as Record>::PARTS).iter().map(|field| field.name).collect();
    assert!(!names.contains(&"secret"), "what serde skips");
}

#[test]
fn what_may_be_null_and_what_may_be_absent() {
    let of = |name| (field(name).is_nullable, field(name).is_optional);
    assert_eq!(of("sent"), (false, false));
    assert_eq!(of("rate_pps"), (true, false));
    assert_eq!(of("cut"), (false, true), "it is left out instead");
    assert_eq!(of("lost"), (true, true));
    assert_eq!(of("path"), (true, false));
    assert_eq!(of("bound_ns"), (false, true), "the structure may be missing as a whole");
}

#[test]
fn variants_have_the_fields_of_the_structures_in_them() {
    let Kind::Variants { tag, variants } = field("layers").kind else { panic!("layers are variants") };
    let of = |at: usize| {
        let fields = fields_of(variants[at].parts);
        (variants[at].word, variants[at].meaning, fields.iter().map(|field| field.name).collect::<Vec<_>>())
    };
    assert_eq!(tag, "protocol");
    assert_eq!(of(0), ("vlan", "Tags.", vec!["id", "end"]));
    assert_eq!(of(1), ("bytes", "The rest.", vec!["name"]));
}

#[test]
fn an_object_fits_the_schema_of_its_record() {
    const DOCUMENT: Document = Document::of::<Report<'static>>("wirerate.report/1", "this test");
    let report = Report {
        sent: 1,
        rate_pps: None,
        cut: None,
        lost: Some(None),
        end: End::Hip,
        shares: vec![Share { name: "a" }],
        layers: vec![
            Layer::Vlan { id: 5, end: End::DeviceGone },
            Layer::Bytes { share: Share { name: "b" } },
        ],
        path: None,
        kind: "x",
        secret: 77,
        clock: None,
        others: OtherFrames::default(),
    };
    assert!(!serde_json::to_string(&report).expect("it is JSON").contains(&report.secret.to_string()));
    let mut object = serde_json::to_value(&report).expect("it is JSON");
    object["schema"] = DOCUMENT.name.into();
    testkit::check_json_with(&DOCUMENT.schema(), &object).expect("it fits");
    object["end"] = serde_json::to_value(End::Count).expect("it is JSON");
    testkit::check_json_with(&DOCUMENT.schema(), &object).expect("another word fits, too");
    object["end"] = "gone".into();
    let fault = testkit::check_json_with(&DOCUMENT.schema(), &object).expect_err("there is no such word");
    assert!(fault.contains("does not fit enum"), "{fault}");
}
