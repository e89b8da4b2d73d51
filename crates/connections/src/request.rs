//! What a connection sends: the bytes of the request, and the rules that follow from it.

use super::{Args, CloseArg, ResponseEndArg};
use anyhow::anyhow;
use connect::{Close, ResponseEnd, Settings};
use engine::{AnswerCheck, ConnectKind, REQUEST_MAX};
use program::outcome::Failure;

/// Headers that are part of the MTU.
const IPV4_LEN: u32 = 20;
const IPV6_LEN: u32 = 40;
const TCP_LEN: u32 = 20;
const UDP_LEN: u32 = 8;
/// Longest segment in the page of a live frame.
const SEGMENT_MAX: u32 = 3_300;

/// What the connections of a run do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conversation {
    pub(super) kind: ConnectKind,
    pub(super) answer_check: AnswerCheck,
    pub(super) request: Vec<u8>,
    pub(super) settings: Settings,
}

impl Conversation {
    /// From the options, for a device with this MTU.
    ///
    /// # Errors
    /// Bad usage; refused when the file of `--payload` cannot be read or the request is too long.
    pub(super) fn of(args: &Args, mtu: u32) -> Result<Self, Failure> {
        let kind = match args {
            Args { dns: Some(_), .. } => ConnectKind::Dns,
            Args { udp: true, .. } | Args { quic_initial: true, .. } => ConnectKind::Udp,
            _ => ConnectKind::Tcp,
        };
        let is_tcp = kind == ConnectKind::Tcp;
        if !is_tcp {
            refuse_of_tcp(args)?;
        }
        let close = args.close.map_or_else(|| default_close(args), close_of);
        let request = request(args, close)?;
        let ip_len = if args.src.is_v6() { IPV6_LEN } else { IPV4_LEN };
        let segment_max = mtu.saturating_sub(ip_len + TCP_LEN).clamp(64, SEGMENT_MAX);
        let datagram_max = (mtu.saturating_sub(ip_len + UDP_LEN) as usize).min(SEGMENT_MAX as usize);
        let longest = if is_tcp { REQUEST_MAX } else { REQUEST_MAX.min(datagram_max) };
        if request.len() > longest {
            let why = anyhow!("it has {} bytes, and {longest} are the most", request.len());
            return Err(Failure::refused("send the request", why).try_this("a shorter --payload"));
        }
        let settings = Settings {
            request_len: request.len() as u32,
            requests: if request.is_empty() || args.ask_rate.is_some() { 0 } else { args.requests },
            response_end: response_end(args, close)?,
            close,
            holds: args.hold.is_some(),
            segment_max: segment_max as u16,
        };
        Ok(Self { kind, answer_check: answer_check(args), request, settings })
    }
}

/// Refuses options of TCP in a run of datagrams.
fn refuse_of_tcp(args: &Args) -> Result<(), Failure> {
    let options = [
        ("--hold", args.hold.is_some()),
        ("--close", args.close.is_some()),
        ("--requests", args.requests > 1),
        ("--response-end", args.response_end.is_some()),
        ("--response-bytes", args.response_bytes.is_some()),
    ];
    match options.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::usage(
            format!("use {option} with datagrams"),
            "it belongs to connections of TCP, and a datagram has one answer",
        )
        .try_this(format!("without {option}"))),
        None => Ok(()),
    }
}

fn close_of(close: CloseArg) -> Close {
    match close {
        CloseArg::Server => Close::Server,
        CloseArg::Client => Close::Client,
        CloseArg::Reset => Close::Reset,
    }
}

/// The server ends a connection with a single GET, since the request asks it to.
fn default_close(args: &Args) -> Close {
    match is_get(args) && args.requests == 1 && args.hold.is_none() {
        true => Close::Server,
        false => Close::Client,
    }
}

fn request(args: &Args, close: Close) -> Result<Vec<u8>, Failure> {
    let server = args.dst[0].addresses.first();
    let host = |literal: String| args.host.clone().unwrap_or(literal);
    if let Some(path) = &args.payload {
        return std::fs::read(path).map_err(|why| Failure::read(path, why));
    }
    if let Some(query) = &args.dns {
        return Ok(connect::dns_query(query));
    }
    if args.tls_hello {
        return Ok(connect::tls_hello(args.host.as_deref()));
    }
    if args.quic_initial {
        return Ok(connect::quic_initial());
    }
    if args.no_request || args.hold.is_some() && args.get.is_none() && args.ask_rate.is_none() {
        return Ok(Vec::new());
    }
    let path = args.get.as_deref().unwrap_or("/");
    if !path.starts_with('/') || path.contains(|c: char| c.is_ascii_whitespace() || c.is_control()) {
        let path = path.escape_debug().to_string();
        return Err(Failure::usage(format!("request {path}"), "a path begins with / and has no blanks")
            .try_this(format!("--get /{}", path.trim_start_matches('/').replace(' ', "%20"))));
    }
    let is_kept = args.requests > 1 || args.hold.is_some() || close != Close::Server;
    if is_kept && close == Close::Server {
        let why = "the request asks the server to keep the connection open, so it does not close it";
        return Err(
            Failure::usage("wait for the server to close the connection", why).try_this("--close client")
        );
    }
    // An IPv6 address has brackets in a Host header, and a port other than 80 is named (RFC 9110,
    // 7.2).
    let literal = if server.is_ipv6() { format!("[{server}]") } else { server.to_string() };
    let literal = match args.dst[0].ports.first {
        80 => literal,
        port => format!("{literal}:{port}"),
    };
    Ok(connect::http_get(path, &host(literal), is_kept))
}

/// DNS has its codes in [`ConnectKind::Dns`].
fn answer_check(args: &Args) -> AnswerCheck {
    match args {
        Args { tls_hello: true, .. } => AnswerCheck::TlsHello,
        Args { quic_initial: true, .. } => AnswerCheck::Quic,
        args if is_get(args) => AnswerCheck::Http,
        _ => AnswerCheck::Any,
    }
}

/// True if requests are GETs.
fn is_get(args: &Args) -> bool {
    let has_other = args.payload.is_some() || args.dns.is_some() || args.tls_hello || args.quic_initial;
    !has_other && !args.no_request
}

fn response_end(args: &Args, close: Close) -> Result<ResponseEnd, Failure> {
    if let Some(bytes) = args.response_bytes {
        let bytes = u32::try_from(bytes.0).map_err(|_| {
            Failure::usage(format!("expect responses of {} bytes", bytes.0), "they have less than 4 GiB")
                .try_this("--response-end push")
        })?;
        return Ok(ResponseEnd::Bytes(bytes));
    }
    Ok(match args.response_end {
        Some(ResponseEndArg::Push) => ResponseEnd::Push,
        Some(ResponseEndArg::Close) => ResponseEnd::Close,
        Some(ResponseEndArg::Http) => ResponseEnd::Http,
        Some(ResponseEndArg::First) => ResponseEnd::First,
        None if args.tls_hello => ResponseEnd::First,
        None if is_get(args) => ResponseEnd::Http,
        None if close == Close::Server && args.requests == 1 => ResponseEnd::Close,
        None => ResponseEnd::Push,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::args_of;

    fn conversation(words: &str) -> Result<Conversation, Failure> {
        let words = format!("c0 --dst 198.18.0.2:80 --src 198.18.64.1 {words}");
        Conversation::of(&args_of::<Args>(&words).expect("good words"), 1500)
    }

    #[test]
    fn the_request_decides_when_a_response_is_complete_and_who_closes() {
        for (words, close, end) in [
            ("", Close::Server, ResponseEnd::Http),
            ("--get /a --requests 5", Close::Client, ResponseEnd::Http),
            ("--get /a --close client", Close::Client, ResponseEnd::Http),
            ("--tls-hello", Close::Client, ResponseEnd::First),
            ("--hold 9 --ask-rate 5", Close::Client, ResponseEnd::Http),
            ("--response-bytes 0 --close reset", Close::Reset, ResponseEnd::Bytes(0)),
        ] {
            let settings = conversation(words).unwrap().settings;
            assert_eq!((settings.close, settings.response_end), (close, end), "{words}");
        }
    }

    #[test]
    fn held_connections_send_the_request_that_an_option_names() {
        let sent = |words: &str| {
            let conversation = conversation(&format!("--hold 9 {words}")).unwrap();
            (!conversation.request.is_empty(), conversation.settings.requests)
        };
        assert_eq!(sent(""), (false, 0));
        assert_eq!(sent("--no-request"), (false, 0));
        assert_eq!(sent("--get /"), (true, 1));
        assert_eq!(sent("--tls-hello"), (true, 1));
        assert_eq!(sent("--ask-rate 10"), (true, 0), "requests come by the rate only");
    }

    #[test]
    fn the_host_header_has_the_name_or_the_address() {
        for (dst, more, host) in [
            ("198.18.0.2:80", "", "198.18.0.2"),
            ("[fd00::2]:80", "", "[fd00::2]"),
            ("198.18.0.2:8080", "", "198.18.0.2:8080"),
            ("[fd00::2]:8000-8009", "", "[fd00::2]:8000"),
            ("[fd00::2]:80", "--host example.com", "example.com"),
        ] {
            let words = format!("c0 --dst {dst} --src 198.18.64.1 {more}");
            let request = request(&args_of(&words).expect("good words"), Close::Server).unwrap();
            let text = String::from_utf8(request).unwrap();
            assert!(text.contains(&format!("\r\nHost: {host}\r\n")), "{text}");
        }
    }

    #[test]
    fn options_without_an_effect_are_refused() {
        for words in ["--hold 9 --requests 5", "--hold 9 --no-request --ask-rate 10"] {
            let words = format!("c0 --dst 198.18.0.2:80 --src 198.18.64.1 {words}");
            assert!(args_of::<Args>(&words).is_err(), "{words}");
        }
        for words in ["--requests 5 --close server", "--hold 20 --get / --close server", "--get index.html"] {
            let refused = conversation(words).map(|_| ()).unwrap_err();
            assert!(refused.has_advice(), "{words}");
        }
        for words in ["--dns a.b --requests 5", "--quic-initial --hold 9", "--dns a.b --response-bytes 9"] {
            assert!(conversation(words).is_err(), "{words}");
        }
    }
}
