//! Structures that describe themselves as documents.

use crate::field::{Kind, Part};
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
    const PARTS: &'static [Part];
}

impl<T: Record> Record for Option<T> {
    const PARTS: &'static [Part] = &[Part::Optional(T::PARTS)];
}

impl<T: Record + ?Sized> Record for &T {
    const PARTS: &'static [Part] = T::PARTS;
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

impl<T: Described + ?Sized> Described for &T {
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
    Kind::Text => String, str, IpAddr, Ipv4Addr, Ipv6Addr;
    Kind::Flag => bool;
    Kind::Count("") => u8, u16, u32, u64, usize;
    Kind::Integer("") => i32, i64;
    Kind::Number("") => f64;
}
