//! Counters under a clock of the test.

use super::messages::{LimitTarget, QuotaMode, QuotaSum, QuotaTotal};
use super::*;

const NOW_MS: u64 = 1_700_000_000_000;

fn total(mode: QuotaMode, duration: u32, max_amount: u32) -> QuotaTotal {
    QuotaTotal { mode: mode.into(), duration, max_amount }
}

fn init(client: &str, labels: &str, totals: Vec<QuotaTotal>) -> RateLimitInitRequest {
    let target = LimitTarget {
        namespace: "ns".to_owned(),
        service: "svc".to_owned(),
        labels: labels.to_owned(),
        labels_list: Vec::new(),
    };
    RateLimitInitRequest {
        target: Some(target),
        client_id: client.to_owned(),
        totals,
        ..Default::default()
    }
}

fn opened(limiter: &Limiter, request: RateLimitInitRequest, now_ms: u64) -> RateLimitInitResponse {
    let request = RateLimitRequest { rate_limit_init_request: Some(request), ..Default::default() };
    limiter.answer(request, now_ms).rate_limit_init_response.expect("an answer to INIT")
}

fn reported(
    limiter: &Limiter,
    client_key: u32,
    uses: &[(u32, u32)],
    now_ms: u64,
) -> RateLimitReportResponse {
    let uses = uses.iter().map(|(counter_key, used)| QuotaSum {
        counter_key: *counter_key,
        used: *used,
        limited: 0,
    });
    let report = RateLimitReportRequest {
        client_key,
        quota_uses: uses.collect(),
        timestamp: now_ms.cast_signed(),
    };
    let request = RateLimitRequest {
        cmd: RateLimitCmd::Acquire.into(),
        rate_limit_report_request: Some(report),
        ..Default::default()
    };
    limiter.answer(request, now_ms).rate_limit_report_response.expect("an answer to ACQUIRE")
}

#[test]
fn clients_share_a_quota_until_the_next_window() {
    let limiter = Limiter::default();
    let totals = || vec![total(QuotaMode::Whole, 1, 100)];
    let first = opened(&limiter, init("a", "", totals()), NOW_MS);
    let second = opened(&limiter, init("b", "", totals()), NOW_MS);
    assert_eq!((first.code, first.slide_count, first.counters[0].left), (200_000, 1, 100));
    let key = first.counters[0].counter_key;
    assert_eq!(second.counters[0].counter_key, key);
    assert_ne!(first.client_key, second.client_key);
    assert_eq!(second.counters[0].client_count, 2);

    let left = |client_key, used, now_ms| {
        let response = reported(&limiter, client_key, &[(key, used)], now_ms);
        (response.code, response.quota_lefts[0].left)
    };
    assert_eq!(left(first.client_key, 60, NOW_MS + 100), (200_000, 40));
    assert_eq!(left(second.client_key, 50, NOW_MS + 200), (200_000, -10));
    assert_eq!(left(first.client_key, 0, NOW_MS + 999), (200_000, -10));
    assert_eq!(left(first.client_key, 1, NOW_MS + 1_000), (200_000, 99));
}

#[test]
fn an_amount_for_each_client_grows_with_their_number() {
    let limiter = Limiter::default();
    let totals = || vec![total(QuotaMode::Divide, 1, 10)];
    opened(&limiter, init("a", "", totals()), NOW_MS);
    let second = opened(&limiter, init("b", "", totals()), NOW_MS);
    assert_eq!(second.counters[0].left, 20);
    let key = second.counters[0].counter_key;
    let later = NOW_MS + 11_000;
    let lefts = reported(&limiter, second.client_key, &[(key, 0)], later - 5_000).quota_lefts;
    assert_eq!((lefts[0].left, lefts[0].client_count), (20, 2));
    let lefts = reported(&limiter, second.client_key, &[(key, 0)], later).quota_lefts;
    assert_eq!((lefts[0].left, lefts[0].client_count), (10, 1), "the first fell silent");
}

#[test]
fn a_changed_rule_changes_its_counter() {
    let limiter = Limiter::default();
    let first = opened(&limiter, init("a", "", vec![total(QuotaMode::Whole, 60, 100)]), NOW_MS);
    reported(&limiter, first.client_key, &[(first.counters[0].counter_key, 30)], NOW_MS);
    let again = opened(&limiter, init("a", "", vec![total(QuotaMode::Whole, 60, 50)]), NOW_MS);
    assert_eq!(again.counters[0].counter_key, first.counters[0].counter_key);
    assert_eq!(again.counters[0].left, 20);
}

#[test]
fn a_batch_opens_a_counter_for_each_text_of_labels() {
    let limiter = Limiter::default();
    let mut rule = init("", "", vec![total(QuotaMode::Whole, 1, 5)]);
    let labels = ["x".to_owned(), "y".to_owned()];
    rule.target.as_mut().expect("given").labels_list = labels.to_vec();
    let no_labels = init("", "", vec![total(QuotaMode::Whole, 1, 5)]);
    let ask = |request: Vec<RateLimitInitRequest>, client_id: &str| {
        let batch = RateLimitBatchInitRequest { request, client_id: client_id.to_owned() };
        let request = RateLimitRequest {
            cmd: RateLimitCmd::BatchInit.into(),
            rate_limit_batch_init_request: Some(batch),
            ..Default::default()
        };
        limiter.answer(request, NOW_MS).rate_limit_batch_init_response.expect("an answer")
    };
    let response = ask(vec![rule.clone(), no_labels], "a");
    assert_eq!((response.code, response.result.len()), (200_000, 2));
    let shown: Vec<_> = response.result[0].counters.iter().map(|it| &*it.labels).collect();
    assert_eq!(shown, ["x", "y"]);
    assert_eq!(response.result[1].code, LimiterCode::InvalidLabels as u32);
    assert_eq!(limiter.counters(), 2);
    assert_eq!(ask(Vec::new(), "a").code, LimiterCode::InvalidBatch as u32);
    assert_eq!(ask(vec![rule.clone()], "").code, LimiterCode::InvalidClientId as u32);
    let many = vec!["z".to_owned(); OPENINGS_MAX + 1];
    rule.target.as_mut().expect("given").labels_list = many;
    assert_eq!(ask(vec![rule], "a").code, LimiterCode::TooManyCounters as u32);
}

#[test]
fn invalid_requests_have_the_codes_of_the_protocol() {
    let limiter = Limiter::default();
    let good = || init("a", "", vec![total(QuotaMode::Whole, 1, 5)]);
    let with = |change: fn(&mut RateLimitInitRequest)| {
        let mut request = good();
        change(&mut request);
        opened(&limiter, request, NOW_MS).code
    };
    assert_eq!(with(|it| it.client_id.clear()), 400_203);
    assert_eq!(with(|it| it.target = None), 400_201);
    assert_eq!(with(|it| it.totals.clear()), 400_204);
    assert_eq!(with(|it| it.totals[0].duration = 0), 400_205);
    assert_eq!(with(|it| it.slide_count = SLIDES_MAX + 1), 400_206);
    assert_eq!(with(|it| it.mode = messages::Mode::BatchShare.into()), 400_207);
    let client = opened(&limiter, good(), NOW_MS);
    let key = client.counters[0].counter_key;
    let code =
        |client_key, uses: &[(u32, u32)], now_ms| reported(&limiter, client_key, uses, now_ms).code;
    assert_eq!(code(0, &[(key, 1)], NOW_MS), 400_213);
    assert_eq!(code(client.client_key, &[], NOW_MS), 400_211);
    assert_eq!(code(client.client_key, &[(0, 1)], NOW_MS), 400_214);
    assert_eq!(code(client.client_key, &[(key, 1)], 0), 400_212);
    assert_eq!(code(client.client_key, &[(key + 1, 1)], NOW_MS), 404_001);
    assert_eq!(code(client.client_key + 1, &[(key, 1)], NOW_MS), 404_002);
}

#[test]
fn a_flood_of_counters_is_bounded_and_passes() {
    let limiter = Limiter::default();
    let labels = "x".repeat(512 * 1024);
    let mut refused = 0;
    for number in 0..200 {
        let text = format!("{labels}{number}");
        let response =
            opened(&limiter, init("a", &text, vec![total(QuotaMode::Whole, 1, 5)]), NOW_MS);
        refused += u32::from(response.code == LimiterCode::TooManyCounters as u32);
    }
    assert!((60..140).contains(&refused), "{refused}");
    let later = NOW_MS + 100_000;
    let after = opened(&limiter, init("b", "", vec![total(QuotaMode::Whole, 1, 5)]), later);
    assert_eq!((after.code, limiter.counters()), (200_000, 1));
    assert!(limiter.0.lock().expect("not poisoned").bytes() < 4_096);
}
