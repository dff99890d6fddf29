//! Why a selector and a rule took a request, and the others did not. Looks at every object; for operators.

use super::condition::Holds;
use super::engine::{Engine, Outcome, RuleChoice};
use super::ranked::Ranked;
use super::request::Request;

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
            Outcome::Serves { selector, rule: RuleChoice::Rule(rule) } => {
                (Some(&selector.id), Some(&rule.id))
            }
            Outcome::Serves { selector, .. } | Outcome::NoRule(selector) => {
                (Some(&selector.id), None)
            }
            Outcome::Off | Outcome::NoSelector | Outcome::Unavailable { .. } => (None, None),
        };
        let chosen = entry.selectors.iter().find(|each| Some(&each.value.selector.id) == selector);
        Some(Explanation {
            selectors: candidates(&entry.selectors, request, |entry| {
                let row = &entry.selector;
                (&row.id, &row.name, Some(&row.id) == selector)
            }),
            rules: chosen.map_or_else(Vec::new, |chosen| {
                candidates(&chosen.value.rules, request, |row| {
                    (&row.id, &row.name, Some(&row.id) == rule)
                })
            }),
        })
    }
}

/// `describe` gives id, name and whether it won.
fn candidates<'a, T: 'a>(
    ranked: &'a Ranked<T>,
    request: &dyn Request,
    describe: impl Fn(&'a T) -> (&'a String, &'a String, bool),
) -> Vec<Candidate> {
    let candidates = ranked.iter().map(|each| {
        let (id, name, won) = describe(&each.value);
        let standing = match each.takes(request) {
            _ if won => Standing::Won,
            Holds::Yes => Standing::Outranked,
            Holds::Unknown => Standing::Unclear,
            Holds::No => Standing::Failed(each.conditions.first_failure(request)),
        };
        Candidate {
            id: id.clone(),
            name: name.clone(),
            score: each.conditions.score(),
            sort: each.sort,
            standing,
        }
    });
    candidates.collect()
}
