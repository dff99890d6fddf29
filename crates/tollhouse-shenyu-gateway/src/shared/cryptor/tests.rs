//! Bodies through rules of both plugins, and handles that cannot be used.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;

/// A private and a public key in base64.
struct Keys {
    private: String,
    public: String,
}

/// Keys of 512 and 1024 bits, made for these tests, each with a block that another implementation made of
/// `card 4711`.
const SMALL_KEYS: [(&str, &str, &str); 2] = [
    (
        "MIIBVAIBADANBgkqhkiG9w0BAQEFAASCAT4wggE6AgEAAkEA9u9QUHpBZYg7sEFnSXp2ZxNQDZAqPUHh/Qbw5E5QgLeE/pYF\
         Ta0y0pu8wUuXIM7zea7TLzK+0KWVehI+0XyzhwIDAQABAkABpnvM7eQ9/3kWpnlAPndIHRLt5EbD/gq6nC9D91oGYjA+4v/d\
         tTTNGJMtHIUydu++F3fOsO5SORmBVDWBMKrBAiEA/6hgGcVIqtV2ptEZeXN5mLufr/KPpPAF2LyPp313jjECIQD3Q/LZlcsZ\
         7lAtgCdqQIsBTSHmW8RosQkaAXnr2ALXNwIgZyQ+4Sa+km1cWSCy7lSwEfZgDlQFr71GHpK0QhZUTYECID16yJwvMYOuDINz\
         tNknWSimrAIh2REKy6+KpGzula47AiEAlUSr79G9+y+FFJYb20ABXWdKsEqlFKaXF6hEDUdiObM=",
        "MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAPbvUFB6QWWIO7BBZ0l6dmcTUA2QKj1B4f0G8OROUIC3hP6WBU2tMtKbvMFLlyDO\
         83mu0y8yvtCllXoSPtF8s4cCAwEAAQ==",
        "AGdsxJdvf9KxWBEgb2+iWCou2kZzCdzS8uxQD1wMu2yTUW1tOf6gO2U1aFqGxFHh5coXbT6GVRB51jSShUSarQ==",
    ),
    (
        "MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBALdC40YB+XCMPdzslRbxGGkm4KVhkG1PP4KuuKw2Hz8lDKxU\
         EeEBTTniIfh0RdcqohZ/fcL8+Vn+KzsRESYCo3GkuU7xgFtiiliRpkYbLncacMe8J4jVquDd9OORzawT3+npdVS4k9pIWuEf\
         V0XWwy+ZsIKeezpCSJyGCgr4vwkxAgMBAAECgYEAleYKTKs0wxCTUW/ai0dttiTsv5nMLv0Rb+1GdOZYLKg7c4HYlfkgl+YV\
         70n8DoF6z3g9AA84TpoN9mSBaFvkH57gY7NsiOdXj2lmdYXU3OCVhSJ61twDXKZAFox9W/bTVMkaasE5jfDpn0ydiTUZsXlt\
         ZkRsL3vm9cYkYcHKNFkCQQDs5UbkX4HuxL5IiOYYhdBzrwYU4qlm1cYxeGKkimciH/q2wU040XTm+KCIf+XFL4QzhhokNzxL\
         VeH8T6rX6MZXAkEAxgpTvFMFKLKN1fncAJWXz7+jL2boIUagUMqlwNwdUM5s465AYzWdonLNsAEw7juzVKxc36/zCaWwwws6\
         BK4ntwJANkkMB8VDFx4KpMCKSdBQRlIzSJHwU9plAm0d3arBm3ZMk5iUQ5LsAQm0b9MvKhKLbusqDmaB8JmLoa/37GYxHQJA\
         M93IiG4Fz97TntLNd6m2FMbP6j49VVm16vLn7la3ps4pXofofRMxsbX3gL0PH5WrJeXufPcL497tKGfsTgV+iQJAEF7zSJX6\
         JZKDo90Zsd4Ce0xwD0VWPDTckvOAlGFSXKussazAjSQvkqWjQSa7My/lGUsguPTuCGYv5F9c4nWKIA==",
        "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC3QuNGAflwjD3c7JUW8RhpJuClYZBtTz+CrrisNh8/JQysVBHhAU054iH4\
         dEXXKqIWf33C/PlZ/is7EREmAqNxpLlO8YBbYopYkaZGGy53GnDHvCeI1arg3fTjkc2sE9/p6XVUuJPaSFrhH1dF1sMvmbCC\
         nns6QkichgoK+L8JMQIDAQAB",
        "qe4ElhF8FfIiE3nU3DUuLe4ngk9i5vU7RCMUg5ciBvmvR9iCq2JDNRCDrH4DBxV/qXhUq3ac+F+QGf0azgiIAqGJBMU7DRLp\
         niosUWJKMqErDhi+mFAdjDJTgTz5hGAYiM4wpmMuDoadtUq5BvpO3cgV92VFLhutDNeVurPJ2Ds=",
    ),
];

fn keys() -> Keys {
    let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).expect("a key");
    let public = private.public_key();
    let private: Pkcs8V1Der<'_> = private.as_der().expect("PKCS#8");
    let public: PublicKeyX509Der<'_> = public.as_der().expect("X.509");
    Keys { private: STANDARD.encode(private.as_ref()), public: STANDARD.encode(public.as_ref()) }
}

fn all_keys() -> Vec<Keys> {
    let small = SMALL_KEYS.iter().map(|(private, public, _)| Keys {
        private: (*private).to_owned(),
        public: (*public).to_owned(),
    });
    small.chain([keys()]).collect()
}

fn rule(handle: &Value) -> CryptorRule {
    CryptorRule::read(Some(&handle.to_string())).expect("a handle").expect("it is not blank")
}

fn encrypts(keys: &Keys, fields: &str, map: &str) -> CryptorRule {
    rule(&json!({"strategyName": "rsa", "way": "encrypt", "mapType": map,
        "fieldNames": fields, "encryptKey": keys.public}))
}

fn decrypts(keys: &Keys, fields: &str, map: &str) -> CryptorRule {
    rule(&json!({"strategyName": "rsa", "way": "decrypt", "mapType": map,
        "fieldNames": fields, "decryptKey": keys.private}))
}

fn body(crypted: CryptOutcome) -> Value {
    match crypted {
        CryptOutcome::Body(body) => serde_json::from_slice(&body)
            .unwrap_or_else(|_| String::from_utf8(body).expect("text").into()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_of_each_size_encrypt_and_decrypt() {
    for keys in all_keys() {
        let plain = br#"{"id":1,"order":{"card":"4711 \u00e4","n":2.50}}"#;
        let encrypted = body(encrypts(&keys, "order.card", "all").crypt(plain));
        assert_eq!((&encrypted["id"], &encrypted["order"]["n"]), (&json!(1), &json!(2.5)));
        assert!(!encrypted.to_string().contains("4711"));
        let decrypted =
            body(decrypts(&keys, "order.card", "all").crypt(encrypted.to_string().as_bytes()));
        assert_eq!(decrypted["order"]["card"], "4711 \u{e4}");
        let again = body(encrypts(&keys, "order.card", "all").crypt(plain));
        assert_ne!(again, encrypted, "the padding is random");
    }
    for (private, public, block) in SMALL_KEYS {
        let keys = Keys { private: private.to_owned(), public: public.to_owned() };
        let foreign = json!({"a": block}).to_string();
        assert_eq!(body(decrypts(&keys, "a", "all").crypt(foreign.as_bytes()))["a"], "card 4711");
    }
}

#[test]
fn map_type_field_sends_the_result_alone_and_all_sends_it_in_its_object() {
    let keys = keys();
    let plain = br#"{"a":"x","b":1}"#;
    let alone = body(encrypts(&keys, "a", "field").crypt(plain));
    assert_eq!(alone.as_str().map(str::len), Some(344), "a block in base64");
    for map in ["all", "ALL", "", "other"] {
        let object = body(encrypts(&keys, "a", map).crypt(plain));
        assert_eq!((object["a"].as_str().map(str::len), &object["b"]), (Some(344), &json!(1)));
    }
    let encrypted = body(encrypts(&keys, "a, c.d", "field").crypt(br#"{"a":"x","c":{"d":"y"}}"#));
    let text = encrypted.to_string();
    assert_eq!(encrypted["c"]["d"].as_str().map(str::len), Some(344), "{text}");
    let decrypted = body(decrypts(&keys, "a,c.d,e", "all").crypt(text.as_bytes()));
    assert_eq!(decrypted, json!({"a": "x", "c": {"d": "y"}}));
    assert_eq!(body(decrypts(&keys, "c.d", "FIELD").crypt(text.as_bytes())), json!("y"));
}

#[test]
fn bodies_without_the_field_are_told_from_those_that_are_not_objects() {
    let keys = keys();
    for absent in [&b"{}"[..], br#"{"order":{"card":null}}"#, br#"{"order":[]}"#] {
        assert_eq!(encrypts(&keys, "order.card", "").crypt(absent), CryptOutcome::FieldMissing);
        assert_eq!(decrypts(&keys, "order.card", "").crypt(absent), CryptOutcome::FieldMissing);
    }
    for other in [&b"no JSON"[..], b"[1]", b"1", b""] {
        assert_eq!(encrypts(&keys, "order.card", "").crypt(other), CryptOutcome::NoObject);
    }
    let heavy = format!("[{}1]", "1,".repeat(1 << 20));
    assert_eq!(encrypts(&keys, "a", "").crypt(heavy.as_bytes()), CryptOutcome::TooHeavy);
}

#[test]
fn texts_beyond_the_key_are_not_encrypted_and_strange_ones_not_decrypted() {
    for (keys, longest) in all_keys().into_iter().zip([53, 117, 245]) {
        let card = |length: usize| json!({"a": "x".repeat(length)}).to_string();
        let encrypts = encrypts(&keys, "a", "");
        assert!(matches!(encrypts.crypt(card(longest).as_bytes()), CryptOutcome::Body(_)));
        assert_eq!(encrypts.crypt(card(longest + 1).as_bytes()), CryptOutcome::NotEncrypted);
        for strange in ["", "x", "AAAA", &"A".repeat(1 << 20)] {
            let strange = json!({"a": strange}).to_string();
            let decrypted = decrypts(&keys, "a", "field").crypt(strange.as_bytes());
            assert_eq!(decrypted, CryptOutcome::NotDecrypted);
        }
    }
}

#[test]
fn a_caller_never_learns_whether_the_padding_of_a_block_is_right() {
    for (keys, bytes) in all_keys().into_iter().zip([64, 128, 256]) {
        let rule = decrypts(&keys, "a", "field");
        let mut lengths = std::collections::BTreeSet::new();
        for at in 0..32_u8 {
            // A first byte of zero keeps the number below any modulus.
            let mut block = vec![at; bytes];
            block[0] = 0;
            let text = json!({"a": STANDARD.encode(block)}).to_string();
            let CryptOutcome::Body(first) = rule.crypt(text.as_bytes()) else {
                panic!("{bytes} {at} is not a text")
            };
            assert_eq!(
                rule.crypt(text.as_bytes()),
                CryptOutcome::Body(first.clone()),
                "always the same"
            );
            lengths.insert(first.len());
        }
        assert!(lengths.len() > 12, "{lengths:?}");
    }
}

#[test]
fn handles_that_cannot_be_used_say_what_they_lack() {
    let object = |extra: Value| {
        let mut handle = json!({"strategyName": "rsa", "way": "encrypt", "fieldNames": "a"});
        for (name, value) in extra.as_object().into_iter().flatten() {
            handle[name] = value.clone();
        }
        handle.to_string()
    };
    let read = |handle: &str| CryptorRule::read(Some(handle)).err();
    for (handle, member) in [
        ("{}".to_owned(), "way"),
        (object(json!({"way": null})), "way"),
        (object(json!({"strategyName": ""})), "strategyName"),
        (object(json!({"fieldNames": ""})), "fieldNames"),
        (object(json!({"fieldNames": ",", "encryptKey": "x"})), "fieldNames"),
        (object(json!({"decryptKey": "x"})), "encryptKey"),
        (object(json!({"way": "decrypt", "encryptKey": "x"})), "decryptKey"),
    ] {
        assert_eq!(read(&handle), Some(Unusable::Lacks(member)), "{handle}");
    }
    for key in ["%", "AAAA", "garbage"] {
        let handle = object(json!({"encryptKey": key}));
        assert!(matches!(read(&handle), Some(Unusable::Encryption(_))), "{handle}");
        let handle = object(json!({"way": "decrypt", "decryptKey": key}));
        assert!(matches!(read(&handle), Some(Unusable::Decryption(_))), "{handle}");
    }
    let key = SMALL_KEYS[0].1;
    for extra in [json!({"way": "sideways"}), json!({"strategyName": "rot13", "encryptKey": key})] {
        let handle = object(extra);
        assert!(matches!(read(&handle), Some(Unusable::Encryption(_))), "{handle}");
    }
    let long = object(json!({"fieldNames": "a.".repeat(99), "encryptKey": key}));
    for handle in ["[]", "garbage", &long] {
        assert!(matches!(read(handle), Some(Unusable::Handle(_))), "{handle}");
    }
    for blank in [None, Some(""), Some(" ")] {
        assert!(CryptorRule::read(blank).is_ok_and(|rule| rule.is_none()));
    }
}
