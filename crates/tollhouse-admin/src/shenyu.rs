//! Interface through which the console reaches ShenYu's objects.

use std::pin::Pin;

use hyper::Method;
use serde_json::Value;

/// Future of a call's result: HTTP status and JSON body; `None` if ShenYu's objects are off.
pub type ShenyuFuture<'a> = Pin<Box<dyn Future<Output = Option<(u16, Value)>> + Send + 'a>>;

/// An authenticated call about ShenYu's objects.
#[derive(Debug)]
pub struct ShenyuCall {
    /// Name of the key that the caller presented.
    pub operator: String,
    /// Whether the caller may see secrets.
    pub sees_secrets: bool,
    pub method: Method,
    /// Decoded path segments below ShenYu's admin.
    pub segments: Vec<String>,
    pub arguments: Vec<(String, String)>,
    /// Body; `null` if empty.
    pub body: Value,
}

/// A recent change of ShenYu's objects.
#[derive(Debug, Clone)]
pub struct ShenyuChange {
    pub id: String,
    /// Store revision of the commit.
    pub revision: u64,
    /// Time, in milliseconds of Unix time.
    pub at_ms: u64,
    /// Name of the key that the caller presented.
    pub actor: String,
    /// Origin of the call, such as `console`.
    pub way: String,
    /// Description of the call, for people.
    pub context: String,
    /// Kind of change, such as `create`.
    pub deed: String,
    /// First changed object; empty if unknown.
    pub object: String,
}

/// Access to the objects of ShenYu's admin.
pub trait ShenyuSource: Send + Sync {
    /// JSON schemas of the console's forms.
    fn forms(&self) -> &'static Value;

    /// Handles a call. Returns HTTP status and body, or `None` if ShenYu's objects are off.
    fn call(&self, call: ShenyuCall) -> ShenyuFuture<'_>;

    /// Recent changes of ShenYu objects, newest first.
    fn changes(&self) -> Vec<ShenyuChange>;

    /// A change with its details: `rows`, each with `object`, `name`, `deed`, `before` and `after`.
    fn change(&self, id: &str) -> Option<(ShenyuChange, Value)>;
}
