//! How each subject did: one figure, one sentence and a few facts, computed from the figures below.

use super::comparison::baseline_of;
use super::figure;
use super::markup::Html;
use super::palette::Palette;
use super::row::{Row, Spread, TARGET, subjects};
use crate::result::CaseResult;

/// Writes a card a subject.
pub(super) fn write(html: &mut Html, rows: &[Row<'_>], palette: &Palette<'_>) {
    if rows.is_empty() {
        html.element("p", &[], "Nothing was measured.");
        return;
    }
    html.open("section", &[("class", "cards"), ("aria-label", "Summary")]);
    for subject in subjects(rows) {
        let of_subject: Vec<&Row<'_>> = rows.iter().filter(|row| row.subject == subject).collect();
        let Some(best) = best_of(&of_subject, rows) else { continue };
        html.raw("\n").open("article", &[("class", "card")]);
        html.open("h2", &[]).open("i", &[("class", palette.class_of(subject))]).close("i");
        html.text(if subject.is_empty() { best.name } else { subject }).close("h2");
        if let Some(spread) = best.throughput() {
            html.open("p", &[("class", "big")]);
            html.element("strong", &[], &figure::number(spread.median));
            html.element("span", &[], what_counts(best)).close("p");
        }
        let failed = failures(&of_subject);
        html.element("p", &[], &format!("{} {failed}", sentence(&of_subject, best)));
        for facts in [Some(times(best)), cost(best), beside_baseline(rows, best)] {
            facts.iter().for_each(|facts| write_facts(html, facts));
        }
        html.close("article");
    }
    html.close("section");
}

/// The row with the highest throughput; of the cases that every subject has, where there are such, so that
/// cards side by side speak of the same load.
fn best_of<'r, 'a>(rows: &[&'r Row<'a>], all: &[Row<'_>]) -> Option<&'r Row<'a>> {
    let median = |row: &Row<'_>| row.throughput().map_or(0.0, |spread| spread.median);
    let best = |rows: &mut dyn Iterator<Item = &'r Row<'a>>| {
        rows.max_by(|one, other| median(one).total_cmp(&median(other)))
    };
    let has = |subject: &str, name: &str| {
        all.iter().any(|row| row.subject == subject && row.name == name)
    };
    let is_shared = |row: &&Row<'_>| subjects(all).iter().all(|other| has(other, row.name));
    let shared = best(&mut rows.iter().copied().filter(is_shared));
    shared.or_else(|| best(&mut rows.iter().copied()))
}

fn what_counts(row: &Row<'_>) -> &'static str {
    if row.goodput().is_some() { "successful requests/s" } else { "requests/s" }
}

/// A few figures under a heading.
struct Facts {
    heading: String,
    figures: Vec<(&'static str, String)>,
}

fn write_facts(html: &mut Html, facts: &Facts) {
    if facts.figures.is_empty() {
        return;
    }
    html.element("h3", &[], &facts.heading).open("dl", &[]);
    for (name, text) in &facts.figures {
        html.element("dt", &[], name).element("dd", &[], text);
    }
    html.close("dl");
}

fn sentence(of_subject: &[&Row<'_>], best: &Row<'_>) -> String {
    let among = match of_subject.len() {
        1 => format!("In {}", quoted(best.name)),
        cases => format!("One of {cases} cases, {}", quoted(best.name)),
    };
    let asked = best.first().intended_rate;
    let asked = asked
        .map_or(String::new(), |rate| format!(", where {} were asked for", figure::number(rate)));
    let runs = match best.throughput() {
        Some(Spread { runs: 0 | 1, .. }) | None => {
            "one run, so nothing is known of its spread".to_owned()
        }
        Some(Spread { runs, low, high, .. }) => {
            format!(
                "median of {runs} runs from {} to {}",
                figure::number(low),
                figure::number(high)
            )
        }
    };
    format!("{among}{asked} ({runs}).")
}

fn quoted(name: &str) -> String {
    format!("“{name}”")
}

fn failures(of_subject: &[&Row<'_>]) -> String {
    let counted: Vec<_> = of_subject.iter().filter(|row| row.failed_share().is_some()).collect();
    if counted.is_empty() {
        return "Failures were not counted.".to_owned();
    }
    let sum =
        |figure: fn(&CaseResult) -> u64| counted.iter().map(|row| row.sum(figure)).sum::<u64>();
    let (failed, completed) = (sum(|run| run.counts.failed), sum(|run| run.counts.completed));
    let all = figure::count(completed);
    match failed {
        0 => format!("None of the {all} requests failed."),
        failed => {
            let share = figure::percent(failed as f64 / completed as f64);
            format!("Of {all} requests {} failed ({share}).", figure::count(failed))
        }
    }
}

fn times(best: &Row<'_>) -> Facts {
    let mut heading = best.times_are().to_owned();
    if let Some(first) = heading.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let named = [(50.0, "p50"), (99.0, "p99"), (99.9, "p99.9")];
    let known = named.into_iter().filter_map(|(percent, name)| {
        best.percentile(percent).known().map(|value| (name, figure::time(value)))
    });
    Facts { heading, figures: known.collect() }
}

fn cost(best: &Row<'_>) -> Option<Facts> {
    let used = best.usage(TARGET)?;
    let figures = vec![
        ("CPU", format!("{} cores", figure::cores(used.cores))),
        ("CPU for 1000 requests", format!("{} s", figure::number(used.seconds_per_1000))),
        ("Memory", figure::memory(used.rss_bytes_max)),
    ];
    Some(Facts { heading: "Cost".to_owned(), figures })
}

fn beside_baseline(all: &[Row<'_>], best: &Row<'_>) -> Option<Facts> {
    // The best row may have no direct case of the same load; the first that has one will do.
    let of_subject = all.iter().filter(|row| row.subject == best.subject);
    let mut candidates = std::iter::once(best).chain(of_subject);
    let (row, baseline) = candidates.find_map(|row| Some((row, baseline_of(all, row)?)))?;
    let mut figures = Vec::new();
    if let (Some(own), Some(direct)) = (row.throughput(), baseline.throughput()) {
        figures.push(("throughput", figure::percent(own.median / direct.median)));
    }
    for (percent, name) in [(50.0, "p50"), (99.0, "p99")] {
        let (own, direct) = (row.percentile(percent).known(), baseline.percentile(percent).known());
        if let (Some(own), Some(direct)) = (own, direct) {
            figures.push((name, figure::signed(own - direct, figure::time)));
        }
    }
    let heading = match row.name == best.name {
        true => "Compared with direct".to_owned(),
        false => format!("Compared with direct, {}", quoted(row.name)),
    };
    Some(Facts { heading, figures })
}
