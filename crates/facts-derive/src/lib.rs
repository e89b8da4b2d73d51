//! `#[derive(Described)]`: the description of a JSON document, made from the structure that serde
//! writes as one.
//!
//! The name of a field is its name in JSON, its type gives the type, its documentation the meaning.
//! Attributes of serde hold here too: `skip`, `flatten`, `rename`, `skip_serializing_if`,
//! `rename_all` and `tag`. The attribute `fact` says what they do not:
//!
//! - `#[fact(unit = "frames")]`: the unit of a number, where the end of its name does not say it.
//! - `#[fact(kind = Kind::Text)]`: the type in JSON, where serde writes another one than that of
//!   the field.

#![forbid(unsafe_code)]

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Expr, Field, Fields, Lit, LitStr, Meta, Result, Variant};

/// Implements `facts::Described`, and for structures `facts::Record`.
#[proc_macro_derive(Described, attributes(fact, serde))]
pub fn described(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    of_type(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn of_type(input: &DeriveInput) -> Result<TokenStream> {
    let DeriveInput { ident, generics, .. } = input;
    let (impls, types, bounds) = generics.split_for_impl();
    let serde = Serde::of(&input.attrs)?;
    match &input.data {
        Data::Struct(_) if serde.rename_all.is_some() || serde.tag.is_some() => {
            Err(Error::new_spanned(ident, "rename_all and tag of a structure are not known here"))
        }
        Data::Struct(data) if matches!(data.fields, Fields::Named(_)) => {
            let parts = data.fields.iter().map(part).collect::<Result<Vec<_>>>()?;
            Ok(quote! {
                impl #impls ::facts::Record for #ident #types #bounds {
                    const PARTS: &'static [::facts::Part] = &[#(#parts)*];
                }
                impl #impls ::facts::Described for #ident #types #bounds {
                    const KIND: ::facts::Kind = ::facts::Kind::Object(<Self as ::facts::Record>::PARTS);
                    const LIST: ::facts::Kind = ::facts::Kind::Objects(<Self as ::facts::Record>::PARTS);
                }
            })
        }
        Data::Struct(data) if data.fields.len() == 1 => {
            let inner = data.fields.iter().map(|field| &field.ty);
            Ok(quote! { impl #impls ::facts::Described for #ident #types #bounds {
                #(const KIND: ::facts::Kind = <#inner as ::facts::Described>::KIND;)*
            } })
        }
        Data::Enum(data) => match &serde.tag {
            Some(tag) => {
                let variants = data.variants.iter().map(|variant| serde.variant(variant));
                let variants = variants.collect::<Result<Vec<_>>>()?;
                Ok(quote! { impl #impls ::facts::Described for #ident #types #bounds {
                    const KIND: ::facts::Kind = Self::LIST;
                    const LIST: ::facts::Kind = ::facts::Kind::Variants {
                        tag: #tag,
                        variants: &[#(#variants),*],
                    };
                } })
            }
            None if data.variants.iter().any(|variant| !variant.fields.is_empty()) => {
                Err(Error::new_spanned(ident, "an enumeration whose variants have fields needs serde(tag)"))
            }
            None => {
                let words = data.variants.iter().map(|variant| serde.word(variant));
                let words = words.collect::<Result<Vec<_>>>()?;
                Ok(quote! { impl #impls ::facts::Described for #ident #types #bounds {
                    const KIND: ::facts::Kind = ::facts::Kind::Word(&[#(#words),*]);
                } })
            }
        },
        _ => Err(Error::new_spanned(ident, "a document is a structure with named fields, or an enumeration")),
    }
}

/// The part of a record that a field is; nothing if serde skips it.
fn part(field: &Field) -> Result<TokenStream> {
    let serde = Serde::of(&field.attrs)?;
    if serde.is_skipped {
        return Ok(TokenStream::new());
    }
    if serde.is_flat {
        let kind = &field.ty;
        return Ok(quote! { ::facts::Part::Group(<#kind as ::facts::Record>::PARTS), });
    }
    let ident = field.ident.as_ref().expect("the fields have names");
    let name = serde.name.clone().unwrap_or_else(|| ident.to_string());
    let facts = Facts::of(&field.attrs)?;
    let kind = match &facts.kind {
        Some(kind) => quote! { { use ::facts::Kind; #kind } },
        None => {
            let value = &field.ty;
            quote! { <#value as ::facts::Described>::KIND }
        }
    };
    let unit = facts.unit.as_deref().or_else(|| unit_of(&name));
    let kind = unit.map_or_else(|| kind.clone(), |unit| quote! { #kind.in_unit(#unit) });
    let (value, is_optional) = (&field.ty, serde.is_optional);
    let is_nullable = match (facts.kind.is_some(), is_optional) {
        (true, _) => {
            let is_nullable = is_option(value) && !is_optional;
            quote! { #is_nullable }
        }
        (false, false) => quote! { <#value as ::facts::Described>::IS_NULLABLE },
        (false, true) => quote! { <#value as ::facts::Described>::IS_NULLABLE_IF_PRESENT },
    };
    let meaning = documentation(&field.attrs);
    Ok(quote! { ::facts::Part::Field(::facts::Field {
        name: #name,
        kind: #kind,
        is_nullable: #is_nullable,
        is_optional: #is_optional,
        meaning: #meaning,
    }), })
}

fn is_option(value: &syn::Type) -> bool {
    match value {
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == "Option"),
        _ => false,
    }
}

/// Units by the ends of names.
const UNITS: [(&str, &str); 8] = [
    ("_ns", "ns"),
    ("_pps", "frames/s"),
    ("_cps", "connections/s"),
    ("_bps", "bits/s"),
    ("_ppb", "ppb"),
    ("_bytes", "bytes"),
    ("_percent", "percent"),
    ("_s", "s"),
];

fn unit_of(name: &str) -> Option<&'static str> {
    UNITS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, unit)| *unit)
}

/// The attributes `fact` of a field.
#[derive(Default)]
struct Facts {
    unit: Option<String>,
    kind: Option<Expr>,
}

impl Facts {
    fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut facts = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("fact")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("unit") {
                    facts.unit = Some(meta.value()?.parse::<LitStr>()?.value());
                } else if meta.path.is_ident("kind") {
                    facts.kind = Some(meta.value()?.parse()?);
                } else {
                    return Err(meta.error("it is neither unit nor kind"));
                }
                Ok(())
            })?;
        }
        Ok(facts)
    }
}

/// The attributes of serde that change the document.
#[derive(Default)]
struct Serde {
    name: Option<String>,
    rename_all: Option<String>,
    tag: Option<String>,
    is_skipped: bool,
    is_flat: bool,
    is_optional: bool,
}

impl Serde {
    fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut serde = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                // `rename(serialize = ..)` and the like are not used for documents.
                let value = match meta.input.peek(syn::Token![=]) {
                    true => Some(meta.value()?.parse::<Lit>()?),
                    false => None,
                };
                let text = match value {
                    Some(Lit::Str(text)) => Some(text.value()),
                    _ => None,
                };
                match name.as_str() {
                    "rename" => serde.name = text,
                    "rename_all" => serde.rename_all = text,
                    "tag" => serde.tag = text,
                    "skip" | "skip_serializing" => serde.is_skipped = true,
                    "flatten" => serde.is_flat = true,
                    "skip_serializing_if" => serde.is_optional = true,
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(serde)
    }

    /// The word of a variant of this enumeration.
    fn word(&self, variant: &Variant) -> Result<String> {
        let own = Self::of(&variant.attrs)?.name;
        let name = variant.ident.to_string();
        match (own, self.rename_all.as_deref()) {
            (Some(own), _) => Ok(own),
            (None, None) => Ok(name),
            (None, Some("snake_case")) => Ok(separated(&name, '_')),
            (None, Some("kebab-case")) => Ok(separated(&name, '-')),
            (None, Some("lowercase")) => Ok(name.to_lowercase()),
            (None, Some(_)) => Err(Error::new_spanned(&variant.ident, "its rename_all is not known here")),
        }
    }

    /// A variant with fields of its own.
    fn variant(&self, variant: &Variant) -> Result<TokenStream> {
        let word = self.word(variant)?;
        let meaning = documentation(&variant.attrs);
        let parts = variant.fields.iter().map(part).collect::<Result<Vec<_>>>()?;
        Ok(quote! { ::facts::Variant { word: #word, parts: &[#(#parts)*], meaning: #meaning } })
    }
}

/// `BackToBack` as `back_to_back`.
fn separated(name: &str, separator: char) -> String {
    let mut text = String::new();
    for (index, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            text.push(separator);
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// The documentation as one line.
fn documentation(attributes: &[Attribute]) -> String {
    let mut words = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Meta::NameValue(pair) = &attribute.meta
            && let Expr::Lit(value) = &pair.value
            && let Lit::Str(text) = &value.lit
        {
            words.push(text.value().trim().to_owned());
        }
    }
    words.join(" ").trim().to_owned()
}
