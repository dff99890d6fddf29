//! The decision about a call: its function, and the resources that it touches.
//!
//! A matching policy that denies wins over all that allow. Every resource must be allowed; without
//! a matching policy the call is refused.

use super::{Policy, PolicyAction, ResourceKind, ResourceLabel, ResourcePattern};
use crate::instance::Metadata;

/// Suffix or prefix that matches any text.
const ANY: char = '*';

/// Prefix of comparisons over resources with several labels; a label has one value here.
const ANY_VALUE: &str = "for_any_value:";

/// Part of the names of functions on objects of the gateway.
const GATEWAY: &str = "Gateway";

/// Beginnings of the names of functions that only read.
const READING: [&str; 3] = ["Describe", "Discover", "Watch"];

/// A call that a caller attempts.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// Name of the call, as policies name it.
    pub function: &'a str,
    pub resources: &'a [Resource<'a>],
}

/// A resource that a call touches.
#[derive(Debug, Clone, Copy)]
pub struct Resource<'a> {
    pub kind: ResourceKind,
    /// Id; empty for an object that does not exist yet.
    pub id: &'a str,
    /// Namespace of the object; empty for one outside of namespaces.
    pub namespace: &'a str,
    pub name: &'a str,
    pub labels: Option<&'a Metadata>,
}

/// Outcome of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// A policy denies the call.
    Denied,
    /// No policy allows the call.
    NotAllowed,
}

impl<'a> Resource<'a> {
    pub fn namespace(name: &'a str) -> Self {
        Self { kind: ResourceKind::Namespace, id: name, namespace: "", name, labels: None }
    }

    /// Returns a resource that is known by its id only.
    pub fn by_id(kind: ResourceKind, id: &'a str) -> Self {
        Self { kind, id, namespace: "", name: id, labels: None }
    }
}

/// Decides about a call by the policies of its caller.
pub(crate) fn decide<'p>(
    policies: &(impl Iterator<Item = &'p Policy> + Clone),
    attempt: &Attempt<'_>,
) -> Verdict {
    let mut is_allowed = [false; 64];
    let touched = attempt.resources;
    // Longer lists are decided in pieces, so that the marks need no allocation.
    if touched.len() > is_allowed.len() {
        let pieces = touched.chunks(is_allowed.len());
        let verdicts = pieces
            .map(|resources| decide(policies, &Attempt { function: attempt.function, resources }));
        return verdicts.max_by_key(|verdict| severity(*verdict)).unwrap_or(Verdict::Allowed);
    }
    let marks = &mut is_allowed[..touched.len().max(1)];
    let mut is_denied = false;
    policies.clone().for_each(|policy| {
        if is_denied || !policy.covers_function(attempt.function) {
            return;
        }
        let is_deny = policy.action == PolicyAction::Deny;
        if touched.is_empty() {
            is_denied |= is_deny;
            marks[0] |= !is_deny;
        }
        for (mark, resource) in marks.iter_mut().zip(touched) {
            if (is_deny || !*mark) && policy.covers_resource(resource) {
                is_denied |= is_deny;
                *mark |= !is_deny;
            }
        }
    });
    match (is_denied, marks.iter().all(|mark| *mark)) {
        (true, _) => Verdict::Denied,
        (false, true) => Verdict::Allowed,
        (false, false) => Verdict::NotAllowed,
    }
}

fn severity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Allowed => 0,
        Verdict::NotAllowed => 1,
        Verdict::Denied => 2,
    }
}

impl Policy {
    /// Whether the policy allows a function on objects of the gateway with certain labels.
    pub(crate) fn allows_labelled(&self, function: &str) -> bool {
        self.action != PolicyAction::Deny
            && !self.labels.is_empty()
            && self.names_gateway()
            && self.covers_function(function)
    }

    /// Whether a function names the gateway. A policy for all functions, such as one of Polaris, gives
    /// no right to objects of the gateway by their labels, because it was made for services.
    fn names_gateway(&self) -> bool {
        self.functions.iter().any(|pattern| pattern.contains(GATEWAY))
    }

    /// Whether the policy denies a function on objects of a kind, or on those with certain labels.
    pub(crate) fn denies_some(&self, function: &str, kind: ResourceKind) -> bool {
        self.action == PolicyAction::Deny
            && self.covers_function(function)
            && (!self.labels.is_empty() || self.resources.iter().any(|it| it.kind == kind))
    }

    fn covers_function(&self, function: &str) -> bool {
        match self.action {
            _ if !self.functions.is_empty() => {
                self.functions.iter().any(|pattern| is_like(pattern, function))
            }
            PolicyAction::ReadWrite => true,
            PolicyAction::ReadOnly => READING.iter().any(|start| function.starts_with(start)),
            // Fails closed on either side: an empty list allows nothing and denies everything.
            PolicyAction::Allow => false,
            PolicyAction::Deny => true,
        }
    }

    fn covers_resource(&self, resource: &Resource<'_>) -> bool {
        self.resources.iter().any(|pattern| pattern.matches(resource))
            || resource.labels.is_some_and(|labels| self.covers_labels(resource.kind, labels))
    }

    fn covers_labels(&self, kind: ResourceKind, labels: &Metadata) -> bool {
        let is_meant = kind != ResourceKind::Gateway
            || self.action == PolicyAction::Deny
            || self.names_gateway();
        is_meant && !self.labels.is_empty() && self.labels.iter().all(|label| label.matches(labels))
    }
}

impl ResourceKind {
    /// Whether objects of the kind are in a namespace, which covers those that do not exist yet.
    fn is_in_namespace(self) -> bool {
        matches!(self, Self::Service | Self::ConfigGroup)
    }
}

impl ResourcePattern {
    fn matches(&self, resource: &Resource<'_>) -> bool {
        // A right to all services is one to those that exist, as in Polaris: what does not exist
        // yet is covered by its namespace.
        let is_new = resource.id.is_empty() && resource.kind.is_in_namespace();
        if self.kind != resource.kind || (is_new && &*self.text == "*") {
            return false;
        }
        match self.text.strip_suffix(ANY) {
            Some(start) => is_start_of(start, resource),
            None => *self.text == *resource.id && !resource.id.is_empty() || self.is_name(resource),
        }
    }

    fn is_name(&self, resource: &Resource<'_>) -> bool {
        match self.text.split_once('/') {
            Some((namespace, name)) => namespace == resource.namespace && name == resource.name,
            None => false,
        }
    }
}

/// Whether `namespace/name` of a resource begins with a text.
fn is_start_of(start: &str, resource: &Resource<'_>) -> bool {
    if resource.namespace.is_empty() {
        return resource.name.starts_with(start);
    }
    match start.strip_prefix(resource.namespace) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('/').is_some_and(|name| resource.name.starts_with(name)),
        None => resource.namespace.starts_with(start),
    }
}

impl ResourceLabel {
    fn matches(&self, labels: &Metadata) -> bool {
        let Some(value) = labels.get(&self.key) else { return false };
        let comparison = self.compare.strip_prefix(ANY_VALUE).unwrap_or(&self.compare);
        match comparison {
            "string_equal" => *value == self.value,
            "string_not_equal" => *value != self.value,
            "string_equal_ignore_case" => value.eq_ignore_ascii_case(&self.value),
            "string_not_equal_ignore_case" => !value.eq_ignore_ascii_case(&self.value),
            _ => false,
        }
    }
}

/// Whether a comparison is known. An unknown one would never match, so that a denial with it would
/// protect nothing.
pub(super) fn is_comparison(compare: &str) -> bool {
    let comparison = compare.strip_prefix(ANY_VALUE).unwrap_or(compare);
    let known = [
        "string_equal",
        "string_not_equal",
        "string_equal_ignore_case",
        "string_not_equal_ignore_case",
    ];
    known.contains(&comparison)
}

/// Whether a pattern, which may begin or end with `*`, matches a function.
fn is_like(pattern: &str, function: &str) -> bool {
    if let Some(start) = pattern.strip_suffix(ANY) {
        return match start.strip_prefix(ANY) {
            Some(middle) => function.contains(middle),
            None => function.starts_with(start),
        };
    }
    match pattern.strip_prefix(ANY) {
        Some(end) => function.ends_with(end),
        None => pattern == function,
    }
}
