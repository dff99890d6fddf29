//! HTTP calls to the servers of a registry: one after the other is tried, and bodies and times are
//! limited.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{ACCEPT, AUTHORIZATION};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tollhouse_config::bootstrap::{RegistryServer, RegistryServers};
use tollhouse_web::client::{Client, Limits, Server, Session};

/// Bytes that are escaped in a segment of a path and in a query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Escapes a text for a segment of a path or a part of a query.
pub(crate) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Calls to the servers of a registry, over one connection that is kept between them. After a
/// failure, the next server is called.
pub(crate) struct Calls {
    access: RegistryServers,
    body_bytes_max: usize,
    /// `None` until the CA certificates could be read.
    client: Option<Client>,
    current: usize,
    /// Number of calls that failed; it wraps around.
    failures: usize,
    session: Option<Session>,
}

/// A successful answer.
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A call to the current server.
pub(crate) struct Call<'c> {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(&'c str, &'c str)>,
    /// Header that makes an answer with the status 404 one with an empty body.
    pub(crate) none_header: Option<&'static str>,
    /// Time that the server may wait before it answers, in addition to the timeout.
    pub(crate) wait: Duration,
}

impl<'c> Call<'c> {
    pub(crate) fn get(target: String) -> Self {
        let (headers, none_header) = (Vec::new(), None);
        Self { method: Method::GET, target, headers, none_header, wait: Duration::ZERO }
    }

    #[must_use]
    pub(crate) fn with_header(mut self, name: &'c str, value: &'c str) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl Calls {
    /// Starts with the server of the number `first`, counted round, so that callers spread. Nothing
    /// is read before the first call.
    pub(crate) fn new(access: &RegistryServers, body_bytes_max: usize, first: usize) -> Self {
        let (access, current) = (access.clone(), first % access.servers.len().max(1));
        Self { access, body_bytes_max, client: None, current, failures: 0, session: None }
    }

    /// Returns the client. CA certificates that cannot be read fail only this call, because their
    /// file may appear later.
    fn client(&mut self) -> Result<Client, String> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let limits = Limits { time_max: self.access.timeout, body_bytes_max: self.body_bytes_max };
        let client = match &self.access.ca {
            Some(path) => {
                let client = Client::new(limits).trusting(Some(path));
                client.map_err(|error| error.to_string())?
            }
            None => Client::new(limits),
        };
        Ok(self.client.insert(client).clone())
    }

    fn current(&self) -> Option<&RegistryServer> {
        self.access.servers.get(self.current)
    }

    /// Returns `user` and `password` of the current server.
    pub(crate) fn credentials(&self) -> Option<(&str, &str)> {
        let credentials = self.current()?.credentials.as_ref()?;
        credentials.expose().split_once(':')
    }

    /// Makes an attempt with each server, beginning with the current one, until one succeeds. An
    /// attempt fails if it has no answer, or cannot use its answer.
    ///
    /// # Errors
    /// The reason of the last failure.
    pub(crate) async fn try_each<T>(
        &mut self,
        mut attempt: impl AsyncFnMut(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut failure = "no server is configured".to_owned();
        for _ in 0..self.access.servers.len() {
            let failures = self.failures;
            failure = match attempt(self).await {
                Ok(result) => return Ok(result),
                Err(reason) if self.failures == failures => self.failed(&reason),
                // A failed call has gone on to the next server.
                Err(reason) => reason,
            };
        }
        Err(failure)
    }

    /// Closes the connection, if there is one.
    pub(crate) fn close(&mut self) {
        self.session = None;
    }

    /// Number of the current server.
    pub(crate) fn server(&self) -> usize {
        self.current
    }

    /// Sends a call to the current server, with its credentials as Basic authentication if `basic`
    /// says so.
    ///
    /// # Errors
    /// The reason, with the server's address, if the answer is missing or has another status than 200.
    pub(crate) async fn send(&mut self, call: Call<'_>, basic: Basic) -> Result<Answer, String> {
        let result = self.try_send(call, basic).await;
        result.map_err(|reason| self.failed(&reason))
    }

    /// Sends a call, and waits until the first bytes of its answer arrive, or the answer ends. Neither
    /// is read further.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) async fn wait_for_bytes(&mut self, call: Call<'_>) -> Result<(), String> {
        let wait = call.wait;
        let result = match self.prepare(call, Basic::Unused) {
            Err(reason) => Err(reason),
            Ok((session, request)) => match session.open_stream(request).await {
                Err(error) => Err(error.to_string()),
                Ok(response) if response.status() != StatusCode::OK => {
                    Err(format!("status {}", response.status().as_u16()))
                }
                Ok(mut response) => {
                    // A silent or broken stream is over too: its reader reads everything again.
                    let _ = tokio::time::timeout(wait, response.body_mut().frame()).await;
                    Ok(())
                }
            },
        };
        result.map_err(|reason| self.failed(&reason))
    }

    /// Notes the failure of a call, and returns it with the server's address.
    fn failed(&mut self, reason: &str) -> String {
        let url = self.current().map_or("", |server| &server.url).to_owned();
        self.session = None;
        self.current = (self.current + 1) % self.access.servers.len().max(1);
        self.failures = self.failures.wrapping_add(1);
        format!("{url}: {reason}")
    }

    async fn try_send(&mut self, call: Call<'_>, basic: Basic) -> Result<Answer, String> {
        let time_max = self.access.timeout + call.wait;
        let none_header = call.none_header;
        let (session, request) = self.prepare(call, basic)?;
        let response = session.send_within(time_max, request).await;
        let (head, body) = response.map_err(|error| error.to_string())?.into_parts();
        let is_none = none_header.is_some_and(|name| head.headers.contains_key(name));
        match head.status {
            StatusCode::OK => Ok(Answer { headers: head.headers, body }),
            StatusCode::NOT_FOUND if is_none => {
                Ok(Answer { headers: head.headers, body: Bytes::new() })
            }
            // The body is not quoted, because it may contain the request with its secrets.
            status => Err(format!("status {}", status.as_u16())),
        }
    }

    /// Returns the session with the current server, and the request for it.
    fn prepare(
        &mut self,
        call: Call<'_>,
        basic: Basic,
    ) -> Result<(&mut Session, Request<Bytes>), String> {
        let client = self.client()?;
        let server = self.access.servers.get(self.current).ok_or("no server is configured")?;
        let url = format!("{}{}", server.url, call.target);
        let mut request = Request::builder()
            .method(call.method)
            .uri(url)
            .header(ACCEPT, "application/json")
            .body(Bytes::new())
            .map_err(|_| "the name of the service does not fit into a URL")?;
        for (name, value) in call.headers {
            let name: axum::http::HeaderName =
                name.parse().map_err(|_| "invalid header name".to_owned())?;
            // A value may be a secret, and is not quoted.
            let value = HeaderValue::from_str(value).map_err(|_| "invalid token".to_owned())?;
            request.headers_mut().insert(name, value);
        }
        if let (Basic::Sent, Some(credentials)) = (basic, &server.credentials) {
            let value = format!("Basic {}", STANDARD.encode(credentials.expose()));
            let value = HeaderValue::from_str(&value).map_err(|_| "invalid password".to_owned())?;
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let session = match &mut self.session {
            Some(session) => session,
            none => {
                let address: Server =
                    server.url.parse().map_err(|_| "invalid address".to_owned())?;
                none.insert(Session::new(client, address))
            }
        };
        Ok((session, request))
    }
}

/// Use of a server's credentials in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basic {
    Sent,
    /// The protocol sends them in another way.
    Unused,
}
