//! The runs of controllers that have ports of this host: their orders, and the end of their leases.
//!
//! A run is a part of a configuration of the Open Traffic Generator, whose orders threads carry out
//! that may block, or a part of a test of a fleet, which has a thread of its own.

use super::agent_ports::AgentPorts;
use super::config::AgentFile;
use super::host_run::{HostRun, TestOrder};
use super::status::Answerer;
use crate::words;
use fleet::{
    FleetName, Order, OrderRequest, OrderResult, OtgPart, Part, RefusalKind, Stat, TestPart, decode,
};
use hub::{Hub, HubRequest, OrderKind};
use ports::host_ports::HostPorts;
use program::console::Console;
use program::monitor::sources::RunList;
use program::outcome::Failure;
use std::collections::{BTreeMap, VecDeque};
use std::future::ready;
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};
use units::{Nanos, human_duration};

/// Time from one try to deliver counts to the next.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// A port of a run that is ending is free after this time.
const ENDING_MAX: Duration = Duration::from_secs(5);
/// Tests that were ended before they came here, which are remembered.
const ENDED_EARLY_MAX: usize = 64;

/// What a run does.
enum Work {
    /// Flows of a configuration.
    Config(Arc<HostPorts>),
    /// Flows of a test that has its ports, and no engines yet.
    Prepared(TestPart),
    /// Flows of a test, by its thread.
    Test(std_mpsc::Sender<TestOrder>),
}

/// A run that has ports.
struct Session {
    work: Work,
    ports: Vec<FleetName>,
    /// When its controller was heard.
    heard: Instant,
    /// It ends when no controller was heard for this time.
    lease: Duration,
    /// Its ports are free soon.
    is_ending: bool,
}

/// A request, and when it came.
pub(super) struct Request {
    pub(super) request: HubRequest,
    /// By the agent's clock.
    pub(super) request_ns: u64,
    pub(super) since: Instant,
}

/// Why a run may not have ports now.
struct Obstacle {
    why: String,
    /// It goes away soon.
    is_ending: bool,
}

/// All runs.
pub(super) struct Sessions {
    file: Arc<AgentFile>,
    console: Console,
    answerer: Answerer,
    hub: Hub,
    /// For tests: a run is ready this time later.
    arm_delay: Duration,
    sessions: BTreeMap<FleetName, Session>,
    /// Gets the name of each that has ended.
    ended: UnboundedSender<FleetName>,
    /// Requests for ports of runs that are ending.
    waiting: Vec<(Request, OrderRequest)>,
    /// Tests that were ended before they came here: a request came late. A configuration may be
    /// prepared again under the name of its run.
    ended_early: VecDeque<FleetName>,
    /// Counts that are not delivered yet, one task per test.
    deliveries: JoinSet<()>,
}

impl Sessions {
    pub(super) fn new(
        file: Arc<AgentFile>,
        console: &Console,
        answerer: Answerer,
        (hub, arm_delay): (Hub, Duration),
        ended: UnboundedSender<FleetName>,
    ) -> Self {
        Self {
            file,
            console: console.clone(),
            answerer,
            hub,
            arm_delay,
            sessions: BTreeMap::new(),
            ended,
            waiting: Vec::new(),
            ended_early: VecDeque::new(),
            deliveries: JoinSet::new(),
        }
    }

    /// Ports and the runs that have them.
    pub(super) fn busy(&self) -> BTreeMap<FleetName, FleetName> {
        let ports = |(run, session): (&FleetName, &Session)| -> Vec<(FleetName, FleetName)> {
            session.ports.iter().map(|port| (port.clone(), run.clone())).collect()
        };
        self.sessions.iter().flat_map(ports).collect()
    }

    /// The ports of a run that has ended are free.
    pub(super) fn forget(&mut self, run: &FleetName) {
        self.sessions.remove(run);
    }

    /// The counts of a test are delivered.
    pub(super) async fn delivered(&mut self) -> bool {
        self.deliveries.join_next().await.is_some()
    }

    /// Takes an order to all hosts of a run.
    pub(super) fn hear(&mut self, run: &FleetName, kind: OrderKind) {
        let Some(session) = self.sessions.get_mut(run) else {
            if kind == OrderKind::Stop {
                self.end_early(run);
            }
            return;
        };
        session.heard = Instant::now();
        match kind {
            OrderKind::Lease => {}
            OrderKind::Drain => session.tell(TestOrder::Drain),
            OrderKind::Stop => self.release(run),
        }
    }

    /// A test that is not here does not begin later.
    fn end_early(&mut self, run: &FleetName) {
        if !self.ended_early.contains(run) {
            self.ended_early.truncate(ENDED_EARLY_MAX - 1);
            self.ended_early.push_front(run.clone());
        }
    }

    /// Ends the runs whose lease has ended.
    pub(super) fn end_orphans(&mut self) {
        let is_orphan = |session: &Session| !session.is_ending && session.heard.elapsed() >= session.lease;
        let orphans = self.sessions.iter().filter(|(_, session)| is_orphan(session));
        for run in orphans.map(|(run, _)| run.clone()).collect::<Vec<_>>() {
            let Some(session) = self.sessions.get_mut(&run) else { continue };
            let lease = human_duration(session.lease.as_nanos() as u64);
            program::note!("run {run}: no controller for {lease}: its flows end, its ports are free");
            session.tell(TestOrder::Orphan);
            self.release(&run);
        }
    }

    /// Ends a run, and lets its ports go.
    fn release(&mut self, run: &FleetName) {
        let Some(session) = self.sessions.get_mut(run) else { return };
        if std::mem::replace(&mut session.is_ending, true) {
            return;
        }
        match &session.work {
            Work::Config(part) => {
                let (part, run, ended) = (Arc::clone(part), run.clone(), self.ended.clone());
                spawn_blocking(move || {
                    part.carry_out(Order::Release);
                    // The agent may have ended.
                    let _ = ended.send(run);
                });
            }
            Work::Prepared(_) => self.forget(run),
            Work::Test(_) => session.tell(TestOrder::Stop),
        }
    }

    /// Ends all, and delivers the last counts.
    pub(super) async fn end(mut self) {
        let mut parts = Vec::new();
        for session in std::mem::take(&mut self.sessions).into_values() {
            session.tell(TestOrder::Leave);
            if let Work::Config(part) = session.work {
                parts.push(spawn_blocking(move || part.carry_out(Order::Release)));
            }
        }
        for part in parts {
            // A panic was printed.
            let _ = part.await;
        }
        while self.delivered().await {}
    }

    /// Looks again at requests for ports that are free soon.
    pub(super) fn retry(&mut self) {
        for (request, order) in std::mem::take(&mut self.waiting) {
            self.carry_out(request, order);
        }
    }

    /// Carries out an order and answers. `refusal` has why no run begins now, and what to try. True
    /// if ports may have changed hands.
    pub(super) fn request(&mut self, request: Request, refusal: Option<(String, Vec<String>)>) -> bool {
        let order: OrderRequest = match decode(&request.request.payload) {
            Ok(order) => order,
            Err(why) => {
                self.refuse(request, RefusalKind::Invalid, why.to_string());
                return false;
            }
        };
        // A run that has ports goes on.
        if let Some((why, tries)) = refusal.filter(|_| !self.sessions.contains_key(&order.run)) {
            let refused = OrderResult::Refused { kind: RefusalKind::Host, errors: vec![why], tries };
            self.answer(request, ready(refused));
            return false;
        }
        // Counts are read many times per second, and change nothing that is announced.
        let is_news = matches!(order.order, Order::Prepare(_) | Order::Release);
        self.carry_out(request, order);
        is_news
    }

    fn carry_out(&mut self, request: Request, order: OrderRequest) {
        let OrderRequest { run, lease_ms, order } = order;
        match order {
            Order::Check { ref part, .. } | Order::Prepare(ref part) => {
                let ports = match self.ports_of(part) {
                    Ok(ports) => ports,
                    Err(why) => return self.refuse(request, RefusalKind::Invalid, why),
                };
                if let Some(Obstacle { why, is_ending }) = self.obstacle(&run, part, &ports) {
                    if !is_ending || request.since.elapsed() >= ENDING_MAX {
                        return self.refuse(request, RefusalKind::Host, why);
                    }
                    return self.waiting.push((request, OrderRequest { run, lease_ms, order }));
                }
                self.begin(request, (run, ports, Duration::from_millis(lease_ms)), order);
            }
            Order::Release => {
                if !self.sessions.contains_key(&run) {
                    self.end_early(&run);
                    return self.answer(request, ready(OrderResult::done()));
                }
                self.order(request, &run, order);
            }
            order => self.order(request, &run, order),
        }
    }

    /// Checks a part, or gives it its ports.
    fn begin(
        &mut self,
        request: Request,
        (run, ports, lease): (FleetName, Vec<FleetName>, Duration),
        order: Order,
    ) {
        let is_check = matches!(order, Order::Check { .. });
        let (Order::Check { part, .. } | Order::Prepare(part)) = &order else { return };
        let work = match part {
            Part::Test(part) => Work::Prepared(part.clone()),
            Part::Config(_) => Work::Config(match self.sessions.get(&run).map(|session| &session.work) {
                Some(Work::Config(part)) => Arc::clone(part),
                _ => {
                    let rules = Box::new(AgentPorts(Arc::clone(&self.file)));
                    Arc::new(HostPorts::new(rules, RunList::of(&self.console)))
                }
            }),
        };
        match &work {
            Work::Config(part) => {
                let part = Arc::clone(part);
                self.answer(request, blocking(move || part.carry_out_received(order)));
            }
            _ => self.answer(request, ready(OrderResult::done())),
        }
        if !is_check {
            let session = Session { work, ports, heard: Instant::now(), lease, is_ending: false };
            self.sessions.insert(run, session);
        }
    }

    /// Gives an order to a run that has ports.
    fn order(&mut self, request: Request, run: &FleetName, order: Order) {
        let Some(session) = self.sessions.get_mut(run).filter(|session| !session.is_ending) else {
            let result = match order {
                // It lets go what it had.
                Order::Release => OrderResult::done(),
                _ => OrderResult::Refused {
                    kind: RefusalKind::Host,
                    errors: vec![format!(
                        "it has no ports for run {run}: its lease has ended, or the agent was started again"
                    )],
                    tries: vec!["set the configuration again, or run the test again".to_owned()],
                },
            };
            return self.answer(request, ready(result));
        };
        session.heard = Instant::now();
        let is_release = order == Order::Release;
        match (&session.work, order) {
            (Work::Config(part), order) => {
                session.is_ending = is_release;
                let part = Arc::clone(part);
                let order = match order {
                    Order::Go { start_at_ns } => {
                        let to_host = |unix_ns| self.answerer.clock.to_host(unix_ns).unix_ns;
                        Order::Go { start_at_ns: start_at_ns.map(to_host) }
                    }
                    order => order,
                };
                let ends = is_release.then(|| (run.clone(), self.ended.clone()));
                self.answer(request, async move {
                    let result = blocking(move || part.carry_out_received(order)).await;
                    // The ports are free before the controller knows.
                    ends.into_iter().for_each(|(run, ended)| drop(ended.send(run)));
                    result
                });
            }
            (_, Order::Release | Order::Stop { .. }) => {
                self.release(run);
                self.answer(request, ready(OrderResult::done()));
            }
            (Work::Prepared(part), Order::Arm { .. }) => {
                let part = part.clone();
                self.arm(request, run, part);
            }
            (Work::Test(orders), Order::Go { start_at_ns: Some(start_at_ns) }) => {
                let (reply, answered) = oneshot::channel();
                // Without a thread, the sender of the answer is gone at once.
                let _ = orders.send(TestOrder::Go(start_at_ns, reply));
                self.answer(request, async move {
                    match answered.await {
                        Ok(Ok(())) => OrderResult::done(),
                        Ok(Err(why)) => OrderResult::refused(RefusalKind::Host, why.to_string()),
                        Err(_) => OrderResult::refused(RefusalKind::Host, "the run has ended"),
                    }
                });
            }
            _ => {
                let why = format!("run {run} is a test that cannot do this now");
                self.refuse(request, RefusalKind::Invalid, why);
            }
        }
    }

    /// Starts the thread of a test, which answers once its engines are ready.
    fn arm(&mut self, request: Request, run: &FleetName, part: TestPart) {
        let (orders, inbox) = std_mpsc::channel();
        let (armed, is_armed) = oneshot::channel();
        let (stats, counted) = unbounded_channel();
        let (file, ended, arm_delay) = (Arc::clone(&self.file), self.ended.clone(), self.arm_delay);
        let (Answerer { clock, instance, .. }, name) = (self.answerer.clone(), run.clone());
        let body = move || {
            // Messages are lost with the runtime, which ends the run as well. The ports are free
            // before a controller reads that the run has ended.
            let end = || drop(ended.send(name.clone()));
            thread::sleep(arm_delay);
            match HostRun::arm(&file, &name, &part, clock, instance) {
                Ok(ready) => {
                    let _ = armed.send(OrderResult::done());
                    let last = ready.serve(&inbox, &stats);
                    end();
                    last.into_iter().for_each(|stat| drop(stats.send(stat)));
                }
                Err(failure) => {
                    end();
                    let _ = armed.send(refusal_of(&failure));
                }
            }
        };
        if let Err(why) = thread::Builder::new().name("fleet-run".to_owned()).spawn(body) {
            return self.refuse(request, RefusalKind::Host, format!("no thread for the run: {why}"));
        }
        if let Some(session) = self.sessions.get_mut(run) {
            session.work = Work::Test(orders);
        }
        self.answer(request, async move {
            let lost = |_| OrderResult::refused(RefusalKind::Host, "the thread of the run ended");
            is_armed.await.unwrap_or_else(lost)
        });
        self.deliveries.spawn(deliver(self.hub.clone(), counted));
    }

    /// The ports of this host that a part names.
    fn ports_of(&self, part: &Part) -> Result<Vec<FleetName>, String> {
        match part {
            Part::Config(OtgPart { config, ports, .. }) => {
                let rules = AgentPorts(Arc::clone(&self.file));
                let port = |index: &u32| {
                    let location = config["ports"][*index as usize]["location"].as_str().unwrap_or_default();
                    let port = rules.port(location).map(|port| port.name.clone());
                    port.map_err(|why| format!("ports[{index}].location: {why}"))
                };
                ports.iter().map(port).collect()
            }
            Part::Test(TestPart { flows, duration_ns, .. }) => {
                let mut ports = Vec::new();
                for flow in flows {
                    let port = self.file.port(&flow.port)?;
                    words::parse(&flow.send, port.device(), Nanos(*duration_ns))?;
                    ports.push(port.name.clone());
                }
                ports.sort_unstable();
                ports.dedup();
                Ok(ports)
            }
        }
    }

    /// Why a run may not have these ports now.
    fn obstacle(&self, run: &FleetName, part: &Part, ports: &[FleetName]) -> Option<Obstacle> {
        let lasting = |why| Some(Obstacle { why, is_ending: false });
        if matches!(part, Part::Test(_)) && self.ended_early.contains(run) {
            return lasting(format!("run {run} was ended before it came here"));
        }
        if let Some(own) = self.sessions.get(run) {
            match own.work {
                _ if own.is_ending => {
                    return Some(Obstacle { why: format!("run {run} is ending"), is_ending: true });
                }
                // Its parts are put in force one after another.
                Work::Config(_) if matches!(part, Part::Config(_)) => {}
                _ => return lasting(format!("run {run} is here already")),
            }
        }
        let busy = |port: &FleetName| {
            let has = |(name, session): &(&FleetName, &Session)| {
                session.ports.contains(port) && (*name != run || session.is_ending)
            };
            let (run, session) = self.sessions.iter().find(has)?;
            let why = format!("port {port} is in use by run {run}");
            Some(Obstacle { why, is_ending: session.is_ending })
        };
        // One that lasts decides.
        let mut obstacles: Vec<Obstacle> = ports.iter().filter_map(busy).collect();
        obstacles.sort_by_key(|obstacle| obstacle.is_ending);
        obstacles.into_iter().next()
    }

    fn refuse(&self, request: Request, kind: RefusalKind, why: String) {
        self.answer(request, ready(OrderResult::refused(kind, why)));
    }

    /// Answers once an order was carried out.
    fn answer(&self, request: Request, result: impl Future<Output = OrderResult> + Send + 'static) {
        let answerer = self.answerer.clone();
        tokio::spawn(async move {
            let answer = answerer.answer(request.request_ns, result.await);
            // Without a connection, the controller asks again or gives up.
            let _ = request.request.answer(&answer).await;
        });
    }
}

impl Session {
    /// Tells the thread of a test, if it is one. A test that has ended needs no order.
    fn tell(&self, order: TestOrder) {
        if let Work::Test(orders) = &self.work {
            let _ = orders.send(order);
        }
    }
}

/// Carries out what may block.
async fn blocking(carry_out: impl FnOnce() -> OrderResult + Send + 'static) -> OrderResult {
    let lost = |_| OrderResult::refused(RefusalKind::Host, "the thread of the order ended");
    spawn_blocking(carry_out).await.unwrap_or_else(lost)
}

/// A failure as a refusal, with what to try.
fn refusal_of(failure: &Failure) -> OrderResult {
    let text = failure.to_string();
    let (tries, why): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("  try: "));
    let why = why.join(" ").trim_start_matches("wirerate: ").to_owned();
    let tries = tries.iter().map(|line| line.trim_start_matches("  try: ").to_owned()).collect();
    OrderResult::Refused { kind: RefusalKind::Host, errors: vec![why], tries }
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
