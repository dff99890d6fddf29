//! Call of ShenYu's admin, independent of the connection: the request is read whole and the caller
//! is known. Reading and answering are in `api`.

use axum::http::Method;
use bytes::Bytes;
use serde_json::Value;
use tollhouse_stdx::Reservation;

use crate::answer::Refusal;
use crate::query::Arguments;
use crate::row::{self, Row};

/// Request whose body has been read.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) arguments: Arguments,
    /// JSON body, or the fields of a form as an object; `null` for an empty body.
    pub(crate) body: Value,
    /// Content of the form's file field.
    pub(crate) file: Option<Bytes>,
    /// Memory reserved for body and file until the call is answered.
    pub(crate) _reservation: Option<Reservation>,
}

impl Call {
    /// Returns the body as an object, or refuses the call.
    pub(crate) fn object(&self) -> Result<&Row, Refusal> {
        self.body.as_object().ok_or_else(|| {
            Refusal::error("Request error! invalid argument [body: expected a JSON object]")
        })
    }

    /// Returns the query argument `name`, or otherwise the body's member `name`.
    pub(crate) fn argument(&self, name: &str) -> Option<String> {
        let argument = self.arguments.get(name).map(str::to_owned);
        argument.or_else(|| row::filled(self.body.as_object()?, name))
    }
}

/// Whether a path only searches although its method is POST.
pub(crate) fn is_search(segments: &[&str]) -> bool {
    segments.ends_with(&["list", "search"]) || segments.ends_with(&["list", "search", "adaptor"])
}

pub(crate) fn no_such_path() -> Refusal {
    Refusal::not_found("there is no such path here")
}
