//! Client of a running gateway's control API, which needs no key.

use anyhow::{Context, bail};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tollhouse_config::Bootstrap;

use super::admin_client::AdminClient;

/// Connection to a control API.
pub struct ControlClient {
    url: String,
    client: AdminClient,
}

impl ControlClient {
    /// Locates the control API: at `url`, or as configured. The first request opens the connection.
    ///
    /// # Errors
    /// If the control API is off, or the address is invalid.
    pub fn open(url: Option<&str>, bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let url = match (url, bootstrap.listen.control.first()) {
            (Some(url), _) => url.to_owned(),
            (None, Some(address)) => {
                format!("http://{}", tollhouse_control::banner::reachable(*address))
            }
            (None, None) => {
                bail!("listen.control is off; turn it on, or give another one with --control")
            }
        };
        // Without credentials, because the key of the Admin API must not be sent there.
        Ok(Self { client: AdminClient::anonymous(&url)?, url })
    }

    /// Returns the URL of the control API.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Fetches and decodes the answer to a path.
    ///
    /// # Errors
    /// If the gateway does not answer, or another server does.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str) -> anyhow::Result<T> {
        let url = &self.url;
        let (status, body) = self.client.ask("GET", path, Bytes::new())?;
        if !status.is_success() {
            bail!("{url} answers {status}; is that the control API of a Tollhouse?");
        }
        serde_json::from_slice(&body)
            .context("the answer is not understood; is that the control API of a Tollhouse?")
    }

    /// Asks for the findings about the gateway, the worst first.
    ///
    /// # Errors
    /// For the reasons of [`get`](Self::get).
    pub fn findings(&mut self) -> anyhow::Result<Vec<Value>> {
        let mut answer: Value = self.get("/v1/findings")?;
        match answer["findings"].take() {
            Value::Array(findings) => Ok(findings),
            _ => bail!("{} has no findings; is that the control API of a Tollhouse?", self.url),
        }
    }
}
