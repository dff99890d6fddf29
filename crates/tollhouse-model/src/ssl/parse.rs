//! Parser of SSL objects, by the schema of APISIX's Admin API.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{CertificatePair, ClientVerification, Ssl, SslKind, TlsVersion, staples};
use crate::certificate::{self, CertificateError, CertificateFacts, Validity, format_date};
use crate::encryption::sealed_field;
use crate::expr::Expr;
use crate::limits::{CERTIFICATE_CHARS, PRIVATE_KEY_CHARS};
use crate::reader::{Fields, Reader, Unknown, host_is_valid};
use crate::secret::{SecretText, is_reference};
use crate::{Id, Problem, Problems};

const FIELDS: [&str; 17] = [
    "id",
    "type",
    "cert",
    "key",
    "certs",
    "keys",
    "sni",
    "snis",
    "ocsp",
    "ocsps",
    "ocsp_stapling",
    "client",
    "ssl_protocols",
    "status",
    "name",
    "desc",
    "labels",
];

/// Maximum number of certificate pairs besides the first. There are few types of keys, and checking
/// a pair costs as much as a signature.
pub(super) const FURTHER_PAIRS_MAX: usize = 16;

/// Time before expiry at which a certificate causes a warning. Automatic renewal has had two weeks
/// by then.
pub(crate) const RENEWAL_TIME: Duration = Duration::from_secs(14 * 24 * 3600);

/// Maximum number of intermediate certificates of a client, as many as TLS libraries follow.
const DEPTH_MAX: i64 = 100;

impl Ssl {
    /// Parses a document; returns `None` if any problem is an error. An expired certificate is only
    /// a warning.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        Self::parse_at(id, value, path, SystemTime::now())
    }

    /// Like `parse`, with `now` as the current time.
    pub fn parse_at(
        id: Id,
        value: &Value,
        path: &str,
        now: SystemTime,
    ) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let mut reader = Reader::new(path, &mut problems);
        let ssl = reader
            .record(value, &FIELDS, Unknown::Refused)
            .and_then(|fields| read(&mut reader, id, fields, now));
        (ssl.filter(|_| !problems.has_errors()), problems)
    }

    /// Returns the names, in lower case, that no other object may serve while this one is unusable.
    /// These are the names of an object that requires client certificates, or that has a sealed
    /// value which no key opens. Works on invalid objects as far as names can be read. Empty for a
    /// disabled object.
    pub fn names_to_keep(value: &Value) -> Vec<String> {
        let field = |name: &str| value.get(name).filter(|value| !value.is_null());
        let is_for_nodes = field("type").is_some_and(|kind| kind == "client");
        let is_off = field("status").is_some_and(|status| status == 0);
        let is_kept = field("client").is_some() || sealed_field(value).is_some();
        if !is_kept || is_for_nodes || is_off {
            return Vec::new();
        }
        let listed = field("snis").and_then(Value::as_array).into_iter().flatten();
        let names = field("sni").into_iter().chain(listed).filter_map(Value::as_str);
        let names = names.filter(|name| host_is_valid(name));
        names.map(str::to_ascii_lowercase).collect()
    }
}

fn read(reader: &mut Reader<'_>, id: Id, fields: &Fields, now: SystemTime) -> Option<Ssl> {
    reader.own_keys(fields, Some(&id));
    let description = reader.description(fields);
    let kind = reader.optional(fields, "type", |reader, value| {
        reader.one_of(value, &[("server", SslKind::Server), ("client", SslKind::Client)])
    });
    let kind = kind.unwrap_or(SslKind::Server);
    check_together(reader, fields, kind);
    let mut facts = Vec::new();
    let certificates = read_pairs(reader, fields, now, &mut facts);
    let sni = reader
        .optional(fields, "sni", |reader, value| reader.host(value).map(str::to_ascii_lowercase));
    let snis = reader.optional(fields, "snis", read_snis);
    // A certificate for connections to nodes is not selected by name.
    if kind == SslKind::Server {
        check_names(reader, &facts, snis.as_deref().unwrap_or(sni.as_slice()));
    }
    let staples = staples::read(reader, fields, certificates.as_deref().unwrap_or_default(), now);
    if kind == SslKind::Server {
        warn_of_staples(reader, &facts, &staples);
    }
    reader.optional(fields, "ocsp_stapling", staples::read_settings);
    let client = reader.optional(fields, "client", |reader, value| read_client(reader, value));
    let protocols = reader.optional(fields, "ssl_protocols", read_protocols);
    let enabled = reader.optional(fields, "status", read_status).unwrap_or(true);
    Some(Ssl {
        id,
        kind,
        certificates: certificates?,
        snis: snis.unwrap_or_else(|| sni.into_iter().collect()),
        staples,
        client,
        protocols: protocols.unwrap_or_default(),
        enabled,
        name: description.name,
        desc: description.desc,
        labels: description.labels,
    })
}

/// Checks rules that involve several fields.
fn check_together(reader: &mut Reader<'_>, fields: &Fields, kind: SslKind) {
    let has = |name: &str| fields.contains_key(name);
    let paired = has("cert") && has("key");
    match kind {
        SslKind::Server if !(paired && (has("sni") != has("snis"))) => {
            let hint = "a server's has cert, key, and either sni or snis";
            reader.error_unquoted("then clause did not match", hint);
        }
        SslKind::Client if !paired => {
            reader.error_unquoted("else clause did not match", "a client's has cert and key");
        }
        SslKind::Server | SslKind::Client => {}
    }
}

/// Reads all certificate pairs: the first one and the further ones.
fn read_pairs(
    reader: &mut Reader<'_>,
    fields: &Fields,
    now: SystemTime,
    facts: &mut Vec<CertificateFacts>,
) -> Option<Vec<CertificatePair>> {
    let cert = reader.optional(fields, "cert", read_cert);
    let key = reader.optional(fields, "key", read_key);
    let certs =
        reader.optional(fields, "certs", |reader, value| read_list(reader, value, read_cert));
    let keys = reader.optional(fields, "keys", |reader, value| read_list(reader, value, read_key));
    // A value that is not a list was reported when it was read.
    let count = |name| fields.get(name).map_or(Some(0), |value| value.as_array().map(Vec::len));
    if let (Some(certs), Some(keys)) = (count("certs"), count("keys"))
        && certs != keys
    {
        let hint = "each of certs needs its key at the same position in keys";
        reader.error_unquoted("mismatched number of certs and keys", hint);
        return None;
    }
    let first = cert.zip(key).map(|(cert, key)| CertificatePair { cert, key });
    if let Some(pair) = &first {
        facts.extend(check_pair(reader, pair, "cert", "", now));
    }
    let further = certs.unwrap_or_default().into_iter().zip(keys.unwrap_or_default());
    let further: Vec<_> = further.map(|(cert, key)| CertificatePair { cert, key }).collect();
    for (index, pair) in further.iter().enumerate() {
        let prefix = format!("failed to handle cert-key pair[{}]: ", index + 1);
        facts.extend(check_pair(reader, pair, &format!("certs[{index}]"), &prefix, now));
    }
    Some(std::iter::once(first?).chain(further).collect())
}

/// Checks that a certificate and its key can be parsed and belong together, and warns if it is not
/// in date. A reference to a secret is checked once it is resolved.
fn check_pair(
    reader: &mut Reader<'_>,
    pair: &CertificatePair,
    field: &str,
    prefix: &str,
    now: SystemTime,
) -> Option<CertificateFacts> {
    let (cert, key) = (pair.cert.as_str(), pair.key.expose());
    let (path, problems) = reader.parts();
    let path = format!("{path}.{field}");
    let facts = match (is_reference(cert), is_reference(key)) {
        (true, true) => return None,
        (true, false) => certificate::check_key(key).map(|()| None),
        (false, true) => certificate::check_chain(cert).map(Some),
        (false, false) => certificate::check_pair(cert, key).map(Some),
    };
    match facts {
        Ok(facts) => {
            let warnings = facts.iter().flat_map(|facts| {
                out_of_date(facts, &path, now).into_iter().chain(out_of_order(facts, &path))
            });
            problems.extend(warnings.collect());
            facts
        }
        Err(error) => {
            let hint = hint(&error);
            problems.push(Problem::error(path, format!("{prefix}{error}")).with_hint(hint));
            None
        }
    }
}

/// Warns of names that none of the certificates covers. `*` need not be covered.
fn check_names(reader: &mut Reader<'_>, facts: &[CertificateFacts], snis: &[String]) {
    let uncovered = |name: &&String| {
        *name != "*" && !facts.is_empty() && !facts.iter().any(|facts| facts.covers(name))
    };
    let (path, problems) = reader.parts();
    for name in snis.iter().filter(uncovered) {
        let reason = format!("the certificate does not cover {name}");
        let problem = Problem::warning(format!("{path}.snis"), reason).with_value(&json!(name));
        problems.push(problem.with_hint("clients that verify it will refuse the connection"));
    }
}

/// Warns of certificates that require a stapled response although none is given and no responder is
/// known. With a known responder, responses are requested while the certificate is served.
fn warn_of_staples(reader: &mut Reader<'_>, facts: &[CertificateFacts], staples: &[Arc<[u8]>]) {
    let lacks = |facts: &&CertificateFacts| facts.requires_staple && !facts.has_responder;
    if !staples.is_empty() || !facts.iter().any(|facts| lacks(&facts)) {
        return;
    }
    let (path, problems) = reader.parts();
    let reason = "the certificate requires a stapled OCSP response (must-staple), and no responder can be asked for it";
    let hint = "append its issuer's certificate in cert, or give the response in ocsp; \
                clients that check refuse the connection";
    problems.push(Problem::warning(format!("{path}.cert"), reason).with_hint(hint));
}

fn out_of_order(facts: &CertificateFacts, path: &str) -> Option<Problem> {
    let place = facts.misplaced?;
    let reason =
        format!("the certificate {} of the chain has not signed that before it", place + 1);
    let hint = "put the host's own certificate first, each followed by the one that signed it";
    Some(Problem::warning(path, reason).with_hint(hint))
}

fn out_of_date(facts: &CertificateFacts, path: &str, now: SystemTime) -> Option<Problem> {
    let reason = match facts.validity(now) {
        Validity::Valid if facts.ends_within(now, RENEWAL_TIME) => {
            format!("ends on {}", format_date(facts.not_after_unix_s))
        }
        Validity::Valid => return None,
        Validity::NotYet => {
            format!("not valid before {}", format_date(facts.not_before_unix_s))
        }
        Validity::Expired => format!("expired on {}", format_date(facts.not_after_unix_s)),
    };
    let hint = match facts.validity(now) {
        Validity::Valid => "renew it before that",
        Validity::NotYet | Validity::Expired => "clients that verify it will refuse the connection",
    };
    Some(Problem::warning(path, reason).with_hint(hint))
}

fn hint(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Certificate(_) => {
            "give the PEM text: the certificate first, then those between it and the root"
        }
        CertificateError::StillEncrypted => "give the PEM text, from -----BEGIN to the end",
        CertificateError::Key(_) => "give the PEM text of a key without a passphrase",
        CertificateError::Mismatch => "give the key that the certificate was made with",
    }
}

fn read_list<T>(
    reader: &mut Reader<'_>,
    value: &Value,
    read: fn(&mut Reader<'_>, &Value) -> Option<T>,
) -> Option<Vec<T>> {
    let items = reader.list(value)?;
    if items.len() > FURTHER_PAIRS_MAX {
        let reason = format!("expect array to have at most {FURTHER_PAIRS_MAX} items");
        reader.error_unquoted(reason, "make further objects for other names");
        return None;
    }
    reader.items(items, read)
}

fn read_cert(reader: &mut Reader<'_>, value: &Value) -> Option<String> {
    if let Some(reference) = value.as_str().filter(|text| is_reference(text)) {
        return Some(reference.to_owned());
    }
    let text = reader.secret_within(value, CERTIFICATE_CHARS.0..=CERTIFICATE_CHARS.1)?;
    Some(text.to_owned())
}

fn read_key(reader: &mut Reader<'_>, value: &Value) -> Option<SecretText> {
    if let Some(reference) = value.as_str().filter(|text| is_reference(text)) {
        return Some(SecretText::new(reference));
    }
    let text = reader.secret_within(value, PRIVATE_KEY_CHARS.0..=PRIVATE_KEY_CHARS.1)?;
    Some(SecretText::new(text))
}

fn read_snis(reader: &mut Reader<'_>, value: &Value) -> Option<Vec<String>> {
    let items = reader.list(value)?;
    if items.is_empty() {
        reader.error(value, "expect array to have at least 1 items", "");
        return None;
    }
    reader.items(items, |reader, item| reader.host(item).map(str::to_ascii_lowercase))
}

fn read_client(reader: &mut Reader<'_>, value: &Value) -> Option<ClientVerification> {
    let known = ["ca", "depth", "skip_mtls_uri_regex"];
    let fields = reader.object(value, &known, Unknown::Ignored)?;
    let ca = reader.required(fields, "ca", read_ca);
    let depth = reader.optional(fields, "depth", |reader, value| {
        let depth = reader.integer(value, 0..=DEPTH_MAX)?;
        depth.try_into().ok()
    });
    let patterns = reader.optional(fields, "skip_mtls_uri_regex", |reader, value| {
        let items = reader.unique_list_not_empty(value)?;
        reader.items(items, read_pattern)
    });
    Some(ClientVerification {
        ca: ca?,
        depth: depth.unwrap_or(1),
        skip_mtls_uri_regex: patterns.unwrap_or_default(),
    })
}

fn read_ca(reader: &mut Reader<'_>, value: &Value) -> Option<String> {
    let ca = read_cert(reader, value)?;
    if !is_reference(&ca)
        && let Err(error) = certificate::check_authorities(&ca)
    {
        let reason = format!("failed to validate client_cert: {error}");
        reader.error_unquoted(reason, "give the PEM text of the certificates that sign clients'");
        return None;
    }
    Some(ca)
}

/// Reads a pattern for paths, by the rules for patterns in conditions of routes.
fn read_pattern(reader: &mut Reader<'_>, value: &Value) -> Option<String> {
    let text = reader.text(value)?;
    let mut problems = Problems::new();
    Expr::parse(&json!([["uri", "~~", text]]), "", &mut problems);
    if problems.has_errors() {
        let (path, all) = reader.parts();
        let reason = format!("invalid regular expression \"{text}\"");
        all.push(Problem::error(path, reason).with_value(value));
        return None;
    }
    Some(text.to_owned())
}

fn read_protocols(reader: &mut Reader<'_>, value: &Value) -> Option<Vec<TlsVersion>> {
    let words = [
        ("TLSv1.1", TlsVersion::V1_1),
        ("TLSv1.2", TlsVersion::V1_2),
        ("TLSv1.3", TlsVersion::V1_3),
    ];
    let items = reader.unique_list(value)?;
    reader.items(items, |reader, item| reader.one_of(item, &words))
}

fn read_status(reader: &mut Reader<'_>, value: &Value) -> Option<bool> {
    match reader.integer(value, i64::MIN..=i64::MAX)? {
        0 => Some(false),
        1 => Some(true),
        _ => {
            reader.error(value, "matches none of the enum values", "1 is on, 0 is off");
            None
        }
    }
}
