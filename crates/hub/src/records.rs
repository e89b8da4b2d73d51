//! The side of a controller: requests to agents, orders, and what the hub keeps.

use crate::connection::Hub;
use crate::error::HubError;
use crate::requests::OrderKind;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use async_nats::{Message as HubMessage, StatusCode, Subscriber};
use bytes::Bytes;
use fleet::subject::{self, HOSTS_STREAM, PLANS, PLANS_STREAM, counts_stream};
use fleet::{FleetName, HostStatus, LastWords, RunOrder, RunPlan, SECONDS_MAX, Stat, decode, encode};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::time::Duration;
use tokio::time::timeout;

/// The next message of those that the hub has is here within this time.
const NEXT_MAX: Duration = Duration::from_secs(5);
/// Messages of one request for several.
const BATCH: u64 = 256;
/// The status that ends such a batch.
const END_OF_BATCH: u16 = 204;

/// The hosts that have announced themselves.
#[derive(Clone, Debug, Default)]
pub struct KnownHosts {
    /// By name.
    pub hosts: Vec<HostStatus>,
    /// Hosts whose announcement cannot be read, as of another version, and why.
    pub unreadable: Vec<(FleetName, String)>,
}

impl Hub {
    /// The hosts that have announced themselves, by name.
    ///
    /// # Errors
    /// No connection.
    pub async fn hosts(&self) -> Result<KnownHosts, HubError> {
        let at = "read the hosts";
        let mut hosts = KnownHosts::default();
        let newest = |subject: String| async move { (self.newest(HOSTS_STREAM, &subject).await, subject) };
        let subjects = self.subjects(HOSTS_STREAM, ">", at).await?;
        let newest: FuturesUnordered<_> = subjects.into_iter().map(newest).collect();
        for (bytes, subject) in newest.collect::<Vec<_>>().await {
            let Some(name) = subject.rsplit('.').next().and_then(|name| name.parse::<FleetName>().ok())
            else {
                continue;
            };
            // One that is forgotten meanwhile is gone.
            let Some(bytes) = bytes? else { continue };
            // The hub checks who writes on a subject, not what the message says.
            match decode::<HostStatus>(&bytes) {
                Ok(status) if status.host == name => hosts.hosts.push(status),
                Ok(status) => hosts.unreadable.push((name, format!("it says that it is {}", status.host))),
                Err(why) => hosts.unreadable.push((name, why.to_string())),
            }
        }
        hosts.hosts.sort_by(|one, other| one.host.cmp(&other.host));
        hosts.unreadable.sort_unstable();
        Ok(hosts)
    }

    /// The subjects of a stream that has messages.
    async fn subjects(&self, stream: &str, filter: &str, at: &'static str) -> Result<Vec<String>, HubError> {
        let failed = |why: String| self.refused_or(HubError::at(at)(why));
        let stream = self.jetstream.get_stream_no_info(stream).await.map_err(HubError::at(at))?;
        let found = stream.info_with_subjects(filter).await;
        let mut found = found.map_err(|why| failed(why.to_string()))?;
        let mut subjects = Vec::new();
        while let Some(subject) = found.next().await {
            subjects.push(subject.map_err(HubError::at(at))?.0);
        }
        subjects.sort_unstable();
        Ok(subjects)
    }

    /// Gives an order to all agents of a run.
    ///
    /// # Errors
    /// No connection.
    pub async fn order(&self, run: &FleetName, kind: OrderKind) -> Result<(), HubError> {
        let subject = match kind {
            OrderKind::Lease => subject::lease(run),
            OrderKind::Drain => subject::drain(run),
            OrderKind::Stop => subject::stop(run),
        };
        let payload = encode(&RunOrder { run: run.clone(), order: kind.name().to_owned() });
        let published = self.client.publish(subject, payload.into()).await;
        published.map_err(HubError::at("give an order"))
    }

    /// Keeps the plan of a run. The newest one counts.
    ///
    /// # Errors
    /// The plan is longer than the hub takes, or the hub has not confirmed that.
    pub async fn keep_plan(&self, plan: &RunPlan) -> Result<(), HubError> {
        let at = "keep the plan of the run";
        let payload = self.payload(plan).map_err(HubError::at(at))?;
        let sent = self.jetstream.publish(subject::plan(&plan.run), payload).await;
        let kept = sent.map_err(HubError::at(at))?.await;
        kept.map(drop).map_err(|why| self.refused_or(HubError::at(at)(why)))
    }

    /// Listens to the counts of a run.
    ///
    /// # Errors
    /// No connection.
    pub async fn counts(&self, run: &FleetName) -> Result<CountStream, HubError> {
        let subscribed = self.client.subscribe(subject::stats(run)).await;
        Ok(CountStream { subscriber: subscribed.map_err(HubError::at("listen to counts"))? })
    }

    /// The plan of a run.
    ///
    /// # Errors
    /// There is none, or no connection.
    pub async fn plan(&self, run: &FleetName) -> Result<RunPlan, HubError> {
        let bytes = self.newest(PLANS_STREAM, &subject::plan(run)).await?;
        let bytes = bytes.ok_or_else(|| HubError::NoRun(run.to_string()))?;
        decode(&bytes).map_err(HubError::at("read the plan of the run"))
    }

    /// The newest counts of all hosts of a plan, and those of each second. Newest counts that
    /// cannot be read are noted.
    ///
    /// # Errors
    /// No connection.
    pub async fn last_words(&self, plan: &RunPlan) -> Result<LastWords, HubError> {
        let mut words = LastWords::of_run(plan);
        let hosts: FuturesUnordered<_> =
            plan.hosts.iter().map(|host| self.counts_of_seconds(plan, &host.host)).collect();
        for of_host in hosts.collect::<Vec<_>>().await {
            words.merge(of_host?);
        }
        words.merge(self.newest_words(plan).await?);
        Ok(words)
    }

    /// The newest counts of all hosts of a plan.
    ///
    /// # Errors
    /// No connection.
    pub async fn newest_words(&self, plan: &RunPlan) -> Result<LastWords, HubError> {
        let newest = |host: &FleetName| {
            let (host, subject) = (host.clone(), subject::stat(&plan.run, host));
            async move { (self.newest(&counts_stream(&host), &subject).await, host, subject) }
        };
        let newest: FuturesUnordered<_> = plan.hosts.iter().map(|host| newest(&host.host)).collect();
        let mut words = LastWords::of_run(plan);
        for (bytes, host, subject) in newest.collect::<Vec<_>>().await {
            let Some(bytes) = bytes? else { continue };
            match decode(&bytes) {
                Ok(stat) if is_of(&stat, &subject) => drop(words.hear(stat)),
                Ok(stat) => {
                    words
                        .cannot_use(host, format!("they say that they are of {} in {}", stat.host, stat.run));
                }
                Err(why) => words.cannot_use(host, why.to_string()),
            }
        }
        Ok(words)
    }

    /// The counts of a host in the first hour of a plan.
    async fn counts_of_seconds(&self, plan: &RunPlan, host: &FleetName) -> Result<LastWords, HubError> {
        let (stream, subject) = (counts_stream(host), subject::stat(&plan.run, host));
        let mut words = LastWords::of_run(plan);
        let (mut next, mut left) = (1, u64::from(SECONDS_MAX));
        while left > 0 {
            let messages = self.batch(&stream, &subject, next, left.min(BATCH)).await?;
            let Some((sequence, _)) = messages.last() else { break };
            (next, left) = (sequence + 1, left.saturating_sub(messages.len() as u64));
            for (_, payload) in messages {
                // Newest counts that cannot be read are noted elsewhere.
                if let Ok(stat) = decode(&payload)
                    && is_of(&stat, &subject)
                {
                    words.hear(stat);
                }
            }
        }
        Ok(words)
    }

    /// Up to `count` messages of a subject from a sequence number on, with their numbers. A server
    /// of version 2.10 returns one at a time.
    async fn batch(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
        count: u64,
    ) -> Result<Vec<(u64, Bytes)>, HubError> {
        let at = "read the counts of each second";
        let inbox = self.client.new_inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await.map_err(HubError::at(at))?;
        let request = serde_json::json!({"seq": from, "next_by_subj": subject, "batch": count}).to_string();
        let asked = format!("$JS.API.DIRECT.GET.{stream}");
        let sent = self.client.publish_with_reply(asked, inbox, request.into()).await;
        sent.map_err(HubError::at(at))?;
        let mut messages = Vec::new();
        loop {
            let answer = timeout(NEXT_MAX, answers.next()).await;
            let answer = answer.map_err(|why| self.refused_or(HubError::at(at)(why)))?;
            let Some(HubMessage { headers, payload, status, .. }) = answer else { break };
            // No more messages, no such stream yet, or the end of the batch.
            let is_end = status == Some(StatusCode::NOT_FOUND)
                || status == Some(StatusCode::NO_RESPONDERS)
                || status.is_some_and(|status| status.as_u16() == END_OF_BATCH);
            let number = |name: &str| headers.as_ref()?.get(name)?.as_str().parse::<u64>().ok();
            let Some(sequence) = number("Nats-Sequence").filter(|_| !is_end) else { break };
            messages.push((sequence, payload));
            let has_more = number("Nats-Num-Pending").is_some();
            if !has_more {
                break;
            }
        }
        Ok(messages)
    }

    /// The runs that the hub keeps, the newest first.
    ///
    /// # Errors
    /// No connection.
    pub async fn runs(&self) -> Result<Vec<RunPlan>, HubError> {
        let subjects = self.subjects(PLANS_STREAM, PLANS, "read the runs").await?;
        let runs: Vec<FleetName> = subjects.iter().filter_map(|subject| subject::run_of(subject)).collect();
        let plans: FuturesUnordered<_> = runs.iter().map(|run| self.plan(run)).collect();
        let plans: Vec<_> = plans.collect().await;
        // A plan of another version is not ours to show.
        let mut plans: Vec<RunPlan> = plans.into_iter().flatten().collect();
        plans.sort_by_key(|plan| std::cmp::Reverse(plan.start_at_ns));
        Ok(plans)
    }

    /// The newest message that a stream keeps for a subject.
    async fn newest(&self, stream: &str, subject: &str) -> Result<Option<Bytes>, HubError> {
        let at = "read what the hub keeps";
        let stream = self.jetstream.get_stream_no_info(stream).await.map_err(HubError::at(at))?;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(message.payload)),
            Err(why) if why.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(why) if is_missing(&why.kind()) => Ok(None),
            Err(why) => Err(self.refused_or(HubError::at(at)(why))),
        }
    }
}

/// True if there is no such stream: no run has made it yet.
fn is_missing(kind: &LastRawMessageErrorKind) -> bool {
    use async_nats::jetstream::ErrorCode;
    matches!(kind, LastRawMessageErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// True if counts are of the host and the run of their subject. The hub checks who publishes on a
/// subject, not what the message says.
fn is_of(stat: &Stat, subject: &str) -> bool {
    subject::stat(&stat.run, &stat.host) == subject
}

/// The counts of a run as they arrive.
#[derive(Debug)]
pub struct CountStream {
    subscriber: Subscriber,
}

impl CountStream {
    /// The next ones; `None` once the connection is closed for good.
    pub async fn next(&mut self) -> Option<Stat> {
        loop {
            let message = self.subscriber.next().await?;
            // What cannot be read stays on the hub, where `fleet report` tells it.
            if let Ok(stat) = decode(&message.payload)
                && is_of(&stat, &message.subject)
            {
                return Some(stat);
            }
        }
    }
}
