//! Compiled plugins with their selectors and rules.

use std::sync::Arc;

use hashbrown::HashMap;

use super::condition::Conditions;
use super::ranked::{Competitor, Ranked, Takes, Winner};
use super::request::Request;
use super::role::{OnFault, Roles};
use super::rpc_type::MetadataTable;
use crate::key::Kind;
use crate::model::{Metadata, Plugin, Rule, Selector, SelectorType};

/// Source objects of the engine: those of one namespace, in the order of their arrival.
#[derive(Debug, Clone, Copy, Default)]
pub struct Objects<'a> {
    pub plugins: &'a [Arc<Plugin>],
    pub selectors: &'a [Arc<Selector>],
    pub rules: &'a [Arc<Rule>],
    /// Metadata of registered methods.
    pub metadata: &'a [Arc<Metadata>],
    /// Roles of the plugins.
    pub roles: Roles,
}

/// Problem of one object. The other objects stay in service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub kind: Kind,
    pub id: String,
    /// Description with the position of the faulty condition.
    pub reason: String,
}

/// Compiled plugins of one namespace.
#[derive(Debug)]
pub struct Engine {
    /// Plugins in the order in which requests pass them.
    plugins: Box<[PluginEntry]>,
    pub(super) metadata: MetadataTable,
}

#[derive(Debug)]
pub(super) struct PluginEntry {
    pub(super) plugin: Arc<Plugin>,
    order: i64,
    on_fault: OnFault,
    pub(super) selectors: Arc<Ranked<SelectorEntry>>,
}

#[derive(Debug)]
pub(super) struct SelectorEntry {
    pub(super) selector: Arc<Selector>,
    pub(super) rules: Arc<Ranked<Arc<Rule>>>,
    /// Rank of the rule with the highest `sort`, which full selectors use.
    last_rule: Option<u32>,
    /// Rules in the order of their arrival.
    sources: Box<[Arc<Rule>]>,
}

/// Outcome of a plugin's matching for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The plugin does not exist or is disabled.
    Off,
    NoSelector,
    /// A selector matches, but none of its rules does.
    NoRule(&'a Selector),
    /// A selector and a rule match.
    Serves {
        selector: &'a Selector,
        rule: RuleChoice<'a>,
        /// Ranks of the chosen selector and rule.
        ranks: Ranks,
    },
    /// An object of a protecting plugin that might match cannot be evaluated. The request must not
    /// pass.
    Unavailable {
        kind: Kind,
        id: &'a str,
    },
}

/// Ranks of a selector within its plugin and of a rule within its selector, in the order of choice.
/// Callers can use them to index data of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    pub selector: u32,
    /// Rank of the rule; 0 if the selector applies without a rule.
    pub rule: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleChoice<'a> {
    /// The selector is not `continued`, so ShenYu's default values apply (`default_rule`).
    Default,
    Rule(&'a Rule),
}

impl Engine {
    /// Compiles all objects. A faulty one is reported and matches nothing. In a protecting plugin,
    /// it makes requests that it might match fail.
    pub fn build(objects: Objects<'_>) -> (Self, Vec<Problem>) {
        Self::rebuild(objects, None)
    }

    /// Compiles all objects as [`Self::build`], reusing the compiled parts of `before` for
    /// unchanged objects. An object is unchanged if its `Arc` points to the allocation of the
    /// previous compilation. Costs the compilation of changed objects and a look-up for each of the
    /// others.
    pub fn rebuild(objects: Objects<'_>, before: Option<&Self>) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let known = Known::from_engine(before);
        let mut rules: HashMap<&str, Vec<&Arc<Rule>>> = HashMap::new();
        for rule in objects.rules.iter().filter(|rule| rule.enabled) {
            rules.entry(&rule.selector_id).or_default().push(rule);
        }
        let mut selectors: HashMap<&str, Vec<&Arc<Selector>>> = HashMap::new();
        for selector in objects.selectors.iter().filter(|selector| selector.enabled) {
            selectors.entry(&selector.plugin_name).or_default().push(selector);
        }
        let mut plugins: Vec<PluginEntry> = objects
            .plugins
            .iter()
            .map(|plugin| {
                let competitors = selectors.remove(&*plugin.name).unwrap_or_default();
                let competitors = competitors.into_iter().map(|selector| {
                    let rules = rules.get(&*selector.id).map_or(&[][..], Vec::as_slice);
                    let entry = known.selector(selector, rules);
                    let entry = entry
                        .unwrap_or_else(|| Arc::new(compile_selector(selector, rules, &known)));
                    note_entry(&entry, &mut problems);
                    entry
                });
                let competitors = competitors.collect();
                let ranked_before = before.and_then(|before| before.entry(&plugin.name));
                let role = (objects.roles.0)(&plugin.name);
                PluginEntry {
                    order: plugin.sort.unwrap_or(role.order),
                    on_fault: role.on_fault,
                    selectors: Ranked::renew(
                        competitors,
                        ranked_before.map(|before| &before.selectors),
                    ),
                    plugin: Arc::clone(plugin),
                }
            })
            .collect();
        // A stable sort, so that plugins of equal order keep the order of the list.
        plugins.sort_by_key(|entry| entry.order);
        let metadata_before = before.map(|before| &before.metadata);
        let metadata = MetadataTable::build(objects.metadata, metadata_before, &mut problems);
        (Self { plugins: plugins.into(), metadata }, problems)
    }

    /// Lists the enabled plugins in chain order.
    pub fn chain(&self) -> impl Iterator<Item = &Plugin> {
        self.plugins.iter().map(|entry| &*entry.plugin).filter(|plugin| plugin.enabled)
    }

    /// Lists the enabled plugins by name, with their order numbers.
    pub fn order(&self) -> impl Iterator<Item = (String, i64)> {
        let enabled = self.plugins.iter().filter(|entry| entry.plugin.enabled);
        enabled.map(|entry| (entry.plugin.name.clone(), entry.order))
    }

    /// Matches a request against the plugin `name`. Allocates only if the request does so for the
    /// values that conditions need.
    pub fn select(&self, name: &str, request: &dyn Request) -> Outcome<'_> {
        self.place(name).map_or(Outcome::Off, |place| self.select_at(place, request))
    }

    /// Returns the position of the plugin `name`, for [`Self::select_at`].
    pub fn place(&self, name: &str) -> Option<usize> {
        self.plugins.iter().position(|entry| entry.plugin.name == name)
    }

    /// As [`Self::select`], but for the plugin at a known position, without a search for its name.
    pub fn select_at(&self, place: usize, request: &dyn Request) -> Outcome<'_> {
        let Some(entry) = self.plugins.get(place).filter(|entry| entry.plugin.enabled) else {
            return Outcome::Off;
        };
        let (rank, chosen) = match entry.selectors.best(request, entry.on_fault) {
            Winner::Nobody => return Outcome::NoSelector,
            Winner::Unclear((_, chosen)) => {
                return Outcome::Unavailable { kind: Kind::Selector, id: &chosen.selector.id };
            }
            Winner::Found(chosen) => chosen,
        };
        let selector: &Selector = &chosen.selector;
        if !selector.continued {
            let ranks = Ranks { selector: rank, rule: 0 };
            return Outcome::Serves { selector, rule: RuleChoice::Default, ranks };
        }
        let rule = match selector.selector_type() {
            SelectorType::Full => {
                let last = chosen.last_rule.and_then(|last| Some((last, chosen.rules.get(last)?)));
                last.map_or(Winner::Nobody, Winner::Found)
            }
            SelectorType::Custom => chosen.rules.best(request, entry.on_fault),
        };
        match rule {
            Winner::Nobody => Outcome::NoRule(selector),
            Winner::Unclear((_, rule)) => Outcome::Unavailable { kind: Kind::Rule, id: &rule.id },
            Winner::Found((rule_rank, rule)) => Outcome::Serves {
                selector,
                rule: RuleChoice::Rule(rule),
                ranks: Ranks { selector: rank, rule: rule_rank },
            },
        }
    }

    /// Lists the selectors of the plugin at `place` with their rules, both in the order of choice,
    /// as [`Ranks`] count them.
    pub fn ranked(&self, place: usize) -> impl Iterator<Item = (&Selector, Vec<&Rule>)> {
        let selectors =
            self.plugins.get(place).into_iter().flat_map(|entry| entry.selectors.iter());
        selectors.map(|each| {
            let rules = each.value.rules.iter().map(|rule| &*rule.value);
            (&*each.value.selector, rules.collect())
        })
    }

    /// Lists the literal paths in selectors and rules of the plugin at `place`; may contain
    /// duplicates.
    pub fn whole_paths(&self, place: usize) -> impl Iterator<Item = &str> {
        let entries = self.plugins.get(place).into_iter();
        entries.flat_map(|entry| {
            let of_rules = entry.selectors.iter().flat_map(|each| each.value.rules.whole_paths());
            entry.selectors.whole_paths().chain(of_rules)
        })
    }

    pub(super) fn entry(&self, name: &str) -> Option<&PluginEntry> {
        self.plugins.iter().find(|entry| entry.plugin.name == name)
    }
}

/// Compiled selectors of the previous engine, by the address of their source object.
struct Known<'a> {
    selectors: HashMap<usize, &'a Arc<Competitor<SelectorEntry>>>,
}

impl<'a> Known<'a> {
    fn from_engine(before: Option<&'a Engine>) -> Self {
        let entries = before.into_iter().flat_map(|before| before.plugins.iter());
        let selectors = entries.flat_map(|entry| entry.selectors.iter());
        Self { selectors: selectors.map(|each| (place(&each.value.selector), each)).collect() }
    }

    /// Returns a compiled selector if it and all of its rules are unchanged.
    fn selector(
        &self,
        selector: &Arc<Selector>,
        rules: &[&Arc<Rule>],
    ) -> Option<Arc<Competitor<SelectorEntry>>> {
        let known = *self.selectors.get(&place(selector))?;
        let sources = &known.value.sources;
        let is_same = sources.len() == rules.len()
            && sources.iter().zip(rules).all(|(known, rule)| Arc::ptr_eq(known, rule));
        is_same.then(|| Arc::clone(known))
    }
}

/// Returns the address of an object. The caller holds the `Arc`, so the address cannot be reused
/// meanwhile.
fn place<T>(object: &Arc<T>) -> usize {
    Arc::as_ptr(object).addr()
}

fn compile_selector(
    selector: &Arc<Selector>,
    rules: &[&Arc<Rule>],
    known: &Known<'_>,
) -> Competitor<SelectorEntry> {
    let conditions = Conditions::compile(selector.mode(), &selector.condition_list);
    // Unchanged rules stay compiled even if the selector itself has changed.
    let before = known.selectors.get(&place(selector)).map(|before| &before.value.rules);
    let before_rules = before.into_iter().flat_map(|before| before.iter());
    let known_rules: HashMap<usize, &Arc<Competitor<Arc<Rule>>>> =
        before_rules.map(|each| (place(&each.value), each)).collect();
    let rule_competitors = rules.iter().map(|rule| match known_rules.get(&place(rule)) {
        Some(known) => Arc::clone(known),
        None => {
            let conditions = Conditions::compile(rule.mode(), &rule.condition_data_list);
            Arc::new(Competitor {
                value: Arc::clone(rule),
                takes: Takes::from_conditions(&conditions),
                conditions,
                sort: rule.sort,
            })
        }
    });
    let ranked = Ranked::renew(rule_competitors.collect(), before);
    // Of rules with equal `sort`, `max_by_key` returns the last.
    let last_rule = rules.iter().max_by_key(|rule| rule.sort);
    Competitor {
        sort: selector.sort,
        takes: match selector.selector_type() {
            SelectorType::Full => Takes::All,
            SelectorType::Custom if conditions.is_empty() => Takes::Nothing,
            SelectorType::Custom => Takes::from_conditions(&conditions),
        },
        value: SelectorEntry {
            selector: Arc::clone(selector),
            last_rule: last_rule.and_then(|last| ranked.rank(|rule| Arc::ptr_eq(rule, last))),
            rules: ranked,
            sources: rules.iter().map(|rule| Arc::clone(rule)).collect(),
        },
        conditions,
    }
}

/// Reports the errors in the conditions of a selector and its rules.
fn note_entry(entry: &Competitor<SelectorEntry>, problems: &mut Vec<Problem>) {
    note(Kind::Selector, &entry.value.selector.id, &entry.conditions, problems);
    for rule in entry.value.rules.iter() {
        note(Kind::Rule, &rule.value.id, &rule.conditions, problems);
    }
}

fn note(kind: Kind, id: &str, conditions: &Conditions, problems: &mut Vec<Problem>) {
    problems.extend(conditions.errors().map(|(at, error)| Problem {
        kind,
        id: id.to_owned(),
        reason: format!("condition {}: {error}", at + 1),
    }));
}
