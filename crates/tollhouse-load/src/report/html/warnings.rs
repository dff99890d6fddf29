//! The warnings, before anything that could be quoted: the worst first, weight in words and signs, never
//! in colour alone. Thresholds that were missed stand with them.

use super::markup::Html;
use crate::report::{Report, Severity, Warning};

/// More notes than this are folded away; cautions and worse never are.
const NOTES_OPEN_MAX: usize = 3;

/// Writes the section, when there is something to say.
pub(super) fn write(html: &mut Html, report: &Report) {
    write_missed(html, report);
    if report.warnings.is_empty() {
        return;
    }
    let mut warnings: Vec<&Warning> = report.warnings.iter().collect();
    // Stable, so that equal weights keep the order in which they were raised.
    warnings.sort_by_key(|warning| std::cmp::Reverse(warning.severity));
    html.open("section", &[("class", "warnings"), ("aria-labelledby", "warnings")]);
    html.heading("h2", "warnings", "Before you quote a number");
    let notes_from = warnings.partition_point(|warning| warning.severity > Severity::Note);
    let (weighty, notes) = warnings.split_at(notes_from);
    write_list(html, weighty);
    if notes.len() > NOTES_OPEN_MAX {
        html.open("details", &[]);
        html.element("summary", &[], &format!("{} notes", notes.len()));
        write_list(html, notes);
        html.close("details");
    } else {
        write_list(html, notes);
    }
    html.close("section");
}

/// The class and the word of a weight.
pub(super) fn sign(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Invalid => ("invalid", "✖ invalid"),
        Severity::Caution => ("caution", "▲ caution"),
        Severity::Note => ("note", "● note"),
    }
}

fn write_list(html: &mut Html, warnings: &[&Warning]) {
    if warnings.is_empty() {
        return;
    }
    html.open("ul", &[]);
    for warning in warnings {
        let (class, word) = sign(warning.severity);
        html.open("li", &[("class", class)]).element("span", &[("class", "sign")], word);
        html.open("div", &[]);
        if !warning.about.is_empty() {
            html.element("b", &[], &warning.about).raw(" ");
        }
        html.text(&warning.message).raw(" ");
        html.element("code", &[("class", "rule")], &warning.rule);
        html.close("div").close("li");
    }
    html.close("ul");
}

fn write_missed(html: &mut Html, report: &Report) {
    let missed: Vec<(&str, &str, &str)> = report
        .results
        .iter()
        .flat_map(|result| {
            let names = (result.subject.as_str(), result.name.as_str());
            result.missed_thresholds.iter().map(move |missed| (names.0, names.1, missed.as_str()))
        })
        .collect();
    if missed.is_empty() {
        return;
    }
    html.open("section", &[("class", "warnings"), ("aria-labelledby", "thresholds")]);
    html.heading("h2", "thresholds", "Thresholds missed").open("ul", &[]);
    for (subject, name, text) in missed {
        html.open("li", &[("class", "invalid")]);
        html.element("span", &[("class", "sign")], "✖ missed").open("div", &[]);
        html.element("b", &[], &format!("{subject} / {name}")).raw(" ").text(text);
        html.close("div").close("li");
    }
    html.close("ul").close("section");
}
