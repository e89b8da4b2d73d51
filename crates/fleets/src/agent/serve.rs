//! The agent's side of the hub: requests and orders that arrive, announcements that leave.
//!
//! One thread serves the hub. Threads that may block carry out orders, and each test of a fleet has
//! a thread of its own.

use super::config::AgentFile;
use super::double::{Double, refused_key};
use super::host_run::AgentClock;
use super::sessions::{Request, Sessions};
use super::status::{Answerer, KeptFacts, status};
use fleet::FleetName;
use hub::{Hub, HubEvent, HubRequest};
use program::hub_access::unusable_hub;
use program::outcome::{Failure, Outcome};
use program::seed::fresh_seed;
use program::stop::Stop;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, interval, timeout};

/// Time from one announcement to the next; the hub forgets a host after six seconds.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// A signal wakes no task, so the flag is read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// At its end, the agent waits this long for the last counts of its runs. systemd ends it 5 s
/// later.
const GOODBYE_MAX: Duration = Duration::from_secs(15);

/// The agent.
struct Agent {
    file: Arc<AgentFile>,
    answerer: Answerer,
    /// A second agent with the name of this one.
    double: Double,
    hub: Hub,
    sessions: Sessions,
    has_ended: UnboundedReceiver<FleetName>,
    facts: KeptFacts,
}

pub(super) async fn serve(
    file: AgentFile,
    clock: AgentClock,
    arm_delay: Duration,
    stop: &Stop,
) -> Result<Outcome, Failure> {
    let (events, mut heard) = unbounded_channel();
    let host = file.host.clone();
    program::note!("agent {host} connects to {}", file.hub().url);
    let hub = Hub::connect_agent(&file.hub(), &host, events).await.map_err(unusable_hub)?;
    // First of all: a second agent is noticed before a request is answered.
    let mut announced = hub.announcements(&host).await.map_err(unusable_hub)?;
    let mut requests = hub.requests(&host).await.map_err(unusable_hub)?;
    let mut orders = hub.orders().await.map_err(unusable_hub)?;
    let (ended, has_ended) = unbounded_channel();
    let file = Arc::new(file);
    let answerer = Answerer { host, instance: fresh_seed(), clock };
    let way = (hub.clone(), arm_delay);
    let sessions = Sessions::new(Arc::clone(&file), stop.console(), answerer.clone(), way, ended);
    let mut agent = Agent {
        double: Double::new(answerer.instance),
        file,
        answerer,
        hub,
        sessions,
        has_ended,
        facts: KeptFacts::default(),
    };
    let mut announcements = interval(ANNOUNCE_INTERVAL);
    let mut polls = interval(POLL_INTERVAL);
    let mut outcome = Ok(());
    // The hub says that there is a connection before it has checked the rights of the key.
    let mut is_new = false;
    while outcome.is_ok() && !stop.is_set() {
        tokio::select! {
            _ = polls.tick() => {
                agent.sessions.end_orphans();
                agent.sessions.retry();
                agent.double.tick(Instant::now());
            }
            _ = announcements.tick() => outcome = agent.announce().await,
            Some(event) = heard.recv() => match event {
                HubEvent::Connected => {
                    is_new = true;
                    outcome = agent.announce().await;
                }
                HubEvent::Disconnected => program::note!("disconnected: runs go on while their lease lasts"),
                HubEvent::Refused(why) => match refused_key(&agent.file, &why) {
                    Some(failure) => outcome = Err(failure),
                    None => program::note!("{why}"),
                },
                HubEvent::Other(text) => program::note!("{text}"),
            },
            Some(status) = announced.next() => {
                if status.instance == agent.answerer.instance {
                    if std::mem::take(&mut is_new) {
                        program::note!("connected");
                    }
                } else if agent.double.hear(&status, Instant::now()) {
                    // The other one is to know as well.
                    announcements.reset_immediately();
                }
            }
            Some(request) = requests.next() => {
                if agent.request(request) {
                    announcements.reset_immediately();
                }
            }
            Some(order) = orders.next() => agent.sessions.hear(&order.run, order.kind),
            Some(run) = agent.has_ended.recv() => {
                agent.sessions.forget(&run);
                agent.sessions.retry();
                announcements.reset_immediately();
            }
            true = agent.sessions.delivered() => {}
        }
    }
    agent.end().await;
    outcome.map(|()| Outcome::Done)
}

impl Agent {
    /// Announces the host. Without a connection there is nothing to do.
    async fn announce(&mut self) -> Result<(), Failure> {
        if !self.hub.is_connected() {
            return Ok(());
        }
        self.hub.check_version().map_err(unusable_hub)?;
        let busy = self.sessions.busy();
        let instance = (self.answerer.instance, self.double.is_here());
        let status = status(&self.file, self.answerer.clock, &busy, &mut self.facts, instance);
        // The next one follows.
        let _ = self.hub.announce(&status).await;
        Ok(())
    }

    /// Carries out an order. True if ports may have changed hands.
    fn request(&mut self, request: HubRequest) -> bool {
        let request_ns = self.answerer.clock.now_ns();
        while let Ok(run) = self.has_ended.try_recv() {
            self.sessions.forget(&run);
        }
        let request = Request { request, request_ns, since: Instant::now() };
        self.sessions.request(request, self.double.refusal(&self.file.host))
    }

    /// Ends all runs, and delivers their last counts.
    async fn end(self) {
        let all = self.sessions.end();
        if timeout(GOODBYE_MAX, all).await.is_err() {
            let seconds = GOODBYE_MAX.as_secs();
            program::note!("the last counts of a run were not delivered within {seconds} s");
        }
    }
}
