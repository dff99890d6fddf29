//! A call about the registry, with helpers to parse its body and to submit commands.

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use tollhouse_registry::{Command, Outcome, Refusal};

use super::part::RegistryPart;
use super::refused;
use crate::body;
use crate::call::Call;
use crate::reply::Reply;

/// Call about the registry, with its body.
pub(super) struct Request<'a> {
    pub(super) part: &'a RegistryPart,
    pub(super) call: &'a Call,
    pub(super) body: Bytes,
}

impl Request<'_> {
    /// Decodes the body; syntax errors have the texts of the Admin API.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Reply> {
        // Decoded as generic JSON first, so that syntax errors have the Admin API's error text.
        let value = body::decode(&self.body)?.ok_or_else(|| body::invalid("it is empty"))?;
        serde_json::from_value(value).map_err(|error| body::invalid(&error.to_string()))
    }

    /// Submits a command. Returns `None` if the command changes nothing, which is not an error.
    pub(super) async fn submit(&self, command: Command) -> Result<Option<Outcome>, Reply> {
        match self.part.registry.submit(command).await {
            Ok(outcome) => Ok(Some(outcome)),
            Err(Refusal::NoChange) => Ok(None),
            Err(refusal) => Err(refused::reply(&refusal)),
        }
    }

    /// Calls the handler of a path that supports only GET; refuses other methods.
    pub(super) fn only_get(
        &self,
        read: impl FnOnce() -> Result<Reply, Reply>,
    ) -> Result<Reply, Reply> {
        if self.call.method == Method::GET { read() } else { Err(self.wrong_method("GET")) }
    }

    /// Returns the reply 405 for an unsupported method.
    pub(super) fn wrong_method(&self, allowed: &str) -> Reply {
        let text = format!("not supported `{}` method here; try {allowed}", self.call.method);
        Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, text)
    }
}
