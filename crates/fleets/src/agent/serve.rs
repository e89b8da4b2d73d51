//! The agent's side of the hub: requests, orders, announcements, and the delivery of counts.
//!
//! One thread serves the hub. Each run has a thread of its own, which arms, watches and ends its
//! ports; channels connect them. Orders of controllers of the Open Traffic Generator are carried
//! out by threads that may block.

use super::config::AgentFile;
use super::double::{Double, refused_key};
use super::host_run::{AgentClock, AgentOrder, HostRun};
use super::otg::OtgSessions;
use super::status::{Answerer, KeptFacts, status};
use fleet::{AbortRequest, AnswerState, FleetName, Go, OtgRequest, Prepare, RefusalKind, Stat, decode};
use hub::{Hub, HubEvent, HubRequest, OrderKind, RequestKind};
use program::hub_access::unusable_hub;
use program::outcome::{Failure, Outcome};
use program::seed::fresh_seed;
use program::stop::Stop;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, interval, sleep, timeout};

/// Time from one announcement to the next; the hub forgets a host after six seconds.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// A signal wakes no task, so the flag is read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time from one try to deliver counts to the next.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// At its end, the agent waits this long for the last counts of its runs. systemd ends it 5 s
/// later.
const GOODBYE_MAX: Duration = Duration::from_secs(15);

/// A port of an aborted run is free after this time; one of a run that has started is not.
const ENDING_MAX: Duration = Duration::from_secs(5);
/// Aborted runs that are remembered.
const ABORTED_MAX: usize = 64;

/// A run that this host takes part in.
struct ActiveRun {
    orders: std_mpsc::Sender<AgentOrder>,
    ports: Vec<FleetName>,
    /// It was aborted, so its ports are free soon.
    is_ending: bool,
}

/// A request to prepare a run on ports that are free soon.
struct WaitingRequest {
    request: HubRequest,
    request_ns: u64,
    since: Instant,
}

/// Why a host cannot take part in a run now.
struct Obstacle {
    why: String,
    /// It goes away soon.
    is_ending: bool,
}

/// The agent.
struct Agent {
    file: Arc<AgentFile>,
    answerer: Answerer,
    /// A second agent with the name of this one.
    double: Double,
    arm_delay: Duration,
    hub: Hub,
    runs: BTreeMap<FleetName, ActiveRun>,
    /// Controllers of the Open Traffic Generator that have ports.
    otg: OtgSessions,
    /// Gets the name of each run that has ended.
    ended: UnboundedSender<FleetName>,
    has_ended: UnboundedReceiver<FleetName>,
    /// Requests for ports of runs that are ending.
    waiting: Vec<WaitingRequest>,
    /// Runs that were aborted: a request to prepare one of them came late.
    aborted: VecDeque<FleetName>,
    /// Counts that are not delivered yet, one task per run.
    deliveries: tokio::task::JoinSet<()>,
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
    let mut agent = Agent {
        otg: OtgSessions::new(Arc::clone(&file), stop.console(), answerer.clone(), ended.clone()),
        double: Double::new(answerer.instance),
        file,
        answerer,
        arm_delay,
        hub,
        runs: BTreeMap::new(),
        ended,
        has_ended,
        waiting: Vec::new(),
        aborted: VecDeque::new(),
        deliveries: tokio::task::JoinSet::new(),
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
                agent.otg.end_orphans();
                agent.retry();
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
                // Counts are read many times per second, and change nothing that is announced.
                let is_news = request.kind != RequestKind::Otg;
                agent.request(request);
                if is_news {
                    announcements.reset_immediately();
                }
            }
            Some(order) = orders.next() => agent.order(&order.run, order.kind),
            Some(run) = agent.has_ended.recv() => {
                agent.forget(&run);
                agent.retry();
                announcements.reset_immediately();
            }
            Some(_) = agent.deliveries.join_next() => {}
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
        let busy = |(run, active): (&FleetName, &ActiveRun)| -> Vec<(FleetName, FleetName)> {
            active.ports.iter().map(|port| (port.clone(), run.clone())).collect()
        };
        let busy: BTreeMap<FleetName, FleetName> =
            self.runs.iter().flat_map(busy).chain(self.otg.busy()).collect();
        let instance = (self.answerer.instance, self.double.is_here());
        let status = status(&self.file, self.answerer.clock, &busy, &mut self.facts, instance);
        // The next one follows.
        let _ = self.hub.announce(&status).await;
        Ok(())
    }

    fn request(&mut self, request: HubRequest) {
        let request_ns = self.answerer.clock.now_ns();
        while let Ok(run) = self.has_ended.try_recv() {
            self.forget(&run);
        }
        match request.kind {
            RequestKind::Prepare => self.prepare(request, request_ns, Instant::now()),
            RequestKind::Go => self.go(request, request_ns),
            RequestKind::Otg => self.otg(request, request_ns),
            RequestKind::Abort => match decode::<AbortRequest>(&request.payload) {
                Ok(abort) => self.order(&abort.run, OrderKind::Abort),
                Err(why) => program::note!("a request to abort a run was ignored: {why}"),
            },
        }
    }

    /// A run has ended: its ports are free.
    fn forget(&mut self, run: &FleetName) {
        self.runs.remove(run);
        self.otg.forget(run);
    }

    /// Carries out an order of a controller of the Open Traffic Generator.
    fn otg(&mut self, request: HubRequest, request_ns: u64) {
        let otg: OtgRequest = match decode(&request.payload) {
            Ok(otg) => otg,
            Err(why) => return self.otg.refuse(request, request_ns, RefusalKind::Invalid, why.to_string()),
        };
        // A run that has ports goes on.
        if let Some((why, _)) = self.double.refusal(&self.file.host).filter(|_| !self.otg.has(&otg.run)) {
            return self.otg.refuse(request, request_ns, RefusalKind::Host, why);
        }
        let (runs, name) = (&self.runs, otg.run.clone());
        let busy: BTreeMap<FleetName, FleetName> = self.otg.busy().filter(|(_, run)| *run != name).collect();
        let obstacle = |port: &FleetName| {
            let run = runs.iter().find(|(_, active)| active.ports.contains(port)).map(|(run, _)| run);
            run.or_else(|| busy.get(port)).map(|run| in_use(port, run))
        };
        self.otg.request(request, otg, request_ns, obstacle);
    }

    /// Refuses a request: why, and what to try.
    fn refuse(&self, request: HubRequest, request_ns: u64, why: String, tries: Vec<String>) {
        let answer = self.answerer.answer(request_ns, Some((why, tries)), AnswerState::Refused);
        tokio::spawn(async move { drop(request.answer(&answer).await) });
    }

    /// Why this host cannot take part in a run on these ports now.
    fn obstacle(&self, run: &FleetName, ports: &[FleetName]) -> Option<Obstacle> {
        let lasting = |why| Some(Obstacle { why, is_ending: false });
        if self.aborted.contains(run) {
            return lasting(format!("run {run} was aborted"));
        }
        if self.runs.contains_key(run) {
            return lasting(format!("run {run} is here already"));
        }
        let owner = |port: &FleetName| {
            let owner = self.runs.iter().find(|(_, active)| active.ports.contains(port));
            owner.map(|(run, active)| (run, active.is_ending)).or_else(|| self.otg.owner(port))
        };
        let busy = |port: &FleetName| {
            let (run, is_ending) = owner(port)?;
            Some(Obstacle { why: in_use(port, run), is_ending })
        };
        // One that lasts decides.
        let mut obstacles: Vec<Obstacle> = ports.iter().filter_map(busy).collect();
        obstacles.sort_by_key(|obstacle| obstacle.is_ending);
        obstacles.into_iter().next()
    }

    /// Looks again at requests for ports that are free soon.
    fn retry(&mut self) {
        for WaitingRequest { request, request_ns, since } in std::mem::take(&mut self.waiting) {
            self.prepare(request, request_ns, since);
        }
    }

    /// Starts the thread of a run, which answers once it is ready.
    fn prepare(&mut self, request: HubRequest, request_ns: u64, since: Instant) {
        let prepare: Prepare = match decode(&request.payload) {
            Ok(prepare) => prepare,
            Err(why) => return self.refuse(request, request_ns, why.to_string(), Vec::new()),
        };
        if let Some((why, tries)) = self.double.refusal(&self.file.host) {
            return self.refuse(request, request_ns, why, tries);
        }
        let mut ports: Vec<FleetName> = prepare.flows.iter().map(|flow| flow.port.clone()).collect();
        ports.sort_unstable();
        ports.dedup();
        if let Some(Obstacle { why, is_ending }) = self.obstacle(&prepare.run, &ports) {
            if !is_ending || since.elapsed() >= ENDING_MAX {
                return self.refuse(request, request_ns, why, Vec::new());
            }
            return self.waiting.push(WaitingRequest { request, request_ns, since });
        }
        let run = prepare.run.clone();
        let (orders, inbox) = std_mpsc::channel();
        let (armed, is_armed) = oneshot::channel::<Option<(String, Vec<String>)>>();
        let (stats, counted) = unbounded_channel();
        let (file, answerer, arm_delay, ended) =
            (Arc::clone(&self.file), self.answerer.clone(), self.arm_delay, self.ended.clone());
        let Answerer { clock, instance, .. } = answerer;
        let body = move || {
            // Messages are lost with the runtime, which ends the run as well. The ports are free
            // before a controller reads that the run has ended.
            let end = || drop(ended.send(prepare.run.clone()));
            thread::sleep(arm_delay);
            match HostRun::arm(&file, &prepare, clock, instance) {
                Ok(ready) => {
                    let _ = armed.send(None);
                    let last = ready.serve(&inbox, &stats);
                    end();
                    last.into_iter().for_each(|stat| drop(stats.send(stat)));
                }
                Err(failure) => {
                    end();
                    let _ = armed.send(Some(refusal_of(&failure)));
                }
            }
        };
        if let Err(why) = thread::Builder::new().name("fleet-run".to_owned()).spawn(body) {
            return self.refuse(request, request_ns, format!("no thread for the run: {why}"), Vec::new());
        }
        self.runs.insert(run, ActiveRun { orders, ports, is_ending: false });
        tokio::spawn(async move {
            let lost = || Some(("the thread of the run ended".to_owned(), Vec::new()));
            let refusal = is_armed.await.unwrap_or_else(|_| lost());
            let _ = request.answer(&answerer.answer(request_ns, refusal, AnswerState::Armed)).await;
        });
        self.deliveries.spawn(deliver(self.hub.clone(), counted));
    }

    fn go(&self, request: HubRequest, request_ns: u64) {
        let go: Go = match decode(&request.payload) {
            Ok(go) => go,
            Err(why) => return self.refuse(request, request_ns, why.to_string(), Vec::new()),
        };
        let (reply, answered) = oneshot::channel();
        let is_sent =
            self.runs.get(&go.run).map(|active| active.orders.send(AgentOrder::Go(go.clone(), reply)));
        if !matches!(is_sent, Some(Ok(()))) {
            let why = format!("not_armed: run {} is not armed here", go.run);
            return self.refuse(request, request_ns, why, Vec::new());
        }
        let answerer = self.answerer.clone();
        tokio::spawn(async move {
            let refusal = match answered.await {
                Ok(Ok(())) => None,
                Ok(Err(why)) => Some((why.to_string(), Vec::new())),
                Err(_) => Some(("the run has ended".to_owned(), Vec::new())),
            };
            let _ = request.answer(&answerer.answer(request_ns, refusal, AnswerState::Counting)).await;
        });
    }

    fn order(&mut self, run: &FleetName, kind: OrderKind) {
        if kind == OrderKind::Lease {
            self.otg.hear(run);
        }
        if kind == OrderKind::Abort && !self.runs.contains_key(run) {
            self.aborted.truncate(ABORTED_MAX - 1);
            self.aborted.push_front(run.clone());
        }
        let Some(active) = self.runs.get_mut(run) else { return };
        active.is_ending |= kind == OrderKind::Abort;
        let order = match kind {
            OrderKind::Lease => AgentOrder::Lease,
            OrderKind::Drain => AgentOrder::Drain,
            OrderKind::Stop => AgentOrder::Stop,
            OrderKind::Abort => AgentOrder::Abort,
        };
        // A run that has ended needs no order.
        let _ = active.orders.send(order);
    }

    /// Ends all runs, and delivers their last counts.
    async fn end(mut self) {
        for active in self.runs.values() {
            let _ = active.orders.send(AgentOrder::Leave);
        }
        let all = async {
            self.otg.end().await;
            while self.deliveries.join_next().await.is_some() {}
        };
        if timeout(GOODBYE_MAX, all).await.is_err() {
            let seconds = GOODBYE_MAX.as_secs();
            program::note!("the last counts of a run were not delivered within {seconds} s");
        }
    }
}

fn in_use(port: &FleetName, run: &FleetName) -> String {
    format!("port {port} is in use by run {run}")
}

/// A failure as two parts: why, and what to try.
fn refusal_of(failure: &Failure) -> (String, Vec<String>) {
    let text = failure.to_string();
    let (tries, why): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("  try: "));
    let why = why.join(" ").trim_start_matches("wirerate: ").to_owned();
    (why, tries.iter().map(|line| line.trim_start_matches("  try: ").to_owned()).collect())
}

/// Delivers the counts of a run, always the newest. The last ones are kept until the hub has them.
async fn deliver(hub: Hub, mut counted: UnboundedReceiver<Stat>) {
    let mut waiting: Option<Stat> = None;
    loop {
        let Some(mut stat) = (match waiting.take() {
            Some(stat) => Some(stat),
            None => counted.recv().await,
        }) else {
            return;
        };
        while let Ok(newer) = counted.try_recv() {
            stat = Stat { why_not_kept: stat.why_not_kept, ..newer };
        }
        let is_last = stat.is_last;
        let since = Instant::now();
        match hub.deliver(&stat).await {
            Ok(()) if is_last => return,
            Ok(()) => {}
            Err(why) => {
                // The controller hears it at once, since it listens to what the hub cannot keep.
                // A hub that is away has refused nothing.
                let refused = hub.is_connected().then(|| why.to_string());
                let why_not_kept = refused.or_else(|| stat.why_not_kept.take());
                waiting = Some(Stat { why_not_kept, ..stat });
                sleep(RETRY_INTERVAL.saturating_sub(since.elapsed())).await;
            }
        }
    }
}
