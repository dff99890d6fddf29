//! Parser of the balancing policy: `type`, and for consistent hashing `hash_on` and `key`.

use serde_json::Value;

use super::{Balance, HashOn, Policy};
use crate::reader::{Fields, Reader};

pub(crate) const VARIABLE_PATTERN: &str = "^((uri|server_name|server_addr|request_uri|remote_port|remote_addr\
     |query_string|host|hostname|mqtt_client_id)|arg_[0-9a-zA-z_-]+)$";
const VARIABLES: [&str; 10] = [
    "uri",
    "server_name",
    "server_addr",
    "request_uri",
    "remote_port",
    "remote_addr",
    "query_string",
    "host",
    "hostname",
    "mqtt_client_id",
];

pub(crate) const NAME_PATTERN: &str = "^[a-zA-Z0-9-_]+$";

/// Variable hashed if `vars_combinations` has no key; also the fallback for absent values.
const FALLBACK_VARIABLE: &str = "remote_addr";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Variable,
    Header,
    Cookie,
    Consumer,
    Combination,
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields) -> Balance {
    let policy = reader.optional(fields, "type", read_policy).unwrap_or(Policy::DEFAULT);
    let source = reader.optional(fields, "hash_on", |reader, value| {
        reader.one_of(
            value,
            &[
                ("vars", Source::Variable),
                ("header", Source::Header),
                ("cookie", Source::Cookie),
                ("consumer", Source::Consumer),
                ("vars_combinations", Source::Combination),
            ],
        )
    });
    if !policy.hashes_key() {
        return Balance::from(policy);
    }
    match read_hash_on(reader, fields, source.unwrap_or(Source::Variable)) {
        Some(hash_on) => Balance { policy, hash_on: Some(hash_on) },
        // An invalid key was reported as an error, so this upstream will not serve.
        None => Balance::from(Policy::DEFAULT),
    }
}

/// Reads `type`. An unknown policy only causes a warning, because APISIX accepts custom balancers
/// by file name.
fn read_policy(reader: &mut Reader<'_>, value: &Value) -> Option<Policy> {
    let policy = Policy::from_name(reader.text(value)?);
    if policy.is_none() {
        let reason = "has no effect: nodes take turns, as with roundrobin";
        reader.warning(value, reason, &format!("use {}", Policy::list_names()));
    }
    policy
}

fn read_hash_on(reader: &mut Reader<'_>, fields: &Fields, source: Source) -> Option<HashOn> {
    let key_is_optional = matches!(source, Source::Consumer | Source::Combination);
    if !fields.contains_key("key") && !key_is_optional {
        reader.error_unquoted("missing key", "name in \"key\" what to hash, such as remote_addr");
        return None;
    }
    match source {
        Source::Consumer => Some(HashOn::Consumer),
        Source::Combination => {
            if !fields.contains_key("key") {
                return Some(HashOn::Variable(FALLBACK_VARIABLE.to_owned()));
            }
            let template = reader.optional(fields, "key", |reader, value| reader.text(value))?;
            Some(HashOn::Combination(template.to_owned()))
        }
        Source::Variable => {
            let name = key(reader, fields, VARIABLE_PATTERN, variable_is_valid)?;
            Some(HashOn::Variable(name.to_owned()))
        }
        Source::Header => {
            // nginx header variables do not distinguish `_` from `-`, so neither does this.
            let name = key(reader, fields, NAME_PATTERN, name_is_valid)?;
            Some(HashOn::Header(name.to_ascii_lowercase().replace('_', "-")))
        }
        Source::Cookie => {
            let name = key(reader, fields, NAME_PATTERN, name_is_valid)?;
            Some(HashOn::Cookie(name.to_owned()))
        }
    }
}

fn key<'v>(
    reader: &mut Reader<'_>,
    fields: &'v Fields,
    pattern: &str,
    valid: fn(&str) -> bool,
) -> Option<&'v str> {
    reader.optional(fields, "key", |reader, value| reader.matching(value, pattern, valid))
}

pub(crate) fn variable_is_valid(text: &str) -> bool {
    // The class `A-z` of the pattern includes the six characters between `Z` and `a`.
    let letter = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'z').contains(&byte) || byte == b'-';
    let argument = text.strip_prefix("arg_");
    VARIABLES.contains(&text)
        || argument.is_some_and(|name| !name.is_empty() && name.bytes().all(letter))
}

pub(crate) fn name_is_valid(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
