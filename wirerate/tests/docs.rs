//! The documents say what is so: every test that docs/differences.md names is in the source.

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
