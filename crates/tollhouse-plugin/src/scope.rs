//! Where a plugin is configured, and what the process offers it there.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Map, Value};
use tollhouse_model::secret::SecretSource;
use tollhouse_stdx::MemoryBudget;
use tollhouse_transcode::Protos;

use crate::brand::Brand;
use crate::catalogue::Catalogue;
use crate::queues::Queues;

/// The object that a conf stands in, and its surroundings.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The object: `routes/1`, `services/a`, `consumers/jack`, `global_rules/1`.
    pub owner: &'a str,
    /// The conf as written, defaults filled in; its text tells one conf from another.
    pub conf: &'a Value,
    /// The plugin's metadata, if there is any.
    pub metadata: Option<&'a Value>,
    /// The definitions of gRPC services in the same configuration; `None` where nobody knows them.
    pub protos: Option<&'a Protos>,
    /// All plugins, for those that run others.
    pub catalogue: &'a Catalogue,
    /// What the process offers.
    pub services: &'a Arc<Services>,
}

impl Scope<'_> {
    /// State that outlives this conf: the one under `key` that is still in use, else a new one.
    /// Keys of different types never meet.
    pub fn keep<T: Send + Sync + 'static>(&self, key: &str, make: impl FnOnce() -> T) -> Arc<T> {
        self.services.keep(key, make)
    }

    /// What tells this conf of this plugin in this object from any other: changes when the conf
    /// does, and not when the rest of the object does.
    pub fn identity(&self, plugin: &str) -> String {
        format!("{}#{plugin}#{}", self.owner, self.conf)
    }

    /// A field of the plugin's metadata.
    pub fn metadata_field(&self, name: &str) -> Option<&Value> {
        self.metadata?.get(name)
    }
}

/// What the process offers its plugins.
pub struct Services {
    /// What `Server` says.
    pub server_token: String,
    /// Whose name the gateway's own pages show.
    pub brand: Brand,
    /// `plugin_attr` of the bootstrap file, by plugin.
    pub attributes: Map<String, Value>,
    /// Names of the cache zones and other facts are in `attributes`; this is where files go.
    pub data_dir: std::path::PathBuf,
    /// The folder below which plugins write the files that objects name; empty in tools that serve nothing.
    pub log_folder: std::path::PathBuf,
    /// Where work goes on that no request waits for; `None` in tools that serve nothing.
    pub background: Option<tokio::runtime::Handle>,
    /// The HTTP endpoints that `public-api` may expose, by path.
    pub endpoints: HashMap<&'static str, Endpoint>,
    /// The TLS port of the data plane, if it has one.
    pub tls_port: Option<u16>,
    /// Queues of plugins that send in batches.
    pub queues: Arc<Queues>,
    /// What plugins take memory of that strangers can make grow, such as answers that are kept.
    pub memory: Arc<MemoryBudget>,
    /// What answers references to secrets in confs; without it nothing does.
    pub secrets: Option<Arc<dyn SecretSource + Send + Sync>>,
    /// Plugins that objects may name and that are passed over where this build does not have them;
    /// [`absent::ALL`](crate::absent::ALL) is every one.
    pub skipped_plugins: Vec<String>,
    kept: Mutex<HashMap<(TypeId, String), Weak<dyn Any + Send + Sync>>>,
}

/// An endpoint of the process.
pub type Endpoint = Arc<dyn Fn() -> EndpointReply + Send + Sync>;

/// What an endpoint says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointReply {
    /// `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Services({})", self.server_token)
    }
}

impl Services {
    /// With nothing but a name.
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
            queues: Arc::default(),
            memory: MemoryBudget::unlimited(),
            secrets: None,
            skipped_plugins: Vec::new(),
            kept: Mutex::default(),
        }
    }

    /// The state under `key` that is still in use, else a new one.
    pub fn keep<T: Send + Sync + 'static>(&self, key: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = (TypeId::of::<T>(), key.to_owned());
        let alive = kept.get(&slot).and_then(Weak::upgrade);
        if let Some(state) = alive.and_then(|state| state.downcast().ok()) {
            return state;
        }
        // What nobody uses any more is swept when as much again has been added.
        if kept.len().is_power_of_two() {
            kept.retain(|_, state| state.strong_count() > 0);
        }
        let state = Arc::new(make());
        let erased: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(&state);
        kept.insert(slot, Arc::downgrade(&erased));
        state
    }

    /// `plugin_attr.<plugin>.<name>` of the bootstrap file.
    pub fn attribute(&self, plugin: &str, name: &str) -> Option<&Value> {
        self.attributes.get(plugin)?.get(name)
    }
}
