//! Files of a data set as objects of S3, or of a server with the same protocol.
//!
//! The variables of AWS apply: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION` and, for
//! another server, `AWS_ENDPOINT_URL`. An object is uploaded in chunks (a multipart upload), some
//! at a time. It becomes visible when the last request completes it.

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::path::Path as ObjectPath;
use object_store::{BackoffConfig, MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig};
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

/// What names of buckets begin with.
const SCHEME: &str = "s3://";
/// Bytes of one request. S3 takes at most 10,000 requests for one object, and at least 5 MiB in
/// each but the last.
const CHUNK_LEN: usize = 8 << 20;
/// Chunks of all objects that are on their way at a time: more memory than this is not taken.
const CHUNKS_MAX: usize = 4;
/// A request that fails is repeated within this time.
const RETRY_TIME: Duration = Duration::from_secs(10);
/// One attempt of a request takes at most this time, with its answer.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// What to check when a bucket does not take objects.
pub(super) const ADVICE: &str = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION in the environment, \
                                 AWS_ENDPOINT_URL for a server other than AWS, then export again (under another \
                                 --run if files were stored)";

/// A bucket, and the common start of the names in it.
pub(super) struct Bucket {
    store: Arc<AmazonS3>,
    prefix: String,
    url: String,
    uploader: Uploader,
}

/// What all uploads share.
#[derive(Clone)]
struct Uploader {
    runtime: Arc<Runtime>,
    /// One for each chunk on its way.
    permits: Arc<Semaphore>,
}

/// The URL, if the path is one of S3.
pub(super) fn url_of(path: &Path) -> Option<&str> {
    path.to_str().filter(|path| path.starts_with(SCHEME))
}

impl Bucket {
    /// Of a URL such as `s3://bucket/captures`. Sends nothing.
    pub(super) fn open(url: &str) -> anyhow::Result<Self> {
        let rest = url.strip_prefix(SCHEME).unwrap_or(url);
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        anyhow::ensure!(!bucket.is_empty(), "the URL names no bucket, as in s3://BUCKET/PREFIX");
        let retry =
            RetryConfig { max_retries: 3, retry_timeout: RETRY_TIME, backoff: BackoffConfig::default() };
        let store = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_retry(retry)
            .with_http_connector(HyperConnector)
            .build()?;
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("upload").enable_all().build()?;
        let uploader = Uploader { runtime: Arc::new(runtime), permits: Arc::new(Semaphore::new(CHUNKS_MAX)) };
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { store: Arc::new(store), prefix: prefix.to_owned(), url, uploader })
    }

    /// For messages.
    pub(super) fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Whether there is an object in a folder.
    pub(super) fn has(&self, folder: &str) -> io::Result<bool> {
        let path = self.path(folder)?;
        let found = self
            .uploader
            .runtime
            .block_on(self.store.list_with_delimiter(Some(&path)))
            .map_err(root_cause)?;
        Ok(!found.objects.is_empty() || !found.common_prefixes.is_empty())
    }

    /// Begins an object.
    pub(super) fn create(&self, name: &str) -> io::Result<ObjectUpload> {
        let path = self.path(name)?;
        let upload = self.uploader.runtime.block_on(self.store.put_multipart(&path)).map_err(root_cause)?;
        let uploader = self.uploader.clone();
        Ok(ObjectUpload { upload: Some(upload), chunk: Vec::new(), requests: JoinSet::new(), uploader })
    }

    /// The name of an object. Special characters in `name` are escaped already.
    fn path(&self, name: &str) -> io::Result<ObjectPath> {
        let path = [self.prefix.trim_matches('/'), name].join("/");
        ObjectPath::parse(path.trim_start_matches('/')).map_err(io::Error::other)
    }
}

/// An object that is being uploaded; aborted unless it is finished.
pub(super) struct ObjectUpload {
    /// `None` once it is finished.
    upload: Option<Box<dyn MultipartUpload>>,
    /// Bytes of the next request.
    chunk: Vec<u8>,
    /// Those on their way.
    requests: JoinSet<io::Result<()>>,
    uploader: Uploader,
}

impl ObjectUpload {
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (more, rest) = bytes.split_at(bytes.len().min(CHUNK_LEN - self.chunk.len()));
            self.chunk.extend_from_slice(more);
            bytes = rest;
            if self.chunk.len() == CHUNK_LEN {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Bytes that wait for the next request.
    pub(super) fn waiting_len(&self) -> u64 {
        self.chunk.len() as u64
    }

    /// Makes the object visible.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if !self.chunk.is_empty() {
            self.send()?;
        }
        let runtime = &self.uploader.runtime;
        while let Some(answer) = runtime.block_on(self.requests.join_next()) {
            accepted(answer)?;
        }
        let upload = self.upload.as_mut().expect("only this ends it");
        runtime.block_on(upload.complete()).map_err(root_cause)?;
        self.upload = None;
        Ok(())
    }

    /// Begins to send the chunk, once few enough others are on their way. An error is that of an
    /// earlier one.
    fn send(&mut self) -> io::Result<()> {
        let permits = Arc::clone(&self.uploader.permits);
        let permit = self.uploader.runtime.block_on(permits.acquire_owned()).expect("it is not closed");
        while let Some(answer) = self.requests.try_join_next() {
            accepted(answer)?;
        }
        let chunk = PutPayload::from(std::mem::take(&mut self.chunk));
        let request = self.upload.as_mut().expect("it is not finished yet").put_part(chunk);
        let answered = async move {
            let _permit = permit;
            request.await.map_err(root_cause)
        };
        self.requests.spawn_on(answered, self.uploader.runtime.handle());
        Ok(())
    }
}

/// The answer to one request.
fn accepted(answer: Result<io::Result<()>, JoinError>) -> io::Result<()> {
    answer.unwrap_or_else(|panic| Err(io::Error::other(panic)))
}

impl Drop for ObjectUpload {
    fn drop(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            self.uploader.runtime.block_on(self.requests.shutdown());
            // Should this fail, the chunks stay invisible until a rule of the bucket removes them.
            let _ = self.uploader.runtime.block_on(upload.abort());
        }
    }
}

/// The last of the causes. The others repeat it, with the request.
fn root_cause(error: object_store::Error) -> io::Error {
    let mut cause: &dyn Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    io::Error::other(cause.to_string())
}

/// Connects by hyper, with the certificates that this machine trusts.
#[derive(Clone, Copy, Debug)]
struct HyperConnector;

impl HttpConnector for HyperConnector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let https = HttpsConnectorBuilder::new().with_native_roots();
        let https =
            https.map_err(|source| object_store::Error::Generic { store: "S3", source: source.into() })?;
        let https = https.https_or_http().enable_http1().build();
        Ok(HttpClient::new(HyperService(Client::builder(TokioExecutor::new()).build(https))))
    }
}

#[derive(Debug)]
struct HyperService(Client<HttpsConnector<TcpConnector>, HttpRequestBody>);

#[async_trait]
impl HttpService for HyperService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = tokio::time::timeout(REQUEST_TIME, self.answer(request)).await;
        answer.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?
    }
}

impl HyperService {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.0.request(request).await.map_err(|error| {
            let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Request };
            HttpError::new(kind, error)
        })?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?;
        let body = Full::<Bytes>::new(body.to_bytes()).map_err(|never| match never {});
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}
