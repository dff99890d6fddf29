//! Actions of plugins: the compiled effect of each rule, and its execution.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tollhouse_plugin as plugin;
use tollhouse_plugin::{Codings, Identity, RequestContext};
use tollhouse_shenyu::access::{BasicAuthRule, KeyAuthRule, WafRule};
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::breaker::{Breaker, Fallback};
use tollhouse_shenyu::cache::CacheRule;
use tollhouse_shenyu::cryptor::CryptorRule;
use tollhouse_shenyu::divide::DivideRule;
use tollhouse_shenyu::jwt::JwtRule;
use tollhouse_shenyu::limiter::{Limiter, LimiterRule};
use tollhouse_shenyu::mock::MockRule;
use tollhouse_shenyu::paths::{ContextPathRule, RedirectRule, RewriteRule};
use tollhouse_shenyu::shaping::{BodyEdits, RequestRule, ResponseRule};

use crate::cached::{self, Found};
use crate::casdoor::CasdoorGate;
use crate::chain::Chain;
use crate::counts::{Permit, Shared, SharedCache};
use crate::dubbo::DubboCaller;
use crate::engines::{Logins, Scripts};
use crate::fallback::OnFailure;
use crate::record::{Record, Recorder};
use crate::reply::reply;
use crate::shape::{self, AnswerEdit};
use crate::turn::Turn;
use crate::view::civil_time;
use crate::{grpc, guard};

/// Effect of a rule on requests, compiled from its handle.
#[derive(Debug)]
pub(crate) enum Action {
    Pass,
    /// Passes requests on, because the rule cannot be used for this reason.
    Broken(String),
    /// Answers every request without asking a node.
    Refuse(Answer),
    Waf(WafRule),
    Sign {
        /// Whether the body is part of the signed text.
        reads_body: bool,
    },
    KeyAuth(KeyAuthRule),
    BasicAuth(BasicAuthRule),
    ContextPath(ContextPathRule),
    Rewrite(RewriteRule),
    Redirect(RedirectRule),
    Mock(MockRule),
    Cache {
        rule: CacheRule,
        id: String,
        cache: SharedCache,
    },
    Jwt(JwtRule),
    Casdoor(Box<CasdoorGate>),
    /// Admits users who are logged in, and redirects others to the login.
    OAuth2(Arc<dyn Logins>),
    Limit(Shared<Limiter>),
    /// As `Limit`, with counts in Redis.
    LimitTogether(Box<SharedLimit>),
    Break {
        breaker: Shared<Breaker>,
        /// Names under which its refusals are counted.
        refusals: Refusals,
    },
    MapParameters(Arc<BodyEdits>),
    Request(Box<RequestRule>),
    /// Changes a node's response. Runs after a proxy has accepted the request.
    ModifyAnswer(Arc<ResponseRule>),
    /// Decrypts or encrypts fields of the request body.
    CryptRequest(Arc<CryptorRule>),
    /// Decrypts or encrypts fields of a node's response. Runs after a proxy has accepted the
    /// request.
    CryptAnswer(Arc<CryptorRule>),
    /// Records the exchange in a log when it ends.
    Record(Box<Recorder>),
    /// Calls a Dubbo method and answers with its result.
    Dubbo(Box<DubboCaller>),
    /// Converts the request to a gRPC call to a node of the target with this index.
    Grpc {
        target: usize,
    },
    /// Sends the request to a node of the target with this index.
    Proxy {
        rule: DivideRule,
        target: usize,
    },
}

/// Names under which a breaker's refusals are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusals {
    limit: &'static str,
    open: &'static str,
}

impl Refusals {
    pub(crate) const HYSTRIX: Self = Self { limit: "hystrix open", open: "hystrix open" };
    pub(crate) const SENTINEL: Self = Self { limit: "sentinel limit", open: "sentinel open" };
    pub(crate) const RESILIENCE4J: Self =
        Self { limit: "resilience4j limit", open: "resilience4j open" };

    fn named(self, answer: Answer) -> &'static str {
        if matches!(answer, Answer::BreakerOpen) { self.open } else { self.limit }
    }
}

/// Continuation of a request after an action.
pub(crate) enum Done<'o> {
    Next,
    /// The request goes to a node of the target with this index.
    Node(usize),
    Answered(Box<plugin::Answer<'o>>),
    /// The request runs through the gateway again with this path.
    Anew(String),
}

impl Chain {
    pub(crate) async fn act<'o>(
        &self,
        action: &Action,
        cx: &mut RequestContext<'_>,
        turn: &mut Turn,
    ) -> Done<'o> {
        let refused = |answer| Done::Answered(Box::new(reply(answer, None, self.terms().statuses)));
        match action {
            Action::Pass | Action::Broken(_) => Done::Next,
            Action::Refuse(answer) => refused(*answer),
            Action::ContextPath(rule) => {
                match turn.take_off_context(rule, cx.random() % 100, &self.engine) {
                    true => Done::Next,
                    false => refused(Answer::ContextPathIllegal),
                }
            }
            Action::Rewrite(rule) => {
                turn.rewrite(rule, cx.random() % 100, &self.engine);
                Done::Next
            }
            Action::OAuth2(logins) => admit(&**logins, cx, turn).await,
            Action::Redirect(RedirectRule::Pass) => Done::Next,
            Action::Redirect(RedirectRule::Inside(path)) => Done::Anew(path.clone()),
            Action::Redirect(RedirectRule::Elsewhere { location, status }) => {
                elsewhere(*status, location.clone())
            }
            Action::Mock(rule) => mock(rule, cx),
            Action::Cache { rule, id, cache } => find_kept(*rule, (id, cache), cx, turn),
            Action::Break { breaker, refusals } => match begin_call(breaker, cx, turn).await {
                Ok(()) => Done::Next,
                Err((answer, fallback)) => {
                    cx.edits().refused_by = Some(refusals.named(answer));
                    fall_back(fallback, turn).unwrap_or_else(|| refused(answer))
                }
            },
            Action::Dubbo(caller) => {
                let metadata = turn.metadata(&self.engine);
                // Checked before the call, because a call whose response must not be delivered is
                // not made.
                if let Err(refusal) = Box::pin(self.prepare_answer(cx, turn)).await {
                    return Done::Answered(refusal);
                }
                match caller.call(metadata, cx, turn).await {
                    Ok(mut answer) => {
                        let edits = &turn.aftermath.answer_edits;
                        shape::crypt_answer(edits, &mut answer, self.terms().statuses);
                        Done::Answered(Box::new(answer))
                    }
                    Err(answer) => refused(answer),
                }
            }
            Action::Grpc { target } => {
                let metadata = turn.metadata(&self.engine);
                match grpc::call(metadata, cx, turn).await {
                    Ok(()) => Done::Node(*target),
                    Err(answer) => refused(answer),
                }
            }
            Action::Proxy { rule, target } => {
                limit_size(rule, cx).map_or(Done::Node(*target), refused)
            }
            Action::MapParameters(_)
            | Action::Request(_)
            | Action::ModifyAnswer(_)
            | Action::CryptRequest(_)
            | Action::CryptAnswer(_)
            | Action::Record(_) => {
                shape_exchange(action, cx, turn).await.map_or_else(refused, |()| Done::Next)
            }
            protection => {
                self.check(protection, cx, turn).await.map_or_else(refused, |()| Done::Next)
            }
        }
    }

    /// Checks a request by the rule of a protecting plugin. Returns the answer to a refused request
    /// as the error.
    async fn check(
        &self,
        action: &Action,
        cx: &mut RequestContext<'_>,
        turn: &mut Turn,
    ) -> Result<(), Answer> {
        match action {
            Action::Waf(rule) => rule.answer().map_or(Ok(()), Err),
            Action::Sign { reads_body } => {
                if *reads_body && cx.read_body(guard::SIGNED_BODY_BYTES_MAX).await.is_err() {
                    return Err(Answer::RequestTooLarge);
                }
                let delay = self.terms().sign_delay_minutes;
                guard::check_signature(self.applications(), cx, turn, delay, *reads_body)
            }
            Action::KeyAuth(rule) => check_key(rule, cx, turn),
            Action::BasicAuth(rule) => {
                let given = cx.header("authorization");
                let given = given.as_ref().map(|given| String::from_utf8_lossy(given));
                rule.check(given.as_deref())?;
                let name = rule.user().to_owned();
                cx.note_identity(Identity { by: "basicAuth", name: name.as_bytes(), grant: b"" });
                Ok(())
            }
            Action::Jwt(rule) => check_token(rule, cx),
            Action::Casdoor(gate) => gate.check(cx, turn).await,
            Action::Limit(limiter) => {
                let header = |name: &str| text_header(cx, name);
                let (peer, now_s) = (cx.remote_address(), cx.now().unix_ms / 1000);
                let Some(permit) = limiter.admit(|rule| rule.key(peer, header), now_s) else {
                    cx.edits().refused_by = Some("rateLimiter");
                    return Err(Answer::TooManyRequests);
                };
                turn.aftermath.permits.extend(permit);
                Ok(())
            }
            Action::LimitTogether(limit) => limit.check(cx, turn).await,
            // The caller handles all other actions.
            _ => Err(Answer::InternalException),
        }
    }
}

/// Changes the request, prepares changes of the response, or starts a record.
///
/// # Errors
///
/// The answer to a request that cannot be changed as required.
async fn shape_exchange(
    action: &Action,
    cx: &mut RequestContext<'_>,
    turn: &mut Turn,
) -> Result<(), Answer> {
    match action {
        Action::MapParameters(edits) => shape::edit_body(edits, cx).await?,
        Action::Request(rule) => shape::edit_request(rule, cx, turn),
        Action::CryptRequest(rule) => shape::crypt_body(rule, cx).await?,
        Action::Record(recorder) => Record::begin(recorder, cx, turn).await,
        Action::ModifyAnswer(rule) => {
            if !rule.body.is_empty() {
                cx.read_answer_in(Codings::IDENTITY);
            }
            turn.aftermath.answer_edits.push(AnswerEdit::Modify(Arc::clone(rule)));
        }
        Action::CryptAnswer(rule) => {
            cx.read_answer_in(Codings::IDENTITY);
            turn.aftermath.answer_edits.push(AnswerEdit::Crypt(Arc::clone(rule)));
        }
        // The caller handles all other actions.
        _ => return Err(Answer::InternalException),
    }
    Ok(())
}

/// Admits a user who is logged in, and redirects others to the login.
async fn admit<'o>(logins: &dyn Logins, cx: &mut RequestContext<'_>, turn: &mut Turn) -> Done<'o> {
    match logins.admit(cx).await {
        Ok(cookies) => {
            turn.aftermath.cookies.extend(cookies);
            Done::Next
        }
        Err(answer) => Done::Answered(Box::new(answer.borrowed())),
    }
}

fn find_kept<'o>(
    rule: CacheRule,
    place: (&str, &SharedCache),
    cx: &RequestContext<'_>,
    turn: &mut Turn,
) -> Done<'o> {
    match cached::find(rule, place, cx, turn) {
        Found::Answer(answer) => return Done::Answered(answer),
        Found::Nothing(keep) => turn.aftermath.keep = Some(keep),
        Found::NotAsked => {}
    }
    Done::Next
}

fn elsewhere<'o>(status: u16, location: String) -> Done<'o> {
    Done::Answered(Box::new(
        plugin::Answer::status(status).with_header("Location", location.into_bytes()),
    ))
}

fn mock<'o>(rule: &MockRule, cx: &RequestContext<'_>) -> Done<'o> {
    let text = rule.text(civil_time(cx.now().unix_ms), &mut || cx.random());
    let answer = plugin::Answer::text(rule.status, text.into_bytes());
    Done::Answered(Box::new(answer.with_header("Content-Type", &b"application/json"[..])))
}

/// Begins a call at a breaker and waits for its turn. If the breaker refuses, returns its answer
/// and the fallback.
async fn begin_call(
    breaker: &Shared<Breaker>,
    cx: &mut RequestContext<'_>,
    turn: &mut Turn,
) -> Result<(), (Answer, Fallback)> {
    let begun = breaker.begin(cx.now().unix_ms);
    let (call, wait_ms) =
        begun.map_err(|answer| (answer, breaker.rule(|rule| rule.fallback().clone())))?;
    turn.aftermath.calls.push(call);
    turn.aftermath.fallback = OnFailure::from_breaker(breaker, |location| turn.is_asked(location));
    cx.edits().time_max = breaker.rule(|rule| rule.time_max_ms).map(Duration::from_millis);
    if wait_ms > 0 {
        cx.sleep(Duration::from_millis(wait_ms)).await;
    }
    Ok(())
}

/// Applies the fallback of a refused call; `None` if the breaker's own answer applies.
fn fall_back<'o>(fallback: Fallback, turn: &Turn) -> Option<Done<'o>> {
    match fallback {
        // A fallback to the refused path itself would loop.
        Fallback::Inside(path) if path != turn.asked() => Some(Done::Anew(path)),
        Fallback::Elsewhere(location) if !turn.is_asked(&location) => {
            Some(elsewhere(302, location))
        }
        _ => None,
    }
}

/// Shortest time between two warnings that Redis does not answer, in seconds.
const SILENCE_LOG_S: u64 = 10;

/// Rate limit with counts in Redis.
#[derive(Debug)]
pub(crate) struct SharedLimit {
    rule: LimiterRule,
    id: String,
    scripts: Arc<dyn Scripts>,
    /// Time of the last warning that Redis does not answer, in seconds since 1970.
    logged_s: AtomicU64,
}

impl SharedLimit {
    pub(crate) fn new(rule: LimiterRule, id: &str, scripts: Arc<dyn Scripts>) -> Self {
        Self { rule, id: id.to_owned(), scripts, logged_s: AtomicU64::new(0) }
    }

    /// Asks Redis to admit a request. Without an answer the request passes, as in ShenYu, whose
    /// gateways would let it pass too.
    async fn check(&self, cx: &mut RequestContext<'_>, turn: &mut Turn) -> Result<(), Answer> {
        let now_ms = cx.now().unix_ms;
        let key = self.rule.key(cx.remote_address(), |name| text_header(cx, name));
        // Unique among concurrent requests.
        let request = format!("{:016x}{now_ms:x}", cx.random());
        let call = self.rule.ask(&self.id, &key, &request, now_ms / 1000);
        match self.scripts.run(&call).await {
            Some(0) => {
                cx.edits().refused_by = Some("rateLimiter");
                return Err(Answer::TooManyRequests);
            }
            Some(_) => {
                let left = self.rule.leave(&call);
                let permit = left.map(|it| Permit::Remote(Arc::clone(&self.scripts), Some(it)));
                turn.aftermath.permits.extend(permit);
            }
            None => self.log_silence(now_ms / 1000),
        }
        Ok(())
    }

    fn log_silence(&self, now_s: u64) {
        let logged_s = self.logged_s.load(Ordering::Relaxed);
        let is_due = now_s >= logged_s.saturating_add(SILENCE_LOG_S);
        let is_first = is_due
            && self
                .logged_s
                .compare_exchange(logged_s, now_s, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_first {
            tracing::warn!(rule = self.id, "redis does not answer: rateLimiter lets requests pass");
        }
    }
}

fn text_header(cx: &RequestContext<'_>, name: &str) -> Option<String> {
    cx.header(name).map(|value| String::from_utf8_lossy(&value).into_owned())
}

fn check_token(rule: &JwtRule, cx: &mut RequestContext<'_>) -> Result<(), Answer> {
    let header =
        |name: &str| cx.header(name).map(|value| String::from_utf8_lossy(&value).into_owned());
    let (token, authorization) = (header("token"), header("authorization"));
    let now_s = cx.now().unix_ms / 1000;
    let claims = rule.check(token.as_deref(), authorization.as_deref(), now_s)?;
    note_claims(cx, "jwt", &claims);
    for (name, value) in rule.claimed(&claims) {
        match value {
            Some(value) => cx.set_header(name, value.as_bytes()),
            None => cx.remove_header(name),
        }
    }
    Ok(())
}

/// Records the identity of a token: its subject, and all claims as the grant, because any claim may
/// carry permissions.
pub(crate) fn note_claims(cx: &mut RequestContext<'_>, by: &'static str, claims: &Value) {
    let name = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
    let grant = claims.to_string();
    cx.note_identity(Identity { by, name: name.as_bytes(), grant: grant.as_bytes() });
}

fn check_key(rule: &KeyAuthRule, cx: &mut RequestContext<'_>, turn: &Turn) -> Result<(), Answer> {
    let header = cx.header(&rule.key_name);
    let header = header.as_ref().map(|value| String::from_utf8_lossy(value));
    let parameters = turn.query.as_deref().map(guard::parameters).unwrap_or_default();
    let query = parameters.iter().find(|(name, _)| *name == rule.key_name);
    rule.check(header.as_deref(), query.map(|(_, value)| &**value))?;
    // A rule has a single key, so all clients with the key share one identity.
    cx.note_identity(Identity { by: "keyAuth", name: rule.key_name.as_bytes(), grant: b"" });
    Ok(())
}

/// Enforces the size limits of a proxy's rule: refuses a request by its declared size, and limits
/// the body while it arrives.
fn limit_size(rule: &DivideRule, cx: &mut RequestContext<'_>) -> Option<Answer> {
    let refusal = refuse_size(rule, cx.exchange());
    if let (None, Some(bytes_max)) = (refusal, rule.bytes_max()) {
        let other = cx.edits().body_bytes_max.unwrap_or(u64::MAX);
        cx.edits().body_bytes_max = Some(bytes_max.min(other));
    }
    refusal
}

/// Returns the answer to a request whose declared size exceeds the limits of a proxy's rule.
pub(crate) fn refuse_size(rule: &DivideRule, exchange: &dyn plugin::Exchange) -> Option<Answer> {
    // Most rules have no limits, so header sizes are only summed if needed.
    let mut value_bytes = 0;
    if rule.header_bytes_max > 0 {
        exchange.each_client_header(&mut |_, value| value_bytes += value.len() as u64);
    }
    let declared = || {
        let length = exchange.client_header(b"content-length")?;
        std::str::from_utf8(length).ok()?.trim().parse().ok()
    };
    let length = if rule.request_bytes_max > 0 { declared() } else { None };
    rule.refuse(value_bytes, length)
}
