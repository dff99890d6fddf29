//! People, machines, groups, roles and policies: who may do what. The same objects decide at every
//! door: clients of the registry, its console, and the Admin API.
//!
//! `decision` says whether a call is allowed, `check` validates objects, `command` changes them.

pub(crate) mod check;
mod command;
mod decision;

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

pub use command::{IdentityCommand, IdentityWrite};
pub(crate) use decision::decide;
pub use decision::{Attempt, Resource, Verdict};

use crate::instance::Metadata;
use crate::revision::Revision;

/// Kind of an identity object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdentityKind {
    User,
    Group,
    Role,
    Policy,
}

/// Reference to a user, group or role that a policy names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Principal {
    /// Never [`IdentityKind::Policy`].
    pub kind: IdentityKind,
    pub id: Arc<str>,
}

/// Fields that all identity objects have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IdentityHead {
    pub id: Arc<str>,
    pub name: Arc<str>,
    /// Id of the account that owns the object.
    pub owner: Box<str>,
    /// System that the object comes from.
    pub source: Box<str>,
    pub comment: Box<str>,
    pub metadata: Metadata,
    /// Creation, in seconds of Unix time.
    pub created_at: u64,
    /// Last change, in seconds of Unix time.
    pub modified_at: u64,
    pub revision: Revision,
}

/// Access token of a user or group.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AccessToken {
    pub text: Box<str>,
    pub is_enabled: bool,
}

/// A person or machine with an account.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct User {
    pub head: IdentityHead,
    pub mobile: Box<str>,
    pub email: Box<str>,
    pub password: PasswordHash,
    pub token: AccessToken,
}

/// Hash of a password in the PHC string format; empty for a user that cannot log in.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(pub Box<str>);

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UserGroup {
    pub head: IdentityHead,
    /// Ids of the members.
    pub users: BTreeSet<Arc<str>>,
    pub token: AccessToken,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AccessRole {
    pub head: IdentityHead,
    /// Ids of the users that have the role.
    pub users: BTreeSet<Arc<str>>,
    /// Ids of the groups that have the role.
    pub groups: BTreeSet<Arc<str>>,
}

/// Effect of a policy on the calls that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyAction {
    /// Allows reads; policies of older consoles, which name no functions.
    #[default]
    ReadOnly,
    /// Allows reads and writes; policies of older consoles, which name no functions.
    ReadWrite,
    Allow,
    Deny,
}

/// Kind of a resource that a policy names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    Namespace,
    Service,
    ConfigGroup,
    RouteRule,
    RateLimitRule,
    CircuitBreakerRule,
    FaultDetectRule,
    LaneRule,
    User,
    UserGroup,
    Role,
    Policy,
    /// Object of the gateway, such as a route.
    Gateway,
}

/// Resources of a kind: one by its id or name, all whose names begin alike, or all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResourcePattern {
    pub kind: ResourceKind,
    /// Id, `namespace/name`, a beginning of this followed by `*`, or `*`.
    pub text: Box<str>,
}

/// Condition on the metadata of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLabel {
    pub key: Box<str>,
    pub value: Box<str>,
    /// Comparison, such as `string_equal`.
    pub compare: Box<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Policy {
    pub head: IdentityHead,
    pub action: PolicyAction,
    pub principals: BTreeSet<Principal>,
    pub resources: BTreeSet<ResourcePattern>,
    /// Names of the calls, which may begin or end with `*`.
    pub functions: Vec<Box<str>>,
    /// Conditions by which resources match in addition to `resources`; all must hold.
    pub labels: Vec<ResourceLabel>,
    /// Whether the policy belongs to one user or group and goes with it.
    pub is_default: bool,
}

/// An identity object of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityObject {
    User(Arc<User>),
    Group(Arc<UserGroup>),
    Role(Arc<AccessRole>),
    Policy(Arc<Policy>),
}

/// SHA-256 of a token, by which its owner is found. The time of the search depends on the digest
/// only, which a caller cannot steer byte by byte.
pub(crate) type TokenDigest = [u8; 32];

pub(crate) fn token_digest(token: &str) -> TokenDigest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

impl IdentityKind {
    pub const ALL: [Self; 4] = [Self::User, Self::Group, Self::Role, Self::Policy];

    /// Returns the name used in store keys and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Role => "role",
            Self::Policy => "policy",
        }
    }
}

impl Principal {
    pub fn user(id: &str) -> Self {
        Self { kind: IdentityKind::User, id: id.into() }
    }

    pub fn group(id: &str) -> Self {
        Self { kind: IdentityKind::Group, id: id.into() }
    }

    pub fn role(id: &str) -> Self {
        Self { kind: IdentityKind::Role, id: id.into() }
    }
}

impl IdentityObject {
    pub fn kind(&self) -> IdentityKind {
        match self {
            Self::User(_) => IdentityKind::User,
            Self::Group(_) => IdentityKind::Group,
            Self::Role(_) => IdentityKind::Role,
            Self::Policy(_) => IdentityKind::Policy,
        }
    }

    pub fn head(&self) -> &IdentityHead {
        match self {
            Self::User(user) => &user.head,
            Self::Group(group) => &group.head,
            Self::Role(role) => &role.head,
            Self::Policy(policy) => &policy.head,
        }
    }

    pub(crate) fn head_mut(&mut self) -> &mut IdentityHead {
        match self {
            Self::User(user) => &mut Arc::make_mut(user).head,
            Self::Group(group) => &mut Arc::make_mut(group).head,
            Self::Role(role) => &mut Arc::make_mut(role).head,
            Self::Policy(policy) => &mut Arc::make_mut(policy).head,
        }
    }

    /// Returns the token of a user or group.
    pub(crate) fn token(&self) -> Option<&AccessToken> {
        match self {
            Self::User(user) => Some(&user.token),
            Self::Group(group) => Some(&group.token),
            Self::Role(_) | Self::Policy(_) => None,
        }
    }

    /// Returns the principal; `None` for a policy.
    pub(crate) fn principal(&self) -> Option<Principal> {
        let kind = self.kind();
        (kind != IdentityKind::Policy).then(|| Principal { kind, id: Arc::clone(&self.head().id) })
    }

    /// Decodes the value of a store; the kind is that of the key.
    pub(crate) fn from_value(kind: IdentityKind, value: &[u8]) -> serde_json::Result<Self> {
        Ok(match kind {
            IdentityKind::User => Self::User(serde_json::from_slice::<User>(value)?.into()),
            IdentityKind::Group => Self::Group(serde_json::from_slice::<UserGroup>(value)?.into()),
            IdentityKind::Role => Self::Role(serde_json::from_slice::<AccessRole>(value)?.into()),
            IdentityKind::Policy => Self::Policy(serde_json::from_slice::<Policy>(value)?.into()),
        })
    }
}

impl From<User> for IdentityObject {
    fn from(user: User) -> Self {
        Self::User(user.into())
    }
}

impl From<UserGroup> for IdentityObject {
    fn from(group: UserGroup) -> Self {
        Self::Group(group.into())
    }
}

impl From<AccessRole> for IdentityObject {
    fn from(role: AccessRole) -> Self {
        Self::Role(role.into())
    }
}

impl From<Policy> for IdentityObject {
    fn from(policy: Policy) -> Self {
        Self::Policy(policy.into())
    }
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "AccessToken(***, {})", self.is_enabled)
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("PasswordHash(***)")
    }
}
