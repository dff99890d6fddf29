//! Client of the Admin API for commands: sequential requests on one connection, over plain HTTP as
//! the loopback listener expects.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde_json::Value;
use tokio::runtime::Runtime;
use tollhouse_config::Bootstrap;
use tollhouse_control::secrets;
use tollhouse_web::client::{Client, Limits, Server, Session};

/// Maximum time and size of a response. A list of 100,000 objects takes a second or two; the size
/// is that of the largest document that the gateway accepts.
const LIMITS: Limits = Limits { time_max: Duration::from_secs(60), body_bytes_max: 256 << 20 };

/// Maximum number of characters that an error message quotes from a refusal of the server.
const REFUSAL_CHARS_MAX: usize = 500;

/// Connection to an Admin API, opened by the first request.
pub struct AdminClient {
    session: Session,
    credential: Option<(&'static str, String)>,
    runtime: Runtime,
}

impl AdminClient {
    /// Parses the address, and uses the key of the data directory if none is given.
    ///
    /// # Errors
    /// If the address is invalid, or the data directory cannot be read.
    pub fn open(url: &str, key: Option<&str>, bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let key = match key {
            Some(key) => Some(key.to_owned()),
            None => secrets::admin_key_if_any(bootstrap)?.map(|key| key.expose().to_owned()),
        };
        let mut client = Self::anonymous(url)?;
        client.credential = key.map(|key| ("x-api-key", key));
        Ok(client)
    }

    /// Creates a client without credentials.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn anonymous(url: &str) -> anyhow::Result<Self> {
        Ok(Self {
            session: Session::new(Client::new(LIMITS), server_of(url)?),
            credential: None,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        })
    }

    /// Sets the header that authenticates further requests.
    pub fn set_credential(&mut self, name: &'static str, value: String) {
        self.credential = Some((name, value));
    }

    /// Returns host and port of the Admin API.
    pub fn authority(&self) -> &str {
        &self.session.server.authority
    }

    /// Returns the runtime that the client's IO runs on.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn request(&self, method: &str, path: &str, body: Bytes) -> anyhow::Result<Request<Bytes>> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("accept", "application/json");
        if let Some((name, value)) = &self.credential {
            request = request.header(*name, value);
        }
        request.body(body).context("the key or an id is not valid in a header")
    }

    /// Sends a request and returns the answer.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = self.request(method, path, body)?;
        let answered = self.runtime.block_on(self.session.send(request));
        let answer = answered.with_context(|| self.failure(path))?;
        Ok((answer.status(), answer.into_body()))
    }

    /// Sends a request for a stream; its body must be read on [`Self::runtime`].
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn open_stream(&mut self, path: &str) -> anyhow::Result<(StatusCode, Incoming)> {
        let request = self.request("GET", path, Bytes::new())?;
        let opened = self.runtime.block_on(self.session.open_stream(request));
        let answer = opened.with_context(|| self.failure(path))?;
        Ok((answer.status(), answer.into_body()))
    }

    fn failure(&self, path: &str) -> String {
        format!("failed to ask http://{}{path}", self.authority())
    }
}

/// Parses the URL of an Admin API; the default port is 80.
fn server_of(url: &str) -> anyhow::Result<Server> {
    if url.starts_with("https://") {
        bail!("{url}: only plain http:// is spoken here; run this on the gateway's machine");
    }
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if has_port { "" } else { ":80" };
    match format!("http://{authority}{port}").parse() {
        Ok(server) if ["", "apisix/admin"].contains(&path.trim_end_matches('/')) => Ok(server),
        _ => bail!("{url}: expected an address such as http://127.0.0.1:9180"),
    }
}

/// Returns the error message for a refused request, with a hint if the key is missing.
pub fn refusal(status: StatusCode, body: &[u8]) -> String {
    let said: Option<Value> = serde_json::from_slice(body).ok();
    let field = |name: &str| said.as_ref()?.get(name)?.as_str();
    let parts: Vec<&str> =
        ["error_msg", "message", "description"].into_iter().filter_map(field).collect();
    let text: String = parts.join(": ").chars().take(REFUSAL_CHARS_MAX).collect();
    let hint = match status {
        StatusCode::UNAUTHORIZED => "; give the key with --admin-key",
        _ => "",
    };
    format!("{} {text}{hint}", status.as_u16())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let table = [
            ("http://127.0.0.1:9180", Some("127.0.0.1:9180")),
            ("http://127.0.0.1:9180/apisix/admin/", Some("127.0.0.1:9180")),
            ("127.0.0.1:9180", Some("127.0.0.1:9180")),
            ("http://gateway", Some("gateway:80")),
            ("http://[::1]:9180/", Some("[::1]:9180")),
            ("https://127.0.0.1:9180", None),
            ("http://127.0.0.1:9180/other", None),
            ("http:///", None),
        ];
        for (url, expected) in table {
            let server = server_of(url).ok();
            assert_eq!(server.as_ref().map(|server| &*server.authority), expected, "{url}");
        }
    }

    #[test]
    fn refusals_are_repeated_with_what_helps() {
        let body = br#"{"error_msg":"failed to check token","description":"wrong apikey"}"#;
        let text = refusal(StatusCode::UNAUTHORIZED, body);
        assert_eq!(text, "401 failed to check token: wrong apikey; give the key with --admin-key");
        assert_eq!(refusal(StatusCode::BAD_GATEWAY, b"<html>"), "502 ");
    }
}
