//! ShenYu's objects as the console sees them. Who keeps them, and what calls about them mean, is not known here.

use std::pin::Pin;

use hyper::Method;
use serde_json::Value;

/// What a call about ShenYu's objects leads to.
pub type ShenyuFuture<'a> = Pin<Box<dyn Future<Output = Option<(u16, Value)>> + Send + 'a>>;

/// A call about ShenYu's objects, by somebody whose key was checked.
#[derive(Debug)]
pub struct ShenyuCall {
    /// Who calls: the name of the key.
    pub operator: String,
    /// Whether secrets are told.
    pub sees_secrets: bool,
    /// The method.
    pub method: Method,
    /// The path below ShenYu's admin, taken apart and decoded.
    pub segments: Vec<String>,
    /// The arguments of the query.
    pub arguments: Vec<(String, String)>,
    /// The body; `null` where there is none.
    pub body: Value,
}

/// A change of ShenYu's objects that was made lately.
#[derive(Debug, Clone)]
pub struct ShenyuChange {
    /// What it is called.
    pub id: String,
    /// The commit that made it.
    pub revision: u64,
    /// When, in milliseconds of Unix time.
    pub at_ms: u64,
    /// Who made it.
    pub actor: String,
    /// By which way.
    pub way: String,
    /// The call.
    pub context: String,
    /// What was done.
    pub deed: String,
    /// The first object that was changed; blank where that is not known.
    pub object: String,
}

/// Who keeps ShenYu's objects.
pub trait ShenyuSource: Send + Sync {
    /// What forms of them ask for, as JSON Schemas.
    fn forms(&self) -> &'static Value;

    /// Answers a call: the status of HTTP and what is told. `None` where nobody keeps any objects.
    fn call(&self, call: ShenyuCall) -> ShenyuFuture<'_>;

    /// The changes that were made lately, the newest first.
    fn changes(&self) -> Vec<ShenyuChange>;

    /// One of them, and what it has changed: `rows`, each with `object`, `name`, `deed`, `before` and `after`.
    fn change(&self, id: &str) -> Option<(ShenyuChange, Value)>;
}
