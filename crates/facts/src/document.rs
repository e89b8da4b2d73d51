//! What a table consists of: documents, rows, fields and their types.

/// A kind of JSON objects that commands print, one object a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document {
    /// Name and version, such as `wirerate.send/2`: the field `schema` of each object.
    pub name: &'static str,
    /// What prints it.
    pub about: &'static str,
    /// Its fields, in groups that documents share.
    pub groups: &'static [&'static [Row]],
}

/// One or more fields that one sentence describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row(
    /// The fields.
    pub &'static [Field],
    /// What they mean, as Markdown.
    pub &'static str,
);

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
    Object(&'static [&'static [Row]]),
    /// A list of objects with these fields.
    Objects(&'static [&'static [Row]]),
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
    /// Its further fields.
    pub fields: &'static [Field],
    /// What to know about them, as Markdown; may be empty.
    pub meaning: &'static str,
}

impl Field {
    /// A field that is always there and never `null`.
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, is_nullable: false, is_optional: false }
    }

    /// Makes the field nullable: it is `null` if its value is unknown or does not apply.
    #[must_use]
    pub const fn or_null(self) -> Self {
        Self { is_nullable: true, ..self }
    }

    /// Makes the field optional: it is not always there.
    #[must_use]
    pub const fn or_absent(self) -> Self {
        Self { is_optional: true, ..self }
    }
}

impl Document {
    /// All rows of the document.
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> {
        rows(self.groups)
    }
}

/// The rows of all `groups`.
pub(crate) fn rows(groups: &'static [&'static [Row]]) -> impl Iterator<Item = &'static Row> {
    groups.iter().copied().flatten()
}

/// The fields of all `groups`.
pub(crate) fn fields(groups: &'static [&'static [Row]]) -> impl Iterator<Item = &'static Field> {
    rows(groups).flat_map(|row| row.0)
}

macro_rules! shorthands {
    ($($(#[$doc:meta])* $name:ident => $kind:expr;)*) => {
        $($(#[$doc])* pub(crate) const fn $name(name: &'static str) -> Field {
            Field::new(name, $kind)
        })*
    };
}

shorthands! {
    /// A field with text.
    text => Kind::Text;
    /// A field that is true or false.
    flag => Kind::Flag;
    /// A field with a number of things, or with a number as a name.
    count => Kind::Count("");
    /// A field with a number of frames.
    frames => Kind::Count("frames");
    /// A field with a number of packets.
    packets => Kind::Count("packets");
    /// A field with bytes.
    bytes => Kind::Count("bytes");
    /// A field with a time in nanoseconds.
    ns => Kind::Count("ns");
    /// A field with a time in nanoseconds that may be negative.
    signed_ns => Kind::Integer("ns");
    /// A field with a share in parts per billion.
    ppb => Kind::Count("ppb");
    /// A field with a rate in frames per second, which may have a fraction.
    pps => Kind::Number("frames/s");
    /// A field with a rate in frames per second, an integer.
    whole_pps => Kind::Count("frames/s");
    /// A field with a rate in bits per second.
    bps => Kind::Number("bits/s");
    /// A field with a list of texts.
    texts => Kind::List(&Kind::Text);
    /// A field with a list of numbers without a unit.
    counts => Kind::List(&Kind::Count(""));
}

/// A field with one of `words`.
pub(crate) const fn word(name: &'static str, words: &'static [&'static str]) -> Field {
    Field::new(name, Kind::Word(words))
}

/// A field with a number that may have a fraction, in `unit`.
pub(crate) const fn number(name: &'static str, unit: &'static str) -> Field {
    Field::new(name, Kind::Number(unit))
}

/// A field with an object.
pub(crate) const fn object(name: &'static str, groups: &'static [&'static [Row]]) -> Field {
    Field::new(name, Kind::Object(groups))
}

/// A field with a list of objects.
pub(crate) const fn objects(name: &'static str, groups: &'static [&'static [Row]]) -> Field {
    Field::new(name, Kind::Objects(groups))
}

/// A field with an object whose names are data.
pub(crate) const fn map(name: &'static str, kind: &'static Kind) -> Field {
    Field::new(name, Kind::Map(kind))
}
