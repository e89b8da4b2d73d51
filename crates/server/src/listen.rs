//! Connections: TLS or plain text, HTTP or gRPC, and who may call.

use crate::call_gate::CallGate;
use crate::caller::CallPlace;
use crate::connection_table::{ClientAddress, ConnectionTable, OpenConnection, ServerLimits};
use crate::http_server::HttpServer;
use crate::listen_address::{BoundListener, ListenAddress};
use crate::origin::foreign;
use crate::request_body::BodyBounds;
use crate::token::has_token;
use crate::{ApiBackend, grpc, rest};
use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Most bytes of a body, unless the user allows more.
pub const BODY_MAX_DEFAULT: usize = 16 << 20;

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// Where the server listens, and who may call.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Each address takes HTTP and gRPC, with and without TLS; a socket in the file system without.
    pub addresses: Vec<ListenAddress>,
    /// Without files, the server makes a certificate for localhost.
    pub tls: Option<TlsFiles>,
    /// Connections from other hosts need TLS, and this token as `Authorization: Bearer TOKEN` or as
    /// the password of `Basic`. Connections to a socket in the file system need none.
    pub token: Option<String>,
    /// Open connections of all clients. One address has up to half of them.
    pub connections_max: usize,
    /// Bytes of a body. All bodies together have up to four times as many.
    pub body_max: usize,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            tls: None,
            token: None,
            connections_max: 512,
            body_max: BODY_MAX_DEFAULT,
        }
    }
}

/// A server with its listening sockets.
pub struct Server {
    listeners: Vec<BoundListener>,
    connections: Connections,
}

#[derive(Clone)]
struct Connections {
    backend: Arc<dyn ApiBackend>,
    table: Arc<ConnectionTable>,
    gate: CallGate,
    bodies: BodyBounds,
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
            let is_open = matches!(address, ListenAddress::Ip(ip) if !ip.ip().is_loopback());
            if is_open && (config.token.is_none() || config.tls.is_none()) {
                let text =
                    format!("{address} is open to other hosts: give --tls CERT KEY and --token-file FILE");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            let bound = BoundListener::bind(address).await;
            listeners
                .push(bound.map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?);
        }
        let tls = TlsAcceptor::from(Arc::new(tls_config(config.tls.as_ref())?));
        let token = config.token.as_deref().map(Arc::from);
        let limits = ServerLimits::of_connections(config.connections_max);
        let bodies = BodyBounds::new(config.body_max, limits.body_time);
        let (table, gate) = (ConnectionTable::new(limits), CallGate::new());
        Ok(Self { listeners, connections: Connections { backend, table, gate, bodies, tls, token } })
    }

    /// The addresses, with the ports that the system chose.
    pub fn addresses(&self) -> Vec<ListenAddress> {
        self.listeners.iter().map(|bound| bound.address.clone()).collect()
    }

    /// Serves until the task is dropped. Calls that wait are dropped then.
    pub async fn run(self) {
        let (mut tasks, (_running, ended)) = (tokio::task::JoinSet::new(), watch::channel(()));
        for listener in self.listeners {
            let connections = self.connections.clone();
            let server = HttpServer {
                table: Arc::clone(&connections.table),
                tls: Some(connections.tls.clone()),
                takes_http2: true,
                answer: move |request| connections.clone().answer(request),
            };
            let BoundListener { listener, file, .. } = listener;
            let ended = ended.clone();
            tasks.spawn(async move {
                let _file = file;
                server.run(listener, ended).await
            });
        }
        tasks.join_all().await;
    }
}

impl Connections {
    async fn answer(self, request: Request<Incoming>) -> Response<tonic::body::Body> {
        let connection = request.extensions().get::<Arc<OpenConnection>>().cloned();
        let connection = connection.expect("the server adds the connection to each request");
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let is_grpc = content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
        // With a token or on a socket, `Host` may have any name: a page of another site does not
        // know the token, and a browser does not connect to a socket in the file system.
        let is_socket = connection.client == ClientAddress::Local;
        if let Some(why) = foreign(&request, self.token.is_some() || is_socket) {
            return match is_grpc {
                true => tonic::Status::permission_denied(why).into_http(),
                false => rest::refuse(StatusCode::FORBIDDEN, why.to_owned()).map(tonic::body::Body::new),
            };
        }
        if let Err(why) = self.check_caller(&request, &connection) {
            return match is_grpc {
                true => tonic::Status::unauthenticated(why).into_http(),
                false => rest::refuse(StatusCode::UNAUTHORIZED, why.to_owned()).map(tonic::body::Body::new),
            };
        }
        let Self { backend, table, gate, bodies, .. } = self;
        let place = CallPlace { backend, table, connection, gate, bodies };
        if is_grpc {
            return grpc::answer(place, request).await;
        }
        rest::answer(place, request).await.map(tonic::body::Body::new)
    }

    /// If a token is set, every caller must send it. Other hosts must also use TLS.
    fn check_caller(
        &self,
        request: &Request<Incoming>,
        connection: &OpenConnection,
    ) -> Result<(), &'static str> {
        let Some(token) = &self.token else { return Ok(()) };
        if connection.client == ClientAddress::Local {
            return Ok(());
        }
        if !connection.client.is_of_this_host() && !connection.is_tls() {
            return Err("use https: this server answers other hosts by TLS only");
        }
        match has_token(request.headers(), token) {
            true => Ok(()),
            false => Err(
                "the server's token is missing: use https://x:TOKEN@HOST:PORT as the address, or the header \
                          \"Authorization: Bearer TOKEN\"",
            ),
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
