//! Request rates of routes, upstream objects, consumers and nodes. The counters of all workers are
//! read every few seconds; a request only costs one count.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tollhouse_admin::{LiveQuery, RateContents, RateOrder, RatedKind};
use tollhouse_proxy::{Snapshot, SnapshotCell};
use tollhouse_telemetry::histogram::Totals;
use tollhouse_telemetry::{Counted, Metrics};

use super::object_history::{Interval, ObjectHistory};

/// Interval between readings, over which rates are computed.
const INTERVAL: Duration = Duration::from_secs(5);

/// Readings between two marks, which are a minute apart.
const LOOKS_PER_MARK: u64 = 12;

/// Limit of rows in an answer.
const ROWS_MAX: usize = 200;

/// Limit of rows in an answer with histories, which have about 5 KB each.
const HISTORY_ROWS_MAX: usize = 20;

/// Rates of all kinds of object.
#[derive(Debug, Default)]
pub struct ObjectRates {
    routes: Rates,
    upstreams: Rates,
    consumers: Rates,
    nodes: Rates,
}

/// Rates by object id, for objects that have had requests.
#[derive(Debug, Default)]
struct Rates {
    by_id: Mutex<HashMap<String, Rate>>,
    history: Mutex<ObjectHistory>,
    looks: AtomicU64,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Rate {
    requests: u64,
    failed: u64,
    rate: f64,
    failed_rate: f64,
    last_seen_s: u64,
    /// Requests at the last two marks, the older first.
    marks: [u64; 2],
    /// Requests that plugins refused, by plugin; empty for objects that are not routes.
    refusals: BTreeMap<String, RefusalRate>,
}

/// Requests that a plugin of a route refused.
#[derive(Debug, Clone, Default, PartialEq)]
struct RefusalRate {
    requests: u64,
    rate: f64,
}

/// Counts of an object since the start.
#[derive(Debug)]
struct Counts {
    id: String,
    /// Number of the object in the source of its durations.
    number: u32,
    requests: u64,
    failed: u64,
    /// Requests that plugins refused, by plugin.
    refusals: BTreeMap<String, u64>,
}

/// Time of a reading.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Time since the last reading.
    time: Duration,
    /// Unix time.
    now_s: u64,
}

impl ObjectRates {
    /// Reads the counters every [`INTERVAL`]; never returns.
    pub async fn run(self: Arc<Self>, snapshots: Arc<SnapshotCell>, metrics: Arc<Metrics>) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut before = Instant::now();
        loop {
            interval.tick().await;
            let now = Instant::now();
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let snapshot = snapshots.load();
            let reading = Reading { time: now - before, now_s: since.as_secs() };
            let mut counts = read_counts(&snapshot, &metrics, Counted::Routes);
            let mut refusals = metrics.route_refusals();
            for route in &mut counts {
                route.refusals = refusals.remove(&route.number).unwrap_or_default();
            }
            self.routes.look(counts, reading, |number| Some(metrics.route_durations(number)));
            for (counted, rates) in
                [(Counted::Upstreams, &self.upstreams), (Counted::Consumers, &self.consumers)]
            {
                rates.look(read_counts(&snapshot, &metrics, counted), reading, |_| None);
            }
            self.look_at_nodes(&metrics, reading);
            before = now;
        }
    }

    fn look_at_nodes(&self, metrics: &Metrics, reading: Reading) {
        let nodes = metrics.node_readings();
        let counts = nodes.iter().zip(0..).map(|(node, number)| Counts {
            id: node.address.clone(),
            number,
            requests: node.attempts,
            failed: node.failed,
            refusals: BTreeMap::new(),
        });
        self.nodes.look(counts.collect(), reading, |number| {
            nodes.get(number as usize).map(|node| node.durations.clone())
        });
    }

    /// Returns the first objects that the query asks for.
    pub(super) fn top(&self, query: &LiveQuery<'_>) -> Value {
        let rates = match query.kind {
            RatedKind::Routes => &self.routes,
            RatedKind::Upstreams => &self.upstreams,
            RatedKind::Consumers => &self.consumers,
            RatedKind::Nodes => &self.nodes,
        };
        rates.top(query)
    }

    /// Returns the number of requests that a route had had one to two minutes ago.
    pub(crate) fn requests_before(&self, route: &str) -> u64 {
        let rates = self.routes.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        rates.get(route).map_or(0, |rate| rate.marks[0])
    }
}

/// Returns the numbers of requests and failures of all objects of a kind that have had requests.
/// Other objects are skipped, because on large gateways most are unused.
fn read_counts(snapshot: &Snapshot, metrics: &Metrics, counted: Counted) -> Vec<Counts> {
    let reader = CountReader { metrics, counted };
    match counted {
        Counted::Routes => {
            let routes = snapshot.counted_routes().map(|entry| (entry, entry.number));
            reader.read(routes.collect(), |entry| entry.route.id.to_string())
        }
        Counted::Upstreams => {
            let upstreams = snapshot.upstreams.iter().flatten();
            let upstreams = upstreams.map(|upstream| (upstream, upstream.number));
            reader.read(upstreams.collect(), |upstream| {
                upstream.conf.id.as_ref().map(ToString::to_string).unwrap_or_default()
            })
        }
        Counted::Consumers => {
            let consumers = snapshot.consumers.all().map(|consumer| (consumer, consumer.number));
            reader.read(consumers.collect(), |consumer| consumer.username.to_string())
        }
    }
}

/// Reader of the counters of one kind of object.
struct CountReader<'a> {
    metrics: &'a Metrics,
    counted: Counted,
}

impl CountReader<'_> {
    /// Reads the counters of the objects with these numbers.
    fn read<T>(&self, objects: Vec<(T, u32)>, name: impl Fn(&T) -> String) -> Vec<Counts> {
        let numbers = objects.iter().map(|(_, number)| *number);
        let counts = self.metrics.object_requests(self.counted, numbers);
        let active = objects.iter().zip(counts).filter(|(_, (requests, _))| *requests > 0);
        let named = active.map(|((object, number), (requests, failed))| Counts {
            id: name(object),
            number: *number,
            requests,
            failed,
            refusals: BTreeMap::new(),
        });
        named.collect()
    }
}

impl Rates {
    fn look(
        &self,
        counts: Vec<Counts>,
        reading: Reading,
        durations: impl Fn(u32) -> Option<Totals>,
    ) {
        let Reading { time, now_s } = reading;
        let mut rates = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let is_mark = self.looks.fetch_add(1, Relaxed) % LOOKS_PER_MARK == LOOKS_PER_MARK - 1;
        let mut next = HashMap::new();
        let seconds = time.as_secs_f64().max(0.001);
        for Counts { id, number, requests, failed, refusals } in counts {
            if requests == 0 {
                continue;
            }
            let old = rates.remove(&id).unwrap_or_default();
            let (new, new_failed) =
                (requests.saturating_sub(old.requests), failed.saturating_sub(old.failed));
            let rate = Rate {
                requests,
                failed,
                rate: new as f64 / seconds,
                failed_rate: new_failed as f64 / seconds,
                last_seen_s: if new > 0 { now_s } else { old.last_seen_s },
                marks: if is_mark { [old.marks[1], requests] } else { old.marks },
                refusals: refusal_rates(refusals, &old.refusals, seconds),
            };
            let interval = Interval { at_s: now_s, seconds, requests: new, failed: new_failed };
            history.add(&id, interval, || durations(number));
            next.insert(id, rate);
        }
        history.retain(|id| next.contains_key(id));
        *rates = next;
    }

    fn top(&self, query: &LiveQuery<'_>) -> Value {
        let rates = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: Option<Vec<&str>> = query.ids.map(|ids| ids.split(',').collect());
        let is_wanted = |id: &String| wanted.as_ref().is_none_or(|ids| ids.contains(&id.as_str()));
        let mut rows: Vec<(&String, &Rate)> =
            rates.iter().filter(|(id, _)| is_wanted(id)).collect();
        let figure = |rate: &Rate| match query.order {
            RateOrder::Failures => rate.failed_rate,
            RateOrder::Requests => rate.rate,
        };
        rows.sort_by(|one, other| {
            figure(other.1)
                .total_cmp(&figure(one.1))
                .then_with(|| other.1.requests.cmp(&one.1.requests))
                .then_with(|| one.0.cmp(other.0))
        });
        let total = rows.len();
        let rows_max = match query.contents {
            RateContents::Latest => ROWS_MAX,
            RateContents::History => HISTORY_ROWS_MAX,
        };
        let rows = rows.into_iter().take(rows_max).map(|(id, rate)| {
            let (p50_ms, p99_ms) = history.latest_ms(id);
            let mut row = json!({
                "id": id,
                "rate": rate.rate,
                "failed_rate": rate.failed_rate,
                "requests": rate.requests,
                "failed": rate.failed,
                "last_seen": rate.last_seen_s,
                "p50_ms": p50_ms,
                "p99_ms": p99_ms,
            });
            if !rate.refusals.is_empty() {
                let refusals = rate.refusals.iter().map(|(plugin, own)| {
                    json!({ "plugin": plugin, "requests": own.requests, "rate": own.rate })
                });
                row["refusals"] = refusals.collect();
            }
            if query.contents == RateContents::History {
                row["history"] = history.to_json(id);
            }
            row
        });
        json!({ "total": total, "interval_seconds": INTERVAL.as_secs(), "rows": rows.collect::<Value>() })
    }
}

/// Returns the rates of refusals that were counted over `seconds`, since the counts in `before`.
fn refusal_rates(
    counts: BTreeMap<String, u64>,
    before: &BTreeMap<String, RefusalRate>,
    seconds: f64,
) -> BTreeMap<String, RefusalRate> {
    let rates = counts.into_iter().map(|(plugin, requests)| {
        let known = before.get(&plugin).map_or(0, |old| old.requests);
        let rate = requests.saturating_sub(known) as f64 / seconds;
        (plugin, RefusalRate { requests, rate })
    });
    rates.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: LiveQuery<'static> = LiveQuery {
        kind: RatedKind::Routes,
        order: RateOrder::Requests,
        ids: None,
        contents: RateContents::Latest,
    };

    fn look(rates: &Rates, counts: &[(&str, u64, u64)], now_s: u64) {
        let counts = counts.iter().map(|(id, requests, failed)| Counts {
            id: (*id).to_owned(),
            number: 0,
            requests: *requests,
            failed: *failed,
            refusals: BTreeMap::new(),
        });
        let reading = Reading { time: Duration::from_secs(5), now_s };
        rates.look(counts.collect(), reading, |_| None);
    }

    #[test]
    fn rates_are_what_came_since_the_last_look() {
        let rates = Rates::default();
        look(&rates, &[("a", 10, 0), ("b", 5, 5), ("idle", 0, 0)], 100);
        look(&rates, &[("a", 60, 0), ("b", 5, 5), ("idle", 0, 0)], 105);
        let top = rates.top(&ALL);
        let rows = top["rows"].as_array().expect("rows");
        assert_eq!((rows.len(), &rows[0]["id"], &rows[0]["rate"]), (2, &json!("a"), &json!(10.0)));
        assert_eq!((&rows[1]["rate"], &rows[1]["last_seen"]), (&json!(0.0), &json!(100)));
        assert_eq!(rates.top(&LiveQuery { ids: Some("b,c"), ..ALL })["total"], 1);
        look(&rates, &[("a", 60, 0), ("b", 15, 10)], 110);
        let failing = LiveQuery { order: RateOrder::Failures, ..ALL };
        assert_eq!(rates.top(&failing)["rows"][0]["id"], "b");
    }

    #[test]
    fn a_history_comes_only_where_it_is_asked_for() {
        let rates = Rates::default();
        look(&rates, &[("a", 10, 0)], 100);
        look(&rates, &[("a", 10, 0)], 105);
        assert_eq!(rates.top(&ALL)["rows"][0].get("history"), None);
        let history = rates.top(&LiveQuery { contents: RateContents::History, ..ALL });
        assert_eq!(history["rows"][0]["history"]["rate"], json!([2.0, 0.0]));
    }

    #[test]
    fn refusals_of_a_route_are_told_by_plugin_with_their_rate() {
        let rates = Rates::default();
        let look = |requests, refused| {
            let refusals = BTreeMap::from([("limit-count".to_owned(), refused)]);
            let route =
                Counts { id: "a".to_owned(), number: 0, requests, failed: refused, refusals };
            let reading = Reading { time: Duration::from_secs(5), now_s: 5 };
            rates.look(vec![route], reading, |_| None);
        };
        look(10, 5);
        look(40, 20);
        let expected = json!([{ "plugin": "limit-count", "requests": 20, "rate": 3.0 }]);
        assert_eq!(rates.top(&ALL)["rows"][0]["refusals"], expected);
    }

    #[test]
    fn nodes_are_counted_by_address() {
        let metrics = Metrics::new();
        let core = metrics.for_core();
        let address = std::net::SocketAddr::from(([10, 0, 0, 1], 80)).into();
        core.nodes().counts(address).fail();
        let rates = ObjectRates::default();
        rates.look_at_nodes(&metrics, Reading { time: Duration::from_secs(5), now_s: 5 });
        let top = rates.top(&LiveQuery { kind: RatedKind::Nodes, ..ALL });
        assert_eq!(
            (&top["rows"][0]["id"], &top["rows"][0]["failed"]),
            (&json!("10.0.0.1:80"), &json!(1))
        );
    }
}
