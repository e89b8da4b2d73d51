//! The token of callers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, header};

/// True if the request has this token: as `Authorization: Bearer TOKEN`, or as the password of
/// `Authorization: Basic`, which clients make of `https://NAME:TOKEN@HOST`. In gRPC it is metadata
/// of the same name.
pub(crate) fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    match given {
        Some((kind, given)) if kind.eq_ignore_ascii_case("Bearer") => is_equal(given.as_bytes(), token),
        Some((kind, given)) if kind.eq_ignore_ascii_case("Basic") => {
            let decoded = STANDARD.decode(given.trim()).unwrap_or_default();
            let mut parts = decoded.splitn(2, |byte| *byte == b':');
            parts.nth(1).is_some_and(|password| is_equal(password, token))
        }
        _ => false,
    }
}

/// Compares in constant time.
fn is_equal(given: &[u8], token: &str) -> bool {
    let token = token.as_bytes();
    given.len() == token.len() && given.iter().zip(token).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_bearer_or_a_password() {
        let has = |value: &str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            has_token(&headers, "se:cret")
        };
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert!(has("Bearer se:cret") && has("bearer se:cret"));
        assert!(has(&basic("x:se:cret")) && has(&basic(":se:cret")));
        for wrong in ["se:cret", "Bearer se:creT", "Bearer ", "Basic !", "Digest se:cret"] {
            assert!(!has(wrong), "{wrong}");
        }
        for wrong in ["se:cret", "x:se:cret ", "x:", "x"] {
            assert!(!has(&basic(wrong)), "{wrong}");
        }
        assert!(!has_token(&HeaderMap::new(), "se:cret"));
    }
}
