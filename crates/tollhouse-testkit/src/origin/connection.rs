//! One connection at an origin: what a script can do with it.
//!
//! A peer that goes away is nothing a script has to care about: reading says so, sending tells.

use std::io;
use std::sync::Arc;

use super::{Shared, lock};
use crate::message::{Message, Side};
use crate::wire::Wire;

/// A connection that an origin has accepted.
#[derive(Debug)]
pub struct Connection {
    /// The socket and what was read from it.
    pub wire: Wire,
    /// How many connections the origin had accepted before.
    pub number: usize,
    shared: Arc<Shared>,
}

impl Connection {
    pub(super) fn new(wire: Wire, number: usize, shared: Arc<Shared>) -> Self {
        Self { wire, number, shared }
    }

    /// Reads a whole request and remembers it; `None` when the peer ends the connection or breaks
    /// off.
    pub fn request(&mut self) -> Option<Message> {
        let message = self.request_unremembered()?;
        self.remember(&message);
        Some(message)
    }

    /// The same without remembering it, for scripts under long load.
    pub fn request_unremembered(&mut self) -> Option<Message> {
        Message::read(&mut self.wire, Side::Request).ok().flatten()
    }

    /// Reads a request's head, remembers it, and leaves the body unread.
    pub fn head(&mut self) -> Option<Message> {
        let message = Message::read_head(&mut self.wire).ok().flatten()?;
        self.remember(&message);
        Some(message)
    }

    /// Sends bytes as they are; `false` when the peer is gone.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.wire.send(bytes.as_ref()).is_ok()
    }

    /// Waits for the peer to end the connection, and forgets what it still sends.
    ///
    /// # Errors
    /// When the connection is reset or the deadline passes.
    pub fn wait_end(&mut self) -> io::Result<()> {
        self.wire.take_all().map(|_| ())
    }

    fn remember(&self, message: &Message) {
        lock(&self.shared.requests).push(message.clone());
        self.shared.arrived.notify_all();
    }
}
