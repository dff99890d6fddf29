//! A request's body that somebody has had read whole, and what variables such as `post_arg_name`
//! find in it. It stands in the client's buffer; who reads it there is `stages/request_body.rs`.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use tollhouse_http::{BodyLength, Known, RequestHead};
use tollhouse_model::body;
use tollhouse_model::variable::Variable;
use tollhouse_stdx::{MemoryBudget, Reservation};

use crate::connection::buffer::Buffer;

/// A body that has been read whole, and what variables find in it.
#[derive(Debug, Default)]
pub(crate) struct HeldBody {
    /// Where the body ends in the client's buffer, once it has been read; it begins behind the
    /// head.
    end: Option<usize>,
    /// The variables of the configuration that look into bodies; none where it has none, or the
    /// request has no body.
    wanted: Option<Arc<[Variable]>>,
    /// Their values, in the same order, once the body has been looked into.
    values: Option<Vec<Option<Vec<u8>>>>,
    /// Whether somebody has asked for a variable before the body was read.
    is_asked: Cell<bool>,
    /// Room that work on the body takes, and the body that it may bring.
    reservation: Option<Reservation>,
}

impl HeldBody {
    /// Says what variables may ask for; without effect once the body has been looked into.
    pub(crate) fn want(&mut self, variables: &Arc<[Variable]>) {
        if self.values.is_none() {
            self.wanted = Some(Arc::clone(variables));
        }
    }

    /// What is still to be looked up, once the body has been read.
    pub(crate) fn wanted(&self) -> Option<Arc<[Variable]>> {
        self.wanted.clone()
    }

    /// Notes that the body has been read, and where it ends.
    pub(crate) fn hold(&mut self, end: usize) {
        self.end = Some(end);
    }

    /// Notes what variables find, in the order of [`Self::wanted`].
    pub(crate) fn set_values(&mut self, values: Vec<Option<Vec<u8>>>) {
        self.values = Some(values);
    }

    /// Notes that the body is passed on unread, so that its variables have no values.
    pub(crate) fn leave_unread(&mut self) {
        self.values = Some(Vec::new());
        self.wanted = None;
    }

    /// Holds memory for work on the body, in place of what was held before.
    pub(crate) fn reserve(&mut self, budget: &Arc<MemoryBudget>, bytes: u64) -> bool {
        // What was looked at before has left nothing that is still held.
        self.reservation = None;
        self.reservation = budget.take(bytes);
        self.reservation.is_some()
    }

    /// The room that work on the body took, for whoever holds what it has brought.
    pub(crate) fn take_reservation(&mut self) -> Option<Reservation> {
        self.reservation.take()
    }

    /// Whether a variable was asked for whose value stands in the body.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.get() && self.end.is_none()
    }

    /// The body, once it has been read; `buffer` is the client's.
    pub(crate) fn bytes<'a>(&'a self, head_bytes: usize, buffer: &'a Buffer) -> Option<&'a [u8]> {
        buffer.filled().get(head_bytes..self.end?)
    }

    /// The body's bytes, once it has been read; without chunk framing.
    #[inline]
    pub(crate) fn length(&self, head_bytes: usize) -> Option<u64> {
        Some((self.end? - head_bytes) as u64)
    }

    /// Forgets the body, or that it was left unread.
    #[inline]
    pub(crate) fn finish(&mut self) {
        let is_looked_into = self.wanted.is_some() || self.values.is_some();
        if is_looked_into || self.end.is_some() || self.is_asked.get() {
            *self = Self::default();
        }
    }

    /// What a variable finds in the body.
    pub(crate) fn value<'a>(
        &'a self,
        head: &RequestHead,
        buffer: &'a Buffer,
        variable: &Variable,
    ) -> Option<Cow<'a, [u8]>> {
        if head.body == BodyLength::None {
            return None;
        }
        if let (Some(wanted), Some(values)) = (&self.wanted, &self.values)
            && let Some(place) = wanted.iter().position(|other| other == variable)
        {
            return values[place].as_deref().map(Cow::Borrowed);
        }
        let Some(bytes) = self.bytes(head.head_bytes, buffer) else {
            self.is_asked.set(self.values.is_none());
            return None;
        };
        // Of no object that has a conf: templates of the process's own, such as formats of logs.
        let content_type = content_type(head, buffer);
        let found = body::look_up(bytes, content_type, std::slice::from_ref(variable));
        found.into_iter().next().flatten().map(Cow::Owned)
    }
}

/// What the client says the body is; empty where it says nothing.
pub(crate) fn content_type<'a>(head: &RequestHead, buffer: &'a Buffer) -> &'a [u8] {
    let span = head.fields.first(Known::ContentType);
    span.map_or(&[], |span| span.bytes_in(buffer.filled()))
}
