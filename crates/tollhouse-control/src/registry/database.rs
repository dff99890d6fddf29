//! The database that nodes share for the registry, connected to once in a process's life. It is known by an id that
//! the first node gives it and each keeps in its data folder: one that is of others, or was emptied, is not used.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::Mutex;
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::{DatabaseKind, RegistryStore};
use tollhouse_sql::{Engine, SqlOptions, SqlStore, Tls};
use tollhouse_store::Store;

use crate::feed::cluster_id::{self, ClusterId};
use crate::feed::fenced_store::FencedStore;
use crate::identity::Identity;
use crate::secrets;

/// How long the database may take for one step. A registration is refused after some of them; a client of
/// Polaris gives up after some seconds by itself.
const TIMEOUT: Duration = Duration::from_secs(3);

/// See the module.
pub struct SharedDatabase {
    node: String,
    opened: Mutex<Option<Shared>>,
}

/// A database that is known to be the right one.
#[derive(Clone)]
pub struct Shared {
    /// The store in it, which takes writes for as long as it is that.
    pub store: Arc<dyn Store>,
    /// The key that says so.
    pub proof: Box<str>,
}

/// Where a node keeps the id of its database.
const ID_FILE: &str = "registry-cluster";

/// What the id stands below, in a store that holds nothing but the registry.
const PREFIX: &str = "";

impl fmt::Debug for SharedDatabase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SharedDatabase").field("node", &self.node).finish_non_exhaustive()
    }
}

impl SharedDatabase {
    /// One that is not connected to yet. The node's name has the machine's, since copies of a data folder
    /// have the same id.
    pub fn new(identity: &Identity) -> Self {
        Self::named(format!("node {} on {}", identity.id, identity.hostname))
    }

    /// The same for a node of this name.
    pub(crate) fn named(node: impl Into<String>) -> Self {
        Self { node: node.into(), opened: Mutex::default() }
    }

    /// The name of this node, for the others.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The store in the database that the bootstrap file names; none where it names none.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    pub async fn open(&self, bootstrap: &Bootstrap) -> anyhow::Result<Option<Shared>> {
        let Some(options) = options(bootstrap)? else { return Ok(None) };
        let mut opened = self.opened.lock().await;
        if let Some(shared) = &*opened {
            return Ok(Some(shared.clone()));
        }
        let store = Arc::new(SqlStore::open(&options).await?);
        let name = format!("{} at {}", options.engine, options.database);
        let shared = join(store, &name, &bootstrap.data_dir).await?;
        *opened = Some(shared.clone());
        Ok(Some(shared))
    }
}

/// The file in which a node keeps the id of its database.
pub(crate) fn id_file(data_dir: &Path) -> PathBuf {
    data_dir.join(ID_FILE)
}

/// The id that is kept there; none where the node never had a database.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn remembered(data_dir: &Path) -> anyhow::Result<Option<ClusterId>> {
    let file = id_file(data_dir);
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok(ClusterId::parse_text(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", file.display())),
    }
}

/// Makes sure that a store is the one that this node shared before, and remembers it.
async fn join(store: Arc<dyn Store>, name: &str, data_dir: &Path) -> anyhow::Result<Shared> {
    let (file, remembered) = (id_file(data_dir), remembered(data_dir)?);
    let is_known = remembered.is_some();
    let path = file.display().to_string();
    let id = cluster_id::join(store.as_ref(), PREFIX, remembered, &path).await?;
    if !is_known {
        // A command may come before the first node has made it.
        secrets::make_data_dir(data_dir)?;
        secrets::keep(&file, &id.to_string())?;
    }
    let proof: Box<str> = cluster_id::fence(PREFIX, &id).into();
    let store = Arc::new(FencedStore::new(store, name, proof.clone()));
    Ok(Shared { store, proof })
}

/// How the database is reached that the bootstrap file names; none where it names none.
///
/// # Errors
/// Its URL is none, or the file with authorities cannot be read.
pub fn options(bootstrap: &Bootstrap) -> anyhow::Result<Option<SqlOptions>> {
    options_from_settings(&bootstrap.registry.store)
}

/// The same of one that is named elsewhere.
///
/// # Errors
/// As above.
pub fn options_from_settings(settings: &RegistryStore) -> anyhow::Result<Option<SqlOptions>> {
    let database = settings.database()?;
    let Some(database) = database else { return Ok(None) };
    let tls = match (settings.tls, &settings.ca) {
        // A file of authorities without `tls` has no effect; `check` warns of it.
        (false, _) => None,
        (true, None) => Some(Tls::default()),
        (true, Some(path)) => {
            let authorities = std::fs::read(path)
                .with_context(|| format!("registry.store.ca: {} cannot be read", path.display()))?;
            Some(Tls { authorities: Some(authorities) })
        }
    };
    Ok(Some(SqlOptions {
        engine: match database.kind {
            DatabaseKind::MySql => Engine::MySql,
            DatabaseKind::PostgreSql => Engine::PostgreSql,
        },
        servers: database.servers,
        database: database.name,
        user: database.user,
        password: database.password,
        tls,
        tables: settings.tables.clone(),
        timeout: TIMEOUT,
    }))
}

#[cfg(test)]
mod tests {
    use tollhouse_store::{Location, Transaction};

    use super::*;

    #[tokio::test]
    async fn a_node_keeps_to_its_database() {
        let memory = || tollhouse_store::open(&Location::Memory).expect("memory");
        let (ours, theirs, emptied) = (memory(), memory(), memory());
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let [own, other] = folders.each_ref().map(tempfile::TempDir::path);
        let first = join(Arc::clone(&ours), "ours", own).await.expect("it is given an id");
        let again = join(Arc::clone(&ours), "ours", own).await.expect("it has it still");
        assert_eq!(first.proof, again.proof);
        let second = join(Arc::clone(&ours), "ours", other).await.expect("any node may join");
        assert_eq!(first.proof, second.proof);
        let place = tempfile::tempdir().expect("a folder");
        let new = place.path().join("not there yet");
        join(Arc::clone(&theirs), "theirs", &new).await.expect("it is given another");
        for wrong in [theirs, emptied] {
            let refused = join(Arc::clone(&wrong), "wrong", own).await.err().expect("not ours");
            assert!(refused.to_string().contains("registry-cluster"), "{refused}");
        }
        ours.commit(Transaction::new().delete_prefix("")).await.expect("memory");
        let refused = first.store.commit(Transaction::new().put("/instances/1", "{}")).await;
        let refused = refused.expect_err("it was emptied").to_string();
        assert!(refused.contains("emptied or replaced"), "{refused}");
    }
}
