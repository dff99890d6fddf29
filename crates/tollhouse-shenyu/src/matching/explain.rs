//! Explanations for operators: why a selector and a rule matched a request and the others did not.
//! Evaluates every object.

use super::condition::Holds;
use super::engine::{Engine, Outcome, RuleChoice};
use super::ranked::Ranked;
use super::request::Request;
use crate::model::Condition;

/// Explanation for one plugin: the standing of its selectors, and of the rules of the chosen
/// selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Selectors in the order of choice.
    pub selectors: Vec<Candidate>,
    /// Rules of the chosen selector, in the order of choice.
    pub rules: Vec<Candidate>,
}

/// Object that was considered for the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub id: String,
    pub name: String,
    /// Number of conditions if all must hold, otherwise 0.
    pub score: usize,
    pub sort: i64,
    /// Outcome of the choice for this object.
    pub standing: Standing,
    /// Condition that did not hold or could not be evaluated.
    pub condition: Option<Condition>,
}

struct Row<'a> {
    id: &'a str,
    name: &'a str,
    conditions: &'a [Condition],
    is_winner: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Won,
    /// The object matches, but a better one was chosen.
    Outranked,
    /// The condition with this index did not hold; `None` if the object has no conditions.
    Failed(Option<usize>),
    /// A condition of the object cannot be evaluated.
    Unclear,
}

impl Engine {
    /// Explains which selector and rule of the plugin `name` apply to a request; `None` if the
    /// plugin does not exist.
    pub fn explain(&self, name: &str, request: &dyn Request) -> Option<Explanation> {
        let entry = self.entry(name)?;
        let outcome = self.select(name, request);
        let (selector, rule) = match outcome {
            Outcome::Serves { selector, rule: RuleChoice::Rule(rule), .. } => {
                (Some(&selector.id), Some(&rule.id))
            }
            Outcome::Serves { selector, .. } | Outcome::NoRule(selector) => {
                (Some(&selector.id), None)
            }
            Outcome::Off | Outcome::NoSelector | Outcome::Unavailable { .. } => (None, None),
        };
        // Only rules of the chosen selector are candidates.
        let chosen = entry.selectors.iter().find(|each| Some(&each.value.selector.id) == selector);
        Some(Explanation {
            selectors: candidates(&entry.selectors, request, |entry| Row {
                id: &entry.selector.id,
                name: &entry.selector.name,
                conditions: &entry.selector.condition_list,
                is_winner: Some(&entry.selector.id) == selector,
            }),
            rules: chosen.map_or_else(Vec::new, |chosen| {
                candidates(&chosen.value.rules, request, |row| Row {
                    id: &row.id,
                    name: &row.name,
                    conditions: &row.condition_data_list,
                    is_winner: Some(&row.id) == rule,
                })
            }),
        })
    }
}

fn candidates<'a, T: 'a>(
    ranked: &'a Ranked<T>,
    request: &dyn Request,
    describe: impl Fn(&'a T) -> Row<'a>,
) -> Vec<Candidate> {
    let candidates = ranked.iter().map(|each| {
        let row = describe(&each.value);
        let standing = match each.takes(request) {
            _ if row.is_winner => Standing::Won,
            Holds::Yes => Standing::Outranked,
            Holds::Unknown => Standing::Unclear,
            Holds::No => Standing::Failed(each.conditions.first_failure(request)),
        };
        let condition = match standing {
            Standing::Won | Standing::Outranked => None,
            Standing::Failed(_) | Standing::Unclear => each.conditions.first_failure(request),
        };
        Candidate {
            id: row.id.to_owned(),
            name: row.name.to_owned(),
            score: each.conditions.score(),
            sort: each.sort,
            standing,
            condition: condition.and_then(|at| row.conditions.get(at)).cloned(),
        }
    });
    candidates.collect()
}
