//! Logs in users by the protocol CAS: a browser without a session is redirected to the CAS server,
//! whose ticket the gateway validates.
//!
//! # Example
//! ```json
//! {
//!   "idp_uri": "https://cas.example.com/cas",
//!   "cas_callback_uri": "https://app.example.com/cas_callback",
//!   "logout_uri": "/logout",
//!   "cookie": {"secret": "0123456789abcdef0123456789abcdef"}
//! }
//! ```
//!
//! # Answers
//! - 302 to the CAS server without a session, to the requested page after the login, and to the
//!   server's logout at `logout_uri`
//! - 200 when the server ends a session, 400 `invalid logout request from IdP, no ticket`
//! - 401 `invalid callback state` or `invalid ticket`, and at `logout_uri` without a session
//! - 503 when `allowed_hosts` does not contain the requested host
//!
//! # Notes
//! Sessions are in the memory of this process, as the server must be able to end them, and last an hour
//! from the last request. A browser has a random id, not the ticket. There are at most 50 sessions of a
//! user, of which the oldest ends, and 100,000 in all. A login has to be complete within ten minutes. If
//! `cas_callback_uri` is a path, the service's address contains the `Host` of the request, so that a
//! ticket for any other service of the CAS server with that path counts: give an absolute address, or
//! `allowed_hosts`. A session counts for the service that began it. The route must also match callback
//! and logout.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Identity, Phases, Plugin, RefusalKind, Remark,
    RequestContext, Scope, Step,
};

use crate::http_client::{Call, HttpClient, Repeat, Reuse, Scheme, Target};
use crate::oidc::form::with_query;
use crate::oidc::{CookieTerms, Jar, SameSite, random_token, safe_target};
use crate::shared::auth::credentials::hide_cookies;
use crate::shared::auth::grant::digest_of;
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};
use crate::shared::messages::request_document::text;

use self::sessions::{Login, Sessions};

mod sessions;

/// Cookie with the page that a browser has requested.
const REQUESTED: &str = "CAS_REQUEST_URI";

/// Seconds that a user has for a login.
const LOGIN_AGE_S: u64 = 600;

/// Timeout for the server's answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Longest answer and longest logout request of the server, in bytes.
const MESSAGE_BYTES_MAX: u64 = 64 << 10;

/// Configuration of `cas-auth`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Longest logout request, in bytes; 64 MiB by default. Values above 64 KiB count as 64 KiB.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_req_body_size: u64,
    /// Address of the CAS server.
    pub idp_uri: String,
    /// Address, or path on the requested host, to which the server sends browsers.
    pub cas_callback_uri: String,
    /// Hosts, without a port, for which a path in `cas_callback_uri` is completed; other hosts are answered
    /// 503. All hosts by default. An absolute `cas_callback_uri` needs no list.
    #[schemars(length(min = 1, max = 128))]
    pub allowed_hosts: Option<Vec<String>>,
    /// Path that ends a session.
    pub logout_uri: String,
    /// Cookies of sessions.
    pub cookie: CookieConfig,
}

/// Cookies of sessions.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CookieConfig {
    /// Secret that protects the page to which a login leads.
    #[schemars(length(min = 32))]
    pub secret: SecretText,
    /// Whether browsers send the cookies over TLS only; on by default.
    #[serde(default = "default_true")]
    pub secure: bool,
    /// Sending of the cookies with requests from other sites; `Lax` by default.
    #[serde(default)]
    pub samesite: SameSiteConfig,
}

/// Sending of cookies with requests from other sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
pub enum SameSiteConfig {
    #[default]
    Lax,
    None,
}

defaults! {
    default_body_bytes_max: u64 = 64 << 20;
}

#[derive(Debug)]
pub struct CasAuth {
    server: String,
    callback_uri: String,
    callback_path: String,
    /// Hosts in lower case; `None` allows all.
    allowed_hosts: Option<Vec<String>>,
    logout_path: String,
    body_bytes_max: u64,
    client: HttpClient,
    /// Name of the cookie with the session's id.
    cookie_name: String,
    jar: Jar,
    sessions: Arc<Sessions>,
}

impl Plugin for CasAuth {
    const NAME: &'static str = "cas-auth";
    const PRIORITY: i32 = 2597;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    const ENCRYPTED: &'static [&'static str] = &["cookie.secret"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let host = r"^([^/:*]+|\[[^/*]+\])$";
        schema["properties"]["allowed_hosts"]["items"] = json!({"type": "string", "pattern": host});
    }

    fn remarks(conf: &Value) -> Vec<Remark> {
        let is_path = conf["cas_callback_uri"].as_str().is_some_and(|uri| !uri.contains("://"));
        if !is_path || conf["allowed_hosts"].is_array() {
            return Vec::new();
        }
        vec![Remark {
            field: "cas_callback_uri",
            reason: "the service's address contains the Host of the request: a ticket for another service of the CAS \
                     server is accepted from a client that sends that service's Host",
            hint: "set allowed_hosts, or give an absolute cas_callback_uri",
        }]
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let Config { idp_uri: server, cas_callback_uri: callback_uri, cookie, .. } = config;
        if cookie.samesite == SameSiteConfig::None && !cookie.secure {
            return Err("cookie.secure must be true when cookie.samesite is \"None\"".into());
        }
        let bad = |field: &'static str, error: &dyn std::fmt::Display| {
            ConfError::in_field(field, error.to_string())
        };
        let target = Target::parse(&server).map_err(|error| bad("idp_uri", &error))?;
        let callback_path = match callback_uri.contains("://") {
            true => {
                let target = Target::parse(&callback_uri);
                let path = target.map_err(|error| bad("cas_callback_uri", &error))?.path;
                path.split('?').next().unwrap_or_default().to_owned()
            }
            false => callback_uri.clone(),
        };
        let allowed_hosts = config.allowed_hosts.map(|hosts| {
            hosts.iter().map(|host| host.to_ascii_lowercase()).collect::<Vec<_>>()
        });
        let identity = digest_of([server.as_bytes(), callback_uri.as_bytes()]);
        let id: String = identity.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut jar = Jar::new(REQUESTED, cookie.secret.as_bytes(), &id);
        jar.is_secure = Some(cookie.secure);
        jar.same_site = match cookie.samesite {
            SameSiteConfig::Lax => SameSite::Lax,
            SameSiteConfig::None => SameSite::None,
        };
        let client = HttpClient::new(TIMEOUT, true.into(), Reuse::Never);
        let bytes_max = usize::try_from(MESSAGE_BYTES_MAX).unwrap_or(usize::MAX);
        Ok(Self {
            client: client.with_replies_up_to(bytes_max).prepared_for(&target),
            server,
            callback_uri,
            callback_path,
            allowed_hosts,
            logout_path: config.logout_uri,
            body_bytes_max: config.max_req_body_size.min(MESSAGE_BYTES_MAX),
            sessions: scope.keep(&id, Sessions::default),
            cookie_name: format!("CAS_SESSION_{id}"),
            jar,
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let is_callback = cx.path() == self.callback_path.as_bytes();
        match cx.method() {
            b"GET" if cx.path() == self.logout_path.as_bytes() => return self.log_out(cx).borrowed().into(),
            b"POST" if is_callback => {
                return Step::wait(async move { self.end_session(cx).await.borrowed().into() });
            }
            _ => {}
        }
        let Some(service) = self.service(cx) else {
            return Answer::status(503).refused(RefusalKind::DeniedByRule).into();
        };
        let now_ms = cx.now().monotonic_ms;
        let id = cx.cookie(&self.cookie_name);
        let user = id.as_ref().and_then(|id| self.sessions.user(&text(id), &service, now_ms));
        if let Some(user) = user {
            let grant = digest_of([id.as_deref().unwrap_or_default()]);
            cx.note_identity(Identity {
                by: Self::NAME,
                name: user.as_bytes(),
                grant: grant.as_ref(),
            });
            hide_cookies(cx, |name| name == self.cookie_name.as_bytes());
            return Step::Continue;
        }
        let ticket = cx.argument("ticket").map(|ticket| text(&ticket).into_owned());
        match ticket.filter(|_| is_callback) {
            Some(ticket) => Step::wait(async move {
                let answer = self.come_back(cx, &ticket, &service).await;
                Flow::from(answer.unwrap_or_else(|refusal| refusal).borrowed())
            }),
            None => self.begin(cx, &service, id.as_deref()).borrowed().into(),
        }
    }
}

impl CasAuth {
    /// Returns the address of this service, as the server knows it; `None` if the requested host is not
    /// allowed.
    fn service(&self, cx: &RequestContext<'_>) -> Option<String> {
        if self.callback_uri.contains("://") {
            return Some(self.callback_uri.clone());
        }
        let part = |variable| {
            let value = cx.variables().variable(&variable).unwrap_or_default();
            text(&value).into_owned()
        };
        let (scheme, host) = (part(Variable::Scheme), part(Variable::Host));
        let is_equal = |other: &String| other.eq_ignore_ascii_case(&host);
        if self.allowed_hosts.as_ref().is_some_and(|hosts| !hosts.iter().any(is_equal)) {
            tracing::warn!(host, "cas-auth refuses a request: allowed_hosts does not contain its host");
            return None;
        }
        Some(format!("{scheme}://{host}:{}{}", part(Variable::ServerPort), self.callback_uri))
    }

    /// Redirects a browser to the server.
    fn begin(
        &self,
        cx: &RequestContext<'_>,
        service: &str,
        old_session: Option<&[u8]>,
    ) -> Answer<'static> {
        let query = [("service", service.to_owned())];
        let address = with_query(&format!("{}/login", self.server), &query);
        let target = safe_target(&cx.real_request_uri());
        let content = format!("{} {target}", cx.now().unix_ms / 1_000);
        let sealed = self.jar.seal(REQUESTED, content.as_bytes());
        let terms = self.terms(cx, Some(LOGIN_AGE_S));
        let mut lines = sealed.and_then(|sealed| self.jar.set(REQUESTED, &sealed, terms, 0));
        if old_session.is_some()
            && let Some(lines) = &mut lines {
            lines.extend(self.removal(cx, &self.cookie_name));
        }
        match lines {
            Some(lines) => elsewhere(&address, lines).refused(RefusalKind::AuthMissing),
            None => Answer::status(503).refused(RefusalKind::PluginFailed),
        }
    }

    /// Returns the page that a browser has requested; `None` if the login is forged or too old.
    fn requested(&self, cx: &RequestContext<'_>) -> Option<Vec<u8>> {
        let content = self.jar.find(cx, REQUESTED, REQUESTED).content?;
        let space = content.iter().position(|byte| *byte == b' ')?;
        let (begun_s, target) = content.split_at(space);
        let begun_s: u64 = std::str::from_utf8(begun_s).ok()?.parse().ok()?;
        let age_s = (cx.now().unix_ms / 1_000).saturating_sub(begun_s);
        (age_s < LOGIN_AGE_S).then(|| target[1..].to_vec())
    }

    /// Handles a browser that comes back from the server. The error is the refusal.
    async fn come_back(
        &self,
        cx: &RequestContext<'_>,
        ticket: &str,
        service: &str,
    ) -> Result<Answer<'static>, Answer<'static>> {
        let refused = |message| Answer::message(401, message).refused(RefusalKind::AuthInvalid);
        let requested = self.requested(cx).ok_or_else(|| refused("invalid callback state"))?;
        let user = self.user_of(ticket, service.to_owned()).await;
        let user = user.ok_or_else(|| refused("invalid ticket"))?;
        let id = random_token().ok_or_else(|| Answer::status(503))?;
        if !self.sessions.begin(&id, Login { ticket, user: &user, service }, cx.now().monotonic_ms) {
            tracing::warn!("a session of CAS is refused: the limit on sessions is reached, or the ticket has one");
            return Err(Answer::status(503).refused(RefusalKind::PluginFailed));
        }
        let mut jar_line = self.session_cookie(cx, &id);
        jar_line.extend(self.removal(cx, REQUESTED));
        Ok(elsewhere(&safe_target(&requested), jar_line))
    }

    /// Validates a ticket and returns its user.
    async fn user_of(&self, ticket: &str, service: String) -> Option<String> {
        let query = [("ticket", ticket.to_owned()), ("service", service)];
        let address = with_query(&format!("{}/serviceValidate", self.server), &query);
        let target = Target::parse(&address).ok()?;
        let call = Call {
            method: b"GET".to_vec(),
            path: target.path.clone().into_bytes(),
            headers: Vec::new(),
            body: Bytes::new(),
            // A ticket is valid once.
            repeat: Repeat::ByMethod,
        };
        match self.client.send(&target, call).await {
            Ok(reply) if reply.status == 200 => {
                let is_success = text(&reply.body).contains("<cas:authenticationSuccess>");
                let user = between(&reply.body, "<cas:user>", "</cas:user>");
                user.filter(|user| is_success && !user.is_empty())
            }
            Ok(reply) => {
                tracing::warn!(status = reply.status, "a CAS server refuses to validate a ticket");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "a CAS server does not validate a ticket");
                None
            }
        }
    }

    /// Ends the session that the server names.
    async fn end_session(&self, cx: &mut RequestContext<'_>) -> Answer<'static> {
        let body = cx.read_body(self.body_bytes_max).await.unwrap_or_default();
        match between(body, "<samlp:SessionIndex>", "</samlp:SessionIndex>") {
            Some(ticket) => {
                self.sessions.end_ticket(&ticket);
                Answer { body: tollhouse_plugin::AnswerBody::Empty, ..Answer::status(200) }
            }
            None => Answer::message(400, "invalid logout request from IdP, no ticket")
                .refused(RefusalKind::RequestInvalid),
        }
    }

    fn log_out(&self, cx: &RequestContext<'_>) -> Answer<'static> {
        let Some(id) = cx.cookie(&self.cookie_name) else {
            return Answer::status(401).refused(RefusalKind::AuthMissing);
        };
        self.sessions.end(&text(&id));
        elsewhere(&format!("{}/logout", self.server), self.removal(cx, &self.cookie_name))
    }

    fn terms(&self, cx: &RequestContext<'_>, age_s: Option<u64>) -> CookieTerms {
        CookieTerms { age_s, scheme: if cx.is_tls() { Scheme::Https } else { Scheme::Http } }
    }

    fn session_cookie(&self, cx: &RequestContext<'_>, id: &str) -> Vec<String> {
        vec![self.jar.plain(&self.cookie_name, id, self.terms(cx, None))]
    }

    fn removal(&self, cx: &RequestContext<'_>, name: &str) -> Vec<String> {
        self.jar.remove(name, 1, self.terms(cx, None).scheme)
    }
}

/// Returns the text between two others.
fn between(bytes: &[u8], start: &str, end: &str) -> Option<String> {
    let body = text(bytes);
    let (_, rest) = body.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found.to_owned())
}

fn elsewhere(address: &str, cookies: Vec<String>) -> Answer<'static> {
    let answer = Answer::status(302).with_header("Location", address.as_bytes().to_vec());
    let answer = answer.with_header("Cache-Control", &b"no-store"[..]);
    cookies.into_iter().fold(answer, |answer, line| {
        answer.with_header("Set-Cookie", line.into_bytes())
    })
}

#[cfg(test)]
mod tests;
