//! Request body that was read whole, with the values of variables such as `post_arg_name`. The
//! bytes are in the client's buffer; `stages/request_body.rs` reads them.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use tollhouse_http::{BodyLength, Known, RequestHead};
use tollhouse_model::body::{self, BodyLimits};
use tollhouse_model::variable::Variable;
use tollhouse_stdx::{MemoryBudget, Reservation};

use crate::connection::buffer::Buffer;

/// A request body held in memory, and the variables read from it.
#[derive(Debug, Default)]
pub(crate) struct HeldBody {
    /// Offset of the body's end in the client's buffer, once the body is read. The body begins
    /// after the head.
    end: Option<usize>,
    /// Body variables of the configuration; `None` without any, or if the request has no body.
    wanted: Option<Arc<[Variable]>>,
    /// Values of the variables in `wanted`, in its order, once the body is parsed.
    values: Option<Vec<Option<Vec<u8>>>>,
    /// Whether a variable was requested before the body was read.
    is_asked: Cell<bool>,
    /// Memory reserved for work on the body and for a body that replaces it.
    reservation: Option<Reservation>,
}

impl HeldBody {
    /// Sets the variables to look up. No effect once the body is parsed.
    pub(crate) fn want(&mut self, variables: &Arc<[Variable]>) {
        if self.values.is_none() {
            self.wanted = Some(Arc::clone(variables));
        }
    }

    /// Returns the variables to look up when the body is read.
    pub(crate) fn wanted(&self) -> Option<Arc<[Variable]>> {
        self.wanted.clone()
    }

    /// Records that the body is read, and the offset of its end.
    pub(crate) fn hold(&mut self, end: usize) {
        self.end = Some(end);
    }

    /// Stores the values of the variables, in the order of [`Self::wanted`].
    pub(crate) fn set_values(&mut self, values: Vec<Option<Vec<u8>>>) {
        self.values = Some(values);
    }

    /// Records that the body is passed on without being read, so that its variables have no values.
    pub(crate) fn leave_unread(&mut self) {
        self.values = Some(Vec::new());
        self.wanted = None;
    }

    /// Reserves memory for work on the body, in place of the previous reservation; returns `false`
    /// if the budget does not allow it.
    pub(crate) fn reserve(&mut self, budget: &Arc<MemoryBudget>, bytes: u64) -> bool {
        // The result of earlier work is no longer held, so its reservation ends first.
        self.reservation = None;
        self.reservation = budget.take(bytes);
        self.reservation.is_some()
    }

    /// Hands over the reservation to the holder of the result.
    pub(crate) fn take_reservation(&mut self) -> Option<Reservation> {
        self.reservation.take()
    }

    /// Whether a body variable was requested and the body is not read yet.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.get() && self.end.is_none()
    }

    /// Returns the body, once it is read; `buffer` is the client's.
    pub(crate) fn bytes<'a>(&'a self, head_bytes: usize, buffer: &'a Buffer) -> Option<&'a [u8]> {
        buffer.filled().get(head_bytes..self.end?)
    }

    /// Returns the length of the body in bytes without chunk framing, once it is read.
    #[inline]
    pub(crate) fn length(&self, head_bytes: usize) -> Option<u64> {
        Some((self.end? - head_bytes) as u64)
    }

    /// Resets the state for the next request.
    #[inline]
    pub(crate) fn finish(&mut self) {
        let is_looked_into = self.wanted.is_some() || self.values.is_some();
        if is_looked_into || self.end.is_some() || self.is_asked.get() {
            *self = Self::default();
        }
    }

    pub(crate) fn value<'a>(
        &'a self,
        head: &RequestHead,
        buffer: &'a Buffer,
        wanted_variable: BodyVariable<'_>,
    ) -> Option<Cow<'a, [u8]>> {
        let BodyVariable { variable, limits } = wanted_variable;
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
        // Variables outside the objects of the configuration, such as those of log formats, are
        // looked up one by one.
        let content_type = content_type(head, buffer);
        let found = body::look_up(bytes, content_type, std::slice::from_ref(variable), limits);
        found.into_iter().next().flatten().map(Cow::Owned)
    }
}

/// A variable, and the limits on bodies in which it is looked up.
pub(crate) struct BodyVariable<'v> {
    pub(crate) variable: &'v Variable,
    pub(crate) limits: BodyLimits,
}

/// `Content-Type` of the request; empty if missing.
pub(crate) fn content_type<'a>(head: &RequestHead, buffer: &'a Buffer) -> &'a [u8] {
    let span = head.fields.first(Known::ContentType);
    span.map_or(&[], |span| span.bytes_in(buffer.filled()))
}
