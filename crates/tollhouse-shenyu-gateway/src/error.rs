//! Why objects cannot be compiled, in words for who wrote them.
//! What a request is answered with is something else, and has ShenYu's own codes.

use tollhouse_shenyu::access::AccessError;
use tollhouse_shenyu::divide::HandleError;
use tollhouse_shenyu::handle::Malformed;

use crate::engines::EngineError;

/// Why a rule, or a selector that no rule is asked of, does nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// Its handle, or its plugin's configuration.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// The same of plugins that protect.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// It is no JSON object.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// There can be no such servers.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Its nodes cannot be used together.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// What is wrong is its selector's.
    #[error("selector `{id}`: {reason}")]
    Selector {
        /// Which.
        id: String,
        /// What is wrong with it.
        reason: NodesError,
    },
    /// A rule of a plugin that protects; ShenYu has an answer for this.
    #[error("{reason}; requests are refused with code {}", answer.code())]
    Unusable {
        /// The answer to requests.
        answer: tollhouse_shenyu::answer::Answer,
        /// Fault of the rule.
        reason: String,
    },
    /// Nobody has connections to what it needs.
    #[error("nothing here can connect to {0}")]
    NoConnections(&'static str),
    /// Its plugin does something that this gateway does in another way, or not at all.
    #[error("the plugin `{plugin}` is not built into this gateway; {instead}")]
    Elsewhere {
        /// Which.
        plugin: String,
        /// What to do.
        instead: &'static str,
    },
    /// Nobody here knows its plugin.
    #[error("the plugin `{0}` is not built into this gateway")]
    NotBuilt(String),
}

/// Why nodes cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodesError {
    /// They cannot be read.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// There are none.
    #[error("it has no nodes, and no `serviceId` to find any by")]
    NoService,
    /// The registry can have no service of that name.
    #[error("`serviceId` is `{0}`; names of services are letters, digits and `-.:_`")]
    ServiceName(String),
    /// They are asked in different ways.
    #[error("some nodes are asked over TLS and some are not; use one protocol for all")]
    MixedTls,
}

/// Why a proxy selector opens no port.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PortError {
    /// None is opened at all.
    #[error("no port is opened here: set shenyu.tcp_address, or use stream routes")]
    NotOpened,
    /// It names none.
    #[error("`forwardPort` is a port from 1 to 65535")]
    NoPort,
    /// It is somebody else's.
    #[error("another proxy selector has port {0}")]
    Taken(u16),
    /// There are as many as there may be.
    #[error("more than {0} ports are not opened")]
    TooMany(usize),
    /// Its nodes.
    #[error(transparent)]
    Nodes(#[from] NodesError),
}

/// What who uses a plugin of ShenYu's does here in its place.
pub(crate) fn not_built(plugin: &str) -> BuildError {
    let instead = match plugin {
        "loggingRocketMQ" | "loggingRabbitMQ" | "loggingPulsar" | "loggingAliyunSls"
        | "loggingTencentCls" | "loggingHuaweiLts" => {
            "nothing is written: use `loggingKafka`, `loggingElasticSearch`, `loggingClickHouse` or `loggingConsole`, \
             whose records have the same members, or have a collector forward what a route's `http-logger` sends"
        }
        "sofa" | "tars" | "motan" | "brpc" => {
            "its protocol is not spoken; give its service an HTTP, gRPC or Dubbo interface"
        }
        other => return BuildError::NotBuilt(other.to_owned()),
    };
    BuildError::Elsewhere { plugin: plugin.to_owned(), instead }
}
