//! Open connections of a server: how many there may be, and which one ends when there are too many.
//!
//! A new connection always gets a place. If there is none, the oldest connection that waits for its
//! client ends: for a request, for the rest of a body, or for an answer to be read. Connections
//! that have never made a request end first.

use bytes::Bytes;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerLimits {
    /// Open connections, of all clients.
    pub(crate) connections_max: usize,
    /// Time for the head of a request, and for the handshake of TLS.
    pub(crate) head_time: Duration,
    /// Time for the body of a request.
    pub(crate) body_time: Duration,
    /// Bytes of answers that clients have not read.
    pub(crate) unread_max: usize,
}

impl ServerLimits {
    /// Bounds for `connections_max` connections.
    pub(crate) fn of_connections(connections_max: usize) -> Self {
        Self {
            connections_max,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            unread_max: 64 << 20,
        }
    }

    /// Open connections of one address.
    fn per_address(&self) -> usize {
        (self.connections_max / 2).max(1)
    }
}

/// A client, as far as its address distinguishes it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientAddress {
    /// A socket in the file system.
    Local,
    /// Over the network, or loopback.
    Ip(IpAddr),
}

impl ClientAddress {
    /// True for clients of this host.
    pub(crate) fn is_of_this_host(self) -> bool {
        match self {
            Self::Local => true,
            Self::Ip(ip) => ip.is_loopback(),
        }
    }
}

/// All open connections of a server.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    pub(crate) limits: ServerLimits,
    open: Mutex<Vec<Arc<OpenConnection>>>,
}

/// What a connection does.
#[derive(Debug)]
struct Activity {
    /// When it was accepted, or its last request began or ended.
    since: Instant,
    /// The first byte of a head that is not complete, or the handshake.
    head_since: Option<Instant>,
    has_requested: bool,
    /// Connections of HTTP/2 send frames of their own between requests.
    is_http2: bool,
    /// Requests without an answer.
    requests: usize,
    /// Calls that wait or run.
    calls: usize,
    /// Bytes of answers that were not sent.
    unread: usize,
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    pub(crate) client: ClientAddress,
    is_tls: AtomicBool,
    activity: Mutex<Activity>,
    ends: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenConnection {
    fn activity(&self) -> MutexGuard<'_, Activity> {
        lock(&self.activity)
    }

    /// The client has begun a handshake of TLS.
    pub(crate) fn uses_tls(&self) {
        self.is_tls.store(true, Relaxed);
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls.load(Relaxed)
    }

    /// Bytes were read.
    pub(crate) fn has_read(&self, now: Instant) {
        let mut activity = self.activity();
        if activity.requests == 0 && !activity.is_http2 && activity.head_since.is_none() {
            activity.head_since = Some(now);
        }
    }

    /// The head of a request is complete. It counts until the value is dropped.
    pub(crate) fn request(self: &Arc<Self>, is_http2: bool, now: Instant) -> Counted {
        let mut activity = self.activity();
        (activity.since, activity.head_since, activity.has_requested) = (now, None, true);
        activity.is_http2 = is_http2;
        drop(activity);
        Counted::new(self, |activity| &mut activity.requests, 1)
    }

    /// A call waits for its turn, or runs, until the value is dropped: the connection stays.
    pub(crate) fn call(self: &Arc<Self>) -> Counted {
        Counted::new(self, |activity| &mut activity.calls, 1)
    }

    /// Bytes that count as unread until they are freed.
    pub(crate) fn unread(self: &Arc<Self>, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        let counted = Counted::new(self, |activity| &mut activity.unread, bytes.as_ref().len());
        Bytes::from_owner(UnreadBytes { bytes, _counted: counted })
    }

    /// Waits until the connection has to end.
    pub(crate) async fn ends(&self) {
        self.ends.notified().await;
    }

    /// A connection with the lowest value ends first; none while a call waits or runs.
    fn rank(&self) -> Option<(bool, Instant)> {
        let activity = self.activity();
        (activity.calls == 0).then_some((activity.has_requested, activity.since))
    }
}

type ActivityCount = fn(&mut Activity) -> &mut usize;

/// Something that counts in the activity of a connection until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    connection: Arc<OpenConnection>,
    count: ActivityCount,
    amount: usize,
}

impl Counted {
    fn new(connection: &Arc<OpenConnection>, count: ActivityCount, amount: usize) -> Self {
        *count(&mut connection.activity()) += amount;
        Self { connection: Arc::clone(connection), count, amount }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut activity = self.connection.activity();
        *(self.count)(&mut activity) -= self.amount;
        activity.since = Instant::now();
    }
}

struct UnreadBytes<T> {
    bytes: T,
    _counted: Counted,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for UnreadBytes<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl ConnectionTable {
    pub(crate) fn new(limits: ServerLimits) -> Arc<Self> {
        Arc::new(Self { limits, open: Mutex::default() })
    }

    /// Takes a new connection; another one may have to end. None if calls of all connections wait
    /// or run.
    pub(crate) fn admit(self: &Arc<Self>, client: ClientAddress, now: Instant) -> Option<AdmittedConnection> {
        let mut open = lock(&self.open);
        let of_client = open.iter().filter(|other| other.client == client).count();
        if of_client >= self.limits.per_address() {
            end_oldest(&mut open, |other| other.client == client)?;
        } else if open.len() >= self.limits.connections_max {
            end_oldest(&mut open, |_| true)?;
        }
        let activity = Activity {
            since: now,
            head_since: Some(now),
            has_requested: false,
            is_http2: false,
            requests: 0,
            calls: 0,
            unread: 0,
        };
        let connection = Arc::new(OpenConnection {
            client,
            is_tls: AtomicBool::new(false),
            activity: Mutex::new(activity),
            ends: Notify::new(),
        });
        open.push(Arc::clone(&connection));
        Some(AdmittedConnection { table: Arc::clone(self), connection })
    }

    /// Ends the oldest connection that waits for its client.
    pub(crate) fn end_oldest(&self) {
        end_oldest(&mut lock(&self.open), |_| true);
    }

    /// Ends connections whose head or handshake takes too long, and the oldest ones with answers
    /// that were not read if these are too large together.
    pub(crate) fn sweep(&self, now: Instant) {
        let mut open = lock(&self.open);
        open.retain(|connection| {
            let head_since = connection.activity().head_since;
            let is_late = head_since.is_some_and(|since| now - since >= self.limits.head_time);
            if is_late {
                connection.ends.notify_one();
            }
            !is_late
        });
        self.end_unread(&mut open, |_| true);
    }

    /// Makes space for an answer to `connection`.
    pub(crate) fn make_space(&self, connection: &OpenConnection) {
        self.end_unread(&mut lock(&self.open), |other| !std::ptr::eq(other, connection));
    }

    fn end_unread(&self, open: &mut Vec<Arc<OpenConnection>>, may_end: impl Fn(&OpenConnection) -> bool) {
        let unread = |connection: &OpenConnection| connection.activity().unread;
        while open.iter().map(|connection| unread(connection)).sum::<usize>() > self.limits.unread_max
            && end_oldest(open, |other| unread(other) > 0 && may_end(other)).is_some()
        {}
    }
}

/// Ends the oldest of the connections that may end.
fn end_oldest(open: &mut Vec<Arc<OpenConnection>>, may_end: impl Fn(&OpenConnection) -> bool) -> Option<()> {
    let ranked = open.iter().enumerate().filter(|(_, connection)| may_end(connection));
    let ranked = ranked.filter_map(|(at, connection)| Some((connection.rank()?, at)));
    let (_, at) = ranked.min()?;
    open.remove(at).ends.notify_one();
    Some(())
}

/// A connection that has its place until it is dropped.
#[derive(Debug)]
pub(crate) struct AdmittedConnection {
    table: Arc<ConnectionTable>,
    pub(crate) connection: Arc<OpenConnection>,
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        lock(&self.table.open).retain(|other| !Arc::ptr_eq(other, &self.connection));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(connections_max: usize) -> Arc<ConnectionTable> {
        ConnectionTable::new(ServerLimits {
            unread_max: 100,
            ..ServerLimits::of_connections(connections_max)
        })
    }

    fn ip(last: u8) -> ClientAddress {
        ClientAddress::Ip([192, 0, 2, last].into())
    }

    fn is_open(table: &ConnectionTable, admitted: &AdmittedConnection) -> bool {
        lock(&table.open).iter().any(|other| Arc::ptr_eq(other, &admitted.connection))
    }

    #[test]
    fn a_full_table_ends_the_oldest_connection_without_a_request() {
        let (table, start) = (table(4), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        let admit = |client: u8, ms: u64| table.admit(ip(client), at(ms)).expect("there is a place");
        let (asked, silent) = (admit(1, 0), admit(2, 1));
        drop(asked.connection.request(false, at(2)));
        let (later, busy) = (admit(3, 3), admit(4, 4));
        let call = busy.connection.call();
        let _fifth = admit(5, 5);
        assert!(is_open(&table, &asked) && !is_open(&table, &silent));
        let _sixth = admit(6, 6);
        assert!(!is_open(&table, &later) && is_open(&table, &busy));
        drop(call);
    }

    #[test]
    fn an_address_has_half_of_the_places() {
        let (table, now) = (table(4), Instant::now());
        let admit = |client| table.admit(ip(client), now).expect("there is a place");
        let (first, second, other) = (admit(1), admit(1), admit(2));
        let third = admit(1);
        let open = [&first, &second, &other, &third].map(|admitted| is_open(&table, admitted));
        assert_eq!(open, [false, true, true, true]);
        drop((second, third));
        assert_eq!(lock(&table.open).len(), 1);
    }

    #[test]
    fn connections_with_calls_stay() {
        let (table, now) = (table(2), Instant::now());
        let admitted = [ip(1), ip(2)].map(|client| table.admit(client, now).expect("a place"));
        let calls = admitted.each_ref().map(|admitted| admitted.connection.call());
        assert!(table.admit(ip(3), now).is_none());
        drop(calls);
        assert!(table.admit(ip(3), now).is_some());
    }

    #[test]
    fn heads_have_a_time_and_idle_connections_have_none() {
        let (table, start) = (table(8), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let clients = [1, 2, 3].map(|client| table.admit(ip(client), start).expect("a place"));
        let [silent, idle, http2] = &clients;
        drop(idle.connection.request(false, at(1)));
        drop(http2.connection.request(true, at(1)));
        http2.connection.has_read(at(2));
        table.sweep(at(9));
        assert!(is_open(&table, silent));
        table.sweep(at(10));
        assert_eq!(clients.each_ref().map(|admitted| is_open(&table, admitted)), [false, true, true]);
        table.sweep(at(100));
        assert!(is_open(&table, idle));
        idle.connection.has_read(at(100));
        table.sweep(at(110));
        assert_eq!(clients.each_ref().map(|admitted| is_open(&table, admitted)), [false, false, true]);
    }

    #[test]
    fn answers_that_are_not_read_are_bounded() {
        let (table, now) = (table(8), Instant::now());
        let [first, second] = [1, 2].map(|client| table.admit(ip(client), now).expect("a place"));
        let held = (first.connection.unread(vec![0; 60]), second.connection.unread(vec![0; 60]));
        table.make_space(&second.connection);
        assert_eq!([&first, &second].map(|admitted| is_open(&table, admitted)), [false, true]);
        drop(held);
        assert_eq!(second.connection.activity().unread, 0);
    }
}
