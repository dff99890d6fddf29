//! The Admin API as a whole: made of its parts once, then asked request by request.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Body;
use hyper::header::{HeaderValue, SERVER};
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_store::{Store, StoreError};

use crate::auth;
use crate::call::Call;
use crate::dispatch;
use crate::index::facts::Facts;
use crate::index::{Index, OWN_KEYS};
use crate::options::{Mode, Options};
use crate::registry::RegistryPart;
use crate::reply::{Reply, WireResponse};
use crate::standalone::Standalone;

/// What an Admin API is made of.
pub struct Parts {
    /// Where objects live. In [`Mode::Standalone`] one in memory, which stays empty.
    pub store: Arc<dyn Store>,
    /// All plugins.
    pub catalogue: Arc<Catalogue>,
    /// What plugins are told about the process when their confs are checked.
    pub services: Arc<Services>,
    /// What seals secrets at rest.
    pub keyring: Arc<Keyring>,
    /// The service registry; without one its paths are answered 404.
    pub registry: Option<RegistryPart>,
    /// The rest.
    pub options: Options,
}

/// The Admin API. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct AdminApi(Arc<Admin>);

/// What the clones share.
pub(crate) struct Admin {
    pub(crate) parts: Parts,
    pub(crate) index: Index,
    pub(crate) standalone: Option<Standalone>,
}

impl AdminApi {
    /// Makes it, which reads all objects of the store once.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(parts: Parts) -> Result<Self, StoreError> {
        let (catalogue, keyring) = (Arc::clone(&parts.catalogue), Arc::clone(&parts.keyring));
        let inspect =
            move |path: &str, value: &[u8]| Facts::inspect(path, value, &catalogue, &keyring);
        let prefix = format!("{}/", parts.options.key_prefix);
        let index = Index::open(Arc::clone(&parts.store), prefix, Box::new(inspect)).await?;
        let standalone = match &parts.options.mode {
            Mode::Store | Mode::ReadOnly(_) => None,
            Mode::Standalone(sink) => Some(Standalone::new(Arc::clone(sink))),
        };
        Ok(Self(Arc::new(Admin { parts, index, standalone })))
    }

    /// Whether the allow list has this peer.
    pub(crate) fn admits(&self, peer: SocketAddr) -> bool {
        auth::is_allowed(&self.0.parts.options, peer)
    }

    /// Ends what would otherwise go on for as long as its client likes.
    pub(crate) fn end_watches(&self) {
        if let Some(registry) = &self.0.parts.registry {
            registry.end_watches();
        }
    }

    /// Refuses a request before anybody looks at it.
    pub(crate) fn refuse(&self, reply: Reply) -> WireResponse {
        self.0.wire(reply)
    }

    /// Answers a request. A write is answered once it is durable.
    pub async fn handle<B>(&self, request: hyper::Request<B>, peer: SocketAddr) -> WireResponse
    where
        B: Body,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let (head, body) = request.into_parts();
        let call = Call::new(head.method, &head.uri, head.headers, peer);
        dispatch::answer(&self.0, &call, body).await
    }
}

impl Admin {
    /// An answer as it goes out. Its `Server` is APISIX's whatever the gateway is called elsewhere:
    /// clients of this API ask for the version.
    pub(crate) fn wire(&self, reply: Reply) -> WireResponse {
        let mut response = reply.into_wire(self.parts.services.brand);
        if let Ok(token) = HeaderValue::from_str(&self.parts.options.server_token.0) {
            response.headers_mut().insert(SERVER, token);
        }
        response
    }

    /// The key of a path: `/apisix/routes/1` of `routes/1`.
    pub(crate) fn key_of(&self, path: &str) -> String {
        format!("{}/{path}", self.parts.options.key_prefix)
    }

    /// The key that changes whenever something is written that names the object of this path.
    pub(crate) fn guard_key(&self, path: &str) -> String {
        self.key_of(&format!("{OWN_KEYS}guard/{path}"))
    }
}
