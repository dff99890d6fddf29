//! What a plugin does for one of its rules, and doing it.

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

/// What a plugin does, ready to be done.
#[derive(Debug)]
pub(crate) enum Action {
    Pass,
    /// Passes requests on, because the rule cannot be used, for this reason.
    Broken(String),
    /// Answers every request.
    Refuse(Answer),
    Waf(WafRule),
    Sign {
        /// Whether the body is signed too.
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
        /// Of the rule.
        id: String,
        cache: SharedCache,
    },
    Jwt(JwtRule),
    Casdoor(Box<CasdoorGate>),
    /// Users log in.
    OAuth2(Arc<dyn Logins>),
    Limit(Shared<Limiter>),
    /// The same with counts elsewhere.
    LimitTogether(Box<SharedLimit>),
    Break {
        breaker: Shared<Breaker>,
        /// What refusals are counted as: those of its limit, and those while it is open.
        refusals: Refusals,
    },
    MapParameters(Arc<BodyEdits>),
    Request(Box<RequestRule>),
    /// Done to the answer of a node, once a proxy has taken the request.
    ModifyAnswer(Arc<ResponseRule>),
    /// A field of the body is decrypted or encrypted.
    CryptRequest(Arc<CryptorRule>),
    /// The same of a node's answer, once a proxy has taken the request.
    CryptAnswer(Arc<CryptorRule>),
    /// It is written down once it is over.
    Record(Box<Recorder>),
    /// It answers with what a method of Dubbo gives.
    Dubbo(Box<DubboCaller>),
    /// It makes the request a call of gRPC, to a node of the target at this place.
    Grpc {
        target: usize,
    },
    /// It sends the request to a node of the target at this place.
    Proxy {
        rule: DivideRule,
        target: usize,
    },
}

/// Names of what refuses in the place of a call, by the plugin.
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

/// What has come of an action.
pub(crate) enum Done<'o> {
    /// The next plugin is asked.
    Next,
    /// The request goes to a node of the target at this place.
    Node(usize),
    Answered(Box<plugin::Answer<'o>>),
    /// It begins anew inside of the gateway, with this path.
    Anew(String),
}

impl Chain {
    /// Does what a rule says.
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
                // Before the call: one whose answer must not go out is not made.
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

    /// Whether a request may pass by a rule that protects.
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
            // All others are done where this is called from.
            _ => Err(Answer::InternalException),
        }
    }
}

/// Changes what passes, or takes it down.
///
/// # Errors
/// The answer to a request that cannot be changed as it has to be.
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
        // All others are done where this is called from.
        _ => return Err(Answer::InternalException),
    }
    Ok(())
}

/// Lets who has logged in pass, and sends others to do so.
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
    Done::Answered(Box::new(plugin::Answer::status(status).with_header("Location", location.into_bytes())))
}

fn mock<'o>(rule: &MockRule, cx: &RequestContext<'_>) -> Done<'o> {
    let text = rule.text(civil_time(cx.now().unix_ms), &mut || cx.random());
    let answer = plugin::Answer::text(rule.status, text.into_bytes());
    Done::Answered(Box::new(answer.with_header("Content-Type", &b"application/json"[..])))
}

/// Lets a call through a breaker, once it is its turn; or says what answers it, and where it may go instead.
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

/// The fallback of a call that was not begun; `None` if the breaker's own answer goes out.
fn fall_back<'o>(fallback: Fallback, turn: &Turn) -> Option<Done<'o>> {
    match fallback {
        // A fallback to the path that failed would go round without end.
        Fallback::Inside(path) if path != turn.asked() => Some(Done::Anew(path)),
        Fallback::Elsewhere(location) if !turn.is_asked(&location) => {
            Some(elsewhere(302, location))
        }
        _ => None,
    }
}

/// Seconds between two lines of the log that Redis does not answer.
const SILENCE_LOG_S: u64 = 10;

/// A limit whose counts are in Redis.
#[derive(Debug)]
pub(crate) struct SharedLimit {
    rule: LimiterRule,
    /// Of the rule.
    id: String,
    scripts: Arc<dyn Scripts>,
    /// When it was last logged that Redis does not answer, in seconds since 1970.
    logged_s: AtomicU64,
}

impl SharedLimit {
    pub(crate) fn new(rule: LimiterRule, id: &str, scripts: Arc<dyn Scripts>) -> Self {
        Self { rule, id: id.to_owned(), scripts, logged_s: AtomicU64::new(0) }
    }

    /// Asks Redis. Without an answer a request passes, as in ShenYu: its gateways would let it pass too.
    async fn check(&self, cx: &mut RequestContext<'_>, turn: &mut Turn) -> Result<(), Answer> {
        let now_ms = cx.now().unix_ms;
        let key = self.rule.key(cx.remote_address(), |name| text_header(cx, name));
        // Unique among those that are under way at the same time.
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

/// Notes the subject of a token, with all that the token says: what it grants may stand anywhere.
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
    // A rule has one key: those who have it are one party.
    cx.note_identity(Identity { by: "keyAuth", name: rule.key_name.as_bytes(), grant: b"" });
    Ok(())
}

/// Bounds the size of a request by a proxy's rule: refuses it by what is declared, or has its body counted as it comes.
fn limit_size(rule: &DivideRule, cx: &mut RequestContext<'_>) -> Option<Answer> {
    let refusal = refuse_size(rule, cx.exchange());
    if let (None, Some(bytes_max)) = (refusal, rule.bytes_max()) {
        let other = cx.edits().body_bytes_max.unwrap_or(u64::MAX);
        cx.edits().body_bytes_max = Some(bytes_max.min(other));
    }
    refusal
}

/// The answer to a request that is larger than a proxy's rule allows.
pub(crate) fn refuse_size(rule: &DivideRule, exchange: &dyn plugin::Exchange) -> Option<Answer> {
    // Most rules have no limits, and no request pays for adding up then.
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
