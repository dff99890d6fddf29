//! Syntax of the ACME settings.

use serde_json::Value;

use super::parts::AcmeChallenge;
use super::shape::{Read, Shape, collect, refuse, show_list, text_of, texts_of};

/// Short names of well-known ACME directories.
const DIRECTORIES: [(&str, &str); 2] = [
    ("letsencrypt", "https://acme-v02.api.letsencrypt.org/directory"),
    ("letsencrypt-staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
];

/// Maximum length of a host name in characters (RFC 1035 §2.3.4).
const NAME_CHARS_MAX: usize = 253;
const LABEL_CHARS_MAX: usize = 63;

/// Maximum number of hosts: twenty times as many as an authority allows for one account in a week.
/// All hosts are examined whenever a renewal is due.
const HOSTS_MAX: usize = 1_000;

/// Syntax of the URL of an ACME directory; null leaves it unset.
pub(crate) struct DirectoryUrl;

impl Shape for DirectoryUrl {
    type Value = Option<String>;
    fn takes() -> String {
        "`letsencrypt`, `letsencrypt-staging`, an https URL, or null".to_owned()
    }
    fn read(value: &Value) -> Read<Option<String>> {
        let text = text_of(value)?;
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        if let Some((_, url)) = DIRECTORIES.iter().find(|(name, _)| *name == text) {
            return Ok(Some((*url).to_owned()));
        }
        let is_url = text.strip_prefix("https://").is_some_and(|rest| !rest.starts_with('/'));
        if !is_url || text.len() == "https://".len() || text.contains(char::is_whitespace) {
            return refuse(
                format!("{text:?} is not an https URL"),
                format!("use {}", Self::takes()),
            );
        }
        Ok(Some(text.to_owned()))
    }
    fn show(value: &Option<String>) -> String {
        value.clone().unwrap_or_else(|| "null".to_owned())
    }
}

/// Syntax of a list of mail addresses, stored as `mailto:` URLs.
pub(crate) struct Contacts;

impl Shape for Contacts {
    type Value = Vec<String>;
    fn takes() -> String {
        "mail addresses".to_owned()
    }
    fn read(value: &Value) -> Read<Vec<String>> {
        collect(texts_of(value)?.iter().map(|text| {
            let address = text.strip_prefix("mailto:").unwrap_or(text);
            let has_both = address.split_once('@').is_some_and(|(name, host)| {
                !name.is_empty() && !host.is_empty() && !host.contains('@')
            });
            if !has_both || address.contains(char::is_whitespace) {
                return refuse(
                    format!("{text:?} is not a mail address"),
                    "for example ops@example.org",
                );
            }
            Ok(format!("mailto:{address}"))
        }))
    }
    fn show(value: &Vec<String>) -> String {
        show_list(value.iter().cloned(), "[]")
    }
}

/// Syntax of a list of host names, stored in lower case without duplicates.
pub(crate) struct HostNames;

impl Shape for HostNames {
    type Value = Vec<String>;
    fn takes() -> String {
        format!("names of hosts, at most {HOSTS_MAX}")
    }
    fn read(value: &Value) -> Read<Vec<String>> {
        let names = collect(texts_of(value)?.iter().map(|text| host_name(text)))?;
        let mut hosts: Vec<String> = Vec::with_capacity(names.len());
        for name in names {
            if !hosts.contains(&name) {
                hosts.push(name);
            }
        }
        if hosts.len() > HOSTS_MAX {
            return refuse(format!("{} hosts are too many", hosts.len()), Self::takes());
        }
        Ok(hosts)
    }
    fn show(value: &Vec<String>) -> String {
        show_list(value.iter().cloned(), "[]")
    }
}

fn host_name(text: &str) -> Read<String> {
    if text.contains('*') {
        let hint = "authorities issue wildcards by DNS challenges only, which are not supported: write such a \
                    certificate as an ssls object";
        return refuse(format!("{text:?} is a wildcard"), hint);
    }
    whole_name(text)
}

/// Validates one host name and converts it to lower case.
pub(super) fn whole_name(text: &str) -> Read<String> {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    if name.parse::<std::net::IpAddr>().is_ok() {
        return refuse(format!("{text:?} is an address"), "give names of hosts");
    }
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let label = |label: &str| {
        (1..=LABEL_CHARS_MAX).contains(&label.len())
            && label.bytes().all(letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > NAME_CHARS_MAX || !name.split('.').all(label) {
        let hint = "for example www.example.org; other alphabets in their xn-- form";
        return refuse(format!("invalid host name {text:?}"), hint);
    }
    Ok(name)
}

/// Syntax of the kind of ACME challenge.
pub(crate) struct Challenge;

const CHALLENGES: [(&str, AcmeChallenge); 2] =
    [("http-01", AcmeChallenge::Http01), ("tls-alpn-01", AcmeChallenge::TlsAlpn01)];

impl Shape for Challenge {
    type Value = AcmeChallenge;
    fn takes() -> String {
        CHALLENGES.map(|(name, _)| name).join(", ")
    }
    fn read(value: &Value) -> Read<AcmeChallenge> {
        let text = text_of(value)?;
        match CHALLENGES.iter().find(|(name, _)| *name == text) {
            Some((_, challenge)) => Ok(*challenge),
            None => refuse(format!("unknown challenge {text:?}"), format!("use {}", Self::takes())),
        }
    }
    fn show(value: &AcmeChallenge) -> String {
        let name = CHALLENGES.iter().find(|(_, it)| it == value).map(|(name, _)| *name);
        name.unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hosts_are_names_and_nothing_else() {
        let long = format!("{}.example", "a".repeat(LABEL_CHARS_MAX + 1));
        let table = [
            ("WWW.Example.org.", Some("www.example.org")),
            ("xn--mnchen-3ya.example", Some("xn--mnchen-3ya.example")),
            ("localhost", Some("localhost")),
            ("*.example.org", None),
            ("192.0.2.1", None),
            ("::1", None),
            ("münchen.example", None),
            ("a..b", None),
            ("-a.example", None),
            ("a b.example", None),
            ("a.example/b", None),
            (&long, None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(host_name(text).ok().as_deref(), expected, "{text}");
        }
        let twice = HostNames::read(&json!(["a.example", "A.example"]));
        assert_eq!(twice, Ok(vec!["a.example".to_owned()]));
        let many: Vec<String> =
            (0..=HOSTS_MAX).map(|number| format!("h{number}.example")).collect();
        assert!(HostNames::read(&json!(many)).is_err());
    }

    #[test]
    fn directories_have_short_names_and_are_reached_over_tls_only() {
        let table = [
            ("letsencrypt", Some(Some("https://acme-v02.api.letsencrypt.org/directory"))),
            ("https://ca.internal:14000/dir", Some(Some("https://ca.internal:14000/dir"))),
            ("", Some(None)),
            ("http://ca.internal/dir", None),
            ("https://", None),
            ("https:///dir", None),
            ("letsencrpyt", None),
        ];
        for (text, expected) in table {
            let read = DirectoryUrl::read(&json!(text)).ok();
            let read = read.as_ref().map(Option::as_deref);
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn contacts_become_urls() {
        let read = Contacts::read(&json!("ops@example.org, mailto:b@example.org"));
        let expected = ["mailto:ops@example.org", "mailto:b@example.org"];
        assert_eq!(read.expect("two addresses"), expected);
        for text in ["ops", "@example.org", "ops@", "a@b@c", "a b@c"] {
            assert!(Contacts::read(&json!([text])).is_err(), "{text}");
        }
    }
}
