//! Logs in users at Casdoor: a browser without a session is redirected to its login page.
//!
//! # Example
//! ```json
//! {
//!   "endpoint_addr": "https://casdoor.example.com",
//!   "callback_url": "https://app.example.com/callback",
//!   "client_id": "7ceb9b7fda4a9061ec1c",
//!   "client_secret": "3416238e1edf915eac08b8fe345b2b95cdba7e04"
//! }
//! ```
//!
//! # Answers
//! - 302 to Casdoor without a session, and back to the requested page after the login
//! - 400 `invalid state` or `failed when accessing token. Invalid code or state`
//! - 503 when a callback belongs to no login of this browser, or Casdoor gives no token
//!
//! # Notes
//! The session is a cookie that is sealed with the client's secret; nodes do not get it. It ends with
//! the access token. `endpoint_addr` and `callback_url` have no `/` at their end, and the route must
//! also match the path of `callback_url`.

use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Identity, Phases, Plugin, RefusalKind, RequestContext, Scope,
    Step,
};

use crate::http_client::{Call, HttpClient, Repeat, Reuse, Scheme, Target};
use crate::oidc::form::{encode, with_query};
use crate::oidc::{CookieTerms, Jar, UsedStates, random_number, random_token, safe_target};
use crate::shared::auth::credentials::hide_cookies;
use crate::shared::auth::grant::digest_of;
use crate::shared::auth::secret::SecretText;
use crate::shared::messages::request_document::text;

/// Purposes for which cookies are sealed.
const LOGIN: &str = "casdoor login";
const SESSION: &str = "casdoor session";

/// Timeout for Casdoor's answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Longest answer of Casdoor, in bytes.
const REPLY_BYTES_MAX: usize = 256 << 10;

/// Seconds that a user has for a login.
const LOGIN_AGE_S: u64 = 600;

/// Configuration of `authz-casdoor`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of Casdoor.
    pub endpoint_addr: String,
    /// Id of the gateway as a client of Casdoor.
    pub client_id: String,
    /// Secret of the client, with which sessions are sealed, too.
    #[schemars(length(min = 1))]
    pub client_secret: SecretText,
    /// Address to which Casdoor sends browsers after a login.
    pub callback_url: String,
}

#[derive(Debug)]
pub struct AuthzCasdoor {
    endpoint: String,
    client_id: String,
    client_secret: SecretText,
    callback_url: String,
    callback_path: String,
    token_target: Target,
    client: HttpClient,
    jar: Jar,
    used_states: UsedStates,
}

/// Login that a browser has begun.
#[derive(Serialize, Deserialize)]
struct PendingLogin {
    state: String,
    /// Path and query that the browser opens after the login.
    target: String,
    begun_s: u64,
}

/// Session of a user.
#[derive(Serialize, Deserialize)]
struct Session {
    /// Random text that tells sessions apart.
    id: String,
    /// End of the access token, in seconds since 1970.
    end_s: u64,
}

impl Plugin for AuthzCasdoor {
    const NAME: &'static str = "authz-casdoor";
    const PRIORITY: i32 = 2559;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    const ENCRYPTED: &'static [&'static str] = &["client_secret"];
    const SENT_TO: &'static [&'static str] = &["endpoint_addr"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        for field in ["endpoint_addr", "callback_url"] {
            schema["properties"][field]["pattern"] = json!(r"^[^\?]+[^/]$");
        }
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let Config { endpoint_addr: endpoint, client_id, client_secret, callback_url } = config;
        let bad = |field: &'static str, error: &dyn std::fmt::Display| {
            ConfError::in_field(field, error.to_string())
        };
        let token_target = Target::parse(&format!("{endpoint}/api/login/oauth/access_token"))
            .map_err(|error| bad("endpoint_addr", &error))?;
        let callback = Target::parse(&callback_url).map_err(|error| bad("callback_url", &error))?;
        let client = HttpClient::new(TIMEOUT, true.into(), Reuse::Never);
        let client = client.with_replies_up_to(REPLY_BYTES_MAX).prepared_for(&token_target);
        let id: String =
            digest(client_id.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("authz_casdoor_session_{id}");
        let context = json!([endpoint, client_id, callback_url]).to_string();
        let mut jar = Jar::new(&name, client_secret.as_bytes(), &context);
        jar.is_secure = (callback.scheme == Scheme::Https).then_some(true);
        Ok(Self {
            callback_path: callback.path,
            endpoint,
            client_id,
            client_secret,
            callback_url,
            token_target,
            client,
            jar,
            used_states: UsedStates::default(),
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let now_s = cx.now().unix_ms / 1_000;
        if cx.path() == self.callback_path.as_bytes() {
            return Step::wait(async move {
                let answer = self.come_back(cx, now_s).await;
                Flow::from(answer.unwrap_or_else(|refusal| refusal).borrowed())
            });
        }
        let cookie = self.jar.find(cx, &self.jar.name, SESSION);
        let session = cookie.content.and_then(|it| serde_json::from_slice::<Session>(&it).ok());
        let Some(session) = session.filter(|session| now_s < session.end_s) else {
            return self.begin(cx, now_s).borrowed().into();
        };
        let grant = digest_of([session.id.as_bytes()]);
        cx.note_identity(Identity { by: Self::NAME, name: b"", grant: grant.as_ref() });
        hide_cookies(cx, |name| name.starts_with(self.jar.name.as_bytes()));
        Step::Continue
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    let mut out = [0; 32];
    out.copy_from_slice(digest.as_ref());
    out
}

fn failed(reason: &str) -> Answer<'static> {
    tracing::warn!(reason, "a login at Casdoor has failed");
    Answer::status(503).refused(RefusalKind::PluginFailed)
}

fn invalid(reason: &str) -> Answer<'static> {
    Answer::text(400, reason.as_bytes().to_vec()).refused(RefusalKind::AuthInvalid)
}

impl AuthzCasdoor {
    /// Redirects a browser to Casdoor.
    fn begin(&self, cx: &RequestContext<'_>, now_s: u64) -> Answer<'static> {
        // Casdoor's plugin of APISIX sends a number.
        let Some(state) = random_number() else { return failed("the system's random number generator is unavailable") };
        let target = safe_target(&cx.real_request_uri());
        let pending = PendingLogin { state: state.clone(), target, begun_s: now_s };
        let Some(lines) = self.cookie(cx, LOGIN, &pending, LOGIN_AGE_S) else {
            return failed("the login does not fit into a cookie");
        };
        let address = with_query(
            &format!("{}/login/oauth/authorize", self.endpoint),
            &[
                ("response_type", "code".to_owned()),
                ("scope", "read".to_owned()),
                ("state", state),
                ("client_id", self.client_id.clone()),
                ("redirect_uri", self.callback_url.clone()),
            ],
        );
        elsewhere(&address, lines).refused(RefusalKind::AuthMissing)
    }

    /// Handles a browser that comes back from Casdoor. The error is the refusal.
    async fn come_back(
        &self,
        cx: &RequestContext<'_>,
        now_s: u64,
    ) -> Result<Answer<'static>, Answer<'static>> {
        let cookie = self.jar.find(cx, &self.jar.name, LOGIN);
        let pending = cookie.content.and_then(|it| serde_json::from_slice::<PendingLogin>(&it).ok());
        let pending = pending.filter(|it| now_s < it.begun_s.saturating_add(LOGIN_AGE_S));
        let pending = pending.ok_or_else(|| failed("no session found"))?;
        let argument = |name| cx.argument(name).map(|value| text(&value).into_owned());
        let (Some(code), Some(state)) = (argument("code"), argument("state")) else {
            return Err(invalid("failed when accessing token. Invalid code or state"));
        };
        if state != pending.state || !self.used_states.take(&state, now_s) {
            return Err(invalid("invalid state"));
        }
        let lasts_s = self.lifetime_of(&code).await.map_err(|reason| failed(&reason))?;
        let id = random_token().ok_or_else(|| failed("the system's random number generator is unavailable"))?;
        let session = Session { id, end_s: now_s.saturating_add(lasts_s) };
        let lines = self.cookie(cx, SESSION, &session, lasts_s);
        let lines = lines.ok_or_else(|| failed("the session does not fit into a cookie"))?;
        Ok(elsewhere(&pending.target, lines))
    }

    /// Exchanges a code for an access token, and returns its lifetime in seconds.
    async fn lifetime_of(&self, code: &str) -> Result<u64, String> {
        let form = encode(&[
            ("code", code.to_owned()),
            ("grant_type", "authorization_code".to_owned()),
            ("client_id", self.client_id.clone()),
            ("client_secret", self.client_secret.as_str().to_owned()),
        ]);
        let kind = b"application/x-www-form-urlencoded".to_vec();
        let call = Call {
            method: b"POST".to_vec(),
            path: self.token_target.path.clone().into_bytes(),
            headers: vec![("Content-Type".to_owned(), kind)],
            body: Bytes::from(form),
            repeat: Repeat::ByMethod,
        };
        let reply = self.client.send(&self.token_target, call).await;
        let reply = reply.map_err(|error| error.to_string())?;
        let data: Value = serde_json::from_slice(&reply.body)
            .map_err(|error| format!("failed to parse casdoor response data: {error}"))?;
        if reply.status != 200 || data["access_token"].as_str().is_none_or(str::is_empty) {
            return Err("failed when accessing token: no access_token contained".into());
        }
        // 0 stands for an invalid token.
        let lasts_s = match &data["expires_in"] {
            Value::String(text) => text.parse().ok(),
            number => number.as_u64(),
        };
        let lasts_s = lasts_s.filter(|lasts_s| *lasts_s > 0);
        lasts_s.ok_or_else(|| "failed when accessing token: invalid access_token".into())
    }

    /// Returns the lines that set the cookie of this plugin.
    fn cookie(
        &self,
        cx: &RequestContext<'_>,
        purpose: &str,
        content: &impl Serialize,
        age_s: u64,
    ) -> Option<Vec<String>> {
        let content = serde_json::to_vec(content).ok()?;
        let sealed = self.jar.seal(purpose, &content)?;
        let scheme = if cx.is_tls() { Scheme::Https } else { Scheme::Http };
        let terms = CookieTerms { age_s: Some(age_s), scheme };
        let before = self.jar.find(cx, &self.jar.name, purpose).parts;
        self.jar.set(&self.jar.name, &sealed, terms, before)
    }
}

fn elsewhere(address: &str, cookies: Vec<String>) -> Answer<'static> {
    let answer = Answer::status(302).with_header("Location", address.as_bytes().to_vec());
    let answer = answer.with_header("Cache-Control", &b"no-store"[..]);
    cookies.into_iter().fold(answer, |answer, line| {
        answer.with_header("Set-Cookie", line.into_bytes())
    })
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome};

    use super::*;
    use crate::shared::test_server::{TestServer, body, reply};

    fn casdoor() -> TestServer {
        TestServer::start(|request| {
            let expected = "code=good&grant_type=authorization_code&client_id=id&client_secret=s";
            let (token, lasts_s) = match body(request) {
                sent if sent == expected => ("t", 100),
                sent if sent.starts_with("code=ended") => ("t", 0),
                _ => ("", 100),
            };
            let answer = json!({"access_token": token, "expires_in": lasts_s});
            reply(200, "", &answer.to_string())
        })
    }

    fn harness(server: &TestServer) -> Harness {
        Harness::new::<AuthzCasdoor>(&json!({
            "endpoint_addr": server.url(""), "client_id": "id", "client_secret": "s",
            "callback_url": "http://app.test/callback",
        }))
    }

    fn get(harness: &mut Harness, uri: &str, cookie: &str) -> Outcome {
        harness.request(&format!("GET {uri} HTTP/1.1\nCookie: other=1; {cookie}\n\n"))
    }

    fn cookie(outcome: &Outcome) -> String {
        outcome.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }

    /// Begins a login; returns its cookie and its state.
    fn begin(harness: &mut Harness) -> (String, String) {
        let outcome = get(harness, "/page?a=b", "x=y");
        assert_eq!(outcome.status(), 302);
        let location = outcome.header("location").unwrap().to_owned();
        let (_, state) = location.split_once("state=").unwrap();
        let state = state.split('&').next().unwrap().to_owned();
        assert!(location.contains("/login/oauth/authorize?response_type=code&scope=read&state="));
        assert!(location.ends_with("&client_id=id&redirect_uri=http%3A%2F%2Fapp.test%2Fcallback"));
        (cookie(&outcome), state)
    }

    #[test]
    fn a_browser_logs_in_and_is_known_until_the_token_ends() {
        let server = casdoor();
        let mut harness = harness(&server);
        harness.now_ms = 1_700_000_000_000;
        let (login, state) = begin(&mut harness);
        // The cookie of a login does not count as a session.
        assert_eq!(get(&mut harness, "/page", &login).status(), 302);
        let back = format!("/callback?code=good&state={state}");
        let outcome = get(&mut harness, &back, &login);
        assert_eq!((outcome.status(), outcome.header("location")), (302, Some("/page?a=b")));
        let session = cookie(&outcome);
        let text = format!("GET /page HTTP/1.1\nCookie: {session}; other=1\n\n");
        let mut exchange = FakeExchange::parse(&text, harness.now_ms);
        let outcome = harness.run(&mut exchange);
        assert!(outcome.passes());
        assert_eq!(outcome.edits, "+Cookie: other=1\n");
        // A state counts once.
        assert_eq!(get(&mut harness, &back, &login).status(), 400);
        harness.now_ms += 100_000;
        assert_eq!(get(&mut harness, "/page", &session).status(), 302);
    }

    #[test]
    fn a_callback_needs_the_login_of_the_same_browser() {
        let server = casdoor();
        let mut harness = harness(&server);
        let (login, state) = begin(&mut harness);
        for (uri, cookie, status) in [
            (format!("/callback?code=good&state={state}"), "a=b", 503),
            ("/callback?code=good&state=other".into(), &*login, 400),
            ("/callback?code=good".into(), &login, 400),
            (format!("/callback?state={state}"), &login, 400),
            (format!("/callback?code=bad&state={state}"), &login, 503),
        ] {
            assert_eq!(get(&mut harness, &uri, cookie).status(), status, "{uri}");
        }
        let (login, state) = begin(&mut harness);
        let ended = format!("/callback?code=ended&state={state}");
        assert_eq!(get(&mut harness, &ended, &login).status(), 503);
    }

    #[test]
    fn bad_confs_are_refused() {
        let with = |field: &str, value: &str| {
            let mut conf = json!({
                "endpoint_addr": "http://a", "client_id": "id", "client_secret": "s",
                "callback_url": "http://b/c",
            });
            conf[field] = json!(value);
            conf
        };
        for (conf, text) in [
            (json!({}), "is required"),
            (with("endpoint_addr", "http://a/"), "failed to match pattern"),
            (with("callback_url", "http://a/b?c"), "failed to match pattern"),
            (with("endpoint_addr", "ftp://a"), "the scheme is neither http nor https"),
            (with("callback_url", "/callback"), "no scheme"),
            (with("client_secret", ""), "string too short"),
        ] {
            let refusal = Harness::refusal::<AuthzCasdoor>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
