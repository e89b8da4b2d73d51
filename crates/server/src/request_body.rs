//! Bodies of requests: their length, the time that they take, and the bytes of all of them.

use bytes::Bytes;
use http::StatusCode;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Bytes of the bodies of all calls together, as a multiple of the longest body.
const BODIES: usize = 4;

/// Bounds of bodies.
#[derive(Clone, Debug)]
pub(crate) struct BodyBounds {
    max: usize,
    time: Duration,
    all: Arc<Semaphore>,
}

/// Why a body was not taken.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// It is longer than this.
    TooLong(usize),
    /// It took longer than this.
    Late(Duration),
    /// Bodies of other calls take all bytes.
    Busy,
    /// The connection failed.
    Cut(hyper::Error),
}

impl BodyError {
    /// The status of the answer in HTTP.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Late(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Cut(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong(max) => {
                write!(text, "the body is longer than {max} bytes: start the server with a higher --max-body")
            }
            Self::Late(time) => write!(text, "the body took longer than {} s", time.as_secs()),
            Self::Busy => text.write_str("the bodies of other calls take all memory for bodies: try again"),
            Self::Cut(error) => write!(text, "the body is cut: {error}"),
        }
    }
}

impl std::error::Error for BodyError {}

impl BodyBounds {
    /// Bodies of up to `max` bytes, each within `time`.
    pub(crate) fn new(max: usize, time: Duration) -> Self {
        let all = Arc::new(Semaphore::new(max.saturating_mul(BODIES).min(Semaphore::MAX_PERMITS)));
        Self { max, time, all }
    }

    /// Bytes of the longest body.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// A body within the bounds, and its share of the bytes of all bodies.
    pub(crate) fn bound(&self, body: Incoming) -> (BoundedBody, BodyShare) {
        let share = BodyShare::default();
        let deadline = Box::pin(tokio::time::sleep(self.time));
        (BoundedBody { body, bounds: self.clone(), left: self.max, deadline, share: share.clone() }, share)
    }
}

/// The bytes of a body, which count until all copies of the value are dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyShare(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl BodyShare {
    fn add(&self, permit: OwnedSemaphorePermit) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *held {
            Some(held) => held.merge(permit),
            None => *held = Some(permit),
        }
    }
}

/// A body within its bounds.
pub(crate) struct BoundedBody {
    body: Incoming,
    bounds: BodyBounds,
    left: usize,
    deadline: Pin<Box<Sleep>>,
    share: BodyShare,
}

impl BoundedBody {
    fn take(&mut self, len: usize) -> Result<(), BodyError> {
        self.left = self.left.checked_sub(len).ok_or(BodyError::TooLong(self.bounds.max))?;
        let len = u32::try_from(len).map_err(|_| BodyError::TooLong(self.bounds.max))?;
        let permit = Arc::clone(&self.bounds.all).try_acquire_many_owned(len);
        self.share.add(permit.map_err(|_| BodyError::Busy)?);
        Ok(())
    }
}

impl Body for BoundedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let length = self.body.size_hint().lower();
        if length > self.left as u64 {
            return Poll::Ready(Some(Err(BodyError::TooLong(self.bounds.max))));
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let len = frame.data_ref().map_or(0, Bytes::len);
                Poll::Ready(Some(self.take(len).map(|()| frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(BodyError::Cut(error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending if self.deadline.as_mut().poll(context).is_ready() => {
                Poll::Ready(Some(Err(BodyError::Late(self.bounds.time))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_any_length_may_be_allowed() {
        let bounds = BodyBounds::new(usize::MAX, Duration::from_secs(1));
        assert_eq!(bounds.all.available_permits(), Semaphore::MAX_PERMITS);
        assert_eq!(BodyBounds::new(1000, Duration::from_secs(1)).all.available_permits(), 4000);
    }
}
