//! The side of a controller: its signs of life, orders to the agents of a run, and all answers to
//! them. Two agents of one name both answer.

use crate::connection::Hub;
use crate::error::HubError;
use crate::requests::OrderKind;
use async_nats::{Message as HubMessage, StatusCode, Subscriber};
use fleet::{
    AgentAnswer, Answered, FleetName, Message, Objection, ObjectionCause, Order, OrderRequest, OrderResult,
    decode, encode, subject, two_agents,
};
use futures_util::StreamExt;
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// Time from one sign of life to the next.
pub const LEASE_INTERVAL: Duration = Duration::from_millis(500);
/// All hosts must have agreed this long before the start.
const AGREED_BEFORE: Duration = Duration::from_millis(100);
/// Time for the hub to tell what agents have announced, after one has not answered.
const ANNOUNCED_MAX: Duration = Duration::from_secs(1);
/// Answers that are remembered, for second ones that come late.
const ANSWERED_MAX: usize = 4096;

/// The controller of a run. While there is one, the agents of the run hear its signs of life.
#[derive(Debug)]
pub struct Controller {
    hub: Hub,
    run: FleetName,
    lease: Duration,
    /// The time of day, in nanoseconds since 1970.
    clock: fn() -> u64,
    inbox: String,
    asked: Arc<Mutex<Asked>>,
    tasks: [JoinHandle<()>; 2],
}

/// What was asked, and who has answered.
#[derive(Debug, Default)]
struct Asked {
    /// The number of the next order.
    next: u64,
    /// Orders without an answer, by number.
    waiting: BTreeMap<u64, Question>,
    /// Orders with one: the number, and the agent.
    answered: VecDeque<(u64, u64)>,
    /// The agent of each host that has begun the run.
    instances: BTreeMap<FleetName, u64>,
    /// Hosts of which two agents have answered.
    doubles: BTreeSet<FleetName>,
    /// Hosts whose agent is of another version, and why it does not understand orders.
    strangers: BTreeMap<FleetName, String>,
    /// No answer comes any more.
    is_closed: bool,
}

/// An order without an answer.
#[derive(Debug)]
struct Question {
    host: FleetName,
    begins: bool,
    asked_ns: u64,
    reply: oneshot::Sender<Result<Answered, String>>,
}

/// A host that has not agreed to the time to start.
#[derive(Debug)]
pub struct GoRefused {
    /// Which host, and why.
    pub objection: Objection,
    /// It has not answered, so it may start.
    pub is_silent: bool,
}

impl Asked {
    /// Takes an answer to an order, or why there will be none, at this time of day.
    fn hear(&mut self, number: u64, answer: Result<AgentAnswer, String>, answered_ns: u64) {
        let instance = answer.as_ref().ok().map(|answer| answer.instance);
        let Some(Question { host, begins, asked_ns, reply }) = self.waiting.remove(&number) else { return };
        if let Some(instance) = instance {
            self.answered.truncate(ANSWERED_MAX - 1);
            self.answered.push_front((number, instance));
        }
        let answered = match answer {
            Err(why) => Err(why),
            Ok(answer) if answer.host != host => Err(format!("the answer is that of {}", answer.host)),
            // A refusal says why, and changes nothing.
            Ok(answer) if matches!(answer.result, OrderResult::Refused { .. }) => Ok(answer),
            Ok(answer) if begins => {
                self.instances.insert(host, answer.instance);
                Ok(answer)
            }
            Ok(answer) => match self.instances.get(&host) {
                Some(known) if *known != answer.instance => {
                    let why = two_agents(&host).why;
                    self.doubles.insert(host);
                    Err(why)
                }
                _ => Ok(answer),
            },
        };
        let answered = answered.map(|answer| Answered { asked_ns, answered_ns, answer });
        // The one who asked may have given up.
        let _ = reply.send(answered);
    }

    /// Takes an answer to an order that has one already: a second agent has the name of `host`.
    fn hear_again(&mut self, number: u64, host: FleetName, instance: u64) {
        let mut answered = self.answered.iter();
        if answered.any(|(answered, known)| *answered == number && *known != instance) {
            self.doubles.insert(host);
        }
    }
}

fn lock(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the agents of a run going.
async fn keep_alive(hub: Hub, run: FleetName) {
    let mut leases = tokio::time::interval(LEASE_INTERVAL);
    loop {
        leases.tick().await;
        // Without a connection the next one may arrive.
        let _ = hub.order(&run, OrderKind::Lease).await;
    }
}

/// Reads the answers, until the hub refuses the orders to this key or is closed.
async fn read(hub: Hub, mut subscriber: Subscriber, asked: Arc<Mutex<Asked>>, clock: fn() -> u64) {
    let mut refusals = hub.refusals.clone();
    loop {
        let message = tokio::select! {
            message = subscriber.next() => message,
            _ = refusals.wait_for(Option::is_some) => None,
        };
        let Some(HubMessage { subject, status, payload, .. }) = message else { break };
        let mut words = subject.rsplit('.');
        let (host, number) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (Ok(host), Ok(number)) = (host.parse::<FleetName>(), number.parse::<u64>()) else { continue };
        let answered_ns = clock();
        let answer = match status {
            Some(StatusCode::NO_RESPONDERS) => Err("no agent is connected under this name".to_owned()),
            _ => decode::<AgentAnswer>(&payload).map_err(|why| why.to_string()),
        };
        let mut asked = lock(&asked);
        match answer {
            Ok(answer) if !asked.waiting.contains_key(&number) => {
                asked.hear_again(number, host, answer.instance);
            }
            answer => asked.hear(number, answer, answered_ns),
        }
    }
    let mut asked = lock(&asked);
    asked.is_closed = true;
    // Those who wait hear that the sender is gone.
    asked.waiting.clear();
}

impl Controller {
    /// Gets ready for orders to the agents of a run, which end it when they have heard no sign of
    /// life for the time of the `lease`. `clock` tells the time of day, in nanoseconds since 1970.
    ///
    /// # Errors
    /// No connection, or the hub refuses this key what it needs.
    pub async fn new(
        hub: &Hub,
        run: FleetName,
        lease: Duration,
        clock: fn() -> u64,
    ) -> Result<Self, HubError> {
        let inbox = hub.client.new_inbox();
        let subscribed = hub.client.subscribe(format!("{inbox}.*.*")).await;
        let subscriber = subscribed.map_err(HubError::at("listen to answers"))?;
        let asked = Arc::<Mutex<Asked>>::default();
        lock(&asked).strangers = strangers(hub).await?;
        let tasks = [
            tokio::spawn(keep_alive(hub.clone(), run.clone())),
            tokio::spawn(read(hub.clone(), subscriber, Arc::clone(&asked), clock)),
        ];
        Ok(Self { hub: hub.clone(), run, lease, clock, inbox, asked, tasks })
    }

    /// Gives an order to a host, and waits for the answer.
    ///
    /// # Errors
    /// Why there is none, or not the right one. It may have been carried out.
    pub async fn ask(&self, host: &FleetName, order: Order, timeout: Duration) -> Result<Answered, String> {
        if lock(&self.asked).strangers.contains_key(host) {
            self.check_version(host).await?;
        }
        let (reply, answer) = oneshot::channel();
        let asked_ns = (self.clock)();
        let question = Question { host: host.clone(), begins: order.begins(), asked_ns, reply };
        let number = {
            let mut asked = lock(&self.asked);
            if question.begins {
                asked.doubles.remove(host);
            }
            asked.next += 1;
            let number = asked.next;
            match asked.is_closed {
                true => drop(question),
                false => drop(asked.waiting.insert(number, question)),
            }
            number
        };
        if let Err(why) = self.publish(host, number, order).await {
            lock(&self.asked).waiting.remove(&number);
            return Err(why);
        }
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) => Err("the connection to the hub is closed".to_owned()),
            Err(_) => {
                lock(&self.asked).waiting.remove(&number);
                self.check_version(host).await?;
                Err(format!("no answer within {} ms", timeout.as_millis()))
            }
        }
    }

    /// Tells a host to end its part of the run, and waits for no answer. One that is busy gets it
    /// later.
    ///
    /// # Errors
    /// No connection.
    pub async fn release(&self, host: &FleetName) -> Result<(), String> {
        let number = {
            let mut asked = lock(&self.asked);
            asked.next += 1;
            asked.next
        };
        self.publish(host, number, Order::Release).await
    }

    async fn publish(&self, host: &FleetName, number: u64, order: Order) -> Result<(), String> {
        let lease_ms = self.lease.as_millis() as u64;
        let request = OrderRequest { run: self.run.clone(), lease_ms, order };
        let payload = self.hub.payload(&request)?;
        let reply = format!("{}.{number}.{host}", self.inbox);
        let sent = self.hub.client.publish_with_reply(subject::host_order(host), reply, payload).await;
        sent.map_err(|why| why.to_string())
    }

    /// Gives hosts that are armed their time. Returns those that have not agreed soon enough, or
    /// are two. All answers are read until shortly before the start, so a second agent with the
    /// name of a host is noticed even if it answers late. `on_agreed` hears how long it took until
    /// all had agreed.
    pub async fn go(
        &self,
        orders: Vec<(FleetName, Order)>,
        start_at_ns: u64,
        on_agreed: impl FnOnce(Duration),
    ) -> Vec<GoRefused> {
        let asked = Instant::now();
        let left = Duration::from_nanos(start_at_ns.saturating_sub((self.clock)()));
        let until = asked + left.saturating_sub(AGREED_BEFORE);
        let hosts: BTreeSet<FleetName> = orders.iter().map(|(host, _)| host.clone()).collect();
        let ask = async |(host, order): (FleetName, Order)| {
            let answered = self.ask(&host, order, until.saturating_duration_since(Instant::now())).await;
            refusal(host, answered)
        };
        let answers = join_all(orders.into_iter().map(ask)).await;
        let mut refused: Vec<GoRefused> = answers.into_iter().flatten().collect();
        if refused.is_empty() {
            on_agreed(asked.elapsed());
            sleep_until(until).await;
        }
        for host in self.doubles().into_iter().filter(|host| hosts.contains(host)) {
            refused.retain(|refused| refused.objection.host != host);
            refused.push(GoRefused { objection: two_agents(&host), is_silent: false });
        }
        refused
    }

    /// Hosts of which two agents have answered.
    pub fn doubles(&self) -> Vec<FleetName> {
        lock(&self.asked).doubles.iter().cloned().collect()
    }

    /// Refuses to go on when the hub refuses the orders to this key, or the connection is closed.
    ///
    /// # Errors
    /// It is so.
    pub fn check(&self) -> Result<(), HubError> {
        let closed = || HubError::Failed { act: "hear answers", why: "the connection is closed".to_owned() };
        if lock(&self.asked).is_closed { Err(self.hub.refused_or(closed())) } else { Ok(()) }
    }

    /// Refuses a host whose agent has announced that it is of another version.
    async fn check_version(&self, host: &FleetName) -> Result<(), String> {
        // The agent may have been started again, and the hub may be away.
        let strangers = tokio::time::timeout(ANNOUNCED_MAX, strangers(&self.hub)).await;
        let mut asked = lock(&self.asked);
        if let Ok(Ok(strangers)) = strangers {
            asked.strangers = strangers;
        }
        asked.strangers.get(host).cloned().map_or(Ok(()), Err)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// A refusal, or silence, in answer to the order to start.
fn refusal(host: FleetName, answered: Result<Answered, String>) -> Option<GoRefused> {
    let (why, tries, is_silent) = match answered {
        Err(why) => (why, Vec::new(), true),
        Ok(Answered { answer, .. }) => match answer.result {
            OrderResult::Refused { errors, tries, .. } => (errors.join("; "), tries, false),
            _ => return None,
        },
    };
    let cause = ObjectionCause::Host { tries };
    Some(GoRefused { objection: Objection { host, why, cause }, is_silent })
}

/// Hosts whose agent does not understand the orders of this version, and why.
async fn strangers(hub: &Hub) -> Result<BTreeMap<FleetName, String>, HubError> {
    let known = hub.hosts().await?;
    let old = known.hosts.iter().filter_map(|status| Some((status.host.clone(), status.version_fault()?)));
    Ok(old.chain(known.unreadable.iter().cloned()).collect())
}

impl Hub {
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

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::RefusalKind;

    fn answer(instance: u64, result: OrderResult) -> AgentAnswer {
        AgentAnswer {
            host: "h1".parse().unwrap(),
            instance,
            clock: measure::HostClock::default(),
            boot_id: String::new(),
            request_ns: 0,
            time_ns: 0,
            result,
        }
    }

    /// What becomes of an answer to an order.
    fn hear(asked: &mut Asked, begins: bool, answered: AgentAnswer) -> Result<u64, String> {
        let (reply, mut answer) = oneshot::channel();
        asked.next += 1;
        let question = Question { host: "h1".parse().unwrap(), begins, asked_ns: 0, reply };
        asked.waiting.insert(asked.next, question);
        asked.hear(asked.next, Ok(answered), 1);
        answer.try_recv().unwrap().map(|answered| answered.answer.instance)
    }

    #[test]
    fn orders_of_a_run_are_carried_out_by_one_agent() {
        let mut asked = Asked::default();
        let done = |instance| answer(instance, OrderResult::done());
        let refused = |instance| answer(instance, OrderResult::refused(RefusalKind::Host, "no"));
        assert_eq!(hear(&mut asked, false, done(3)), Ok(3), "nothing has begun");
        assert_eq!(hear(&mut asked, true, done(7)), Ok(7));
        assert_eq!(hear(&mut asked, false, done(7)), Ok(7));
        assert_eq!(hear(&mut asked, false, refused(8)), Ok(8), "the agent was started again, and says so");
        assert!(asked.doubles.is_empty());
        let why = "two agents are connected as h1, and both answered".to_owned();
        assert_eq!(hear(&mut asked, false, done(8)), Err(why));
        assert_eq!(asked.doubles.len(), 1);
        assert_eq!(hear(&mut asked, true, done(8)), Ok(8), "it begins again");
        assert_eq!(hear(&mut asked, false, done(8)), Ok(8));
        let other = AgentAnswer { host: "h2".parse().unwrap(), ..done(8) };
        assert_eq!(hear(&mut asked, false, other), Err("the answer is that of h2".to_owned()));
    }

    #[test]
    fn a_second_answer_to_one_order_is_that_of_a_second_agent() {
        let (mut asked, host) = (Asked::default(), "h1".parse::<FleetName>().unwrap());
        assert_eq!(hear(&mut asked, true, answer(7, OrderResult::done())), Ok(7));
        asked.hear_again(1, host.clone(), 7);
        assert!(asked.doubles.is_empty(), "the same answer twice");
        asked.hear_again(2, host.clone(), 8);
        assert!(asked.doubles.is_empty(), "nothing like it was asked");
        asked.hear_again(1, host.clone(), 8);
        assert_eq!(asked.doubles.into_iter().collect::<Vec<_>>(), [host]);
    }
}
