//! What the hub keeps: hosts, plans, and the counts of each host. Hosts write into streams of their
//! own, so that none can fill or empty that of another.

use crate::connection::Hub;
use crate::error::HubError;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use fleet::FleetName;
use fleet::subject::{HOSTS_BUCKET, HOSTS_STREAM, PLANS, PLANS_STREAM, counts_stream, stat_of_any_run};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::time::Duration;

/// A host that has announced nothing for this time is forgotten.
pub const HOST_AGE_MAX: Duration = Duration::from_secs(6);
/// Longest announcement.
const HOST_LEN_MAX: i32 = 1 << 18;
/// Runs are kept for this time.
const RUN_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Bytes of all plans; the oldest are forgotten beyond.
const PLANS_BYTES_MAX: i64 = 1 << 26;
/// Bytes of the counts of a host; the oldest are forgotten beyond.
const COUNTS_BYTES_MAX: i64 = 1 << 25;
/// Messages of a host in one run; the oldest are forgotten beyond.
const COUNTS_OF_RUN_MAX: i64 = 2 * fleet::SECONDS_MAX as i64;

/// The newest announcement of each host. Rollups would let a host remove those of others.
fn hosts() -> Config {
    Config {
        name: HOSTS_STREAM.to_owned(),
        description: Some("hosts of wirerate fleet".to_owned()),
        subjects: vec![format!("$KV.{HOSTS_BUCKET}.*")],
        max_messages_per_subject: 1,
        max_message_size: HOST_LEN_MAX,
        max_age: HOST_AGE_MAX,
        duplicate_window: HOST_AGE_MAX,
        allow_rollup: false,
        deny_delete: true,
        allow_direct: true,
        discard: DiscardPolicy::Old,
        storage: StorageType::Memory,
        ..Config::default()
    }
}

/// The plans of runs, which no host may write.
fn plans() -> Config {
    Config {
        name: PLANS_STREAM.to_owned(),
        description: Some("plans of wirerate fleet".to_owned()),
        subjects: vec![PLANS.to_owned()],
        max_bytes: PLANS_BYTES_MAX,
        max_messages_per_subject: 1,
        max_age: RUN_AGE_MAX,
        allow_direct: true,
        storage: StorageType::File,
        ..Config::default()
    }
}

/// The counts of a host.
fn counts(host: &FleetName) -> Config {
    Config {
        name: counts_stream(host),
        description: Some(format!("counts of {host} in runs of wirerate fleet")),
        subjects: vec![stat_of_any_run(host)],
        max_bytes: COUNTS_BYTES_MAX,
        max_messages_per_subject: COUNTS_OF_RUN_MAX,
        max_age: RUN_AGE_MAX,
        allow_direct: true,
        storage: StorageType::File,
        ..Config::default()
    }
}

/// True if a stream keeps what is wanted, within the same limits.
fn is_as_wanted(is: &Config, wanted: &Config) -> bool {
    is.subjects == wanted.subjects
        && is.max_bytes.max(0) == wanted.max_bytes
        && is.max_messages_per_subject.max(0) == wanted.max_messages_per_subject
        && is.max_age == wanted.max_age
        && is.allow_rollup == wanted.allow_rollup
        && is.allow_direct == wanted.allow_direct
        && is.storage == wanted.storage
}

impl Hub {
    /// Makes the streams of hosts and plans, unless they are there.
    ///
    /// # Errors
    /// The hub refuses: it may have no JetStream.
    pub async fn set_up(&self) -> Result<(), HubError> {
        self.ensure(hosts(), "make the stream of hosts on the hub").await?;
        self.ensure(plans(), "make the stream of runs on the hub").await
    }

    /// Makes the streams that keep the counts of these hosts, unless they are there.
    ///
    /// # Errors
    /// The hub refuses: it may have no space.
    pub async fn keep_counts_of(&self, hosts: &[FleetName]) -> Result<(), HubError> {
        let at = "make the stream of a host's counts on the hub";
        let mut made: FuturesUnordered<_> = hosts.iter().map(|host| self.ensure(counts(host), at)).collect();
        while let Some(made) = made.next().await {
            made?;
        }
        Ok(())
    }

    /// Makes a stream, or gives one that is there the wanted limits.
    async fn ensure(&self, wanted: Config, at: &'static str) -> Result<(), HubError> {
        let missing = match self.jetstream.get_stream(&wanted.name).await {
            Ok(stream) if is_as_wanted(&stream.cached_info().config, &wanted) => return Ok(()),
            Ok(_) => false,
            Err(why) => match why.kind() {
                GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                    true
                }
                _ => return Err(self.refused_or(HubError::at(at)(why))),
            },
        };
        let made = async {
            match missing {
                true => self.jetstream.create_stream(wanted).await.map(drop),
                false => self.jetstream.update_stream(wanted).await.map(drop),
            }
        };
        let mut refusals = self.refusals.clone();
        let made = tokio::select! {
            made = made => made,
            _ = refusals.wait_for(Option::is_some) => return Err(self.refused_or(HubError::Refused(at.to_owned()))),
        };
        match made {
            // Another controller has made it meanwhile.
            Err(why) if is_there(&why.kind()) => Ok(()),
            made => made.map_err(|why| self.refused_or(HubError::at(at)(why))),
        }
    }

    /// The refusal of the hub, if there was one; otherwise this error.
    pub(crate) fn refused_or(&self, error: HubError) -> HubError {
        self.refusal().unwrap_or(error)
    }
}

fn is_there(kind: &CreateStreamErrorKind) -> bool {
    matches!(kind, CreateStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NAME_EXIST)
}
