//! A call about the registry: its body as an object, and what it has the registry do.

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use tollhouse_registry::{Command, Outcome, Refusal};

use super::part::RegistryPart;
use super::refused;
use crate::body;
use crate::call::Call;
use crate::reply::Reply;

/// A call about the registry.
pub(super) struct Request<'a> {
    pub(super) part: &'a RegistryPart,
    pub(super) call: &'a Call,
    pub(super) body: Bytes,
}

impl Request<'_> {
    /// The body as an object of its kind.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Reply> {
        // As any JSON first: what is not JSON at all is refused in the Admin API's words.
        let value = body::decode(&self.body)?.ok_or_else(|| body::invalid("it is empty"))?;
        serde_json::from_value(value).map_err(|error| body::invalid(&error.to_string()))
    }

    /// Has a command done. A change that changes nothing has succeeded: `None`.
    pub(super) async fn submit(&self, command: Command) -> Result<Option<Outcome>, Reply> {
        match self.part.registry.submit(command).await {
            Ok(outcome) => Ok(Some(outcome)),
            Err(Refusal::NoChange) => Ok(None),
            Err(refusal) => Err(refused::reply(&refusal)),
        }
    }

    /// Answers a path that is only read.
    pub(super) fn only_get(
        &self,
        read: impl FnOnce() -> Result<Reply, Reply>,
    ) -> Result<Reply, Reply> {
        if self.call.method == Method::GET { read() } else { Err(self.wrong_method("GET")) }
    }

    /// Refuses a method.
    pub(super) fn wrong_method(&self, allowed: &str) -> Reply {
        let text = format!("not supported `{}` method here; try {allowed}", self.call.method);
        Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, text)
    }
}
