//! Structures that describe themselves as documents.

use crate::field::{Kind, Row};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A value with a type in JSON. `#[derive(Described)]` implements it for structures and
/// enumerations.
pub trait Described {
    /// Its type.
    const KIND: Kind;
    /// The type of a list of such values.
    const LIST: Kind = Kind::List(&Self::KIND);
    /// True if it may be `null`.
    const IS_NULLABLE: bool = false;
    /// True if it may be `null` in a field that is absent without a value.
    const IS_NULLABLE_IF_PRESENT: bool = false;
}

/// An object with fields: a structure that serde writes.
pub trait Record {
    /// Its fields.
    const ROWS: &'static [Row];
}

impl<T: Record> Record for Option<T> {
    const ROWS: &'static [Row] = &[Row::Optional(T::ROWS)];
}

impl<T: Record + ?Sized> Record for &T {
    const ROWS: &'static [Row] = T::ROWS;
}

impl<T: Described> Described for Option<T> {
    const KIND: Kind = T::KIND;
    const IS_NULLABLE: bool = true;
    const IS_NULLABLE_IF_PRESENT: bool = T::IS_NULLABLE;
}

impl<T: Described> Described for Vec<T> {
    const KIND: Kind = T::LIST;
}

impl<T: Described> Described for [T] {
    const KIND: Kind = T::LIST;
}

impl<T: Described, const N: usize> Described for [T; N] {
    const KIND: Kind = T::LIST;
}

impl<T: Described + ?Sized> Described for &T {
    const KIND: Kind = T::KIND;
    const LIST: Kind = T::LIST;
}

impl<T: Described> Described for Box<T> {
    const KIND: Kind = T::KIND;
    const LIST: Kind = T::LIST;
}

impl<K, T: Described> Described for BTreeMap<K, T> {
    const KIND: Kind = Kind::Map(&T::KIND);
}

macro_rules! kinds {
    ($($kind:expr => $($value:ty),*;)*) => {
        $($(impl Described for $value {
            const KIND: Kind = $kind;
        })*)*
    };
}

kinds! {
    Kind::Text => String, str, Cow<'_, str>, IpAddr, Ipv4Addr, Ipv6Addr;
    Kind::Flag => bool;
    Kind::Count("") => u8, u16, u32, u64, usize;
    Kind::Integer("") => i32, i64;
    Kind::Number("") => f64;
}
