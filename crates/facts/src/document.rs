//! Documents: the kinds of JSON objects that commands print.

use crate::field::Part;
use crate::record::Record;

/// A kind of JSON objects that commands print, one object a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document {
    /// Name and version, such as `wirerate.send/2`: the field `schema` of each object.
    pub name: &'static str,
    /// What prints it.
    pub about: &'static str,
    /// Its fields.
    pub parts: &'static [Part],
}

impl Document {
    /// What is printed as a record `T`.
    pub const fn of<T: Record>(name: &'static str, about: &'static str) -> Self {
        Self { name, about, parts: T::PARTS }
    }
}
