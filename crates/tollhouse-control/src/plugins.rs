//! Plugins of this binary, and the services that the process offers them.

pub mod endpoints;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Map, Value};
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::{LuaTrust, Peer, Scripting};
use tollhouse_lua::Lua;
use tollhouse_model::Problem;
use tollhouse_model::secret::{SecretRef, SecretSource};
use tollhouse_plugin::{Brand, Catalogue, NoSuchPlugin, PluginType, Services};
use tollhouse_stdx::MemoryBudget;

use crate::process_log::process_log;
use crate::secret_managers::SecretManagers;

/// APISIX version that is reported to clients; ADC and others require at least 3.11.
pub const APISIX_VERSION: &str = "3.18.0";

/// Name and version as in APISIX's `Server` header.
pub const APISIX_TOKEN: &str = "APISIX/3.18.0";

/// The plugins of a process, and what they use. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PluginParts {
    pub catalogue: Arc<Catalogue>,
    /// Services of the process that plugins may use.
    pub services: Arc<Services>,
    /// Resolvers of secret references in plugin configurations.
    pub secret_managers: Arc<SecretManagers>,
}

pub fn brand(bootstrap: &Bootstrap) -> Brand {
    if bootstrap.imitate_apisix { Brand::Apisix } else { Brand::Tollhouse }
}

/// `Server` header of the data plane.
pub fn server_token(bootstrap: &Bootstrap) -> &'static str {
    match brand(bootstrap) {
        Brand::Tollhouse => "tollhouse",
        Brand::Apisix => apisix_token(bootstrap),
    }
}

/// `Server` header where APISIX's name is needed.
pub fn apisix_token(bootstrap: &Bootstrap) -> &'static str {
    if bootstrap.server_tokens { APISIX_TOKEN } else { "APISIX" }
}

/// Function that makes the plugins of a binary of its own.
pub type OwnPlugins = fn() -> Vec<PluginType>;

/// Plugins that the binary adds to those of this build.
static OWN: OnceLock<OwnPlugins> = OnceLock::new();

/// Adds the plugins of a binary of its own. Must be called before anything else; later calls have
/// no effect.
///
/// # Errors
/// If one of them has the name of a plugin of this build.
pub fn add_own(plugins: OwnPlugins) -> Result<(), Problem> {
    let built_in = tollhouse_plugins::catalogue();
    let taken = plugins().into_iter().find(|plugin| built_in.get(plugin.name).is_some());
    if let Some(PluginType { name, .. }) = taken {
        let reason = format!("plugin \"{name}\" is already part of the gateway");
        return Err(Problem::error("plugins", reason).with_hint("give it another name"));
    }
    let _ = OWN.set(plugins);
    Ok(())
}

/// Returns the plugins of this binary, without those of scripts.
fn built_in() -> Catalogue {
    let own = OWN.get().map(|plugins| plugins()).unwrap_or_default();
    tollhouse_plugins::catalogue().with(own)
}

/// Returns all plugins, with those of the folder of scripts. Their schemas are compiled once per
/// process.
pub fn catalogue() -> Arc<Catalogue> {
    static CATALOGUE: OnceLock<Arc<Catalogue>> = OnceLock::new();
    if let Some(scripts) = locked_scripts().last() {
        return Arc::clone(&scripts.catalogue);
    }
    Arc::clone(CATALOGUE.get_or_init(|| Arc::new(built_in())))
}

/// Returns the plugins that the bootstrap file enables.
///
/// # Errors
/// If the file names an unknown plugin.
pub fn enabled(bootstrap: &Bootstrap) -> Result<Arc<Catalogue>, Problem> {
    note_scripts(bootstrap)?;
    if bootstrap.plugins.is_empty() {
        return Ok(catalogue());
    }
    let own = scripts_of(bootstrap).map(|scripts| scripts.lua.plugins().0).unwrap_or_default();
    let chosen = built_in().with(own).only(&bootstrap.plugins);
    let chosen = chosen.map_err(|NoSuchPlugin(name)| {
        let hint = tollhouse_stdx::nearest(&name, catalogue().iter().map(|plugin| plugin.name))
            .map(|near| format!("did you mean \"{near}\"?"))
            .unwrap_or_else(|| "`tollhouse plugins` lists all".to_owned());
        Problem::error("plugins", format!("no plugin is called \"{name}\"")).with_hint(hint)
    })?;
    Ok(Arc::new(chosen))
}

/// Scripts of one bootstrap file: their compiler, and all plugins with those of its folder.
struct Scripts {
    settings: Scripting,
    attributes: Map<String, Value>,
    lua: Arc<Lua>,
    catalogue: Arc<Catalogue>,
}

/// Scripts of the bootstrap files that this process has read, usually one. Plugins and services
/// that are made from the same file must belong together.
fn locked_scripts() -> MutexGuard<'static, Vec<Arc<Scripts>>> {
    static SCRIPTS: Mutex<Vec<Arc<Scripts>>> = Mutex::new(Vec::new());
    SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the scripts of a bootstrap file that [`enabled`] has accepted; `None` if they are off.
fn scripts_of(bootstrap: &Bootstrap) -> Option<Arc<Scripts>> {
    let scripts = locked_scripts();
    let same = |scripts: &&Arc<Scripts>| {
        scripts.settings == bootstrap.scripting && scripts.attributes == bootstrap.plugin_attr
    };
    scripts.iter().find(same).map(Arc::clone)
}

/// Reads the folder of scripts, if scripts are on.
///
/// # Errors
/// If the folder cannot be read, if it is set while scripts are off, or if one of its plugins
/// cannot be used, because objects that name it would be refused.
fn note_scripts(bootstrap: &Bootstrap) -> Result<(), Problem> {
    let settings = &bootstrap.scripting;
    if settings.lua == LuaTrust::Off {
        return match settings.folder {
            None => Ok(()),
            Some(_) => Err(Problem::error("scripting.folder", "scripts are off")
                .with_hint("set `scripting.lua: trusted` too")),
        };
    }
    if scripts_of(bootstrap).is_some() {
        return Ok(());
    }
    let sources = match &settings.folder {
        None => Default::default(),
        Some(folder) => tollhouse_lua::read_folder(folder)
            .map_err(|error| Problem::error("scripting.folder", error.to_string()))?,
    };
    let lua = Lua::new(tollhouse_lua::Settings {
        memory_bytes: settings.memory,
        sources,
        attributes: bootstrap.plugin_attr.clone(),
        outside: Arc::new(tollhouse_plugins::ScriptCalls),
    });
    let (own, problems) = lua.plugins();
    if let Some((name, error)) = problems.into_iter().next() {
        let reason = format!("invalid plugin \"{name}\": {error}");
        return Err(Problem::error("scripting.folder", reason));
    }
    locked_scripts().push(Arc::new(Scripts {
        settings: settings.clone(),
        attributes: bootstrap.plugin_attr.clone(),
        lua: Arc::new(lua),
        catalogue: Arc::new(built_in().with(own)),
    }));
    Ok(())
}

/// Returns the services for a command that only reads configurations. Plugins in `skipped_plugins`
/// are ignored if they are unknown. Secret references are not resolved.
pub fn bare_services(skipped_plugins: &[String]) -> Arc<Services> {
    let mut services = Services::new(APISIX_TOKEN);
    services.skipped_plugins = skipped_plugins.to_vec();
    // Scripts of the bootstrap file that the command has read.
    let scripts = locked_scripts().last().map(|scripts| Arc::clone(&scripts.lua));
    services.scripting = scripts.map(|lua| lua as Arc<dyn tollhouse_plugin::Scripting>);
    services.secrets = Some(Arc::new(OpaqueSecrets));
    Arc::new(services)
}

/// Returns the services of a running gateway for plugins that are only compiled, without a
/// background runtime.
pub(crate) fn trial_services(bootstrap: &Bootstrap) -> Services {
    let mut services = services(bootstrap, &MemoryBudget::new(0));
    services.background = None;
    services.secrets = Some(Arc::new(OpaqueSecrets));
    services
}

/// Resolves every secret reference to its own text, because only the gateway has access to secrets.
struct OpaqueSecrets;

impl SecretSource for OpaqueSecrets {
    fn fetch(&self, reference: &SecretRef) -> Option<String> {
        Some(reference.to_string())
    }
}

/// Returns the header in which the gateway can tell its own listeners the address of a client.
fn client_address_header(bootstrap: &Bootstrap) -> Option<String> {
    let real_ip = &bootstrap.real_ip;
    let this_host = std::net::IpAddr::from([127, 0, 0, 1]);
    let is_this_host =
        |peer: &Peer| matches!(peer, Peer::Network(network) if network.contains(&this_host));
    real_ip.from.iter().any(is_this_host).then(|| real_ip.header.clone())
}

/// Returns the services for the plugins of a running gateway. The caller adds the endpoints.
pub fn services(bootstrap: &Bootstrap, memory: &Arc<MemoryBudget>) -> Services {
    let mut services = Services::new(server_token(bootstrap));
    services.brand = brand(bootstrap);
    services.data_dir = bootstrap.data_dir.clone();
    services.log_folder.clone_from(&bootstrap.log_files.folder);
    services.attributes = bootstrap.plugin_attr.clone();
    let zones = serde_json::Value::Object(bootstrap.proxy_cache.clone());
    services.attributes.insert("proxy-cache".to_owned(), zones);
    services.memory = Arc::clone(memory);
    services.graphql_bytes = bootstrap.limits.graphql_bytes as u64;
    services.background = tokio::runtime::Handle::try_current().ok();
    services.own_log = Arc::clone(process_log().followers());
    let mut tls = bootstrap.listen.https.iter().map(|address| address.port());
    services.tls_port = tls.find(|port| *port != 0);
    services.client_address_header = client_address_header(bootstrap);
    services.skipped_plugins = bootstrap.skip_plugins.clone();
    let scripts = scripts_of(bootstrap).map(|scripts| Arc::clone(&scripts.lua));
    services.scripting = scripts.map(|lua| lua as Arc<dyn tollhouse_plugin::Scripting>);
    services
}
