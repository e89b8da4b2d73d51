//! The keys and what they do.

/// Key and meaning, in the order of the help.
pub(crate) const KEYS: [(&str, &str); 14] = [
    ("p", "pause or resume sending"),
    ("+ -", "10 % faster or slower"),
    ("r", "type a rate: 1.5M is frames per second, 2Gbit is bits on the wire"),
    ("s q", "stop the run and print its report"),
    ("space", "freeze the screen, or go on"),
    ("c", "count from 0 and clear the graphs; the report does not change"),
    ("h", "show the histogram or the tables"),
    ("tab", "next table"),
    ("o", "sort by the next column"),
    ("/", "show rows that contain a text only; an empty text shows all"),
    ("up down", "move through the rows"),
    ("?", "this help"),
    ("esc", "end the help or the typing"),
    ("^C", "stop; a second time, half a second later or more: end at once"),
];

/// The keys in the last line of the screen, which 80 columns hold, also with [`RATE_KEYS`] before
/// them.
pub(crate) const KEY_LINE: &str = "s stop  space freeze  c clear  tab o / table  ? help";
/// The keys that pause a run and change its rate, for runs whose rate the user can change.
pub(crate) const RATE_KEYS: &str = "p pause  +/- r rate  ";
