//! Judges a document of resources: each object by the model, then what they name of each other.

use std::collections::BTreeMap;

use tollhouse_config::{Document, Format, Item, declarative};
use tollhouse_model::{GlobalRule, Kind, PluginConfig, Problems, Route, Service, Upstream};
use tollhouse_proxy::compile::{kind_without_effect, plugins_without_effect};

use super::Environment;
use super::references::References;

/// What was found in a document.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// Objects of each kind, bad ones included.
    pub(super) counts: BTreeMap<Kind, usize>,
    /// Everything that is wrong, in the order of the document.
    pub(super) problems: Problems,
}

/// Judges the text of a document.
pub(super) fn judge(text: &str, format: Format, environment: Environment<'_>) -> Judged {
    match declarative::parse(text, format, environment) {
        Ok(document) => judge_document(document),
        Err(problems) => Judged { counts: BTreeMap::new(), problems },
    }
}

fn judge_document(document: Document) -> Judged {
    let mut counts = BTreeMap::new();
    let withheld = document.withheld.iter().map(|withheld| withheld.kind);
    for kind in document.items.iter().map(|item| item.kind).chain(withheld) {
        *counts.entry(kind).or_default() += 1;
    }
    let references = References::of(&document);
    let mut problems = document.problems;
    for item in &document.items {
        problems.extend(judge_item(item, &references));
    }
    Judged { counts, problems }
}

fn judge_item(item: &Item, references: &References) -> Problems {
    let value = match item.value() {
        Ok(value) => value,
        Err(problem) => return Problems::from_iter([problem]),
    };
    let (id, path) = (item.id.clone(), item.path.as_str());
    match item.kind {
        Kind::Route => {
            let (route, mut problems) = Route::parse(id, &value, path);
            route.iter().for_each(|route| references.route(route, path, &mut problems));
            problems
        }
        Kind::Service => {
            let (service, mut problems) = Service::parse(id, &value, path);
            service.iter().for_each(|service| references.service(service, path, &mut problems));
            problems
        }
        Kind::Upstream => {
            let (upstream, mut problems) = Upstream::parse(Some(id), &value, path);
            upstream.iter().for_each(|upstream| references.upstream(upstream, path, &mut problems));
            problems
        }
        Kind::PluginConfig => {
            let (config, mut problems) = PluginConfig::parse(id, &value, path);
            config.iter().for_each(|it| plugins_without_effect(&it.plugins, path, &mut problems));
            problems
        }
        Kind::GlobalRule => {
            let (rule, mut problems) = GlobalRule::parse(id, &value, path);
            rule.iter().for_each(|it| plugins_without_effect(&it.plugins, path, &mut problems));
            problems
        }
        Kind::Consumer
        | Kind::Credential
        | Kind::ConsumerGroup
        | Kind::PluginMetadata
        | Kind::Proto
        | Kind::Ssl
        | Kind::StreamRoute
        | Kind::Secret => {
            let mut problems = item.kind.problems_of(id, &value, path);
            problems.push(kind_without_effect(item.kind, path));
            problems
        }
    }
}
