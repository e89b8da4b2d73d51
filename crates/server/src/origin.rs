//! Requests that pages of other sites make a browser send.
//!
//! A browser on this host reaches servers on loopback. A page of another site can make it send
//! requests with the `Origin` of that page; or its name can resolve to a loopback address (DNS
//! rebinding), so that the name stands in `Host`. Programs send no `Origin`.

use http::{HeaderMap, Request, header};
use std::net::IpAddr;

/// Why a request may be that of a page of another site; nothing for the others. With `allows_names`
/// the host may have any name: the server is open to other hosts, which call it by its name.
pub(crate) fn foreign<B>(request: &Request<B>, allows_names: bool) -> Option<&'static str> {
    let host = host_of(request);
    if !allows_names && !host.is_some_and(is_address_or_localhost) {
        return Some("use an IP address or localhost in the address of this server");
    }
    let origin = request.headers().get(header::ORIGIN)?;
    let site = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, site)| site);
    match (site, host) {
        (Some(site), Some(host)) if site.eq_ignore_ascii_case(host) => None,
        _ => Some("this server answers no requests of pages of other sites (Origin)"),
    }
}

/// True if a page may have sent the body without asking: any type but JSON, with an `Origin`.
pub(crate) fn is_odd_body(headers: &HeaderMap) -> bool {
    let is_json = |kind: &header::HeaderValue| {
        kind.to_str().is_ok_and(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.is_empty() || kind.eq_ignore_ascii_case("application/json")
        })
    };
    headers.contains_key(header::ORIGIN) && !headers.get(header::CONTENT_TYPE).is_none_or(is_json)
}

/// The host and port that the client called: `Host`, or the authority of HTTP/2.
fn host_of<B>(request: &Request<B>) -> Option<&str> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    host.or_else(|| request.uri().authority().map(http::uri::Authority::as_str))
}

/// True for an IP address or `localhost`, with any port.
fn is_address_or_localhost(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host: &str, origin: Option<&str>) -> Request<()> {
        let request = Request::builder().header(header::HOST, host);
        let request = match origin {
            Some(origin) => request.header(header::ORIGIN, origin),
            None => request,
        };
        request.body(()).unwrap()
    }

    #[test]
    fn names_of_other_sites_are_foreign() {
        for host in ["127.0.0.1:80", "localhost", "LOCALHOST:8", "[::1]:8", "192.0.2.7:80"] {
            assert_eq!(foreign(&request(host, None), false), None, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:80", "localhost.", ""] {
            assert!(foreign(&request(host, None), false).is_some(), "{host}");
            assert_eq!(foreign(&request(host, None), true), None, "{host}");
        }
        let of_http2 = Request::builder().uri("https://localhost:8443/x").body(()).unwrap();
        assert_eq!(foreign(&of_http2, false), None);
        assert!(foreign(&Request::new(()), false).is_some(), "no host at all");
    }

    #[test]
    fn pages_of_the_server_itself_are_not_foreign() {
        let host = "127.0.0.1:8443";
        for origin in ["http://127.0.0.1:8443", "https://127.0.0.1:8443"] {
            assert_eq!(foreign(&request(host, Some(origin)), false), None, "{origin}");
        }
        for origin in ["http://evil.example", "null", "http://127.0.0.1:9465", "http://localhost:8443", ""] {
            for allows_names in [false, true] {
                assert!(foreign(&request(host, Some(origin)), allows_names).is_some(), "{origin}");
            }
        }
    }

    #[test]
    fn a_page_sends_json_or_nothing() {
        let body = |kind: Option<&str>, origin: Option<&str>| {
            let mut request = request("localhost", origin);
            if let Some(kind) = kind {
                request.headers_mut().insert(header::CONTENT_TYPE, kind.parse().unwrap());
            }
            is_odd_body(request.headers())
        };
        assert!(body(Some("text/plain"), Some("http://localhost")));
        assert!(!body(Some("application/json; charset=utf-8"), Some("http://localhost")));
        assert!(!body(None, Some("http://localhost")) && !body(Some("text/plain"), None));
    }
}
