//! Encryption of secret members of objects in the store, and masking for readers without the right
//! to see them.
//!
//! A member is encrypted as its literal JSON text, including quotes, so that decryption restores
//! the object byte for byte. The caller reads and writes the store.

mod cover;

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tollhouse_model::encryption::{Keyring, Opened};

use crate::key::KEY_PREFIX;

pub use cover::{COVER, cover, holds_secret, redirects, uncover};

/// Start of encrypted texts. A text without it needs no decryption.
const MARK: &str = "tollhouse-sealed:";

/// Member that is encrypted in objects of one kind, which `segment` names.
struct Member {
    segment: &'static str,
    name: &'static str,
    holds: Holds,
}

/// Content of a member that may be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Secret,
    /// JSON text that may contain secrets.
    Settings,
}

const MEMBERS: &[Member] = &[
    Member { segment: "appAuth", name: "appSecret", holds: Holds::Secret },
    Member { segment: "plugin", name: "config", holds: Holds::Settings },
    Member { segment: "selector", name: "handle", holds: Holds::Settings },
    Member { segment: "rule", name: "handle", holds: Holds::Settings },
    Member { segment: "discovery", name: "props", holds: Holds::Settings },
    Member { segment: "user", name: "password", holds: Holds::Secret },
    Member { segment: "secret", name: "key", holds: Holds::Secret },
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opening {
    /// Decrypted object, if it differs from the stored text.
    pub value: Option<String>,
    /// Names of members that no key of the ring decrypts.
    pub unopened: Vec<&'static str>,
}

/// Outcome of encrypting an object again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resealing {
    /// New text of the object, if it must be written.
    pub value: Option<String>,
    /// Whether the object now contains an encrypted member.
    pub is_sealed: bool,
    /// Members that no key decrypts. If there are any, the object is left unchanged.
    pub unopened: Vec<&'static str>,
}

/// Returns the object at `key` with its secrets encrypted; `None` if it has none. A plain text that
/// looks encrypted is encrypted like any other, and decrypts to its original text.
///
/// # Panics
///
/// If the system's random number generator is unavailable. A process with a keyring has already
/// used it.
pub fn seal(key: &str, object: &str, keyring: &Keyring) -> Option<String> {
    replace(key, object, |member, place, token| {
        if !member.is_to_be_sealed(token) {
            return None;
        }
        Some(format!("\"{}\"", keyring.seal(token, place)))
    })
}

/// Returns the object at `key` with its secrets decrypted. A secret that no key decrypts becomes
/// `null`, because the encrypted text itself would be a secret known to every reader of the store.
/// Settings that no key decrypts stay encrypted, so they are unusable.
pub fn open(key: &str, object: &str, keyring: &Keyring) -> Opening {
    if !object.contains(MARK) {
        return Opening::default();
    }
    let mut unopened = Vec::new();
    let value = replace(key, object, |member, place, token| {
        let text = marked(token)?;
        match keyring.open(text, place) {
            Opened::Current(plain) | Opened::Stale(plain) => Some(plain),
            Opened::Plain => None,
            Opened::Unopened(_) => {
                unopened.push(member.name);
                (member.holds == Holds::Secret).then(|| "null".to_owned())
            }
        }
    });
    Opening { value, unopened }
}

/// Encrypts secrets that are stored in plain text or with an older key.
pub fn reseal(key: &str, object: &str, keyring: &Keyring) -> Resealing {
    let mut is_stale = false;
    let mut is_sealed = false;
    let mut unopened = Vec::new();
    let value = replace(key, object, |member, place, token| {
        let plain = match marked(token).map(|text| keyring.open(text, place)) {
            Some(Opened::Current(_)) => {
                is_sealed = true;
                return None;
            }
            Some(Opened::Stale(plain)) => plain,
            Some(Opened::Unopened(_)) => {
                unopened.push(member.name);
                return None;
            }
            Some(Opened::Plain) | None if member.is_to_be_sealed(token) => token.to_owned(),
            Some(Opened::Plain) | None => return None,
        };
        is_stale = true;
        Some(format!("\"{}\"", keyring.seal(&plain, place)))
    });
    Resealing {
        // An undecryptable member must not be encrypted again, because it could never be recovered.
        value: value.filter(|_| is_stale && unopened.is_empty()),
        is_sealed: is_sealed || is_stale,
        unopened,
    }
}

impl Member {
    fn is_to_be_sealed(&self, token: &str) -> bool {
        if matches!(token, "null" | "\"\"") {
            return false;
        }
        match self.holds {
            Holds::Secret => true,
            Holds::Settings => {
                let text = serde_json::from_str::<String>(token);
                let settings = text.as_deref().unwrap_or(token);
                settings.starts_with(MARK) || holds_secret(settings)
            }
        }
    }
}

/// Returns the content of a JSON string that is marked as encrypted. Such strings never contain
/// escapes.
fn marked(token: &str) -> Option<&str> {
    let text = token.strip_prefix('"')?.strip_suffix('"')?;
    text.starts_with(MARK).then_some(text)
}

/// Replaces the values of secret members for which `edit` returns a new text. Returns `None` if it
/// never does, or if the text is not an object. Duplicate members are each passed to `edit`.
fn replace(
    key: &str,
    object: &str,
    mut edit: impl FnMut(&Member, &str, &str) -> Option<String>,
) -> Option<String> {
    let (segment, _) = key.strip_prefix(KEY_PREFIX)?.split_once('/')?;
    if !MEMBERS.iter().any(|member| member.segment == segment) {
        return None;
    }
    let Members(found) = serde_json::from_str(object).ok()?;
    let mut made = String::new();
    let mut rest = 0;
    for (name, value) in found {
        let is_meant = |member: &&Member| member.segment == segment && member.name == name;
        let Some(member) = MEMBERS.iter().find(is_meant) else { continue };
        let place = format!("shenyu.{segment}.{name}");
        let token = value.get();
        let Some(edited) = edit(member, &place, token) else { continue };
        // A raw value borrows from the text that it was parsed from.
        let start = token.as_ptr().addr().checked_sub(object.as_ptr().addr())?;
        made.push_str(object.get(rest..start)?);
        made.push_str(&edited);
        rest = start + token.len();
    }
    if rest == 0 {
        return None;
    }
    made.push_str(object.get(rest..)?);
    Some(made)
}

/// Members of an object in order, including duplicates.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ReadMembers;

        impl<'de> Visitor<'de> for ReadMembers {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(ReadMembers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(keys: &[&str]) -> Keyring {
        Keyring::new(keys.iter().copied()).expect("keys of sixteen letters")
    }

    const OLD: &str = "0123456789abcdef";
    const NEW: &str = "fedcba9876543210";

    #[test]
    fn what_holds_secrets_is_sealed_and_opens_to_the_byte() {
        let keyring = ring(&[OLD]);
        let cases = [
            ("appAuth/A1", r#"{"appKey":"A1", "appSecret" : "S\u00e4\"1","open":true}"#, true),
            ("appAuth/A1", r#"{"appSecret":"a","appSecret":"b"}"#, true),
            ("appAuth/A1", r#"{"appKey":"A1","appSecret":""}"#, false),
            (
                "plugin/4",
                r#"{"name":"rateLimiter","config":"{\"password\":\"x\"}","sort":1}"#,
                true,
            ),
            ("plugin/5", r#"{"name":"divide","config":"{\"multiSelectorHandle\":\"1\"}"}"#, false),
            ("plugin/19", r#"{"name":"jwt","config":"{\"secretKey\":\"\"}"}"#, false),
            ("plugin/19", r#"{"name":"jwt","config":{"secretKey":"k"}}"#, true),
            (
                "plugin/45",
                r#"{"config":"{\"defaultHandleJson\":\"{\\\"authorization\\\":\\\"a:b\\\"}\"}"}"#,
                true,
            ),
            ("rule/1", r#"{"handle":"{\"keyName\":\"apiKey\",\"key\":\"k\"}"}"#, true),
            ("rule/1", r#"{"handle":"{\"groupKey\":\"g\",\"timeout\":3000}"}"#, false),
            ("selector/1", r#"{"handle":"[{\"upstreamUrl\":\"a:1\"}]"}"#, false),
            ("selector/1", r#"{"handle":"no JSON with a password in it"}"#, true),
            ("user/1", r#"{"userName":"admin","password":"pbkdf2$1$a$b"}"#, true),
            ("secret/jwt", r#"{"id":"jwt","key":"AAAA"}"#, true),
            ("dict/1", r#"{"password":"x"}"#, false),
            ("rule/1", r#"{"handle":"tollhouse-sealed:1:00:AAAA"}"#, true),
            ("rule/1", r"no object", false),
        ];
        for (key, object, expected) in cases {
            let key = format!("/shenyu/{key}");
            let sealed = seal(&key, object, &keyring);
            assert_eq!(sealed.is_some(), expected, "{object}");
            let Some(sealed) = sealed else { continue };
            for secret in ["S\\u00e4", "\"x", "k\\\"}", "a:b", "pbkdf2", "AAAA\"}", "no JSON"] {
                assert!(!sealed.contains(secret), "{sealed}");
            }
            let opened = open(&key, &sealed, &keyring);
            assert_eq!((opened.value.as_deref(), opened.unopened.len()), (Some(object), 0));
        }
        assert!(keyring.seal("x", "y").starts_with(MARK));
    }

    #[test]
    fn what_looks_sealed_is_never_opened_for_who_writes_it() {
        let keyring = ring(&[OLD]);
        // An attacker who has read the store copies an encrypted secret into a member that the
        // attacker may read.
        let seen = keyring.seal("\"the secret\"", "shenyu.rule.handle");
        let written = format!(r#"{{"handle":"{seen}"}}"#);
        let sealed = seal("/shenyu/rule/1", &written, &keyring).expect("it is sealed");
        assert_eq!(open("/shenyu/rule/1", &sealed, &keyring).value, Some(written));
        // A text encrypted for one member cannot be decrypted in another.
        let moved =
            format!(r#"{{"handle":"{}"}}"#, keyring.seal("\"s\"", "shenyu.appAuth.appSecret"));
        assert_eq!(open("/shenyu/rule/1", &moved, &keyring).unopened, ["handle"]);
    }

    #[test]
    fn what_no_key_opens_is_no_secret_and_no_settings() {
        let (old, new) = (ring(&[OLD]), ring(&[NEW]));
        let app = seal("/shenyu/appAuth/A", r#"{"appSecret":"s"}"#, &old).expect("it is sealed");
        let opening = open("/shenyu/appAuth/A", &app, &new);
        assert_eq!(opening.value.as_deref(), Some(r#"{"appSecret":null}"#));
        assert_eq!(opening.unopened, ["appSecret"]);
        let rule = r#"{"handle":"{\"authorization\":\"a:b\"}"}"#;
        let rule = seal("/shenyu/rule/1", rule, &old).expect("it is sealed");
        let opening = open("/shenyu/rule/1", &rule, &new);
        assert_eq!((opening.value, opening.unopened), (None, vec!["handle"]));
    }

    #[test]
    fn what_lies_open_or_is_sealed_with_an_old_key_is_sealed_anew() {
        let (old, new, both) = (ring(&[OLD]), ring(&[NEW]), ring(&[NEW, OLD]));
        let key = "/shenyu/appAuth/A";
        let plain = r#"{"appSecret":"s"}"#;
        let first = reseal(key, plain, &old).value.expect("it lies open");
        assert_eq!(
            reseal(key, &first, &old),
            Resealing { is_sealed: true, ..Resealing::default() }
        );
        let second = reseal(key, &first, &both).value.expect("its key is old");
        assert_eq!(open(key, &second, &new).value.as_deref(), Some(plain));
        let lost = reseal(key, &second, &old);
        assert_eq!((lost.value, lost.unopened), (None, vec!["appSecret"]));
        assert_eq!(reseal("/shenyu/dict/1", plain, &old), Resealing::default());
    }
}
