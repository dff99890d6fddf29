//! Object that contains a plugin's conf, and the services that the process offers to plugins.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Map, Value};
use tollhouse_model::secret::SecretSource;
use tollhouse_stdx::MemoryBudget;
use tollhouse_transcode::Protos;

use crate::brand::Brand;
use crate::catalogue::Catalogue;
use crate::conf_error::ConfError;
use crate::own_log::OwnLog;
use crate::queues::Queues;
use crate::scripting::{SCRIPTS_ARE_OFF, Scripting};

/// Environment in which a conf is compiled: the object that contains it, and data of configuration
/// and process.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Path of the object: `routes/1`, `services/a`, `consumers/jack`, `global_rules/1`.
    pub owner: &'a str,
    /// Conf as written, with defaults filled in.
    pub conf: &'a Value,
    /// Metadata of the plugin, if it has any.
    pub metadata: Option<&'a Value>,
    /// gRPC service definitions (`protos`) of the same configuration; `None` if they are unknown.
    pub protos: Option<&'a Protos>,
    /// All plugins, for plugins that run others.
    pub catalogue: &'a Catalogue,
    /// Services that all plugins of the process share.
    pub services: &'a Arc<Services>,
}

impl Scope<'_> {
    /// Returns state that survives a change of the conf. This is the existing state under `key` if
    /// it is still in use, otherwise the result of `make`. Each type `T` has its own set of keys.
    pub fn keep<T: Send + Sync + 'static>(&self, key: &str, make: impl FnOnce() -> T) -> Arc<T> {
        self.services.keep(key, make)
    }

    /// Returns a text that identifies the conf of this plugin in this object. The text changes with
    /// the conf, but not with other fields of the object.
    pub fn identity(&self, plugin: &str) -> String {
        format!("{}#{plugin}#{}", self.owner, self.conf)
    }

    /// Returns a field of the plugin's metadata.
    pub fn metadata_field(&self, name: &str) -> Option<&Value> {
        self.metadata?.get(name)
    }
}

/// Services that the process offers to plugins.
pub struct Services {
    /// Value of the header `Server` in answers of the gateway.
    pub server_token: String,
    /// Product name on the gateway's own pages.
    pub brand: Brand,
    /// `plugin_attr` of the bootstrap file, by plugin.
    pub attributes: Map<String, Value>,
    /// Folder for data files of plugins. Settings such as the names of cache zones are in
    /// `attributes`.
    pub data_dir: std::path::PathBuf,
    /// Folder for files that objects name; empty in tools that serve nothing.
    pub log_folder: std::path::PathBuf,
    /// Runtime for background work; `None` in tools that serve nothing.
    pub background: Option<tokio::runtime::Handle>,
    /// HTTP endpoints that `public-api` may expose, by path.
    pub endpoints: HashMap<String, Endpoint>,
    /// TLS port of the data plane, if it has one.
    pub tls_port: Option<u16>,
    /// Header in which the gateway itself may tell its own listeners the address of a client; `None`
    /// if they do not trust the loopback address.
    pub client_address_header: Option<String>,
    /// Registry of queues of plugins that send in batches.
    pub queues: Arc<Queues>,
    /// Lines of the process's own log.
    pub own_log: Arc<OwnLog>,
    /// Memory budget for data that clients can make grow, such as cached answers.
    pub memory: Arc<MemoryBudget>,
    /// Maximum length of a request body that is read as GraphQL, in bytes.
    pub graphql_bytes: u64,
    /// Resolver of references to secrets; with `None`, references stay unresolved.
    pub secrets: Option<Arc<dyn SecretSource + Send + Sync>>,
    /// Names of plugins that are skipped if this build does not contain them;
    /// [`absent::ALL`](crate::absent::ALL) stands for all names.
    pub skipped_plugins: Vec<String>,
    /// Compiler of scripts in objects; `None` if scripts are off.
    pub scripting: Option<Arc<dyn Scripting>>,
    kept: Mutex<HashMap<(TypeId, String), Weak<dyn Any + Send + Sync>>>,
}

/// Function that answers one HTTP endpoint of the process, such as a metrics page.
pub type Endpoint = Arc<dyn Fn() -> EndpointReply + Send + Sync>;

/// Content type and body with which an endpoint replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointReply {
    /// Value of the reply's header `Content-Type`.
    pub content_type: &'static str,
    /// Body of the reply, sent unchanged.
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Services({})", self.server_token)
    }
}

impl Services {
    /// Returns minimal services with this `Server` header.
    pub fn new(server_token: impl Into<String>) -> Self {
        Self {
            server_token: server_token.into(),
            brand: Brand::default(),
            attributes: Map::new(),
            data_dir: std::path::PathBuf::new(),
            log_folder: std::path::PathBuf::new(),
            background: None,
            endpoints: HashMap::new(),
            tls_port: None,
            client_address_header: None,
            queues: Arc::default(),
            own_log: Arc::default(),
            memory: MemoryBudget::unlimited(),
            graphql_bytes: 1 << 20,
            secrets: None,
            skipped_plugins: Vec::new(),
            scripting: None,
            kept: Mutex::default(),
        }
    }

    /// Returns the existing state of type `T` under `key` if it is still in use, otherwise the
    /// result of `make`.
    pub fn keep<T: Send + Sync + 'static>(&self, key: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = (TypeId::of::<T>(), key.to_owned());
        let alive = kept.get(&slot).and_then(Weak::upgrade);
        if let Some(state) = alive.and_then(|state| state.downcast().ok()) {
            return state;
        }
        // Entries that are no longer in use are removed whenever the number of entries is a power
        // of two.
        if kept.len().is_power_of_two() {
            kept.retain(|_, state| state.strong_count() > 0);
        }
        let state = Arc::new(make());
        let erased: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(&state);
        kept.insert(slot, Arc::downgrade(&erased));
        state
    }

    /// Returns the compiler of scripts.
    ///
    /// # Errors
    /// If scripts are off; the text names the remedy.
    pub fn scripting(&self) -> Result<&Arc<dyn Scripting>, ConfError> {
        self.scripting.as_ref().ok_or_else(|| SCRIPTS_ARE_OFF.into())
    }

    /// Returns `plugin_attr.<plugin>.<name>` of the bootstrap file.
    pub fn attribute(&self, plugin: &str, name: &str) -> Option<&Value> {
        self.attributes.get(plugin)?.get(name)
    }
}
