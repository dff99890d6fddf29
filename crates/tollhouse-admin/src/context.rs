//! Shared state of an Admin API: its parts, its options and its index of the store.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hyper::header::{HeaderValue, SERVER};
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use tollhouse_model::encryption::Keyring;
use tollhouse_net::failed_logins::FailedLogins;
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_store::{InService, Store};
use tollhouse_trace::Tracer;

use crate::audit::AuditSink;
use crate::certificates::source::{CertificateSource, StapleSource};
use crate::console::source::ConsoleSource;
use crate::document::CurrentDocument;
use crate::index::facts::Facts;
use crate::index::{Index, OWN_KEYS};
use crate::limits::TURNS;
use crate::options::{Mode, Options};
use crate::refused::RefusalLog;
use crate::registry::part::RegistryPart;
use crate::reply::{Reply, WireResponse};
use crate::shenyu::ShenyuSource;
use crate::sign_in::pending::UsedLogIns;
use crate::sign_in::wrong_keys::WrongKeys;

/// Dependencies of an Admin API.
pub struct Parts {
    /// Store of objects. In [`Mode::Standalone`] an in-memory store that stays empty.
    pub store: Arc<dyn Store>,
    /// Revision that the data plane serves, or number of the document in [`Mode::Standalone`]. With
    /// `Some`, writes are answered only after they are in service.
    pub in_service: Option<InService>,
    /// Plugins that are enabled in this process.
    pub catalogue: Arc<Catalogue>,
    /// Services that plugins may use when their configurations are checked.
    pub services: Arc<Services>,
    /// Keyring for secrets in the store.
    pub keyring: Arc<Keyring>,
    /// The service registry; without it, its paths are answered with 404.
    pub registry: Option<RegistryPart>,
    /// State of ACME certificates, if they are on.
    pub certificates: Option<Arc<dyn CertificateSource>>,
    /// OCSP state of the certificates in service.
    pub staples: Option<Arc<dyn StapleSource>>,
    /// Data about the process, for the console.
    pub console: Option<Arc<dyn ConsoleSource>>,
    /// ShenYu's objects, if they are on.
    pub shenyu: Option<Arc<dyn ShenyuSource>>,
    /// Destination of audit events, if an audit is kept.
    pub audit: Option<Arc<dyn AuditSink>>,
    /// Tracing of writes, if it is on.
    pub tracer: Option<Arc<Tracer>>,
    pub options: Options,
}

/// State of an Admin API; routing is in `dispatch`.
pub(crate) struct Admin {
    pub(crate) parts: Parts,
    pub(crate) index: Index,
    /// Configuration document in memory; only in [`Mode::Standalone`].
    pub(crate) document: Option<CurrentDocument>,
    /// Failed sign-ins by peer address.
    pub(crate) failures: FailedLogins,
    /// Wrong keys by peer address.
    pub(crate) wrong_keys: WrongKeys,
    /// Log-ins at the identity provider that have been completed.
    pub(crate) used_log_ins: UsedLogIns,
    /// Recently refused writes.
    pub(crate) refused: RefusalLog,
    /// Limits trial compilations of documents, which show their problems, to one at a time.
    pub(crate) trial: Semaphore,
    /// Limits comparisons of load tests to one at a time.
    pub(crate) comparison: Semaphore,
    /// Queues in which calls wait that write the same object.
    write_queues: WriteQueues,
}

/// Fixed number of queues; the hash of an object's store key selects one.
struct WriteQueues {
    queues: [Mutex<()>; TURNS],
    hasher: RandomState,
}

impl Admin {
    /// Creates the state. The first call reads all objects of the store.
    pub(crate) fn new(parts: Parts) -> Self {
        let (catalogue, keyring) = (Arc::clone(&parts.catalogue), Arc::clone(&parts.keyring));
        let inspect =
            move |path: &str, value: &[u8]| Facts::inspect(path, value, &catalogue, &keyring);
        let prefix = format!("{}/", parts.options.key_prefix);
        let index = Index::new(Arc::clone(&parts.store), prefix, Box::new(inspect));
        let document = match &parts.options.mode {
            Mode::Store | Mode::ReadOnly(_) | Mode::Away(_) => None,
            Mode::Standalone(sink) => Some(CurrentDocument::new(Arc::clone(sink))),
        };
        Self {
            parts,
            index,
            document,
            failures: FailedLogins::default(),
            wrong_keys: WrongKeys::default(),
            used_log_ins: UsedLogIns::default(),
            refused: RefusalLog::default(),
            trial: Semaphore::new(1),
            comparison: Semaphore::new(1),
            write_queues: WriteQueues {
                queues: std::array::from_fn(|_| Mutex::default()),
                hasher: RandomState::new(),
            },
        }
    }

    /// Converts a reply to an HTTP response. The `Server` header always names APISIX, because
    /// clients of this API check its version.
    pub(crate) fn wire(&self, reply: Reply) -> WireResponse {
        let mut response = reply.into_wire(self.parts.services.brand);
        if let Ok(token) = HeaderValue::from_str(&self.parts.options.server_token.0) {
            response.headers_mut().insert(SERVER, token);
        }
        response
    }

    /// Returns the source of data about the process.
    ///
    /// # Errors
    /// If there is no such source.
    pub(crate) fn console(&self) -> Result<&dyn ConsoleSource, Reply> {
        let source = self.parts.console.as_deref();
        source.ok_or_else(|| Reply::unavailable("nothing is in service yet"))
    }

    /// Returns the store key of a path: `/apisix/routes/1` for `routes/1`.
    pub(crate) fn key_of(&self, path: &str) -> String {
        format!("{}/{path}", self.parts.options.key_prefix)
    }

    /// Waits until this call is the first in the queue for writing the object with this store key.
    /// Only calls of this process are queued; keys with equal hashes share a queue.
    pub(crate) async fn write_queue(&self, key: &str) -> MutexGuard<'_, ()> {
        let WriteQueues { queues, hasher } = &self.write_queues;
        let queue = hasher.hash_one(key) % queues.len() as u64;
        queues[usize::try_from(queue).unwrap_or_default()].lock().await
    }

    /// Returns the store key of the guard of `path`, an entry that is written with each object that
    /// refers to `path`.
    pub(crate) fn guard_key(&self, path: &str) -> String {
        self.key_of(&format!("{OWN_KEYS}guard/{path}"))
    }
}
