//! Verdict at the top of the page: which subject has more throughput, by how much, and whether that
//! may be quoted. A sentence compares two subjects over the cases that both ran under equal load.
//! Nothing is averaged over cases; invalid results are left out and counted.

use super::comparison::{Better, Verdict, baseline_of, gateways, verdict_of};
use super::figure;
use super::markup::Html;
use super::row::{BASELINE, RUNS_TO_RANK_MIN, Row, Spread, percentile_of, rows, subjects};
use crate::report::{Report, Severity, Warning};

/// Maximum number of comparisons in sentences; the table holds all.
const SENTENCES_MAX: usize = 4;

/// Writes the verdict's sentences.
pub(super) fn write(html: &mut Html, rows: &[Row<'_>], doubts: &[Warning]) {
    if rows.is_empty() {
        html.element("p", &[], "Nothing was measured.");
        return;
    }
    let sentences = sentences(rows, doubts);
    html.raw("\n").open("section", &[("class", "verdict"), ("aria-label", "Verdict")]);
    for (at, sentence) in sentences.iter().enumerate() {
        let class = if at == 0 { "first" } else { "further" };
        html.open("p", &[("class", class)]).text(&sentence.text).raw(" ");
        let class = if sentence.may_be_quoted.is_ok() { "quote good" } else { "quote bad" };
        html.element("span", &[("class", class)], &sentence.quoting()).close("p");
    }
    html.close("section");
}

/// Returns the sentences for other report formats; none if there is only one subject.
pub(in crate::report) fn verdict(report: &Report) -> Vec<Sentence> {
    let rows = rows(&report.results);
    if subjects(&rows).len() < 2 { Vec::new() } else { sentences(&rows, &report.warnings) }
}

/// Sentence that compares two subjects.
pub(in crate::report) struct Sentence {
    pub(in crate::report) text: String,
    /// Permission to quote the sentence; the error is the reason against it.
    pub(in crate::report) may_be_quoted: Result<(), String>,
}

impl Sentence {
    /// Returns the text on whether the sentence may be quoted.
    pub(in crate::report) fn quoting(&self) -> String {
        match &self.may_be_quoted {
            Ok(()) => "May be quoted.".to_owned(),
            Err(reason) => format!("Not to be quoted: {reason}."),
        }
    }
}

fn sentences(rows: &[Row<'_>], doubts: &[Warning]) -> Vec<Sentence> {
    let (ours, peers) = gateways(rows);
    let against = |peer: &&str| compared(rows, doubts, ours?, peer);
    let told: Vec<Sentence> = peers.iter().filter_map(against).take(SENTENCES_MAX).collect();
    if !told.is_empty() {
        return told;
    }
    let subject = ours.or_else(|| subjects(rows).first().copied());
    let own = rows.iter().filter(|row| Some(row.subject) == subject && row.subject != BASELINE);
    let own: Vec<&Row<'_>> = own.collect();
    beside_direct(rows, &own, doubts).or_else(|| alone(rows, doubts)).into_iter().collect()
}

/// Whether a rule calls the row's figures invalid.
pub(super) fn is_invalid(row: &Row<'_>, doubts: &[Warning]) -> bool {
    let about = row.title();
    doubts.iter().any(|doubt| doubt.severity == Severity::Invalid && doubt.about == about)
}

/// Compares Tollhouse's cases with those of a peer; cases that the peer lacks are left out.
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
    // In an open loop the rate is given, so that the tail is compared instead.
    let is_open = valid.first().is_some_and(|(own, _)| own.first().open_loop);
    let figure = |row: &Row<'_>| match is_open {
        true => row.spread(|run| percentile_of(run.headline(), 99.0).known()),
        false => row.throughput(),
    };
    let better = if is_open { Better::Lower } else { Better::Higher };
    let known = valid.iter().filter(|(own, _)| own.first().open_loop == is_open);
    let known: Vec<(Spread, Spread)> =
        known.filter_map(|(own, other)| Some((figure(own)?, figure(other)?))).collect();
    if known.is_empty() {
        return (!invalid.is_empty()).then(|| Sentence {
            text: format!("{ours} beside {peer}: no case of both is valid."),
            may_be_quoted: Err("every comparison rests on an invalid figure".to_owned()),
        });
    }
    let ratios = known.iter().map(|(own, other)| own.median / other.median);
    let what =
        if is_open { "99 % of the requests took" } else { "successful requests a second were" };
    let text = format!(
        "{ours} beside {peer}: {what} {} times {}{}.",
        range(ratios.collect(), figure::number),
        over_cases(known.len(), if is_open { "as long" } else { "as many" }),
        standing(&known, better),
    );
    Some(Sentence { text, may_be_quoted: quotable(&known, invalid.len()) })
}

/// Formats the range of the values; a single value if both ends look alike.
fn range(mut values: Vec<f64>, print: impl Fn(f64) -> String) -> String {
    values.sort_by(f64::total_cmp);
    let ends = values.first().zip(values.last()).map(|(low, high)| (print(*low), print(*high)));
    match ends {
        None => String::new(),
        Some((low, high)) if low == high => low,
        Some((low, high)) => format!("{low} to {high}"),
    }
}

fn over_cases(cases: usize, compared: &str) -> String {
    match cases {
        1 => format!("{compared} in the one case of both"),
        _ => format!("{compared} over {cases} cases"),
    }
}

/// Formats the number of cases won, lost and undecided; empty if there are too few runs.
fn standing(known: &[(Spread, Spread)], better: Better) -> String {
    let count = |wanted: Verdict| {
        known.iter().filter(|(own, other)| verdict_of(own, other, better) == wanted).count()
    };
    let (won, lost, equal) = (count(Verdict::Better), count(Verdict::Worse), count(Verdict::Equal));
    let parts = [(won, "ahead in"), (lost, "behind in"), (equal, "within chance in")];
    let parts = parts.into_iter().filter(|(cases, _)| *cases > 0);
    let parts: Vec<String> = parts.map(|(cases, word)| format!("{word} {cases}")).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn quotable(known: &[(Spread, Spread)], invalid: usize) -> Result<(), String> {
    let runs = known.iter().map(|(own, other)| own.runs.min(other.runs)).min().unwrap_or(0);
    if runs < RUNS_TO_RANK_MIN {
        let text = match runs {
            0 | 1 => "one run says nothing of chance".to_owned(),
            runs => format!("{runs} runs do not tell a difference from chance"),
        };
        return Err(text);
    }
    match invalid {
        0 => Ok(()),
        1 => Err("one further case is invalid and left out".to_owned()),
        cases => Err(format!("{cases} further cases are invalid and left out")),
    }
}

/// Returns the share of the upstream's direct throughput, if no peer was measured.
fn beside_direct(rows: &[Row<'_>], own: &[&Row<'_>], doubts: &[Warning]) -> Option<Sentence> {
    let pairs = own.iter().filter_map(|row| Some((*row, baseline_of(rows, row)?)));
    let (valid, invalid): (Vec<_>, Vec<_>) =
        pairs.partition(|(row, direct)| !is_invalid(row, doubts) && !is_invalid(direct, doubts));
    // Open loops are left out, because their rate is given and says nothing about capacity.
    let known = valid.iter().filter(|(row, _)| !row.first().open_loop);
    let known: Vec<(Spread, Spread)> =
        known.filter_map(|(row, direct)| Some((row.throughput()?, direct.throughput()?))).collect();
    let first = own.first()?;
    if known.is_empty() {
        return None;
    }
    let shares = known.iter().map(|(row, direct)| row.median / direct.median);
    let share = range(shares.collect(), figure::percent);
    let cases = if known.len() == 1 {
        "in one case".to_owned()
    } else {
        format!("over {} cases", known.len())
    };
    Some(Sentence {
        text: format!(
            "{} passes on {share} of what the upstream answers when it is asked directly, {cases}; no other \
             gateway was measured beside it.",
            first.subject
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
    let whole = match rows.len() {
        1 => String::new(),
        cases => format!(" It is the first of {cases} cases; they are in the table."),
    };
    let others = "Nothing was measured beside it.";
    let reason = match rate.runs {
        _ if is_invalid(row, doubts) => Err("a rule calls the case invalid".to_owned()),
        runs if runs < RUNS_TO_RANK_MIN => Err("one run says nothing of chance".to_owned()),
        _ => Ok(()),
    };
    Some(Sentence {
        text: format!(
            "{}: {} successful requests a second{asked}. {others}{whole}",
            row.title(),
            figure::number(rate.median)
        ),
        may_be_quoted: reason,
    })
}
