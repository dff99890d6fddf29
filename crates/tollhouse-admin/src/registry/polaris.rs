//! `/registry/v1/polaris`: the HTTP API of Polaris, for callers of the Admin API.
//!
//! The calls, their answers and their rights are those of the registry's own listener. Users and
//! groups call with their own token, and their policies decide. Holders of configured keys act as
//! the account of the registry, as far as the role of the key allows.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::part::{DialectAnswer, DialectCall, DialectCaller};
use crate::auth;
use crate::body::RequestBody;
use crate::call::Call;
use crate::context::Admin;
use crate::crud;
use crate::options::{AdminKey, Role};
use crate::reply::Reply;
use crate::session::KeyHolder;

/// First segment of these paths, below the prefix of the registry.
pub(super) const SEGMENT: &str = "polaris";

/// Bytes that paths and queries have in escaped form; the routes of Polaris contain hyphens.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Tag with the key of an encrypted file.
const KEY_TAG: &str = "internal-datakey";

/// Tag of encrypted files.
const ENCRYPTED_TAG: &str = "internal-encrypted";

/// Argument with a key of the Admin API, which the registry does not know.
const KEY_ARGUMENT: &str = "api_key";

/// Visibility of encrypted contents in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    Whole,
    /// Contents of encrypted files are left out.
    Sealed,
}

/// Answers a call; `rest` is its path below [`SEGMENT`].
pub(super) async fn answer<B>(
    admin: &Admin,
    call: &Call,
    rest: &[String],
    body: B,
) -> Result<Reply, Reply>
where
    B: RequestBody,
{
    let (caller, sight) = caller(admin, call, rest)?;
    let part = super::part(admin)?;
    if !is_served(rest) {
        return Err(Reply::refusal(StatusCode::NOT_FOUND, "not found"));
    }
    let body = part.bodies.read(body).await?;
    let call = DialectCall {
        method: call.method.clone(),
        target: target(call, rest),
        content_type: Some(content_type(call)),
        body: body.bytes.clone(),
        peer: call.peer,
        caller,
        way: crud::way_of(call),
    };
    let answer = part.dialect.answer(call).await;
    drop(body);
    Ok(reply(answer, sight))
}

/// Whether calls at this path are passed on: those of operators, and no login. Calls of clients have
/// names that begin with a capital letter.
fn is_served(rest: &[String]) -> bool {
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let is_of_client = |name: &str| name.starts_with(|first: char| !first.is_ascii_lowercase());
    match &rest[..] {
        ["core", "v1", "user", "login"] => false,
        ["core" | "naming" | "config", "v1" | "v2", call, ..] => !is_of_client(call),
        _ => false,
    }
}

fn caller(admin: &Admin, call: &Call, rest: &[String]) -> Result<(DialectCaller, Sight), Reply> {
    let key = |name: &str| DialectCaller::Key(name.to_owned());
    match auth::holder(&admin.parts.options, call)? {
        None => Ok((key(""), Sight::Whole)),
        Some(KeyHolder::Person(person)) => Ok((DialectCaller::Token(person.token), Sight::Whole)),
        Some(KeyHolder::Configured(holder)) => {
            check_role(holder, &call.method, rest)?;
            let sight = if holder.role == Role::Viewer { Sight::Sealed } else { Sight::Whole };
            Ok((key(&holder.name), sight))
        }
    }
}

/// Refuses what the role of a configured key does not allow: tokens, users and policies are for
/// administrators, and viewers change nothing.
fn check_role(holder: &AdminKey, method: &Method, rest: &[String]) -> Result<(), Reply> {
    let is_read = method == Method::GET;
    let is_token = rest.iter().any(|segment| segment == "token");
    let is_core = rest.first().is_some_and(|segment| segment == "core");
    let is_identity = is_core && rest.get(2).is_none_or(|segment| segment != "namespaces");
    let refused = match holder.role {
        Role::Admin => None,
        Role::Viewer if !is_read => Some("invalid method for role viewer"),
        Role::Operator | Role::Viewer if is_token => Some("tokens take a key of the role admin"),
        Role::Operator if is_identity && !is_read => {
            Some("users and policies take a key of the role admin")
        }
        Role::Operator | Role::Viewer => None,
    };
    refused.map_or(Ok(()), |reason| Err(auth::refusal(reason)))
}

/// Returns path and query as the registry's listener would get them.
fn target(call: &Call, rest: &[String]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, ESCAPED).to_string();
    let path: String = rest.iter().map(|segment| format!("/{}", encode(segment))).collect();
    let pairs = call.arguments.to_pairs().into_iter().filter(|(name, _)| name != KEY_ARGUMENT);
    let pairs = pairs.map(|(name, value)| format!("{}={}", encode(&name), encode(&value)));
    let query = pairs.collect::<Vec<_>>().join("&");
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

/// Returns the content type of a call: that of a form, and otherwise JSON, whatever the caller says,
/// as everywhere in the Admin API.
fn content_type(call: &Call) -> HeaderValue {
    let form =
        call.headers.get(CONTENT_TYPE).filter(|kind| kind.as_bytes().starts_with(b"multipart/"));
    form.cloned().unwrap_or(HeaderValue::from_static("application/json"))
}

fn reply(answer: DialectAnswer, sight: Sight) -> Reply {
    let DialectAnswer { status, content_type, body } = answer;
    let kind = content_type.as_ref().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind == "application/zip" {
        return Reply::download(body.to_vec());
    }
    if sight == Sight::Whole {
        return Reply::text(status, body);
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(mut value) => {
            seal(&mut value);
            Reply::json(status, &value)
        }
        Err(_) => Reply::text(status, body),
    }
}

/// Leaves out the contents and keys of encrypted files.
fn seal(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(seal),
        Value::Object(fields) => {
            let tags = fields.get("tags").and_then(Value::as_array);
            let is_tagged =
                tags.is_some_and(|tags| tags.iter().any(|tag| tag["key"] == ENCRYPTED_TAG));
            let is_encrypted = fields.get("encrypted").is_some_and(|it| *it == true);
            if (is_tagged || is_encrypted) && fields.contains_key("content") {
                fields.insert("content".to_owned(), "".into());
            }
            if let Some(Value::Array(tags)) = fields.get_mut("tags") {
                tags.retain(|tag| tag["key"] != KEY_TAG);
            }
            fields.values_mut().for_each(seal);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn roles_of_keys_limit_what_their_holders_may_do() {
        let table = [
            (Role::Admin, Method::PUT, "core/v1/user/token/refresh", true),
            (Role::Operator, Method::POST, "config/v1/configfiles", true),
            (Role::Operator, Method::POST, "core/v1/namespaces", true),
            (Role::Operator, Method::GET, "core/v1/users", true),
            (Role::Operator, Method::POST, "core/v1/users", false),
            (Role::Operator, Method::POST, "core/v1/auth/strategy", false),
            (Role::Operator, Method::GET, "core/v1/user/token", false),
            (Role::Operator, Method::GET, "naming/v1/service/token", false),
            (Role::Viewer, Method::GET, "config/v1/configfiles", true),
            (Role::Viewer, Method::GET, "core/v1/usergroup/token", false),
            (Role::Viewer, Method::POST, "config/v1/configfiles", false),
            (Role::Viewer, Method::DELETE, "config/v1/configfiles", false),
        ];
        for (role, method, at, is_allowed) in table {
            let holder = AdminKey { name: "one".to_owned(), key: "key".to_owned(), role };
            let checked = check_role(&holder, &method, &path(at));
            assert_eq!(checked.is_ok(), is_allowed, "{role:?} {method} {at}");
        }
    }

    #[test]
    fn only_the_calls_of_operators_are_passed_on() {
        for (at, is_passed) in [
            ("core/v1/users", true),
            ("config/v1/configfiles/search", true),
            ("naming/v2/routings", true),
            ("core/v1/user/login", false),
            ("config/v1/GetConfigFile", false),
            ("config/v1/WatchConfigFile", false),
            ("config/v1/GetConfigFileMetadataList", false),
            ("config/v1/ConfigDiscover", false),
            ("naming/v1", false),
            ("maintain/v1/log/outputlevel", false),
            ("metrics", false),
            ("core", false),
        ] {
            assert_eq!(is_served(&path(at)), is_passed, "{at}");
        }
    }

    #[test]
    fn viewers_do_not_see_the_contents_of_encrypted_files() {
        let tag = json!({"key": ENCRYPTED_TAG, "value": "true"});
        let key = json!({"key": KEY_TAG, "value": "key"});
        let mut answer = json!({
            "configFiles": [
                {"content": "open", "encrypted": false, "tags": []},
                {"content": "secret", "encrypted": true, "tags": []},
                {"content": "secret", "tags": [&tag, key]},
            ],
        });
        seal(&mut answer);
        let contents = |at: usize| answer["configFiles"][at]["content"].clone();
        assert_eq!([contents(0), contents(1), contents(2)], ["open", "", ""]);
        assert_eq!(answer["configFiles"][2]["tags"], json!([tag]));
    }
}
