//! The shared database of registry nodes, opened once per process. The first node writes an id into
//! it, and each node keeps the id in its data folder. A database with another id or none is not
//! used, because it belongs to other nodes or was emptied.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::Mutex;
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::{DatabaseKind, RegistryStore};
use tollhouse_sql::{Engine, SqlOptions, SqlServer, SqlStore, Tls};
use tollhouse_store::Store;

use crate::feed::cluster_id::{self, ClusterId};
use crate::feed::fenced_store::FencedStore;
use crate::identity::Identity;
use crate::secrets;

/// Timeout per step. A registration is refused after several failed steps; Polaris clients time out
/// after some seconds themselves.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The shared database, opened on demand.
pub struct SharedDatabase {
    node: String,
    opened: Mutex<Option<ClusterDatabase>>,
}

/// A database whose identity was checked.
#[derive(Clone)]
pub struct ClusterDatabase {
    /// The store; it refuses commits once the database is another cluster's.
    pub store: Arc<dyn Store>,
    /// Key that must exist in the database for a commit to succeed.
    pub proof: Box<str>,
}

/// File in the data folder that holds the id of the database.
const ID_FILE: &str = "registry-cluster";

/// Key prefix of the id; empty, because the store holds only the registry.
const PREFIX: &str = "";

impl fmt::Debug for SharedDatabase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SharedDatabase").field("node", &self.node).finish_non_exhaustive()
    }
}

impl SharedDatabase {
    /// Creates the handle without connecting. The node's name contains the host name, because
    /// copies of a data folder have the same id.
    pub fn new(identity: &Identity) -> Self {
        Self::named(format!("node {} on {}", identity.id, identity.hostname))
    }

    pub(crate) fn named(node: impl Into<String>) -> Self {
        Self { node: node.into(), opened: Mutex::default() }
    }

    /// Returns the name of this node for other nodes.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Opens the store in the configured database; `None` without one.
    ///
    /// # Errors
    /// If the database cannot be reached or refuses access.
    pub async fn open(&self, bootstrap: &Bootstrap) -> anyhow::Result<Option<ClusterDatabase>> {
        let Some(options) = options(bootstrap)? else { return Ok(None) };
        let mut opened = self.opened.lock().await;
        if let Some(shared) = &*opened {
            return Ok(Some(shared.clone()));
        }
        let store = SqlStore::open(&options).await;
        let store = Arc::new(store.map_err(|error| tls_hint(error, options.tls.as_ref()))?);
        let name = format!("{} at {}", options.engine, options.database);
        let shared = join(store, &name, &bootstrap.data_dir).await?;
        *opened = Some(shared.clone());
        Ok(Some(shared))
    }
}

/// Adds the key that turns TLS off to an error of a server that has none.
fn tls_hint(error: impl Into<anyhow::Error>, tls: Option<&Tls>) -> anyhow::Error {
    let error = error.into();
    if tls.is_some() && format!("{error:#}").contains("support TLS") {
        return error.context(
            "the database has no TLS; set registry.store.tls to false if the connection need not be encrypted",
        );
    }
    error
}

pub(crate) fn id_file(data_dir: &Path) -> PathBuf {
    data_dir.join(ID_FILE)
}

/// Returns the id in the data folder; `None` if the node never used a database.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn remembered(data_dir: &Path) -> anyhow::Result<Option<ClusterId>> {
    let file = id_file(data_dir);
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok(ClusterId::parse_text(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", file.display())),
    }
}

/// Checks that the store is the one that this node used before, and saves its id.
async fn join(
    store: Arc<dyn Store>,
    name: &str,
    data_dir: &Path,
) -> anyhow::Result<ClusterDatabase> {
    let (file, remembered) = (id_file(data_dir), remembered(data_dir)?);
    let is_known = remembered.is_some();
    let path = file.display().to_string();
    let id = cluster_id::join(store.as_ref(), PREFIX, remembered, &path).await?;
    if !is_known {
        // The folder is missing if a command runs before the first start of the node.
        secrets::make_data_dir(data_dir)?;
        secrets::keep(&file, &id.to_string())?;
    }
    let proof: Box<str> = cluster_id::fence(PREFIX, &id).into();
    let store = Arc::new(FencedStore::new(store, name, proof.clone()));
    Ok(ClusterDatabase { store, proof })
}

/// Returns the connection options from the bootstrap file; `None` without a database.
///
/// # Errors
/// If the URL is invalid, or the CA file cannot be read.
pub fn options(bootstrap: &Bootstrap) -> anyhow::Result<Option<SqlOptions>> {
    options_from_settings(&bootstrap.registry.store)
}

/// Like [`options`], from settings.
///
/// # Errors
/// For the reasons of [`options`].
pub fn options_from_settings(settings: &RegistryStore) -> anyhow::Result<Option<SqlOptions>> {
    let database = settings.database()?;
    let Some(database) = database else { return Ok(None) };
    let tls = match (settings.tls, &settings.ca) {
        // A CA file without `tls` has no effect; `settings::check` warns about it.
        (false, _) => None,
        (true, None) => Some(Tls::default()),
        (true, Some(path)) => {
            let authorities = std::fs::read(path)
                .with_context(|| format!("registry.store.ca: {} cannot be read", path.display()))?;
            Some(Tls { authorities: Some(authorities) })
        }
    };
    let servers = database.servers.into_iter().map(|(host, port)| SqlServer { host, port });
    Ok(Some(SqlOptions {
        engine: match database.kind {
            DatabaseKind::MySql => Engine::MySql,
            DatabaseKind::PostgreSql => Engine::PostgreSql,
        },
        servers: servers.collect(),
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

    #[test]
    fn a_server_without_tls_names_the_key_that_turns_it_off() {
        let tls = Tls { authorities: None };
        let refused = || anyhow::anyhow!("failed to connect: server does not support TLS");
        assert!(format!("{:#}", tls_hint(refused(), Some(&tls))).contains("registry.store.tls"));
        assert!(!format!("{:#}", tls_hint(refused(), None)).contains("registry.store.tls"));
        let other = tls_hint(anyhow::anyhow!("connection refused"), Some(&tls));
        assert_eq!(format!("{other:#}"), "connection refused");
    }

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
