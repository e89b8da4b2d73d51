//! The documents say what is so: every test that docs/differences.md names is in the source, and
//! docs/scripts.md knows every command and flag of a device file, and only options that there are.

use std::fs;
use std::path::Path;

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut source = String::new();
    sources(&root, &mut source);
    let page = fs::read_to_string(root.join("docs/differences.md")).expect("the page is there");
    let rows: Vec<_> =
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #")).collect();
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/scripts.md")).expect("the page is there");
    let table = page.split("## The same in one line").nth(1).expect("the table has its title");
    let table = table.split("\n## ").next().unwrap_or_default();
    let words = command::COMMANDS.iter().filter(|spec| spec.place == command::FileKind::Device);
    for word in words.map(|spec| spec.word).filter(|word| *word != "flag") {
        assert!(table.contains(&format!("`{word}`")), "{word}");
    }
    for flag in command::FLAGS {
        assert!(table.contains(&format!("`flag {}`", flag.name)), "{}", flag.name);
    }
    let help = fs::read_to_string(root.join("wirerate/tests/golden/send_help.txt")).expect("it is there");
    let options = table.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    for option in options.filter(|word| word.starts_with("--") && word.len() > 3 && !word.starts_with("---"))
    {
        assert!(help.contains(&format!("{option} ")) || help.contains(&format!("{option}\n")), "{option}");
    }
}
