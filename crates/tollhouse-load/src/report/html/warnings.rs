//! Warnings, between verdict and figures: most severe first, each severity folded behind its count,
//! in words and signs as well as colours.

use tollhouse_stdx::plural;

use super::markup::Html;
use crate::report::{Report, Severity, Warning};

/// Number of warnings of one rule shown before the rest is folded.
const OPEN_MAX: usize = 2;

/// Writes the section, if there are warnings: their number by severity, each list behind its count.
pub(super) fn write(html: &mut Html, report: &Report) {
    if report.warnings.is_empty() {
        return;
    }
    let kinds = kinds(&report.warnings);
    let counts: Vec<String> = [Severity::Invalid, Severity::Caution, Severity::Note]
        .into_iter()
        .filter_map(|severity| counted(&report.warnings, severity))
        .collect();
    html.raw("\n").open("details", &[("class", "fold warnings")]).open("summary", &[]);
    html.element("h2", &[("id", "warnings")], "Before you quote a number");
    html.element("small", &[], &counts.join(" · ")).close("summary");
    html.open("section", &[("aria-labelledby", "warnings")]);
    for severity in [Severity::Invalid, Severity::Caution, Severity::Note] {
        let from = kinds.partition_point(|kind| kind[0].severity > severity);
        let to = kinds.partition_point(|kind| kind[0].severity >= severity);
        write_folded(html, severity, &kinds[from..to]);
    }
    html.end_fold();
}

/// Returns the number of warnings of a severity, such as `4 cautions`; `None` without any.
fn counted(warnings: &[Warning], severity: Severity) -> Option<String> {
    let count = warnings.iter().filter(|warning| warning.severity == severity).count();
    let noun = match severity {
        Severity::Invalid => return (count > 0).then(|| format!("✖ {count} invalid")),
        Severity::Caution => "caution",
        Severity::Note => "note",
    };
    (count > 0).then(|| plural::counted(count, noun))
}

fn write_folded(html: &mut Html, severity: Severity, kinds: &[Vec<&Warning>]) {
    let count: usize = kinds.iter().map(Vec::len).sum();
    if count == 0 {
        return;
    }
    let (class, word) = sign(severity);
    let what = match severity {
        Severity::Invalid => "must not be quoted; struck through below",
        Severity::Caution => "read these before comparing",
        Severity::Note => "worth knowing",
    };
    html.raw("\n").open("details", &[("class", class)]).open("summary", &[]);
    html.element("span", &[("class", "sign")], &format!("{word}: {count}"));
    html.text(&format!(" {what}")).close("summary");
    write_list(html, kinds);
    html.close("details");
}

/// Groups warnings by severity and rule, most severe first, otherwise in the order in which they
/// were raised.
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

/// Returns CSS class and text of a severity.
pub(super) fn sign(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Invalid => ("invalid", "✖ invalid"),
        Severity::Caution => ("caution", "▲ caution"),
        Severity::Note => ("note", "● note"),
    }
}

fn write_list(html: &mut Html, kinds: &[Vec<&Warning>]) {
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
