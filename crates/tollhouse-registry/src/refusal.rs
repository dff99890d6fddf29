//! Why a command was not done. A dialect turns each into its own code and words.

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The namespace's name is missing, too long, or has other characters than `0-9A-Za-z-./:_`.
    #[error("invalid namespace name")]
    NamespaceName,
    /// The service's name is.
    #[error("invalid service name")]
    ServiceName,
    /// The alias' name is.
    #[error("invalid alias name")]
    AliasName,
    /// The id of an instance is empty or too long.
    #[error("invalid instance id")]
    InstanceId,
    /// The host is missing or too long.
    #[error("invalid instance host")]
    Host,
    /// The port is missing or above 65535.
    #[error("invalid instance port")]
    Port,
    /// The protocol is too long.
    #[error("invalid instance protocol")]
    Protocol,
    /// The version is too long.
    #[error("invalid instance version")]
    Version,
    /// The logic set is too long.
    #[error("invalid instance logic set")]
    LogicSet,
    /// Metadata has too many pairs, or a key or value that is too long.
    #[error("the length of metadata is too long or metadata contains invalid characters")]
    Metadata,
    /// A field that has no refusal of its own.
    #[error("invalid parameter: {0}")]
    Parameter(&'static str),
    /// A service's details have a text that is too long.
    #[error("invalid service {0}")]
    ServiceDetail(Detail),
    /// The name is an alias, which takes no instances.
    #[error("service is alias")]
    IsAlias,
    /// There is one already.
    #[error("existed resource")]
    Exists,
    /// Another rule of the kind has the name.
    #[error("a {} rule of this name is there already", .0.name())]
    NameTaken(crate::rule::RuleKind),
    /// There is none of it.
    #[error("{0} not found")]
    NotFound(Noun),
    /// Others depend on it.
    #[error("{0} still there")]
    InUse(Noun),
    /// It belongs to the registry itself.
    #[error("built-in objects stay")]
    BuiltIn,
    /// The change changes nothing.
    #[error("update data is no change, no need to update")]
    NoChange,
    /// The object has changed since the change was made of it.
    #[error("changed by another call meanwhile; read it and try again")]
    Conflict,
    /// A bound of the registry is reached.
    #[error("the registry holds its {max} {what}; delete some first")]
    Full {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// The object is larger than what is kept of one.
    #[error("the object is larger than what the registry keeps of one")]
    TooLarge,
    /// What the registry holds has reached its bound of memory.
    #[error(
        "the registry holds all the {what} that its {max} bytes of memory for them take; delete some first"
    )]
    OutOfMemory {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// More commands wait than are held.
    #[error("the registry has more to do than it can hold; try again")]
    Busy,
    /// The change could not be made durable; nothing has changed.
    #[error("{0}")]
    Store(tollhouse_store::StoreError),
    /// The registry is shutting down.
    #[error("the registry is shutting down")]
    Closed,
}

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noun {
    /// A namespace.
    Namespace,
    /// A service.
    Service,
    /// An alias.
    Alias,
    /// An instance.
    Instance,
    /// A governance rule.
    Rule(crate::rule::RuleKind),
    /// A contract.
    Contract,
}

impl std::fmt::Display for Noun {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Namespace => out.write_str("namespace"),
            Self::Service => out.write_str("service"),
            Self::Alias => out.write_str("service alias"),
            Self::Instance => out.write_str("instance"),
            Self::Rule(kind) => write!(out, "{} rule", kind.name()),
            Self::Contract => out.write_str("service contract"),
        }
    }
}

/// A text that people write about a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The owners.
    Owners,
    /// The ports.
    Ports,
    /// The business.
    Business,
    /// The department.
    Department,
    /// The inventory's levels.
    Cmdb,
    /// The comment.
    Comment,
}

impl std::fmt::Display for Detail {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Owners => "owners",
            Self::Ports => "ports",
            Self::Business => "business",
            Self::Department => "department",
            Self::Cmdb => "CMDB",
            Self::Comment => "comment",
        })
    }
}
