//! Governance rules in the state, and their assignment to services.

use std::sync::Arc;

use tollhouse_stdx::CowMap;

use crate::check;
use crate::command::{NewRule, Outcome};
use crate::encoded::Encoded;
use crate::held_bytes::{MemoryClass, MemorySize};
use crate::journal::Record;
use crate::key::{ServiceKey, ServiceRef};
use crate::limits::{BODY_BYTES_MAX, INSTANCE_ID_CHARS_MAX, NAMESPACE_CHARS_MAX, RULES_MAX};
use crate::namespace::DEFAULT;
use crate::refusal::{Noun, Refusal};
use crate::rule::{NameScope, Rule, RuleKind};
use crate::view::RuleSet;

use super::{Change, State};

/// Rules of one target, by id.
pub(super) type TargetRules = CowMap<Arc<str>, Arc<Rule>>;

/// Wildcard name that matches every name.
const ANY: &str = "*";

/// Maximum number of services that one rule names; `*` matches all.
const TARGETS_MAX: usize = 256;

impl State {
    /// Returns the rules of a kind for the clients of a service: those for the service, for its
    /// whole namespace, and for all services.
    pub fn rules_for(&self, kind: RuleKind, service: ServiceRef<'_>) -> RuleSet {
        let ServiceRef { namespace, name } = service;
        let mut set = RuleSet::default();
        let mut names = vec![(namespace, name), (namespace, ANY), (ANY, ANY)];
        names.dedup();
        for (namespace, name) in names {
            let target = (kind, ServiceKey::new(namespace, name));
            let linked = self.targets.get(&target).into_iter().flat_map(CowMap::values);
            set.rules.extend(linked.cloned());
        }
        set.sort();
        set
    }

    pub fn rule(&self, kind: RuleKind, id: &str) -> Option<&Arc<Rule>> {
        self.rules.get(&(kind, Arc::from(id)))
    }

    /// Iterates over all rules of a kind, in no defined order.
    pub fn rules(&self, kind: RuleKind) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.values().filter(move |rule| rule.kind == kind)
    }

    pub(super) fn create_rule(
        &mut self,
        mut new: NewRule,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        check_rule(&new)?;
        if self.rules.contains_key(&(new.kind, Arc::clone(&new.id))) {
            return Err(Refusal::Exists);
        }
        self.check_name(&new)?;
        if self.rules.len() >= RULES_MAX {
            return Err(Refusal::Full { what: "rules", max: RULES_MAX });
        }
        if new.id.is_empty() {
            new.id = self.next_revision().to_string().into();
        }
        self.put_rule(new, None, change)
    }

    pub(super) fn update_rule(
        &mut self,
        new: NewRule,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        check_rule(&new)?;
        let before = self.rules.get(&(new.kind, Arc::clone(&new.id)));
        let before = Arc::clone(before.ok_or(Refusal::NotFound(Noun::Rule(new.kind)))?);
        let is_alike = before.name == new.name
            && before.namespace == new.namespace
            && before.targets == new.targets
            && before.priority == new.priority
            && before.enabled == new.enabled
            && before.body == new.body;
        if is_alike {
            return Err(Refusal::NoChange);
        }
        self.check_name(&new)?;
        self.put_rule(new, Some(&before), change)
    }

    /// Refuses a name that another rule has, for kinds with unique names.
    fn check_name(&self, new: &NewRule) -> Result<(), Refusal> {
        let owner = name_key(new.kind, &new.namespace, &new.name)
            .and_then(|key| self.rule_names.get(&(new.kind, key)));
        match owner {
            Some(owner) if *owner != new.id => Err(Refusal::NameTaken(new.kind)),
            _ => Ok(()),
        }
    }

    fn put_rule(
        &mut self,
        new: NewRule,
        before: Option<&Rule>,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        let now = change.now_seconds();
        // A change of an enabled rule keeps the time when it was enabled.
        let enabled_at = match before {
            Some(before) if before.enabled || !new.enabled => before.enabled_at,
            _ if new.enabled => now,
            _ => 0,
        };
        let rule = Rule {
            kind: new.kind,
            id: new.id,
            name: new.name,
            namespace: new.namespace,
            targets: new.targets,
            priority: new.priority,
            enabled: new.enabled,
            created_at: before.map_or(now, |before| before.created_at),
            modified_at: now,
            enabled_at,
            revision: self.next_revision(),
            body: new.body,
            encoded: Encoded::default(),
        };
        let held_before = before.map_or(0, MemorySize::held_bytes);
        self.held.check(MemoryClass::Rules, held_before, rule.held_bytes())?;
        change.journal.put(Record::rule(&rule)?, before.into());
        if let Some(before) = before {
            self.unlink_rule(before);
        }
        Ok(Outcome::Rule(self.place_rule(rule)))
    }

    pub(super) fn set_rule_enabled(
        &mut self,
        kind: RuleKind,
        id: Arc<str>,
        enabled: bool,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        let before = self.rules.get(&(kind, id)).ok_or(Refusal::NotFound(Noun::Rule(kind)))?;
        let before = Arc::clone(before);
        if before.enabled == enabled {
            return Err(Refusal::NoChange);
        }
        let new = NewRule {
            kind: before.kind,
            id: Arc::clone(&before.id),
            name: before.name.clone(),
            namespace: before.namespace.clone(),
            targets: before.targets.clone(),
            priority: before.priority,
            enabled,
            body: before.body.clone(),
        };
        self.put_rule(new, Some(&before), change)
    }

    /// Stores a rule; a previous version must have been unlinked.
    pub(super) fn place_rule(&mut self, rule: Rule) -> Arc<Rule> {
        let rule = Arc::new(rule);
        for target in &rule.targets {
            let key = (rule.kind, target.clone());
            let add = |rules: &mut TargetRules| {
                drop(rules.insert(Arc::clone(&rule.id), Arc::clone(&rule)))
            };
            if self.targets.update(&key, add).is_none() {
                let mut rules = TargetRules::new();
                add(&mut rules);
                self.targets.insert(key, rules);
            }
        }
        if let Some(key) = name_key(rule.kind, &rule.namespace, &rule.name) {
            self.rule_names.insert((rule.kind, key), Arc::clone(&rule.id));
        }
        self.held.replace(MemoryClass::Rules, 0, rule.held_bytes());
        self.rules.insert((rule.kind, Arc::clone(&rule.id)), Arc::clone(&rule));
        rule
    }

    fn unlink_rule(&mut self, rule: &Rule) {
        self.held.replace(MemoryClass::Rules, rule.held_bytes(), 0);
        // Transferred rules may share a name; the index then holds the one stored last.
        if let Some(key) = name_key(rule.kind, &rule.namespace, &rule.name) {
            let key = (rule.kind, key);
            if self.rule_names.get(&key).is_some_and(|owner| *owner == rule.id) {
                self.rule_names.remove(&key);
            }
        }
        for target in &rule.targets {
            let key = (rule.kind, target.clone());
            let remove = |rules: &mut TargetRules| {
                rules.remove(&rule.id);
                rules.is_empty()
            };
            if self.targets.update(&key, remove) == Some(true) {
                self.targets.remove(&key);
            }
        }
    }

    pub(super) fn delete_rule(
        &mut self,
        kind: RuleKind,
        id: &Arc<str>,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        self.remove_rule(kind, Arc::clone(id)).ok_or(Refusal::NotFound(Noun::Rule(kind)))?;
        change.journal.delete_rule(kind, id);
        Ok(Outcome::Deleted)
    }

    pub(super) fn remove_rule(&mut self, kind: RuleKind, id: Arc<str>) -> Option<Arc<Rule>> {
        let rule = self.rules.remove(&(kind, id))?;
        self.unlink_rule(&rule);
        Some(rule)
    }
}

/// Returns the index key of a rule's name; `None` if names need not be unique.
fn name_key(kind: RuleKind, namespace: &str, name: &str) -> Option<ServiceKey> {
    // A rule without a namespace belongs to the default one.
    let namespace = if namespace.is_empty() { DEFAULT } else { namespace };
    match kind.name_scope() {
        _ if name.is_empty() => None,
        NameScope::Free => None,
        NameScope::Namespace => Some(ServiceKey::new(namespace, name)),
        NameScope::Kind => Some(ServiceKey::new(ANY, name)),
    }
}

pub(super) fn check_rule(new: &NewRule) -> Result<(), Refusal> {
    check::text(&new.name, "name")?;
    if check::is_longer(&new.namespace, NAMESPACE_CHARS_MAX) {
        return Err(Refusal::NamespaceName);
    }
    if check::is_longer(&new.id, INSTANCE_ID_CHARS_MAX) {
        return Err(Refusal::Parameter("id"));
    }
    if new.targets.len() > TARGETS_MAX {
        return Err(Refusal::Parameter("more services than a rule may name"));
    }
    for target in &new.targets {
        if &*target.namespace != ANY {
            check::namespace_name(&target.namespace)?;
        }
        if &*target.name != ANY {
            check::service_name(&target.name)?;
        }
    }
    if new.body.len() > BODY_BYTES_MAX {
        return Err(Refusal::Parameter("the rule is too large"));
    }
    Ok(())
}
