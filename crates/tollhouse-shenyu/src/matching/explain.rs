//! Why a selector and a rule took a request, and the others did not. Looks at every object; for operators.

use super::condition::Holds;
use super::engine::{Engine, Outcome, RuleChoice};
use super::ranked::Ranked;
use super::request::Request;
use crate::model::Condition;

/// How the selectors of a plugin, and the rules of the chosen one, stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// In the order of choice.
    pub selectors: Vec<Candidate>,
    /// Those of the chosen selector, in the order of choice.
    pub rules: Vec<Candidate>,
}

/// One object that could have taken the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The number of its conditions where all must hold, else 0.
    pub score: usize,
    /// Its `sort`.
    pub sort: i64,
    /// How it stood.
    pub standing: Standing,
    /// The condition that did not hold, or cannot be evaluated.
    pub condition: Option<Condition>,
}

/// What a candidate says of itself.
struct Row<'a> {
    id: &'a str,
    name: &'a str,
    conditions: &'a [Condition],
    is_winner: bool,
}

/// How an object stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It took the request.
    Won,
    /// It would have taken it, but a better one did.
    Outranked,
    /// A condition did not hold: its place in the list, from 0; `None` where there is none to hold.
    Failed(Option<usize>),
    /// It cannot be evaluated.
    Unclear,
}

impl Engine {
    /// How the plugin `name` chose; `None` where there is no such plugin.
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
        // Rules are compared within the selector that won: those of others were never looked at.
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
