//! Compiler of a namespace: builds the matching engine and the action of each rule.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::matching::{Engine, Objects, OnFault, Problem};
use tollhouse_shenyu::model::{DiscoveryUpstreams, Plugin, Rule, Selector};

use crate::actuator::{Actuator, Contents};
use crate::by_path::ByPath;
use crate::carryover::{ActionEntry, ActionTable, ApplicationTable, Carryover, Inputs};
use crate::chain::Chain;
use crate::engines::Engines;
use crate::entrance::Entrance;
use crate::error::BuildError;
use crate::links::{Link, Slot, Slots, Unmatched};
use crate::local::LocalInterface;
use crate::parts::Parts;
use crate::place::Place;
use crate::plugins::sign::signature::Applications;
use crate::plugins::{self, Action, ROLES};
use crate::resources::Resources;
use crate::row::Stage;
use crate::tcp;
use crate::terms::Terms;

/// Interfaces of the process that a chain uses.
#[derive(Debug, Default)]
pub(crate) struct Interfaces {
    /// Network connections, if available.
    pub(crate) engines: Option<Arc<dyn Engines>>,
    /// Handler of the gateway's own interface, if enabled.
    pub(crate) local: Option<Arc<dyn LocalInterface>>,
}

/// Compiles all objects, reusing what was compiled from unchanged ones. Faulty objects are
/// reported. In a protecting plugin, requests that a faulty object might match are refused.
pub(crate) fn compile(
    parts: &Parts,
    terms: Terms,
    carryover: &mut Carryover,
    interfaces: &Interfaces,
) -> (Arc<Chain>, Vec<Problem>) {
    let objects = Objects {
        plugins: &parts.plugins,
        selectors: &parts.selectors,
        rules: &parts.rules,
        metadata: &parts.metadata,
        roles: ROLES,
    };
    let before = carryover.chain.take();
    let (engine, mut problems) =
        Engine::rebuild(objects, before.as_ref().map(|before| &before.engine));
    let (applications, refused) = applications(parts, carryover);
    problems.extend(refused);
    let (tcp_targets, refused) = tcp::compile(parts, &terms);
    problems.extend(refused);
    let counts_before = std::mem::take(&mut carryover.counts);
    let mut compiler = Compiler {
        plugins: parts.plugins.iter().map(|plugin| (&*plugin.name, plugin)).collect(),
        discovery: parts.discovery.iter().map(|it| (&*it.selector_id, it)).collect(),
        before: std::mem::take(&mut carryover.actions),
        now: ActionTable::default(),
        rules: HashMap::default(),
        selectors: HashMap::default(),
        problems,
        resources: Resources::new(interfaces.engines.as_ref(), &counts_before),
    };
    compiler.compile_actions(parts);
    let (answer_links, links) = compiler
        .links(&engine, parts)
        .into_iter()
        .partition::<Vec<Link>, _>(|link| link.stage == Stage::Response);
    let links = before_proxies(links, Stage::BeforeProxies, |_, _| true);
    let links = before_proxies(links, Stage::BeforeProxiesAtLatest, |proxy, it| proxy < it);
    let protects = |link: &Link| plugins::role(&link.name).on_fault == OnFault::Refuse;
    let judges_paths = links.iter().chain(&answer_links).any(protects);
    let is_bare = !is_used(parts, &links);
    let Compiler { resources, now, problems, .. } = compiler;
    let entrance = (!terms.filters.is_empty()).then(|| {
        Box::new(Entrance {
            actuator: terms.filters.actuator.then(|| actuator(parts, &engine)),
            local: interfaces.local.clone(),
            filters: terms.filters.clone(),
            statuses: terms.statuses,
        })
    });
    let mut chain = Chain {
        engine,
        links: links.into(),
        answer_links: answer_links.into(),
        targets: resources.targets.into(),
        tcp_targets: tcp_targets.into(),
        applications,
        entrance,
        is_bare,
        terms,
        by_path: ByPath::default(),
        judges_paths,
    };
    chain.by_path = ByPath::new(&chain);
    let chain = Arc::new(chain);
    carryover.counts = resources.counts;
    carryover.actions = now;
    carryover.chain = Some(Arc::clone(&chain));
    (chain, problems)
}

/// Builds the pages below `/actuator/` for these objects.
fn actuator(parts: &Parts, engine: &Engine) -> Actuator {
    Actuator::new(Contents {
        plugins: parts.plugins.clone(),
        selectors: parts.selectors.clone(),
        rules: parts.rules.clone(),
        metadata: parts.metadata.clone(),
        order: engine.order().map(|(name, order)| (name, order.into())).collect(),
    })
}

/// Whether the chain needs to see requests: an enabled plugin has a selector, enabled or not, or a
/// plugin refuses requests that match no selector.
fn is_used(parts: &Parts, links: &[Link]) -> bool {
    let is_on = |name: &str| parts.plugins.iter().any(|it| it.enabled && it.name == name);
    links.iter().any(|link| matches!(link.unmatched, Unmatched::Refuse(_)))
        || parts.selectors.iter().any(|it| is_on(&it.plugin_name))
}

/// Compiles all applications, or reuses the previous result if none has changed.
fn applications(parts: &Parts, carryover: &mut Carryover) -> (Arc<Applications>, Vec<Problem>) {
    let known = carryover.applications.take().filter(|known| known.is_of(&parts.app_auths));
    let made = carryover.applications.insert(known.unwrap_or_else(|| {
        let sources = parts.app_auths.clone();
        let (applications, problems) = Applications::build(sources.iter().map(|auth| &**auth));
        ApplicationTable { sources, applications: Arc::new(applications), problems }
    }));
    (Arc::clone(&made.applications), made.problems.clone())
}

struct Compiler<'a> {
    plugins: HashMap<&'a str, &'a Arc<Plugin>>,
    /// Discovery data by selector id.
    discovery: HashMap<&'a str, &'a Arc<DiscoveryUpstreams>>,
    /// Actions of rules by rule id.
    rules: HashMap<&'a str, Slot>,
    /// Actions of selectors that apply without rules, by selector id.
    selectors: HashMap<&'a str, Slot>,
    before: ActionTable,
    now: ActionTable,
    problems: Vec<Problem>,
    resources: Resources<'a>,
}

impl<'a> Compiler<'a> {
    fn compile_actions(&mut self, parts: &'a Parts) {
        let mut by_selector: HashMap<&str, Vec<&Arc<Rule>>> = HashMap::default();
        for rule in parts.rules.iter().filter(|rule| rule.enabled) {
            by_selector.entry(&rule.selector_id).or_default().push(rule);
        }
        for selector in parts.selectors.iter().filter(|selector| selector.enabled) {
            let Some(&plugin) = self.plugins.get(&*selector.plugin_name) else { continue };
            if !plugin.enabled {
                continue;
            }
            let discovery = self.discovery.get(&*selector.id).copied();
            if !selector.continued {
                let slot = self.slot(&Place { plugin, selector, rule: None, discovery });
                self.selectors.insert(&selector.id, slot);
                continue;
            }
            let rules = by_selector.get(&*selector.id).map_or(&[][..], Vec::as_slice);
            if rules.is_empty() {
                self.report_absent_plugin(selector);
            }
            for &rule in rules {
                let place = Place { plugin, selector, rule: Some(rule), discovery };
                let slot = self.slot(&place);
                self.rules.insert(&rule.id, slot);
            }
        }
    }

    /// Reports a selector without rules whose plugin is missing. Otherwise the rules are reported.
    fn report_absent_plugin(&mut self, selector: &Selector) {
        if let Err(reason) = plugins::check_built(&selector.plugin_name) {
            let (kind, id) = (Kind::Selector, selector.id.clone());
            self.problems.push(Problem { kind, id, reason: reason.to_string() });
        }
    }

    /// Returns the action of a place, reusing the previous one if its objects are unchanged.
    fn slot(&mut self, place: &Place<'_>) -> Slot {
        let before = match place.rule {
            Some(_) => self.before.rules.remove(place.id()),
            None => self.before.selectors.remove(place.id()),
        };
        let inputs = Inputs::new(place);
        let entry = match before.filter(|before| before.inputs.is_same(&inputs)) {
            Some(entry) => {
                self.resources.take_over_counts(place);
                entry
            }
            None => self.compile(place, inputs),
        };
        if let Some(reason) = &entry.problem {
            let (kind, id, reason) = (place.kind(), place.id().to_owned(), reason.clone());
            self.problems.push(Problem { kind, id, reason });
        }
        let target = entry.target.as_ref().map(|target| self.resources.place_target(target));
        let slot = Slot { action: entry.action.clone(), target };
        match place.rule {
            Some(_) => self.now.rules.insert(place.id().to_owned(), entry),
            None => self.now.selectors.insert(place.id().to_owned(), entry),
        };
        slot
    }

    /// Compiles the action of a place, or a substitute if that fails.
    fn compile(&mut self, place: &Place<'_>, inputs: Inputs) -> ActionEntry {
        let (action, problem) = match Action::compile(place, &mut self.resources) {
            Ok(action) => (action, None),
            Err(reason) => (substitute(&place.plugin.name, &reason), Some(reason.to_string())),
        };
        ActionEntry { inputs, action, target: self.resources.take_target(), problem }
    }

    /// Lists the plugins that may affect a request: those with an enabled selector, and those that
    /// also act without one.
    fn links(&mut self, engine: &Engine, parts: &Parts) -> Vec<Link> {
        let enabled = parts.selectors.iter().filter(|selector| selector.enabled);
        let in_use: HashSet<&str> = enabled.map(|it| &*it.plugin_name).collect();
        let mut links = Vec::new();
        for plugin in engine.chain() {
            let stage = plugins::row(&plugin.name).map_or(Stage::InOrder, |row| row.stage);
            let unmatched = match stage {
                Stage::Proxy(_) => Unmatched::Named,
                _ => self.fallthrough(plugin),
            };
            if unmatched == Unmatched::Pass && !in_use.contains(&*plugin.name) {
                continue;
            }
            let slot = |selector: &Selector, rule: Option<&Rule>| match rule {
                Some(rule) => self.rules.get(&*rule.id).cloned(),
                None => self.selectors.get(&*selector.id).cloned(),
            };
            links.extend(engine.place(&plugin.name).map(|place| Link {
                name: plugin.name.clone(),
                place,
                stage,
                unmatched,
                slots: Slots::new(engine, place, slot),
            }));
        }
        links
    }

    fn fallthrough(&mut self, plugin: &Plugin) -> Unmatched {
        let fallthrough = plugins::fallthrough(plugin);
        self.problems.extend(fallthrough.problem.map(|reason| Problem {
            kind: Kind::Plugin,
            id: plugin.id.clone(),
            reason,
        }));
        fallthrough.refusal.map_or(Unmatched::Pass, Unmatched::Refuse)
    }
}

/// Returns the action of a rule that cannot be compiled.
fn substitute(plugin: &str, reason: &BuildError) -> Action {
    let row = plugins::row(plugin);
    match (reason, row.map(|row| row.stage)) {
        (BuildError::Unusable { answer, .. }, _) => Action::Refuse(*answer),
        (_, Some(Stage::Proxy(_))) => Action::Refuse(Answer::UrlNotFound),
        _ if plugins::role(plugin).on_fault == OnFault::Refuse => {
            Action::Refuse(Answer::InternalException)
        }
        _ => Action::Broken(reason.to_string().into()),
    }
}

/// Moves the plugin of a stage directly before the proxies, if `is_moved` accepts their current
/// positions.
fn before_proxies(
    mut links: Vec<Link>,
    stage: Stage,
    is_moved: fn(proxy: usize, plugin: usize) -> bool,
) -> Vec<Link> {
    let proxy = links.iter().position(|link| matches!(link.stage, Stage::Proxy(_)));
    let plugin = links.iter().position(|link| link.stage == stage);
    if let (Some(proxy), Some(plugin)) = (proxy, plugin)
        && is_moved(proxy, plugin)
    {
        let link = links.remove(plugin);
        // Removing it has shifted later links by one.
        links.insert(if plugin < proxy { proxy - 1 } else { proxy }, link);
    }
    links
}
