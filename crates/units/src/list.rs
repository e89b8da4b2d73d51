//! Values with commas between them, for options that are given once: `5,6`.

use std::fmt::Display;
use std::str::FromStr;

/// One value or several, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T: FromStr<Err: Display>> FromStr for List<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = |part: &str| part.parse().map_err(|why| format!("\"{part}\": {why}"));
        text.split(',').map(value).collect::<Result<_, _>>().map(Self)
    }
}
