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

/// A caller at 10.0.0.`host`, without a token.
fn owner(host: u8) -> Owner {
    Owner::new(Some([10, 0, 0, host].into()), None)
}

fn opened(limiter: &Limiter, request: RateLimitInitRequest, now_ms: u64) -> RateLimitInitResponse {
    opened_by(&owner(1), limiter, request, now_ms)
}

fn opened_by(
    owner: &Owner,
    limiter: &Limiter,
    request: RateLimitInitRequest,
    now_ms: u64,
) -> RateLimitInitResponse {
    let request = RateLimitRequest { rate_limit_init_request: Some(request), ..Default::default() };
    limiter.answer(owner, request, now_ms).rate_limit_init_response.expect("an answer to INIT")
}

fn reported(
    limiter: &Limiter,
    client_key: u32,
    uses: &[(u32, u32)],
    now_ms: u64,
) -> RateLimitReportResponse {
    reported_by(&owner(1), limiter, client_key, (uses, now_ms))
}

fn reported_by(
    owner: &Owner,
    limiter: &Limiter,
    client_key: u32,
    (uses, now_ms): (&[(u32, u32)], u64),
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
    let response = limiter.answer(owner, request, now_ms);
    response.rate_limit_report_response.expect("an answer to ACQUIRE")
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
        limiter
            .answer(&owner(1), request, NOW_MS)
            .rate_limit_batch_init_response
            .expect("an answer")
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
    assert_eq!(with(|it| it.totals[0].duration = 86_400), 200_000);
    assert_eq!(with(|it| it.totals[0].duration = 86_401), 400_205);
    assert_eq!(with(|it| it.totals[0].duration = u32::MAX), 400_205);
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
        let request = init("a", &format!("{labels}{number}"), vec![total(QuotaMode::Whole, 1, 5)]);
        let response = opened_by(&owner(number), &limiter, request, NOW_MS);
        refused += u32::from(response.code == LimiterCode::TooManyCounters as u32);
    }
    assert!((60..140).contains(&refused), "{refused}");
    let later = NOW_MS + 100_000;
    let after = opened(&limiter, init("b", "", vec![total(QuotaMode::Whole, 1, 5)]), later);
    assert_eq!((after.code, limiter.counters()), (200_000, 1));
    assert!(limiter.0.lock().expect("not poisoned").bytes() < 4_096);
}

#[test]
fn another_callers_counter_key_is_unknown() {
    let limiter = Limiter::default();
    let totals = || vec![total(QuotaMode::Whole, 60, 100)];
    let victim = opened_by(&owner(1), &limiter, init("a", "", totals()), NOW_MS);
    let other = opened_by(&owner(2), &limiter, init("b", "other", totals()), NOW_MS);
    let (key, own) = (victim.counters[0].counter_key, other.counters[0].counter_key);
    let report =
        |uses: &[(u32, u32)]| reported_by(&owner(2), &limiter, other.client_key, (uses, NOW_MS));
    assert_eq!(report(&[(own, 7), (key, 100)]).code, LimiterCode::NotFoundCounter as u32);
    assert_eq!(report(&[(own, 1)]).quota_lefts[0].left, 99, "a refused report counts nowhere");
    let lefts = reported(&limiter, victim.client_key, &[(key, 1)], NOW_MS).quota_lefts;
    assert_eq!((lefts[0].left, lefts[0].client_count), (99, 1));
}

#[test]
fn another_callers_client_key_is_unknown() {
    let limiter = Limiter::default();
    let with_token = |token| Owner::new(Some([10, 0, 0, 1].into()), Some(token));
    let request = || init("a", "", vec![total(QuotaMode::Whole, 60, 100)]);
    let victim = opened_by(&with_token("secret"), &limiter, request(), NOW_MS);
    let key = victim.counters[0].counter_key;
    let report = |owner: &Owner| {
        reported_by(owner, &limiter, victim.client_key, (&[(key, 10)], NOW_MS)).code
    };
    for stranger in [owner(1), with_token("guess"), Owner::new(Some([10, 0, 0, 2].into()), None)] {
        assert_eq!(report(&stranger), LimiterCode::NotFoundClient as u32, "{stranger:?}");
        let opened = opened_by(&stranger, &limiter, request(), NOW_MS);
        assert_eq!(opened.code, 200_000);
        assert_ne!(opened.client_key, victim.client_key, "the same id is another client");
    }
    assert_eq!(report(&with_token("secret")), 200_000);
    let lefts = opened_by(&with_token("secret"), &limiter, request(), NOW_MS).counters;
    assert_eq!(lefts[0].left, 90);
}

/// Opens counters of a day until the client is refused, and returns their number.
fn fill(owner: &Owner, limiter: &Limiter, client: &str, now_ms: u64) -> u32 {
    let padding = "x".repeat(16 * 1024);
    for number in 0.. {
        let labels = format!("{client} {owner:?} {now_ms} {number} {padding}");
        let request = init(client, &labels, vec![total(QuotaMode::Whole, 86_400, 5)]);
        let code = opened_by(owner, limiter, request, now_ms).code;
        if code != 200_000 {
            assert_eq!(code, LimiterCode::TooManyCounters as u32);
            return number;
        }
    }
    unreachable!("the numbers do not end");
}

#[test]
fn a_full_client_takes_no_place_of_others() {
    let limiter = Limiter::default();
    let request = |client| init(client, "shared", vec![total(QuotaMode::Whole, 1, 5)]);
    let full = fill(&owner(1), &limiter, "a", NOW_MS);
    assert!(full > 200, "{full}");
    assert_eq!(opened(&limiter, request("b"), NOW_MS).code, 200_000, "another client there");
    assert_eq!(fill(&owner(1), &limiter, "b", NOW_MS), full);
    assert_eq!(fill(&owner(1), &limiter, "c", NOW_MS), 0, "the address has used its share");
    assert_eq!(opened_by(&owner(2), &limiter, request("a"), NOW_MS).code, 200_000);
    assert_eq!(fill(&owner(2), &limiter, "a", NOW_MS), full);
}

#[test]
fn idle_counters_of_long_windows_go_when_their_client_needs_the_place() {
    let limiter = Limiter::default();
    let day = |labels| init("z", labels, vec![total(QuotaMode::Whole, 86_400, 5)]);
    let quiet = opened_by(&owner(2), &limiter, day(""), NOW_MS);
    let key = quiet.counters[0].counter_key;
    reported_by(&owner(2), &limiter, quiet.client_key, (&[(key, 3)], NOW_MS));
    let full = fill(&owner(1), &limiter, "a", NOW_MS);
    assert_eq!(fill(&owner(1), &limiter, "b", NOW_MS), full);
    let later = NOW_MS + 10 * 60_000;
    let few = fill(&owner(1), &limiter, "c", later - 2_000);
    assert!(few < 3, "the share is in use but for the clients that have left: {few}");
    let many = fill(&owner(1), &limiter, "d", later);
    assert!(many > full / 2, "{many}");
    let again = opened_by(&owner(2), &limiter, day(""), later);
    assert_eq!(again.counters[0].left, 2, "a small client keeps the use of its day");
}

#[test]
fn reopening_with_other_slides_keeps_the_use() {
    let limiter = Limiter::default();
    let with = |client, slide_count| RateLimitInitRequest {
        slide_count,
        ..init(client, "", vec![total(QuotaMode::Whole, 60, 100)])
    };
    let first = opened(&limiter, with("a", 1), NOW_MS);
    let key = first.counters[0].counter_key;
    reported(&limiter, first.client_key, &[(key, 30)], NOW_MS);
    for (client, slides) in [("a", 6), ("b", 60), ("b", 0)] {
        let again = opened_by(&owner(2), &limiter, with(client, slides), NOW_MS);
        assert_eq!((again.counters[0].counter_key, again.counters[0].left), (key, 70), "{slides}");
    }
}

#[test]
fn the_smallest_amount_of_all_clients_holds() {
    let limiter = Limiter::default();
    let left = |client: &str, mode, amount, now_ms| {
        let request = init(client, "", vec![total(mode, 5, amount)]);
        opened(&limiter, request, now_ms).counters[0].left
    };
    let whole = |client, amount, now_ms| left(client, QuotaMode::Whole, amount, now_ms);
    assert_eq!(whole("a", 100, NOW_MS), 100);
    assert_eq!(whole("a", 200, NOW_MS), 200, "alone");
    assert_eq!(whole("a", 100, NOW_MS), 100, "alone");
    assert_eq!(whole("b", 1_000_000, NOW_MS), 100, "another raises nothing");
    assert_eq!(left("b", QuotaMode::Divide, 1_000_000, NOW_MS), 100, "nor by another mode");
    assert_eq!(whole("b", 40, NOW_MS), 40, "a lowered rule holds at once");
    assert_eq!(whole("b", 300, NOW_MS), 40);
    assert_eq!(whole("b", 300, NOW_MS + 1_000), 100);
    assert_eq!(whole("a", 300, NOW_MS + 1_000), 100);
    assert_eq!(whole("a", 300, NOW_MS + 2_000), 300, "all have the raised rule");
    assert_eq!(whole("a", 10, NOW_MS + 2_000), 10);
    assert_eq!(whole("b", 300, NOW_MS + 12_000), 300, "the other is silent");
}

#[test]
fn a_client_inherits_the_cost_of_a_counter_whose_opener_left() {
    let limiter = Limiter::default();
    let request = |client| init(client, "", vec![total(QuotaMode::Whole, 86_400, 5)]);
    opened_by(&owner(1), &limiter, request("a"), NOW_MS);
    let other = opened_by(&owner(2), &limiter, request("b"), NOW_MS);
    let key = other.counters[0].counter_key;
    let report =
        |now_ms| reported_by(&owner(2), &limiter, other.client_key, (&[(key, 1)], now_ms)).code;
    for minute in 1..4 {
        assert_eq!(report(NOW_MS + minute * 59_000), 200_000);
    }
    let table = limiter.0.lock().expect("not poisoned");
    assert_eq!(table.bytes_at(&owner(1)), 0);
    assert_eq!(table.bytes_at(&owner(2)), table.bytes());
}
