//! Traffic of the last seconds as text, for `status` and `top`.

use std::collections::BTreeMap;

use serde_json::Value;

/// Samples of single seconds, oldest first.
pub(super) struct Traffic<'a> {
    seconds: Vec<&'a Value>,
}

impl<'a> Traffic<'a> {
    pub(super) fn new(seconds: impl Iterator<Item = &'a Value>) -> Self {
        Self { seconds: seconds.collect() }
    }

    fn per_second(&self, count: u64) -> f64 {
        let length_ms: u64 = self.seconds.iter().filter_map(|it| it["length_ms"].as_u64()).sum();
        count as f64 * 1000.0 / length_ms.max(1) as f64
    }

    /// Requests a second, in all and by class of status.
    pub(super) fn rates(&self) -> String {
        let requests = self.seconds.iter().filter_map(|it| it["requests"].as_u64()).sum();
        let mut text = format!("{:.1}/s", self.per_second(requests));
        for (class, count) in self.summed("classes") {
            text.push_str(&format!("  {class} {:.1}", self.per_second(count)));
        }
        text
    }

    /// Latencies of the last second that has some, because a second without requests has none.
    pub(super) fn latency(&self) -> String {
        let last = self.seconds.iter().rev().find(|it| !it["p50_ms"].is_null());
        let latency = |name: &str| {
            let ms = last.and_then(|it| it[name].as_u64());
            match ms {
                None => "-".to_owned(),
                // Counters have whole milliseconds.
                Some(0) => "< 1 ms".to_owned(),
                Some(ms) => format!("{ms} ms"),
            }
        };
        format!("p50 {}  p90 {}  p99 {}", latency("p50_ms"), latency("p90_ms"), latency("p99_ms"))
    }

    pub(super) fn connections(&self) -> u64 {
        self.seconds.last().and_then(|it| it["connections"].as_u64()).unwrap_or(0)
    }

    /// Failures a second by error code.
    pub(super) fn failures(&self) -> Vec<(String, f64)> {
        let sums = self.summed("failures").into_iter();
        sums.map(|(code, count)| (code, self.per_second(count))).collect()
    }

    /// Sums the counts in the field `name` over all seconds, by their key, such as an error code.
    fn summed(&self, name: &str) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (key, count) in self.seconds.iter().filter_map(|it| it[name].as_object()).flatten() {
            *sums.entry(key.clone()).or_default() += count.as_u64().unwrap_or(0);
        }
        sums
    }
}

/// Formats the numbers of nodes, such as `1 of 2 serve, 1 failing`.
pub(super) fn nodes(nodes: &Value) -> String {
    let mut text = format!("{} of {} serve", nodes["healthy"], nodes["total"]);
    for state in ["failing", "unhealthy", "unresolved"] {
        if let Some(count @ 1..) = nodes[state].as_u64() {
            text.push_str(&format!(", {count} {state}"));
        }
    }
    text
}
