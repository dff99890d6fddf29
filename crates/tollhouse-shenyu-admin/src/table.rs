//! Tables of the admin and their keys in the store. Tables that gateways follow use the keys of
//! `tollhouse-shenyu`; the others are stored beside them.

use tollhouse_shenyu::{KEY_PREFIX, Kind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Table {
    Plugin,
    Selector,
    Rule,
    Metadata,
    AppAuth,
    ProxySelector,
    DiscoveryUpstream,
    PluginHandle,
    Dict,
    User,
    Role,
    Namespace,
    Discovery,
    DataPermission,
    Secret,
    /// Log of changes with their authors.
    Record,
    /// Menus and buttons that operators have added.
    Resource,
    /// API documents, of `/apidoc`.
    Api,
    /// Tags of API documents.
    Tag,
}

impl Table {
    pub(crate) const ALL: [Self; 19] = [
        Self::Plugin,
        Self::Selector,
        Self::Rule,
        Self::Metadata,
        Self::AppAuth,
        Self::ProxySelector,
        Self::DiscoveryUpstream,
        Self::PluginHandle,
        Self::Dict,
        Self::User,
        Self::Role,
        Self::Namespace,
        Self::Discovery,
        Self::DataPermission,
        Self::Secret,
        Self::Record,
        Self::Resource,
        Self::Api,
        Self::Tag,
    ];

    /// Returns the kind of the table's objects, if gateways follow them.
    pub(crate) const fn kind(self) -> Option<Kind> {
        match self {
            Self::Plugin => Some(Kind::Plugin),
            Self::Selector => Some(Kind::Selector),
            Self::Rule => Some(Kind::Rule),
            Self::Metadata => Some(Kind::Metadata),
            Self::AppAuth => Some(Kind::AppAuth),
            Self::ProxySelector => Some(Kind::ProxySelector),
            Self::DiscoveryUpstream => Some(Kind::DiscoveryUpstream),
            Self::PluginHandle
            | Self::Dict
            | Self::User
            | Self::Role
            | Self::Namespace
            | Self::Discovery
            | Self::DataPermission
            | Self::Secret
            | Self::Record
            | Self::Resource
            | Self::Api
            | Self::Tag => None,
        }
    }

    /// Returns the table of the objects of this kind.
    pub(crate) const fn from_kind(kind: Kind) -> Self {
        match kind {
            Kind::Plugin => Self::Plugin,
            Kind::Selector => Self::Selector,
            Kind::Rule => Self::Rule,
            Kind::Metadata => Self::Metadata,
            Kind::AppAuth => Self::AppAuth,
            Kind::ProxySelector => Self::ProxySelector,
            Kind::DiscoveryUpstream => Self::DiscoveryUpstream,
        }
    }

    pub(crate) const fn segment(self) -> &'static str {
        match self {
            Self::Plugin => Kind::Plugin.segment(),
            Self::Selector => Kind::Selector.segment(),
            Self::Rule => Kind::Rule.segment(),
            Self::Metadata => Kind::Metadata.segment(),
            Self::AppAuth => Kind::AppAuth.segment(),
            Self::ProxySelector => Kind::ProxySelector.segment(),
            Self::DiscoveryUpstream => Kind::DiscoveryUpstream.segment(),
            Self::PluginHandle => "pluginHandle",
            Self::Dict => "dict",
            Self::User => "user",
            Self::Role => "role",
            Self::Namespace => "namespace",
            Self::Discovery => "discovery",
            Self::DataPermission => "dataPermission",
            Self::Secret => "secret",
            Self::Record => "record",
            Self::Resource => "resource",
            Self::Api => "api",
            Self::Tag => "tag",
        }
    }

    /// Returns the store key of a row.
    pub(crate) fn key(self, id: &str) -> String {
        format!("{KEY_PREFIX}{}/{id}", self.segment())
    }

    /// Parses a store key into table and id. Returns `None` for keys of other data and for an empty
    /// id.
    pub(crate) fn parse_key(key: &str) -> Option<(Self, &str)> {
        let (segment, id) = key.strip_prefix(KEY_PREFIX)?.split_once('/')?;
        let table = Self::ALL.into_iter().find(|table| table.segment() == segment)?;
        (!id.is_empty()).then_some((table, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_names_its_row() {
        for table in Table::ALL {
            assert_eq!(Table::parse_key(&table.key("a/1")), Some((table, "a/1")));
            if let Some(kind) = table.kind() {
                assert_eq!(Table::from_kind(kind), table);
                assert_eq!(table.key("1"), tollhouse_shenyu::key(kind, "1"));
            }
        }
        assert_eq!(Table::parse_key("/shenyu/unknown/1"), None);
    }
}
