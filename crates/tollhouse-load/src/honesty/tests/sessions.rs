//! Rules that need several runs, or another session.

use super::*;

#[test]
fn cells_of_tables_that_repeat_were_copied() {
    let table = |means: [f64; 2]| Report {
        results: means
            .iter()
            .enumerate()
            .map(|(index, mean_ns)| CaseResult {
                name: index.to_string(),
                response_time: Distribution { mean_ns: *mean_ns, ..Distribution::default() },
                ..CaseResult::default()
            })
            .collect(),
        ..Report::default()
    };
    for (means, raised) in [
        ([448_183_000.0, 448_180_000.0], 1),
        ([448_183_000.0, 448_250_000.0], 0),
        // Two digits repeat by accident.
        ([28_000_000.0, 28_000_000.0], 0),
    ] {
        assert_eq!(of_rule(&table(means), "repeated-figures").len(), raised, "{means:?}");
    }
}

#[test]
fn nothing_gets_faster_by_a_gateway() {
    const RULE: &str = "below-direct";
    fn faster(report: &mut Report, by: f64) {
        for run in &mut report.results[3..6] {
            let latency = run.latency.as_mut().unwrap_or(&mut run.response_time);
            for (_, value_ns) in &mut latency.percentiles {
                *value_ns = (*value_ns as f64 * (1.0 - by)) as u64;
            }
        }
    }
    for (of, by, expected) in [
        (run as fn(&str, u32) -> CaseResult, 0.0, None),
        (run, 0.005, None),
        (run, 0.02, Some(Severity::Caution)),
        (run, 0.2, Some(Severity::Invalid)),
        (closed, 0.2, Some(Severity::Invalid)),
    ] {
        let mut report = session(of);
        faster(&mut report, by);
        let raised = of_rule(&report, RULE);
        assert_eq!(raised.first().map(|it| it.severity), expected, "{by}");
        assert!(raised.len() < 2);
    }
    // Out of a cache it may be.
    let mut report = session(run);
    faster(&mut report, 0.2);
    report.results[3].first_head = vec![("X-Cache".into(), "HIT".into())];
    assert!(of_rule(&report, RULE).is_empty());
    // Another rate, or a baseline of more connections, bounds nothing.
    let mut report = session(run);
    faster(&mut report, 0.2);
    report.results[3..6].iter_mut().for_each(|run| run.intended_rate = Some(5_000.0));
    assert!(of_rule(&report, RULE).is_empty());
    let mut report = session(closed);
    faster(&mut report, 0.2);
    report.results[3..6].iter_mut().for_each(|run| run.concurrency = 10);
    assert!(of_rule(&report, RULE).is_empty());
    // Runs whose ranges touch may differ by chance.
    let mut report = session(run);
    faster(&mut report, 0.2);
    report.results[4].latency = Some(times(600_000));
    assert!(of_rule(&report, RULE).is_empty());
}

#[test]
fn a_session_has_a_baseline_before_and_after_that_stays() {
    const RULE: &str = "baseline";
    let message = |report: &Report| {
        let raised = of_rule(report, RULE);
        raised.into_iter().map(|it| (it.severity, it.message)).next()
    };
    let mut none = session(run);
    none.results.retain(|run| run.subject != "direct");
    assert!(message(&none).expect("raised").1.starts_with("The direct baseline is missing"));
    // What somebody measures on the way is not about gateways.
    none.suite = None;
    assert_eq!(message(&none), None);
    none.suite = Some("connections".into());
    assert_eq!(message(&none), None);

    let mut not_after = session(run);
    not_after.results.truncate(6);
    assert!(message(&not_after).expect("raised").1.contains("but not after"));
    let mut not_before = session(run);
    not_before.results.drain(..3);
    assert!(message(&not_before).expect("raised").1.contains("but not before"));

    for (by, raised) in [(0.95, false), (0.85, true), (1.2, true)] {
        let mut moved = session(run);
        moved.results[6..].iter_mut().for_each(|run| run.goodput *= by);
        let found = message(&moved);
        assert_eq!(found.is_some(), raised, "{by}");
        if let Some((severity, message)) = found {
            assert_eq!(severity, Severity::Caution);
            assert!(message.contains("10,000 → "), "{message}");
        }
    }
}

#[test]
fn a_target_elsewhere_shares_no_cores() {
    let mut report = session(run);
    for run in &mut report.results {
        run.processes.truncate(1);
    }
    assert!(of_rule(&report, "shared-machine").is_empty());
    for target in ["http://127.0.0.1:9080/", "http://localhost/", "http://[::1]:80/"] {
        report.results[0].case.as_mut().expect("measured").target = target.into();
        assert_eq!(of_rule(&report, "shared-machine").len(), 1, "{target}");
    }
    report.results[0].case.as_mut().expect("measured").target = "http://10.0.0.2/".into();
    report.results[0].case.as_mut().expect("measured").connect_to = Some("unix:/run/x".into());
    assert_eq!(of_rule(&report, "shared-machine").len(), 1);
}

#[test]
fn cores_of_their_own_are_named() {
    let mut report = session(run);
    for run in &mut report.results {
        run.processes[0].cores = "0-1".into();
        run.processes[1].cores = "2-3".into();
    }
    let raised = of_rule(&report, "shared-machine");
    assert!(raised[0].message.contains("on cores of their own"), "{raised:?}");
    report.results[1].processes[1].cores = "1-3".into();
    assert_eq!(of_rule(&report, "shared-machine").len(), 2);
}

#[test]
fn a_maximum_has_neighbours() {
    fn row(rates: &[f64]) -> Report {
        let result = |(index, rate): (usize, &f64)| CaseResult {
            subject: "gateway".into(),
            name: index.to_string(),
            concurrency: 32 << index,
            rate: *rate,
            goodput: *rate,
            ..CaseResult::default()
        };
        Report { results: rates.iter().enumerate().map(result).collect(), ..Report::default() }
    }
    for (rates, raised) in [
        (vec![30_471.0, 37_456.0, 51_023.0, 37_405.0], true),
        (vec![30_000.0, 37_456.0, 41_000.0, 37_405.0], false),
        // A curve that is still rising, or already falling, has no top yet.
        (vec![10_000.0, 20_000.0, 40_000.0], false),
        (vec![40_000.0, 20_000.0, 10_000.0], false),
    ] {
        assert_eq!(!of_rule(&row(&rates), "headline").is_empty(), raised, "{rates:?}");
    }
    // Where connections fall, another row begins.
    let mut two_rows = row(&[30_000.0, 51_000.0, 30_000.0]);
    two_rows.results[2].concurrency = 32;
    assert!(of_rule(&two_rows, "headline").is_empty());
    // Three runs that agree make it a fact.
    let mut repeated = row(&[30_000.0, 51_000.0, 30_000.0]);
    repeated.results.push(repeated.results[1].clone());
    repeated.results.push(repeated.results[1].clone());
    assert!(of_rule(&repeated, "headline").is_empty());
}

#[test]
fn a_difference_is_told_from_chance() {
    let mut once = session(run);
    once.results.retain(|run| run.repetition == 1);
    let [few] = &of_rule(&once, "repetitions")[..] else { panic!("raised once") };
    assert_eq!(few.severity, Severity::Caution);
    assert!(few.message.contains("(all 2 cases)") && few.message.contains("cannot be ranked"));
    once.results.truncate(1);
    assert_eq!(of_rule(&once, "repetitions")[0].severity, Severity::Note);

    let mut wide = session(closed);
    wide.results[4].goodput = 8_000.0;
    assert!(of_rule(&wide, "spread")[0].message.contains("between 8,000 and 9,899"));

    let mut overlapping = session(closed);
    overlapping.results[4].goodput = 10_001.0;
    let raised = of_rule(&overlapping, "ranking");
    assert!(raised[0].message.contains("direct and tollhouse in 10,000/s"), "{raised:?}");
    assert!(of_rule(&session(closed), "ranking").is_empty());
}

#[test]
fn subjects_are_asked_for_the_same_and_answer_alike() {
    const RULE: &str = "same-conditions";
    fn all(change: fn(&mut CaseResult)) -> Vec<Warning> {
        let mut report = session(closed);
        report.results[3..6].iter_mut().for_each(change);
        of_rule(&report, RULE)
    }
    for (change, piece) in [
        ((|run| run.concurrency = 30) as fn(&mut CaseResult), "30 connections against 20"),
        (|run| load(run).keep_alive = false, "keep-alive off against on"),
        (
            |run| run.counts.reused = 0,
            "100 % of the requests came on a new connection, against 0 %",
        ),
        (|run| run.counts.body_bytes /= 2, "bodies of 1,024 bytes against 2,048"),
        (
            |run| run.case.as_mut().expect("measured").target = "h2c://10.0.0.2/".into(),
            "Http2 against Http1",
        ),
    ] {
        let raised = all(change);
        assert_eq!(raised.len(), 1, "{piece}");
        assert!(raised[0].message.contains(piece), "{raised:?}");
    }
    assert!(all(|run| run.counts.body_bytes += 2_048).is_empty());
}

#[test]
fn answers_out_of_a_cache_are_named() {
    for (name, value, raised) in [
        ("X-Cache", "HIT from proxy", true),
        ("Apisix-Cache-Status", "HIT", true),
        ("cf-cache-status", "MISS", false),
        ("Age", "17", true),
        ("age", "0", false),
        ("x-hit-counter", "hit", false),
    ] {
        let mut report = session(run);
        report.results[4].first_head = vec![(name.into(), value.into())];
        assert_eq!(!of_rule(&report, "cache").is_empty(), raised, "{name}: {value}");
    }
}
