//! Catalogue of all plugins: their properties, schemas, and the compilation of confs to handlers.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use tollhouse_model::schema::Schema;
use tollhouse_model::secret::{
    NoAnswer, SecretSource, UnresolvedReference, has_references, resolve_as,
};

use crate::conf_error::ConfError;
use crate::consumer::ConsumerSpec;
use crate::handler::SharedHandler;
use crate::plugin::{
    BackgroundWork, Category, MetadataSpec, Phases, Plugin, PluginEndpoint, Remark, RunPolicy,
};
use crate::scope::{Scope, Services};

pub use crate::schema::SchemaOf;

/// Properties of a plugin that do not depend on a conf.
pub struct PluginType {
    /// Name in configurations, such as `key-auth`.
    pub name: &'static str,
    /// Order of execution; higher runs earlier.
    pub priority: i32,
    /// Version of the plugin in the answer of `/plugins?all=true`.
    pub version: f32,
    /// Purpose of the plugin, such as authentication.
    pub category: Category,
    /// Phases that the plugin takes part in.
    pub phases: Phases,
    /// Behaviour if both a global rule and the route have the plugin.
    pub run_policy: RunPolicy,
    /// Whether the plugin also supports connections below HTTP.
    pub serves_connections: bool,
    /// Whether the plugin supports HTTP requests.
    pub serves_requests: bool,
    /// Whether the plugin refuses requests by data that clients send, or answers them from a store.
    /// If so, nodes receive exactly the path that the plugin has checked. See
    /// [`Plugin::JUDGES_PATH`].
    pub judges_path: bool,
    /// Dotted paths of the fields that are encrypted at rest.
    pub encrypted: &'static [&'static str],
    /// Dotted paths of the fields that decide where the encrypted ones are sent.
    pub sent_to: &'static [&'static str],
    /// Kind of credential that consumers have for this plugin; `None` unless it is an auth plugin.
    pub consumer: Option<ConsumerSpec>,
    /// Dotted paths of the fields that hold expressions.
    pub expressions: &'static [&'static str],
    /// Function that returns warnings about a conf that satisfies the schema.
    pub remarks: fn(&Value) -> Vec<Remark>,
    /// Secret fields of the plugin's metadata; `None` without metadata.
    pub metadata_spec: Option<MetadataSpec>,
    /// Endpoints that `public-api` may expose.
    pub endpoints: &'static [PluginEndpoint],
    /// Function that starts the work of [`Plugin::start`].
    pub start: fn(&Value, &Arc<Services>) -> Result<Option<BackgroundWork>, ConfError>,
    conf: Rules,
    metadata: Option<Rules>,
    identity: Option<Rules>,
    build: BuildHandler,
}

/// Function that builds a handler from a conf that satisfies the schema.
pub type BuildHandler =
    Box<dyn Fn(&Value, &Scope<'_>) -> Result<SharedHandler, ConfError> + Send + Sync>;

/// Properties of a plugin that is not part of this build, such as a script in a folder.
pub struct ForeignPlugin {
    /// Name in configurations.
    pub name: &'static str,
    /// Order of execution; higher runs earlier.
    pub priority: i32,
    /// Version of the plugin in the answer of `/plugins?all=true`.
    pub version: f32,
    /// Phases that the plugin takes part in.
    pub phases: Phases,
    /// JSON Schema of the conf.
    pub schema: Value,
    /// JSON Schema of the metadata, if the plugin has any.
    pub metadata_schema: Option<Value>,
    /// Function that builds a handler from a conf.
    pub build: BuildHandler,
}

/// Rules for a conf, made when they are first needed: a gateway uses few of its plugins, and the
/// compiled schemas of all of them take several MiB.
struct Rules(LazyLock<CompiledRules, Box<dyn FnOnce() -> CompiledRules + Send>>);

/// JSON Schema, as a document and in compiled form.
struct CompiledRules {
    document: Value,
    compiled: Schema,
}

impl Rules {
    /// Creates the rules of a schema of this build.
    fn new(schema: fn() -> Value) -> Self {
        Self(LazyLock::new(Box::new(move || {
            let document = schema();
            let compiled = Schema::compile(&document).expect("schemas of plugins are tested");
            CompiledRules { document, compiled }
        })))
    }

    /// Compiles a schema of another origin.
    ///
    /// # Errors
    /// If it is not a JSON Schema.
    fn foreign(document: Value) -> Result<Self, ConfError> {
        let rules = CompiledRules { compiled: Schema::compile(&document)?, document };
        Ok(Self(LazyLock::new(Box::new(move || rules))))
    }

    fn document(&self) -> &Value {
        &self.0.document
    }

    fn compiled(&self) -> &Schema {
        &self.0.compiled
    }

    /// Checks `conf` and fills in defaults.
    fn complete(&self, conf: &Value) -> Result<Value, ConfError> {
        let mut conf = conf.clone();
        self.compiled().validate_and_fill(&mut conf)?;
        empty_as_declared(self.document(), &mut conf);
        whole_numbers(&mut conf);
        Ok(conf)
    }

    /// Checks a conf that may contain references to external values. `check` may refuse the conf
    /// only because of the text of a reference, which the plugin never sees. Such a conf is checked
    /// again with the values in place of the references. If this process does not have all values,
    /// only the schema is checked, and the serving process reports the missing values.
    fn check_with_references(
        &self,
        conf: &Value,
        services: &Services,
        check: impl Fn(&Value) -> Result<(), ConfError>,
    ) -> Result<(), ConfError> {
        let Err(error) = check(conf) else { return Ok(()) };
        if !has_references(conf) {
            return Err(error);
        }
        self.complete(conf)?;
        let mut resolved = conf.clone();
        let source = services.secrets.as_deref().map(|source| source as &dyn SecretSource);
        let unanswered = resolve_as(&mut resolved, self.document(), source);
        let is_wrong = |one: &&UnresolvedReference| matches!(one.answer, NoAnswer::NotA(_));
        if let Some(wrong) = unanswered.iter().find(is_wrong) {
            let (field, reason) = (&wrong.field, wrong.reason());
            return Err(format!("property \"{field}\" validation failed: {reason}").into());
        }
        if unanswered.is_empty() && !has_references(&resolved) {
            return check(&resolved);
        }
        Ok(())
    }
}

/// Replaces `{}` by `[]` and vice versa where the schema demands it, because clients in Lua have
/// one type for both.
fn empty_as_declared(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) if fields.is_empty() && schema["type"] == "array" => {
            *value = json!([]);
        }
        Value::Array(items) if items.is_empty() && schema["type"] == "object" => {
            *value = json!({});
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(schema) = schema["properties"].get(name) {
                    empty_as_declared(schema, field);
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| empty_as_declared(&schema["items"], item));
        }
        _ => {}
    }
}

/// Converts floats without a fraction to integers, because clients in Lua write either form and
/// serde distinguishes them.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|float| {
                !number.is_i64() && !number.is_u64() && float.fract() == 0.0 && float.abs() < 2e15
            });
            if let Some(whole) = whole {
                *value = json!(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

impl std::fmt::Debug for PluginType {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name)
    }
}

impl PluginType {
    /// Returns the properties of the plugin type `P`, taken from the constants and methods of
    /// [`Plugin`].
    pub fn new<P: Plugin>() -> Self {
        let schema = || {
            let mut schema = SchemaOf::<P::Config>::value();
            P::adjust_schema(&mut schema);
            schema
        };
        let (consumer, metadata_spec) = (P::consumer(), P::metadata());
        Self {
            name: P::NAME,
            priority: P::PRIORITY,
            version: P::VERSION,
            category: P::CATEGORY,
            phases: P::PHASES,
            run_policy: P::RUN_POLICY,
            serves_connections: P::SERVES_CONNECTIONS,
            serves_requests: P::SERVES_REQUESTS,
            judges_path: P::JUDGES_PATH,
            encrypted: P::ENCRYPTED,
            expressions: P::EXPRESSIONS,
            remarks: P::remarks,
            sent_to: P::SENT_TO,
            conf: Rules::new(schema),
            metadata: metadata_spec.map(|spec| Rules::new(spec.schema)),
            metadata_spec,
            endpoints: P::endpoints(),
            start: P::start,
            identity: consumer.map(|spec| Rules::new(spec.schema)),
            consumer,
            build: Box::new(|conf, scope| {
                let config = serde_json::from_value(conf.clone()).map_err(|e| e.to_string())?;
                let handler: SharedHandler = Arc::new(P::compile(config, scope)?);
                Ok(handler)
            }),
        }
    }

    /// Returns the plugin type of a plugin that is not part of this build. It may protect, so that
    /// nodes receive the path that it has judged.
    ///
    /// # Errors
    /// If a schema is not a JSON Schema.
    pub fn foreign(plugin: ForeignPlugin) -> Result<Self, ConfError> {
        let metadata = match plugin.metadata_schema {
            Some(schema) => Some(Rules::foreign(schema)?),
            None => None,
        };
        let has_metadata = metadata.is_some();
        Ok(Self {
            name: plugin.name,
            priority: plugin.priority,
            version: plugin.version,
            category: Category::Security,
            phases: plugin.phases,
            run_policy: RunPolicy::Both,
            serves_connections: false,
            serves_requests: true,
            judges_path: true,
            encrypted: &[],
            expressions: &[],
            remarks: |_| Vec::new(),
            sent_to: &[],
            conf: Rules::foreign(plugin.schema)?,
            metadata,
            metadata_spec: has_metadata.then(|| MetadataSpec::with_schema(|| json!({}))),
            endpoints: &[],
            start: |_, _| Ok(None),
            identity: None,
            consumer: None,
            build: plugin.build,
        })
    }

    /// Whether the plugin authenticates requests as consumers.
    pub fn is_auth(&self) -> bool {
        self.category == Category::Authentication && self.consumer.is_some()
    }

    /// Returns the value of the field `type` in the answer of `/plugins?all=true`; `None` for
    /// plugins that have no such field.
    pub fn type_name(&self) -> Option<&'static str> {
        (self.is_auth() || self.name == "multi-auth").then_some("auth")
    }

    /// Returns the schema of the plugin's conf.
    pub fn schema(&self) -> &Value {
        self.conf.document()
    }

    /// Returns the schema of the plugin's metadata.
    pub fn metadata_schema(&self) -> Option<&Value> {
        self.metadata.as_ref().map(Rules::document)
    }

    /// Returns the schema of a consumer's credential for this plugin.
    pub fn consumer_schema(&self) -> Option<&Value> {
        self.identity.as_ref().map(Rules::document)
    }

    /// Compiles a conf to a handler.
    ///
    /// # Errors
    /// If `conf` is invalid; the text is in APISIX's words.
    pub fn compile(&self, conf: &Value, scope: &Scope<'_>) -> Result<SharedHandler, ConfError> {
        let conf = self.conf.complete(conf)?;
        (self.build)(&conf, &Scope { conf: &conf, ..*scope })
    }

    /// Checks and compiles a consumer's credential.
    ///
    /// # Errors
    /// If `conf` is invalid.
    pub fn identify(&self, conf: &Value) -> Result<Identified, ConfError> {
        let (Some(rules), Some(spec)) = (&self.identity, &self.consumer) else {
            return Err("the plugin has no consumer schema".into());
        };
        let conf = rules.complete(conf)?;
        let key = conf.get(spec.key_field).and_then(Value::as_str).unwrap_or_default();
        Ok(Identified { key: key.into(), identity: (spec.compile)(&conf)? })
    }

    /// Checks a conf that may contain references to external values.
    ///
    /// # Errors
    /// If `conf` is invalid.
    pub fn check(&self, conf: &Value, scope: &Scope<'_>) -> Result<(), ConfError> {
        let compile = |conf: &Value| self.compile(conf, &Scope { conf, ..*scope }).map(drop);
        self.conf.check_with_references(conf, scope.services, compile)
    }

    /// Checks a consumer's credential that may contain references to external values.
    ///
    /// # Errors
    /// If `conf` is invalid.
    pub fn check_identity(&self, conf: &Value, services: &Services) -> Result<(), ConfError> {
        let identify = |conf: &Value| self.identify(conf).and_then(|found| found.check());
        match &self.identity {
            Some(rules) => rules.check_with_references(conf, services, identify),
            None => identify(conf),
        }
    }

    /// Checks plugin metadata.
    ///
    /// # Errors
    /// If `conf` does not satisfy the metadata schema.
    pub fn check_metadata(&self, conf: &Value) -> Result<(), ConfError> {
        match &self.metadata {
            Some(rules) => Ok(rules.compiled().validate(conf)?),
            None => Ok(()),
        }
    }
}

/// Parsed credential of one auth plugin.
pub struct Identified {
    /// Value of the conf's look-up field ([`ConsumerSpec::key_field`]), which identifies the
    /// credential in requests.
    pub key: String,
    /// Plugin-specific data with which the plugin verifies the credential.
    pub identity: Arc<dyn std::any::Any + Send + Sync>,
}

impl Identified {
    /// Refuses an empty look-up value, which every request without a credential would match.
    ///
    /// # Errors
    /// If the look-up value is empty.
    pub fn check(&self) -> Result<(), ConfError> {
        if self.key.is_empty() { Err("an empty key identifies no consumer".into()) } else { Ok(()) }
    }
}

/// Error: no plugin has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchPlugin(pub String);

/// Plugins of this build, by priority and by name.
#[derive(Debug)]
pub struct Catalogue {
    by_priority: Vec<PluginType>,
    by_name: HashMap<&'static str, usize>,
}

impl Catalogue {
    /// Returns a catalogue of these plugins.
    pub fn new(types: impl IntoIterator<Item = PluginType>) -> Self {
        let mut by_priority: Vec<PluginType> = types.into_iter().collect();
        by_priority.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.name.cmp(b.name)));
        let names = by_priority.iter().enumerate();
        let by_name = names.map(|(index, plugin)| (plugin.name, index)).collect();
        Self { by_priority, by_name }
    }

    /// Adds plugins that are not part of this build. A plugin of the build with the same name stays.
    #[must_use]
    pub fn with(self, foreign: impl IntoIterator<Item = PluginType>) -> Self {
        let mut types = self.by_priority;
        for plugin in foreign {
            if types.iter().all(|own| own.name != plugin.name) {
                types.push(plugin);
            }
        }
        Self::new(types)
    }

    /// Keeps only the plugins in `names`.
    ///
    /// # Errors
    /// If no plugin has one of the names; the error is the first such name.
    pub fn only(self, names: &[String]) -> Result<Self, NoSuchPlugin> {
        if let Some(unknown) = names.iter().find(|name| self.get(name).is_none()) {
            return Err(NoSuchPlugin(unknown.clone()));
        }
        let types = self.by_priority.into_iter();
        Ok(Self::new(types.filter(|plugin| names.iter().any(|name| name == plugin.name))))
    }

    /// Returns a catalogue without plugins.
    pub fn empty() -> Self {
        Self::new([])
    }

    /// Returns the plugin with this name.
    pub fn get(&self, name: &str) -> Option<&PluginType> {
        self.by_name.get(name).map(|index| &self.by_priority[*index])
    }

    /// Returns all plugins by descending priority.
    pub fn iter(&self) -> impl Iterator<Item = &PluginType> {
        self.by_priority.iter()
    }

    /// Checks a conf. Errors are in the words of the Admin API: `unknown plugin [x]`, `failed to
    /// check the configuration of plugin x err: …`.
    ///
    /// # Errors
    /// If the plugin is unknown or `conf` is invalid.
    pub fn check(&self, name: &str, conf: &Value, scope: &Scope<'_>) -> Result<(), ConfError> {
        let Some(plugin) = self.get(name) else { return Err(unknown(name)) };
        plugin.check(conf, scope).map_err(|error| refused(name, &error))
    }

    /// Checks a consumer's credential for an auth plugin. Errors are in the words of the Admin API.
    ///
    /// # Errors
    /// If the plugin is unknown or `conf` is invalid.
    pub fn check_identity(
        &self,
        name: &str,
        conf: &Value,
        services: &Services,
    ) -> Result<(), ConfError> {
        let Some(plugin) = self.get(name) else { return Err(unknown(name)) };
        plugin.check_identity(conf, services).map_err(|error| refused(name, &error))
    }
}

fn unknown(name: &str) -> ConfError {
    format!("unknown plugin [{name}]").into()
}

fn refused(name: &str, error: &ConfError) -> ConfError {
    format!("failed to check the configuration of plugin {name} err: {error}").into()
}
