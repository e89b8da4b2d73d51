//! Arithmetic of `c8()` to `c64()`: all operators bind alike and to the left, as in trafgen.

use crate::error::ConfigError;
use crate::scan::Scanner;

/// Nested parentheses and signs that an expression may have.
const DEPTH_MAX: usize = 100;

/// Takes an expression.
pub(crate) fn expression(scanner: &mut Scanner<'_>) -> Result<i64, ConfigError> {
    sum(scanner, 0)
}

fn sum(scanner: &mut Scanner<'_>, depth: usize) -> Result<i64, ConfigError> {
    let mut left = operand(scanner, depth)?;
    loop {
        scanner.skip_blanks()?;
        let place = scanner.place();
        let Some(operator) = scanner.peek().filter(|byte| b"+-*/%&|^<>".contains(byte)) else {
            return Ok(left);
        };
        scanner.eat(operator)?;
        if operator == b'<' || operator == b'>' {
            scanner.expect(operator, if operator == b'<' { "<<" } else { ">>" })?;
        }
        let right = operand(scanner, depth)?;
        let result = match operator {
            b'+' => Some(left.wrapping_add(right)),
            b'-' => Some(left.wrapping_sub(right)),
            b'*' => Some(left.wrapping_mul(right)),
            b'/' => (right != 0).then(|| left.wrapping_div(right)),
            b'%' => (right != 0).then(|| left.wrapping_rem(right)),
            b'&' => Some(left & right),
            b'|' => Some(left | right),
            b'^' => Some(left ^ right),
            b'<' => Some(left.wrapping_shl(right as u32)),
            _ => Some(left.wrapping_shr(right as u32)),
        };
        left = result.ok_or_else(|| scanner.error_at(place, "this divides by zero"))?;
    }
}

fn operand(scanner: &mut Scanner<'_>, depth: usize) -> Result<i64, ConfigError> {
    scanner.skip_blanks()?;
    if depth == DEPTH_MAX {
        return Err(scanner.error_at(scanner.place(), "more than 100 nested parentheses"));
    }
    match scanner.peek() {
        Some(b'-') => {
            scanner.eat(b'-')?;
            Ok(operand(scanner, depth + 1)?.wrapping_neg())
        }
        Some(b'(') => {
            scanner.eat(b'(')?;
            let value = sum(scanner, depth + 1)?;
            scanner.expect(b')', "an operator or ')'")?;
            Ok(value)
        }
        _ => scanner.number("a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<i64, String> {
        expression(&mut Scanner::new(text.as_bytes())).map_err(|error| error.message)
    }

    #[test]
    fn operators_bind_alike_and_to_the_left() {
        for (text, result) in [
            ("2+3*4", 20),
            ("10-2-3", 5),
            ("1|2*3", 9),
            ("-1+3", 2),
            ("-2*3", -6),
            ("16-4>>1", 6),
            ("(((1<<8)+0x32)|0b110)*2", 620),
            ("1 < < 2", 4),
            ("7%4^1&3", 2),
            ("'a'", 97),
            ("--3", 3),
        ] {
            assert_eq!(value(text), Ok(result), "{text}");
        }
    }

    #[test]
    fn errors_say_what_was_expected() {
        assert_eq!(value("7/0"), Err("this divides by zero".to_owned()));
        assert_eq!(value("1+"), Err("expected a number, found the end".to_owned()));
        assert_eq!(value("(1"), Err("expected an operator or ')', found the end".to_owned()));
        assert!(value(&"(".repeat(1_000_000)).is_err());
        assert!(value("-9223372036854775807-1/-1").is_ok());
    }
}
