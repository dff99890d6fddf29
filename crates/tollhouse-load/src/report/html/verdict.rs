//! Verdict at the top of the page: which subject is faster, in how many cases and by how much,
//! beside what was published, and whether that may be quoted. A sentence compares two subjects over
//! the cases that both ran under equal load. Nothing is averaged over cases; invalid results are
//! left out and counted.

use super::comparison::{OURS, baseline_of, gateways};
use super::figure;
use super::markup::Html;
use super::row::{BASELINE, RUNS_TO_RANK_MIN, Row, Spread, percentile_of, rows, subjects};
use super::tally::{Pair, Tally, range_percent};
use super::{plugin_cost, published};
use crate::report::{Report, Severity, Warning};

/// Maximum number of comparisons in sentences; the table holds all.
const SENTENCES_MAX: usize = 4;

/// Writes the verdict's sentences.
pub(super) fn write(html: &mut Html, report: &Report, rows: &[Row<'_>]) {
    if rows.is_empty() {
        html.element("p", &[], "Nothing was measured.");
        return;
    }
    html.raw("\n").open("section", &[("class", "verdict"), ("aria-label", "Verdict")]);
    let mut quoting = String::new();
    for (at, sentence) in sentences(report, rows).iter().enumerate() {
        let class = if at == 0 { "first" } else { "further" };
        html.open("p", &[("class", class)]).text(&unbroken(&sentence.text));
        // The same reservation is not repeated after every sentence.
        if quoting != sentence.quoting() {
            quoting = sentence.quoting();
            let class = if sentence.may_be_quoted.is_ok() { "quote good" } else { "quote bad" };
            html.raw(" ").element("span", &[("class", class)], &quoting);
        }
        html.close("p");
    }
    html.close("section");
}

/// Keeps numbers and their percent signs on one line.
fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

/// Returns the sentences for other report formats; none if there is only one subject.
pub(in crate::report) fn verdict(report: &Report) -> Vec<Sentence> {
    let rows = rows(&report.results);
    let is_alone = subjects(&rows).len() < 2 && report.published.is_empty();
    if rows.is_empty() || is_alone { Vec::new() } else { sentences(report, &rows) }
}

/// Sentence that compares two subjects.
pub(in crate::report) struct Sentence {
    pub(in crate::report) text: String,
    /// Permission to quote the sentence; the error is the reservation.
    pub(in crate::report) may_be_quoted: Result<(), String>,
}

impl Sentence {
    /// Returns the text on whether the sentence may be quoted.
    pub(in crate::report) fn quoting(&self) -> String {
        self.may_be_quoted.as_ref().map_or_else(Clone::clone, |()| "May be quoted.".to_owned())
    }
}

/// Returns the sentences, the most important first: the comparison that the suite is about, then
/// those with peers, then what was published.
fn sentences(report: &Report, rows: &[Row<'_>]) -> Vec<Sentence> {
    let doubts = &report.warnings;
    let theirs = super::row::rows(&report.published);
    let (ours, peers) = gateways(rows);
    let against = |peer: &&str| compared(rows, doubts, ours?, peer);
    let peers: Vec<Sentence> = peers.iter().filter_map(against).take(SENTENCES_MAX).collect();
    let mut told: Vec<Sentence> = match report.suite.as_deref() {
        Some("api7") => plugin_cost::sentence(rows, &theirs, doubts).into_iter().collect(),
        _ => Vec::new(),
    };
    let is_compared = !told.is_empty() || !peers.is_empty();
    told.extend(peers);
    let beside = published::sentences(report, rows, &theirs);
    if !is_compared && beside.is_empty() {
        return fallback(rows, doubts, ours).into_iter().collect();
    }
    told.extend(beside);
    told
}

/// Returns what can be said without peers and published figures.
fn fallback(rows: &[Row<'_>], doubts: &[Warning], ours: Option<&str>) -> Option<Sentence> {
    let subject = ours.or_else(|| subjects(rows).first().copied());
    let own = rows.iter().filter(|row| Some(row.subject) == subject && row.subject != BASELINE);
    let own: Vec<&Row<'_>> = own.collect();
    beside_direct(rows, &own, doubts).or_else(|| alone(rows, doubts))
}

/// Whether a rule calls the row's figures invalid.
pub(super) fn is_invalid(row: &Row<'_>, doubts: &[Warning]) -> bool {
    let about = row.title();
    doubts.iter().any(|doubt| doubt.severity == Severity::Invalid && doubt.about == about)
}

/// Compares our cases with those of a peer; cases that the peer lacks are left out.
fn compared(rows: &[Row<'_>], doubts: &[Warning], ours: &str, peer: &str) -> Option<Sentence> {
    let same = |row: &Row<'_>| {
        rows.iter().find(|other| {
            let is_alike = other.first().open_loop == row.first().open_loop;
            other.subject == peer && other.name == row.name && is_alike
        })
    };
    let pairs = rows.iter().filter(|row| row.subject == ours);
    let pairs: Vec<_> = pairs.filter_map(|row| Some((row, same(row)?))).collect();
    let (valid, invalid): (Vec<_>, Vec<_>) = pairs
        .into_iter()
        .partition(|(own, other)| !is_invalid(own, doubts) && !is_invalid(other, doubts));
    // In an open loop the rate is given, so that only the tail is compared.
    let is_open = valid.first().is_some_and(|(own, _)| own.first().open_loop);
    let of = |figure: fn(&Row<'_>) -> Option<Spread>| -> Vec<Pair> {
        let alike = valid.iter().filter(|(own, _)| own.first().open_loop == is_open);
        alike
            .filter_map(|(own, other)| Some(Pair { ours: figure(own)?, theirs: figure(other)? }))
            .collect()
    };
    let (rates, tails) = (of(|row| row.throughput()), of(p99));
    let (name, peer) = (called(ours), called(peer));
    let known = if is_open { &tails } else { &rates };
    if known.is_empty() {
        return (!invalid.is_empty()).then(|| Sentence {
            text: format!("{name} beside {peer}: every case of both is invalid."),
            may_be_quoted: Err("Don’t quote: each comparison rests on an invalid figure.".into()),
        });
    }
    let (rate, tail) = (Tally::from_rates(&rates), Tally::from_times(&tails));
    let text = if is_open {
        format!("At the same rates, {name}’s p99 is {} {peer}’s {}.", tail.than(), tail.cases())
    } else {
        let tail = match tail.total {
            0 => String::new(),
            total => format!("; p99 lower in {} of {total}", tail.ahead),
        };
        format!("{name} is {} {peer} {}{tail}.", rate.than(), rate.cases())
    };
    Some(Sentence { text, may_be_quoted: quotable(known, invalid.len()) })
}

pub(super) fn p99(row: &Row<'_>) -> Option<Spread> {
    row.spread(|run| percentile_of(run.headline(), 99.0).known())
}

/// Returns the name of a subject in a sentence.
pub(super) fn called(subject: &str) -> &str {
    if subject == OURS { "Tollhouse" } else { subject }
}

/// Returns whether comparisons may be quoted; the error names the reservation.
pub(super) fn quotable(pairs: &[Pair], invalid: usize) -> Result<(), String> {
    let runs = pairs.iter().map(|pair| pair.ours.runs.min(pair.theirs.runs)).min().unwrap_or(0);
    repeated(runs)?;
    match invalid {
        0 => Ok(()),
        1 => Err("One further case is invalid and left out.".to_owned()),
        cases => Err(format!("{cases} further cases are invalid and left out.")),
    }
}

/// Returns the reservation against figures of so few runs.
pub(super) fn repeated(runs: usize) -> Result<(), String> {
    match runs {
        0 | 1 => Err("A single run shows no variance: treat as indicative.".to_owned()),
        runs if runs < RUNS_TO_RANK_MIN => {
            Err(format!("{runs} runs show too little variance: treat as indicative."))
        }
        _ => Ok(()),
    }
}

/// Returns the share of the upstream's direct throughput, if no peer was measured.
fn beside_direct(rows: &[Row<'_>], own: &[&Row<'_>], doubts: &[Warning]) -> Option<Sentence> {
    let pairs = own.iter().filter_map(|row| Some((*row, baseline_of(rows, row)?)));
    let (valid, invalid): (Vec<_>, Vec<_>) =
        pairs.partition(|(row, direct)| !is_invalid(row, doubts) && !is_invalid(direct, doubts));
    // Open loops are left out, because their rate is given and says nothing about capacity.
    let known = valid.iter().filter(|(row, _)| !row.first().open_loop);
    let known: Vec<Pair> = known
        .filter_map(|(row, direct)| {
            Some(Pair { ours: row.throughput()?, theirs: direct.throughput()? })
        })
        .collect();
    let first = own.first()?;
    if known.is_empty() {
        return None;
    }
    let share = range_percent(known.iter().map(|pair| pair.ours.median / pair.theirs.median));
    let cases = if known.len() == 1 { "case" } else { "cases" };
    Some(Sentence {
        text: format!(
            "{} reaches {share} of the upstream’s direct throughput in {} {cases}. No other gateway was \
             measured beside it.",
            called(first.subject),
            known.len()
        ),
        may_be_quoted: quotable(&known, invalid.len()),
    })
}

/// Returns a sentence for a single subject without comparison; `None` without a throughput.
fn alone(rows: &[Row<'_>], doubts: &[Warning]) -> Option<Sentence> {
    let row = rows.iter().find(|row| !is_invalid(row, doubts)).or_else(|| rows.first())?;
    let rate = row.throughput()?;
    let asked = row.first().intended_rate.map_or_else(String::new, |asked| {
        format!(", where {} were asked for", figure::number(asked))
    });
    let tail = match percentile_of(&row.times, 99.0).known() {
        Some(p99) => format!(", p99 {}", figure::time(p99)),
        None => String::new(),
    };
    let whole = match rows.len() {
        1 => String::new(),
        cases => format!(" It is the first of {cases} cases; the table has them all."),
    };
    let reservation = match is_invalid(row, doubts) {
        true => Err("Don’t quote: a rule calls the case invalid.".to_owned()),
        false => repeated(rate.runs),
    };
    Some(Sentence {
        text: format!(
            "{}: {} successful requests/s{asked}{tail}. Nothing was measured beside it.{whole}",
            row.title(),
            figure::number(rate.median)
        ),
        may_be_quoted: reservation,
    })
}
