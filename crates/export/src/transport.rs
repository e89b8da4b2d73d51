//! Requests to a server of objects, by hyper: ended when they make no progress, and with answers
//! that are bounded.

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Frame, SizeHint};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A request without progress for this time is ended, and repeated.
const STALLED: Duration = Duration::from_secs(60);
/// Bytes that the kernel takes of a connection before they are sent: what waits there is no
/// progress.
const SEND_BUFFER: usize = 512 << 10;
/// Longest answer. Lists of objects come in pieces of 1,000 names.
const ANSWER_LEN_MAX: usize = 16 << 20;

/// Connects by hyper, with the certificates that this machine trusts.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyperConnector {
    stalled: Duration,
}

impl Default for HyperConnector {
    fn default() -> Self {
        Self { stalled: STALLED }
    }
}

impl HttpConnector for HyperConnector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let https = HttpsConnectorBuilder::new().with_native_roots();
        let https =
            https.map_err(|source| object_store::Error::Generic { store: "S3", source: source.into() })?;
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_send_buffer_size(Some(SEND_BUFFER));
        let https = https.https_or_http().enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new()).build(https);
        Ok(HttpClient::new(HyperService { client, stalled: self.stalled }))
    }
}

/// When something last moved.
#[derive(Clone, Debug)]
struct Progress(Arc<Mutex<Instant>>);

impl Progress {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Waits until nothing has moved for `time`.
    async fn stalled(&self, time: Duration) {
        loop {
            let moved = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let left = time.saturating_sub(moved.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// The body of a request: each piece that is taken is progress.
#[derive(Debug)]
struct WatchedBody {
    body: HttpRequestBody,
    progress: Progress,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        self.progress.touch();
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Nothing has moved.
#[derive(Debug, thiserror::Error)]
#[error("no progress for {} s", .0.as_secs_f32())]
struct Stalled(Duration);

#[derive(Debug)]
struct HyperService {
    client: Client<HttpsConnector<TcpConnector>, WatchedBody>,
    stalled: Duration,
}

#[async_trait]
impl HttpService for HyperService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let progress = Progress::new();
        tokio::select! {
            answer = self.answer(request, &progress) => answer,
            () = progress.stalled(self.stalled) => {
                Err(HttpError::new(HttpErrorKind::Timeout, Stalled(self.stalled)))
            }
        }
    }
}

impl HyperService {
    async fn answer(&self, request: HttpRequest, progress: &Progress) -> Result<HttpResponse, HttpError> {
        let request = request.map(|body| WatchedBody { body, progress: progress.clone() });
        let answer = self.client.request(request).await.map_err(|error| {
            let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Request };
            HttpError::new(kind, error)
        })?;
        progress.touch();
        let (parts, body) = answer.into_parts();
        let moved = progress.clone();
        let body = body.map_frame(move |frame| {
            moved.touch();
            frame
        });
        let body = Limited::new(body, ANSWER_LEN_MAX).collect().await.map_err(|error| {
            // One that is too long is as long when it is asked for again.
            let is_long = error.is::<LengthLimitError>();
            let kind = if is_long { HttpErrorKind::Decode } else { HttpErrorKind::Interrupted };
            HttpError::new(kind, AnswerError(error.to_string()))
        })?;
        let body = Full::<Bytes>::new(body.to_bytes()).map_err(|never| match never {});
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// The answer was not read to its end.
#[derive(Debug, thiserror::Error)]
#[error("the answer was not read (at most 16 MiB are): {0}")]
struct AnswerError(String);

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::PutPayload;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    const STALL: Duration = Duration::from_millis(400);

    /// Sends `len` bytes to a server that does `serve` with its connection.
    fn put(len: usize, serve: impl FnOnce(TcpStream) + Send + 'static) -> Result<HttpResponse, HttpError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(listener.accept().unwrap().0));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = HyperConnector { stalled: STALL }.connect(&ClientOptions::default()).unwrap();
            let piece = Bytes::from(vec![7; 64 << 10]);
            let body: PutPayload = (0..len / piece.len()).map(|_| piece.clone()).collect();
            let mut request = HttpRequest::new(body.into());
            *request.method_mut() = "PUT".parse().unwrap();
            *request.uri_mut() = format!("http://{address}/x").parse().unwrap();
            client.execute(request).await
        })
    }

    /// Reads the head of a request. Bytes of the body that came with it are counted.
    fn read_head(stream: &mut TcpStream) -> usize {
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let len = stream.read(&mut buffer).unwrap();
            all.extend_from_slice(&buffer[..len]);
            if let Some(end) = all.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                return all.len() - end - 4;
            }
        }
    }

    #[test]
    fn a_slow_request_goes_on_and_one_without_progress_ends() {
        const LEN: usize = 8 << 20;
        let started = Instant::now();
        let slow = put(LEN, |mut stream| {
            let (mut read, mut buffer) = (read_head(&mut stream), vec![0; 256 << 10]);
            while read < LEN {
                thread::sleep(Duration::from_millis(30));
                read += stream.read(&mut buffer).unwrap();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        });
        assert!(slow.is_ok(), "{slow:?}");
        assert!(started.elapsed() > STALL, "it took longer than a request without progress may");
        let hanging = put(LEN, |mut stream| {
            read_head(&mut stream);
            thread::sleep(20 * STALL);
        });
        let error = hanging.unwrap_err();
        assert_eq!(error.kind(), HttpErrorKind::Timeout, "so that it is repeated: {error:?}");
        assert!(format!("{error:?}").contains("Stalled"), "{error:?}");
    }

    #[test]
    fn an_endless_answer_is_not_read_to_its_end() {
        let endless = put(64 << 10, |mut stream| {
            read_head(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all(&[b'x'; 64 << 10]).is_ok() {}
        });
        let error = format!("{:?}", endless.unwrap_err());
        assert!(error.contains("AnswerError"), "{error}");
    }
}
