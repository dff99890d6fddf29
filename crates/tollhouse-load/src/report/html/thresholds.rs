//! Thresholds of the cases: each condition once, with the cases that met and missed it.

use super::markup::Html;
use crate::report::Report;
use crate::report::outcome::outcomes;

/// Writes the section, if any case has thresholds: those missed first.
pub(super) fn write(html: &mut Html, report: &Report) {
    let mut outcomes = outcomes(&report.results);
    if outcomes.is_empty() {
        return;
    }
    outcomes.sort_by_key(|outcome| outcome.missed.is_empty());
    html.open("section", &[("class", "thresholds"), ("aria-labelledby", "thresholds")]);
    html.heading("h2", "thresholds", "Thresholds").open("ul", &[]);
    for outcome in &outcomes {
        let total = outcome.met + outcome.missed.len();
        let (class, word) = match outcome.missed.is_empty() {
            true => ("met", "✔ met"),
            false => ("missed", "✖ missed"),
        };
        html.raw("\n").open("li", &[("class", class)]).element("b", &[("class", "sign")], word);
        html.raw(" ").element("code", &[], &outcome.condition).text(&match (
            outcome.missed.len(),
            total,
        ) {
            (_, 1) => String::new(),
            (0, total) => format!(" in all {total} runs"),
            (missed, total) => format!(" in {missed} of {total} runs"),
        });
        for (case, value) in &outcome.missed {
            html.open("div", &[]).text(case).raw(": ").element("b", &[], value).close("div");
        }
        html.close("li");
    }
    html.close("ul").close("section");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::result::CaseResult;

    #[test]
    fn a_condition_stands_once_with_the_cases_that_missed_it() {
        let mut case = Case::new("http://a/");
        case.thresholds = ["p99 < 50ms", "failures < 1"].map(|it| it.parse().expect(it)).to_vec();
        let met = CaseResult { name: "fast".into(), case: Some(case), ..CaseResult::default() };
        let missed = CaseResult {
            name: "slow".into(),
            missed_thresholds: vec!["p99 < 50ms: 61.3ms".into()],
            ..met.clone()
        };
        let mut html = Html::default();
        write(&mut html, &Report { results: vec![met, missed], ..Report::default() });
        let page = html.into_string();
        assert!(
            page.contains("<code>p99 &lt; 50ms</code> in 1 of 2 runs<div>slow: <b>61.3ms</b>"),
            "{page}"
        );
        assert!(page.contains("<code>failures &lt; 1</code> in all 2 runs"), "{page}");
        assert!(page.find("✖ missed") < page.find("✔ met"), "{page}");
    }
}
