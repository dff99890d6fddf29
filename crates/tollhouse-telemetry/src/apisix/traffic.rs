//! Registry of the label sets of all cores, from which a page is rendered.
//!
//! The locks here are taken by threads that render pages, never by a core while serving.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;

use super::core::CoreSeries;
use super::family::{Family, Hidden};
use super::page::Page;
use super::process::ProcessFacts;
use super::series::{Series, Served};
use super::settings::Settings;
use crate::counters::SharedCounter;
use crate::exposition::{Exposition, Format};

/// Request counts of all cores, for the page with APISIX's metric names.
#[derive(Debug)]
pub struct Traffic {
    pub(super) settings: Arc<Settings>,
    /// Number of requests counted under `other`.
    pub(super) folded: SharedCounter,
    fresh: Sender<Arc<Series>>,
    collected: Mutex<SeriesCollector>,
    /// Connection counters by stream route; users hold a clone of the counter.
    connections: Mutex<BTreeMap<Box<str>, Arc<SharedCounter>>>,
}

/// Label sets received from the cores.
#[derive(Debug)]
struct SeriesCollector {
    /// New label sets. Bounded by the limit per core, because each label set of a core is sent
    /// once.
    fresh: Receiver<Arc<Series>>,
    groups: [Groups; Family::COUNT],
}

/// All label sets of one metric.
#[derive(Debug, Default)]
pub(super) struct Groups {
    list: Vec<Group>,
    index: HashMap<Arc<str>, usize>,
}

/// A label set: its series on each core.
pub(super) type Group = Vec<Arc<Series>>;

thread_local! {
    /// Tables of this core: one entry per `Traffic`, of which a gateway has one and a test process
    /// several.
    static CORES: RefCell<Vec<CoreSeries>> = const { RefCell::new(Vec::new()) };
}

impl Traffic {
    pub fn new(settings: Settings) -> Self {
        let (fresh, receiver) = channel();
        let collected = SeriesCollector { fresh: receiver, groups: Default::default() };
        Self {
            settings: Arc::new(settings),
            folded: SharedCounter::default(),
            fresh,
            collected: Mutex::new(collected),
            connections: Mutex::default(),
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Counts a request in the tables of the calling core.
    #[inline]
    pub fn count(self: &Arc<Self>, hidden: &Hidden, served: &Served<'_>) {
        CORES.with_borrow_mut(|cores| {
            if let Some(core) = cores.iter_mut().find(|core| core.is_for(self)) {
                return core.count(self, hidden, served);
            }
            cores.retain(CoreSeries::is_wanted);
            let mut core = self.core();
            core.count(self, hidden, served);
            cores.push(core);
        });
    }

    pub(super) fn core(self: &Arc<Self>) -> CoreSeries {
        CoreSeries::new(self, self.fresh.clone())
    }

    /// Returns the connection counter of a stream route.
    pub fn connections(&self, route: &str) -> Arc<SharedCounter> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(connections.entry(route.into()).or_default())
    }

    /// Returns the number of connections of each stream route.
    pub(super) fn connection_counts(&self) -> Vec<(Box<str>, u64)> {
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.iter().map(|(route, count)| (route.clone(), count.value())).collect()
    }

    /// Returns the number of requests counted under `other`.
    pub fn folded(&self) -> u64 {
        self.folded.value()
    }

    /// Starts a page, which is written in pieces, sorted by metric name.
    pub fn page(self: &Arc<Self>, facts: &ProcessFacts<'_>, now_s: u64) -> Page {
        let ends = self.collect();
        Page::new(Arc::clone(self), facts, ends, now_s)
    }

    /// Renders the whole page at once as text.
    pub fn render(self: &Arc<Self>, facts: &ProcessFacts<'_>, now_s: u64) -> String {
        let mut page = Exposition::new(Format::Text);
        let mut text = Vec::new();
        let mut pieces = self.page(facts, now_s);
        while pieces.write(&mut page) {
            text.extend(page.take());
        }
        String::from_utf8(text).unwrap_or_default()
    }

    /// Receives new label sets, removes retired ones, and returns the number of label sets of each
    /// metric.
    fn collect(&self) -> [usize; Family::COUNT] {
        let mut collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        let collected = &mut *collected;
        collected.groups.iter_mut().for_each(Groups::tidy);
        for series in collected.fresh.try_iter() {
            collected.groups[series.family.index()].add(series);
        }
        [0, 1, 2].map(|index: usize| collected.groups[index].list.len())
    }

    /// Calls `visit` with the label sets of `family` from `start` on, until it returns `false`.
    /// Returns the index after the last one visited.
    pub(super) fn each_group(
        &self,
        family: Family,
        start: usize,
        mut visit: impl FnMut(&Group) -> bool,
    ) -> usize {
        let collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        let list = &collected.groups[family.index()].list;
        for (index, group) in list.iter().enumerate().skip(start) {
            if !visit(group) {
                return index + 1;
            }
        }
        list.len()
    }
}

impl Groups {
    fn add(&mut self, series: Arc<Series>) {
        match self.index.get(&series.labels) {
            Some(index) => self.list[*index].push(series),
            None => {
                self.index.insert(Arc::clone(&series.labels), self.list.len());
                self.list.push(vec![series]);
            }
        }
    }

    /// Removes retired series; the order of the rest is kept.
    fn tidy(&mut self) {
        if !self.list.iter().flatten().any(|series| series.is_retired()) {
            return;
        }
        self.list.iter_mut().for_each(|group| group.retain(|series| !series.is_retired()));
        self.list.retain(|group| !group.is_empty());
        let places = self.list.iter().enumerate();
        self.index = places.map(|(at, group)| (Arc::clone(&group[0].labels), at)).collect();
    }
}

/// Sums one cell over all cores.
pub(super) fn sum(group: &[Arc<Series>], cell: usize) -> u64 {
    group.iter().fold(0, |sum: u64, series| sum.wrapping_add(series.cells()[cell].load(Relaxed)))
}

#[cfg(test)]
mod tests;
