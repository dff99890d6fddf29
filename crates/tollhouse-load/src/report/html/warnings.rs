//! The warnings, before anything that could be quoted: the worst first, weight in words and signs, never
//! in colour alone. Thresholds that were missed stand with them.

use super::markup::Html;
use super::row::title;
use crate::report::{Report, Severity, Warning};

/// Warnings of one rule past this many are folded away: they say the same of other cases.
const OPEN_MAX: usize = 2;
/// More kinds of notes than this are folded away; cautions and worse never are.
const NOTES_OPEN_MAX: usize = 3;

/// Writes the section, when there is something to say.
pub(super) fn write(html: &mut Html, report: &Report) {
    write_missed(html, report);
    if report.warnings.is_empty() {
        return;
    }
    let kinds = kinds(&report.warnings);
    html.open("section", &[("class", "warnings"), ("aria-labelledby", "warnings")]);
    html.heading("h2", "warnings", "Before you quote a number");
    let notes_from = kinds.partition_point(|kind| kind[0].severity > Severity::Note);
    let (weighty, notes) = kinds.split_at(notes_from);
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

/// Warnings by weight and rule, the gravest first, otherwise in the order in which they were raised.
fn kinds(warnings: &[Warning]) -> Vec<Vec<&Warning>> {
    let mut kinds: Vec<Vec<&Warning>> = Vec::new();
    for warning in warnings {
        let is_alike = |kind: &&mut Vec<&Warning>| {
            (kind[0].severity, &kind[0].rule) == (warning.severity, &warning.rule)
        };
        match kinds.iter_mut().find(is_alike) {
            Some(kind) => kind.push(warning),
            None => kinds.push(vec![warning]),
        }
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind[0].severity));
    kinds
}

/// The class and the word of a weight.
pub(super) fn sign(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Invalid => ("invalid", "✖ invalid"),
        Severity::Caution => ("caution", "▲ caution"),
        Severity::Note => ("note", "● note"),
    }
}

fn write_list(html: &mut Html, kinds: &[Vec<&Warning>]) {
    if kinds.is_empty() {
        return;
    }
    html.open("ul", &[]);
    for kind in kinds {
        let (class, word) = sign(kind[0].severity);
        html.raw("\n").open("li", &[("class", class)]);
        html.element("span", &[("class", "sign")], word).open("div", &[]);
        let (open, folded) = kind.split_at(kind.len().min(OPEN_MAX));
        open.iter().for_each(|warning| write_one(html, warning));
        if !folded.is_empty() {
            let more = format!("The same of {} more", folded.len());
            html.open("details", &[]).element("summary", &[], &more);
            folded.iter().for_each(|warning| write_one(html, warning));
            html.close("details");
        }
        html.close("div").close("li");
    }
    html.close("ul");
}

fn write_one(html: &mut Html, warning: &Warning) {
    html.open("p", &[]);
    if !warning.about.is_empty() {
        html.element("b", &[], &warning.about).raw(" ");
    }
    html.text(&warning.message).raw(" ");
    html.element("code", &[("class", "rule")], &warning.rule).close("p");
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
        html.element("b", &[], &title(subject, name)).raw(" ").text(text);
        html.close("div").close("li");
    }
    html.close("ul").close("section");
}
