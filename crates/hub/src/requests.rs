//! The side of an agent: requests and orders that arrive, announcements and counts that leave.

use crate::connection::Hub;
use crate::error::HubError;
use crate::permissions::announcement_of;
use async_nats::{Message, Subscriber};
use bytes::Bytes;
use fleet::{FleetName, HostStatus, RunOrder, Stat, decode, encode, subject};
use futures_util::StreamExt;
use std::time::Duration;

/// Time for the hub to confirm that it has kept a message.
const ACK_MAX: Duration = Duration::from_secs(2);

/// A request that waits for an answer.
#[derive(Debug)]
pub struct HubRequest {
    /// The message: an [`fleet::OrderRequest`], or one of another version.
    pub payload: Bytes,
    reply: Option<async_nats::Subject>,
    hub: Hub,
}

impl HubRequest {
    /// Answers.
    ///
    /// # Errors
    /// No connection.
    pub async fn answer<M: fleet::Message>(self, answer: &M) -> Result<(), HubError> {
        let Some(reply) = self.reply else { return Ok(()) };
        let published = self.hub.client.publish(reply, encode(answer).into()).await;
        published.map_err(HubError::at("answer a request"))?;
        self.hub.flush().await
    }
}

/// The requests of an agent.
#[derive(Debug)]
pub struct Requests {
    hub: Hub,
    subscriber: Subscriber,
}

impl Requests {
    /// The next one; `None` once the connection is closed for good.
    pub async fn next(&mut self) -> Option<HubRequest> {
        let Message { reply, payload, .. } = self.subscriber.next().await?;
        Some(HubRequest { payload, reply, hub: self.hub.clone() })
    }
}

/// What all agents of a run are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// The controller lives.
    Lease,
    /// All hosts have sent all.
    Drain,
    /// End the run, also one that has not started yet.
    Stop,
}

const ORDERS: [OrderKind; 3] = [OrderKind::Lease, OrderKind::Drain, OrderKind::Stop];

impl OrderKind {
    /// Its word, in subjects and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Drain => "drain",
            Self::Stop => "stop",
        }
    }
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubOrder {
    /// What to do.
    pub kind: OrderKind,
    /// The run.
    pub run: FleetName,
}

/// The orders to all agents.
#[derive(Debug)]
pub struct Orders {
    subscriber: futures_util::stream::SelectAll<Subscriber>,
}

impl Orders {
    /// The next one; `None` once the connection is closed for good.
    pub async fn next(&mut self) -> Option<HubOrder> {
        loop {
            let message = self.subscriber.next().await?;
            let word = message.subject.rsplit('.').next();
            let Some(kind) = ORDERS.into_iter().find(|kind| Some(kind.name()) == word) else { continue };
            // What the hub keeps may be delivered to any subject, but it is no order.
            if let Ok(RunOrder { run, order }) = decode(&message.payload)
                && order == kind.name()
                && subject::run_of(&message.subject).as_ref() == Some(&run)
            {
                return Some(HubOrder { kind, run });
            }
        }
    }
}

/// Announcements under the name of a host.
#[derive(Debug)]
pub struct Announcements {
    subscriber: Subscriber,
}

impl Announcements {
    /// The next one that can be read; `None` once the connection is closed for good.
    pub async fn next(&mut self) -> Option<HostStatus> {
        loop {
            let message = self.subscriber.next().await?;
            if let Ok(status) = decode(&message.payload) {
                return Some(status);
            }
        }
    }
}

impl Hub {
    /// Listens to the requests to `host`.
    ///
    /// # Errors
    /// The hub is closed.
    pub async fn requests(&self, host: &FleetName) -> Result<Requests, HubError> {
        let subscribed = self.client.subscribe(format!("wr.host.{host}.*")).await;
        let subscriber = subscribed.map_err(HubError::at("listen to requests"))?;
        Ok(Requests { hub: self.clone(), subscriber })
    }

    /// Listens to the orders to all agents.
    ///
    /// # Errors
    /// The hub is closed.
    pub async fn orders(&self) -> Result<Orders, HubError> {
        let mut all = futures_util::stream::SelectAll::new();
        for kind in ORDERS.map(OrderKind::name) {
            let subscribed = self.client.subscribe(format!("wr.run.*.{kind}")).await;
            all.push(subscribed.map_err(HubError::at("listen to orders"))?);
        }
        Ok(Orders { subscriber: all })
    }

    /// Listens to the announcements of `host`: its own, and those of a second agent with its name.
    ///
    /// # Errors
    /// The hub is closed.
    pub async fn announcements(&self, host: &FleetName) -> Result<Announcements, HubError> {
        let subscribed = self.client.subscribe(announcement_of(host)).await;
        Ok(Announcements { subscriber: subscribed.map_err(HubError::at("listen to announcements"))? })
    }

    /// Announces a host. The hub forgets it after [`crate::HOST_AGE_MAX`].
    ///
    /// # Errors
    /// No connection.
    pub async fn announce(&self, status: &HostStatus) -> Result<(), HubError> {
        let published = self.client.publish(announcement_of(&status.host), encode(status).into()).await;
        published.map_err(HubError::at("announce this host"))
    }

    /// Delivers counts, and waits until the hub has kept them. They are those since the start, so
    /// they may be delivered twice.
    ///
    /// # Errors
    /// It has not confirmed that: they may be delivered again.
    pub async fn deliver(&self, stat: &Stat) -> Result<(), HubError> {
        let at = "deliver counts";
        let subject = subject::stat(&stat.run, &stat.host);
        let confirmed = tokio::time::timeout(ACK_MAX, async {
            let sent = self.jetstream.publish(subject, encode(stat).into()).await;
            sent.map_err(HubError::at(at))?.await.map_err(HubError::at(at))
        });
        confirmed.await.map_err(HubError::at(at))?.map(drop)
    }
}
