//! Futures of traits whose implementations are not known where they are used.

use std::pin::Pin;

/// A future on the heap that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
