//! State of the gateway at one moment, from the console's API.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::console_client::ConsoleClient;
use crate::cli::traffic::Traffic;

/// Number of seconds over which rates are averaged. Rates over a shorter period fluctuate; those
/// over a longer one lag behind.
const SECONDS: u64 = 10;

/// State at one moment.
pub(super) struct Frame {
    pub(super) overview: Value,
    /// Samples of the last seconds.
    pub(super) seconds: Vec<Value>,
    /// Time of the gateway in seconds of Unix time.
    pub(super) now_s: u64,
    /// Rates of routes, the busiest first; at most 200.
    pub(super) routes: Vec<Value>,
    /// Nodes, at most 1000, those that do not serve first.
    pub(super) nodes: Vec<Value>,
    pub(super) plugins: Vec<Plugin>,
}

/// Use of a plugin that objects have.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plugin {
    pub(super) name: String,
    /// Number of objects that have it.
    pub(super) objects: u64,
    /// Requests that it refused since the start.
    pub(super) refused: u64,
    /// Requests that it refused a second, since the frame before; `None` in the first frame.
    pub(super) refused_rate: Option<f64>,
    /// Mean time of a phase since the start, in microseconds; `None` if none was timed.
    pub(super) mean_us: Option<f64>,
    /// Time that 99 % of the phases did not exceed, in microseconds.
    pub(super) p99_us: Option<f64>,
}

impl Frame {
    /// Asks for everything. Rates of refusals are those since `before`.
    pub(super) fn fetch(client: &mut ConsoleClient, before: Option<&Self>) -> anyhow::Result<Self> {
        let overview = client.get("overview", &[])?;
        let mut live = client.get("live", &[])?;
        let mut routes = client.get("live/routes", &[])?;
        let mut nodes = client.get("nodes", &[])?;
        let catalogue = client.get("plugins", &[])?;
        let now_s = live["now"].as_u64().unwrap_or(0);
        let mut seconds = rows(live["seconds"].take());
        seconds.retain(|second| second["at"].as_u64().is_some_and(|at| at + SECONDS >= now_s));
        let past_s = before.map_or(0, |frame| now_s.saturating_sub(frame.now_s));
        let known = before.map(|frame| frame.plugins.as_slice());
        Ok(Self {
            plugins: plugins(&catalogue, &overview, known, past_s),
            overview,
            seconds,
            now_s,
            routes: rows(routes["rows"].take()),
            nodes: rows(nodes["rows"].take()),
        })
    }

    pub(super) fn traffic(&self) -> Traffic<'_> {
        Traffic::new(self.seconds.iter())
    }

    pub(super) fn findings(&self) -> &[Value] {
        self.overview["findings"].as_array().map_or(&[][..], Vec::as_slice)
    }

    pub(super) fn to_json(&self) -> Value {
        let plugins = self.plugins.iter().map(|plugin| {
            json!({
                "name": plugin.name,
                "objects": plugin.objects,
                "refused": plugin.refused,
                "refused_rate": plugin.refused_rate,
                "mean_us": plugin.mean_us,
                "p99_us": plugin.p99_us,
            })
        });
        json!({
            "overview": self.overview,
            "seconds": self.seconds,
            "routes": self.routes,
            "nodes": self.nodes,
            "plugins": plugins.collect::<Value>(),
        })
    }
}

fn rows(value: Value) -> Vec<Value> {
    match value {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    }
}

/// Returns the plugins that objects have or that refused requests.
fn plugins(
    catalogue: &Value,
    overview: &Value,
    before: Option<&[Plugin]>,
    past_s: u64,
) -> Vec<Plugin> {
    let (refusals, times) = (&overview["plugin_refusals"], &overview["plugin_times"]);
    let mut used: BTreeMap<&str, u64> = BTreeMap::new();
    let all = catalogue["rows"].as_array().or(catalogue.as_array()).into_iter().flatten();
    for row in all {
        if let (Some(name), Some(objects @ 1..)) = (row["name"].as_str(), row["used_by"].as_u64()) {
            used.insert(name, objects);
        }
    }
    for (name, _) in refusals.as_object().into_iter().flatten() {
        used.entry(name).or_default();
    }
    let plugin = |(name, objects): (&str, u64)| {
        let refused = refusals[name].as_u64().unwrap_or(0);
        let rate = |known: &[Plugin]| {
            let old = known.iter().find(|plugin| plugin.name == name).map_or(0, |it| it.refused);
            refused.saturating_sub(old) as f64 / past_s.max(1) as f64
        };
        Plugin {
            name: name.to_owned(),
            objects,
            refused,
            refused_rate: before.map(rate),
            mean_us: times[name]["mean"].as_f64(),
            p99_us: times[name]["p99"].as_f64(),
        }
    };
    used.into_iter().map(plugin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_have_the_rate_since_the_frame_before() {
        let catalogue = json!({"rows": [
            {"name": "key-auth", "used_by": 2}, {"name": "cors", "used_by": 0},
        ]});
        let first = plugins(&catalogue, &json!({"plugin_refusals": {"key-auth": 5}}), None, 0);
        assert_eq!((first.len(), first[0].refused_rate), (1, None));
        let overview = json!({
            "plugin_refusals": {"key-auth": 25, "ip-restriction": 1},
            "plugin_times": {"key-auth": {"timed": 3, "mean": 1.5, "p50": 1, "p99": 4}},
        });
        let next = plugins(&catalogue, &overview, Some(&first), 2);
        let rates: Vec<_> =
            next.iter().map(|it| (&*it.name, it.objects, it.refused_rate)).collect();
        assert_eq!(rates, [("ip-restriction", 0, Some(0.5)), ("key-auth", 2, Some(10.0))]);
        let times: Vec<_> = next.iter().map(|it| (it.mean_us, it.p99_us)).collect();
        assert_eq!(times, [(None, None), (Some(1.5), Some(4.0))]);
    }
}
