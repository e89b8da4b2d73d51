//! How many calls run at a time, and in which order.
//!
//! A call waits as a future: if its client goes, it is dropped before it starts. Orders, which stop
//! traffic among others, run before changes of the configuration that wait.

use crate::call::Operation;
use crate::connection_table::OpenConnection;
use crate::reply::ApiError;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Calls of a kind that may wait.
const WAITING_MAX: usize = 64;
/// Calls that read, or give orders, at a time.
const READS_MAX: usize = 4;
const ORDERS_MAX: usize = 4;

/// The calls of a server.
#[derive(Clone, Debug)]
pub(crate) struct CallGate {
    /// Calls that change the configuration run one by one.
    changes: CallQueue,
    reads: CallQueue,
    orders: CallQueue,
    /// Orders that wait or run.
    open_orders: watch::Sender<usize>,
}

/// The calls of a kind: how many more may run, and how many more may wait.
#[derive(Clone, Debug)]
struct CallQueue {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl CallQueue {
    fn new(running: usize) -> Self {
        let running = Arc::new(Semaphore::new(running));
        Self { running, waiting: Arc::new(Semaphore::new(WAITING_MAX)) }
    }

    /// Waits for a turn.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        if let Ok(turn) = Arc::clone(&self.running).try_acquire_owned() {
            return Ok(turn);
        }
        let Ok(_waiting) = self.waiting.try_acquire() else {
            return Err(ApiError::busy(format!("{WAITING_MAX} other calls wait: try again later")));
        };
        let turn = Arc::clone(&self.running).acquire_owned().await;
        turn.map_err(|_| ApiError::busy("the server ends"))
    }
}

/// An order that waits or runs.
struct OpenOrder(watch::Sender<usize>);

impl OpenOrder {
    fn new(orders: &watch::Sender<usize>) -> Self {
        orders.send_modify(|count| *count += 1);
        Self(orders.clone())
    }
}

impl Drop for OpenOrder {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl CallGate {
    pub(crate) fn new() -> Self {
        Self {
            changes: CallQueue::new(1),
            reads: CallQueue::new(READS_MAX),
            orders: CallQueue::new(ORDERS_MAX),
            open_orders: watch::Sender::new(0),
        }
    }

    /// Runs a call on a thread that may block, when it has its turn.
    ///
    /// # Errors
    /// Those of the call; too many calls wait.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        operation: Operation,
        connection: &Arc<OpenConnection>,
        act: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let call = connection.call();
        let (turn, order) = match operation {
            Operation::GetVersion => (None, None),
            Operation::SetControlState => {
                let order = OpenOrder::new(&self.open_orders);
                (Some(self.orders.turn().await?), Some(order))
            }
            // Actions are pings, which change nothing.
            Operation::GetConfig
            | Operation::GetMetrics
            | Operation::GetStates
            | Operation::SetControlAction => (Some(self.reads.turn().await?), None),
            _ => {
                let turn = self.changes.turn().await?;
                // The sender lives as long as this value.
                let _ = self.open_orders.subscribe().wait_for(|count| *count == 0).await;
                (Some(turn), None)
            }
        };
        let run = move || {
            let done = act();
            drop((turn, order, call));
            done
        };
        let done = tokio::task::spawn_blocking(run).await;
        done.unwrap_or_else(|error| Err(ApiError::internal(format!("the call failed: {error}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_table::{ClientAddress, ConnectionTable, ServerLimits};
    use std::sync::Mutex;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    fn connection() -> Arc<OpenConnection> {
        let table = ConnectionTable::new(ServerLimits::of_connections(8));
        let admitted = table.admit(ClientAddress::Local, Instant::now()).expect("there is a place");
        Arc::clone(&admitted.connection)
    }

    /// Begins a change that ends when the sender is dropped.
    async fn hold(gate: &CallGate) -> mpsc::Sender<()> {
        let (sender, receiver) = mpsc::channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let gate = gate.clone();
        drop(tokio::spawn(async move {
            let act = move || {
                let _ = started.send(());
                let _ = receiver.recv();
                Ok(())
            };
            gate.run(Operation::SetConfig, &connection(), act).await
        }));
        has_started.await.expect("the change starts");
        sender
    }

    #[tokio::test]
    async fn calls_of_clients_that_have_gone_do_not_run() {
        let gate = CallGate::new();
        let held = hold(&gate).await;
        let ran = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let ran = Arc::clone(&ran);
            move || {
                ran.lock().unwrap().push(name);
                Ok(())
            }
        };
        let connection = connection();
        let gone = gate.run(Operation::SetConfig, &connection, note("gone"));
        assert!(tokio::time::timeout(Duration::from_millis(10), gone).await.is_err());
        gate.run(Operation::GetVersion, &connection, note("version")).await.unwrap();
        gate.run(Operation::SetControlState, &connection, note("stop")).await.unwrap();
        drop(held);
        gate.run(Operation::SetConfig, &connection, note("last")).await.unwrap();
        assert_eq!(*ran.lock().unwrap(), ["version", "stop", "last"]);
    }

    #[tokio::test]
    async fn a_change_waits_for_orders() {
        let gate = CallGate::new();
        let held = hold(&gate).await;
        let connection = connection();
        let mut change = std::pin::pin!(gate.run(Operation::SetConfig, &connection, || Ok("change")));
        assert!(tokio::time::timeout(Duration::from_millis(10), change.as_mut()).await.is_err());
        let order = OpenOrder::new(&gate.open_orders);
        drop(held);
        assert!(tokio::time::timeout(Duration::from_millis(50), change.as_mut()).await.is_err());
        drop(order);
        assert_eq!(change.await.unwrap(), "change");
    }

    #[tokio::test]
    async fn too_many_calls_are_refused() {
        let gate = CallGate::new();
        let _held = hold(&gate).await;
        let mut waiting = Vec::new();
        for _ in 0..WAITING_MAX {
            let gate = gate.clone();
            waiting.push(tokio::spawn(async move {
                gate.run(Operation::SetConfig, &connection(), || Ok(())).await
            }));
        }
        tokio::time::timeout(Duration::from_secs(10), async {
            while gate.changes.waiting.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        let error = gate.run(Operation::SetConfig, &connection(), || Ok(())).await.unwrap_err();
        assert_eq!(error.kind, crate::ErrorKind::Busy);
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
