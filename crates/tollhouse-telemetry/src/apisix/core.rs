//! The tables of one core, which map a request to the numbers it increments.

use std::hash::BuildHasher;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::{borrow::Cow, fmt};

use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};

use super::family::{Family, Hidden};
use super::series::{Series, Served, Values, labels_of};
use super::traffic::Traffic;
use super::{EXTRA_LABELS_MAX, FOLDED, LABEL_BYTES_MAX, LABEL_SETS_MAX};

/// Seconds between two attempts to remove expired entries. An attempt walks the whole table.
const SWEEP_INTERVAL_S: u64 = 60;

/// Values of the extra labels of requests counted under `other`.
static FOLDED_EXTRA: [Cow<'static, [u8]>; EXTRA_LABELS_MAX * Family::COUNT] =
    [const { Cow::Borrowed(FOLDED.as_bytes()) }; EXTRA_LABELS_MAX * Family::COUNT];

/// A combination of label values, with its series.
struct Entry {
    key: Box<[u8]>,
    /// Series of the entry in each metric. Several entries may share a series, because labels may
    /// be hidden.
    series: [Arc<Series>; Family::COUNT],
}

/// Label sets and counts of one core.
pub(super) struct CoreSeries {
    owner: Weak<Traffic>,
    fresh: Sender<Arc<Series>>,
    hasher: DefaultHashBuilder,
    entries: HashTable<Entry>,
    by_labels: [HashMap<Arc<str>, Arc<Series>>; Family::COUNT],
    /// Buffer for the key of the current request.
    key: Vec<u8>,
    label_sets_max: usize,
    swept_s: u64,
}

impl fmt::Debug for CoreSeries {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "CoreSeries({} entries)", self.entries.len())
    }
}

impl CoreSeries {
    pub(super) fn new(owner: &Arc<Traffic>, fresh: Sender<Arc<Series>>) -> Self {
        Self {
            owner: Arc::downgrade(owner),
            fresh,
            hasher: DefaultHashBuilder::default(),
            entries: HashTable::new(),
            by_labels: Default::default(),
            key: Vec::new(),
            label_sets_max: LABEL_SETS_MAX,
            swept_s: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn with_label_sets_max(mut self, label_sets_max: usize) -> Self {
        self.label_sets_max = label_sets_max;
        self
    }

    /// Whether the tables belong to `owner`.
    #[inline]
    pub(super) fn is_for(&self, owner: &Traffic) -> bool {
        std::ptr::eq(self.owner.as_ptr(), owner)
    }

    /// Whether the [`Traffic`] that collects these counts still exists.
    pub(super) fn is_wanted(&self) -> bool {
        self.owner.strong_count() > 0
    }

    /// Counts one request under its labels.
    #[inline]
    pub(super) fn count(&mut self, traffic: &Traffic, hidden: &Hidden, served: &Served<'_>) {
        write_key(&mut self.key, hidden, served);
        let hash = self.hasher.hash_one(self.key.as_slice());
        if let Some(entry) = self.entries.find(hash, |entry| *entry.key == *self.key) {
            return entry.count(traffic, served);
        }
        self.count_new(traffic, hidden, served, hash);
    }

    /// Counts a request with label values that are new to this core.
    #[cold]
    fn count_new(&mut self, traffic: &Traffic, hidden: &Hidden, served: &Served<'_>, hash: u64) {
        if self.entries.len() >= self.label_sets_max {
            self.sweep(traffic, served.now_s);
        }
        // The `other` entry is admitted beyond the limit, because otherwise folding would recurse
        // forever.
        let is_folded = served.values.route == FOLDED.as_bytes()
            && served.values.matched_uri == FOLDED.as_bytes();
        if self.entries.len() >= self.label_sets_max && !is_folded {
            traffic.folded.increment();
            let extra = &FOLDED_EXTRA[..served.values.extra.len().min(FOLDED_EXTRA.len())];
            let other = FOLDED.as_bytes();
            let values = Values {
                route: other,
                matched_uri: other,
                matched_host: other,
                service: other,
                consumer: other,
                node: other,
                extra,
            };
            return self.count(traffic, hidden, &Served { values, ..*served });
        }
        let series = Family::ALL.map(|family| self.series(traffic, family, hidden, served));
        let entry = Entry { key: self.key.as_slice().into(), series };
        entry.count(traffic, served);
        let hasher = &self.hasher;
        self.entries.insert_unique(hash, entry, |entry| hasher.hash_one(&*entry.key));
    }

    /// Returns the series of `served` in `family`; a new one is sent to the renderer.
    fn series(
        &mut self,
        traffic: &Traffic,
        family: Family,
        hidden: &Hidden,
        served: &Served<'_>,
    ) -> Arc<Series> {
        let labels = labels_of(family, served, hidden, &traffic.settings);
        let known = &mut self.by_labels[family.index()];
        if let Some(series) = known.get(labels.as_str()) {
            return Arc::clone(series);
        }
        let labels: Arc<str> = labels.into();
        let series = Arc::new(Series::new(family, Arc::clone(&labels), &traffic.settings));
        known.insert(labels, Arc::clone(&series));
        // Fails only if the renderer no longer exists.
        let _ = self.fresh.send(Arc::clone(&series));
        series
    }

    /// Removes entries whose series have all expired.
    fn sweep(&mut self, traffic: &Traffic, now_s: u64) {
        if now_s < self.swept_s.saturating_add(SWEEP_INTERVAL_S) {
            return;
        }
        self.swept_s = now_s;
        let is_expired = |series: &Series| {
            series.is_expired(now_s, traffic.settings.family(series.family).expire_s)
        };
        self.entries.retain(|entry| !entry.series.iter().all(|series| is_expired(series)));
        // An expired series is kept while another entry uses it.
        let kept: HashSet<*const Series> =
            self.entries.iter().flat_map(|entry| entry.series.iter().map(Arc::as_ptr)).collect();
        for known in &mut self.by_labels {
            known.retain(|_, series| {
                let is_kept = !is_expired(series) || kept.contains(&Arc::as_ptr(series));
                if !is_kept {
                    series.retire();
                }
                is_kept
            });
        }
    }
}

impl Entry {
    #[inline]
    fn count(&self, traffic: &Traffic, served: &Served<'_>) {
        let settings = &*traffic.settings;
        let [status, latency, bandwidth] = &self.series;
        for series in &self.series {
            series.touch(served.now_s, settings.family(series.family).expire_s);
        }
        status.add(0, 1);
        let own_ms = served.request_ms.saturating_sub(served.upstream_ms.unwrap_or_default());
        latency.observe(0, served.request_ms, settings);
        if let Some(upstream_ms) = served.upstream_ms {
            latency.observe(1, upstream_ms, settings);
        }
        latency.observe(2, own_ms, settings);
        bandwidth.add(0, served.ingress_bytes);
        bandwidth.add(1, served.egress_bytes);
    }
}

/// Writes the key of a request. Each value is preceded by its length, so that different requests
/// have different keys.
#[inline]
fn write_key(key: &mut Vec<u8>, hidden: &Hidden, served: &Served<'_>) {
    key.clear();
    key.extend_from_slice(&served.code.to_ne_bytes());
    key.push(served.source as u8);
    for family in Family::ALL {
        key.extend_from_slice(&hidden.hidden_in(family).bits().to_ne_bytes());
    }
    let mut push = |value: &[u8]| {
        let value = &value[..value.len().min(LABEL_BYTES_MAX)];
        key.extend_from_slice(&(value.len() as u16).to_ne_bytes());
        key.extend_from_slice(value);
    };
    let everywhere = hidden.everywhere();
    for (label, value) in served.values.each() {
        if !everywhere.has(label) {
            push(value);
        }
    }
    served.values.extra.iter().for_each(|value| push(value));
}
