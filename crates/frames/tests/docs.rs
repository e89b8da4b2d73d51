//! The tables of docs/frames.md are those of the crate. `UPDATE=1` rewrites them.

use frames::{
    Default, FIELD_FUNCTIONS, FUNCTIONS, PARTS, PROTOCOLS, PartKind, Protocol, ProtocolField, ValueKind,
};

fn code(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(" ")
}

fn functions() -> String {
    let mut text = String::from("| function | bytes |\n|---|---|\n");
    for function in FUNCTIONS {
        let others = match &function.names[1..] {
            [] => String::new(),
            others => format!(", also {}", code(others)),
        };
        let (name, arguments, summary) = (function.names[0], function.arguments, function.summary);
        text += &format!("| `{name}({arguments})`{others} | {summary} |\n");
    }
    text
}

fn field_functions() -> String {
    let mut text = String::from("| value | the field |\n|---|---|\n");
    for (name, arguments, summary) in FIELD_FUNCTIONS {
        text += &format!("| `{name}({arguments})` | {summary} |\n");
    }
    text
}

fn field(field: &ProtocolField) -> String {
    let default = match field.default {
        Default::Zero | Default::OfDevice => String::new(),
        Default::Number(number) if number > 255 => format!(" ({number:#06x})"),
        Default::Number(number) => format!(" ({number})"),
        Default::Length(_) | Default::Computed => " (computed)".to_owned(),
    };
    let kind = match field.kind {
        _ if field.is_flag => " flag",
        ValueKind::Number => "",
        ValueKind::Mac => " MAC",
        ValueKind::Ip4 => " IPv4",
        ValueKind::Ip6 => " IPv6",
    };
    format!("{}{kind}{default}", code(field.names))
}

fn protocol(protocol: &Protocol) -> String {
    let fields: Vec<String> = protocol.fields.iter().map(field).collect();
    let words: Vec<String> = protocol.words.iter().map(|word| code(word.names)).collect();
    let before = PROTOCOLS.iter().find(|other| Some(other.id) == protocol.lower);
    let before = before.map_or(String::new(), |before| format!("`{}`", before.names[0]));
    format!("| {} | {} | {} | {before} |\n", code(protocol.names), fields.join(", "), words.join(" "))
}

fn protocols(is_ours: bool) -> String {
    let mut text =
        String::from("| protocol | fields (default) | words | added before |\n|---|---|---|---|\n");
    text.extend(PROTOCOLS.iter().filter(|of| of.is_ours == is_ours).map(protocol));
    text
}

fn parts() -> String {
    let mut text = String::from("| in | part | words |\n|---|---|---|\n");
    text.extend(PARTS.iter().map(|kind: &PartKind| {
        let header = PROTOCOLS.iter().find(|protocol| protocol.id == kind.of).expect("it has a row");
        let words: Vec<&str> =
            kind.numbers.iter().flat_map(|number| number.words).map(|(name, _)| *name).collect();
        format!("| {} | `{}({})` | {} |\n", code(header.names), kind.name, kind.usage(), code(&words))
    }));
    text
}

#[test]
fn tables_of_the_page_are_those_of_the_crate() {
    let path = testkit::root().join("docs/frames.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let mut updated = page.clone();
    for (name, table) in [
        ("functions", functions()),
        ("field functions", field_functions()),
        ("protocols", protocols(false)),
        ("our protocols", protocols(true)),
        ("parts", parts()),
    ] {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
        let start = updated.find(&begin).expect("the table has its mark") + begin.len();
        let stop = updated.find(&end).expect("the table has its end");
        updated.replace_range(start..stop, &format!("\n{table}\n"));
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &updated).expect("the page can be written");
    } else {
        assert_eq!(page, updated, "UPDATE=1 rewrites the tables");
    }
}
