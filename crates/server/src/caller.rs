//! Where a call comes from, and what carries it out.

use crate::ApiBackend;
use crate::call_gate::CallGate;
use crate::connection_table::{ConnectionTable, OpenConnection};
use crate::request_body::BodyBounds;
use std::sync::Arc;

/// What a call needs.
#[derive(Clone)]
pub(crate) struct CallPlace {
    pub(crate) backend: Arc<dyn ApiBackend>,
    pub(crate) table: Arc<ConnectionTable>,
    pub(crate) connection: Arc<OpenConnection>,
    pub(crate) gate: CallGate,
    pub(crate) bodies: BodyBounds,
}

impl CallPlace {
    /// Ends other connections whose answers are not read, if these take too much memory.
    pub(crate) fn make_space(&self) {
        self.table.make_space(&self.connection);
    }
}
