//! Connection at an origin, as used by scripts.
//!
//! Scripts need not handle peers that disconnect: reading returns `None`, sending returns `false`.

use std::io;
use std::sync::Arc;

use super::{Shared, lock};
use crate::message::{Message, Side};
use crate::wire::Wire;

/// Connection that an origin has accepted.
#[derive(Debug)]
pub struct Connection {
    pub wire: Wire,
    /// Number of connections that the origin accepted before this one.
    pub number: usize,
    shared: Arc<Shared>,
}

impl Connection {
    pub(super) fn new(wire: Wire, number: usize, shared: Arc<Shared>) -> Self {
        Self { wire, number, shared }
    }

    /// Reads a whole request and records it; `None` if the peer disconnects.
    pub fn request(&mut self) -> Option<Message> {
        let message = self.request_unremembered()?;
        self.remember(&message);
        Some(message)
    }

    /// Reads a whole request without recording it, for scripts under long load.
    pub fn request_unremembered(&mut self) -> Option<Message> {
        Message::read(&mut self.wire, Side::Request).ok().flatten()
    }

    /// Reads and records the head of a request, and leaves its body unread.
    pub fn head(&mut self) -> Option<Message> {
        let message = Message::read_head(&mut self.wire).ok().flatten()?;
        self.remember(&message);
        Some(message)
    }

    /// Sends bytes unchanged; `false` if the peer has disconnected.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.wire.send(bytes.as_ref()).is_ok()
    }

    /// Waits for the peer to close the connection, and discards what it still sends.
    ///
    /// # Errors
    ///
    /// If the connection is reset or the deadline passes.
    pub fn wait_end(&mut self) -> io::Result<()> {
        self.wire.take_all().map(|_| ())
    }

    fn remember(&self, message: &Message) {
        lock(&self.shared.requests).push(message.clone());
        self.shared.arrived.notify_all();
    }
}
