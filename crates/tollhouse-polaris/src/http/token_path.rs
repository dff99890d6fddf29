//! Owners of tokens that calls return, for the audit log.

use tollhouse_registry::State;

use super::query::Query;

/// Kind of the owner of a token that a call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenOwner {
    User,
    Group,
    Service,
    Namespace,
}

impl TokenOwner {
    /// Returns the owner for the name of a call; `None` if the call returns no token.
    pub(super) fn from_call(function: &str) -> Option<Self> {
        match function {
            "DescribeUserToken" => Some(Self::User),
            "DescribeUserGroupToken" => Some(Self::Group),
            "DescribeServiceToken" => Some(Self::Service),
            "DescribeNamespaceToken" => Some(Self::Namespace),
            _ => None,
        }
    }

    /// Returns the path of the owner that a query names, as in records of changes.
    pub(super) fn path(self, state: &State, query: &Query) -> String {
        let text = |key| query.get(key).unwrap_or_default();
        match self {
            Self::User => {
                let user = state.user(text("id"));
                let id = query.get("id").or(query.get("name")).unwrap_or_default();
                format!("registry/users/{}", user.map_or(id, |user| &user.head.name))
            }
            Self::Group => {
                let group = state.user_group(text("id"));
                let name = group.map_or(text("id"), |group| &group.head.name);
                format!("registry/user-groups/{name}")
            }
            Self::Service => format!("registry/services/{}/{}", text("namespace"), text("name")),
            Self::Namespace => format!("registry/namespaces/{}", text("name")),
        }
    }
}
