//! Known signatures of both versions, and every way in which one is refused. Also the possible uses
//! of an intercepted signature.

use super::*;
use tollhouse_shenyu::model::{AuthParameter, AuthPath};

const NOW_MS: i64 = 1_700_000_000_000;
const V1_SIGN: &str = "912181052A1233D2F827DBCE9C4BB92F";
const V2_MD5: &str = "eyJhbGciOiJNRDUiLCJhcHBLZXkiOiJBMSIsInRpbWVzdGFtcCI6IjE3MDAwMDAwMDAwMDAifQ==\
    .43002BB38AFB927EB620BE8928EED07A";

fn application() -> AppAuth {
    AppAuth {
        app_key: "A1".into(),
        app_secret: "S1".into(),
        open: false,
        param_data_list: vec![AuthParameter {
            app_name: Some("/order".into()),
            app_param: Some("gold".into()),
        }],
        ..AppAuth::default()
    }
}

fn v1() -> SignedRequest<'static> {
    SignedRequest {
        headers: SignHeaders {
            version: "1.0.0",
            app_key: "A1",
            timestamp: "1700000000000",
            sign: V1_SIGN,
            authorization: "",
        },
        path: "/order/findById",
        query: None,
        raw_query: "",
        body: None,
        module: "/order",
        now_ms: NOW_MS,
    }
}

fn v2(authorization: &str) -> SignedRequest<'_> {
    SignedRequest {
        headers: SignHeaders { version: "2.0.0", authorization, ..SignHeaders::default() },
        query: Some("id=1"),
        ..v1()
    }
}

fn check(auth: AppAuth, signed: &SignedRequest<'_>) -> Result<(String, Option<String>), Answer> {
    let (applications, problems) = Applications::build(&[auth]);
    assert_eq!(problems, []);
    let signer = applications.check(signed, DEFAULT_DELAY_MINUTES)?;
    Ok((signer.app_key.to_owned(), signer.app_param.map(str::to_owned)))
}

fn token(alg: &str, sign: &str) -> String {
    let text = format!(r#"{{"alg":"{alg}","appKey":"A1","timestamp":"1700000000000"}}"#);
    format!("{}.{sign}", STANDARD.encode(text))
}

#[test]
fn known_signatures_pass() {
    let signer = Ok(("A1".to_owned(), Some("gold".to_owned())));
    assert_eq!(check(application(), &v1()), signer);
    assert_eq!(check(application(), &v2(V2_MD5)), signer);
    let hs256 = token("HS256", "A4B8ECF0668820D77662ED804C8565DFB4E291A95E52D04755F89804ABA36F70");
    assert_eq!(check(application(), &v2(&hs256)), signer);
}

#[test]
fn parameters_and_bodies_are_signed_where_the_rule_says_so_and_not_otherwise() {
    let signed = SignedRequest {
        raw_query: "id=1&id=2&a=b%20c&sign=x&flag",
        body: Some(br#"{"name":"x","count":3,"path":"/other","none":null}"#),
        ..v1()
    };
    let own = "path/order/findByIdtimestamp1700000000000version1.0.0";
    let text = text_v1(&signed).unwrap();
    assert_eq!(text, format!("ab%20ccount3flagnullid1namex{own}"));
    let text = text_v1(&SignedRequest { body: Some(b""), ..signed }).unwrap();
    assert_eq!(text, format!("ab%20cflagnullid1{own}"), "the query without a body");
    assert_eq!(text_v1(&SignedRequest { body: None, ..signed }).unwrap(), own);
    assert_eq!(text_v1(&SignedRequest { body: Some(b"[1]"), ..v1() }), None);
    let signer = check(application(), &SignedRequest { raw_query: "x=1", ..v1() });
    assert!(signer.is_ok(), "the query is not signed: {signer:?}");
    let with_body = SignedRequest { raw_query: "x=1", body: Some(b""), ..v1() };
    assert_eq!(check(application(), &with_body), Err(UNEQUAL));
}

#[test]
fn the_body_is_part_of_the_second_version() {
    let signed = SignedRequest { body: Some(b"{}"), ..v2(V2_MD5) };
    assert_eq!(check(application(), &signed), Err(UNEQUAL));
}

#[test]
fn an_overheard_signature_is_good_for_no_other_path_or_time() {
    let later = NOW_MS + 3_600_000;
    for body in [None, Some(&b""[..])] {
        let replayed = SignedRequest {
            headers: SignHeaders { timestamp: "1700003600000", ..v1().headers },
            path: "/order/delete",
            raw_query: "path=/order/findById&timestamp=1700000000000",
            body,
            now_ms: later,
            ..v1()
        };
        assert_eq!(check(application(), &replayed), Err(UNEQUAL));
    }
    assert_eq!(
        check(application(), &SignedRequest { now_ms: later, ..v1() }),
        Err(Answer::SignExpired(5))
    );
}

#[test]
fn what_is_wrong_with_headers_is_said() {
    let headers = |edit: fn(&mut SignHeaders<'static>)| {
        let mut signed = v1();
        edit(&mut signed.headers);
        signed
    };
    let cases = [
        (headers(|headers| headers.version = ""), BAD_VERSION),
        (headers(|headers| headers.version = "3.0.0"), BAD_VERSION),
        (headers(|headers| headers.app_key = " "), INCOMPLETE),
        (headers(|headers| headers.timestamp = ""), INCOMPLETE),
        (headers(|headers| headers.timestamp = "now"), INCOMPLETE),
        (headers(|headers| headers.timestamp = "123456789012345678901234567890"), INCOMPLETE),
        (headers(|headers| headers.timestamp = "-1"), Answer::SignExpired(5)),
        (headers(|headers| headers.timestamp = "-9223372036854775808"), Answer::SignExpired(5)),
        (headers(|headers| headers.sign = ""), INCOMPLETE),
        (headers(|headers| headers.app_key = "A2"), NO_APP),
        (headers(|headers| headers.sign = "912181052A1233D2F827DBCE9C4BB92E"), UNEQUAL),
        (headers(|headers| headers.sign = "912181052a1233d2f827dbce9c4bb92f"), UNEQUAL),
    ];
    for (signed, refusal) in cases {
        assert_eq!(check(application(), &signed), Err(refusal), "{:?}", signed.headers);
    }
}

#[test]
fn tokens_that_are_none_are_refused() {
    let number = STANDARD.encode(r#"{"alg":"MD5","appKey":"A1","timestamp":1700000000000}"#);
    let tokens = [
        String::new(),
        "x".into(),
        "x.".into(),
        format!("{}.X", STANDARD.encode("not JSON")),
        format!("{}.X", STANDARD.encode("[]")),
        format!("{}.X", STANDARD.encode("7")),
        token("none", "X"),
        token("none", ""),
        format!("{number}.X"),
        token("MD4", "X"),
        token("MD5", ""),
        token("MD5", &"X".repeat(TOKEN_BYTES_MAX)),
    ];
    for token in tokens {
        assert_eq!(check(application(), &v2(&token)), Err(INCOMPLETE), "{token}");
    }
    for (token, byte) in [("!.x", b'!'), ("a-b_.x", b'-')] {
        let refused = check(application(), &v2(token));
        assert_eq!(refused, Err(Answer::SignNotBase64(byte)), "in Java's words");
    }
    assert_eq!(check(application(), &v2("a=a=.x")), Err(INCOMPLETE));
    assert_eq!(check(application(), &v2(&token("HS512", "X"))), Err(UNEQUAL));
    assert_eq!(check(application(), &v2(&token("HMD5", "X"))), Err(UNEQUAL));
}

#[test]
fn applications_are_held_to_their_paths() {
    let path = |path: &str, enabled| AuthPath { app_name: None, path: path.into(), enabled };
    let held = |paths| AppAuth { open: true, path_data_list: paths, ..application() };
    let cases = [
        (vec![path("/order/**", true)], true),
        (vec![path("/order/**", false)], false),
        (vec![path("/user/**", true)], false),
        (vec![], false),
    ];
    for (paths, passes) in cases {
        let checked = check(held(paths), &v1());
        assert_eq!(checked.err(), (!passes).then_some(NO_PATH));
    }
    let off = AppAuth { enabled: false, ..application() };
    assert_eq!(check(off, &v1()), Err(NO_APP));
}

#[test]
fn applications_that_protect_nothing_are_reported() {
    let path = AuthPath { app_name: None, path: "/{a:(}".into(), enabled: true };
    let all = [
        AppAuth { app_secret: String::new(), ..application() },
        AppAuth { app_key: "A2".into(), path_data_list: vec![path], open: true, ..application() },
    ];
    let (applications, problems) = Applications::build(&all);
    assert_eq!(problems.iter().map(|problem| &*problem.id).collect::<Vec<_>>(), ["A1", "A2"]);
    assert_eq!(applications.check(&v1(), 5), Err(NO_APP));
}
