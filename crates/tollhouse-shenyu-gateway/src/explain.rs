//! Simulation of the chain for operators: the steps of a request, without side effects.

use tollhouse_plugin::Exchange;
use tollhouse_shenyu::answer::Answer;

use crate::chain::{BAD_URI_STATUS, BEGINNINGS_MAX, Chain};
use crate::course::{Course, CourseEnd, CourseStep, Effect};
use crate::links::{Choice, Link, Slot, Unmatched};
use crate::plugin::{Prediction, Preview};
use crate::query;
use crate::turn::{Turn, asked_path};

impl Chain {
    /// Simulates the chain for a request. Changes that apply only to a percentage of requests are
    /// assumed to apply.
    pub fn explain(&self, exchange: &dyn Exchange) -> Course {
        let rpc_type = self.rpc_type(exchange, &asked_path(exchange).0).ok();
        let mut steps = Vec::new();
        let is_uri = query::is_uri(&exchange.real_request_uri());
        let end = match rpc_type {
            _ if !is_uri => CourseEnd::Answer { status: BAD_URI_STATUS, body: String::new() },
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
                let (prediction, target) = match link.choose(&self.engine, &view).1 {
                    Choice::Slot(slot) => (self.predict(slot, exchange, &mut turn), slot.target),
                    Choice::Unclear => (Prediction::Refused(Answer::InternalException), None),
                    Choice::Unmatched => (self.unmatched(link, Answer::SelectorNotFound), None),
                    Choice::NoRule => (self.unmatched(link, Answer::RuleNotFound), None),
                };
                let effect = effect(&prediction);
                steps.push(CourseStep { plugin: link.name.clone(), choice, effect });
                match prediction {
                    Prediction::Next(_) => {}
                    Prediction::Anew(path) => {
                        turn.begin_anew(&path);
                        continue 'beginnings;
                    }
                    Prediction::Node(uri) => {
                        let Some(target) = target else {
                            return self.answer(Answer::NoHealthyUpstream, None);
                        };
                        let refusal = self.refused_answer(exchange, &mut turn, steps);
                        return refusal.unwrap_or(CourseEnd::Node { target, uri });
                    }
                    Prediction::Refused(answer) => return self.answer(answer, None),
                    Prediction::End(end) => return end,
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
        turn: &mut Turn,
        steps: &mut Vec<CourseStep>,
    ) -> Option<CourseEnd> {
        for link in &self.answer_links {
            let view = turn.view(exchange);
            let Some(choice) = self.engine.explain(&link.name, &view) else { continue };
            let prediction = match link.choose(&self.engine, &view).1 {
                Choice::Slot(slot) => self.predict(slot, exchange, turn),
                Choice::Unclear => Prediction::Refused(Answer::InternalException),
                Choice::Unmatched | Choice::NoRule => Prediction::Next(Effect::Passes),
            };
            let effect = effect(&prediction);
            steps.push(CourseStep { plugin: link.name.clone(), choice, effect });
            if let Prediction::Refused(answer) = prediction {
                return Some(self.answer(answer, None));
            }
        }
        None
    }

    fn predict(&self, slot: &Slot, exchange: &dyn Exchange, turn: &mut Turn) -> Prediction {
        slot.action.explain(&mut Preview {
            exchange,
            turn,
            engine: &self.engine,
            terms: &self.terms,
        })
    }

    fn answer(&self, answer: Answer, plugin: Option<&str>) -> CourseEnd {
        let status = answer.status(self.terms.statuses);
        CourseEnd::Answer { status, body: answer.body(plugin) }
    }

    fn unmatched(&self, link: &Link, named: Answer) -> Prediction {
        match link.unmatched {
            Unmatched::Pass => Prediction::Next(Effect::Passes),
            Unmatched::Named => Prediction::End(self.answer(named, Some(&link.name))),
            Unmatched::Refuse(answer) => Prediction::Refused(answer),
        }
    }
}

fn effect(prediction: &Prediction) -> Effect {
    match prediction {
        Prediction::Next(effect) => effect.clone(),
        Prediction::Anew(path) => Effect::Anew(path.clone()),
        Prediction::Node(_) | Prediction::Refused(_) | Prediction::End(_) => Effect::Ends,
    }
}
