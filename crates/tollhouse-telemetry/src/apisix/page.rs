//! The metrics page, produced in pieces, so that a large page is never in memory as a whole and
//! locks are held only briefly.

use std::sync::Arc;

use super::family::Family;
use super::process::{ProcessFacts, ProcessLines};
use super::series::{BANDWIDTH_TYPES, LATENCY_TYPES, Series, histogram_cells};
use super::traffic::{Group, Traffic, sum};
use crate::exposition::{Exposition, HistogramSample};

/// Size in bytes at which a piece is returned.
const PIECE_BYTES: usize = 256 * 1024;

/// A page that is being produced.
#[derive(Debug)]
pub struct Page {
    traffic: Arc<Traffic>,
    process: ProcessLines,
    /// Number of label sets of each metric when the page was started.
    ends: [usize; Family::COUNT],
    now_s: u64,
    at: Position,
}

/// Position in the page from which the next piece is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Start of the part with this index.
    Part(usize),
    /// Within a metric family: index of the part, and index of the label set to render next.
    Within(usize, usize),
}

/// A part of the page. Parts are sorted by name, as APISIX's client library does.
#[derive(Debug, Clone, Copy)]
enum Part {
    Family(Family),
    /// Metrics without request labels whose names sort between two metrics with request labels.
    Process(usize),
}

const PARTS: [Part; 6] = [
    Part::Family(Family::Bandwidth),
    Part::Process(0),
    Part::Family(Family::Latency),
    Part::Process(1),
    Part::Family(Family::Status),
    Part::Process(2),
];

impl Page {
    pub(super) fn new(
        traffic: Arc<Traffic>,
        facts: &ProcessFacts<'_>,
        ends: [usize; Family::COUNT],
        now_s: u64,
    ) -> Self {
        let room = ends.into_iter().max().unwrap_or_default();
        let mut process = ProcessLines::new(&traffic.settings().prefix, facts, room);
        process.push_connections(&traffic.settings().prefix, &traffic.connection_counts());
        Self { traffic, process, ends, now_s, at: Position::Part(0) }
    }

    fn start(&mut self, part: usize, page: &mut Exposition) {
        self.at = Position::Part(part + 1);
        match PARTS[part] {
            Part::Process(index) => self.process.write(index, page),
            Part::Family(family) if self.ends[family.index()] > 0 => {
                let prefix = &self.traffic.settings().prefix;
                page.family(&format!("{prefix}{}", family.name()), family.help(), family.kind());
                self.at = Position::Within(part, 0);
            }
            Part::Family(_) => {}
        }
    }

    fn go_on(&mut self, part: usize, start: usize, page: &mut Exposition) {
        let Part::Family(family) = PARTS[part] else { return };
        let end = self.ends[family.index()];
        let mut next = start;
        let stopped = self.traffic.each_group(family, start, |group| {
            next += 1;
            self.write_group(family, group, page);
            next < end && page.len() < PIECE_BYTES
        });
        self.at = match stopped < end {
            true => Position::Within(part, stopped),
            false => Position::Part(part + 1),
        };
    }

    /// Writes the samples of one label set.
    fn write_group(&self, family: Family, group: &Group, page: &mut Exposition) {
        let settings = self.traffic.settings();
        let expire_s = settings.family(family).expire_s;
        let is_shown = |series: &Series| !series.is_expired(self.now_s, expire_s);
        if !group.iter().any(|series| is_shown(series)) {
            return;
        }
        let shown: Group;
        // The group is only copied if some series have expired, which is rare.
        let group = match group.iter().all(|series| is_shown(series)) {
            true => group,
            false => {
                shown = group.iter().filter(|series| is_shown(series)).cloned().collect();
                &shown
            }
        };
        let labels = &*group[0].labels;
        let typed = |kind: &str| format!("type=\"{kind}\",{labels}");
        match family {
            Family::Status => page.sample(labels, sum(group, 0)),
            Family::Bandwidth => {
                for (cell, kind) in BANDWIDTH_TYPES.iter().enumerate() {
                    page.sample(&typed(kind), sum(group, cell));
                }
            }
            Family::Latency => {
                for (place, kind) in LATENCY_TYPES.iter().enumerate() {
                    self.write_histogram(&typed(kind), place, group, page);
                }
            }
        }
    }

    /// Writes one histogram, unless it is empty.
    fn write_histogram(&self, labels: &str, place: usize, group: &Group, page: &mut Exposition) {
        let bounds = self.traffic.settings().buckets_ms();
        let base = place * histogram_cells(self.traffic.settings());
        let last = base + bounds.len();
        let counts: Vec<u64> = (base..=last).map(|cell| sum(group, cell)).collect();
        if counts.iter().all(|count| *count == 0) {
            return;
        }
        let sum = sum(group, last + 1) as f64;
        let sample = HistogramSample { bounds, counts: &counts, sum, native: None, exemplars: &[] };
        page.histogram(labels, &sample);
    }

    /// Writes the next piece; `false` if nothing was left.
    pub fn write(&mut self, page: &mut Exposition) -> bool {
        let is_left = self.at != Position::Part(PARTS.len());
        while page.len() < PIECE_BYTES {
            match self.at {
                Position::Part(part) if part == PARTS.len() => break,
                Position::Part(part) => self.start(part, page),
                Position::Within(part, start) => self.go_on(part, start, page),
            }
        }
        is_left
    }
}
