//! Client of the Admin API for commands: sequential requests on one connection, over plain HTTP as
//! the loopback listener expects.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tollhouse_config::Bootstrap;

use tollhouse_control::secrets;

/// Timeout of one answer; a list of 100,000 objects takes a second or two.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum size of an answer in bytes, equal to the limit on documents.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Maximum number of characters quoted from a refusal.
const REFUSAL_CHARS_MAX: usize = 500;

/// Connection to an Admin API, opened by the first request.
pub struct AdminClient {
    authority: String,
    credential: Option<(&'static str, String)>,
    runtime: Runtime,
    connection: Option<SendRequest<Full<Bytes>>>,
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
            authority: authority_of(url)?,
            credential: None,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            connection: None,
        })
    }

    /// Sets the header that authenticates further requests.
    pub fn set_credential(&mut self, name: &'static str, value: String) {
        self.credential = Some((name, value));
    }

    /// Returns host and port.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the runtime that the client's IO runs on.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("host", &self.authority).header("accept", "application/json");
        if let Some((name, value)) = &self.credential {
            request = request.header(*name, value);
        }
        request.body(Full::new(body)).context("the key or an id is not valid in a header")
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
        let (authority, connection) = (&self.authority, &mut self.connection);
        self.runtime.block_on(async {
            let exchange = exchange(authority, connection, request);
            match tokio::time::timeout(ANSWER_TIME_MAX, exchange).await {
                Ok(answered) => answered,
                Err(_) => Err(anyhow!("no answer within {} s", ANSWER_TIME_MAX.as_secs())),
            }
            .with_context(|| format!("failed to ask http://{authority}{path}"))
        })
    }

    /// Sends a request for a stream; its body must be read on [`Self::runtime`].
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn open_stream(&self, path: &str) -> anyhow::Result<(StatusCode, Incoming)> {
        let request = self.request("GET", path, Bytes::new())?;
        self.runtime.block_on(async {
            let opened = async {
                let answer = connect(&self.authority).await?.send_request(request).await?;
                anyhow::Ok((answer.status(), answer.into_body()))
            };
            match tokio::time::timeout(ANSWER_TIME_MAX, opened).await {
                Ok(opened) => opened,
                Err(_) => Err(anyhow!("no answer within {} s", ANSWER_TIME_MAX.as_secs())),
            }
            .with_context(|| format!("failed to ask http://{}{path}", self.authority))
        })
    }
}

async fn exchange(
    authority: &str,
    connection: &mut Option<SendRequest<Full<Bytes>>>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let mut sender = match connection.take() {
        Some(open) => open,
        None => connect(authority).await?,
    };
    // A server may close a connection at any time between two requests.
    if sender.ready().await.is_err() {
        sender = connect(authority).await?;
    }
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow!("the answer cannot be read: {error}"))?.to_bytes();
    *connection = Some(sender);
    Ok((status, body))
}

async fn connect(authority: &str) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(authority).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task drives the connection; its errors also reach the request.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Returns host and port of a URL; the default port is 80.
fn authority_of(url: &str) -> anyhow::Result<String> {
    if url.starts_with("https://") {
        bail!("{url}: only plain http:// is spoken here; run this on the gateway's machine");
    }
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() || !["", "apisix/admin"].contains(&path.trim_end_matches('/')) {
        bail!("{url}: expected an address such as http://127.0.0.1:9180");
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { authority.to_owned() } else { format!("{authority}:80") })
}

/// Returns the text of a refusal, with a hint if the key is missing.
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
            assert_eq!(authority_of(url).ok().as_deref(), expected, "{url}");
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
