//! The connection to a hub.

use crate::error::HubError;
use crate::permissions::inbox_of;
use async_nats::connection::State;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event};
use fleet::FleetName;
use futures_util::StreamExt;
use report::human::printable;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// The oldest version of nats-server that works: older ones answer in another format.
pub const OLDEST_SERVER: &str = "2.10";

/// A silent connection is detected after two of these.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// Time from one try to connect again to the next.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
/// Time from an error that has arrived to its event.
const EVENT_MAX: Duration = Duration::from_millis(100);
/// Time for a connection to be made.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// Where a hub is, and how to log in.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// Its address: `tls://HOST:4222`, or `nats://HOST:4222` without encryption.
    pub url: String,
    /// File with the certificate that signed that of the hub.
    pub ca: Option<PathBuf>,
    /// File with the secret half of a key.
    pub key: Option<PathBuf>,
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Hub {
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
    url: String,
    /// The newest refusal of the hub: the key has no right to do something.
    pub(crate) refusals: watch::Receiver<Option<String>>,
}

/// What changed between an agent and its hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubEvent {
    /// There is a connection.
    Connected,
    /// There is none any more.
    Disconnected,
    /// The hub does not know the key, or the key has no right to do something: what the hub says.
    Refused(String),
    /// Anything else, in words.
    Other(String),
}

impl HubEvent {
    fn of(event: &Event) -> Self {
        match event {
            Event::Connected => Self::Connected,
            Event::Disconnected => Self::Disconnected,
            event => {
                let text = printable(&event.to_string()).into_owned();
                let plain = text.to_lowercase();
                let is_refusal = ["permissions violation", "authorization violation"]
                    .iter()
                    .any(|refusal| plain.contains(refusal));
                if is_refusal { Self::Refused(text) } else { Self::Other(text) }
            }
        }
    }
}

impl Hub {
    /// Connects a controller.
    ///
    /// # Errors
    /// The hub is not reached, refuses the key, or is too old.
    pub async fn connect(settings: &HubSettings) -> Result<Self, HubError> {
        let (refusal, refusals) = watch::channel(None);
        let options = options(settings)?.name("wirerate fleet").event_callback(move |event| {
            if let HubEvent::Refused(text) = HubEvent::of(&event) {
                refusal.send_replace(Some(text));
            }
            async {}
        });
        let hub = Self::open(settings, options, refusals).await?;
        hub.check_version()?;
        Ok(hub)
    }

    /// Connects the agent of `host`. Without an answer it keeps trying, now and after each loss of
    /// the connection. `events` gets what changes.
    ///
    /// # Errors
    /// A file is missing or wrong.
    pub async fn connect_agent(
        settings: &HubSettings,
        host: &FleetName,
        events: mpsc::UnboundedSender<HubEvent>,
    ) -> Result<Self, HubError> {
        let options = options(settings)?
            .name(host)
            .custom_inbox_prefix(inbox_of(host))
            .max_reconnects(None)
            .retry_on_initial_connect()
            .event_callback(move |event| {
                // The receiver ends with the agent.
                let _ = events.send(HubEvent::of(&event));
                async {}
            });
        let (_, refusals) = watch::channel(None);
        Self::open(settings, options, refusals).await
    }

    async fn open(
        settings: &HubSettings,
        options: ConnectOptions,
        refusals: watch::Receiver<Option<String>>,
    ) -> Result<Self, HubError> {
        let url = settings.url.clone();
        let not_reached = |why: async_nats::ConnectError| {
            let mut text = why.to_string();
            let mut source = std::error::Error::source(&why);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            HubError::NotReached { url: url.clone(), why: printable(&text).into_owned() }
        };
        let client = options.connect(&settings.url).await.map_err(not_reached)?;
        Ok(Self { jetstream: jetstream::new(client.clone()), client, url, refusals })
    }

    /// The version of the server.
    pub fn server_version(&self) -> String {
        self.client.server_info().version
    }

    /// Bytes of the longest message that the server takes.
    pub fn payload_max(&self) -> usize {
        self.client.server_info().max_payload
    }

    /// Refuses a server that is too old.
    ///
    /// # Errors
    /// It is.
    pub fn check_version(&self) -> Result<(), HubError> {
        match self.client.is_server_compatible(2, 10, 0) {
            true => Ok(()),
            false => Err(HubError::TooOld {
                url: self.url.clone(),
                version: self.server_version(),
                oldest: OLDEST_SERVER,
            }),
        }
    }

    /// True while there is a connection.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// What the hub last refused, because the key has no right to do it.
    pub fn refusal(&self) -> Option<HubError> {
        self.refusals.borrow().clone().map(HubError::Refused)
    }

    /// Waits until the hub has read all that was published.
    ///
    /// # Errors
    /// No connection; or it refused something.
    pub async fn confirm(&self) -> Result<(), HubError> {
        self.flush().await?;
        // The hub answers in order: what it refuses arrives before this message of our own.
        let inbox = self.client.new_inbox();
        let at = "hear of the hub";
        let mut echo = self.client.subscribe(inbox.clone()).await.map_err(HubError::at(at))?;
        self.client.publish(inbox, Vec::new().into()).await.map_err(HubError::at(at))?;
        let mut refusals = self.refusals.clone();
        tokio::select! {
            biased;
            _ = refusals.wait_for(Option::is_some) => {}
            echo = tokio::time::timeout(CONNECT_MAX, echo.next()) => drop(echo.map_err(HubError::at(at))?),
        }
        // The callback of events may run a moment later.
        let _ = tokio::time::timeout(EVENT_MAX, refusals.wait_for(Option::is_some)).await;
        self.refusal().map_or(Ok(()), Err)
    }

    /// Waits until the hub has all that was published.
    ///
    /// # Errors
    /// No connection.
    pub async fn flush(&self) -> Result<(), HubError> {
        self.client.flush().await.map_err(HubError::at("send to the hub"))
    }
}

fn options(settings: &HubSettings) -> Result<ConnectOptions, HubError> {
    let mut options = ConnectOptions::new()
        .ping_interval(PING_INTERVAL)
        .connection_timeout(CONNECT_MAX)
        .reconnect_delay_callback(|tries| if tries < 2 { Duration::ZERO } else { RECONNECT_DELAY });
    if let Some(key) = &settings.key {
        let seed = std::fs::read_to_string(key)
            .map_err(|why| HubError::Key(format!("the key {} was not read: {why}", key.display())))?;
        options = options.nkey(seed.trim().to_owned());
    }
    if let Some(ca) = &settings.ca {
        if let Err(why) = std::fs::metadata(ca) {
            return Err(HubError::Key(format!("the certificate {} was not read: {why}", ca.display())));
        }
        options = options.add_root_certificates(ca.clone()).require_tls(true);
    }
    Ok(options)
}
