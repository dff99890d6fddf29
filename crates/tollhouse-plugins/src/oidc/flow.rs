//! Login flow: sessions, redirects to the provider and back, renewal and logout.

use std::sync::Arc;

use serde_json::Value;
use tollhouse_plugin::{Answer, Carrier, RefusalKind, RequestContext};

use super::checks::{Claims, IdTokenChecks, text_of};
use super::client::{ClientAuth, Form};
use super::cookies::{CookieTerms, CookieValue, Jar, part_names};
use super::engine::{Admission, CookieLines, Engine, Otherwise, Refusal, User, away};
use super::error::{TokenError, Unavailable};
use super::form::with_query;
use super::login::{Callback, PendingLogin, UsedStates, is_login_cookie, safe_target};
use super::now::Now;
use super::provider::Document;
use super::random::token;
use super::session::{Lifetimes, Session};
use super::tokens::{GrantError, Renewals, TokenSet};
use crate::http_client::Scheme;
use crate::shared::auth::credentials::hide_cookies;
use crate::shared::auth::jwt::Token;

/// Purpose for which session cookies are sealed.
const PURPOSE: &str = "session";

/// Maximum number of characters shown of a provider's error text.
const SHOWN_CHARS_MAX: usize = 200;

/// Parameters of the authorization request that a conf cannot set.
const OWN_PARAMETERS: [&str; 9] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "request_uri",
    "request",
];

/// Provider errors after `prompt=none`, when user interaction would be needed.
const NOT_SILENT: [&str; 4] =
    ["login_required", "interaction_required", "consent_required", "account_selection_required"];

/// Settings of logins and state that all requests share.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) jar: Jar,
    pub(crate) lifetimes: Lifetimes,
    /// Lifetime of cookies in seconds. `None`: until the browser is closed.
    pub(crate) cookie_age_s: Option<u64>,
    pub(crate) scope: String,
    pub(crate) callback: Callback,
    pub(crate) logout_path: String,
    pub(crate) after_logout: Option<String>,
    pub(crate) uses_pkce: bool,
    /// Whether ID tokens must contain the nonce of the login.
    pub(crate) requires_nonce: bool,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) pushed: Option<PushedAuthorization>,
    /// Whether expired access tokens are renewed.
    pub(crate) renews: bool,
    /// Seconds before expiry at which they are renewed.
    pub(crate) renewal_leeway_s: u64,
    /// Lifetime of access tokens in seconds, if the provider does not report one.
    pub(crate) access_lasts_s: Option<u64>,
    /// Seconds after which the provider is asked again who the user is.
    pub(crate) verify_interval_s: Option<u64>,
    pub(crate) wants_userinfo: bool,
    pub(crate) revokes: bool,
    pub(crate) used_states: Arc<UsedStates>,
    pub(crate) renewals: Arc<Renewals>,
}

/// Pushed authorization requests (RFC 9126).
#[derive(Debug)]
pub(crate) struct PushedAuthorization {
    pub(crate) endpoint: Option<String>,
    /// Client authentication, if it differs from that at the token endpoint.
    pub(crate) auth: Option<ClientAuth>,
}

/// Interaction of the provider with the user (`prompt` of OpenID Connect Core §3.1.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prompt {
    Allowed,
    /// `prompt=none`: the provider answers without showing a page.
    None,
}

/// Start of a login.
#[derive(Debug)]
struct LoginStart {
    /// Path and query that the browser opens after the login.
    target: String,
    prompt: Prompt,
}

impl LoginStart {
    /// Returns a start that leads back to the requested address.
    fn from_request(cx: &RequestContext<'_>, prompt: Prompt) -> Self {
        Self { target: safe_target(&cx.real_request_uri()), prompt }
    }
}

impl Login {
    /// Decides about a request without a token.
    pub(super) async fn admit(
        &self,
        engine: &Engine,
        cx: &mut RequestContext<'_>,
        now: Now,
    ) -> Result<Admission, Refusal> {
        if cx.path() == self.logout_path.as_bytes() {
            return self.log_out(engine, cx, now).await.map(Admission::Answered);
        }
        if self.callback.is(cx.path()) && comes_back(cx) {
            return self.come_back(engine, cx, now).await.map(Admission::Answered);
        }
        let cookie = self.jar.find(cx, &self.jar.name, PURPOSE);
        if let Some((user, lines)) = self.by_session(engine, cx, &cookie, now).await? {
            self.hide_from_node(cx);
            cx.edits().identities.explain(Carrier::Cookie);
            return Ok(Admission::Passes(Some(Box::new(user)), lines));
        }
        match engine.otherwise {
            Otherwise::Pass => Ok(Admission::Passes(None, CookieLines::new())),
            Otherwise::Refuse => Err(engine.challenge(None)),
            Otherwise::LogIn => {
                let start = LoginStart::from_request(cx, Prompt::Allowed);
                self.begin(engine, cx, now, start).await.map(Admission::Answered)
            }
        }
    }

    /// Returns the user of a valid session, and the lines that store it again if it has changed.
    async fn by_session(
        &self,
        engine: &Engine,
        cx: &RequestContext<'_>,
        cookie: &CookieValue,
        now: Now,
    ) -> Result<Option<(User, CookieLines)>, Refusal> {
        let Some(mut session) =
            session_of(cookie).filter(|it| it.counts(self.lifetimes, now.unix_s))
        else {
            return Ok(None);
        };
        let mut is_changed = session.touch(self.lifetimes, now.unix_s);
        let has_ended = session.has_ended(self.renewal_leeway_s, now.unix_s);
        if has_ended && self.renews {
            if !self.renew(engine, &mut session, now).await? {
                return Ok(None);
            }
            is_changed = true;
        }
        if let Some(interval_s) = self.verify_interval_s
            && now.unix_s >= session.verified_s.saturating_add(interval_s)
            && engine.otherwise == Otherwise::LogIn
        {
            let start = LoginStart::from_request(cx, Prompt::None);
            return Err(self.begin(engine, cx, now, start).await?);
        }
        let lines = match is_changed {
            true => self.save(&session, cookie.parts, scheme(cx))?,
            false => CookieLines::new(),
        };
        let (mut user, scope) = user_of(session);
        if has_ended && !self.renews {
            user.access_token = None;
        }
        engine.check_scopes(scope.as_ref())?;
        if let Some(schema) = &engine.access.schema {
            engine.check_schema(schema, &user.document())?;
        }
        Ok(Some((user, lines)))
    }

    /// Renews the access token; `false` if the user must log in again.
    async fn renew(
        &self,
        engine: &Engine,
        session: &mut Session,
        now: Now,
    ) -> Result<bool, Refusal> {
        let Some(refresh_token) = session.refresh_token.clone() else { return Ok(false) };
        let request = async || {
            let fields = vec![
                ("grant_type", "refresh_token".to_owned()),
                ("refresh_token", refresh_token.clone()),
                ("scope", self.scope.clone()),
            ];
            engine.client.request_tokens(&engine.provider, fields, now).await
        };
        let tokens = match self.renewals.renew(&refresh_token, now.unix_s, request).await {
            Ok(tokens) => self.requested(tokens),
            Err(GrantError::Unavailable(error)) => return Err(away(&error)),
            Err(GrantError::Refused(reason)) => {
                tracing::debug!(reason, "a session is not renewed");
                return Ok(false);
            }
        };
        if let Some(id_token) = &tokens.id_token {
            let before = session.id_token.as_deref().and_then(claims_of);
            let expected = IdTokenChecks {
                client_id: &engine.client.id,
                client_secret: engine.client.secret.as_ref(),
                nonce: None,
                subject: before.as_ref().and_then(|claims| text_of(claims, "sub")),
            };
            let rules = &engine.rules;
            match rules.check_id_token(id_token, &engine.provider, &expected, now).await {
                Ok(_) => {}
                Err(TokenError::Unavailable(error)) => return Err(away(&error)),
                Err(TokenError::Refused(reason)) => {
                    tracing::warn!(reason, "the ID token of a renewal is refused");
                    return Ok(false);
                }
            }
        }
        self.take_tokens(session, tokens, now);
        Ok(true)
    }

    /// Drops an ID token if the `openid` scope was not requested, because the means to verify it
    /// may be missing.
    fn requested(&self, tokens: TokenSet) -> TokenSet {
        let id_token = tokens.id_token.filter(|_| self.is_openid());
        TokenSet { id_token, ..tokens }
    }

    /// Stores tokens in a session. Old tokens that the provider has not replaced stay.
    fn take_tokens(&self, session: &mut Session, tokens: TokenSet, now: Now) {
        let lasts_s = tokens.lasts_s.or(self.access_lasts_s);
        session.access_end_s = lasts_s.map(|lasts_s| now.unix_s.saturating_add(lasts_s));
        session.access_token = tokens.access_token;
        session.refresh_token = tokens.refresh_token.or(session.refresh_token.take());
        session.id_token = tokens.id_token.or(session.id_token.take());
        session.scope = tokens.scope.or(session.scope.take());
    }

    fn save(
        &self,
        session: &Session,
        before: usize,
        scheme: Scheme,
    ) -> Result<CookieLines, Refusal> {
        let text = serde_json::to_vec(session).ok();
        let sealed = text.and_then(|text| self.jar.seal(PURPOSE, &text));
        let sealed = sealed.ok_or_else(|| failed("the session cannot be sealed", Vec::new()))?;
        let terms = CookieTerms { age_s: self.cookie_age_s, scheme };
        let lines = self.jar.set(&self.jar.name, &sealed, terms, before);
        lines.ok_or_else(|| {
            tracing::warn!(bytes = sealed.len(), "a session does not fit into its cookies");
            let reason = "the user's data does not fit into cookies";
            failed(reason, Vec::new())
        })
    }

    /// Removes the cookies from the node's request, because a node could impersonate the user with
    /// them.
    fn hide_from_node(&self, cx: &mut RequestContext<'_>) {
        let own: Vec<String> = part_names(&self.jar.name).collect();
        hide_cookies(cx, |name| {
            own.iter().any(|own| own.as_bytes() == name) || is_login_cookie(&self.jar.name, name)
        });
    }

    /// Redirects a browser to the provider.
    async fn begin(
        &self,
        engine: &Engine,
        cx: &RequestContext<'_>,
        now: Now,
        start: LoginStart,
    ) -> Result<Refusal, Refusal> {
        let document = engine.provider.document(now.ms).await.map_err(|error| away(&error))?;
        let endpoint = document
            .authorization_endpoint
            .as_deref()
            .ok_or_else(|| away(&Unavailable::new("authorization", "no endpoint is known")))?;
        let origin = origin(cx)
            .ok_or_else(|| Box::new(Answer::status(400).refused(RefusalKind::RequestInvalid)))?;
        let path = cx.path();
        let path = match self.callback.is(path) {
            // A login restarts on the way back, and the path already has the suffix.
            true => path.strip_suffix(super::login::DEFAULT_SUFFIX.as_bytes()).unwrap_or(path),
            false => path,
        };
        let redirect_uri = self.callback.address(&origin, path);
        let no_numbers =
            || failed("the system's random number generator is unavailable", Vec::new());
        let pending = PendingLogin::new(start.target, redirect_uri, now.unix_s);
        let mut pending = pending.ok_or_else(no_numbers)?;
        pending.is_silent = start.prompt == Prompt::None;
        if self.uses_pkce {
            pending.verifier = Some(token().ok_or_else(no_numbers)?);
        }
        let cookies = pending.cookie(&self.jar, scheme(cx));
        let cookies =
            cookies.ok_or_else(|| failed("the login does not fit into a cookie", Vec::new()))?;
        let parameters = self.parameters_of(engine, &pending);
        let parameters = self.push(engine, &document, parameters, now).await?;
        Ok(elsewhere(with_query(endpoint, &parameters), cookies))
    }

    fn parameters_of<'p>(
        &'p self,
        engine: &Engine,
        pending: &PendingLogin,
    ) -> Vec<(&'p str, String)> {
        let mut all = vec![
            ("response_type", "code".to_owned()),
            ("client_id", engine.client.id.clone()),
            ("state", pending.state.clone()),
            ("redirect_uri", pending.redirect_uri.clone()),
        ];
        if !self.scope.is_empty() {
            all.push(("scope", self.scope.clone()));
        }
        if self.is_openid() {
            all.push(("nonce", pending.nonce.clone()));
        }
        if let Some(challenge) = pending.challenge() {
            all.push(("code_challenge", challenge));
            all.push(("code_challenge_method", "S256".to_owned()));
        }
        if pending.is_silent {
            all.push(("prompt", "none".to_owned()));
        }
        for (name, value) in &self.parameters {
            let is_said = all.iter().any(|(other, _)| other == name);
            if !is_said && !OWN_PARAMETERS.contains(&name.as_str()) {
                all.push((name, value.clone()));
            }
        }
        all
    }

    /// Whether the `openid` scope is requested, so that an ID token is expected.
    fn is_openid(&self) -> bool {
        self.scope.split_ascii_whitespace().any(|scope| scope == "openid")
    }

    /// Sends the parameters to the provider, if the conf wants that. Returns those for the browser.
    async fn push<'p>(
        &self,
        engine: &Engine,
        document: &Document,
        parameters: Vec<(&'p str, String)>,
        now: Now,
    ) -> Result<Vec<(&'p str, String)>, Refusal> {
        let Some(pushed) = &self.pushed else { return Ok(parameters) };
        let what = "pushed authorization request";
        let discovered = document.pushed_authorization_request_endpoint.as_ref();
        let endpoint = pushed.endpoint.as_ref().or(discovered);
        let endpoint =
            endpoint.ok_or_else(|| away(&Unavailable::new(what, "no endpoint is known")))?;
        let client_id = &engine.client.id;
        let auth = pushed.auth.as_ref().unwrap_or(&engine.client.auth);
        let says_who = matches!(auth, ClientAuth::Basic(_));
        let fields = parameters.into_iter().filter(|(name, _)| says_who || *name != "client_id");
        let form = Form { what, endpoint, fields: fields.collect(), headers: Vec::new() };
        let reply = auth.send(&engine.provider, client_id, now.unix_s, form).await;
        let reply = reply.map_err(|error| away(&error))?;
        match reply.text("request_uri").filter(|_| matches!(reply.status, 200 | 201)) {
            Some(uri) => {
                Ok(vec![("client_id", client_id.clone()), ("request_uri", uri.to_owned())])
            }
            None => Err(away(&Unavailable::new(what, reply.reason()))),
        }
    }

    /// Handles a browser that returns from the provider.
    async fn come_back(
        &self,
        engine: &Engine,
        cx: &RequestContext<'_>,
        now: Now,
    ) -> Result<Refusal, Refusal> {
        let argument =
            |name: &str| cx.argument(name).map(|it| String::from_utf8_lossy(&it).into_owned());
        let state = argument("state").unwrap_or_default();
        let pending = PendingLogin::find(cx, &self.jar, &state, now.unix_s);
        let unknown = "this browser did not start the login, or the login has expired";
        let pending = pending.ok_or_else(|| failed(unknown, Vec::new()))?;
        let removal = PendingLogin::removal(&self.jar, &state, scheme(cx));
        let refused = |reason: &str| failed(reason, removal.clone());
        // A second use comes from someone else or from the browser's history.
        if !self.used_states.take(&state, now.unix_s) {
            return Err(refused("this login has already been used"));
        }
        let document = engine.provider.document(now.ms).await.map_err(|error| away(&error))?;
        // An answer of another provider is refused (RFC 9207).
        let issuer = argument("iss");
        if issuer.as_ref().is_some_and(|issuer| *issuer != document.issuer)
            || (issuer.is_none() && document.names_itself)
        {
            return Err(refused("the answer is not the identity provider's"));
        }
        if let Some(error) = argument("error") {
            if pending.is_silent && NOT_SILENT.contains(&&*error) {
                let start = LoginStart { target: pending.target, prompt: Prompt::Allowed };
                return self.begin(engine, cx, now, start).await;
            }
            let described = argument("error_description").unwrap_or_default();
            let said = printable(&format!("{error} {described}"));
            return Err(refused(&format!("the identity provider refuses: {said}")));
        }
        let code = argument("code").filter(|code| !code.is_empty());
        let code = code.ok_or_else(|| refused("the answer has no code"))?;
        let session =
            self.take_code(engine, &code, &pending, now).await.map_err(|error| match error {
                GrantError::Refused(reason) => {
                    tracing::warn!(reason, "a log-in has failed");
                    refused("the identity provider's answer is not good")
                }
                GrantError::Unavailable(error) => {
                    tracing::warn!(%error, "a log-in has failed");
                    refused("the identity provider gives no answer")
                }
            })?;
        let before = self.jar.find(cx, &self.jar.name, PURPOSE).parts;
        let mut cookies = self.save(&session, before, scheme(cx))?;
        cookies.extend(removal);
        Ok(elsewhere(pending.target, cookies))
    }

    /// Exchanges a code for a session.
    async fn take_code(
        &self,
        engine: &Engine,
        code: &str,
        pending: &PendingLogin,
        now: Now,
    ) -> Result<Session, GrantError> {
        let mut fields = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code.to_owned()),
            ("redirect_uri", pending.redirect_uri.clone()),
        ];
        fields.extend(pending.verifier.clone().map(|verifier| ("code_verifier", verifier)));
        let tokens = engine.client.request_tokens(&engine.provider, fields, now).await?;
        let tokens = self.requested(tokens);
        let claims = match &tokens.id_token {
            None if self.is_openid() => {
                return Err(GrantError::Refused("it gives no ID token".to_owned()));
            }
            None => None,
            Some(id_token) => {
                let expected = IdTokenChecks {
                    client_id: &engine.client.id,
                    client_secret: engine.client.secret.as_ref(),
                    nonce: Some((&pending.nonce, self.requires_nonce)),
                    subject: None,
                };
                let rules = &engine.rules;
                let checked = rules.check_id_token(id_token, &engine.provider, &expected, now);
                Some(checked.await.map_err(|error| match error {
                    TokenError::Refused(reason) => GrantError::Refused(reason.to_owned()),
                    TokenError::Unavailable(error) => GrantError::Unavailable(error),
                })?)
            }
        };
        let mut session = Session {
            begun_s: now.unix_s,
            verified_s: now.unix_s,
            prolonged_s: now.unix_s,
            used_s: now.unix_s,
            ..Session::default()
        };
        let subject = claims.as_ref().and_then(|claims| text_of(claims, "sub"));
        session.userinfo = self.userinfo(engine, &tokens.access_token, subject, now).await?;
        self.take_tokens(&mut session, tokens, now);
        Ok(session)
    }

    /// Asks the provider for the user's data, if wanted. A failure does not prevent the login.
    async fn userinfo(
        &self,
        engine: &Engine,
        access_token: &str,
        subject: Option<&str>,
        now: Now,
    ) -> Result<Option<Claims>, GrantError> {
        let document = engine.provider.document(now.ms).await?;
        let endpoint = document.userinfo_endpoint.as_deref().filter(|_| self.wants_userinfo);
        let Some(endpoint) = endpoint else { return Ok(None) };
        let claims = engine.provider.userinfo(endpoint, access_token).await;
        let Some(claims) = claims else {
            tracing::warn!("the identity provider returned no userinfo for a login");
            return Ok(None);
        };
        // The data may belong to another user (OpenID Connect Core §5.3.2).
        if subject.is_some_and(|subject| text_of(&claims, "sub") != Some(subject)) {
            return Err(GrantError::Refused(
                "userinfo has another subject than the ID token".to_owned(),
            ));
        }
        Ok(Some(claims))
    }

    /// Ends a session, here and at the provider.
    async fn log_out(
        &self,
        engine: &Engine,
        cx: &RequestContext<'_>,
        now: Now,
    ) -> Result<Refusal, Refusal> {
        let cookie = self.jar.find(cx, &self.jar.name, PURPOSE);
        let session = session_of(&cookie);
        let removal = self.jar.remove(&self.jar.name, cookie.parts, scheme(cx));
        let document = engine.provider.document(now.ms).await;
        let document = document.map_err(|error| Box::new(with_cookies(*away(&error), &removal)))?;
        if let Some(session) = session.as_ref().filter(|_| self.revokes) {
            self.revoke(engine, session, &document, now).await;
        }
        if let Some(endpoint) = &document.end_session_endpoint {
            let mut parameters = Vec::new();
            if let Some(id_token) = session.and_then(|session| session.id_token) {
                parameters.push(("id_token_hint", id_token));
            }
            parameters.push(("client_id", engine.client.id.clone()));
            if let Some(after) = &self.after_logout {
                parameters.push(("post_logout_redirect_uri", after.clone()));
            }
            return Ok(elsewhere(with_query(endpoint, &parameters), removal));
        }
        if let Some(after) = &self.after_logout {
            return Ok(elsewhere(after.clone(), removal));
        }
        let page = &b"<html><body>Logged Out</body></html>"[..];
        let answer = Answer::text(200, page).with_header("Content-Type", &b"text/html"[..]);
        Ok(Box::new(with_cookies(answer, &removal)))
    }

    /// Revokes the tokens at the provider (RFC 7009). Failures are logged and ignored.
    async fn revoke(&self, engine: &Engine, session: &Session, document: &Document, now: Now) {
        let Some(endpoint) = document.revocation_endpoint.as_deref() else { return };
        let access = Some(("access_token", &session.access_token));
        let refresh = session.refresh_token.as_ref().map(|token| ("refresh_token", token));
        for (kind, token) in refresh.into_iter().chain(access) {
            let fields = vec![("token", token.clone()), ("token_type_hint", kind.to_owned())];
            let form = Form { what: "revocation", endpoint, fields, headers: Vec::new() };
            let client = &engine.client;
            let sent = client.auth.send(&engine.provider, &client.id, now.unix_s, form).await;
            match sent {
                Ok(reply) if reply.status == 200 => {}
                Ok(reply) => tracing::warn!(reason = reply.reason(), "a token is not revoked"),
                Err(error) => tracing::warn!(%error, "a token is not revoked"),
            }
        }
    }
}

fn session_of(cookie: &CookieValue) -> Option<Session> {
    serde_json::from_slice(cookie.content.as_ref()?).ok()
}

/// Returns the user and scopes of a session.
fn user_of(session: Session) -> (User, Option<Value>) {
    // Some providers report the granted scopes in the token, others beside it.
    let scope_in = |text: &str| claims_of(text).and_then(|mut claims| claims.remove("scope"));
    let scope = scope_in(&session.access_token)
        .or_else(|| session.scope.as_deref().map(Value::from))
        .or_else(|| session.id_token.as_deref().and_then(scope_in));
    let user = User {
        access_token: Some(session.access_token),
        userinfo: session.userinfo.map(Arc::new),
        id_token: session.id_token.as_deref().and_then(claims_of),
        raw_id_token: session.id_token,
        refresh_token: session.refresh_token,
    };
    (user, scope)
}

/// Returns the claims of a token that was verified on receipt.
fn claims_of(token: &str) -> Option<Claims> {
    Token::parse(token.as_bytes()).map(|token| token.payload)
}

/// Whether the request carries an answer of the provider (OpenID Connect Core §3.1.2.5). Otherwise
/// it is for a page at the callback's address.
fn comes_back(cx: &RequestContext<'_>) -> bool {
    ["state", "code", "error"].iter().any(|name| cx.argument(name).is_some())
}

/// Returns scheme and host as the client sees them; `None` if the host is invalid.
fn origin(cx: &RequestContext<'_>) -> Option<String> {
    let host = cx.header("Host")?;
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(byte);
    let host =
        std::str::from_utf8(&host).ok().filter(|host| host.bytes().all(|it| is_host(&it)))?;
    let scheme = scheme(cx).as_str();
    (!host.is_empty()).then(|| format!("{scheme}://{host}"))
}

/// Returns the scheme by which the client reached the gateway, or the proxy in front.
fn scheme(cx: &RequestContext<'_>) -> Scheme {
    let is_tls = match cx.header("X-Forwarded-Proto") {
        Some(scheme) => *scheme == *b"https",
        None => cx.is_tls(),
    };
    if is_tls { Scheme::Https } else { Scheme::Http }
}

fn elsewhere(location: String, cookies: CookieLines) -> Refusal {
    let answer = Answer::status(302).with_header("Location", location.into_bytes());
    Box::new(with_cookies(answer, &cookies))
}

/// Adds cookies to an answer and forbids caching.
fn with_cookies(answer: Answer<'static>, cookies: &[String]) -> Answer<'static> {
    let answer = answer.with_header("Cache-Control", &b"no-store"[..]);
    cookies
        .iter()
        .fold(answer, |answer, line| answer.with_header("Set-Cookie", line.clone().into_bytes()))
}

/// Builds the answer to a failed login.
fn failed(reason: &str, cookies: CookieLines) -> Refusal {
    // Plain text with `nosniff`, because parts of it come from third parties.
    let answer = Answer::message(500, reason)
        .refused(RefusalKind::PluginFailed)
        .with_header("X-Content-Type-Options", &b"nosniff"[..]);
    Box::new(with_cookies(answer, &cookies))
}

/// Returns text of third parties in a safe form: shortened, without control and markup characters.
pub(super) fn printable(text: &str) -> String {
    let is_plain = |letter: &char| !letter.is_control() && !matches!(letter, '<' | '>' | '&');
    text.trim().chars().filter(is_plain).take(SHOWN_CHARS_MAX).collect()
}
