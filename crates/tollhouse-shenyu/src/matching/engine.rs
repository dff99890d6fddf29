//! All plugins with their selectors and rules, compiled.

use std::sync::Arc;

use hashbrown::HashMap;

use super::condition::Conditions;
use super::order::{DEFAULT_ORDER, built_in_order, protects};
use super::ranked::{Competitor, Ranked, Takes, Unclear, Winner};
use super::request::Request;
use super::rpc_type::MetadataTable;
use crate::key::Kind;
use crate::model::{Metadata, Plugin, Rule, Selector, SelectorType};

/// What the engine is built of: the objects of one namespace, in the order in which they came.
#[derive(Debug, Clone, Copy, Default)]
pub struct Objects<'a> {
    /// The plugins' rows.
    pub plugins: &'a [Arc<Plugin>],
    /// Their selectors.
    pub selectors: &'a [Arc<Selector>],
    /// Their rules.
    pub rules: &'a [Arc<Rule>],
    /// What is known of methods.
    pub metadata: &'a [Arc<Metadata>],
}

/// What is wrong with an object. The others serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is.
    pub kind: Kind,
    /// Its id.
    pub id: String,
    /// What is wrong, and where.
    pub reason: String,
}

/// Compiled plugins.
#[derive(Debug)]
pub struct Engine {
    /// In the order of the chain.
    plugins: Box<[PluginEntry]>,
    pub(super) metadata: MetadataTable,
}

#[derive(Debug)]
pub(super) struct PluginEntry {
    pub(super) plugin: Arc<Plugin>,
    order: i64,
    unclear: Unclear,
    pub(super) selectors: Arc<Ranked<SelectorEntry>>,
}

#[derive(Debug)]
pub(super) struct SelectorEntry {
    pub(super) selector: Arc<Selector>,
    pub(super) rules: Arc<Ranked<Arc<Rule>>>,
    /// The last in the order of `sort`, by its rank: what full selectors take.
    last_rule: Option<u32>,
    /// The rules in the order in which they came.
    sources: Box<[Arc<Rule>]>,
}

/// What a plugin has to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Nothing: there is no such plugin, or it is off.
    Off,
    /// No selector takes it.
    NoSelector,
    /// A selector takes it, and none of its rules does.
    NoRule(&'a Selector),
    /// It serves it.
    Serves {
        /// The selector.
        selector: &'a Selector,
        /// How.
        rule: RuleChoice<'a>,
        /// Where both stand.
        ranks: Ranks,
    },
    /// A protection that could be meant for the request cannot be evaluated: it must not pass.
    Unavailable {
        /// The object with the problem.
        kind: Kind,
        /// Its id.
        id: &'a str,
    },
}

/// The places of a selector among those of its plugin, and of a rule among those of its selector, in the order of
/// choice: for whoever keeps something beside each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// Of the selector.
    pub selector: u32,
    /// Of the rule; 0 where none was asked.
    pub rule: u32,
}

/// The rule by which a plugin serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleChoice<'a> {
    /// The selector is not `continued`: default values (`default_rule`).
    Default,
    /// This one.
    Rule(&'a Rule),
}

impl Engine {
    /// Compiles all objects. One that cannot be compiled is reported and takes no request; of a plugin that
    /// protects it refuses those that it could be meant for.
    pub fn build(objects: Objects<'_>) -> (Self, Vec<Problem>) {
        Self::rebuild(objects, None)
    }

    /// The same as [`Self::build`], with what `before` has of the same objects: they are the same where they
    /// lie in the same place. Compiling costs what is new, and a look at each of the others.
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
                let order = plugin.sort.or_else(|| built_in_order(&plugin.name));
                PluginEntry {
                    order: order.unwrap_or(DEFAULT_ORDER),
                    unclear: match protects(&plugin.name) {
                        true => Unclear::Reported,
                        false => Unclear::Skipped,
                    },
                    selectors: Ranked::renew(
                        competitors,
                        ranked_before.map(|before| &before.selectors),
                    ),
                    plugin: Arc::clone(plugin),
                }
            })
            .collect();
        // Stable, so that plugins of one order run as they are listed.
        plugins.sort_by_key(|entry| entry.order);
        let metadata_before = before.map(|before| &before.metadata);
        let metadata = MetadataTable::build(objects.metadata, metadata_before, &mut problems);
        (Self { plugins: plugins.into(), metadata }, problems)
    }

    /// The enabled plugins, in the order of the chain.
    pub fn chain(&self) -> impl Iterator<Item = &Plugin> {
        self.plugins.iter().map(|entry| &*entry.plugin).filter(|plugin| plugin.enabled)
    }

    /// The enabled plugins by name, each with its number in the order of the chain.
    pub fn order(&self) -> impl Iterator<Item = (String, i64)> {
        let enabled = self.plugins.iter().filter(|entry| entry.plugin.enabled);
        enabled.map(|entry| (entry.plugin.name.clone(), entry.order))
    }

    /// What the plugin `name` has to do with a request. Allocates nothing but what the request does for the
    /// values that it is asked for.
    pub fn select(&self, name: &str, request: &dyn Request) -> Outcome<'_> {
        self.place(name).map_or(Outcome::Off, |place| self.select_at(place, request))
    }

    /// Where the plugin `name` stands, for [`Self::select_at`].
    pub fn place(&self, name: &str) -> Option<usize> {
        self.plugins.iter().position(|entry| entry.plugin.name == name)
    }

    /// [`Self::select`] for the plugin at `place`, without a search for its name.
    pub fn select_at(&self, place: usize, request: &dyn Request) -> Outcome<'_> {
        let Some(entry) = self.plugins.get(place).filter(|entry| entry.plugin.enabled) else {
            return Outcome::Off;
        };
        let (rank, chosen) = match entry.selectors.best(request, entry.unclear) {
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
            SelectorType::Custom => chosen.rules.best(request, entry.unclear),
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

    /// The selectors of the plugin at `place` with their rules, both in the order of choice, as [`Ranks`] count
    /// them.
    pub fn ranked(&self, place: usize) -> impl Iterator<Item = (&Selector, Vec<&Rule>)> {
        let selectors =
            self.plugins.get(place).into_iter().flat_map(|entry| entry.selectors.iter());
        selectors.map(|each| {
            let rules = each.value.rules.iter().map(|rule| &*rule.value);
            (&*each.value.selector, rules.collect())
        })
    }

    /// The paths that selectors and rules of the plugin at `place` name as a whole; some may stand twice.
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

/// What was compiled before, by where its object lies.
struct Known<'a> {
    selectors: HashMap<usize, &'a Arc<Competitor<SelectorEntry>>>,
}

impl<'a> Known<'a> {
    fn from_engine(before: Option<&'a Engine>) -> Self {
        let entries = before.into_iter().flat_map(|before| before.plugins.iter());
        let selectors = entries.flat_map(|entry| entry.selectors.iter());
        Self { selectors: selectors.map(|each| (place(&each.value.selector), each)).collect() }
    }

    /// A selector with its rules, where all of them are the same.
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

/// Where an object lies; whoever asks holds it, so that nothing else can lie there.
fn place<T>(object: &Arc<T>) -> usize {
    Arc::as_ptr(object).addr()
}

fn compile_selector(
    selector: &Arc<Selector>,
    rules: &[&Arc<Rule>],
    known: &Known<'_>,
) -> Competitor<SelectorEntry> {
    let conditions = Conditions::compile(selector.mode(), &selector.condition_list);
    // A selector keeps the compiled rules that it had, whatever else of it has changed.
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
    // Of equals the later one, which `max_by_key` returns.
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

/// What is wrong with a selector and its rules.
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
