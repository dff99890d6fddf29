//! Keys of objects in the store: `/shenyu/<kind>/<id>`.

/// Common prefix of all keys, which followers of the objects watch.
pub const KEY_PREFIX: &str = "/shenyu/";

/// Kinds of objects. Each has a key segment and a synchronisation group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Object of type [`Plugin`](crate::model::Plugin), keyed by `id`.
    Plugin,
    /// Object of type [`Selector`](crate::model::Selector), keyed by `id`.
    Selector,
    /// Object of type [`Rule`](crate::model::Rule), keyed by `id`.
    Rule,
    /// Object of type [`Metadata`](crate::model::Metadata), keyed by `id`.
    Metadata,
    /// Object of type [`AppAuth`](crate::model::AppAuth), keyed by `appKey`.
    AppAuth,
    /// Object of type [`ProxySelector`](crate::model::ProxySelector), keyed by `id`.
    ProxySelector,
    /// Object of type [`DiscoveryUpstreams`](crate::model::DiscoveryUpstreams), keyed by
    /// `selectorId`.
    DiscoveryUpstream,
}

impl Kind {
    /// All kinds, in the order in which ShenYu's admin sends them.
    pub const ALL: [Self; 7] = [
        Self::Plugin,
        Self::Selector,
        Self::Rule,
        Self::AppAuth,
        Self::Metadata,
        Self::ProxySelector,
        Self::DiscoveryUpstream,
    ];

    /// Returns the key segment of the kind.
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Selector => "selector",
            Self::Rule => "rule",
            Self::Metadata => "metadata",
            Self::AppAuth => "appAuth",
            Self::ProxySelector => "proxySelector",
            Self::DiscoveryUpstream => "discoveryUpstream",
        }
    }

    /// Returns the group name in synchronisation messages.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Plugin => "PLUGIN",
            Self::Selector => "SELECTOR",
            Self::Rule => "RULE",
            Self::Metadata => "META_DATA",
            Self::AppAuth => "APP_AUTH",
            Self::ProxySelector => "PROXY_SELECTOR",
            Self::DiscoveryUpstream => "DISCOVER_UPSTREAM",
        }
    }
}

/// Returns the key of an object. Everything after the kind is the id, including slashes.
pub fn key(kind: Kind, id: &str) -> String {
    format!("{KEY_PREFIX}{}/{id}", kind.segment())
}

/// Parses a key into kind and id. Returns `None` for keys of other data and for an empty id.
pub fn parse_key(key: &str) -> Option<(Kind, &str)> {
    let (segment, id) = key.strip_prefix(KEY_PREFIX)?.split_once('/')?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.segment() == segment)?;
    (!id.is_empty()).then_some((kind, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_names_its_object() {
        for kind in Kind::ALL {
            for id in ["1", "a/b", "649330b6-c2d7-4edc-be8e-8a54df9eb385"] {
                assert_eq!(parse_key(&key(kind, id)), Some((kind, id)));
            }
        }
        assert_eq!(key(Kind::AppAuth, "A1"), "/shenyu/appAuth/A1");
    }

    #[test]
    fn keys_of_others_name_nothing() {
        for key in ["/apisix/routes/1", "/shenyu/plugin/", "/shenyu/plugin", "/shenyu/dict/1", ""] {
            assert_eq!(parse_key(key), None, "{key}");
        }
    }
}
