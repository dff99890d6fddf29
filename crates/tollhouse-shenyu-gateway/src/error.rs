//! Errors of compilation, described for the authors of the objects. Answers to requests are
//! separate and use ShenYu's codes.

use crate::engines::EngineError;
use crate::handle::HandleError;

/// Why a rule, or a selector that applies without rules, has no effect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// The handle or the plugin's configuration is invalid.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// The rule is invalid, for this reason.
    #[error("{0}")]
    Invalid(String),
    /// The servers cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The nodes cannot be used together.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// The nodes of a selector cannot be used.
    #[error("selector `{id}`: {reason}")]
    Selector {
        /// Id of the invalid selector.
        id: String,
        reason: NodesError,
    },
    /// The rule of a protecting plugin is invalid, and ShenYu defines the answer to its requests.
    #[error("{reason}; requests are refused with code {}", answer.code())]
    Unusable {
        answer: tollhouse_shenyu::answer::Answer,
        /// Description of the error in the rule.
        reason: String,
    },
    /// No connections of this kind are available.
    #[error("no connections to {0} are available")]
    NoConnections(&'static str),
    /// The plugin is not supported, but an alternative exists.
    #[error("the plugin `{plugin}` is not built into this gateway; {instead}")]
    Elsewhere {
        /// Name of the plugin that is missing.
        plugin: String,
        /// Name of the plugin that can be used in its place.
        instead: &'static str,
    },
    /// This build has no implementation of the plugin.
    #[error("the plugin `{0}` is not built into this gateway")]
    NotBuilt(String),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NodesError {
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// The selector has neither nodes nor a service name.
    #[error("it has neither nodes nor a `serviceId`")]
    NoService,
    /// The service name is not valid in the registry.
    #[error("invalid `serviceId` `{0}`: service names have letters, digits and `-.:_`")]
    ServiceName(String),
    /// Only some of the nodes use TLS.
    #[error("some nodes are asked over TLS and some are not; use one protocol for all")]
    MixedTls,
}

/// Why a proxy selector opens no port.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PortError {
    #[error("no port is opened here: set shenyu.tcp_address, or use stream routes")]
    NotOpened,
    /// The port is missing or invalid.
    #[error("`forwardPort` must be a port from 1 to 65535")]
    NoPort,
    /// Another proxy selector uses the port.
    #[error("another proxy selector has port {0}")]
    Taken(u16),
    /// The limit of ports is reached.
    #[error("more than {0} ports are not opened")]
    TooMany(usize),
    #[error(transparent)]
    Nodes(#[from] NodesError),
}
