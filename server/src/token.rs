//! The token of callers.

use http::{HeaderMap, header};

/// True if the request has the header `Authorization: Bearer TOKEN` with this token.
pub(crate) fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer "));
    given.is_some_and(|given| is_equal(given.as_bytes(), token.as_bytes()))
}

/// Compares in constant time.
fn is_equal(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}
