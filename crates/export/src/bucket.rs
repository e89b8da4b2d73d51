//! Files of a data set as objects of S3, or of a server with the same protocol.
//!
//! The variables of AWS apply: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION` and, for
//! another server, `AWS_ENDPOINT_URL`. An object is uploaded in chunks (a multipart upload), some
//! at a time. It becomes visible when the last request completes it.

use super::transport::HyperConnector;
use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as ObjectPath;
use object_store::{BackoffConfig, MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig};
use program::stop::Stop;
use report::human::printable;
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
/// Bytes of a chunk that are handed over at a time: each is progress.
const PIECE_LEN: usize = 64 << 10;
/// A request that fails is repeated within this time, which a slow chunk takes as well.
const RETRY_TIME: Duration = Duration::from_secs(600);
/// After a signal, chunks that were uploaded are removed within this time.
const ABORT_TIME: Duration = Duration::from_secs(10);
/// A signal wakes no task, so the flag is read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
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
    stop: Stop,
}

impl Uploader {
    /// Waits for an answer, or a signal.
    fn wait<T>(&self, answer: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = stopped(&self.stop) => Err(io::Error::other("a signal ended the upload")),
                answer = answer => answer,
            }
        })
    }
}

/// Waits for a signal.
async fn stopped(stop: &Stop) {
    while !stop.is_set() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// What to write instead of a URL that is not one of S3, but looks like one. Without this it would
/// be the name of a folder.
pub(super) fn advice_for(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| !text.starts_with(SCHEME))?;
    let (scheme, rest) = text.split_once(":/")?;
    let is_scheme = scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+.-".contains(letter));
    is_scheme.then(|| format!("-o {SCHEME}{}", rest.trim_start_matches('/')))
}

/// The URL, if the path is one of S3.
pub(super) fn url_of(path: &Path) -> Option<&str> {
    path.to_str().filter(|path| path.starts_with(SCHEME))
}

impl Bucket {
    /// Of a URL such as `s3://bucket/captures`. Sends nothing.
    pub(super) fn open(url: &str, stop: &Stop) -> anyhow::Result<Self> {
        let rest = url.strip_prefix(SCHEME).unwrap_or(url);
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        anyhow::ensure!(!bucket.is_empty(), "the URL names no bucket, as in s3://BUCKET/PREFIX");
        let retry =
            RetryConfig { max_retries: 3, retry_timeout: RETRY_TIME, backoff: BackoffConfig::default() };
        let store = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_retry(retry)
            .with_http_connector(HyperConnector::default())
            .build()?;
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("upload").enable_all().build()?;
        let permits = Arc::new(Semaphore::new(CHUNKS_MAX));
        let uploader = Uploader { runtime: Arc::new(runtime), permits, stop: stop.clone() };
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
        let listed = async { self.store.list_with_delimiter(Some(&path)).await.map_err(root_cause) };
        let found = self.uploader.wait(listed)?;
        Ok(!found.objects.is_empty() || !found.common_prefixes.is_empty())
    }

    /// Begins an object.
    pub(super) fn create(&self, name: &str) -> io::Result<ObjectUpload> {
        let path = self.path(name)?;
        let begun = async { self.store.put_multipart(&path).await.map_err(root_cause) };
        let upload = self.uploader.wait(begun)?;
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
        let (uploader, requests) = (&self.uploader, &mut self.requests);
        let all_sent = async {
            while let Some(answer) = requests.join_next().await {
                accepted(answer)?;
            }
            Ok(())
        };
        uploader.wait(all_sent)?;
        let upload = self.upload.as_mut().expect("only this ends it");
        uploader.wait(async { upload.complete().await.map_err(root_cause) })?;
        self.upload = None;
        Ok(())
    }

    /// Begins to send the chunk, once few enough others are on their way. An error is that of an
    /// earlier one.
    fn send(&mut self) -> io::Result<()> {
        let permits = Arc::clone(&self.uploader.permits);
        let permit = self.uploader.wait(async { Ok(permits.acquire_owned().await) })?;
        let permit = permit.expect("it is not closed");
        while let Some(answer) = self.requests.try_join_next() {
            accepted(answer)?;
        }
        let chunk = Bytes::from(std::mem::take(&mut self.chunk));
        let pieces = (0..chunk.len()).step_by(PIECE_LEN);
        let pieces = pieces.map(|at| chunk.slice(at..chunk.len().min(at + PIECE_LEN)));
        let chunk: PutPayload = pieces.collect();
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
            self.uploader.runtime.block_on(async {
                self.requests.shutdown().await;
                // Should this fail, the chunks stay invisible until a rule of the bucket removes
                // them.
                let _ = tokio::time::timeout(ABORT_TIME, upload.abort()).await;
            });
        }
    }
}

/// The last of the causes. The others repeat it, with the request.
fn root_cause(error: object_store::Error) -> io::Error {
    let mut cause: &dyn Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    io::Error::other(printable(&cause.to_string()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_url_is_no_folder() {
        let advice = |path: &str| advice_for(Path::new(path));
        for (path, right) in [
            ("gs://b/x", "-o s3://b/x"),
            ("S3://bkt/x", "-o s3://bkt/x"),
            ("s3:/bkt", "-o s3://bkt"),
            ("https://host/b", "-o s3://host/b"),
        ] {
            assert_eq!(advice(path).as_deref(), Some(right), "{path}");
        }
        for path in ["s3://b/x", "out", "./gs://b", "/a:/b", "a b:/c", ":/x"] {
            assert_eq!(advice(path), None, "{path}");
        }
    }
}
