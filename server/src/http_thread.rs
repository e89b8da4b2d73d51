//! HTTP/1.1 on a thread of its own, for what a running command shows.

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A client that sends no complete request for this time is disconnected.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failed accept: without file descriptors the next one fails at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Open connections at most: file descriptors belong to the run.
const CONNECTIONS_MAX: usize = 128;
/// Time for the last bytes of answers when the server is dropped.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// A server, until it is dropped: answers that have begun are finished then.
#[derive(Debug)]
pub(crate) struct HttpThread {
    address: SocketAddr,
    /// Dropped when the server ends.
    running: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpThread {
    /// Listens on `address` in the network namespace of the caller. `answer` is called for each
    /// request; `background` runs beside.
    ///
    /// # Errors
    /// The address is in use or not of this host; no thread.
    pub(crate) fn start<Reply, Data>(
        address: SocketAddr,
        name: &str,
        background: impl Future<Output = ()> + Send + 'static,
        answer: impl Fn(Request<Incoming>) -> Reply + Clone + Send + 'static,
    ) -> io::Result<Self>
    where
        Reply: Future<Output = Response<Data>> + Send + 'static,
        Data: Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let (running, has_ended) = watch::channel(());
        let serve = move || {
            runtime.block_on(async {
                // It ends with the runtime.
                drop(tokio::spawn(background));
                let mut connections = accept(listener, &has_ended, answer).await;
                let finished = async { while connections.join_next().await.is_some() {} };
                if tokio::time::timeout(LAST_BYTES, finished).await.is_err() {
                    tracing::debug!("a client has not read its answer");
                }
            });
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(serve)?;
        Ok(Self { address, running: Some(running), thread: Some(thread) })
    }

    /// The address, with the port that the system chose.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpThread {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            // A panic was already printed.
            let _ = thread.join();
        }
    }
}

/// Accepts connections until the server ends. Returns those that are open.
async fn accept<Reply, Data>(
    listener: TcpListener,
    has_ended: &watch::Receiver<()>,
    answer: impl Fn(Request<Incoming>) -> Reply + Clone + Send + 'static,
) -> JoinSet<()>
where
    Reply: Future<Output = Response<Data>> + Send + 'static,
    Data: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let (mut connections, mut ended) = (JoinSet::new(), has_ended.clone());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // The sender is gone.
            _ = ended.changed() => return connections,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) if connections.len() >= CONNECTIONS_MAX => drop(stream),
            Ok((stream, _)) => {
                drop(connections.spawn(serve(stream, has_ended.clone(), answer.clone())));
            }
            Err(error) => {
                tracing::warn!("accept: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve<Reply, Data>(
    stream: TcpStream,
    mut has_ended: watch::Receiver<()>,
    answer: impl Fn(Request<Incoming>) -> Reply,
) where
    Reply: Future<Output = Response<Data>>,
    Data: Body<Data = Bytes, Error = Infallible> + 'static,
{
    // Answers are short: they leave at once.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let finished = tokio::select! {
        finished = connection.as_mut() => finished,
        _ = has_ended.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = finished {
        tracing::debug!("HTTP: {error}");
    }
}
