//! Refusals of commands. A dialect maps each refusal to a code and text of its protocol.

/// Reason for which a command was refused; nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The namespace's name is missing, too long, or contains characters other than
    /// `0-9A-Za-z-./:_`.
    #[error("invalid namespace name")]
    NamespaceName,
    /// The service's name is missing, too long, or contains other characters than a namespace's
    /// may.
    #[error("invalid service name")]
    ServiceName,
    /// The alias' name is missing, too long, or contains other characters than a namespace's may.
    #[error("invalid alias name")]
    AliasName,
    /// The instance id is empty, too long, or contains control characters.
    #[error("invalid instance id")]
    InstanceId,
    /// The host is missing, too long, or contains control characters.
    #[error("invalid instance host")]
    Host,
    /// The port is missing or above 65535.
    #[error("invalid instance port")]
    Port,
    #[error("invalid instance protocol")]
    Protocol,
    #[error("invalid instance version")]
    Version,
    /// The logic set is too long.
    #[error("invalid instance logic set")]
    LogicSet,
    /// Metadata has too many pairs, or a key or value that is too long.
    #[error("the length of metadata is too long or metadata contains invalid characters")]
    Metadata,
    /// A field without a more specific refusal is invalid.
    #[error("invalid parameter: {0}")]
    Parameter(&'static str),
    /// A descriptive text of a service is too long.
    #[error("invalid service {0}")]
    ServiceDetail(Detail),
    /// The name of a group of files is missing, too long, or contains characters other than a
    /// namespace's may.
    #[error("invalid configuration group name")]
    ConfigGroupName,
    /// The name of a file is missing, too long, or contains control characters.
    #[error("invalid configuration file name")]
    ConfigFileName,
    /// The name of a template is missing, too long, or contains control characters.
    #[error("invalid configuration template name")]
    ConfigTemplateName,
    /// The content of a file is too long.
    #[error("content length too long. max length = {bytes_max} bytes")]
    ConfigContent {
        /// Maximum length in bytes.
        bytes_max: usize,
    },
    /// The tags of a file are too many or too long.
    #[error("invalid configuration file tags")]
    ConfigTags,
    /// The labels of a gray release are too many, too long, or have an invalid value.
    #[error("invalid labels of a gray release")]
    ConfigLabels,
    /// The name belongs to an alias, which cannot have instances.
    #[error("service is alias")]
    IsAlias,
    /// An object of this name or id exists.
    #[error("existed resource")]
    Exists,
    /// Another rule of this kind has the name already.
    #[error("a {} rule of this name is there already", .0.name())]
    NameTaken(crate::rule::RuleKind),
    #[error("{0} not found")]
    NotFound(Noun),
    /// Other objects depend on the object.
    #[error("{0} still there")]
    InUse(Noun),
    /// The object is built in and cannot be deleted.
    #[error("built-in objects stay")]
    BuiltIn,
    /// The new values equal the stored ones.
    #[error("the update changes nothing")]
    NoChange,
    /// The object has changed since the caller read it.
    #[error("changed by another call meanwhile; read it and try again")]
    Conflict,
    /// The maximum number of objects is reached.
    #[error("the registry holds its {max} {what}; delete some first")]
    Full {
        /// Kind of object, in the plural.
        what: &'static str,
        max: usize,
    },
    /// The object exceeds the store's limit for one object.
    #[error("the object is larger than what the registry keeps of one")]
    TooLarge,
    /// The bound on the memory of objects is reached.
    #[error(
        "the registry holds all the {what} that its {max} bytes of memory for them take; delete some first"
    )]
    OutOfMemory {
        /// Kind of object, in the plural.
        what: &'static str,
        /// Bound in bytes, over all kinds.
        max: usize,
    },
    #[error("the registry has more to do than it can hold; try again")]
    Busy,
    /// The change could not be made durable, and was not made.
    #[error("{0}")]
    Store(tollhouse_store::StoreError),
    #[error("the registry is shutting down")]
    Closed,
}

/// Kind of object that a refusal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noun {
    Namespace,
    Service,
    Alias,
    Instance,
    Rule(crate::rule::RuleKind),
    Contract,
    ConfigGroup,
    ConfigFile,
    ConfigRelease,
    Identity(crate::identity::IdentityKind),
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
            Self::ConfigGroup => out.write_str("configuration group"),
            Self::ConfigFile => out.write_str("configuration file"),
            Self::ConfigRelease => out.write_str("configuration release"),
            Self::Identity(kind) => out.write_str(kind.name()),
        }
    }
}

/// Descriptive text of a service that a refusal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    Owners,
    Ports,
    Business,
    Department,
    /// Any of the three inventory levels.
    Cmdb,
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
