//! Request rates of routes, upstream objects and consumers. The counters of all workers are read
//! every few seconds; a request only costs one count.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tollhouse_admin::RateOrder;
use tollhouse_proxy::{Snapshot, SnapshotCell};
use tollhouse_telemetry::{Counted, Metrics};

/// Interval between readings, over which rates are computed.
const INTERVAL: Duration = Duration::from_secs(5);

/// Readings between two marks, which are a minute apart.
const LOOKS_PER_MARK: u64 = 12;

/// Limit of rows in an answer.
const ROWS_MAX: usize = 200;

/// Rates of all kinds of object.
#[derive(Debug, Default)]
pub struct ObjectRates {
    routes: Rates,
    upstreams: Rates,
    consumers: Rates,
}

/// Rates by object id, for objects that have had requests.
#[derive(Debug, Default)]
struct Rates {
    by_id: Mutex<HashMap<String, Rate>>,
    looks: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Rate {
    requests: u64,
    failed: u64,
    rate: f64,
    failed_rate: f64,
    last_seen_s: u64,
    /// Requests at the last two marks, the older first.
    marks: [u64; 2],
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
            for counted in [Counted::Routes, Counted::Upstreams, Counted::Consumers] {
                let counts = read_counts(&snapshot, &metrics, counted).into_iter();
                self.rates(counted).look(counts, now - before, since.as_secs());
            }
            before = now;
        }
    }

    /// Returns the first objects in this order. `ids` restricts the answer to comma-separated ids.
    pub(super) fn top(&self, counted: Counted, order: RateOrder, ids: Option<&str>) -> Value {
        self.rates(counted).top(order, ids)
    }

    /// Returns the number of requests that a route had had one to two minutes ago.
    pub(crate) fn requests_before(&self, route: &str) -> u64 {
        let rates = self.routes.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        rates.get(route).map_or(0, |rate| rate.marks[0])
    }

    const fn rates(&self, counted: Counted) -> &Rates {
        match counted {
            Counted::Routes => &self.routes,
            Counted::Upstreams => &self.upstreams,
            Counted::Consumers => &self.consumers,
        }
    }
}

/// Returns the numbers of requests and failures of all objects of a kind that have had requests.
/// Other objects are skipped, because on large gateways most are unused.
fn read_counts(
    snapshot: &Snapshot,
    metrics: &Metrics,
    counted: Counted,
) -> Vec<(String, (u64, u64))> {
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
    fn read<T>(
        &self,
        objects: Vec<(T, u32)>,
        name: impl Fn(&T) -> String,
    ) -> Vec<(String, (u64, u64))> {
        let numbers = objects.iter().map(|(_, number)| *number);
        let counts = self.metrics.object_requests(self.counted, numbers);
        let active = objects.iter().zip(counts).filter(|(_, (requests, _))| *requests > 0);
        active.map(|((object, _), counts)| (name(object), counts)).collect()
    }
}

impl Rates {
    fn look(&self, counts: impl Iterator<Item = (String, (u64, u64))>, time: Duration, now_s: u64) {
        let mut rates = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        let is_mark = self.looks.fetch_add(1, Relaxed) % LOOKS_PER_MARK == LOOKS_PER_MARK - 1;
        let mut next = HashMap::new();
        let seconds = time.as_secs_f64().max(0.001);
        for (id, (requests, failed)) in counts.filter(|(_, (requests, _))| *requests > 0) {
            let old = rates.get(&id).copied().unwrap_or_default();
            let (new, new_failed) =
                (requests.saturating_sub(old.requests), failed.saturating_sub(old.failed));
            let rate = Rate {
                requests,
                failed,
                rate: new as f64 / seconds,
                failed_rate: new_failed as f64 / seconds,
                last_seen_s: if new > 0 { now_s } else { old.last_seen_s },
                marks: if is_mark { [old.marks[1], requests] } else { old.marks },
            };
            next.insert(id, rate);
        }
        *rates = next;
    }

    fn top(&self, order: RateOrder, ids: Option<&str>) -> Value {
        let rates = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: Option<Vec<&str>> = ids.map(|ids| ids.split(',').collect());
        let is_wanted = |id: &String| wanted.as_ref().is_none_or(|ids| ids.contains(&id.as_str()));
        let mut rows: Vec<(&String, &Rate)> =
            rates.iter().filter(|(id, _)| is_wanted(id)).collect();
        let figure = |rate: &Rate| match order {
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
        let rows = rows.into_iter().take(ROWS_MAX).map(|(id, rate)| {
            json!({
                "id": id,
                "rate": rate.rate,
                "failed_rate": rate.failed_rate,
                "requests": rate.requests,
                "failed": rate.failed,
                "last_seen": rate.last_seen_s,
            })
        });
        json!({ "total": total, "interval_seconds": INTERVAL.as_secs(), "rows": rows.collect::<Value>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_came_since_the_last_look() {
        let rates = Rates::default();
        let look = |a: (u64, u64), b: (u64, u64), now_s| {
            let counts = [("a".to_owned(), a), ("b".to_owned(), b), ("idle".to_owned(), (0, 0))];
            rates.look(counts.into_iter(), Duration::from_secs(5), now_s);
        };
        look((10, 0), (5, 5), 100);
        look((60, 0), (5, 5), 105);
        let top = rates.top(RateOrder::Requests, None);
        let rows = top["rows"].as_array().expect("rows");
        assert_eq!((rows.len(), &rows[0]["id"], &rows[0]["rate"]), (2, &json!("a"), &json!(10.0)));
        assert_eq!((&rows[1]["rate"], &rows[1]["last_seen"]), (&json!(0.0), &json!(100)));
        assert_eq!(rates.top(RateOrder::Requests, Some("b,c"))["total"], 1);
        look((60, 0), (15, 10), 110);
        assert_eq!(rates.top(RateOrder::Failures, None)["rows"][0]["id"], "b");
    }
}
