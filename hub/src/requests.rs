//! The side of an agent: requests and orders that arrive, announcements and counts that leave.

use crate::connection::Hub;
use crate::error::HubError;
use crate::permissions::announcement_of;
use async_nats::{HeaderMap, Message, Subscriber};
use bytes::Bytes;
use fleet::{FleetName, HostStatus, Stat, encode, subject};
use futures_util::StreamExt;
use std::time::Duration;

/// Time for the hub to confirm that it has kept a message.
const ACK_MAX: Duration = Duration::from_secs(2);

/// What is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// To get ready ([`fleet::Prepare`]).
    Prepare,
    /// To start at a time ([`fleet::Go`]).
    Go,
    /// To forget a run that has not started ([`fleet::AbortRequest`]); without an answer.
    Abort,
    /// To use ports for a configuration of the Open Traffic Generator ([`fleet::OtgRequest`]).
    Otg,
}

/// A request that waits for an answer.
#[derive(Debug)]
pub struct HubRequest {
    /// What is requested.
    pub kind: RequestKind,
    /// The message.
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
        loop {
            let Message { subject, reply, payload, .. } = self.subscriber.next().await?;
            let kind = match subject.rsplit('.').next() {
                Some("prepare") => RequestKind::Prepare,
                Some("go") => RequestKind::Go,
                Some("abort") => RequestKind::Abort,
                Some("otg") => RequestKind::Otg,
                _ => continue,
            };
            return Some(HubRequest { kind, payload, reply, hub: self.hub.clone() });
        }
    }
}

/// What all agents of a run are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// The controller lives.
    Lease,
    /// All hosts have sent all.
    Drain,
    /// End the run.
    Stop,
    /// Forget a run that has not started.
    Abort,
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
            let kind = match message.subject.rsplit('.').next() {
                Some("lease") => OrderKind::Lease,
                Some("drain") => OrderKind::Drain,
                Some("stop") => OrderKind::Stop,
                Some("abort") => OrderKind::Abort,
                _ => continue,
            };
            if let Some(run) = subject::run_of(&message.subject) {
                return Some(HubOrder { kind, run });
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
        for kind in ["lease", "drain", "stop", "abort"] {
            let subscribed = self.client.subscribe(format!("wr.run.*.{kind}")).await;
            all.push(subscribed.map_err(HubError::at("listen to orders"))?);
        }
        Ok(Orders { subscriber: all })
    }

    /// Announces a host. The hub forgets it after six seconds.
    ///
    /// # Errors
    /// No connection.
    pub async fn announce(&self, status: &HostStatus) -> Result<(), HubError> {
        let published = self.client.publish(announcement_of(&status.host), encode(status).into()).await;
        published.map_err(HubError::at("announce this host"))
    }

    /// Delivers counts, and waits until the hub has kept them. Delivered twice, they are kept once.
    ///
    /// # Errors
    /// It has not confirmed that: they may be delivered again.
    pub async fn deliver(&self, stat: &Stat) -> Result<(), HubError> {
        let at = "deliver counts";
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("{}.{}.{}", stat.run, stat.host, stat.number).as_str());
        let subject = subject::stat(&stat.run, &stat.host);
        let confirmed = tokio::time::timeout(ACK_MAX, async {
            let sent = self.jetstream.publish_with_headers(subject, headers, encode(stat).into()).await;
            sent.map_err(HubError::at(at))?.await.map_err(HubError::at(at))
        });
        confirmed.await.map_err(HubError::at(at))?.map(drop)
    }
}
