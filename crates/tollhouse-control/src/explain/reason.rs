//! Explanations in words: why a candidate lost, and which object configures a plugin.

use tollhouse_proxy::plugins::PluginStep;
use tollhouse_proxy::snapshot::{Reference, RouteEntry};
use tollhouse_router::Loss;

use super::decision::Candidate;
use crate::terminal::steers;

/// Returns untrusted bytes as text that is safe to print: control characters are escaped.
pub fn lossy(bytes: &[u8]) -> String {
    let mut text = String::new();
    for letter in String::from_utf8_lossy(bytes).chars() {
        if steers(letter) { text.extend(letter.escape_default()) } else { text.push(letter) }
    }
    text
}

/// Returns the reason why a candidate lost, with the condition that failed; empty for the winner.
pub fn loss(candidate: &Candidate) -> String {
    let Some(loss) = candidate.verdict.loss else { return String::new() };
    let entry = &candidate.entry;
    let condition = match loss {
        Loss::Method => entry.route.methods.map(|set| set.names().collect::<Vec<_>>().join(", ")),
        Loss::RemoteAddr => Some(joined(entry.route.remote_addrs.iter().map(ToString::to_string))),
        Loss::Host => Some(joined(hosts(entry).iter().cloned())),
        Loss::Vars => entry.route.vars.as_ref().map(ToString::to_string),
        Loss::Filter | Loss::Path | Loss::Later => None,
    };
    match condition {
        Some(condition) => format!("{}: {}", loss.text(), lossy(condition.as_bytes())),
        None => loss.text().to_owned(),
    }
}

/// Returns the hosts of a route; a route without hosts uses those of its service.
pub fn hosts(entry: &RouteEntry) -> &[String] {
    match &entry.terms().service {
        Reference::Found(service) if entry.route.hosts.is_empty() => &service.hosts,
        _ => &entry.route.hosts,
    }
}

/// Returns the object that configures a plugin, such as `routes/1`.
pub fn plugin_owner(entry: &RouteEntry, step: &PluginStep) -> String {
    let service = match &entry.terms().service {
        Reference::Found(service) => service.id.to_string(),
        Reference::Unnamed | Reference::Missing => String::new(),
    };
    let config = entry.route.plugin_config_id.as_ref().map(ToString::to_string);
    match step.owner {
        "route" => format!("routes/{}", entry.route.id),
        "service" => format!("services/{service}"),
        "plugin config" => format!("plugin_configs/{}", config.unwrap_or_default()),
        other => other.to_owned(),
    }
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(", ")
}
