//! Fields of objects that are encrypted (sealed) in the store, by kind and plugin.
//!
//! This module defines which fields are sealed; the ciphers and the keys are in `tollhouse-model`.
//! Plugins list the secret fields of their confs. An address (URL) that contains a password is a
//! secret too, in every field of plugin confs, plugin metadata and secret managers. If the store is
//! written for APISIX nodes, which cannot open such a field, the address is stored in plain text
//! and is sealed only in answers to readers.

use serde_json::Value;
use tollhouse_model::Kind;
use tollhouse_model::encryption::{
    Form, Keyring, Owner, SSL_FIELDS, Sealing, Unopened, address_fields, open_fields,
    open_or_mark_fields, project, seal_fields, sealed_texts,
};

use crate::catalogue::Catalogue;

/// Sealed fields of an upstream: the private key of its client certificate.
const UPSTREAM_FIELDS: &[&str] = &["tls.client_key"];
/// Sealed fields of an object that contains an inline upstream: the private key of the upstream's
/// client certificate.
const CARRIED_FIELDS: &[&str] = &["upstream.tls.client_key"];
/// Sealed fields of secret managers of any kind: the credentials with which the gateway logs in.
const KEEPER_FIELDS: &[&str] =
    &["token", "secret_access_key", "session_token", "auth_config.private_key"];

/// Fields of secret managers that decide where the credentials are sent.
const KEEPER_SENT_TO: &[&str] = &[
    "uri",
    "prefix",
    "namespace",
    "region",
    "endpoint_url",
    "ssl_verify",
    "auth_config.token_uri",
    "auth_config.entries_uri",
];

/// Treatment of the private keys of certificates when the secrets of an object are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateKeys {
    /// Private keys are opened, for callers that use them.
    Opened,
    /// Private keys stay sealed, because they are never shown.
    Sealed,
}

/// Object whose secrets are sealed or opened. Sealed values are bound to their object, and cannot
/// be opened in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectRef<'a> {
    /// Kind of the object that contains the secret.
    pub kind: Kind,
    /// Id as in documents: `jack/credentials/1` for a credential, `vault/1` for a secret. Empty for
    /// objects that are not stored.
    pub id: &'a str,
}

impl<'a> ObjectRef<'a> {
    /// Returns a reference to the object of this kind and id.
    pub fn new(kind: Kind, id: &'a str) -> Self {
        Self { kind, id }
    }

    /// Returns the name of the object to which its sealed values are bound.
    pub fn name(self) -> String {
        if self.id.is_empty() {
            String::new()
        } else {
            format!("{}/{}", self.kind.plural(), self.id)
        }
    }
}

/// Returns the dotted paths of the sealed fields in objects of a kind, without those of plugin
/// confs, which the plugins list.
pub fn fields_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Ssl => &SSL_FIELDS,
        Kind::Upstream => UPSTREAM_FIELDS,
        Kind::Route | Kind::Service | Kind::StreamRoute => CARRIED_FIELDS,
        Kind::Secret => KEEPER_FIELDS,
        Kind::PluginConfig
        | Kind::GlobalRule
        | Kind::Consumer
        | Kind::Credential
        | Kind::ConsumerGroup
        | Kind::PluginMetadata
        | Kind::Proto => &[],
    }
}

/// Seals all secrets in an object. References to external secrets stay as they are.
pub fn seal(
    at: ObjectRef<'_>,
    object: &mut Value,
    catalogue: &Catalogue,
    keyring: &Keyring,
) -> Sealing {
    let mut all = Sealing::default();
    each_part(at, object, catalogue, PrivateKeys::Opened, |part, owner, fields| {
        all.add(seal_fields(part, owner, fields, keyring));
        if keyring.form() == Form::Marked {
            all.add(seal_fields(part, owner, &addresses(part, fields), keyring));
        }
    });
    all
}

/// Seals all values that must be hidden from readers without the right to see secrets: those that
/// [`seal`] seals, and addresses with passwords even if they are stored in plain text.
pub fn hide(at: ObjectRef<'_>, object: &mut Value, catalogue: &Catalogue, keyring: &Keyring) {
    seal(at, object, catalogue, keyring);
    let marked = keyring.clone().with_form(Form::Marked);
    each_part(at, object, catalogue, PrivateKeys::Opened, |part, owner, fields| {
        seal_fields(part, owner, &addresses(part, fields), &marked);
    });
}

/// Returns the paths of further fields that contain an address with a password, or a sealed text,
/// besides the secret `fields`.
fn addresses(part: &Value, fields: &[&str]) -> Vec<String> {
    let mut found = address_fields(part);
    // A field that holds secrets may be a map or a list of maps, whose texts have paths below its own.
    let is_within = |path: &str, field: &str| {
        path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    found.retain(|path| !fields.iter().any(|field| is_within(path, field)));
    found
}

/// Seals all secrets of an object with the newest key and the current form: values with an older
/// key or form, and values in plain text. If a value cannot be opened with any key, the object
/// stays unchanged, because sealing the value again would make its ciphertext the secret.
pub fn reseal(
    at: ObjectRef<'_>,
    object: &mut Value,
    catalogue: &Catalogue,
    keyring: &Keyring,
) -> Sealing {
    let mut opened = object.clone();
    let unopened = unseal(at, &mut opened, catalogue, keyring, PrivateKeys::Opened);
    if !unopened.is_empty() {
        return Sealing { unopened, ..Sealing::default() };
    }
    seal(at, object, catalogue, keyring)
}

/// Reverses [`seal`]. Values that cannot be opened with any key stay sealed and are returned.
pub fn unseal(
    at: ObjectRef<'_>,
    object: &mut Value,
    catalogue: &Catalogue,
    keyring: &Keyring,
    private_keys: PrivateKeys,
) -> Vec<Unopened> {
    let mut all = Vec::new();
    each_part(at, object, catalogue, private_keys, |part, owner, fields| {
        all.extend(open_fields(part, owner, fields, keyring));
        all.extend(open_fields(part, owner, &addresses(part, fields), keyring));
    });
    all
}

/// Opens a stored object, in which all secrets are sealed. A value that no key opens is marked as
/// sealed, so that using it is an error. Otherwise the ciphertext itself would be used as the
/// secret, although everyone who has seen the store knows it.
pub fn unseal_stored(
    at: ObjectRef<'_>,
    object: &mut Value,
    catalogue: &Catalogue,
    keyring: &Keyring,
) {
    each_part(at, object, catalogue, PrivateKeys::Opened, |part, owner, fields| {
        open_or_mark_fields(part, owner, fields, keyring);
        open_fields(part, owner, &addresses(part, fields), keyring);
    });
}

/// Sealed text in an object from a caller or the store.
#[derive(Clone, PartialEq, Eq)]
pub struct HiddenValue {
    /// Plugin or kind of object that the field belongs to.
    pub owner: String,
    /// Dotted path of the secret field.
    pub field: String,
    /// Sealed text, which is shown instead of the secret.
    pub text: String,
    /// Values of the fields that decide where the secret is sent; addresses among them are opened.
    pub sent_to: Value,
}

impl std::fmt::Debug for HiddenValue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { owner, field, .. } = self;
        out.debug_struct("HiddenValue")
            .field("owner", owner)
            .field("field", field)
            .finish_non_exhaustive()
    }
}

/// Returns all sealed texts of an object that this keyring can open, with their destinations.
pub fn hidden_values(
    at: ObjectRef<'_>,
    object: &Value,
    catalogue: &Catalogue,
    keyring: &Keyring,
) -> Vec<HiddenValue> {
    let mut all = Vec::new();
    let mut object = object.clone();
    each_part(at, &mut object, catalogue, PrivateKeys::Opened, |part, owner, fields| {
        let addresses = addresses(part, fields);
        let mut texts = sealed_texts(part, owner, fields, keyring);
        texts.extend(sealed_texts(part, owner, &addresses, keyring));
        open_fields(part, owner, &addresses, keyring);
        for (field, text) in texts {
            let sent_to = match catalogue.get(owner.part) {
                Some(plugin) => project(part, plugin.sent_to),
                None if at.kind == Kind::Secret => project(part, KEEPER_SENT_TO),
                None => Value::Null,
            };
            all.push(HiddenValue { owner: owner.part.to_owned(), field, text, sent_to });
        }
    });
    all
}

/// Calls `apply(part, owner, fields)` for each part of an object that may contain secrets, such as
/// a plugin's configuration. `owner` names the object and the part; `fields` are the dotted paths
/// of the secret fields.
fn each_part(
    at: ObjectRef<'_>,
    object: &mut Value,
    catalogue: &Catalogue,
    private_keys: PrivateKeys,
    mut apply: impl FnMut(&mut Value, Owner<'_>, &[&str]),
) {
    let (kind, name) = (at.kind, at.name());
    let of = |part| Owner { object: &name, part };
    let opens = private_keys == PrivateKeys::Opened;
    match kind {
        Kind::Ssl if opens => apply(object, of("ssl"), &SSL_FIELDS),
        Kind::Upstream if opens => apply(object, of("upstream"), UPSTREAM_FIELDS),
        Kind::Route | Kind::Service | Kind::StreamRoute if opens => {
            if let Some(upstream) = object.get_mut("upstream") {
                apply(upstream, of("upstream"), UPSTREAM_FIELDS);
            }
        }
        Kind::Secret => apply(object, of("secret"), KEEPER_FIELDS),
        Kind::PluginMetadata => apply(object, of("plugin_metadata"), &[]),
        Kind::Ssl
        | Kind::Upstream
        | Kind::Route
        | Kind::Service
        | Kind::StreamRoute
        | Kind::PluginConfig
        | Kind::GlobalRule
        | Kind::Consumer
        | Kind::Credential
        | Kind::ConsumerGroup
        | Kind::Proto => {}
    }
    // Confs of auth plugins in consumers and credentials have other secret fields than those in
    // routes.
    let says_who = matches!(kind, Kind::Consumer | Kind::Credential);
    let Some(Value::Object(confs)) = object.get_mut("plugins") else { return };
    for (part, conf) in confs {
        let fields = match catalogue.get(part) {
            None => &[][..],
            Some(plugin) => match &plugin.consumer {
                Some(spec) if says_who => spec.encrypted,
                _ => plugin.encrypted,
            },
        };
        apply(conf, of(part), fields);
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;
    use tollhouse_model::encryption::Form;

    use super::*;
    use crate::consumer::Identity;
    use crate::{Category, ConsumerSpec, Phases, Plugin, PluginType, Scope};

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only the names of the fields count here")]
    struct Conf {
        password: String,
    }

    impl Identity for Conf {
        const KEY_FIELD: &'static str = "key";
        const ENCRYPTED: &'static [&'static str] = &["key"];
    }

    struct Auth;

    impl Plugin for Auth {
        const NAME: &'static str = "auth";
        const PRIORITY: i32 = 1;
        const CATEGORY: Category = Category::Authentication;
        const PHASES: Phases = Phases::NONE;
        const ENCRYPTED: &'static [&'static str] = &["password"];
        type Config = Conf;

        fn consumer() -> Option<ConsumerSpec> {
            Some(ConsumerSpec::new::<Conf>())
        }

        fn compile(_: Conf, _: &Scope<'_>) -> Result<Self, crate::ConfError> {
            Ok(Self)
        }
    }

    #[test]
    fn each_kind_has_its_fields_sealed_and_nothing_else() {
        let catalogue = Catalogue::new([PluginType::new::<Auth>()]);
        let keyring = Keyring::new(["0123456789abcdef"]).expect("a key of sixteen letters");
        let keyring = keyring.with_form(Form::Apisix);
        let hidden = keyring.seal("x", "");
        let conf = json!({"auth": {"password": "x", "key": "x"}, "other": {"password": "x"}});
        let with_plugins = json!({"key": "x", "plugins": conf});
        let tls = json!({"client_key": "x", "client_cert": "x"});
        let (key, password) = ("/plugins/auth/key", "/plugins/auth/password");
        let gcp = json!({"auth_config": {"private_key": "x", "client_email": "x"}});
        let table: [(Kind, Value, &[&str]); 10] = [
            (Kind::Route, with_plugins.clone(), &[password]),
            (Kind::GlobalRule, with_plugins.clone(), &[password]),
            (Kind::Consumer, with_plugins.clone(), &[key]),
            (Kind::Credential, with_plugins.clone(), &[key]),
            (Kind::ConsumerGroup, with_plugins, &[password]),
            (Kind::Ssl, json!({"key": "x", "keys": ["x"], "cert": "x"}), &["/key", "/keys/0"]),
            (Kind::Upstream, json!({"tls": tls}), &["/tls/client_key"]),
            (Kind::Service, json!({"upstream": {"tls": tls}}), &["/upstream/tls/client_key"]),
            (Kind::Secret, json!({"token": "x", "uri": "x"}), &["/token"]),
            (Kind::Secret, gcp, &["/auth_config/private_key"]),
        ];
        for (kind, plain, sealed_at) in table {
            let mut expected = plain.clone();
            for place in sealed_at {
                *expected.pointer_mut(place).expect(place) = hidden.clone().into();
            }
            let mut object = plain.clone();
            seal(ObjectRef::new(kind, "1"), &mut object, &catalogue, &keyring);
            assert_eq!(object, expected, "{kind}");
            unseal(
                ObjectRef::new(kind, "1"),
                &mut object,
                &catalogue,
                &keyring,
                PrivateKeys::Opened,
            );
            assert_eq!(object, plain, "{kind}");
        }
    }

    /// A route with an address in a field that is none of the plugin's secrets, in a plugin that is unknown, and in
    /// metadata of plugins.
    fn with_addresses(address: &str) -> [(Kind, Value, Vec<&'static str>); 3] {
        let confs = json!({
            "auth": {"password": "x", "more": {"uris": ["http://h", address]}},
            "unknown": {"uri": address, "plain": "http://h"},
        });
        [
            (
                Kind::Route,
                json!({"uri": "/*", "plugins": confs}),
                vec!["/plugins/auth/more/uris/1", "/plugins/unknown/uri"],
            ),
            (Kind::PluginMetadata, json!({"host": address}), vec!["/host"]),
            (Kind::Secret, json!({"uri": address, "token": "x"}), vec!["/uri"]),
        ]
    }

    #[test]
    fn addresses_with_passwords_are_sealed_in_every_field() {
        let catalogue = Catalogue::new([PluginType::new::<Auth>()]);
        let marked = Keyring::new(["0123456789abcdef"]).expect("a key of sixteen letters");
        for keyring in [marked.clone(), marked.with_form(Form::Apisix)] {
            for (kind, plain, places) in with_addresses("http://user:secret@h/path") {
                let at = ObjectRef::new(kind, "1");
                let mut stored = plain.clone();
                seal(at, &mut stored, &catalogue, &keyring);
                // Nodes of APISIX open no such field.
                let is_open = keyring.form() == Form::Apisix;
                assert_eq!(stored.to_string().contains("secret@"), is_open, "{kind} {stored}");
                let mut shown = stored.clone();
                hide(at, &mut shown, &catalogue, &keyring);
                for place in places {
                    let text = shown.pointer(place).and_then(Value::as_str).expect(place);
                    assert!(Keyring::is_marked(text), "{kind} {place}: {text}");
                }
                assert!(!shown.to_string().contains("secret@"), "{kind} {shown}");
                // What is read can be written back, and the data plane gets what was written first.
                for mut object in [shown, stored] {
                    unseal_stored(at, &mut object, &catalogue, &keyring);
                    assert_eq!(object, plain, "{kind}");
                }
            }
        }
    }

    #[test]
    fn an_address_that_is_shown_sealed_stays_what_it_was() {
        let catalogue = Catalogue::new([PluginType::new::<Auth>()]);
        let marked = Keyring::new(["0123456789abcdef"]).expect("a key of sixteen letters");
        let at = ObjectRef::new(Kind::Route, "1");
        let values = |object: &Value, keyring: &Keyring| {
            hidden_values(at, object, &catalogue, keyring)
                .into_iter()
                .map(|it| (it.owner, it.field, it.text))
                .collect::<Vec<_>>()
        };
        for keyring in [marked.clone(), marked.with_form(Form::Apisix)] {
            let address = "http://user:secret@h";
            let mut stored = json!({"plugins": {"auth": {"uri": address}}});
            assert!(values(&stored, &keyring).is_empty(), "one in the clear is no hidden value");
            seal(at, &mut stored, &catalogue, &keyring);
            let (mut first, mut second) = (stored.clone(), stored);
            hide(at, &mut first, &catalogue, &keyring);
            hide(at, &mut second, &catalogue, &keyring);
            let expected = [("auth".to_owned(), "uri".to_owned(), address.to_owned())];
            assert_eq!(values(&first, &keyring), expected);
            assert_eq!(values(&first, &keyring), values(&second, &keyring));
        }
    }

    #[test]
    fn what_no_key_opens_is_not_sealed_once_more() {
        let catalogue = Catalogue::new([PluginType::new::<Auth>()]);
        let ring = |key: &str| Keyring::new([key]).expect("a key of sixteen letters");
        let (old, new) = (ring("0123456789abcdef"), ring("fedcba9876543210"));
        let both = Keyring::new(["fedcba9876543210", "0123456789abcdef"]).expect("they are good");
        for old in [old.clone(), old.with_form(Form::Apisix)] {
            let mut jack = json!({"plugins": {"auth": {"key": "x"}}});
            seal(ObjectRef::new(Kind::Consumer, "1"), &mut jack, &catalogue, &old);
            let before = jack.clone();
            let lost = reseal(ObjectRef::new(Kind::Consumer, "1"), &mut jack, &catalogue, &new);
            assert_eq!((lost.unopened.len(), lost.changed, &jack), (1, 0, &before));
            let moved = reseal(ObjectRef::new(Kind::Consumer, "1"), &mut jack, &catalogue, &both);
            assert_eq!((moved.unopened.len(), moved.changed), (0, 1));
            let again = reseal(ObjectRef::new(Kind::Consumer, "1"), &mut jack, &catalogue, &both);
            assert_eq!((again.sealed, again.changed), (1, 0));
            let opened = unseal(
                ObjectRef::new(Kind::Consumer, "1"),
                &mut jack,
                &catalogue,
                &new,
                PrivateKeys::Opened,
            );
            assert_eq!((opened, &jack["plugins"]["auth"]["key"]), (Vec::new(), &json!("x")));
        }
    }

    #[test]
    fn private_keys_can_stay_sealed() {
        let catalogue = Catalogue::new([PluginType::new::<Auth>()]);
        let keyring = Keyring::generate().expect("there are random numbers");
        let mut route = json!({
            "upstream": {"tls": {"client_key": "x"}}, "plugins": {"auth": {"password": "x"}},
        });
        seal(ObjectRef::new(Kind::Route, "1"), &mut route, &catalogue, &keyring);
        let sealed = route["upstream"].clone();
        unseal(
            ObjectRef::new(Kind::Route, "1"),
            &mut route,
            &catalogue,
            &keyring,
            PrivateKeys::Sealed,
        );
        assert_eq!(
            (&route["upstream"], &route["plugins"]["auth"]["password"]),
            (&sealed, &json!("x"))
        );
    }
}
