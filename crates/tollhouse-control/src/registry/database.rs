//! The database that nodes share for the registry, connected to once in a process's life.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::Mutex;
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::DatabaseKind;
use tollhouse_sql::{Engine, SqlOptions, SqlStore, Tls};
use tollhouse_store::Store;

use crate::identity::Identity;

/// How long the database may take for one step. A registration is refused after some of them; a client of
/// Polaris gives up after some seconds by itself.
const TIMEOUT: Duration = Duration::from_secs(3);

/// See the module.
pub struct SharedDatabase {
    node: String,
    opened: Mutex<Option<Arc<SqlStore>>>,
}

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
    pub async fn open(&self, bootstrap: &Bootstrap) -> anyhow::Result<Option<Arc<dyn Store>>> {
        let Some(options) = options(bootstrap)? else { return Ok(None) };
        let mut opened = self.opened.lock().await;
        let store = match &*opened {
            Some(store) => Arc::clone(store),
            None => {
                let store = Arc::new(SqlStore::open(&options).await?);
                *opened = Some(Arc::clone(&store));
                store
            }
        };
        Ok(Some(store))
    }
}

fn options(bootstrap: &Bootstrap) -> anyhow::Result<Option<SqlOptions>> {
    let settings = &bootstrap.registry.store;
    let database = settings.database()?;
    let Some(database) = database else { return Ok(None) };
    let tls = match (settings.tls, &settings.ca) {
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
