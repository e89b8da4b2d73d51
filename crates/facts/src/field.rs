//! What describes a record: its fields, their types, units and meanings.

/// A part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A field.
    Field(Field),
    /// The fields of another record.
    Group(&'static [Part]),
    /// The fields of another record, which may be absent.
    Optional(&'static [Part]),
}

/// A field of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The type and the unit of its value.
    pub kind: Kind,
    /// True if its value may be `null`: unknown, or not applicable.
    pub is_nullable: bool,
    /// True if the field may be absent.
    pub is_optional: bool,
    /// What it means, as Markdown.
    pub meaning: &'static str,
}

/// The type of a value. Numbers have a unit, such as `frames` or `ns`; it is empty for numbers
/// without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// True or false.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// An integer from 0 to 2^64 - 1.
    Count(&'static str),
    /// An integer that may be negative.
    Integer(&'static str),
    /// A number that may have a fraction.
    Number(&'static str),
    /// A list of values.
    List(&'static Kind),
    /// An object with these fields.
    Object(&'static [Part]),
    /// A list of objects with these fields.
    Objects(&'static [Part]),
    /// A list of objects whose fields depend on the word in the field `tag`.
    Variants {
        /// The field that tells the variants apart.
        tag: &'static str,
        /// The variants.
        variants: &'static [Variant],
    },
    /// An object whose names are data, with values of one type.
    Map(&'static Kind),
}

/// An object whose fields depend on its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The word that names the variant.
    pub word: &'static str,
    /// Its further fields. Those of headers have the names of the protocol's standard, and no
    /// meaning of their own.
    pub parts: &'static [Part],
    /// What to know about it, as Markdown.
    pub meaning: &'static str,
}

impl Field {
    /// Its meaning as a sentence: those of counts are remarks, which stand behind the count.
    pub(crate) fn sentence(&self) -> String {
        let mut letters = self.meaning.chars();
        let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        first + letters.as_str().trim_end_matches('.') + "."
    }
}

impl Kind {
    /// A number with this unit.
    #[must_use]
    pub const fn in_unit(self, unit: &'static str) -> Self {
        match self {
            Self::Count(_) => Self::Count(unit),
            Self::Integer(_) => Self::Integer(unit),
            Self::Number(_) => Self::Number(unit),
            other => other,
        }
    }
}

/// The fields of `parts` and of the records in them. Those of a record that may be absent are
/// optional.
pub fn fields_of(parts: &[Part]) -> Vec<Field> {
    let optional = |field| Field { is_optional: true, ..field };
    let of = |part: &Part| match part {
        Part::Field(field) => vec![*field],
        Part::Group(parts) => fields_of(parts),
        Part::Optional(parts) => fields_of(parts).into_iter().map(optional).collect(),
    };
    parts.iter().flat_map(of).collect()
}
