//! Golden files: texts that tests compare with files of the repository. `UPDATE=1` rewrites the
//! files.

use std::fmt::Write;
use std::path::Path;

/// Compares `text` with `tests/golden/NAME` of the crate under test, and the JSON lines of `text`
/// with their schemas.
///
/// # Panics
/// When they differ, or a line does not fit its schema.
#[track_caller]
pub fn golden(name: &str, text: &str) {
    crate::check_json_lines(text);
    // Cargo runs tests in the folder of their crate.
    compare(&Path::new("tests/golden").join(name), text).unwrap_or_else(|difference| panic!("{difference}"));
}

/// Compares `text` with a golden file, or writes it there with `UPDATE=1`.
///
/// # Errors
/// The lines that differ.
pub fn compare(path: &Path, text: &str) -> Result<(), String> {
    // A file that does not exist yet is empty.
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    let path_name = path.display();
    if golden == text {
        return Ok(());
    }
    if std::env::var_os("UPDATE").is_some() {
        let write =
            || std::fs::create_dir_all(path.parent()?).and_then(|()| std::fs::write(path, text)).err();
        return write().map_or(Ok(()), |error| Err(format!("cannot write {path_name}: {error}")));
    }
    Err(format!("{path_name} differs (UPDATE=1 rewrites it):\n{}", difference(&golden, text)))
}

/// Lines that only one of the two has.
fn difference(expected: &str, found: &str) -> String {
    let mut out = String::new();
    let mut only = |sign: char, of: &str, other: &str| {
        for line in of.lines().filter(|line| !other.lines().any(|one| one == *line)) {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{sign} {line}");
        }
    };
    only('-', expected, found);
    only('+', found, expected);
    if out.is_empty() { "the same lines in another order".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_names_the_lines_of_either_side() {
        assert_eq!(difference("a\nb\n", "a\nc\n"), "- b\n+ c\n");
        assert_eq!(difference("a\nb\n", "b\na\n"), "the same lines in another order");
    }

    #[test]
    fn a_missing_file_differs() {
        let difference = compare(Path::new("/proc/no_such_file"), "a\n").unwrap_err();
        assert!(difference.ends_with("\n+ a\n"), "{difference}");
    }
}
