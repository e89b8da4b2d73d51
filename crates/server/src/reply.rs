//! Answers and errors, as JSON.

use http::StatusCode;
use otg::FINDINGS_MAX;
use otg::metrics::MetricsTable;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};
use serde_json::{Value, json};
use std::io;

/// What a call answers.
#[derive(Clone, Debug, PartialEq)]
pub enum ApiReply {
    /// A message of the model, as JSON.
    Json(Value),
    /// Metrics.
    Metrics(MetricsTable),
    /// A capture file.
    Bytes(Vec<u8>),
}

/// The model's kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is wrong: status 400, gRPC INVALID_ARGUMENT.
    Invalid,
    /// The model has it, wirerate does not do it: 501, UNIMPLEMENTED.
    Unsupported,
    /// The host refused: 500, INTERNAL.
    Internal,
    /// Another program has the device: status 400, gRPC INVALID_ARGUMENT, as for a wrong location.
    Conflict,
    /// Other calls take all places: 429, RESOURCE_EXHAUSTED.
    Busy,
}

/// Why a call was refused: one sentence per cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// What kind.
    pub kind: ErrorKind,
    /// The sentences.
    pub errors: Vec<String>,
}

impl ApiError {
    /// The request is wrong.
    pub fn invalid(error: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Invalid, errors: vec![error.into()] }
    }

    /// So much of the request is wrong.
    pub(crate) fn all_invalid(errors: Vec<String>) -> Self {
        Self { kind: ErrorKind::Invalid, errors }
    }

    /// The model has it, wirerate does not do it.
    pub fn unsupported(error: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unsupported, errors: vec![error.into()] }
    }

    /// The host refused.
    pub fn internal(error: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Internal, errors: vec![error.into()] }
    }

    /// Other calls take all places.
    pub(crate) fn busy(error: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Busy, errors: vec![error.into()] }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self.kind {
            ErrorKind::Invalid | ErrorKind::Conflict => StatusCode::BAD_REQUEST,
            ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            ErrorKind::Busy => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    pub(crate) fn grpc_code(&self) -> tonic::Code {
        match self.kind {
            ErrorKind::Invalid | ErrorKind::Conflict => tonic::Code::InvalidArgument,
            ErrorKind::Unsupported => tonic::Code::Unimplemented,
            ErrorKind::Internal => tonic::Code::Internal,
            ErrorKind::Busy => tonic::Code::ResourceExhausted,
        }
    }

    /// The first errors, and how many more there are. The errors of a configuration have such a
    /// last sentence already, which stays.
    pub fn shortened(&self) -> Vec<String> {
        let errors = &self.errors;
        if errors.len() <= FINDINGS_MAX + 1 {
            return errors.clone();
        }
        let more = format!("and {} more errors", errors.len() - FINDINGS_MAX);
        errors[..FINDINGS_MAX].iter().cloned().chain([more]).collect()
    }

    /// The model's `Error`, with the code of the transport.
    pub(crate) fn json(&self, code: i32) -> Value {
        let kind = if self.kind == ErrorKind::Internal { "internal" } else { "validation" };
        json!({"code": code, "kind": kind, "errors": self.shortened()})
    }
}

/// JSON text in which numbers have no exponent: clients read answers as YAML, where `1e16` is text.
pub(crate) fn to_text(message: &impl Serialize) -> Vec<u8> {
    write_text(message, Vec::new())
}

/// Metrics as JSON text.
pub(crate) fn metrics_text(table: &MetricsTable) -> Vec<u8> {
    write_text(table, Vec::with_capacity(table.row_count() * ROW_LEN))
}

fn write_text(message: &impl Serialize, mut text: Vec<u8>) -> Vec<u8> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, WithoutExponent);
    message.serialize(&mut serializer).expect("a message has a JSON form");
    text
}

struct WithoutExponent;

/// Whole numbers below it are whole numbers of 64 bits.
const WHOLE_MAX: f64 = 9e18;
/// Bytes of a row of metrics, which are a little more than those of a flow with all columns.
const ROW_LEN: usize = 640;

impl Formatter for WithoutExponent {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        match value.abs() {
            // The fast way writes no exponent here.
            0.0 | 0.001..1e15 => CompactFormatter.write_f64(writer, value),
            // A float without a fraction stays a float for the reader. Times since 1970 are such.
            size if value.fract() == 0.0 && size < WHOLE_MAX => {
                CompactFormatter.write_i64(writer, value as i64)?;
                writer.write_all(b".0")
            }
            _ if value.fract() == 0.0 => write!(writer, "{value:.1}"),
            _ => write!(writer, "{value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_hundred_errors_at_most() {
        let errors =
            |count: usize| ApiError { kind: ErrorKind::Invalid, errors: vec![String::from("x"); count] };
        let listed = |count: usize| errors(count).json(400)["errors"].as_array().map_or(0, Vec::len);
        assert_eq!((listed(100), listed(101), listed(102)), (100, 101, 101));
        assert_eq!(errors(101).json(400)["errors"][100], "x", "the last one may be a number of errors");
        assert_eq!(errors(250).json(400)["errors"][100], "and 150 more errors");
    }

    #[test]
    fn numbers_have_no_exponent() {
        let value = json!([1e16, 1e-6, 0.0, 0.001, -0.5, 3.0, 999999999999999.9, 7, u64::MAX]);
        let expected =
            b"[10000000000000000.0,0.000001,0.0,0.001,-0.5,3.0,999999999999999.9,7,18446744073709551615]";
        assert_eq!(to_text(&value), expected);
        for value in [1.795513870390149e18, -1.795513870390149e18, 1e15, 8.9e18, 9e18, 1e20] {
            assert_eq!(to_text(&value), format!("{value:.1}").into_bytes());
        }
    }
}
