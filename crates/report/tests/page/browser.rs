//! A real browser shows the page: no message on its console, and every plot inside the window.

use crate::{file, sample};
use std::process::{Command, Output};
use testkit::Folder;

/// Chromium without a window; `None` where it is not installed.
fn chromium(arguments: &[&str]) -> Option<Output> {
    let name = ["chromium", "chromium-browser"].into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    let Some(name) = name else {
        testkit::skip("needs chromium (tools/install.sh test)");
        return None;
    };
    let fixed =
        ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"];
    Some(Command::new(name).args(fixed).args(arguments).output().expect("chromium runs"))
}

/// The page in a file of this process. A script that measures the plots is added for the test,
/// which the page's own security policy would not allow.
fn page(name: &str, width: u32) -> Folder {
    let html = report::render(&[file("full.jsonl", sample::full())]).expect("it renders");
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    assert!(html.contains(policy));
    let measured =
        html.replace(policy, "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'");
    let script = "<script>
        const boxes = [...document.querySelectorAll('figure > svg')].map(svg => svg.getBoundingClientRect());
        const seen = boxes.filter(box => box.width > 250 && box.height > 150 && box.left >= 0
            && box.right <= document.documentElement.clientWidth);
        const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
        document.title = `${seen.length} of ${boxes.length} plots, ${wide} too wide`;
        </script></body>";
    // Chromium has windows of at least 500 pixels; a narrower page is a frame of that width.
    let folder = Folder::new(name);
    std::fs::write(folder.join("page.html"), measured.replace("</body>", script)).expect("a file in /tmp");
    let frame = format!(
        "<!DOCTYPE html><title>frame</title><iframe src=\"page.html\" width=\"{width}\" height=\"900\" \
         onload=\"document.title = this.contentDocument.title\"></iframe>"
    );
    std::fs::write(folder.join("frame.html"), frame).expect("a file in /tmp");
    folder
}

fn plots_are_visible(name: &str, width: u32) {
    let folder = page(name, width);
    let address = format!("file://{}/frame.html", folder.display());
    let profile = format!("--user-data-dir={}/profile", folder.display());
    let arguments = [
        profile.as_str(),
        "--allow-file-access-from-files",
        "--window-size=1700,1000",
        "--dump-dom",
        &address,
    ];
    let output = chromium(&arguments);
    let Some(output) = output else { return };
    let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split('<').next()).unwrap_or_default();
    let count: u32 = title.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
    assert!(count >= 8, "{title}\n{log}");
    assert_eq!(title, format!("{count} of {count} plots, 0 too wide"), "{log}");
    assert!(!log.contains("CONSOLE"), "{log}");
}

#[test]
fn all_plots_are_visible_at_400_pixels() {
    plots_are_visible("400", 400);
}

#[test]
fn all_plots_are_visible_at_1600_pixels() {
    plots_are_visible("1600", 1600);
}
