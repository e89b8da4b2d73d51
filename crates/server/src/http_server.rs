//! Connections of all servers of this crate: listening, TLS, HTTP, and their bounds.

use crate::connection_table::{AdmittedConnection, ClientAddress, ConnectionTable, OpenConnection};
use bytes::Bytes;
use http::{Request, Response, Version};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// First byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;
/// Pause after a failed accept: without file descriptors the next one fails at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Time between two searches for connections that are late.
const SWEEP_EVERY: Duration = Duration::from_millis(250);
/// Streams of a connection of HTTP/2.
const STREAMS_MAX: u32 = 64;
/// Bytes of the head of a request.
const HEAD_MAX: usize = 64 << 10;

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A server, for any number of listeners. `answer` is called for each request, whose extensions
/// hold the [`OpenConnection`].
#[derive(Clone)]
pub(crate) struct HttpServer<A> {
    pub(crate) table: Arc<ConnectionTable>,
    /// Without it, connections are plain text.
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) takes_http2: bool,
    pub(crate) answer: A,
}

impl<A> HttpServer<A> {
    /// Accepts connections until the sender of `ended` is gone. Returns those that are open, which
    /// finish the answers that have begun.
    pub(crate) async fn run<Reply, Data>(self, listener: Listener, ended: watch::Receiver<()>) -> JoinSet<()>
    where
        A: Fn(Request<Incoming>) -> Reply + Clone + Send + 'static,
        Reply: Future<Output = Response<Data>> + Send + 'static,
        Data: Body<Data = Bytes> + Send + 'static,
        Data::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (mut connections, mut has_ended) = (JoinSet::new(), ended.clone());
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let accepted = tokio::select! {
                accepted = accept(&listener) => accepted,
                _ = sweep.tick() => {
                    self.table.sweep(Instant::now());
                    continue;
                }
                // The sender is gone.
                _ = has_ended.changed() => return connections,
            };
            while connections.try_join_next().is_some() {}
            match accepted {
                Ok((stream, client)) => {
                    // In the order of arrival: tasks may start in another one, and the oldest
                    // connection ends first.
                    if let Some(admitted) = self.table.admit(client, Instant::now()) {
                        drop(connections.spawn(self.clone().serve(stream, admitted, ended.clone())));
                    }
                }
                Err(error) => {
                    tracing::warn!("accept: {error}");
                    self.table.end_oldest();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve<Reply, Data>(
        self,
        stream: Stream,
        admitted: AdmittedConnection,
        ended: watch::Receiver<()>,
    ) where
        A: Fn(Request<Incoming>) -> Reply + Send + 'static,
        Reply: Future<Output = Response<Data>> + Send + 'static,
        Data: Body<Data = Bytes> + Send + 'static,
        Data::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let connection = Arc::clone(&admitted.connection);
        tokio::select! {
            () = self.serve_stream(stream, &connection, ended) => {}
            () = connection.ends() => {
                tracing::debug!("{:?}: the connection made space, or was late", connection.client);
            }
        }
    }

    async fn serve_stream<Reply, Data>(
        self,
        stream: Stream,
        connection: &Arc<OpenConnection>,
        ended: watch::Receiver<()>,
    ) where
        A: Fn(Request<Incoming>) -> Reply + Send + 'static,
        Reply: Future<Output = Response<Data>> + Send + 'static,
        Data: Body<Data = Bytes> + Send + 'static,
        Data::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        match (stream, &self.tls) {
            (Stream::Unix(stream), _) => self.serve_http(stream, connection, ended).await,
            (Stream::Tcp(stream), Some(tls)) => {
                let mut first = [0];
                if !stream.peek(&mut first).await.is_ok_and(|count| count > 0) {
                    return;
                }
                if first[0] != TLS_HANDSHAKE {
                    return self.serve_http(stream, connection, ended).await;
                }
                connection.uses_tls();
                match tls.clone().accept(stream).await {
                    Ok(stream) => self.serve_http(stream, connection, ended).await,
                    Err(error) => tracing::debug!("{:?}: TLS: {error}", connection.client),
                }
            }
            (Stream::Tcp(stream), None) => self.serve_http(stream, connection, ended).await,
        }
    }

    async fn serve_http<Reply, Data>(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        connection: &Arc<OpenConnection>,
        mut ended: watch::Receiver<()>,
    ) where
        A: Fn(Request<Incoming>) -> Reply + Send + 'static,
        Reply: Future<Output = Response<Data>> + Send + 'static,
        Data: Body<Data = Bytes> + Send + 'static,
        Data::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (answer, of_request) = (self.answer, Arc::clone(connection));
        let service = service_fn(move |mut request: Request<Incoming>| {
            let counted = of_request.request(request.version() == Version::HTTP_2, Instant::now());
            request.extensions_mut().insert(Arc::clone(&of_request));
            let answer = answer(request);
            async move {
                let response = answer.await;
                drop(counted);
                Ok::<_, Infallible>(response)
            }
        });
        let mut builder = Builder::new(TokioExecutor::new());
        if !self.takes_http2 {
            builder = builder.http1_only();
        }
        // The table has the times of heads: hyper's would also end idle connections.
        builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_MAX);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX);
        let stream = TokioIo::new(WatchedStream { stream, connection: Arc::clone(connection) });
        let mut served = std::pin::pin!(builder.serve_connection(stream, service));
        let finished = tokio::select! {
            finished = served.as_mut() => finished,
            _ = ended.changed() => {
                served.as_mut().graceful_shutdown();
                served.await
            }
        };
        if let Err(error) = finished {
            tracing::debug!("{:?}: HTTP: {error}", connection.client);
        }
    }
}

/// An accepted connection.
enum Stream {
    Tcp(TcpStream),
    Unix(tokio::net::UnixStream),
}

async fn accept(listener: &Listener) -> io::Result<(Stream, ClientAddress)> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, peer) = listener.accept().await?;
            // Answers are short: they leave at once.
            let _ = stream.set_nodelay(true);
            Ok((Stream::Tcp(stream), ClientAddress::Ip(peer.ip())))
        }
        Listener::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            Ok((Stream::Unix(stream), ClientAddress::Local))
        }
    }
}

/// A connection whose reads are noted.
struct WatchedStream<T> {
    stream: T,
    connection: Arc<OpenConnection>,
}

impl<T: AsyncRead + Unpin> AsyncRead for WatchedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.connection.has_read(Instant::now());
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WatchedStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
