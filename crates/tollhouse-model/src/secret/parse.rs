//! Parser of secret managers.

use serde_json::Value;

use super::{
    Aws, Gcp, GcpAccount, GcpAuth, Manager, Secret, SecretManager, SecretText, Vault, is_reference,
};
use crate::reader::{Fields, Reader, Unknown, pattern_reason};
use crate::{Id, Problem, Problems};

const VAULT_FIELDS: [&str; 5] = ["id", "uri", "prefix", "token", "namespace"];

const AWS_FIELDS: [&str; 6] =
    ["id", "access_key_id", "secret_access_key", "session_token", "region", "endpoint_url"];

const GCP_FIELDS: [&str; 4] = ["id", "auth_config", "auth_file", "ssl_verify"];

const GCP_AUTH_FIELDS: [&str; 6] =
    ["client_email", "private_key", "project_id", "token_uri", "entries_uri", "scope"];

/// Maximum length of a text field of a secret manager, in characters. An RSA key of 8,192 bits
/// takes 6,400.
const TEXT_CHARS_MAX: usize = 65_536;

const AWS_REGION: &str = "us-east-1";
const GCP_TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const GCP_ENTRIES_URI: &str = "https://secretmanager.googleapis.com/v1";
const GCP_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// The pattern for URIs in APISIX; requires a scheme and a host.
const URI_PATTERN: &str = r"^[^\/]+:\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?";

impl Secret {
    /// Parses a document; returns `None` if any problem is an error. `id` is the whole key, such as
    /// `vault/1`.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let secret = read(&mut Reader::new(path, &mut problems), id, value);
        (secret.filter(|_| !problems.has_errors()), problems)
    }
}

fn read(reader: &mut Reader<'_>, key: Id, value: &Value) -> Option<Secret> {
    let (manager, id) = read_key(reader, &key)?;
    let known: &[&str] = match manager {
        Manager::Vault => &VAULT_FIELDS,
        Manager::Aws => &AWS_FIELDS,
        Manager::Gcp => &GCP_FIELDS,
    };
    let fields = reader.record(value, known, Unknown::Ignored)?;
    reader.own_parted_key(fields, &key);
    reader.own_times(fields);
    let keeper = match manager {
        Manager::Vault => SecretManager::Vault(read_vault(reader, fields)?),
        Manager::Aws => SecretManager::Aws(read_aws(reader, fields)?),
        Manager::Gcp => SecretManager::Gcp(read_gcp(reader, fields)?),
    };
    Some(Secret { key, id, keeper })
}

fn read_key(reader: &mut Reader<'_>, key: &Id) -> Option<(Manager, Id)> {
    let (path, problems) = reader.parts();
    let Some((manager, id)) = Secret::split_key(key.as_str()) else {
        let names = Manager::ALL.map(Manager::name).join(", ");
        let problem = Problem::error(path, "wrong secret id").with_value(&key.as_str().into());
        let hint = format!("write it as <manager>/<id>; the managers are {names}");
        problems.push(problem.with_hint(hint));
        return None;
    };
    let id = Id::parse(&Value::from(id), &format!("{path}.id"), problems)?;
    Some((manager, id))
}

fn read_vault(reader: &mut Reader<'_>, fields: &Fields) -> Option<Vault> {
    let uri = reader.required(fields, "uri", read_uri);
    let prefix = reader.required(fields, "prefix", read_text);
    let token = reader.required(fields, "token", read_secret);
    let namespace = reader.optional(fields, "namespace", read_text);
    Some(Vault { uri: uri?, prefix: prefix?, token: token?, namespace })
}

fn read_aws(reader: &mut Reader<'_>, fields: &Fields) -> Option<Aws> {
    let access_key_id = reader.required(fields, "access_key_id", read_text);
    let secret_access_key = reader.required(fields, "secret_access_key", read_secret);
    let session_token = reader.optional(fields, "session_token", read_secret);
    let region = reader.optional(fields, "region", read_text);
    let endpoint_url = reader.optional(fields, "endpoint_url", read_uri);
    Some(Aws {
        access_key_id: access_key_id?,
        secret_access_key: secret_access_key?,
        session_token,
        region: region.unwrap_or_else(|| AWS_REGION.to_owned()),
        endpoint_url,
    })
}

fn read_gcp(reader: &mut Reader<'_>, fields: &Fields) -> Option<Gcp> {
    match (fields.contains_key("auth_config"), fields.contains_key("auth_file")) {
        (true, true) => {
            let reason = "value should match only one schema, but matches both schemas 1 and 2";
            reader.error_unquoted(reason, "give either \"auth_config\" or \"auth_file\"");
        }
        (false, false) => {
            let reason = "value should match only one schema, but matches none";
            reader.error_unquoted(reason, "give \"auth_config\" or \"auth_file\"");
        }
        _ => {}
    }
    let inline = reader.optional(fields, "auth_config", read_gcp_auth);
    let file = reader.optional(fields, "auth_file", read_text);
    let ssl_verify = reader.optional(fields, "ssl_verify", Reader::boolean).unwrap_or(true);
    let account = match (inline, file) {
        (Some(inline), _) => GcpAccount::Inline(Box::new(inline)),
        (None, file) => GcpAccount::File(file?),
    };
    Some(Gcp { account, ssl_verify })
}

fn read_gcp_auth(reader: &mut Reader<'_>, value: &Value) -> Option<GcpAuth> {
    let fields = reader.object(value, &GCP_AUTH_FIELDS, Unknown::Ignored)?;
    let client_email = reader.required(fields, "client_email", read_text);
    let private_key = reader.required(fields, "private_key", read_secret);
    let project_id = reader.required(fields, "project_id", read_text);
    let token_uri = reader.optional(fields, "token_uri", read_text);
    let entries_uri = reader.optional(fields, "entries_uri", read_text);
    let scope = reader.optional(fields, "scope", |reader, value| {
        let items = reader.list(value)?;
        reader.items(items, read_text)
    });
    Some(GcpAuth {
        client_email: client_email?,
        private_key: private_key?,
        project_id: project_id?,
        token_uri: token_uri.unwrap_or_else(|| GCP_TOKEN_URI.to_owned()),
        entries_uri: entries_uri.unwrap_or_else(|| GCP_ENTRIES_URI.to_owned()),
        scope: scope.unwrap_or_else(|| vec![GCP_SCOPE.to_owned()]),
    })
}

fn read_text(reader: &mut Reader<'_>, value: &Value) -> Option<String> {
    reader.text_within(value, 0..=TEXT_CHARS_MAX).map(str::to_owned)
}

fn read_secret(reader: &mut Reader<'_>, value: &Value) -> Option<SecretText> {
    reader.secret_within(value, 0..=TEXT_CHARS_MAX).map(SecretText::new)
}

fn read_uri(reader: &mut Reader<'_>, value: &Value) -> Option<String> {
    let text = reader.text_within(value, 0..=TEXT_CHARS_MAX)?;
    if !is_reference(text) && !has_host(text) {
        let hint = "write it as scheme://host or scheme://host:port";
        reader.error(value, pattern_reason(URI_PATTERN, text), hint);
        return None;
    }
    Some(text.to_owned())
}

/// Whether a text matches `URI_PATTERN`: a scheme without slashes, `://`, and a host.
fn has_host(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let named = rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-');
    let bracketed = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let in_brackets = bracketed.is_some_and(|(address, _)| {
        !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
    });
    !scheme.is_empty() && !scheme.contains('/') && (named || in_brackets)
}
