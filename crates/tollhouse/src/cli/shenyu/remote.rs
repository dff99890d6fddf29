//! Client of a running ShenYu admin. Fetches its export; releases without an export provide the
//! data that gateways poll instead.

use std::path::Path;

use anyhow::{Context, bail};
use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tollhouse_shenyu::Kind;

use super::ImportSource;
use crate::cli::admin_client::AdminClient;

/// Initial password of ShenYu's admin.
const FIRST_PASSWORD: &str = "123456";

/// First bytes of a zip file.
const ZIP: &[u8] = b"PK";

/// Session with a running ShenYu admin.
pub(super) struct Remote {
    client: AdminClient,
}

impl Remote {
    pub(super) fn log_in(url: &str, user: &str, password: Option<&Path>) -> anyhow::Result<Self> {
        let password = match password {
            None => FIRST_PASSWORD.to_owned(),
            Some(file) => std::fs::read_to_string(file)
                .with_context(|| format!("--password-file: {} cannot be read", file.display()))?
                .trim()
                .to_owned(),
        };
        let mut client = AdminClient::anonymous(url)?;
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let (name, password) = (encode(user), encode(&password));
        // Every release has this call. The password in the path is not exposed, because request
        // lines are not logged here.
        let path = format!("/platform/login?userName={name}&password={password}");
        let (status, body) = client.ask("GET", &path, Bytes::new()).map_err(|error| {
            // The full error would contain the path with the password.
            anyhow::anyhow!("failed to log in at {url}: {}", error.root_cause())
        })?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let Some(token) = answer["data"]["token"].as_str() else {
            let reason = answer["message"].as_str().unwrap_or("it answers no JSON of ShenYu's");
            bail!("{url} does not let {user} in: {reason} (status {})", status.as_u16());
        };
        client.set_credential("x-access-token", token.to_owned());
        Ok(Self { client })
    }

    /// Returns the admin's export, or the data for gateways that poll if it has no export.
    pub(super) fn take(mut self, namespace: Option<&str>) -> anyhow::Result<ImportSource> {
        let (status, body) = self.client.ask("GET", "/configs/export", Bytes::new())?;
        if status.is_success() && body.starts_with(ZIP) {
            return Ok(ImportSource::Archive(body.to_vec()));
        }
        let keys: Vec<String> =
            Kind::ALL.iter().map(|kind| format!("groupKeys={}", kind.group())).collect();
        let mut path = format!("/configs/fetch?{}", keys.join("&"));
        if let Some(namespace) = namespace {
            let namespace = utf8_percent_encode(namespace, NON_ALPHANUMERIC);
            path.push_str(&format!("&namespaceId={namespace}"));
        }
        let (status, body) = self.client.ask("GET", &path, Bytes::new())?;
        let mut answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if answer["code"] == 200 && answer["data"].is_object() {
            return Ok(ImportSource::Groups(answer["data"].take()));
        }
        bail!(
            "http://{} neither exports its configuration (2.6.1 and later do) nor has it for gateways that poll \
             (status {}): set shenyu.sync.http.enabled there, or import an archive",
            self.client.authority(),
            status.as_u16()
        )
    }
}
