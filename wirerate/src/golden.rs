//! Golden files of unit tests: `tests/golden`, rewritten with `UPDATE=1`.

use std::path::Path;

/// Compares `text` with the golden file `name`.
pub(crate) fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{} changed; UPDATE=1 rewrites it, then look at the diff", path.display());
}
