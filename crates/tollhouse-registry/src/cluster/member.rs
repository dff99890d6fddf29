//! Members: rows of the store under leases. Who renews its lease is one; whose lease ends is one no longer, for all
//! nodes at the same place among the commits.

use serde::{Deserialize, Serialize};
use tollhouse_store::{Entry, Store, StoreError, Transaction};

use super::{ClusterOptions, Identity, NodeId};
use crate::limits::MEMBER_LEASE;

/// Where members stand.
pub(crate) const MEMBERS: &str = "/members/";

/// Where their newest rounds stand, for those who have no faster way.
pub(crate) const BEATS: &str = "/beats/";

/// What a member says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberRow {
    pub(crate) name: Box<str>,
}

/// Makes this node a member, in the place of a process of the same name that was killed.
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
            // It ends by itself if this fails as well.
            let _ = store.revoke(lease).await;
            Err(error)
        }
    }
}

/// The member that a key of [`MEMBERS`] or [`BEATS`] is about.
pub(crate) fn node_of_key(key: &str, prefix: &str) -> Option<NodeId> {
    key.strip_prefix(prefix)?.parse().ok()
}

/// The name in a member's row.
pub(crate) fn name(entry: &Entry) -> Option<Box<str>> {
    serde_json::from_slice(&entry.value).ok().map(|MemberRow { name }| name)
}
