//! Predicted path of a request through the chain, as operators see it.

use tollhouse_shenyu::matching::{Explanation, RpcType};

/// Simulated path of a request through the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// RPC type; `None` if the request names an unknown one.
    pub rpc_type: Option<RpcType>,
    /// Steps of the plugins, in order.
    pub steps: Vec<CourseStep>,
    pub end: CourseEnd,
}

/// Step of one plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CourseStep {
    /// Name of the plugin.
    pub plugin: String,
    /// Matching of its selectors and rules, at this point of the chain.
    pub choice: Explanation,
    pub effect: Effect,
}

/// Effect of a plugin on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// No effect.
    Passes,
    /// The effect depends on more than the rule, for example on a key. The plugin may answer; later
    /// steps assume that it does not.
    Acts,
    /// The plugin changes the response, or a part of the request other than its path.
    Edits,
    /// The plugin changes the path that later conditions see.
    Path {
        /// New path.
        path: String,
        /// Percentage of requests that this applies to.
        percent: u64,
    },
    /// The plugin changes the path that nodes receive, but not the path that conditions see.
    NodePath {
        /// New path.
        path: String,
        /// Percentage of requests that this applies to.
        percent: u64,
    },
    /// No effect, because the rule cannot be used for this reason.
    Broken(String),
    /// The request runs through the gateway again with this path.
    Anew(String),
    /// The chain ends here; see [`Course::end`].
    Ends,
}

/// End of a request's path through the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CourseEnd {
    /// The request goes to a node.
    Node {
        /// Index of the target in the chain.
        target: usize,
        /// Path and query for the node, if they differ from the original ones.
        uri: Option<Vec<u8>>,
    },
    /// The gateway answers.
    Answer {
        /// HTTP status.
        status: u16,
        body: String,
    },
    /// The client is redirected.
    Elsewhere {
        /// HTTP status.
        status: u16,
        /// Value of `Location`.
        location: String,
    },
}
