//! Figures of single objects over the last 15 minutes, for the charts of their pages. Memory is
//! bounded: only as many objects as [`OBJECTS_MAX`] have a history, the most recently used ones.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};
use tollhouse_telemetry::histogram::Totals;

/// Points of an object: 15 minutes of readings that are five seconds apart.
const POINTS: usize = 180;

/// Objects of a kind with a history. One takes some 7 KB, most of it points, so that the routes,
/// upstreams, consumers and nodes together take at most 14 MB.
const OBJECTS_MAX: usize = 512;

/// Time without requests after which an object leaves its place to another one, in seconds.
const IDLE_S: u64 = 60;

/// Counts of an object in one interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    /// End of the interval, in seconds of Unix time.
    pub(super) at_s: u64,
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) failed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    at_s: u64,
    rate: f32,
    failed_rate: f32,
    p50_ms: Option<u32>,
    p99_ms: Option<u32>,
}

/// Histories of the objects of a kind, by id.
#[derive(Debug, Default)]
pub(super) struct ObjectHistory {
    courses: HashMap<String, Course>,
}

#[derive(Debug, Default)]
struct Course {
    points: VecDeque<Point>,
    /// Durations since the start, at the last reading.
    durations: Option<Box<Totals>>,
    last_used_s: u64,
}

impl ObjectHistory {
    /// Adds an interval of an object. `durations` reads the durations since the start; it is called
    /// only for objects with a history, and returns `None` for kinds without durations.
    pub(super) fn add(
        &mut self,
        id: &str,
        interval: Interval,
        durations: impl FnOnce() -> Option<Totals>,
    ) {
        if !self.courses.contains_key(id) {
            if interval.requests == 0 || !self.make_room(interval.at_s) {
                return;
            }
            self.courses.insert(id.to_owned(), Course::default());
        }
        let Some(course) = self.courses.get_mut(id) else { return };
        course.add(interval, durations());
    }

    /// Removes objects whose points are all without requests, and those that are not in `ids`.
    pub(super) fn retain(&mut self, is_known: impl Fn(&str) -> bool) {
        self.courses.retain(|id, course| {
            is_known(id) && course.points.iter().any(|point| point.rate > 0.0)
        });
    }

    /// Returns whether there is room for one more, after removing the object that is unused for the
    /// longest time.
    fn make_room(&mut self, now_s: u64) -> bool {
        if self.courses.len() < OBJECTS_MAX {
            return true;
        }
        let oldest = self.courses.iter().min_by_key(|(_, course)| course.last_used_s);
        let Some((id, course)) = oldest else { return true };
        if now_s.saturating_sub(course.last_used_s) < IDLE_S {
            return false;
        }
        let id = id.clone();
        self.courses.remove(&id);
        true
    }

    /// Returns the latest median and 99th percentile of an object, in milliseconds.
    pub(super) fn latest_ms(&self, id: &str) -> (Option<u32>, Option<u32>) {
        let point = self.courses.get(id).and_then(|course| course.points.back());
        point.map_or((None, None), |point| (point.p50_ms, point.p99_ms))
    }

    /// Returns the points of an object as columns, oldest first.
    pub(super) fn to_json(&self, id: &str) -> Value {
        let points = self.courses.get(id).map(|course| &course.points);
        let column = |pick: fn(&Point) -> Value| -> Value {
            points.into_iter().flatten().map(pick).collect()
        };
        json!({
            "at": column(|point| point.at_s.into()),
            "rate": column(|point| rounded(point.rate)),
            "failed_rate": column(|point| rounded(point.failed_rate)),
            "p50_ms": column(|point| point.p50_ms.into()),
            "p99_ms": column(|point| point.p99_ms.into()),
        })
    }
}

/// A rate with three digits after the point, which keeps answers small.
fn rounded(rate: f32) -> Value {
    ((f64::from(rate) * 1000.0).round() / 1000.0).into()
}

impl Course {
    fn add(&mut self, interval: Interval, durations: Option<Totals>) {
        let Interval { at_s, seconds, requests, failed } = interval;
        // The first reading includes everything since the start.
        let new = durations.as_ref().and_then(|now| {
            let before = self.durations.as_deref().filter(|it| it.count() <= now.count())?;
            Some(now.since(before))
        });
        let quantile = |per_mille| {
            let ms = new.as_ref()?.quantile_ms(per_mille)?;
            Some(u32::try_from(ms).unwrap_or(u32::MAX))
        };
        let point = Point {
            at_s,
            rate: (requests as f64 / seconds) as f32,
            failed_rate: (failed as f64 / seconds) as f32,
            p50_ms: quantile(500),
            p99_ms: quantile(990),
        };
        self.durations = durations.map(Box::new);
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
        if requests > 0 {
            self.last_used_s = at_s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_telemetry::histogram::Histogram;

    fn interval(at_s: u64, requests: u64) -> Interval {
        Interval { at_s, seconds: 5.0, requests, failed: 0 }
    }

    #[test]
    fn percentiles_are_those_of_the_interval() {
        let histogram = Histogram::default();
        let read = || {
            let mut totals = Totals::default();
            histogram.add_to(&mut totals);
            Some(totals)
        };
        let mut history = ObjectHistory::default();
        histogram.observe_ms(900);
        history.add("a", interval(5, 1), read);
        (0..10).for_each(|_| histogram.observe_ms(3));
        history.add("a", interval(10, 10), read);
        assert_eq!(history.latest_ms("a"), (Some(3), Some(3)));
        history.add("a", interval(15, 0), read);
        let columns = history.to_json("a");
        assert_eq!(columns["at"], json!([5, 10, 15]));
        assert_eq!(columns["rate"], json!([0.2, 2.0, 0.0]));
        assert_eq!(columns["p99_ms"], json!([null, 3, null]));
    }

    #[test]
    fn objects_and_points_are_bounded() {
        let mut history = ObjectHistory::default();
        for number in 0..OBJECTS_MAX + 5 {
            history.add(&format!("o{number}"), interval(5, 1), || None);
        }
        assert_eq!(history.courses.len(), OBJECTS_MAX);
        history.add("late", interval(5 + IDLE_S, 1), || None);
        assert_eq!(history.courses.len(), OBJECTS_MAX);
        assert!(history.courses.contains_key("late"));
        for at_s in 0..2 * POINTS as u64 {
            history.add("late", interval(100 + at_s * 5, 1), || None);
        }
        assert_eq!(history.courses["late"].points.len(), POINTS);
        assert!(OBJECTS_MAX * POINTS * size_of::<Point>() < 4 * 1024 * 1024);
    }

    #[test]
    fn an_object_without_requests_or_that_is_gone_has_no_history() {
        let mut history = ObjectHistory::default();
        history.add("idle", interval(5, 0), || None);
        history.add("used", interval(5, 1), || None);
        history.add("gone", interval(5, 1), || None);
        history.retain(|id| id != "gone");
        assert_eq!(history.courses.keys().collect::<Vec<_>>(), ["used"]);
    }
}
