//! What a plugin does by each of its selectors and rules, found by their places in the order of choice.
//! Which of them a request gets is decided by the engine; what an action does is not known here.

use std::sync::Arc;

use tollhouse_shenyu::matching::{Engine, Ranks};
use tollhouse_shenyu::model::{Rule, Selector};

use crate::action::Action;

/// See the module.
#[derive(Debug)]
pub(crate) struct Actions {
    /// Where those of each selector begin.
    starts: Box<[usize]>,
    /// One for each rule, or for the selector where no rule is asked; `None` for what nothing is done by.
    list: Box<[Option<Arc<Action>>]>,
}

impl Actions {
    /// Those of the plugin at `place` of the engine; `action` is asked once for each rule, and for each selector that
    /// no rule is asked of.
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
