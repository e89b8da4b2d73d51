//! HTTP/1.1 on a thread of its own, for what a running command shows.

use crate::connection_table::{ConnectionTable, ServerLimits};
use crate::http_server::{HttpServer, Listener};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

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
                let table = ConnectionTable::new(ServerLimits::of_connections(CONNECTIONS_MAX));
                let server = HttpServer { table, tls: None, takes_http2: false, answer };
                let mut connections = server.run(Listener::Tcp(listener), has_ended).await;
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
