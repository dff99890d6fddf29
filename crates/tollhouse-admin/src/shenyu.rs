//! Interface through which the console reaches ShenYu's objects.

use std::pin::Pin;

use hyper::Method;
use serde_json::Value;

/// Future of a call's result: HTTP status and JSON body; `None` if the gateway keeps no ShenYu
/// objects.
pub type ShenyuFuture<'a> = Pin<Box<dyn Future<Output = Option<(u16, Value)>> + Send + 'a>>;

/// An authenticated call about ShenYu's objects.
#[derive(Debug)]
pub struct ShenyuCall {
    /// Name of the API key that the caller presented.
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
    /// Time of the change, in milliseconds of Unix time.
    pub at_ms: u64,
    /// Name of the API key that the caller presented.
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
    /// Returns the JSON schemas of the console's forms.
    fn forms(&self) -> &'static Value;

    /// Handles a call. Returns HTTP status and body, or `None` if the gateway keeps no ShenYu
    /// objects.
    fn call(&self, call: ShenyuCall) -> ShenyuFuture<'_>;

    /// Returns recent changes of ShenYu's objects, newest first.
    fn changes(&self) -> Vec<ShenyuChange>;

    /// Returns the change with this id and its details, a JSON object: `rows` lists the changed
    /// objects, each with `object`, `name`, `deed` (`create`, `replace` or `delete`), `before` and
    /// `after`.
    fn change(&self, id: &str) -> Option<(ShenyuChange, Value)>;
}
