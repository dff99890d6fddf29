//! What a plugin does for one of its rules, and doing it.

use tollhouse_plugin as plugin;
use tollhouse_plugin::RequestContext;
use tollhouse_shenyu::access::{BasicAuthRule, KeyAuthRule, WafRule};
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::divide::DivideRule;
use tollhouse_shenyu::paths::{ContextPathRule, RedirectRule, RewriteRule};

use crate::chain::Chain;
use crate::guard;
use crate::reply::reply;
use crate::turn::Turn;

/// What a plugin does, ready to be done.
#[derive(Debug)]
pub(crate) enum Action {
    /// Nothing.
    Pass,
    /// It answers.
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
    /// It sends the request to a node of the target at this place.
    Proxy {
        rule: DivideRule,
        target: usize,
    },
}

/// What has come of an action.
pub(crate) enum Done<'o> {
    /// The next plugin is asked.
    Next,
    /// The request goes to a node of the target at this place.
    Node(usize),
    /// It is answered.
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
        let checked = |checked: Result<(), Answer>| checked.map_or_else(refused, |()| Done::Next);
        match action {
            Action::Pass => Done::Next,
            Action::Refuse(answer) => refused(*answer),
            Action::Waf(rule) => rule.answer().map_or(Done::Next, refused),
            Action::Sign { reads_body } => {
                if *reads_body && cx.read_body(guard::SIGNED_BODY_BYTES_MAX).await.is_err() {
                    return refused(Answer::RequestTooLarge);
                }
                let delay = self.terms().sign_delay_minutes;
                checked(guard::check_signature(self.applications(), cx, turn, delay, *reads_body))
            }
            Action::KeyAuth(rule) => checked(check_key(rule, cx, turn)),
            Action::BasicAuth(rule) => {
                let given = cx.header("authorization");
                let given = given.as_ref().map(|given| String::from_utf8_lossy(given));
                checked(rule.check(given.as_deref()))
            }
            Action::ContextPath(rule) => match turn.take_off_context(rule, cx.random() % 100) {
                true => Done::Next,
                false => refused(Answer::ContextPathIllegal),
            },
            Action::Rewrite(rule) => {
                turn.rewrite(rule, cx.random() % 100);
                Done::Next
            }
            Action::Redirect(RedirectRule::Pass) => Done::Next,
            Action::Redirect(RedirectRule::Inside(path)) => Done::Anew(path.clone()),
            Action::Redirect(RedirectRule::Elsewhere { location, status }) => {
                let location = location.clone().into_bytes();
                let answer = plugin::Answer::text(*status, &b""[..]);
                Done::Answered(Box::new(answer.with_header("Location", location)))
            }
            Action::Proxy { rule, target } => match refuse_size(rule, cx.exchange()) {
                Some(answer) => refused(answer),
                None => Done::Node(*target),
            },
        }
    }
}

fn check_key(rule: &KeyAuthRule, cx: &RequestContext<'_>, turn: &Turn) -> Result<(), Answer> {
    let header = cx.header(&rule.key_name);
    let header = header.as_ref().map(|value| String::from_utf8_lossy(value));
    let parameters = turn.query.as_deref().map(guard::parameters).unwrap_or_default();
    let query = parameters.iter().find(|(name, _)| *name == rule.key_name);
    rule.check(header.as_deref(), query.map(|(_, value)| &**value))
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
