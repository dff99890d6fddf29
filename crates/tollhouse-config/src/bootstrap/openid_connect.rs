//! `admin.openid_connect`: the identity provider at which people log in to the console, and the
//! rights that its groups give them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::{Map, Value};
use tollhouse_model::{Problem, Problems};

use super::Bootstrap;
use super::parts::Secret;
use super::shape::{Read, Shape, refuse};

/// Prefix of the keys.
const KEYS: &str = "admin.openid_connect";

/// Maximum number of groups in a table. Each is looked up at a log-in.
const GROUPS_MAX: usize = 1_000;

/// Log-in of people at an identity provider; off without an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIdConnect {
    /// Address of the provider, below which its discovery document is.
    pub issuer: Option<String>,
    /// Text on the button of the console.
    pub name: String,
    pub client_id: Option<String>,
    /// Secret of the client; a public client has none.
    pub client_secret: Option<Secret>,
    /// File with that secret.
    pub client_secret_file: Option<PathBuf>,
    pub scopes: Vec<String>,
    /// Address of the console as browsers know it; `None` takes it from their requests.
    pub public_url: Option<String>,
    /// Claim with the names of the user's groups; inner claims are separated by dots.
    pub groups_claim: String,
    /// Groups of users of the registry, by group of the provider.
    pub groups: GroupNames,
    /// Roles of the registry, by group of the provider.
    pub roles: GroupNames,
    /// Groups of the provider whose members may log in; empty admits all users.
    pub allowed_groups: Vec<String>,
    /// Domains of confirmed mail addresses whose users may log in; empty admits all users.
    pub allowed_domains: Vec<String>,
    /// CA certificates of the provider, PEM; `None` uses those of the system.
    pub ca: Option<PathBuf>,
}

/// Names of groups or roles here, by the name of a group of the provider.
pub type GroupNames = BTreeMap<String, Vec<String>>;

impl Default for OpenIdConnect {
    fn default() -> Self {
        Self {
            issuer: None,
            name: "OpenID Connect".to_owned(),
            client_id: None,
            client_secret: None,
            client_secret_file: None,
            scopes: ["openid", "profile", "email"].map(str::to_owned).to_vec(),
            public_url: None,
            groups_claim: "groups".to_owned(),
            groups: GroupNames::new(),
            roles: GroupNames::new(),
            allowed_groups: Vec::new(),
            allowed_domains: Vec::new(),
            ca: None,
        }
    }
}

/// Syntax of a table from groups of the provider to names here, each one text or a list.
pub(crate) struct GroupTable;

impl Shape for GroupTable {
    type Value = GroupNames;
    fn takes() -> String {
        "table such as {gateway-admins: admins}, as JSON in a variable or flag".to_owned()
    }
    fn read(value: &Value) -> Read<GroupNames> {
        match value {
            Value::Object(fields) => read_table(fields),
            Value::String(text) if text.trim().is_empty() => Ok(GroupNames::new()),
            Value::String(text) => match serde_json::from_str(text) {
                Ok(Value::Object(fields)) => read_table(&fields),
                _ => not_a_table(),
            },
            _ => not_a_table(),
        }
    }
    fn show(value: &GroupNames) -> String {
        Value::Object(
            value.iter().map(|(group, names)| (group.clone(), names.clone().into())).collect(),
        )
        .to_string()
    }
}

fn not_a_table<T>() -> Read<T> {
    refuse("not a table", "write the group of the provider as key, and one name or a list as value")
}

fn read_table(fields: &Map<String, Value>) -> Read<GroupNames> {
    if fields.len() > GROUPS_MAX {
        return refuse("too many groups", format!("give at most {GROUPS_MAX}"));
    }
    let mut table = GroupNames::new();
    for (group, value) in fields {
        let names: Option<Vec<String>> = match value {
            Value::String(name) => Some(vec![name.clone()]),
            Value::Array(names) => {
                names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
            }
            _ => None,
        };
        let names = names.filter(|names| names.iter().all(|name| !name.trim().is_empty()));
        let Some(names) = names else {
            let reason = format!("{group:?} has neither a name nor a list of names");
            return refuse(reason, "give the name of a group or role of the registry");
        };
        table.insert(group.clone(), names);
    }
    Ok(table)
}

/// Checks the settings of the log-in.
pub(super) fn check(bootstrap: &Bootstrap, given: impl Fn(&str) -> bool, problems: &mut Problems) {
    let settings = &bootstrap.admin.openid_connect;
    let mut error = |key: &str, reason: String, hint: &str| {
        problems.push(Problem::error(format!("{KEYS}.{key}"), reason).with_hint(hint));
    };
    let Some(issuer) = &settings.issuer else {
        for key in ["client_id", "client_secret", "client_secret_file", "groups", "roles"] {
            if given(&format!("{KEYS}.{key}")) {
                let hint = "set admin.openid_connect.issuer to the address of the provider";
                error(key, "applies only with an issuer".to_owned(), hint);
            }
        }
        return;
    };
    if let Err(reason) = check_address(issuer) {
        error("issuer", reason, "give the issuer as the provider's discovery document has it");
    }
    if let Some(Err(reason)) = settings.public_url.as_deref().map(check_public) {
        let hint =
            "give scheme, host and port of the console, such as https://gateway.example:9180";
        error("public_url", reason, hint);
    }
    if settings.client_id.is_none() {
        let hint = "register the console at the provider, with PUBLIC_URL/ui/login as redirect \
                    address, and give the client id here";
        error("client_id", "missing, although an issuer is set".to_owned(), hint);
    }
    if settings.client_secret.is_some() && settings.client_secret_file.is_some() {
        let hint = "leave out one of them";
        error("client_secret", "given twice, with client_secret_file".to_owned(), hint);
    }
    if !settings.scopes.iter().any(|scope| scope == "openid") {
        let hint = "add openid to the list";
        error("scopes", "without openid, the provider sends no ID token".to_owned(), hint);
    }
    let listen = &bootstrap.listen;
    if listen.registry_grpc.is_empty() && listen.registry_http.is_empty() {
        let hint = "set listen.registry_http, for example to 127.0.0.1:8090";
        let reason = "users are kept in the registry, which is off".to_owned();
        error("issuer", reason, hint);
    }
    if !bootstrap.admin.key_required {
        let hint = "set admin.key_required to true";
        error(
            "issuer",
            "without admin.key_required, every caller is admitted without a log-in".to_owned(),
            hint,
        );
    }
}

/// Requires TLS, except on this machine.
fn check_address(address: &str) -> Result<(), String> {
    let (scheme, rest) =
        address.split_once("://").ok_or_else(|| format!("{address:?} is not an address"))?;
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.is_empty() || address.contains(['?', '#', '@', ' ']) {
        return Err(format!("{address:?} is not the address of an issuer"));
    }
    match scheme {
        "https" => Ok(()),
        "http" if is_local(authority) => Ok(()),
        "http" => {
            Err("http would show codes and tokens to the network; https is required".to_owned())
        }
        _ => Err(format!("{address:?} begins with neither https:// nor http://")),
    }
}

fn check_public(address: &str) -> Result<(), String> {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let rest =
        rest.ok_or_else(|| format!("{address:?} begins with neither https:// nor http://"))?;
    let host = rest.strip_suffix('/').unwrap_or(rest);
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_host) {
        return Err(format!("{address:?} has more than scheme, host and port"));
    }
    Ok(())
}

fn is_local(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_have_one_name_or_several() {
        let table = json!({"ops": "operators", "all": ["readers", "writers"]});
        for value in [table.clone(), json!(table.to_string())] {
            let read = GroupTable::read(&value).expect("a table");
            assert_eq!(read["ops"], ["operators"]);
            assert_eq!(read["all"], ["readers", "writers"]);
            assert_eq!(
                GroupTable::show(&read),
                r#"{"all":["readers","writers"],"ops":["operators"]}"#
            );
        }
        for value in
            [json!(["a"]), json!("a"), json!({"a": 1}), json!({"a": [1]}), json!({"a": ""})]
        {
            assert!(GroupTable::read(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn settings_that_do_not_fit_together_are_named() {
        let problems_of = |change: &dyn Fn(&mut Bootstrap)| {
            let mut bootstrap = Bootstrap::default();
            let settings = &mut bootstrap.admin.openid_connect;
            settings.issuer = Some("https://id.example".to_owned());
            settings.client_id = Some("console".to_owned());
            change(&mut bootstrap);
            let mut problems = Problems::new();
            check(&bootstrap, |key| key.ends_with("openid_connect.groups"), &mut problems);
            let paths = problems.iter().map(|it| it.path.rsplit('.').next().unwrap_or_default());
            paths.map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(problems_of(&|_| {}).is_empty());
        let table: [(&dyn Fn(&mut Bootstrap), &str); 8] = [
            (&|it| it.admin.openid_connect.issuer = None, "groups"),
            (&|it| it.admin.openid_connect.issuer = Some("http://a.example".to_owned()), "issuer"),
            (&|it| it.admin.openid_connect.client_id = None, "client_id"),
            (&|it| it.admin.openid_connect.public_url = Some("a".to_owned()), "public_url"),
            (&|it| it.admin.openid_connect.scopes.clear(), "scopes"),
            (&|it| it.admin.key_required = false, "issuer"),
            (
                &|it| {
                    it.listen.registry_grpc.clear();
                    it.listen.registry_http.clear();
                },
                "issuer",
            ),
            (
                &|it| {
                    let settings = &mut it.admin.openid_connect;
                    settings.client_secret = Some(Secret::new("s".to_owned()));
                    settings.client_secret_file = Some("/secret".into());
                },
                "client_secret",
            ),
        ];
        for (at, (change, expected)) in table.into_iter().enumerate() {
            assert_eq!(problems_of(change), [expected], "{at}");
        }
    }

    #[test]
    fn an_issuer_is_reached_over_tls_or_on_this_machine() {
        for (address, is_good) in [
            ("https://id.example", true),
            ("https://id.example:8443/realms/a", true),
            ("http://127.0.0.1:5556/dex", true),
            ("http://localhost:5556", true),
            ("http://[::1]:5556", true),
            ("http://id.example", false),
            ("http://127.0.0.1.example", false),
            ("http://user@127.0.0.1", false),
            ("https://id.example?a=b", false),
            ("ftp://id.example", false),
            ("id.example", false),
            ("https://", false),
        ] {
            assert_eq!(check_address(address).is_ok(), is_good, "{address}");
        }
        for (address, is_good) in [
            ("https://gateway.example:9180", true),
            ("http://[::1]:9180/", true),
            ("https://gateway.example/console", false),
            ("gateway.example", false),
            ("https://", false),
        ] {
            assert_eq!(check_public(address).is_ok(), is_good, "{address}");
        }
    }
}
