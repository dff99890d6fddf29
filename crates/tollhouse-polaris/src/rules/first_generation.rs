//! Conversion of routing rules of the second generation to routes of the first, which is the form
//! that client libraries read: routes for calls to a service, and for calls that it makes.
//!
//! Conditions on a call become labels of the source: `$header.<key>`, `$query.<key>` and so on.
//! Client libraries collect the labels of a call under these names.

use std::collections::HashMap;

use prost::Message;
use tollhouse_registry::{Rule, ServiceRef};

use crate::v1;
use v1::source_match::Type;

/// Wildcard name that matches every name.
const ANY: &str = "*";

/// Metadata key of a route with the id of its rule.
const RULE_ID_KEY: &str = "__routing_v2_id__";

/// Specificity with which a rule's source or destination matches a service; more specific ones are
/// tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// The rule names the service.
    Named,
    /// The rule applies to all services of the namespace.
    Namespace,
    /// The rule applies to all services of all namespaces.
    Everybody,
}

/// Routes of a service in the order in which they are tried, each with its specificity.
#[derive(Debug, Default, PartialEq)]
pub struct Routes {
    /// Routes for calls to the service.
    pub inbounds: Vec<(Nearness, v1::Route)>,
    /// Routes for calls that the service makes.
    pub outbounds: Vec<(Nearness, v1::Route)>,
}

impl Routes {
    /// Converts `rules`, sorted by priority, to routes of a service.
    pub fn for_service<'a>(rules: impl Iterator<Item = &'a Rule>, service: ServiceRef<'_>) -> Self {
        let mut routes = Self::default();
        for rule in rules.filter(|rule| rule.enabled) {
            routes.add(rule, service);
        }
        // The sort is stable, so that priority decides among equally specific ones.
        routes.inbounds.sort_by_key(|(nearness, _)| *nearness);
        routes.outbounds.sort_by_key(|(nearness, _)| *nearness);
        routes
    }

    fn add(&mut self, rule: &Rule, service: ServiceRef<'_>) {
        for part in parts_of(rule) {
            let destinations = |kept: &[&v1::DestinationGroup]| {
                kept.iter().map(|group| destination(rule, &part.name, group)).collect()
            };
            let extend_info = || HashMap::from([(RULE_ID_KEY.to_owned(), String::from(&*rule.id))]);
            // A service can be caller and callee in the same rule; SDKs read both lists.
            let called = near(&part.destinations, service, |it| (&*it.namespace, &*it.service));
            if let Some((nearness, kept)) = called {
                let route = v1::Route {
                    sources: part.sources.iter().map(source).collect(),
                    destinations: destinations(&kept),
                    extend_info: extend_info(),
                    ..v1::Route::default()
                };
                self.inbounds.push((nearness, route));
            }
            let calling = near(&part.sources, service, |it| (&*it.namespace, &*it.service));
            if let Some((nearness, kept)) = calling {
                let route = v1::Route {
                    sources: kept.into_iter().map(source).collect(),
                    destinations: destinations(&part.destinations.iter().collect::<Vec<_>>()),
                    extend_info: extend_info(),
                    ..v1::Route::default()
                };
                self.outbounds.push((nearness, route));
            }
        }
    }
}

/// Returns the parts of a rule. A rule without parts is one part; a part without sources or
/// destinations inherits those of the rule.
fn parts_of(rule: &Rule) -> Vec<v1::SubRuleRouting> {
    let Some(config) = rule_config(rule) else { return Vec::new() };
    let v1::RuleRoutingConfig { sources, destinations, mut rules } = config;
    if rules.is_empty() {
        return vec![v1::SubRuleRouting { name: String::new(), sources, destinations }];
    }
    for part in &mut rules {
        if part.sources.is_empty() {
            part.sources.clone_from(&sources);
        }
        if part.destinations.is_empty() {
            part.destinations.clone_from(&destinations);
        }
    }
    rules
}

/// Returns the configuration of a rule that routes by labels; `None` for other policies.
fn rule_config(rule: &Rule) -> Option<v1::RuleRoutingConfig> {
    let message = v1::RouteRule::decode(&rule.body[..]).ok()?;
    if message.routing_policy != v1::RoutingPolicy::RulePolicy as i32 {
        return None;
    }
    v1::RuleRoutingConfig::decode(&message.routing_config?.value[..]).ok()
}

/// Returns the sources or destinations that match a service, and the highest specificity among
/// them.
fn near<'e, E>(
    ends: &'e [E],
    service: ServiceRef<'_>,
    key: impl Fn(&E) -> (&str, &str),
) -> Option<(Nearness, Vec<&'e E>)> {
    let nearness = |end: &E| match key(end) {
        (ANY, ANY) => Some(Nearness::Everybody),
        (namespace, ANY) if namespace == service.namespace => Some(Nearness::Namespace),
        key if key == (service.namespace, service.name) => Some(Nearness::Named),
        _ => None,
    };
    let nearest = ends.iter().filter_map(nearness).min()?;
    Some((nearest, ends.iter().filter(|end| nearness(end).is_some()).collect()))
}

fn source(source: &v1::SourceService) -> v1::Source {
    let labels = source.arguments.iter().filter_map(|argument| {
        Some((label_of(argument)?, argument.value.clone().unwrap_or_default()))
    });
    v1::Source {
        service: Some(source.service.clone()),
        namespace: Some(source.namespace.clone()),
        metadata: labels.collect(),
    }
}

/// Returns the label for a condition; `None` if the first generation has no such label.
fn label_of(argument: &v1::SourceMatch) -> Option<String> {
    let key = &argument.key;
    Some(match Type::try_from(argument.r#type).ok()? {
        Type::Custom => key.clone(),
        Type::Method => "$method".to_owned(),
        Type::Header => format!("$header.{key}"),
        Type::Query => format!("$query.{key}"),
        Type::CallerIp => "$caller_ip".to_owned(),
        Type::Path => "$path".to_owned(),
        Type::Cookie => format!("$cookie.{key}"),
        Type::CallerMetadata => return None,
    })
}

fn destination(rule: &Rule, part: &str, group: &v1::DestinationGroup) -> v1::Destination {
    v1::Destination {
        service: Some(group.service.clone()),
        namespace: Some(group.namespace.clone()),
        metadata: group.labels.clone(),
        priority: Some(group.priority),
        weight: Some(group.weight),
        transfer: Some(group.transfer.clone()),
        isolate: Some(group.isolate),
        name: Some(format!("{}.{part}.{}", rule.name, group.name)),
    }
}

#[cfg(test)]
mod tests;
