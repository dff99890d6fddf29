//! Consumers, their credentials, and the look-up for auth plugins.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::catalogue::SchemaOf;
use crate::conf_error::ConfError;

/// Properties of a consumer that plugins need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Name of the consumer; unique in the configuration.
    pub username: Box<str>,
    /// Id of the consumer's group; `None` without a group.
    pub group_id: Option<Box<str>>,
    /// Value of the label `custom_id`, which is sent to nodes.
    pub custom_id: Option<Box<str>>,
    /// Labels of the consumer object.
    pub labels: BTreeMap<String, String>,
    /// Whether the consumer or its group has plugins.
    pub has_plugins: bool,
    /// Number of the consumer within the process, under which metrics count requests.
    pub number: u32,
}

/// Credential of a consumer for one auth plugin.
#[derive(Clone)]
pub struct Credential {
    /// Consumer that the credential belongs to.
    pub consumer: Arc<Consumer>,
    /// Id of the credential object; `None` for a credential in the consumer itself.
    pub credential_id: Option<Box<str>>,
    /// Compiled conf of the credential; [`Self::identity()`] returns it with its type.
    pub identity: Arc<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Credential({}, {:?}, ***)", self.consumer.username, self.credential_id)
    }
}

impl Credential {
    /// Returns the compiled conf. `T` is the [`Identity`] type of the auth plugin; the result is
    /// `None` for another type.
    pub fn identity<T: 'static>(&self) -> Option<&T> {
        self.identity.downcast_ref()
    }
}

/// Look-up of consumers and credentials. A call costs one hash look-up, however many consumers
/// exist.
pub trait ConsumerIndex {
    /// Returns the credential whose look-up field (`key`, `username`, `key_id`) has the value `key`
    /// for the auth plugin `plugin`.
    fn credential(&self, plugin: &str, key: &[u8]) -> Option<&Credential>;
    /// Returns the consumer with this name.
    fn consumer(&self, username: &str) -> Option<&Arc<Consumer>>;
}

/// Index without consumers, so that no credential is found.
#[derive(Debug, Clone, Copy)]
pub struct NoConsumers;

impl ConsumerIndex for NoConsumers {
    fn credential(&self, _plugin: &str, _key: &[u8]) -> Option<&Credential> {
        None
    }

    fn consumer(&self, _username: &str) -> Option<&Arc<Consumer>> {
        None
    }
}

type CompileIdentity = fn(&Value) -> Result<Arc<dyn Any + Send + Sync>, ConfError>;

/// Kind of credential that consumers have for one auth plugin.
#[derive(Debug, Clone, Copy)]
pub struct ConsumerSpec {
    /// Function that returns the JSON Schema of a credential.
    pub schema: fn() -> Value,
    /// Field of the conf whose value identifies the credential in requests, such as `key` for
    /// `key-auth`. The value is unique among all consumers.
    pub key_field: &'static str,
    /// Dotted paths of the fields that are encrypted at rest.
    pub encrypted: &'static [&'static str],
    /// Function that compiles a conf which satisfies the schema.
    pub compile: CompileIdentity,
}

/// Conf of a credential for one auth plugin. The plugin compares requests with it.
pub trait Identity: JsonSchema + DeserializeOwned + Send + Sync + 'static {
    /// Field of the conf whose value identifies the credential in requests, such as `key` for
    /// `key-auth`.
    const KEY_FIELD: &'static str;
    /// Dotted paths of the fields that are encrypted at rest.
    const ENCRYPTED: &'static [&'static str] = &[];

    /// Completes the schema with rules that attributes cannot express.
    fn adjust_schema(_schema: &mut Value) {}

    /// Checks rules that the schema cannot express, and prepares data that the plugin needs to
    /// verify requests.
    ///
    /// # Errors
    /// If the conf is invalid; the text is for its author.
    fn prepare(&mut self) -> Result<(), ConfError> {
        Ok(())
    }
}

impl ConsumerSpec {
    /// Returns the spec of credentials of type `T`.
    pub fn new<T: Identity>() -> Self {
        Self {
            schema: || {
                let mut schema = SchemaOf::<T>::value();
                T::adjust_schema(&mut schema);
                schema
            },
            key_field: T::KEY_FIELD,
            encrypted: T::ENCRYPTED,
            compile: |conf| {
                let mut identity: T =
                    serde_json::from_value(conf.clone()).map_err(|error| error.to_string())?;
                identity.prepare()?;
                Ok(Arc::new(identity))
            },
        }
    }
}
