//! Who is asked how certificates stand: whatever renews them, and whatever asks responders about them.
//! What is asked for, and how it is answered over HTTP, stands beside it; nothing is renewed here.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

/// A list on its way.
pub type Certificates<'a> = Pin<Box<dyn Future<Output = Result<Value, String>> + Send + 'a>>;

/// Who knows how certificates stand.
pub trait CertificateSource: Send + Sync {
    /// The authority's directory.
    fn directory(&self) -> &str;

    /// All of them, as a JSON array.
    fn list(&self) -> Certificates<'_>;
}

/// Certificates in service: their ends, and the answers of responders about them.
pub trait StapleSource: Send + Sync {
    /// Answers of responders about all certificates in service, as a JSON array.
    fn list(&self) -> Value;

    /// Ends of all certificates in service, as a JSON array of `{"ssl", "not_after"}`.
    fn ends(&self) -> Value;
}
