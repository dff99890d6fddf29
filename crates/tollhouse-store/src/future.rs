//! Boxed futures, for object-safe traits.

use std::pin::Pin;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
