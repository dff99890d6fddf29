//! What answers every call: the parts of an Admin API, and what it knows of the store. Knows no paths.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hyper::header::{HeaderValue, SERVER};
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use tollhouse_model::encryption::Keyring;
use tollhouse_net::failed_logins::FailedLogins;
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_store::{InService, Store, StoreError};

use crate::audit::AuditSink;
use crate::certificates::source::{CertificateSource, StapleSource};
use crate::console::source::ConsoleSource;
use crate::document::CurrentDocument;
use crate::index::facts::Facts;
use crate::index::{Index, OWN_KEYS};
use crate::limits::TURNS;
use crate::options::{Mode, Options};
use crate::refused::Refused;
use crate::registry::part::RegistryPart;
use crate::reply::{Reply, WireResponse};
use crate::shenyu::ShenyuSource;
use crate::sign_in::wrong_keys::WrongKeys;

/// What an Admin API is made of.
pub struct Parts {
    /// Where objects live. In [`Mode::Standalone`] one in memory, which stays empty.
    pub store: Arc<dyn Store>,
    /// Up to which revision of the store the data plane serves, or up to which document in [`Mode::Standalone`]; a write
    /// is then answered once it does.
    pub in_service: Option<InService>,
    /// All plugins.
    pub catalogue: Arc<Catalogue>,
    /// What plugins know of the process when their confs are checked.
    pub services: Arc<Services>,
    /// What seals secrets at rest.
    pub keyring: Arc<Keyring>,
    /// The service registry; without one its paths are answered 404.
    pub registry: Option<RegistryPart>,
    /// Certificates that renew themselves, where there are any.
    pub certificates: Option<Arc<dyn CertificateSource>>,
    /// What responders say of the certificates that are served.
    pub staples: Option<Arc<dyn StapleSource>>,
    /// What the process knows of itself, for the console.
    pub console: Option<Arc<dyn ConsoleSource>>,
    /// Who keeps ShenYu's objects, where anybody may.
    pub shenyu: Option<Arc<dyn ShenyuSource>>,
    /// Destination of audit events, if an audit is kept.
    pub audit: Option<Arc<dyn AuditSink>>,
    /// The rest.
    pub options: Options,
}

/// An Admin API, without the paths that lead to it.
pub(crate) struct Admin {
    pub(crate) parts: Parts,
    pub(crate) index: Index,
    /// The one document, in [`Mode::Standalone`].
    pub(crate) document: Option<CurrentDocument>,
    /// Who has tried wrong keys to sign in.
    pub(crate) failures: FailedLogins,
    /// Wrong keys that calls have brought.
    pub(crate) wrong_keys: WrongKeys,
    /// Who has tried to write what was refused.
    pub(crate) refused: Refused,
    /// Taken while a document is compiled to see its problems.
    pub(crate) trial: Semaphore,
    /// Taken while two measurements are compared.
    pub(crate) comparison: Semaphore,
    /// Where calls wait for their turn at an object.
    turns: Turns,
}

/// Queues of objects, by their keys.
struct Turns {
    queues: [Mutex<()>; TURNS],
    hasher: RandomState,
}

impl Admin {
    /// Makes it, which reads all objects of the store once.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn open(parts: Parts) -> Result<Self, StoreError> {
        let (catalogue, keyring) = (Arc::clone(&parts.catalogue), Arc::clone(&parts.keyring));
        let inspect =
            move |path: &str, value: &[u8]| Facts::inspect(path, value, &catalogue, &keyring);
        let prefix = format!("{}/", parts.options.key_prefix);
        let index = Index::open(Arc::clone(&parts.store), prefix, Box::new(inspect)).await?;
        let document = match &parts.options.mode {
            Mode::Store | Mode::ReadOnly(_) | Mode::Away(_) => None,
            Mode::Standalone(sink) => Some(CurrentDocument::new(Arc::clone(sink))),
        };
        Ok(Self {
            parts,
            index,
            document,
            failures: FailedLogins::default(),
            wrong_keys: WrongKeys::default(),
            refused: Refused::default(),
            trial: Semaphore::new(1),
            comparison: Semaphore::new(1),
            turns: Turns {
                queues: std::array::from_fn(|_| Mutex::default()),
                hasher: RandomState::new(),
            },
        })
    }

    /// An answer as it goes out. Its `Server` is APISIX's whatever the gateway is called elsewhere:
    /// clients of this API ask for the version.
    pub(crate) fn wire(&self, reply: Reply) -> WireResponse {
        let mut response = reply.into_wire(self.parts.services.brand);
        if let Ok(token) = HeaderValue::from_str(&self.parts.options.server_token.0) {
            response.headers_mut().insert(SERVER, token);
        }
        response
    }

    /// Who knows how the process is doing.
    ///
    /// # Errors
    /// Nobody does yet.
    pub(crate) fn console(&self) -> Result<&dyn ConsoleSource, Reply> {
        let source = self.parts.console.as_deref();
        source.ok_or_else(|| Reply::unavailable("nothing is in service yet"))
    }

    /// The key of a path: `/apisix/routes/1` of `routes/1`.
    pub(crate) fn key_of(&self, path: &str) -> String {
        format!("{}/{path}", self.parts.options.key_prefix)
    }

    /// Waits until nobody else of this process has the turn at the object of this key; first come, first served.
    pub(crate) async fn turn(&self, key: &str) -> MutexGuard<'_, ()> {
        let Turns { queues, hasher } = &self.turns;
        let queue = hasher.hash_one(key) % queues.len() as u64;
        queues[usize::try_from(queue).unwrap_or_default()].lock().await
    }

    /// The key that changes whenever something is written that names the object of this path.
    pub(crate) fn guard_key(&self, path: &str) -> String {
        self.key_of(&format!("{OWN_KEYS}guard/{path}"))
    }
}
