//! Connections: TLS or plain text, HTTP or gRPC, and who may call.

use crate::origin::foreign;
use crate::token::has_token;
use crate::{ApiBackend, grpc, rest};
use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// First byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// Where the server listens, and who may call.
#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    /// Each address takes HTTP and gRPC, with and without TLS.
    pub addresses: Vec<SocketAddr>,
    /// Without files, the server makes a certificate for localhost.
    pub tls: Option<TlsFiles>,
    /// Connections from other hosts need TLS, and this token as `Authorization: Bearer TOKEN`.
    pub token: Option<String>,
}

/// A server with its listening sockets.
pub struct Server {
    listeners: Vec<TcpListener>,
    connections: Connections,
}

#[derive(Clone)]
struct Connections {
    backend: Arc<dyn ApiBackend>,
    tls: TlsAcceptor,
    token: Option<Arc<str>>,
}

impl Server {
    /// Binds the addresses.
    ///
    /// # Errors
    /// Addresses in use, unreadable certificates. `InvalidInput`: an address beyond loopback
    /// without a token or a certificate.
    pub async fn bind(config: &ServerConfig, backend: Arc<dyn ApiBackend>) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for address in &config.addresses {
            if !address.ip().is_loopback() && (config.token.is_none() || config.tls.is_none()) {
                let text = format!("{address} is open to other hosts: give --tls CERT KEY and --token TOKEN");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            let bound = TcpListener::bind(address).await;
            listeners
                .push(bound.map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?);
        }
        let tls = TlsAcceptor::from(Arc::new(tls_config(config.tls.as_ref())?));
        let token = config.token.as_deref().map(Arc::from);
        Ok(Self { listeners, connections: Connections { backend, tls, token } })
    }

    /// The addresses, with the ports that the system chose.
    ///
    /// # Errors
    /// Those of the sockets.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// Serves until the task is dropped.
    pub async fn run(self) {
        let mut tasks = tokio::task::JoinSet::new();
        for listener in self.listeners {
            let connections = self.connections.clone();
            tasks.spawn(async move {
                loop {
                    match listener.accept().await {
                        Ok((stream, peer)) => drop(tokio::spawn(connections.clone().serve(stream, peer))),
                        // Out of file descriptors, for example: the next try may succeed.
                        Err(error) => {
                            tracing::warn!("accept: {error}");
                            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                        }
                    }
                }
            });
        }
        tasks.join_all().await;
    }
}

impl Connections {
    async fn serve(self, stream: TcpStream, peer: SocketAddr) {
        // Answers are short: they leave at once.
        let _ = stream.set_nodelay(true);
        let mut first = [0];
        if !stream.peek(&mut first).await.is_ok_and(|count| count > 0) {
            return;
        }
        if first[0] != TLS_HANDSHAKE {
            return self.serve_http(stream, peer, false).await;
        }
        match self.tls.clone().accept(stream).await {
            Ok(stream) => self.serve_http(stream, peer, true).await,
            Err(error) => tracing::debug!("{peer}: TLS: {error}"),
        }
    }

    async fn serve_http(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        peer: SocketAddr,
        is_tls: bool,
    ) {
        let service = service_fn(move |request| {
            let connections = self.clone();
            async move { Ok::<_, Infallible>(connections.answer(request, peer, is_tls).await) }
        });
        let builder = Builder::new(TokioExecutor::new());
        if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!("{peer}: {error}");
        }
    }

    async fn answer(
        self,
        request: Request<Incoming>,
        peer: SocketAddr,
        is_tls: bool,
    ) -> Response<tonic::body::Body> {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let is_grpc = content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
        // With a token, a page cannot call by a name that resolves to this host.
        if let Some(why) = foreign(&request, self.token.is_some()) {
            return match is_grpc {
                true => tonic::Status::permission_denied(why).into_http(),
                false => rest::refuse(StatusCode::FORBIDDEN, why.to_owned()).map(tonic::body::Body::new),
            };
        }
        if let Err(why) = self.check_caller(&request, peer, is_tls) {
            return match is_grpc {
                true => tonic::Status::unauthenticated(why).into_http(),
                false => rest::refuse(StatusCode::UNAUTHORIZED, why.to_owned()).map(tonic::body::Body::new),
            };
        }
        if is_grpc {
            return grpc::answer(self.backend, request).await;
        }
        rest::answer(self.backend, request).await.map(tonic::body::Body::new)
    }

    /// If a token is set, every caller must send it. Other hosts must also use TLS.
    fn check_caller(
        &self,
        request: &Request<Incoming>,
        peer: SocketAddr,
        is_tls: bool,
    ) -> Result<(), &'static str> {
        let Some(token) = &self.token else { return Ok(()) };
        if !peer.ip().is_loopback() && !is_tls {
            return Err("use https: this server answers other hosts by TLS only");
        }
        match has_token(request.headers(), token) {
            true => Ok(()),
            false => Err("the header \"Authorization: Bearer TOKEN\" with the server's token is missing"),
        }
    }
}

fn tls_config(files: Option<&TlsFiles>) -> io::Result<tokio_rustls::rustls::ServerConfig> {
    let (certificates, key) = match files {
        Some(files) => read_tls(files)?,
        None => {
            let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
            let made = rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
            let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(io::Error::other)?;
            (vec![made.cert.der().clone()], key)
        }
    };
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let mut config =
        config.with_no_client_auth().with_single_cert(certificates, key).map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn read_tls(files: &TlsFiles) -> io::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let fail = |path: &PathBuf, error: &dyn std::fmt::Display| {
        io::Error::other(format!("{}: {error}", path.display()))
    };
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| fail(&files.certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| fail(&files.key, &error))?;
    Ok((certificates, key))
}
