//! A call of ShenYu's admin as whoever answers it sees it: read whole, whoever calls being known.
//! Reading it from a connection, and answering it, stand elsewhere.

use axum::http::Method;
use bytes::Bytes;
use serde_json::Value;
use tollhouse_stdx::Reservation;

use crate::answer::Refusal;
use crate::query::Arguments;
use crate::row::{self, Row};

/// A call, read whole.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) arguments: Arguments,
    /// JSON, or what a form makes of it; `null` where there is no body.
    pub(crate) body: Value,
    /// The file of a form in parts.
    pub(crate) file: Option<Bytes>,
    /// What body and file take, until the call is answered.
    pub(crate) _held: Option<Reservation>,
}

impl Call {
    /// The body, where it is an object.
    pub(crate) fn object(&self) -> Result<&Row, Refusal> {
        self.body.as_object().ok_or_else(|| {
            Refusal::error("Request error! invalid argument [body: expected a JSON object]")
        })
    }

    /// An argument of the query, or else a member of the body.
    pub(crate) fn argument(&self, name: &str) -> Option<String> {
        let argument = self.arguments.get(name).map(str::to_owned);
        argument.or_else(|| row::filled(self.body.as_object()?, name))
    }
}

/// Whether a path asks for rows although its method is one that writes.
pub(crate) fn is_search(segments: &[&str]) -> bool {
    segments.ends_with(&["list", "search"]) || segments.ends_with(&["list", "search", "adaptor"])
}

pub(crate) fn no_such_path() -> Refusal {
    Refusal::not_found("there is no such path here")
}
