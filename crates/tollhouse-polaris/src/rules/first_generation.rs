//! Routing rules of the second generation as routes of the first, which is what client libraries
//! read of an answer about routing: routes for calls of a service, and for calls that it makes.
//!
//! What a rule demands of a call becomes a label of the source: `$header.<key>`, `$query.<key>` and so
//! on; client libraries put the labels of a call together under the same names.

use std::collections::HashMap;

use prost::Message;
use tollhouse_registry::{Rule, ServiceRef};

use crate::v1;
use v1::source_match::Type;

/// The name that stands for every name.
const ANY: &str = "*";

/// The key under which a route tells the rule that it was made of.
const RULE_ID_KEY: &str = "__routing_v2_id__";

/// How the end of a call that a rule speaks of names a service: the nearer, the earlier it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// By its name.
    Named,
    /// With all of its namespace.
    Namespace,
    /// With everybody.
    Everybody,
}

/// Routes for a service, each with how near the rule is to it, in the order in which they are tried.
#[derive(Debug, Default, PartialEq)]
pub struct Routes {
    /// For calls of the service.
    pub inbounds: Vec<(Nearness, v1::Route)>,
    /// For calls that it makes.
    pub outbounds: Vec<(Nearness, v1::Route)>,
}

impl Routes {
    /// The routes that `rules`, which are in the order of their priorities, make for a service.
    pub fn for_service<'a>(rules: impl Iterator<Item = &'a Rule>, service: ServiceRef<'_>) -> Self {
        let mut routes = Self::default();
        for rule in rules.filter(|rule| rule.enabled) {
            routes.add(rule, service);
        }
        // Stable: among equally near ones the priority decides.
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
            // A service may be both called and calling in one rule; SDKs look for it in each list.
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

/// The links of a rule's chain. A rule without a chain is one link; a link that leaves an end open
/// has that of the rule.
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

/// What a rule says, if it goes by the labels of calls.
fn rule_config(rule: &Rule) -> Option<v1::RuleRoutingConfig> {
    let message = v1::RouteRule::decode(&rule.body[..]).ok()?;
    if message.routing_policy != v1::RoutingPolicy::RulePolicy as i32 {
        return None;
    }
    v1::RuleRoutingConfig::decode(&message.routing_config?.value[..]).ok()
}

/// The ends that stand for a service, and how near the nearest of them is.
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

/// The label that stands for a part of a call; none where the first generation has no name for it.
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
