//! Lifetimes by tables of headers. The answers arrive at noon of 14 November 2023, UTC.

use super::*;

const NOON_MS: u64 = 1_699_963_200_000;
const NOON: &str = "Tue, 14 Nov 2023 12:00:00 GMT";
/// No lifetime where the answer is silent, as `cache_control` has it.
const STRICT: Policy = Policy { silent_ms: None, most_ms: None, guess_most_ms: 300_000 };

fn fields(status: u16, head: &str) -> Fields {
    let lines: Vec<(&str, &str)> = head.lines().filter_map(|line| line.split_once(": ")).collect();
    Fields::read(status, |visit| {
        lines.iter().for_each(|(name, value)| visit(name.as_bytes(), value.as_bytes()));
    })
}

fn life(status: u16, head: &str, policy: Policy) -> Option<Life> {
    fields(status, head).life(Times { asked_ms: NOON_MS, answered_ms: NOON_MS }, policy)
}

/// Seconds in which a 200 is fresh after its arrival; `None` if it is not stored.
fn fresh_s(head: &str) -> Option<u64> {
    let Life { ttl_ms, age_ms } = life(200, head, STRICT)?;
    Some(ttl_ms.saturating_sub(age_ms) / 1_000)
}

#[test]
fn an_answer_names_its_lifetime() {
    for (head, expected) in [
        ("", None),
        ("Cache-Control: public", None),
        ("Cache-Control: max-age=60", Some(60)),
        ("Cache-Control: MaX-aGe=60", Some(60)),
        ("Cache-Control: max-age=0", None),
        ("Cache-Control: max-age=-60", None),
        ("Cache-Control: max-age='60'", None),
        ("Cache-Control: max-age=60, s-maxage=1", Some(1)),
        ("Cache-Control: max-age=60\nCache-Control: s-maxage=1", Some(1)),
        ("Cache-Control: max-age=1, s-maxage=60", Some(60)),
        ("Expires: Tue, 14 Nov 2023 12:01:00 GMT", Some(60)),
        ("Expires: Tue, 14 Nov 2023 11:59:00 GMT", None),
        ("Expires: 0", None),
        ("Expires: Tue, 14 Nov 2023 12:01:00 UTC", None),
        ("Expires: Tue, 14 Nov 2023 12:01:00 GMT\nExpires: Tue, 14 Nov 2023 12:02:00 GMT", None),
        // Counted from the answer's own date, whatever the clocks say.
        ("Date: Tue, 14 Nov 2023 12:00:30 GMT\nExpires: Tue, 14 Nov 2023 12:01:00 GMT", Some(30)),
        ("Date: Tue, 14 Nov 2023 12:02:00 GMT\nExpires: Tue, 14 Nov 2023 12:01:00 GMT", None),
        ("Date: noon\nExpires: Tue, 14 Nov 2023 12:01:00 GMT", Some(60)),
        ("Cache-Control: max-age=60\nExpires: 0", Some(60)),
        ("Cache-Control: max-age=0\nExpires: Tue, 14 Nov 2023 12:01:00 GMT", None),
        ("X-Accel-Expires: 7\nCache-Control: max-age=60\nAge: 50", Some(7)),
        ("X-Accel-Expires: @1699963207\nCache-Control: max-age=60", Some(7)),
        ("X-Accel-Expires: 0\nCache-Control: max-age=60\nETag: \"a\"", None),
        ("X-Accel-Expires: soon\nCache-Control: max-age=60", Some(60)),
    ] {
        assert_eq!(fresh_s(head), expected, "{head}");
    }
}

#[test]
fn age_on_arrival_is_counted() {
    for (age, expected) in [
        ("Age: 20", 40),
        ("Age: abc", 60),
        ("Age: -20", 60),
        ("Age: 20.0", 60),
        ("Age: 20, 0", 40),
        ("Age: 0, 20", 60),
        ("Age: 20\nAge: 0", 40),
        ("Age: 0\nAge: 20", 60),
    ] {
        assert_eq!(fresh_s(&format!("Cache-Control: max-age=60\n{age}")), Some(expected), "{age}");
    }
    for age in ["60", "2147483647", "2147483648", "99999999999999999999999"] {
        assert_eq!(fresh_s(&format!("Cache-Control: max-age=60\nAge: {age}")), None, "{age}");
    }
    let head = format!("Date: {NOON}\nExpires: Tue, 14 Nov 2023 12:01:00 GMT\nAge: 70");
    assert_eq!(fresh_s(&head), None);
    let times = Times { asked_ms: NOON_MS - 5_000, answered_ms: NOON_MS };
    let slow = fields(200, "Cache-Control: max-age=60\nAge: 20").life(times, STRICT);
    assert_eq!(slow, Some(Life { ttl_ms: 60_000, age_ms: 25_000 }));
}

#[test]
fn lifetimes_are_guessed_only_of_statuses_that_allow_it() {
    let day_old = "Last-Modified: Mon, 13 Nov 2023 12:00:00 GMT";
    let guess_ms = |status, head: &str| life(status, head, STRICT).map(|life| life.ttl_ms);
    for status in [200, 203, 204, 404, 405, 410, 414, 501] {
        assert_eq!(guess_ms(status, day_old), Some(300_000), "{status}");
    }
    for status in [201, 202, 302, 403, 502, 503, 504, 599] {
        assert_eq!(guess_ms(status, day_old), None, "{status}");
    }
    assert_eq!(guess_ms(599, &format!("{day_old}\nCache-Control: public")), Some(300_000));
    assert_eq!(guess_ms(200, "Last-Modified: Tue, 14 Nov 2023 11:59:00 GMT"), Some(6_000));
    assert_eq!(guess_ms(200, "Last-Modified: Tue, 14 Nov 2023 12:01:00 GMT"), Some(0));
    assert_eq!(guess_ms(200, ""), None);
}

#[test]
fn a_configured_time_serves_silent_answers_and_bounds_the_others() {
    let bounded = Policy { silent_ms: Some(300_000), most_ms: Some(300_000), guess_most_ms: 0 };
    for (head, expected) in [
        ("", Some(300)),
        ("Age: 1000", Some(300)),
        ("Cache-Control: max-age=60", Some(60)),
        ("Cache-Control: max-age=3600", Some(300)),
        ("Cache-Control: max-age=0", None),
        ("Cache-Control: no-cache", None),
        ("Expires: 0", None),
    ] {
        let life = life(200, head, bounded);
        let fresh_s = life.map(|life| life.ttl_ms.saturating_sub(life.age_ms) / 1_000);
        assert_eq!(fresh_s, expected, "{head}");
    }
}

#[test]
fn storing_is_prohibited_by_directives_and_some_statuses() {
    for (status, directives, expected) in [
        (200, "max-age=60", true),
        (200, "max-age=60, private", false),
        (200, "max-age=60, pRiVaTe", false),
        (200, "max-age=60, private=\"a\"", true),
        (200, "max-age=60, no-store", false),
        (200, "max-age=60, No-StOrE", false),
        (200, "max-age=60, x=\"no-store\"", true),
        (200, "max-age=60, no-store, must-understand", true),
        (599, "max-age=60, no-store, must-understand", false),
        (599, "max-age=60, must-understand", false),
        (599, "max-age=60", true),
        (206, "max-age=60", false),
        (304, "max-age=60", false),
        (412, "max-age=60", false),
        (416, "max-age=60", false),
    ] {
        let head = format!("Cache-Control: {directives}");
        assert_eq!(life(status, &head, STRICT).is_some(), expected, "{status} {directives}");
    }
}

#[test]
fn an_answer_of_no_lifetime_is_stored_to_be_revalidated() {
    for (head, expected) in [
        ("Cache-Control: no-cache", None),
        ("Cache-Control: no-cache\nETag: \"a\"", Some(0)),
        ("Cache-Control: no-cache, max-age=60\nETag: \"a\"", Some(0)),
        ("Cache-Control: no-cache=\"a\", max-age=60", Some(60)),
        ("Cache-Control: max-age=0\nLast-Modified: Tue, 14 Nov 2023 11:00:00 GMT", Some(0)),
        ("Cache-Control: no-store\nETag: \"a\"", None),
    ] {
        assert_eq!(fresh_s(head), expected, "{head}");
    }
}

#[test]
fn a_targeted_field_replaces_the_others() {
    for (head, expected) in [
        ("CDN-Cache-Control: max-age=60", Some(60)),
        ("CDN-Cache-Control: max-age=60\nAge: 70", None),
        ("CDN-Cache-Control: max-age=60\nExpires: 0", Some(60)),
        ("CDN-Cache-Control: max-age=0\nExpires: Tue, 14 Nov 2023 12:01:00 GMT", None),
        ("CDN-Cache-Control: max-age=1\nCache-Control: max-age=60", Some(1)),
        ("CDN-Cache-Control: max-age=60\nCache-Control: no-store", Some(60)),
        ("CDN-Cache-Control: private\nCache-Control: max-age=60", None),
        ("CDN-Cache-Control: no-cache\nCache-Control: max-age=60", None),
        ("CDN-Cache-Control: no-store\nCache-Control: max-age=60", None),
        ("CDN-Cache-Control: max-age=60, &&&\nCache-Control: no-store", None),
        ("CDN-Cache-Control: max-age=\"60\"\nCache-Control: no-store", None),
        ("CDN-Cache-Control: max-age=\"60\"\nCache-Control: max-age=5", Some(5)),
    ] {
        assert_eq!(fresh_s(head), expected, "{head}");
    }
}

#[test]
fn stale_use_is_what_an_answer_permits() {
    for (directives, is_prohibited, if_error_s) in [
        ("max-age=2", false, 0),
        ("max-age=2, stale-if-error=60", false, 60),
        ("max-age=2, must-revalidate, stale-if-error=60", true, 0),
        ("max-age=2, proxy-revalidate", true, 0),
        ("s-maxage=2", true, 0),
        ("no-cache", true, 0),
        ("no-cache=\"a\"", false, 0),
    ] {
        let found = fields(200, &format!("Cache-Control: {directives}")).stale_use();
        assert_eq!(found, StaleUse { is_prohibited, if_error_s }, "{directives}");
    }
}
