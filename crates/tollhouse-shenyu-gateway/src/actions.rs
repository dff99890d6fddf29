//! Actions of a plugin, indexed by the ranks of its selectors and rules. The engine chooses the
//! ranks for a request.

use std::sync::Arc;

use tollhouse_shenyu::matching::{Engine, Ranks};
use tollhouse_shenyu::model::{Rule, Selector};

use crate::action::Action;

/// Actions of one plugin's rules, by selector.
#[derive(Debug)]
pub(crate) struct Actions {
    /// Index of each selector's first action in `list`.
    starts: Box<[usize]>,
    /// Actions of the rules of each selector, or of the selector itself if it applies without
    /// rules; `None` for no action.
    list: Box<[Option<Arc<Action>>]>,
}

impl Actions {
    /// Builds the table for the plugin at `place` of the engine. Calls `action` once for each rule,
    /// and once for each selector that applies without rules.
    pub(crate) fn new(
        engine: &Engine,
        place: usize,
        action: impl Fn(&Selector, Option<&Rule>) -> Option<Arc<Action>>,
    ) -> Self {
        let (mut starts, mut list) = (Vec::new(), Vec::new());
        for (selector, rules) in engine.ranked(place) {
            starts.push(list.len());
            if selector.continued {
                list.extend(rules.into_iter().map(|rule| action(selector, Some(rule))));
            } else {
                list.push(action(selector, None));
            }
        }
        Self { starts: starts.into(), list: list.into() }
    }

    #[inline]
    pub(crate) fn get(&self, ranks: Ranks) -> Option<&Action> {
        let start = self.starts.get(ranks.selector as usize)?;
        self.list.get(start + ranks.rule as usize)?.as_deref()
    }
}
