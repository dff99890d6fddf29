//! Identity of the cluster that a shared store belongs to. The first node writes a random id into
//! the store; each node remembers the id in its data folder, a gateway with its copy of the store.
//! A store with another id or none was emptied, replaced, or belongs to other nodes. The readers
//! and writers of the store decide how to react.

use std::fmt;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_store::{Store, StoreError, Transaction};

/// Random 128-bit id of a cluster, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterId(Box<str>);

impl fmt::Display for ClusterId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl ClusterId {
    fn new() -> anyhow::Result<Self> {
        let mut bytes = [0; 16];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
            .context("the system's random number generator is unavailable")?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Parses the value of the store's entry; `None` if the value is damaged.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(value).ok()?;
        Some(Self(value.get("id")?.as_str()?.into()))
    }

    /// Parses the [`Display`](fmt::Display) form; `None` for empty text.
    pub(crate) fn parse_text(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self(name.into())
    }
}

/// The store belongs to another cluster than the one that this node was in.
#[derive(Debug, thiserror::Error)]
#[error(
    "it is not the store that this node shared before: {}; nothing is taken from it or written to it. Bring the \
     store back as it was; or, to serve from this one as it is, stop the process, remove {copy} and start it again",
    match there {
        Some(there) => format!("it is of cluster {there}, and the node of cluster {own}"),
        None => format!("nothing in it is of the node's cluster, {own}: it is empty, or was emptied"),
    }
)]
pub struct OtherCluster {
    /// Id in the store, if it has one.
    pub there: Option<ClusterId>,
    /// Id of the cluster that this node joined earlier.
    pub own: ClusterId,
    /// The file in which the node remembers its id.
    pub copy: String,
}

/// Returns the key of the entry that holds the id, for objects under `prefix`.
pub fn key(prefix: &str) -> String {
    format!("{prefix}/tollhouse/cluster")
}

/// Returns the key that exists only in the store of this cluster. Commits require it, so that they
/// cannot reach another store.
pub fn fence(prefix: &str, id: &ClusterId) -> String {
    format!("{}/{id}", key(prefix))
}

/// Reads the store's id.
///
/// # Errors
/// If the store cannot be read.
pub async fn find(store: &dyn Store, prefix: &str) -> Result<Option<ClusterId>, StoreError> {
    let entry = store.get(&key(prefix)).await?;
    Ok(entry.and_then(|entry| ClusterId::parse(&entry.value)))
}

/// Returns the store's id, and creates an id if neither the store nor the node has one. A
/// remembered id must equal the store's.
///
/// # Errors
/// If the store is of [another cluster](OtherCluster), or cannot be read or written.
pub async fn join(
    store: &dyn Store,
    prefix: &str,
    remembered: Option<ClusterId>,
    copy: &str,
) -> anyhow::Result<ClusterId> {
    let there = find(store, prefix).await.context("failed to read the shared store")?;
    match (there, remembered) {
        (Some(there), Some(own)) if there == own => Ok(own),
        (there, Some(own)) => Err(OtherCluster { there, own, copy: copy.to_owned() }.into()),
        (Some(there), None) => Ok(there),
        (None, None) => begin(store, prefix).await,
    }
}

/// Writes a new id into the store. If several gateways start at once, the first commit wins and the
/// others adopt its id.
async fn begin(store: &dyn Store, prefix: &str) -> anyhow::Result<ClusterId> {
    let (key, id) = (key(prefix), ClusterId::new()?);
    let held = store.get(&key).await.context("failed to read the shared store")?;
    let put = Transaction::new()
        .put(&*key, json!({"id": id}).to_string())
        .put(fence(prefix, &id), json!({}).to_string());
    let transaction = match held {
        // The entry exists but holds no valid id.
        Some(entry) => put.when_modified_at(&*key, entry.mod_revision),
        None => put.when_absent(&*key),
    };
    match store.commit(transaction).await {
        Ok(_) => Ok(id),
        Err(StoreError::Conflict { .. }) => {
            let there = find(store, prefix).await.context("failed to read the shared store")?;
            there.with_context(|| format!("{key} in the shared store is damaged"))
        }
        Err(error) => Err(error).context("failed to write the shared store's cluster id"),
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_store::Location;

    use super::*;

    #[tokio::test]
    async fn a_store_has_one_id_and_a_gateway_keeps_to_it() {
        let memory = || tollhouse_store::open(&Location::Memory).expect("memory");
        let (store, other, emptied) = (memory(), memory(), memory());
        let join = |store: &std::sync::Arc<dyn Store>, own: Option<&ClusterId>| {
            let (store, own) = (std::sync::Arc::clone(store), own.cloned());
            async move { join(store.as_ref(), "/apisix", own, "the copy").await }
        };
        let id = join(&store, None).await.expect("it is given one");
        assert_eq!(join(&store, None).await.expect("it has one"), id);
        assert_eq!(join(&store, Some(&id)).await.expect("it has this one"), id);
        let foreign = join(&other, None).await.expect("it is given one");
        assert_ne!(foreign, id);
        let refused = join(&other, Some(&id)).await.expect_err("it is of another");
        assert!(refused.to_string().contains(&format!("it is of cluster {foreign}")), "{refused}");
        assert!(refused.to_string().contains("remove the copy"), "{refused}");
        let refused = join(&emptied, Some(&id)).await.expect_err("it has none");
        assert!(refused.to_string().contains("it is empty, or was emptied"), "{refused}");
        assert_eq!(emptied.revision().await.expect("memory"), tollhouse_store::Revision::ZERO);
    }

    #[tokio::test]
    async fn what_is_no_id_is_replaced_by_one() {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        store.commit(Transaction::new().put(key("/a"), "?")).await.expect("memory");
        let id = join(store.as_ref(), "/a", None, "").await.expect("it is given one");
        assert_eq!(find(store.as_ref(), "/a").await.expect("memory"), Some(id));
    }
}
