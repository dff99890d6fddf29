//! Membership: rows of the store under leases. A node is a member while it renews its lease. For
//! all nodes, a membership ends at one place in the order of commits.

use serde::{Deserialize, Serialize};
use tollhouse_store::{Entry, Store, StoreError, Transaction};

use super::{ClusterOptions, Identity, NodeId};
use crate::limits::MEMBER_LEASE;

/// Prefix of the keys that hold members.
pub(crate) const MEMBERS: &str = "/members/";

/// Prefix of the keys that hold the newest round of each node, when no faster channel exists.
pub(crate) const BEATS: &str = "/beats/";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberRow {
    pub(crate) name: Box<str>,
}

/// Makes this node a member of the cluster. An older member with the same name is removed, because
/// its process must have been killed; with `has_predecessor` that process still runs, and its
/// member is kept.
pub(crate) async fn join(
    store: &dyn Store,
    options: &ClusterOptions,
    node: NodeId,
) -> Result<Identity, StoreError> {
    let lease = store.grant(MEMBER_LEASE).await?;
    let row = MemberRow { name: options.name.clone() };
    let row = serde_json::to_vec(&row).expect("a name is text");
    let mut join = Transaction::new().put_under(lease, format!("{MEMBERS}{node}"), row);
    if !options.has_predecessor {
        for entry in store.list(MEMBERS).await?.entries {
            if name(&entry).is_some_and(|name| name == options.name) {
                join = join.delete(entry.key);
            }
        }
    }
    match store.commit(join).await {
        Ok(_) => Ok(Identity { node, lease }),
        Err(error) => {
            // If this fails too, the lease expires by itself.
            let _ = store.revoke(lease).await;
            Err(error)
        }
    }
}

/// Returns the node that a key under [`MEMBERS`] or [`BEATS`] belongs to.
pub(crate) fn node_of_key(key: &str, prefix: &str) -> Option<NodeId> {
    key.strip_prefix(prefix)?.parse().ok()
}

/// Decodes the name from a member's row.
pub(crate) fn name(entry: &Entry) -> Option<Box<str>> {
    serde_json::from_slice(&entry.value).ok().map(|MemberRow { name }| name)
}
