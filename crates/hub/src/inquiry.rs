//! Requests to several agents at once, and all answers to them: two agents of one name both answer.

use crate::connection::Hub;
use crate::error::HubError;
use async_nats::{StatusCode, Subscriber};
use fleet::{FleetName, Message, decode, encode};
use futures_util::StreamExt;

/// Requests whose answers arrive in one place.
#[derive(Debug)]
pub struct Inquiry {
    hub: Hub,
    inbox: String,
    subscriber: Subscriber,
}

/// An answer, or why there is none.
#[derive(Debug)]
pub struct HostAnswered<A> {
    /// The host that was asked.
    pub host: FleetName,
    /// What it was asked: the word that [`Inquiry::ask`] was given.
    pub about: String,
    /// Its answer, or why it cannot be read or will not come.
    pub answer: Result<A, String>,
}

impl Hub {
    /// Gets ready for answers.
    ///
    /// # Errors
    /// No connection.
    pub async fn inquire(&self) -> Result<Inquiry, HubError> {
        let inbox = self.client.new_inbox();
        let subscribed = self.client.subscribe(format!("{inbox}.*.*")).await;
        let subscriber = subscribed.map_err(HubError::at("listen to answers"))?;
        Ok(Inquiry { hub: self.clone(), inbox, subscriber })
    }

    /// A message, unless it is longer than the hub takes.
    pub(crate) fn payload<M: Message>(&self, message: &M) -> Result<bytes::Bytes, String> {
        let payload = encode(message);
        let (len, len_max) = (payload.len(), self.payload_max());
        match len <= len_max {
            true => Ok(payload.into()),
            false => Err(format!(
                "a {} of {len} bytes: the hub takes {len_max} (max_payload in hub.conf)",
                M::SCHEMA
            )),
        }
    }
}

impl Inquiry {
    /// Sends a request to a host; `about` is a word that its answers have.
    ///
    /// # Errors
    /// Why it was not sent.
    pub async fn ask<M: Message>(
        &self,
        host: &FleetName,
        about: &str,
        subject: String,
        message: &M,
    ) -> Result<(), String> {
        let payload = self.hub.payload(message)?;
        let reply = format!("{}.{about}.{host}", self.inbox);
        let sent = self.hub.client.publish_with_reply(subject, reply, payload).await;
        sent.map_err(|why| why.to_string())
    }

    /// The next answer.
    ///
    /// # Errors
    /// The hub refuses the requests to this key, or is closed.
    pub async fn next<A: Message>(&mut self) -> Result<HostAnswered<A>, HubError> {
        let mut refusals = self.hub.refusals.clone();
        loop {
            let message = tokio::select! {
                message = self.subscriber.next() => message,
                _ = refusals.wait_for(Option::is_some) => None,
            };
            let closed =
                || HubError::Failed { act: "hear answers", why: "the connection is closed".to_owned() };
            let message = message.ok_or_else(|| self.hub.refused_or(closed()))?;
            let mut words = message.subject.rsplit('.');
            let (host, about) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let Ok(host) = host.parse() else { continue };
            let answer = match message.status {
                Some(StatusCode::NO_RESPONDERS) => Err("no agent is connected under this name".to_owned()),
                _ => decode(&message.payload).map_err(|why| why.to_string()),
            };
            return Ok(HostAnswered { host, about: about.to_owned(), answer });
        }
    }
}
