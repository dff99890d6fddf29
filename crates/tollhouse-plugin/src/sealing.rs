//! Which fields of which objects lie encrypted in the store, by kind and plugin.
//!
//! The cipher and the keys are the model's; here is only what to use them on. Plugins say it of
//! their own confs.

use serde_json::Value;
use tollhouse_model::Kind;
use tollhouse_model::encryption::{Keyring, SSL_FIELDS, decrypt_fields, encrypt_fields};

use crate::catalogue::Catalogue;

/// The private key that goes with an upstream's own certificate.
const UPSTREAM_FIELDS: [&str; 1] = ["tls.client_key"];
/// The same of an object that carries its upstream.
const INLINE_UPSTREAM_FIELDS: [&str; 1] = ["upstream.tls.client_key"];

/// Encrypts what must not lie open in the store. What is encrypted already, and references to
/// secrets that are kept elsewhere, stay as they are.
pub fn seal(kind: Kind, object: &mut Value, catalogue: &Catalogue, keyring: &Keyring) {
    each_part(kind, object, catalogue, |part, fields| encrypt_fields(part, fields, keyring));
}

/// The reverse of [`seal`]; what no key of the ring decrypts stays as it is.
pub fn unseal(kind: Kind, object: &mut Value, catalogue: &Catalogue, keyring: &Keyring) {
    each_part(kind, object, catalogue, |part, fields| decrypt_fields(part, fields, keyring));
}

/// Calls `apply` with each part of an object that has fields to encrypt.
fn each_part(
    kind: Kind,
    object: &mut Value,
    catalogue: &Catalogue,
    apply: impl Fn(&mut Value, &[&str]),
) {
    match kind {
        Kind::Ssl => apply(object, &SSL_FIELDS),
        Kind::Upstream => apply(object, &UPSTREAM_FIELDS),
        Kind::Route | Kind::Service | Kind::StreamRoute => apply(object, &INLINE_UPSTREAM_FIELDS),
        Kind::PluginConfig
        | Kind::GlobalRule
        | Kind::Consumer
        | Kind::Credential
        | Kind::ConsumerGroup
        | Kind::PluginMetadata
        | Kind::Proto
        | Kind::Secret => {}
    }
    let says_who = matches!(kind, Kind::Consumer | Kind::Credential);
    let Some(Value::Object(confs)) = object.get_mut("plugins") else { return };
    for (name, conf) in confs {
        let Some(plugin) = catalogue.get(name) else { continue };
        match &plugin.consumer {
            Some(spec) if says_who => apply(conf, spec.encrypted),
            _ => apply(conf, plugin.encrypted),
        }
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

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
            Some(ConsumerSpec::of::<Conf>())
        }

        fn compile(_: Conf, _: &Scope<'_>) -> Result<Self, String> {
            Ok(Self)
        }
    }

    #[test]
    fn each_kind_has_its_fields_sealed_and_nothing_else() {
        let catalogue = Catalogue::new([PluginType::of::<Auth>()]);
        let keyring = Keyring::new(["0123456789abcdef"]).expect("a key of sixteen letters");
        let hidden = keyring.encrypt("x");
        let conf = json!({"auth": {"password": "x", "key": "x"}, "other": {"password": "x"}});
        let with_plugins = json!({"key": "x", "plugins": conf});
        let tls = json!({"client_key": "x", "client_cert": "x"});
        let (key, password) = ("/plugins/auth/key", "/plugins/auth/password");
        let table: [(Kind, Value, &[&str]); 9] = [
            (Kind::Route, with_plugins.clone(), &[password]),
            (Kind::GlobalRule, with_plugins.clone(), &[password]),
            (Kind::Consumer, with_plugins.clone(), &[key]),
            (Kind::Credential, with_plugins.clone(), &[key]),
            (Kind::ConsumerGroup, with_plugins, &[password]),
            (Kind::Ssl, json!({"key": "x", "keys": ["x"], "cert": "x"}), &["/key", "/keys/0"]),
            (Kind::Upstream, json!({"tls": tls}), &["/tls/client_key"]),
            (Kind::Service, json!({"upstream": {"tls": tls}}), &["/upstream/tls/client_key"]),
            (Kind::Secret, json!({"token": "x"}), &[]),
        ];
        for (kind, plain, sealed_at) in table {
            let mut expected = plain.clone();
            for place in sealed_at {
                *expected.pointer_mut(place).expect(place) = hidden.clone().into();
            }
            let mut object = plain.clone();
            seal(kind, &mut object, &catalogue, &keyring);
            assert_eq!(object, expected, "{kind}");
            unseal(kind, &mut object, &catalogue, &keyring);
            assert_eq!(object, plain, "{kind}");
        }
    }
}
