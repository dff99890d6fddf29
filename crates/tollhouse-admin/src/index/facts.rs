//! Facts that the index stores about one object.

use serde_json::Value;
use tollhouse_config::store_keys::parse_store_key;
use tollhouse_model::encryption::{Keyring, Owner};
use tollhouse_plugin::Catalogue;
use tollhouse_plugin::sealing::ObjectRef;

use crate::object::Fields;
use crate::references::{self, ReferenceKind};

/// End of the collection name of the GraphQL cost decorations of a service.
const DECORATIONS: &str = "/graphql_cost_decorations";
/// Path prefix of global rules.
pub(super) const GLOBAL_RULES: &str = "global_rules/";
/// Path prefix of plugin metadata.
const METADATA: &str = "plugin_metadata/";

/// Value that only one object may have, with its scope. For a credential: the plugin, and the value
/// that identifies it in requests. For a GraphQL cost decoration: its collection, and its field.
pub(crate) type Identity = (Box<str>, Box<str>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// References to files of the configuration centre.
    pub files: Box<[Box<str>]>,
    /// Paths of the referenced objects, each with the kind of reference.
    pub references: Box<[(Box<str>, ReferenceKind)]>,
    /// Values that no other object may have.
    pub identities: Box<[Identity]>,
    /// Names of a global rule's plugins.
    pub rule_plugins: Box<[Box<str>]>,
    /// Time of creation, in seconds of Unix time.
    pub create_time: Option<i64>,
    /// Whether the object is a client certificate, for connections to upstream nodes.
    pub is_client_certificate: bool,
    /// The stored value, if the object is plugin metadata.
    pub metadata: Option<Value>,
    /// Fields by which lists are filtered and sorted.
    pub list_fields: ListFields,
}

/// Fields of an object that lists are filtered by, besides references.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListFields {
    pub name: Option<Box<str>>,
    pub uris: Box<[Box<str>]>,
    /// Hosts, or SNIs of a certificate.
    pub hosts: Box<[Box<str>]>,
    /// Names of the object's labels.
    pub labels: Box<[Box<str>]>,
    /// Names of the object's plugins.
    pub plugins: Box<[Box<str>]>,
    /// Whether the object is disabled (`status` 0).
    pub is_off: bool,
}

impl Facts {
    /// Extracts the facts of a stored value. A value that is not a JSON object was written by
    /// another program and has no facts.
    pub(crate) fn inspect(path: &str, value: &[u8], catalogue: &Catalogue, ring: &Keyring) -> Self {
        let Ok(Value::Object(fields)) = serde_json::from_slice(value) else {
            return Self::default();
        };
        let value = Value::Object(fields);
        let named = references::find_all(&value);
        let plugins = value.get("plugins").and_then(Value::as_object);
        let decorations = path.rsplit_once('/').filter(|(above, _)| above.ends_with(DECORATIONS));
        let is_owner = path.starts_with("consumers/");
        let is_rule = path.starts_with(GLOBAL_RULES);
        let names = plugins.into_iter().flat_map(Fields::keys).filter(|_| is_rule);
        let mut facts = Self {
            files: references::files(&value).map(Box::from).collect(),
            references: named.into_iter().map(|one| (one.target.into(), one.place)).collect(),
            identities: match (plugins.filter(|_| is_owner), decorations) {
                (Some(confs), _) => identities(path, confs, catalogue, ring),
                (None, Some((collection, _))) => {
                    decoration(collection, &value).into_iter().collect()
                }
                (None, None) => Box::default(),
            },
            rule_plugins: names.map(|name| name.as_str().into()).collect(),
            create_time: value.get("create_time").and_then(Value::as_i64),
            is_client_certificate: value.get("type").is_some_and(|side| side == "client"),
            list_fields: ListFields::from_value(&value),
            metadata: path.starts_with(METADATA).then_some(value),
        };
        facts.references.sort();
        facts
    }
}

impl ListFields {
    fn from_value(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(Box::from);
        let uris = value.get("uris").and_then(Value::as_array).into_iter().flatten();
        let many = ["hosts", "snis"].into_iter().filter_map(|field| value.get(field));
        let many = many.filter_map(Value::as_array).flatten();
        let hosts = ["host", "sni"].into_iter().filter_map(|field| value.get(field)).chain(many);
        let labels = value.get("labels").and_then(Value::as_object).into_iter();
        let plugins = value.get("plugins").and_then(Value::as_object).into_iter();
        Self {
            name: value.get("name").and_then(text),
            uris: value.get("uri").into_iter().chain(uris).filter_map(text).collect(),
            hosts: hosts.filter_map(text).collect(),
            labels: labels.flat_map(Fields::keys).map(|label| label.as_str().into()).collect(),
            plugins: plugins.flat_map(Fields::keys).map(|name| name.as_str().into()).collect(),
            is_off: value.get("status").is_some_and(|status| status == 0),
        }
    }
}

/// Returns the unique value of a GraphQL cost decoration: its collection and its field.
pub(crate) fn decoration(collection: &str, value: &Value) -> Option<Identity> {
    let field = value.get("field_path")?.as_str()?;
    Some((collection.into(), field.into()))
}

/// Returns the unique values of the credentials in these plugin configurations; sealed ones are
/// opened with `ring`.
pub(crate) fn identities(
    path: &str,
    confs: &Fields,
    catalogue: &Catalogue,
    ring: &Keyring,
) -> Box<[Identity]> {
    let found = parse_store_key("", &format!("/{path}"));
    let object = found.map(|(kind, id)| ObjectRef::new(kind, id.as_str()).name());
    let object = object.unwrap_or_default();
    let identity = |(name, conf): (&String, &Value)| {
        let spec = catalogue.get(name)?.consumer?;
        let text = conf.get(spec.key_field)?.as_str()?;
        let is_secret = spec.encrypted.contains(&spec.key_field);
        let owner = Owner { object: &object, part: name };
        let opened = || owner.open(text, spec.key_field, ring).into_hidden();
        let plain = if is_secret { opened() } else { None };
        let value = plain.as_deref().unwrap_or(text);
        Some((Box::from(name.as_str()), Box::from(value)))
    };
    confs.iter().filter_map(identity).collect()
}
