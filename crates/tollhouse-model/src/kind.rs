//! The kinds of configuration objects.

use std::fmt;

use serde_json::Value;

use crate::{
    Consumer, ConsumerGroup, Credential, GlobalRule, Id, PluginConfig, PluginMetadata, Problems,
    Proto, Route, Secret, Service, Ssl, StreamRoute, Upstream,
};

/// Kind of a configuration object, in the order used for documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Route,
    Service,
    Upstream,
    PluginConfig,
    GlobalRule,
    /// A consumer; the id is the username.
    Consumer,
    /// A credential; the id is `<username>/credentials/<id>`.
    Credential,
    ConsumerGroup,
    /// Settings for all configurations of a plugin; the id is the plugin's name.
    PluginMetadata,
    /// gRPC service definition in Protobuf.
    Proto,
    /// Certificate with its private key.
    Ssl,
    /// A route of connections below HTTP.
    StreamRoute,
    /// A secret manager; the id is `<manager>/<id>`.
    Secret,
}

impl Kind {
    pub const ALL: [Kind; 13] = [
        Kind::Route,
        Kind::Service,
        Kind::Upstream,
        Kind::PluginConfig,
        Kind::GlobalRule,
        Kind::Consumer,
        Kind::Credential,
        Kind::ConsumerGroup,
        Kind::PluginMetadata,
        Kind::Proto,
        Kind::Ssl,
        Kind::StreamRoute,
        Kind::Secret,
    ];

    /// Returns the name of the collection in documents and paths: `routes`, `plugin_configs`, ….
    /// Credentials have no list: in documents they are among the consumers, in paths below them.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Route => "routes",
            Kind::Service => "services",
            Kind::Upstream => "upstreams",
            Kind::PluginConfig => "plugin_configs",
            Kind::GlobalRule => "global_rules",
            Kind::Consumer => "consumers",
            Kind::Credential => "credentials",
            Kind::ConsumerGroup => "consumer_groups",
            Kind::PluginMetadata => "plugin_metadata",
            Kind::Proto => "protos",
            Kind::Ssl => "ssls",
            Kind::StreamRoute => "stream_routes",
            Kind::Secret => "secrets",
        }
    }

    /// Returns the kind whose list has this name in a document. Credentials have no list: see
    /// [`Kind::plural`].
    pub fn from_list_name(name: &str) -> Option<Kind> {
        Self::lists().find(|kind| kind.plural() == name)
    }

    /// Returns the kinds that have their own list in documents.
    pub fn lists() -> impl Iterator<Item = Kind> + Clone {
        Self::ALL.into_iter().filter(|kind| *kind != Kind::Credential)
    }

    /// Validates an object of this kind without regard to other objects.
    pub fn problems_of(self, id: Id, value: &Value, path: &str) -> Problems {
        match self {
            Kind::Route => Route::parse(id, value, path).1,
            Kind::Service => Service::parse(id, value, path).1,
            Kind::Upstream => Upstream::parse(Some(id), value, path).1,
            Kind::PluginConfig => PluginConfig::parse(id, value, path).1,
            Kind::GlobalRule => GlobalRule::parse(id, value, path).1,
            Kind::Consumer => Consumer::parse(id, value, path).1,
            Kind::Credential => Credential::parse(id, value, path).1,
            Kind::ConsumerGroup => ConsumerGroup::parse(id, value, path).1,
            Kind::PluginMetadata => PluginMetadata::parse(id, value, path).1,
            Kind::Proto => Proto::parse(id, value, path).1,
            Kind::Ssl => Ssl::parse(id, value, path).1,
            Kind::StreamRoute => StreamRoute::parse(id, value, path).1,
            Kind::Secret => Secret::parse(id, value, path).1,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.plural())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Strategy for arbitrary JSON values that contain field names of the kinds.
    fn any_value() -> impl Strategy<Value = Value> {
        let names = prop::sample::select(vec![
            "id",
            "username",
            "plugins",
            "key-auth",
            "_meta",
            "labels",
            "content",
            "cert",
            "key",
            "certs",
            "keys",
            "sni",
            "snis",
            "client",
            "ca",
            "skip_mtls_uri_regex",
            "type",
            "uri",
            "token",
            "prefix",
            "auth_config",
            "scope",
            "upstream",
            "nodes",
            "scheme",
            "protocol",
            "logger",
            "name",
            "conf",
            "remote_addr",
            "server_port",
            "status",
            "ssl_protocols",
        ]);
        let texts = prop::sample::select(vec![
            "",
            "a",
            "client",
            "-----BEGIN CERTIFICATE-----",
            "$ENV://A",
            "127.0.0.1",
            "tcp",
            "a/b",
            "(",
            "http://a",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            texts.prop_map(Value::from),
            "[ -~é]{0,200}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((names.clone(), inner), 0..8).prop_map(|fields| {
                    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_document_makes_a_kind_panic(value in any_value()) {
            for kind in Kind::ALL {
                for id in ["1", "jack/credentials/c1", "vault/1", ""] {
                    kind.problems_of(Id::new(id), &value, "p");
                }
            }
        }
    }

    #[test]
    fn every_list_is_found_by_its_name_and_credentials_have_none() {
        for kind in Kind::ALL {
            let expected = (kind != Kind::Credential).then_some(kind);
            assert_eq!(Kind::from_list_name(kind.plural()), expected, "{kind}");
        }
        assert_eq!(Kind::from_list_name("route"), None);
    }
}
