//! Who asks: consumers, their credentials, and how auth plugins find them.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::catalogue::SchemaOf;
use crate::conf_error::ConfError;

/// A consumer, as far as plugins are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub username: Box<str>,
    /// Its group.
    pub group_id: Option<Box<str>>,
    /// Label `custom_id`, which nodes are told.
    pub custom_id: Option<Box<str>>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it, or its group, brings plugins of its own.
    pub has_plugins: bool,
    /// What its requests are counted by.
    pub number: u32,
}

/// What identifies a consumer to one auth plugin.
#[derive(Clone)]
pub struct Credential {
    /// Whom it identifies.
    pub consumer: Arc<Consumer>,
    /// The credential object's id; `None` for one that stands in the consumer itself.
    pub credential_id: Option<Box<str>>,
    /// What the auth plugin made of the conf.
    pub identity: Arc<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Credential({}, {:?}, ***)", self.consumer.username, self.credential_id)
    }
}

impl Credential {
    /// What the auth plugin made of the conf; `T` is what its [`ConsumerSpec`] compiles to.
    pub fn identity<T: 'static>(&self) -> Option<&T> {
        self.identity.downcast_ref()
    }
}

/// Finds consumers; a hash look-up at any number of them.
pub trait ConsumerIndex {
    /// The credential whose look-up field (`key`, `username`, `key_id`) has the value `key` for the
    /// auth plugin `plugin`.
    fn credential(&self, plugin: &str, key: &[u8]) -> Option<&Credential>;
    /// The consumer of that name.
    fn consumer(&self, username: &str) -> Option<&Arc<Consumer>>;
}

/// No consumers at all.
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

/// What a consumer or credential says for an auth plugin.
#[derive(Debug, Clone, Copy)]
pub struct ConsumerSpec {
    /// Makes the schema.
    pub schema: fn() -> Value,
    /// The field that a request is matched by; unique among all consumers.
    pub key_field: &'static str,
    /// Dotted paths of the fields that are encrypted at rest.
    pub encrypted: &'static [&'static str],
    /// Makes the identity of a conf that satisfies the schema.
    pub compile: CompileIdentity,
}

/// A consumer's conf of an auth plugin, ready to verify requests with.
pub trait Identity: JsonSchema + DeserializeOwned + Send + Sync + 'static {
    /// The field that a request is matched by.
    const KEY_FIELD: &'static str;
    /// Dotted paths of the fields that are encrypted at rest.
    const ENCRYPTED: &'static [&'static str] = &[];

    /// Completes the schema with what attributes cannot say.
    fn adjust_schema(_schema: &mut Value) {}

    /// Checks what the schema cannot say, and prepares what verifying needs.
    ///
    /// # Errors
    /// The text reaches whoever wrote the conf.
    fn prepare(&mut self) -> Result<(), ConfError> {
        Ok(())
    }
}

impl ConsumerSpec {
    /// Confs described by `T`.
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
