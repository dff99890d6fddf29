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

/// Who knows what responders say of certificates.
pub trait StapleSource: Send + Sync {
    /// All that are served, as a JSON array.
    fn list(&self) -> Value;
}
