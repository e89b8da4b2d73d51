//! The side of a controller: requests to agents, orders, and what the hub keeps.

use crate::connection::Hub;
use crate::error::HubError;
use crate::requests::OrderKind;
use async_nats::Subscriber;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::kv;
use async_nats::jetstream::stream::{self, LastRawMessageErrorKind, StorageType};
use bytes::Bytes;
use fleet::subject::{self, HOSTS_BUCKET, KEPT, RUNS_STREAM};
use fleet::{
    AbortRequest, FleetName, HostStatus, LastWords, Message, RunPlan, SECONDS_MAX, Stat, decode, encode,
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::time::Duration;
use tokio::time::timeout;

/// A host that has announced nothing for this time is forgotten.
const HOST_AGE_MAX: Duration = Duration::from_secs(6);
/// Runs are kept for this time.
const RUN_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Bytes of all runs; the oldest are forgotten beyond.
const RUNS_BYTES_MAX: i64 = 1 << 28;
/// The next message of those that the hub has is here within this time.
const NEXT_MAX: Duration = Duration::from_secs(5);
/// Counts that are delivered again within this time are kept once.
const DUPLICATES: Duration = Duration::from_secs(600);

impl Hub {
    /// Makes the bucket of hosts and the stream of runs, unless they are there.
    ///
    /// # Errors
    /// The hub refuses: it may have no JetStream.
    pub async fn set_up(&self) -> Result<(), HubError> {
        let at = "make the bucket of hosts on the hub";
        if self.jetstream.get_key_value(HOSTS_BUCKET).await.is_err() {
            let config = kv::Config {
                bucket: HOSTS_BUCKET.to_owned(),
                description: "hosts of wirerate fleet".to_owned(),
                history: 1,
                max_age: HOST_AGE_MAX,
                storage: StorageType::Memory,
                ..kv::Config::default()
            };
            self.jetstream.create_key_value(config).await.map_err(HubError::at(at))?;
        }
        let config = stream::Config {
            name: RUNS_STREAM.to_owned(),
            description: Some("plans and counts of wirerate fleet".to_owned()),
            subjects: KEPT.map(str::to_owned).to_vec(),
            max_bytes: RUNS_BYTES_MAX,
            max_age: RUN_AGE_MAX,
            duplicate_window: DUPLICATES,
            storage: StorageType::File,
            ..stream::Config::default()
        };
        let made = self.jetstream.get_or_create_stream(config).await;
        made.map(drop).map_err(HubError::at("make the stream of runs on the hub"))
    }

    /// The hosts that have announced themselves, by name.
    ///
    /// # Errors
    /// No connection.
    pub async fn hosts(&self) -> Result<Vec<HostStatus>, HubError> {
        let at = "read the hosts";
        let bucket = self.jetstream.get_key_value(HOSTS_BUCKET).await.map_err(HubError::at(at))?;
        let mut keys = bucket.keys().await.map_err(HubError::at(at))?;
        let mut names = Vec::new();
        while let Some(key) = keys.next().await {
            names.push(key.map_err(HubError::at(at))?);
        }
        let bucket = &bucket;
        let entries: FuturesUnordered<_> =
            names.into_iter().map(|name| async move { (bucket.get(&name).await, name) }).collect();
        let entries: Vec<_> = entries.collect().await;
        let mut hosts: Vec<HostStatus> = Vec::new();
        for (entry, name) in entries {
            // One that is forgotten meanwhile is gone; one of another version is not ours. The hub
            // checks who writes a key of the bucket, not what the value says.
            if let Some(bytes) = entry.map_err(HubError::at(at))? {
                hosts.extend(decode(&bytes).ok().filter(|status: &HostStatus| status.host.as_str() == name));
            }
        }
        hosts.sort_by(|one, other| one.host.cmp(&other.host));
        Ok(hosts)
    }

    /// Asks an agent.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask<M: Message, A: Message>(
        &self,
        subject: String,
        message: &M,
        timeout: Duration,
    ) -> Result<A, String> {
        let payload = encode(message);
        let (len, len_max) = (payload.len(), self.payload_max());
        if len > len_max {
            let what = M::SCHEMA;
            return Err(format!(
                "a {what} of {len} bytes: the hub takes {len_max} (max_payload in hub.conf)"
            ));
        }
        let request = async_nats::Request::new().payload(payload.into()).timeout(Some(timeout));
        let answer = self.client.send_request(subject, request).await.map_err(|why| match why.kind() {
            async_nats::RequestErrorKind::TimedOut => format!("no answer within {} ms", timeout.as_millis()),
            async_nats::RequestErrorKind::NoResponders => "no agent is connected under this name".to_owned(),
            _ => why.to_string(),
        })?;
        decode(&answer.payload).map_err(|why| why.to_string())
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
            OrderKind::Abort => subject::abort(run),
        };
        let published = self.client.publish(subject, Vec::new().into()).await;
        published.map_err(HubError::at("give an order"))
    }

    /// Tells an agent to forget a run that has not started. One that is busy gets it later.
    ///
    /// # Errors
    /// No connection.
    pub async fn abort_host(&self, host: &FleetName, run: &FleetName) -> Result<(), HubError> {
        let payload = encode(&AbortRequest { run: run.clone() });
        let published = self.client.publish(subject::abort_host(host), payload.into()).await;
        published.map_err(HubError::at("abort a run on a host"))
    }

    /// Keeps the plan of a run. The newest one counts.
    ///
    /// # Errors
    /// The hub has not confirmed that.
    pub async fn keep_plan(&self, plan: &RunPlan) -> Result<(), HubError> {
        let at = "keep the plan of the run";
        let sent = self.jetstream.publish(subject::plan(&plan.run), encode(plan).into()).await;
        sent.map_err(HubError::at(at))?.await.map(drop).map_err(HubError::at(at))
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
        let bytes = self.newest(&subject::plan(run)).await?;
        let bytes = bytes.ok_or_else(|| HubError::NoRun(run.to_string()))?;
        decode(&bytes).map_err(HubError::at("read the plan of the run"))
    }

    /// The newest counts of all hosts of a plan, and those of each second. Newest counts that
    /// cannot be read are noted.
    ///
    /// # Errors
    /// No connection.
    pub async fn last_words(&self, plan: &RunPlan) -> Result<LastWords, HubError> {
        let newest = |host: &FleetName| {
            let (host, subject) = (host.clone(), subject::stat(&plan.run, host));
            async move { (self.newest(&subject).await, host, subject) }
        };
        let newest: FuturesUnordered<_> = plan.hosts.iter().map(|host| newest(&host.host)).collect();
        let mut words = self.seconds(plan).await?;
        for (bytes, host, subject) in newest.collect::<Vec<_>>().await {
            let Some(bytes) = bytes? else { continue };
            match decode(&bytes) {
                Ok(stat) if is_of(&stat, &subject) => drop(words.hear(stat)),
                Ok(stat) => {
                    words.cannot_read(
                        host,
                        format!("they say that they are of {} in {}", stat.host, stat.run),
                    );
                }
                Err(why) => words.cannot_read(host, why.to_string()),
            }
        }
        Ok(words)
    }

    /// The counts of the first hour of a plan.
    async fn seconds(&self, plan: &RunPlan) -> Result<LastWords, HubError> {
        let at = "read the counts of each second";
        let stream = self.jetstream.get_stream_no_info(RUNS_STREAM).await.map_err(HubError::at(at))?;
        let config = pull::OrderedConfig {
            filter_subject: subject::stats(&plan.run),
            deliver_policy: DeliverPolicy::All,
            ..pull::OrderedConfig::default()
        };
        let mut consumer = stream.create_consumer(config).await.map_err(HubError::at(at))?;
        let pending = consumer.info().await.map_err(HubError::at(at))?.num_pending;
        let count_max = plan.hosts.len() as u64 * u64::from(SECONDS_MAX);
        let mut messages = consumer.messages().await.map_err(HubError::at(at))?;
        let mut words = LastWords::default();
        for _ in 0..pending.min(count_max) {
            let message = timeout(NEXT_MAX, messages.next()).await.map_err(HubError::at(at))?;
            let Some(message) = message else { break };
            let message = message.map_err(HubError::at(at))?;
            if let Ok(stat) = decode(&message.payload)
                && is_of(&stat, &message.subject)
            {
                words.hear(stat);
            }
        }
        Ok(words)
    }

    /// The runs that the hub keeps, the newest first.
    ///
    /// # Errors
    /// No connection.
    pub async fn runs(&self) -> Result<Vec<RunPlan>, HubError> {
        let at = "read the runs";
        let stream = self.jetstream.get_stream(RUNS_STREAM).await.map_err(HubError::at(at))?;
        let mut subjects = stream.info_with_subjects(KEPT[0]).await.map_err(HubError::at(at))?;
        let mut runs = Vec::new();
        while let Some(subject) = subjects.next().await {
            let (subject, _) = subject.map_err(HubError::at(at))?;
            runs.extend(subject::run_of(&subject));
        }
        let plans: FuturesUnordered<_> = runs.iter().map(|run| self.plan(run)).collect();
        let plans: Vec<_> = plans.collect().await;
        // A plan of another version is not ours to show.
        let mut plans: Vec<RunPlan> = plans.into_iter().flatten().collect();
        plans.sort_by_key(|plan| std::cmp::Reverse(plan.start_at_ns));
        Ok(plans)
    }

    /// The newest message that the stream keeps for a subject.
    async fn newest(&self, subject: &str) -> Result<Option<Bytes>, HubError> {
        let at = "read from the stream of runs";
        let stream = self.jetstream.get_stream_no_info(RUNS_STREAM).await.map_err(HubError::at(at))?;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(message.payload)),
            Err(why) if why.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(why) => Err(HubError::at(at)(why)),
        }
    }
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
