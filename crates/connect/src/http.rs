//! The length of an HTTP/1.1 response, from the first segment of it.

/// Bytes of a header that are searched, of the first segment.
const HEADER_MAX: usize = 8192;
const NAME: &[u8] = b"\ncontent-length:";
const HEADER_END: &[u8] = b"\r\n\r\n";
const DIGITS_MAX: usize = 10;

/// Bytes of the whole response with its header, if `payload` has its header with a Content-Length;
/// `None` otherwise. One blank or none stands before the number.
pub fn response_len(payload: &[u8]) -> Option<u32> {
    let searched = &payload[..payload.len().min(HEADER_MAX + HEADER_END.len() - 1)];
    let end = find(searched, |bytes| bytes == HEADER_END, HEADER_END.len())? + HEADER_END.len();
    let header = &payload[..end];
    let is_name = |bytes: &[u8]| bytes.eq_ignore_ascii_case(NAME);
    let value = &header[find(header, is_name, NAME.len())? + NAME.len()..];
    let digits = value.strip_prefix(b" ").unwrap_or(value);
    let count = digits.iter().take(DIGITS_MAX).take_while(|byte| byte.is_ascii_digit()).count();
    let number: u64 = std::str::from_utf8(&digits[..count]).ok()?.parse().ok()?;
    (number <= 0x7fff_ffff).then(|| end as u32 + number as u32)
}

fn find(bytes: &[u8], is_it: impl Fn(&[u8]) -> bool, len: usize) -> Option<usize> {
    bytes.windows(len).position(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_that_of_header_and_body() {
        let header = "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 3\r\nConnection: close\r\n\r\n";
        assert_eq!(response_len(format!("{header}ok\n").as_bytes()), Some(header.len() as u32 + 3));
        let small = header.replace("Content-Length", "content-length");
        assert_eq!(response_len(small.as_bytes()), Some(header.len() as u32 + 3));
        for short in
            ["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length:0\r\n\r\n"]
        {
            assert_eq!(response_len(short.as_bytes()), Some(short.len() as u32), "{short:?}");
        }
    }

    #[test]
    fn a_response_without_a_length_has_none() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n",
            "HTTP/1.1 200 OK\r\nX-Content-Length: 3\r\n\r\nabcdefghijkl",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabcdefghijkl",
            "HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\nabcdefghijkl",
            "HTTP/1.1 200 OK\r\n\r\nContent-Length: 7\r\n\r\n",
        ] {
            assert_eq!(response_len(text.as_bytes()), None, "{text:?}");
        }
    }
}
