//! The documents say what is so: every test that docs/pktgen.md names is in the source, and the
//! page knows every command and flag of a device file, and only options that there are.

mod links;

use std::fs;
use std::path::Path;
use std::process::Command;

fn sources(dir: &Path, into: &mut String) {
    for entry in fs::read_dir(dir).expect("the source can be read").flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push_str(&fs::read_to_string(&path).expect("the source can be read"));
        }
    }
}

#[test]
fn every_difference_names_a_test_that_exists() {
    let root = testkit::root();
    let mut source = String::new();
    sources(&root, &mut source);
    let page = fs::read_to_string(root.join("docs/pktgen.md")).expect("the page is there");
    let part =
        page.split("\n## Differences from pktgen and trafgen\n").nth(1).expect("the part has its title");
    let rows: Vec<_> =
        part.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #")).collect();
    assert!(rows.len() >= 16, "{rows:?}");
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let names: Vec<_> = cell.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test in: {row}");
        for name in names {
            let is_there = source.contains(&format!("fn {name}(")) || source.contains(&format!("::{name}\""));
            assert!(is_there, "there is no test {name}, which this row names: {row}");
        }
    }
}

#[test]
fn the_page_for_scripts_has_every_word_and_only_options_that_there_are() {
    let root = testkit::root();
    let page = fs::read_to_string(root.join("docs/pktgen.md")).expect("the page is there");
    let table = page.split("## The same in one line").nth(1).expect("the table has its title");
    let table = table.split("\n## ").next().unwrap_or_default();
    let words = command::COMMANDS.iter().filter(|spec| spec.place == command::FileKind::Device);
    for word in words.map(|spec| spec.word).filter(|word| *word != "flag") {
        assert!(table.contains(&format!("`{word}`")), "{word}");
    }
    for flag in command::FLAGS {
        assert!(table.contains(&format!("`flag {}`", flag.name)), "{}", flag.name);
    }
    let parser = wirerate::parser();
    let send = parser.find_subcommand("send").expect("it is there");
    let has = |option: &str| {
        send.get_arguments().any(|arg| {
            let others = arg.get_all_aliases().unwrap_or_default();
            arg.get_long().is_some_and(|long| long == option) || others.contains(&option)
        })
    };
    let options = table.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    for option in options.filter(|word| word.starts_with("--") && word.len() > 3 && !word.starts_with("---"))
    {
        assert!(has(option.trim_start_matches('-')), "{option}");
    }
}

/// The words of a shell line up to its first operator; quotes keep blanks.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '|' | '>' | '&' | ';' | '#') => break,
            (None, ' ') => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Lines that go on in the next one are left to the test of docs/frames.md. The value of a variable
/// is unknown.
#[test]
fn every_command_line_of_the_pages_parses() {
    let root = testkit::root();
    let docs = fs::read_dir(root.join("docs")).expect("the folder is there");
    let docs = docs.map(|entry| entry.expect("its entries are read").path());
    let pages = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut parsed = 0;
    for page in pages.chain([root.join("README.md")]) {
        let text = fs::read_to_string(&page).expect("the page is there");
        for line in text.lines().filter_map(|line| line.strip_prefix("    ")) {
            let words = shell_words(line);
            let is_whole =
                !line.ends_with('\\') && !line.contains('$') && line.matches('\'').count() % 2 == 0;
            if !is_whole || words.first().is_none_or(|word| word != "wirerate") {
                continue;
            }
            let words = words.into_iter().map(Into::into).collect();
            let words = wirerate::other_tools::translated(words);
            let result = <wirerate::Cli as clap::Parser>::try_parse_from(&words);
            assert!(result.is_ok(), "{}: {line}\n{}", page.display(), result.unwrap_err());
            parsed += 1;
        }
    }
    assert!(parsed > 100, "{parsed}");
}

/// The contents say that their table has all commands.
#[test]
fn the_table_of_commands_has_every_command() {
    let root = testkit::root();
    let page = fs::read_to_string(root.join("docs/README.md")).expect("the page is there");
    let table = page.split("## Commands").nth(1).and_then(|rest| rest.split("Examples:").next());
    let table = table.expect("the table has its title");
    let parser = wirerate::parser();
    for command in parser.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let is_there = table.contains(&format!("`wirerate {name}")) || table.contains(&format!("`{name}`"));
        assert!(is_there, "{name} is not in the table");
    }
}

#[test]
fn the_page_of_pktgen_commands_is_what_help_prints() {
    let page = testkit::root().join("docs/pktgen.md");
    let text = fs::read_to_string(&page).expect("the page is there");
    let indented = |line: &str| if line.is_empty() { String::new() } else { format!("    {line}") };
    let block: Vec<_> = command::commands_text().lines().map(indented).collect();
    let (intro, rest) = text.split_once("\n    Control commands").expect("the list is there");
    let behind = rest.find("\n## ").map_or("", |at| &rest[at..]);
    let expected = format!("{intro}\n{}\n{behind}", block.join("\n"));
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&page, &expected).expect("the page can be written");
    }
    assert_eq!(fs::read_to_string(&page).expect("the page is there"), expected, "UPDATE=1 rewrites it");
}

/// Lines of the cookbook of docs/frames.md: the packets to paste, and what tshark shows of them.
struct Recipe {
    command: Vec<String>,
    shown: String,
}

fn recipes(cookbook: &str) -> Vec<Recipe> {
    let blocks: Vec<String> = cookbook
        .split("\n\n")
        .filter(|block| block.starts_with("    "))
        .map(|block| {
            block.lines().map(|line| line.trim_start().trim_end_matches('\\')).collect::<Vec<_>>().join(" ")
        })
        .collect();
    blocks.chunks(2).map(|pair| Recipe { command: shell_words(&pair[0]), shown: pair[1].clone() }).collect()
}

/// Each line of the cookbook makes the frame that the page shows, and tshark finds no fault in it.
#[test]
fn tshark_shows_what_the_cookbook_of_frames_says() {
    testkit::needs!(testkit::has_program("tshark"));
    let page = testkit::root().join("docs/frames.md");
    let text = fs::read_to_string(&page).expect("the page is there");
    let (before, rest) = text.split_once("<!-- cookbook -->\n").expect("it has a cookbook");
    let (cookbook, after) = rest.split_once("<!-- end of cookbook -->\n").expect("it has an end");
    let mut updated = cookbook.to_owned();
    let recipes = recipes(cookbook);
    assert!(recipes.len() >= 20, "{}", recipes.len());
    for Recipe { command, shown } in recipes {
        assert_eq!(command[..3], ["wirerate", "send", "veth0"], "{command:?}");
        let seen = tshark_of(&command[3..]);
        if std::env::var_os("UPDATE").is_some() {
            updated = updated.replacen(&format!("\n    {shown}\n"), &format!("\n    {seen}\n"), 1);
        } else {
            assert_eq!(seen, shown, "{command:?}\nUPDATE=1 rewrites it");
        }
    }
    if updated != cookbook {
        let updated = format!("{before}<!-- cookbook -->\n{updated}<!-- end of cookbook -->\n{after}");
        fs::write(&page, updated).expect("the page can be written");
    }
}

/// What tshark shows of the first frame of a line; a checksum that is wrong and a malformed frame
/// are failures.
fn tshark_of(words: &[String]) -> String {
    let path = std::env::temp_dir().join(format!("wirerate-cookbook-{}.pcapng", std::process::id()));
    let file = path.to_str().expect("a plain path");
    let made = Command::new(env!("CARGO_BIN_EXE_wirerate"))
        .args(["send", "no-such-dev", "--dry-run=1", "--seed", "1", "--write", file])
        .args(words)
        .output()
        .expect("the binary under test starts");
    assert!(made.status.success(), "{words:?}: {}", String::from_utf8_lossy(&made.stderr));
    let decoded = String::from_utf8_lossy(&made.stdout);
    assert!(!decoded.contains("WRONG"), "{words:?}: {decoded}");
    let checks = ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum", "sctp.checksum"];
    let tshark = |more: &[&str]| {
        let mut command = Command::new("tshark");
        command
            .args(["-n", "-r", file])
            .args(checks.iter().flat_map(|check| ["-o".to_owned(), format!("{check}:TRUE")]));
        let output = command.args(more).output().expect("tshark is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it prints UTF-8").trim().to_owned()
    };
    let bad: Vec<String> = ["ip", "tcp", "udp", "icmp", "icmpv6", "igmp", "sctp"]
        .map(|protocol| format!("{protocol}.checksum.status == Bad"))
        .into();
    assert_eq!(tshark(&["-Y", &format!("_ws.malformed or {}", bad.join(" or "))]), "", "{words:?}");
    // Number and time come first.
    let line = tshark(&[]);
    fs::remove_file(&path).expect("the file is there");
    line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ")
}

/// The row of a family in docs/watching.md.
fn metric_row(family: &metrics::MetricFamily) -> String {
    let kind = match family.kind {
        metrics::FamilyKind::Counter => "counter",
        metrics::FamilyKind::Gauge => "gauge",
        metrics::FamilyKind::Histogram { .. } => "histogram",
    };
    let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    format!("| `{}` | {kind} | {} | {} |\n", family.name, labels.join(", "), family.help)
}

#[test]
fn the_page_of_metrics_has_the_table_of_families() {
    let page = testkit::root().join("docs/watching.md");
    let text = fs::read_to_string(&page).expect("the page is there");
    let (intro, rest) = text.split_once("|---|---|---|---|\n").expect("the page has a table");
    let rest: Vec<_> = rest.split_inclusive('\n').skip_while(|line| line.starts_with('|')).collect();
    let rows: String = metrics::FAMILIES.iter().map(metric_row).collect();
    let expected = format!("{intro}|---|---|---|---|\n{rows}{}", rest.concat());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&page, &expected).expect("the page can be written");
    }
    assert_eq!(fs::read_to_string(&page).expect("the page is there"), expected, "UPDATE=1 rewrites it");
}

/// The names in an expression of PromQL that begin as those of metrics do.
fn metric_names(expression: &str) -> Vec<&str> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("wirerate_") || word.starts_with("process_")).collect()
}

#[test]
fn the_dashboard_and_the_page_name_metrics_that_there_are() {
    let docs = testkit::root().join("docs");
    let read = |name: &str| fs::read_to_string(docs.join(name)).expect("the file is there");
    let is_known = |name: &str| {
        metrics::FAMILIES.iter().any(|family| match family.kind {
            metrics::FamilyKind::Histogram { .. } => name.strip_prefix(family.name) == Some("_bucket"),
            _ => name == family.name,
        })
    };
    let dashboard: serde_json::Value = serde_json::from_str(&read("grafana.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let expressions: Vec<&str> = targets.filter_map(|target| target["expr"].as_str()).collect();
    assert!(panels.len() >= 12 && expressions.len() >= panels.len(), "{expressions:?}");
    for expression in &expressions {
        let names = metric_names(expression);
        assert!(!names.is_empty() && names.iter().all(|name| is_known(name)), "{expression}");
    }
    // Names of recording rules end otherwise.
    let rules = read("wirerate.rules.yml");
    let used =
        metric_names(&rules).into_iter().filter(|name| name.ends_with("_total") || name.ends_with("_second"));
    let used: Vec<&str> = used.collect();
    assert!(used.len() >= 5 && used.iter().all(|name| is_known(name)), "{used:?}");
    // What it leaves out is no curve: facts about the process and its run.
    let shown: Vec<&str> = expressions.iter().flat_map(|expression| metric_names(expression)).collect();
    for family in metrics::FAMILIES.iter().filter(|family| family.labels.contains(&"device")) {
        let is_shown = shown.iter().any(|name| name.strip_suffix("_bucket").unwrap_or(name) == family.name);
        let left_out =
            ["_info", "_offered_frames_total", "_bytes_total", "_retries_total", "_time_frames_total"];
        assert!(is_shown || left_out.iter().any(|end| family.name.ends_with(end)), "{}", family.name);
    }
}
