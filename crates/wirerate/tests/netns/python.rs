//! The package for Python in `python/`: its own tests, and the test of docs/pytest.md.

use crate::{Case, TestResult, case};
use std::process::Command;

/// Where `tools/install.sh test` puts pytest.
const PYTHON: &str = "/var/cache/wirerate/python/bin/python";

/// Tests of the package.
pub(crate) const CASES: &[Case] = &[
    case("python::the_package_passes_its_tests", &[], || pytest("python/tests"))
        .with_lock("takes a way down within a time"),
    case("python::snappi_and_the_fixtures_work_together", &[], || pytest("python/examples")),
    case("python::the_page_shows_a_test_that_passes", &[], page),
];

fn file(path: &str) -> String {
    let path = testkit::root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn pytest(folder: &str) -> TestResult {
    let is_there = Command::new(PYTHON).args(["-c", "import pytest, snappi"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        testkit::skip("needs PyPI pytest and snappi (tools/install.sh test)");
        return Ok(());
    }
    let root = testkit::root();
    let mut command = Command::new(PYTHON);
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "wirerate.pytest_plugin", folder]);
    command.env("PYTHONPATH", "python").env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.env("WIRERATE", env!("CARGO_BIN_EXE_wirerate")).current_dir(root).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// The test of the page is the one that the package runs.
fn page() -> TestResult {
    let test = file("python/tests/test_router.py");
    let page = file("docs/pytest.md");
    let code = test.split_once("import time").expect("the imports").1;
    let shown: String = code
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
        .collect();
    assert!(page.contains(&format!("    import time{}", shown.trim_start_matches(' '))), "{shown}");
    Ok(())
}
