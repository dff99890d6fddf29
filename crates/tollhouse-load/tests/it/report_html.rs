//! The web page of a report: what it must hold and must never do, and whether a browser draws it.

mod browser;
mod fixture;

use tollhouse_load::published;
use tollhouse_load::report::{Report, html};

/// The page with one of its sections alone.
fn section<'p>(page: &'p str, id: &str) -> &'p str {
    let at = page.find(&format!("aria-labelledby=\"{id}\"")).expect(id);
    let rest = &page[at..];
    &rest[..rest.find("</section>").expect("sections end")]
}

/// Text without its tags.
fn plain(markup: &str) -> String {
    let mut text = String::new();
    let mut in_tag = false;
    for character in markup.chars() {
        match character {
            '<' => in_tag = true,
            '>' => {
                in_tag = false;
                text.push(' ');
            }
            _ if !in_tag => text.push(character),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_same_report_makes_the_same_page() {
    assert_eq!(html::render(&fixture::shenyu()), html::render(&fixture::shenyu()));
}

#[test]
fn sections_stand_in_the_order_in_which_they_are_needed() {
    let page = html::render(&fixture::shenyu());
    let headings: Vec<String> = page
        .split("<h2 id=")
        .skip(1)
        .map(|rest| plain(&format!("<{}", &rest[..rest.find("</h2>").expect("headings end")])))
        .collect();
    let expected = [
        "Successful requests a second",
        "In figures",
        "Before you quote a number",
        "What was measured",
        "All figures",
        "Compared with the others",
        "Compared with the upstream asked directly",
        "Over the load",
        "Percentile spectrum",
        "Over time",
        "Distribution of times",
        "What it cost",
        "Requests, connections and failures",
        "Published figures, on other hardware",
        "Environment and how to repeat it",
    ];
    assert_eq!(headings, expected);
}

#[test]
fn a_row_of_the_headline_is_marked_up_for_eyes_and_ears() {
    let page = html::render(&fixture::shenyu());
    let section = section(&page, "headline");
    let at = section.find("<tr><th scope=\"row\"").expect("rows have names");
    let row = &section[at..at + section[at..].find("</tr>").expect("rows end")];
    let expected = "<tr><th scope=\"row\" class=\"left name\">600 connections</th>\
                    <td title=\"median of 3 runs; lowest and highest below\">28,310\
                    <small>28,140–28,508</small></td><td>20.63</td>";
    assert!(row.starts_with(expected), "{row}");
}

#[test]
fn the_headline_has_the_columns_of_the_published_report_and_those_it_leaves_out() {
    let page = html::render(&fixture::shenyu());
    let text = plain(section(&page, "headline"));
    let (more, less) = ("↑ higher is better", "↓ lower is better");
    let heads = format!(
        "Case QPS 1/s {more} p50 ms {less} p75 ms {less} p90 ms {less} p99 ms {less} avg ms {less} max ms {less} \
         p99.9 ms {less} Goodput 1/s {more} Errors {less} CPU cores {less} CPU-s per 1000 {less} Memory {less}"
    );
    assert!(text.contains(&heads), "{text}");
    assert!(
        text.contains("tollhouse response time at saturation · 3 runs · 30 s 600 connections"),
        "{text}"
    );
}

#[test]
fn warnings_are_counted_below_the_first_screen_the_gravest_first() {
    let page = html::render(&fixture::shenyu());
    let warnings = section(&page, "warnings");
    let place = |text: &str| warnings.find(text).unwrap_or_else(|| panic!("{text}: {warnings}"));
    assert!(place("✖ invalid") < place("▲ caution") && place("▲ caution") < place("● note"));
    assert!(page.contains("<small>✖ 1 invalid · 1 caution · 1 note</small>"));
    let at = |id: &str| page.find(&format!("aria-labelledby=\"{id}\"")).expect(id);
    assert!(at("summary") < at("warnings") && at("warnings") < at("headline"));
    // Behind their counts: nothing of them is open before somebody asks.
    assert!(!section(&page, "warnings").contains("<details open"));
}

/// The verdict's sentences.
fn verdict(report: &Report) -> String {
    let page = html::render(report);
    let at = page.find("class=\"verdict\"").expect("there is a verdict");
    plain(&format!("<{}", &page[at..at + page[at..].find("</section>").expect("it ends")]))
}

#[test]
fn the_page_says_first_who_does_more_by_how_much_and_whether_that_may_be_quoted() {
    let text = verdict(&fixture::shenyu());
    for part in [
        "Tollhouse is as fast as nginx in 4 of 4 cases (+0.6 %)",
        "p99 lower in ",
        "Tollhouse is faster than haproxy in 4 of 4 cases (+12 %)",
        "Published for ShenYu 2.6.0: 18,640 … 21,130 requests/s, 64–71 % of its direct throughput.",
        "May be quoted.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = verdict(&fixture::ngxway());
    assert!(text.contains("A single run shows no variance: treat as indicative."), "{text}");
    let text = verdict(&fixture::open_loop());
    assert!(
        text.contains("At the same rates, Tollhouse’s p99 is lower than nginx’s in "),
        "{text}"
    );
    // Nobody beside it, and an open loop: what was asked for is no merit.
    let mut report = fixture::open_loop();
    report.results.truncate(1);
    let text = verdict(&report);
    assert!(
        text.contains("Nothing was measured beside it.") && text.contains("were asked for"),
        "{text}"
    );
}

/// A report of a suite with one run of each case: its subject, name and rate.
fn suite(suite: &str, cases: &[(&str, &str, f64)]) -> Report {
    let result = |(subject, name, rate): &(&str, &str, f64)| tollhouse_load::result::CaseResult {
        subject: (*subject).into(),
        name: (*name).into(),
        rate: *rate,
        goodput: *rate,
        concurrency: 1,
        case: Some(tollhouse_load::case::Case::new("http://a/")),
        ..Default::default()
    };
    let mut report = Report {
        suite: Some(suite.into()),
        results: cases.iter().map(result).collect(),
        published: published::rows(suite),
        ..Report::default()
    };
    report.environment.cores = 2;
    report
}

#[test]
fn plugins_cost_a_share_that_stands_beside_the_published_one() {
    let report = suite(
        "api7",
        &[
            ("tollhouse", "no plugin, 1 route, 0 consumers", 1_000.0),
            ("tollhouse", "key-auth, 1 route, 1 consumer", 960.0),
            ("tollhouse", "key-auth and limit-count, 1 route, 1 consumer", 850.0),
        ],
    );
    let text = verdict(&report);
    let expected = "Throughput that plugins cost in Tollhouse: key-auth 4.0 % (published: 13–14 %), \
                    key-auth and limit-count 15 % (published: 22–23 %).";
    assert!(text.contains(expected), "{text}");
    let page = html::render(&report);
    let bars = plain(section(&page, "bars"));
    assert!(
        bars.contains("key-auth, 1 route, 1 consumer tollhouse 4.0 % API7, published 13 %"),
        "{bars}"
    );
    let summary = plain(section(&page, "summary"));
    assert!(summary.contains("key-auth, 1 route, 1 consumer 4.0 % 13 % 960.0 21,019"), "{summary}");
}

#[test]
fn a_registry_stands_beside_the_published_machines_and_a_real_one() {
    let report = suite(
        "polaris",
        &[
            ("tollhouse", "register", 9_126.0),
            ("tollhouse", "discover", 20_000.0),
            ("polaris", "register", 4_563.0),
            ("polaris", "discover", 40_000.0),
        ],
    );
    let text = verdict(&report);
    for part in [
        "Tollhouse is faster than polaris in 1 of 2 cases (−50 % … +100 %)",
        "Tollhouse on 2 cores is faster than Polaris’ published 2C4G figures in 1 of 2 cases (−27 % … +100 %).",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = html::render(&report);
    let bars = plain(section(&page, "bars"));
    assert!(
        bars.contains(
            "register tollhouse 9,126 polaris 4,563 Polaris 1C2G 2,144 Polaris 2C4G 4,563"
        ),
        "{bars}"
    );
}

#[test]
fn the_cases_of_ngxway_are_counted_beside_the_published_ones() {
    let report = suite(
        "ngxway",
        &[
            ("direct", "-n 10000 -c 32", 60_000.0),
            ("tollhouse", "-n 10000 -c 32", 11_950.5),
            ("tollhouse", "-n 10000 -c 64", 14_115.5),
            ("tollhouse, cached", "-n 10000 -c 32", 47_802.0),
            ("tollhouse, cached", "-n 10000 -c 64", 14_115.5),
        ],
    );
    let text = verdict(&report);
    let expected = "Tollhouse (cached) is faster than ngxway’s published figures in 1 of 2 cases (−50 % … +100 %); \
                    published: 23,901 … 28,231 requests/s. Other hardware and tools. A single run shows no \
                    variance: treat as indicative. Tollhouse is slower than ngxway’s published figures in 2 of 2 \
                    cases (−50 %)";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn met_and_missed_thresholds_stand_before_what_is_folded() {
    let page = html::render(&fixture::open_loop());
    let text = plain(section(&page, "thresholds"));
    assert!(text.contains("✖ missed p99 &lt; 50ms in 2 of 2 runs"), "{text}");
    assert!(page.find("id=\"thresholds\"") < page.find("class=\"fold"), "before the folds");
}

#[test]
fn an_invalid_figure_is_left_out_of_the_verdict_and_struck_through_where_it_stands() {
    let mut report = fixture::shenyu();
    report.warnings.clear();
    let all = verdict(&report);
    report.warnings.push(tollhouse_load::report::Warning {
        rule: "below-direct".into(),
        severity: tollhouse_load::report::Severity::Invalid,
        about: "tollhouse / 600 connections".into(),
        message: "it is faster than nothing in between".into(),
    });
    let text = verdict(&report);
    assert!(text.contains("invalid") && !all.contains("invalid"), "{text}");
    let page = html::render(&report);
    for id in ["headline", "peers", "added"] {
        let section = section(&page, id);
        assert!(section.contains("<tr class=\"void\">") && section.contains("✖ invalid"), "{id}");
    }
}

#[test]
fn a_page_is_small_however_much_was_measured() {
    let mut report = fixture::shenyu();
    for result in &mut report.results {
        let one = result.series.last().expect("it has a series").clone();
        result.series = std::iter::repeat_n(one, 5_000).collect();
    }
    let page = html::render(&report);
    assert!(page.len() < 500 * 1024, "{}", page.len());
    assert!(!page.contains("\"values\""), "histograms stay in the result file");
}

#[test]
fn only_runs_that_lie_apart_are_ranked() {
    let page = html::render(&fixture::shenyu());
    let text = plain(section(&page, "peers"));
    let (nginx, haproxy) = text.split_once("tollhouse ÷ haproxy").expect("both peers");
    // The runs of nginx overlap with ours, those of haproxy do not.
    assert!(nginx.contains("600 connections 1.006× ≈"), "{nginx}");
    assert!(haproxy.contains("600 connections 1.12× ▲"), "{text}");
    // One run each: nothing is called better, nor highest.
    let page = html::render(&fixture::ngxway());
    assert!(!page.contains("▲<") && !page.contains("▲ highest<"));
}

#[test]
fn published_figures_are_labelled_and_stand_beside_their_own_baseline() {
    let page = html::render(&fixture::shenyu());
    let text = plain(section(&page, "published"));
    assert!(text.contains("ShenYu 2.6.0 netty, published on other hardware"), "{text}");
    let row = "600 connections 20,473 19.37 25.36 32.89 69.92 22.09 1,043 70.6 %";
    assert!(text.contains(row), "{text}");
}

#[test]
fn an_open_loop_shows_both_times_and_a_closed_one_no_latency() {
    let page = html::render(&fixture::open_loop());
    let text = plain(section(&page, "schedule"));
    assert!(text.contains("30000 requests/s 30,000 28,000"), "{text}");
    assert!(plain(section(&page, "headline")).contains("latency from the intended start"));
    let page = html::render(&fixture::shenyu());
    assert!(!plain(section(&page, "headline")).contains("latency"));
    assert!(!page.contains("id=\"schedule\""));
}

#[test]
fn what_was_measured_without_a_name_goes_by_its_case() {
    let mut report = fixture::open_loop();
    report.results.truncate(1);
    report.results[0].subject = String::new();
    let page = html::render(&report);
    assert!(verdict(&report).starts_with("5000 requests/s: "));
    assert!(!page.contains("> / 5000") && !page.contains("\"measured,"));
}

#[test]
fn a_report_of_nothing_is_a_page_without_charts() {
    let page = html::render(&Report::default());
    assert!(page.contains("Nothing was measured."));
    for absent in ["<svg", "<figure", "<table", "<noscript"] {
        assert!(!page.contains(absent), "{absent}");
    }
}

#[test]
fn nothing_a_result_says_becomes_markup() {
    const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&<!--";
    let mut report = fixture::open_loop();
    let scripts = html::render(&report).matches("<script").count();
    let hostile = || HOSTILE.to_owned();
    report.title = hostile();
    report.about = hostile();
    report.command = vec![hostile()];
    report.environment.cpu = hostile();
    report.environment.versions.insert(hostile(), hostile());
    report.configurations.insert(hostile(), hostile());
    report.warnings.push(tollhouse_load::report::Warning {
        rule: hostile(),
        severity: tollhouse_load::report::Severity::Invalid,
        about: hostile(),
        message: hostile(),
    });
    for result in &mut report.results {
        result.subject = hostile();
        result.counts.statuses.insert(hostile(), 1);
        result.counts.failures.insert(hostile(), 1);
        result.counts.messages.insert(hostile(), 1);
        result.missed_thresholds = vec![hostile()];
        result.extra.insert(hostile(), 1.0);
        result.processes.iter_mut().for_each(|process| process.command = hostile());
        result.processes.iter_mut().for_each(|process| process.role = hostile());
    }
    report.published = report.results.clone();
    let page = html::render(&report);
    assert_eq!(page.matches("<script").count(), scripts);
    assert!(!page.contains("<img") && !page.contains("<!--"));
}

#[test]
fn the_page_is_small_and_asks_no_other_host() {
    // Compressed, the parts are a third of this: see the budget in the documentation.
    const PARTS_BYTES_MAX: usize = 112 * 1024;
    let page = html::render(&Report::default());
    assert!(page.len() < PARTS_BYTES_MAX, "{}", page.len());
    for fetching in [" src=", "@import", "url(", "fetch(", "XMLHttpRequest", "<link"] {
        assert!(!page.contains(fetching), "{fetching}");
    }
}
