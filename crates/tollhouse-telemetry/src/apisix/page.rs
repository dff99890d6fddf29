//! The metrics page in text format 0.0.4, produced in pieces, so that a large page is never in
//! memory as a whole and locks are held only briefly.

use std::sync::Arc;

use super::family::Family;
use super::process::{ProcessFacts, ProcessLines};
use super::series::{BANDWIDTH_TYPES, LATENCY_TYPES, Series, histogram_cells};
use super::traffic::{Group, Traffic, sum};
use crate::access_log::number::push_number;

/// Size in bytes at which a piece is returned.
const PIECE_BYTES: usize = 256 * 1024;

/// A page that is being produced.
#[derive(Debug)]
pub struct Page {
    traffic: Arc<Traffic>,
    process: ProcessLines,
    /// Upper bounds of the buckets, as values of the label `le`.
    bounds: Vec<String>,
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
        let bounds = traffic.settings().buckets_ms().iter().map(f64::to_string);
        let bounds = bounds.chain(["+Inf".to_owned()]).collect();
        let room = ends.into_iter().max().unwrap_or_default();
        let mut process = ProcessLines::new(&traffic.settings().prefix, facts, room);
        process.push_connections(&traffic.settings().prefix, &traffic.connection_counts());
        Self { traffic, process, bounds, ends, now_s, at: Position::Part(0) }
    }

    fn start(&mut self, part: usize, text: &mut Vec<u8>) {
        self.at = Position::Part(part + 1);
        match PARTS[part] {
            Part::Process(index) => text.extend_from_slice(self.process.part(index).as_bytes()),
            Part::Family(family) if self.ends[family.index()] > 0 => {
                let prefix = &self.traffic.settings().prefix;
                let name = format!("{prefix}{}", family.name());
                let heading =
                    format!("# HELP {name} {}\n# TYPE {name} {}\n", family.help(), family.kind());
                text.extend_from_slice(heading.as_bytes());
                self.at = Position::Within(part, 0);
            }
            Part::Family(_) => {}
        }
    }

    fn go_on(&mut self, part: usize, start: usize, text: &mut Vec<u8>) {
        let Part::Family(family) = PARTS[part] else { return };
        let end = self.ends[family.index()];
        let mut next = start;
        let stopped = self.traffic.each_group(family, start, |group| {
            next += 1;
            self.write(family, group, text);
            next < end && text.len() < PIECE_BYTES
        });
        self.at = match stopped < end {
            true => Position::Within(part, stopped),
            false => Position::Part(part + 1),
        };
    }

    /// Writes the lines of one label set.
    fn write(&self, family: Family, group: &Group, text: &mut Vec<u8>) {
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
        let labels = group[0].labels.as_bytes();
        let name = [settings.prefix.as_bytes(), family.name().as_bytes()].concat();
        match family {
            Family::Status => {
                push_all(text, &[&name, b"{", labels, b"} "]);
                push_line_end(text, sum(group, 0));
            }
            Family::Bandwidth => {
                for (cell, kind) in BANDWIDTH_TYPES.iter().enumerate() {
                    let kind = kind.as_bytes();
                    push_all(text, &[&name, b"{type=\"", kind, b"\",", labels, b"} "]);
                    push_line_end(text, sum(group, cell));
                }
            }
            Family::Latency => {
                for (place, kind) in LATENCY_TYPES.iter().enumerate() {
                    self.write_histogram(&name, kind, place, group, text);
                }
            }
        }
    }

    /// Writes one histogram, unless it is empty.
    fn write_histogram(
        &self,
        name: &[u8],
        kind: &str,
        place: usize,
        group: &Group,
        text: &mut Vec<u8>,
    ) {
        let labels = group[0].labels.as_bytes();
        let base = place * histogram_cells(self.traffic.settings());
        let buckets = self.bounds.len();
        if (0..buckets).all(|bucket| sum(group, base + bucket) == 0) {
            return;
        }
        let start = text.len();
        push_all(text, &[name, b"_bucket{type=\"", kind.as_bytes(), b"\",", labels, b",le=\""]);
        let head = text[start..].to_vec();
        text.truncate(start);
        let mut cumulative = 0;
        for (bucket, bound) in self.bounds.iter().enumerate() {
            cumulative += sum(group, base + bucket);
            push_all(text, &[&head, bound.as_bytes(), b"\"} "]);
            push_line_end(text, cumulative);
        }
        let totals: [(&[u8], u64); 2] =
            [(b"_count", cumulative), (b"_sum", sum(group, base + buckets))];
        for (suffix, total) in totals {
            let kind = kind.as_bytes();
            push_all(text, &[name, suffix, b"{type=\"", kind, b"\",", labels, b"} "]);
            push_line_end(text, total);
        }
    }
}

impl Iterator for Page {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.at == Position::Part(PARTS.len()) {
            return None;
        }
        let mut text = Vec::new();
        while text.len() < PIECE_BYTES {
            match self.at {
                Position::Part(part) if part == PARTS.len() => break,
                Position::Part(part) => self.start(part, &mut text),
                Position::Within(part, start) => self.go_on(part, start, &mut text),
            }
        }
        Some(text)
    }
}

fn push_all(text: &mut Vec<u8>, pieces: &[&[u8]]) {
    pieces.iter().for_each(|piece| text.extend_from_slice(piece));
}

fn push_line_end(text: &mut Vec<u8>, value: u64) {
    push_number(value, text);
    text.push(b'\n');
}
