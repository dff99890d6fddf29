//! Plugins of a chain with their compiled actions, indexed by the ranks of their selectors and
//! rules. The engine chooses the ranks for a request.

use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::matching::{Engine, Outcome, Ranks, Request, RpcType};
use tollhouse_shenyu::model::{Rule, Selector};

use crate::plugins::Action;
use crate::row::Stage;

/// Plugin of the chain that may affect requests.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) name: String,
    /// Position of the plugin in the engine.
    pub(crate) place: usize,
    pub(crate) stage: Stage,
    pub(crate) unmatched: Unmatched,
    pub(crate) slots: Slots,
}

/// Treatment of requests that no selector or rule of a plugin matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmatched {
    Pass,
    /// Requests are refused with an answer that names the plugin.
    Named,
    Refuse(Answer),
}

/// Outcome of matching a plugin's objects.
pub(crate) enum Choice<'a> {
    Unmatched,
    NoRule,
    Slot(&'a Slot),
    /// A protecting object might match, but cannot be evaluated.
    Unclear,
}

impl Link {
    /// Whether the plugin sees requests of this type: a proxy sees only those that it serves.
    pub(crate) fn takes_part(&self, rpc_type: RpcType) -> bool {
        match self.stage {
            Stage::Proxy(carries) => carries == rpc_type,
            _ => true,
        }
    }

    /// Matches a request and logs the match if the selector requires it.
    #[inline]
    pub(crate) fn select<'a>(&'a self, engine: &'a Engine, request: &dyn Request) -> Choice<'a> {
        let (selector, choice) = self.choose(engine, request);
        if let Some(selector) = selector.filter(|selector| selector.logged) {
            tracing::info!(plugin = self.name, selector = selector.name, "selector success match");
        }
        choice
    }

    /// Matches a request and returns the action with the matching selector, without logging the
    /// match.
    #[inline]
    pub(crate) fn choose<'a>(
        &'a self,
        engine: &'a Engine,
        request: &dyn Request,
    ) -> (Option<&'a Selector>, Choice<'a>) {
        match engine.select_at(self.place, request) {
            Outcome::Off | Outcome::NoSelector => (None, Choice::Unmatched),
            Outcome::NoRule(_) => (None, Choice::NoRule),
            Outcome::Unavailable { .. } => (None, Choice::Unclear),
            Outcome::Serves { selector, ranks, .. } => {
                (Some(selector), self.slots.get(ranks).map_or(Choice::Unmatched, Choice::Slot))
            }
        }
    }
}

/// Action of a rule in one chain.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) action: Action,
    /// Index of the rule's target in the chain, if it has one.
    pub(crate) target: Option<usize>,
}

/// Actions of one plugin.
#[derive(Debug)]
pub(crate) struct Slots {
    /// Index of each selector's first action in `list`.
    starts: Box<[usize]>,
    /// Actions of the rules of each selector, or of the selector itself if it applies without
    /// rules; `None` for no action.
    list: Box<[Option<Slot>]>,
}

impl Slots {
    /// Builds the table for the plugin at `place` of the engine. Calls `slot` once for each rule,
    /// and once for each selector that applies without rules.
    pub(crate) fn new(
        engine: &Engine,
        place: usize,
        slot: impl Fn(&Selector, Option<&Rule>) -> Option<Slot>,
    ) -> Self {
        let (mut starts, mut list) = (Vec::new(), Vec::new());
        for (selector, rules) in engine.ranked(place) {
            starts.push(list.len());
            if selector.continued {
                list.extend(rules.into_iter().map(|rule| slot(selector, Some(rule))));
            } else {
                list.push(slot(selector, None));
            }
        }
        Self { starts: starts.into(), list: list.into() }
    }

    #[inline]
    fn get(&self, ranks: Ranks) -> Option<&Slot> {
        let start = self.starts.get(ranks.selector as usize)?;
        self.list.get(start + ranks.rule as usize)?.as_ref()
    }
}
