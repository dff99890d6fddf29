//! Simulation of the chain for operators: the steps of a request, without side effects.

use tollhouse_plugin::Exchange;
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::matching::{Explanation, RpcType};
use tollhouse_shenyu::paths::RedirectRule;
use tollhouse_shenyu::rpc::grpc::GrpcMethod;

use crate::action::{Action, refuse_size};
use crate::chain::{BEGINNINGS_MAX, Chain, Link, Selected, Unmatched};
use crate::turn::{Turn, asked_path};
use crate::view::civil_time;

/// Simulated path of a request through the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// RPC type; `None` if the request names an unknown one.
    pub rpc_type: Option<RpcType>,
    /// Steps of the plugins, in order.
    pub steps: Vec<CourseStep>,
    pub end: CourseEnd,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CourseStep {
    pub plugin: String,
    /// Matching of its selectors and rules, at this point of the chain.
    pub choice: Explanation,
    pub effect: Effect,
}

/// Effect of a plugin on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The request passes the plugin unchanged.
    Passes,
    /// Depends on more than the rule, for example on a key. The plugin may answer; later steps
    /// assume that it does not.
    Acts,
    /// Changes the request other than its path, or the response.
    Edits,
    /// Changes the path that later conditions see.
    Path {
        path: String,
        /// Percentage of requests that this applies to.
        percent: u64,
    },
    /// Changes only the path for nodes.
    NodePath {
        path: String,
        /// Percentage of requests that this applies to.
        percent: u64,
    },
    /// No effect, because the rule cannot be used for this reason.
    Broken(String),
    /// The request runs through the gateway again with this path.
    Anew(String),
    /// The chain ends here; see [`Course::end`].
    Ends,
}

/// End of a request's path through the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CourseEnd {
    /// The request goes to a node.
    Node {
        /// Index of the target in the chain.
        target: usize,
        /// Path and query for the node, if they differ from the original ones.
        uri: Option<Vec<u8>>,
    },
    Answer {
        status: u16,
        body: String,
    },
    Elsewhere {
        status: u16,
        location: String,
    },
}

/// Paths of the request before a plugin has run.
struct Paths {
    seen: String,
    node: String,
}

impl Paths {
    fn new(turn: &Turn) -> Self {
        Self { seen: turn.seen().to_owned(), node: turn.node_path().into_owned() }
    }

    fn effect(&self, after: &Turn, percentage: u8) -> Effect {
        let (percent, node) = (percentage.into(), after.node_path());
        match (after.seen() == self.seen, node == self.node) {
            (false, _) => Effect::Path { path: after.seen().to_owned(), percent },
            (true, false) => Effect::NodePath { path: node.into_owned(), percent },
            (true, true) => Effect::Passes,
        }
    }
}

/// Continuation of the explanation after a plugin.
enum Next {
    Plugin(Effect),
    Anew(String),
    End(CourseEnd),
}

impl Chain {
    /// Simulates the chain for a request. Changes that apply only to a percentage of requests are
    /// assumed to apply.
    pub fn explain(&self, exchange: &dyn Exchange) -> Course {
        let rpc_type = self.rpc_type(exchange, &asked_path(exchange).0).ok();
        let mut steps = Vec::new();
        let end = match rpc_type {
            Some(rpc_type) => self.follow(exchange, Turn::new(exchange, rpc_type), &mut steps),
            None => self.answer(Answer::InternalServerError, None),
        };
        Course { rpc_type, steps, end }
    }

    fn follow(
        &self,
        exchange: &dyn Exchange,
        mut turn: Turn,
        steps: &mut Vec<CourseStep>,
    ) -> CourseEnd {
        // The limit of the data plane, because redirects may loop.
        'beginnings: for _ in 0..BEGINNINGS_MAX {
            for link in &self.links {
                if !link.takes_part(turn.facts.rpc_type) {
                    continue;
                }
                let view = turn.view(exchange);
                let Some(choice) = self.engine.explain(&link.name, &view) else { continue };
                let next = match self.choose(link, &view).1 {
                    Selected::Action(action) => self.outcome(action, exchange, &mut turn),
                    Selected::Unclear => Next::End(self.answer(Answer::InternalException, None)),
                    Selected::Unmatched => self.unmatched(link, Answer::SelectorNotFound),
                    Selected::NoRule => self.unmatched(link, Answer::RuleNotFound),
                };
                let effect = match &next {
                    Next::Plugin(effect) => effect.clone(),
                    Next::Anew(path) => Effect::Anew(path.clone()),
                    Next::End(_) => Effect::Ends,
                };
                steps.push(CourseStep { plugin: link.name.clone(), choice, effect });
                match next {
                    Next::Plugin(_) => {}
                    Next::Anew(path) => {
                        turn.begin_anew(&path);
                        continue 'beginnings;
                    }
                    Next::End(end @ CourseEnd::Node { .. }) => {
                        return self.refused_answer(exchange, &turn, steps).unwrap_or(end);
                    }
                    Next::End(end) => return end,
                }
            }
            return self.answer(Answer::InvocationFailed, None);
        }
        self.answer(Answer::InternalServerError, None)
    }

    /// Adds the steps of plugins that change responses. Returns the new end if such a plugin
    /// refuses the response.
    fn refused_answer(
        &self,
        exchange: &dyn Exchange,
        turn: &Turn,
        steps: &mut Vec<CourseStep>,
    ) -> Option<CourseEnd> {
        for link in &self.answer_links {
            let view = turn.view(exchange);
            let Some(choice) = self.engine.explain(&link.name, &view) else { continue };
            let end = match self.choose(link, &view).1 {
                Selected::Action(Action::Refuse(answer)) => Some(self.answer(*answer, None)),
                Selected::Unclear => Some(self.answer(Answer::InternalException, None)),
                Selected::Action(Action::Pass) | Selected::Unmatched | Selected::NoRule => None,
                Selected::Action(_) => {
                    let (plugin, effect) = (link.name.clone(), Effect::Edits);
                    steps.push(CourseStep { plugin, choice, effect });
                    continue;
                }
            };
            let effect = if end.is_some() { Effect::Ends } else { Effect::Passes };
            steps.push(CourseStep { plugin: link.name.clone(), choice, effect });
            if end.is_some() {
                return end;
            }
        }
        None
    }

    fn answer(&self, answer: Answer, plugin: Option<&str>) -> CourseEnd {
        let status = answer.status(self.terms.statuses);
        CourseEnd::Answer { status, body: answer.body(plugin) }
    }

    fn unmatched(&self, link: &Link, named: Answer) -> Next {
        match link.unmatched {
            Unmatched::Pass => Next::Plugin(Effect::Passes),
            Unmatched::Named => Next::End(self.answer(named, Some(&link.name))),
            Unmatched::Refuse(answer) => Next::End(self.answer(answer, None)),
        }
    }

    fn outcome(&self, action: &Action, exchange: &dyn Exchange, turn: &mut Turn) -> Next {
        let answered = |answer| Next::End(self.answer(answer, None));
        match action {
            Action::Pass | Action::Record(_) | Action::Redirect(RedirectRule::Pass) => {
                Next::Plugin(Effect::Passes)
            }
            Action::Refuse(answer) => answered(*answer),
            Action::Waf(rule) => rule.answer().map_or(Next::Plugin(Effect::Passes), answered),
            Action::ContextPath(rule) => {
                let before = Paths::new(turn);
                // A draw of zero is below every percentage, so that optional changes apply.
                if !turn.take_off_context(rule, 0, &self.engine) {
                    return answered(Answer::ContextPathIllegal);
                }
                // Without another context path, the rule applies to all requests.
                let is_moved = !rule.rewrite_context_path.is_empty();
                Next::Plugin(before.effect(turn, if is_moved { rule.percentage } else { 100 }))
            }
            Action::Rewrite(rule) => {
                let before = Paths::new(turn);
                turn.rewrite(rule, 0, &self.engine);
                Next::Plugin(before.effect(turn, rule.percentage))
            }
            Action::Broken(reason) => Next::Plugin(Effect::Broken(reason.clone())),
            Action::Redirect(RedirectRule::Inside(path)) => Next::Anew(path.clone()),
            Action::Redirect(RedirectRule::Elsewhere { location, status }) => {
                Next::End(CourseEnd::Elsewhere { status: *status, location: location.clone() })
            }
            Action::Proxy { rule, target } => match refuse_size(rule, exchange) {
                Some(answer) => answered(answer),
                None => Next::End(CourseEnd::Node { target: *target, uri: turn.node_uri() }),
            },
            Action::Dubbo(caller) => match caller.method(turn.metadata(&self.engine)) {
                Some(_) => Next::Plugin(Effect::Acts),
                None => answered(Answer::MetadataError),
            },
            Action::Grpc { target } => {
                let metadata = turn.metadata(&self.engine);
                match metadata.and_then(GrpcMethod::read) {
                    Some(method) => {
                        let uri = Some(method.path.into_bytes());
                        Next::End(CourseEnd::Node { target: *target, uri })
                    }
                    None => answered(Answer::MetadataError),
                }
            }
            Action::Mock(rule) => {
                let body = rule.text(civil_time(exchange.now().unix_ms), &mut || 0);
                Next::End(CourseEnd::Answer { status: rule.status, body })
            }
            Action::MapParameters(_)
            | Action::Request(_)
            | Action::ModifyAnswer(_)
            | Action::CryptAnswer(_) => Next::Plugin(Effect::Edits),
            Action::Sign { .. }
            | Action::KeyAuth(_)
            | Action::BasicAuth(_)
            | Action::Jwt(_)
            | Action::Casdoor(_)
            | Action::OAuth2(_)
            | Action::Cache { .. }
            | Action::CryptRequest(_)
            | Action::Limit(_)
            | Action::LimitTogether(_)
            | Action::Break { .. } => Next::Plugin(Effect::Acts),
        }
    }
}
