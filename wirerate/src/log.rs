//! What the crates log, on stderr: for commands that run as long as others use them.

use std::io::IsTerminal;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use tracing::Level;

/// Prints what is at least as grave as `level`. The FUSE library also reports answers that came
/// after their asker had gone, which is daily life here; only its errors are shown.
pub fn to_stderr(level: Level) {
    let filter = Targets::new().with_default(level).with_target("fuse3", Level::ERROR);
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let lines = lines.with_target(false).without_time();
    // A second call, in tests, changes nothing.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}
