//! RPC type of a request, as ShenYu's plugin `global` determines it.

use std::sync::Arc;

use hashbrown::HashMap;

use super::condition::Slashes;
use super::engine::{Engine, Problem};
use super::index::Index;
use crate::key::Kind;
use crate::model::Metadata;
use crate::pattern::{Anchor, AntPattern};

/// Protocol between gateway and service. Each proxy plugin serves one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcType {
    Http,
    Dubbo,
    Sofa,
    Tars,
    WebSocket,
    SpringCloud,
    Grpc,
    /// `motan`, only in ShenYu 2.6.
    Motan,
    /// `brpc`, only in ShenYu 2.6.
    Brpc,
}

/// The name is not an RPC type; ShenYu answers 500.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown rpc type")]
pub struct UnknownRpcType;

/// RPC type of a request and the metadata that determined it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcDecision<'a> {
    pub rpc_type: RpcType,
    /// Metadata of the method, if that determined the type.
    pub metadata: Option<&'a Metadata>,
}

impl RpcType {
    /// Parses the name of a type.
    ///
    /// # Errors
    ///
    /// If the name is unknown.
    pub fn parse(name: &str) -> Result<Self, UnknownRpcType> {
        Ok(match name {
            "http" => Self::Http,
            "dubbo" => Self::Dubbo,
            "sofa" => Self::Sofa,
            "tars" => Self::Tars,
            "websocket" => Self::WebSocket,
            "springCloud" => Self::SpringCloud,
            "grpc" => Self::Grpc,
            "motan" => Self::Motan,
            "brpc" => Self::Brpc,
            _ => return Err(UnknownRpcType),
        })
    }
}

impl RpcType {
    /// Returns the name of the type in headers and metadata.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Dubbo => "dubbo",
            Self::Sofa => "sofa",
            Self::Tars => "tars",
            Self::WebSocket => "websocket",
            Self::SpringCloud => "springCloud",
            Self::Grpc => "grpc",
            Self::Motan => "motan",
            Self::Brpc => "brpc",
        }
    }
}

impl Engine {
    /// Determines the type by the header `rpc_type`, else the header `Upgrade`, else the metadata
    /// of the path, else `http`.
    ///
    /// # Errors
    ///
    /// If the header names an unknown type.
    pub fn rpc_type(
        &self,
        header: Option<&str>,
        upgrade: Option<&str>,
        path: &str,
    ) -> Result<RpcDecision<'_>, UnknownRpcType> {
        if let Some(name) = header.filter(|name| !name.trim().is_empty()) {
            return Ok(RpcDecision { rpc_type: RpcType::parse(name)?, metadata: None });
        }
        if upgrade.is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket")) {
            return Ok(RpcDecision { rpc_type: RpcType::WebSocket, metadata: None });
        }
        Ok(match self.metadata.find(path) {
            Some((rpc_type, metadata)) => RpcDecision { rpc_type, metadata: Some(metadata) },
            None => RpcDecision { rpc_type: RpcType::Http, metadata: None },
        })
    }
}

impl Engine {
    /// Returns the metadata of the method at a path.
    pub fn metadata(&self, path: &str) -> Option<&Metadata> {
        self.metadata.find(path).map(|(_, metadata)| metadata)
    }
}

/// Metadata by path: literal paths first, then patterns, each in the order of arrival.
#[derive(Debug)]
pub(super) struct MetadataTable {
    entries: Box<[Arc<Entry>]>,
    index: Index,
}

#[derive(Debug)]
struct Entry {
    pattern: AntPattern,
    rpc_type: RpcType,
    metadata: Arc<Metadata>,
}

impl MetadataTable {
    /// Builds the table, reusing compiled entries of `before` for unchanged objects.
    pub(super) fn build(
        all: &[Arc<Metadata>],
        before: Option<&Self>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let place = |metadata: &Arc<Metadata>| Arc::as_ptr(metadata).addr();
        let known = before.into_iter().flat_map(|before| before.entries.iter());
        let known: HashMap<usize, &Arc<Entry>> =
            known.map(|entry| (place(&entry.metadata), entry)).collect();
        let mut entries = Vec::new();
        for metadata in all.iter().filter(|metadata| metadata.enabled) {
            let mut problem = |reason: String| {
                problems.push(Problem { kind: Kind::Metadata, id: metadata.id.clone(), reason });
            };
            if let Some(known) = known.get(&place(metadata)) {
                entries.push(Arc::clone(known));
                continue;
            }
            match (AntPattern::compile(&metadata.path), RpcType::parse(&metadata.rpc_type)) {
                (Ok(pattern), Ok(rpc_type)) => {
                    let metadata = Arc::clone(metadata);
                    entries.push(Arc::new(Entry { pattern, rpc_type, metadata }));
                }
                (Err(error), _) => problem(error.to_string()),
                (_, Err(error)) => problem(format!("{error}: `{}`", metadata.rpc_type)),
            }
        }
        // A literal path takes precedence over a pattern that also matches.
        entries.sort_by_key(|entry| !matches!(entry.pattern.anchor(), Some(Anchor::Exact(_))));
        let anchors = entries
            .iter()
            .map(|entry| entry.pattern.anchor().map(|anchor| vec![(anchor, Slashes::Collapsed)]));
        Self { index: Index::build(anchors), entries: entries.into() }
    }

    #[inline]
    fn find(&self, path: &str) -> Option<(RpcType, &Metadata)> {
        // Most gateways have no metadata and skip the search.
        if self.entries.is_empty() { None } else { self.search(path) }
    }

    fn search(&self, path: &str) -> Option<(RpcType, &Metadata)> {
        let mut found = u32::MAX;
        self.index.visit(path, |ranks| {
            let better = ranks.iter().copied().take_while(|rank| *rank < found);
            let first = better.into_iter().find(|rank| {
                self.entries.get(*rank as usize).is_some_and(|entry| entry.pattern.matches(path))
            });
            found = first.unwrap_or(found);
        });
        self.entries.get(found as usize).map(|entry| (entry.rpc_type, &*entry.metadata))
    }
}
