//! Tests of both forms: the values that each opens, and the fields that are sealed.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Owner without an object: the fields belong to a plugin alone.
const OWNER: Owner<'_> = Owner { object: "", part: "p" };

/// Default keyring of APISIX.
const RING: [&str; 2] = ["qeddd145sfvddff3", "edd1c9f0985e76a2"];
const KEY_256: &str = "0123456789abcdefFEDCBA9876543210";
const PLACE: &str = "key-auth.key";

fn ring(keys: &[&str]) -> Keyring {
    Keyring::new(keys.iter().copied()).expect("the keys are of a right length")
}

fn apisix(keys: &[&str]) -> Keyring {
    ring(keys).with_form(Form::Apisix)
}

/// Expected values computed by `openssl enc -aes-128-cbc` (`-aes-256-cbc`) `-K … -iv … -base64 -A`.
#[test]
fn the_other_form_is_the_one_that_apisix_reads() {
    let table = [
        (RING[0], "", "CEGh183MAO3X8/ZV2jzHeA=="),
        (RING[0], "a", "dpwomMlEsHH2L7wSUi6YiQ=="),
        (RING[0], "very secret value", "betPmLSTbURBvbcnnOZ2rpk5lbijWpjqRBz8NrqYWNE="),
        (RING[0], "0123456789abcdef", "qpxu8KrwHqjW92zgZHFDOLQA3RNdV40A6RLotmKQPVw="),
        (RING[1], "", "vA4BfcVo+wewoRJDl1bmfA=="),
        (RING[1], "a", "m+QIbBDbnhUL4al2Wc8BCw=="),
        (RING[1], "very secret value", "sieuLy/L01Vqc5zhLSoTjAZMmT3N5x9nIYmQyP+103s="),
        (RING[1], "0123456789abcdef", "uB5lc7bO3T325sSYkKpZM6bQ2Yb4ZwCTwDljNDbfVIo="),
        (KEY_256, "very secret value", "lr9nQJTh3H4EFDnFDJkQEXxKijDe+CpwcoyLrpEmfHE="),
    ];
    for (key, plain, encrypted) in table {
        assert_eq!(apisix(&[key]).seal(plain, PLACE), encrypted, "{plain}");
        assert_eq!(apisix(&[key]).open(encrypted, PLACE), Opened::Current(plain.into()));
        for ring in [ring(&[key]), apisix(&[KEY_256, RING[1], RING[0]])] {
            let found = ring.hidden_in(encrypted, PLACE);
            assert_eq!(found.as_deref(), Some(plain), "any key and form opens it");
        }
    }
    let [other, plain] = [apisix(&RING[1..]), ring(&RING)];
    let lost = Opened::Unopened(Certainty::Likely);
    assert_eq!(other.open("dpwomMlEsHH2L7wSUi6YiQ==", PLACE), lost);
    for text in ["", "a", "plain text", "aGVsbG8=", "dpwomMlEsHH2L7wSUi6YiQ", "é"] {
        assert_eq!(plain.open(text, PLACE), Opened::Plain, "{text}");
    }
}

#[test]
fn buckets_are_shared_by_those_who_share_a_key_and_by_nobody_else() {
    const COUNT: u32 = 4096;
    let [old, changed, other] = [ring(&[RING[0]]), ring(&[KEY_256, RING[0]]), ring(&[RING[1]])];
    let buckets =
        |ring: &Keyring, text: &str| -> Vec<u32> { ring.buckets(text.as_bytes(), COUNT).collect() };
    let mut met = 0;
    for number in 0..100 {
        let text = format!("credential {number}");
        let [old, changed, other] = [&old, &changed, &other].map(|ring| buckets(ring, &text));
        assert_eq!(changed[1..], old, "a new key in front takes none away");
        assert!(changed.iter().all(|bucket| *bucket < COUNT));
        met += usize::from(old == other);
    }
    assert!(met < 5, "another key has other buckets: {met} of 100 are the same");
    assert_ne!(buckets(&old, "a"), buckets(&old, "b"));
    let many = ring(&["0123456789abcdef"; 10]);
    assert_eq!(buckets(&many, "a").len(), BUCKET_KEYS, "old keys cost nothing");
}

#[test]
fn a_sealed_value_says_what_it_is_and_opens_for_its_key_and_place_alone() {
    let one = ring(&[KEY_256, RING[0]]);
    let sealed = one.seal("very secret", PLACE);
    let id = one.ids().next().expect("it has keys").to_owned();
    assert!(sealed.starts_with(&format!("tollhouse-sealed:1:{id}:")), "{sealed}");
    assert_ne!(sealed, one.seal("very secret", PLACE), "nobody sees that two are alike");
    let damaged = sealed.replace(&sealed[sealed.len() - 6..], "AAAAAA");
    let lost = Opened::Unopened(Certainty::Marked);
    let table = [
        (ring(&[KEY_256]), sealed.clone(), PLACE, Opened::Current("very secret".into())),
        (ring(&[RING[0], KEY_256]), sealed.clone(), PLACE, Opened::Stale("very secret".into())),
        (apisix(&[KEY_256]), sealed.clone(), PLACE, Opened::Stale("very secret".into())),
        (ring(&RING), sealed.clone(), PLACE, lost.clone()),
        (one.clone(), sealed.clone(), "csrf.key", lost.clone()),
        (one.clone(), damaged, PLACE, lost.clone()),
        (one.clone(), sealed[..40].to_owned(), PLACE, lost.clone()),
        (one.clone(), sealed.replace(":1:", ":2:"), PLACE, lost.clone()),
        (one.clone(), "tollhouse-sealed:".to_owned(), PLACE, lost.clone()),
        (one.clone(), format!("tollhouse-sealed:1:{id}:é"), PLACE, lost),
        (one, "very secret".to_owned(), PLACE, Opened::Plain),
    ];
    for (ring, text, place, expected) in table {
        assert_eq!(ring.open(&text, place), expected, "{text} at {place}");
    }
}

#[test]
fn rings_are_checked() {
    let none: [&str; 0] = [];
    assert_eq!(Keyring::new(none), Err(KeyringError::Empty));
    assert_eq!(Keyring::new(vec![RING[0]; 33]), Err(KeyringError::TooMany(33)));
    let error = Keyring::new([RING[0], "short"]).expect_err("it is too short");
    assert_eq!(error.to_string(), "a key is 16 or 32 bytes long, key 2 has 5");
    assert_eq!(format!("{:?}", ring(&RING)), "Keyring(2 keys, ***)");
}

#[test]
fn generated_keys_differ_and_can_be_kept_as_text() {
    let one = Keyring::generate().expect("there are random numbers");
    let other = Keyring::generate().expect("there are random numbers");
    assert_ne!(one, other);
    let kept = Keyring::new(one.expose()).expect("its length is right");
    assert_eq!(kept.hidden_in(&one.seal("x", PLACE), PLACE).as_deref(), Some("x"));
    assert_eq!(one.expose().next().map(str::len), Some(32));
    assert!(kept.ids().eq(one.ids()) && !other.ids().eq(one.ids()));
}

#[test]
fn fields_are_sealed_where_they_stand() {
    let keyring = apisix(&RING);
    let plain = json!({
        "key": "k",
        "open": "o",
        "number": 7,
        "referred": "$secret://vault/1/a/b",
        "from_environment": "$env://NAME",
        "brokers": [{"sasl_config": {"user": "u", "password": "p"}}, {"host": "h"}],
        "auth": {"header": {"a": "1", "b": "2", "n": 3}},
        "list": ["x", ["y"], 1],
    });
    let fields = [
        "key",
        "number",
        "referred",
        "from_environment",
        "brokers.sasl_config.password",
        "auth.header",
        "list",
        "missing.field",
        "key.below",
    ];
    let mut conf = plain.clone();
    let sealing = seal_fields(&mut conf, OWNER, &fields, &keyring);
    assert_eq!((sealing.changed, sealing.sealed, sealing.unopened.len()), (6, 6, 0));
    let hidden = |text: &str| Value::from(keyring.seal(text, ""));
    let expected = json!({
        "key": hidden("k"),
        "open": "o",
        "number": 7,
        "referred": "$secret://vault/1/a/b",
        "from_environment": "$env://NAME",
        "brokers": [
            {"sasl_config": {"user": "u", "password": hidden("p")}}, {"host": "h"}
        ],
        "auth": {"header": {"a": hidden("1"), "b": hidden("2"), "n": 3}},
        "list": [hidden("x"), [hidden("y")], 1],
    });
    assert_eq!(conf, expected);
    let again = seal_fields(&mut conf, OWNER, &fields, &keyring);
    assert_eq!((again.changed, again.sealed), (0, 6), "what is sealed stays");
    assert_eq!(conf, expected);
    let marked = ring(&RING);
    assert_eq!(seal_fields(&mut conf, OWNER, &fields, &marked).changed, 6, "in the other form");
    assert!(sealed_field(&conf).is_some());
    for _ in 0..2 {
        assert_eq!(open_fields(&mut conf, OWNER, &fields, &keyring), [], "what is plain stays");
        assert_eq!(conf, plain);
    }
    assert_eq!(sealed_field(&conf), None);
}

#[test]
fn what_no_key_opens_stays_and_is_told() {
    let marked = ring(&[KEY_256]).seal("x", "p.key");
    let conf = json!({"key": marked, "list": [{"old": apisix(&[KEY_256]).seal("x", "")}]});
    let fields = ["key", "list.old"];
    let mut opened = conf.clone();
    let unopened: Vec<_> = open_fields(&mut opened, OWNER, &fields, &ring(&RING))
        .into_iter()
        .map(|it| (it.field, it.certainty))
        .collect();
    let expected =
        [("key".to_owned(), Certainty::Marked), ("list.old".to_owned(), Certainty::Likely)];
    assert_eq!((unopened.as_slice(), &opened), (&expected[..], &conf));
    let mut sealed = conf.clone();
    let sealing = seal_fields(&mut sealed, OWNER, &fields, &ring(&RING));
    assert_eq!((sealing.unopened.len(), &sealed["key"]), (1, &conf["key"]));
    assert_eq!(sealed_field(&conf["key"]).as_deref(), Some(""));
    assert_eq!(sealed_field(&json!({"a": [{"b": conf["key"]}]})).as_deref(), Some("a.b"));
}

proptest! {
    #[test]
    fn any_text_comes_back(letters in prop::collection::vec(any::<char>(), 0..80)) {
        let text: String = letters.into_iter().collect();
        for key in [RING[0], KEY_256] {
            for keyring in [ring(&[key]), apisix(&[key])] {
                let hidden = keyring.hidden_in(&keyring.seal(&text, PLACE), PLACE);
                prop_assert_eq!(hidden, Some(text.clone()));
            }
        }
        // Any result is valid; opening must not panic.
        let _ = ring(&RING).open(&text, PLACE);
    }
}

#[test]
fn a_value_opens_in_its_own_object_only_and_those_of_before_are_sealed_anew() {
    let keyring = ring(&RING);
    let owner = |object| Owner { object, part: "http-logger" };
    let sealed = owner("routes/1").seal("secret", "auth_header", &keyring);
    let open = |object, field, text: &str| owner(object).open(text, field, &keyring);
    let current = Opened::Current("secret".to_owned());
    assert_eq!(open("routes/1", "auth_header", &sealed), current);
    for (object, field) in [("routes/2", "auth_header"), ("routes/1", "uri"), ("", "auth_header")] {
        let expected = Opened::Unopened(Certainty::Marked);
        assert_eq!(open(object, field, &sealed), expected, "{object} {field}");
    }
    let before = keyring.seal("secret", "http-logger.auth_header");
    assert_eq!(open("routes/1", "auth_header", &before), Opened::Stale("secret".to_owned()));
    let mut conf = json!({"auth_header": before});
    assert_eq!(seal_fields(&mut conf, owner("routes/1"), &["auth_header"], &keyring).changed, 1);
    let text = conf["auth_header"].as_str().expect("a text");
    assert_eq!(open("routes/1", "auth_header", text), current);
}
