//! How many files and connections the process may have open, and which part of it gets how many.
//!
//! Bounds that add up to what the kernel allows: then a flood of clients is refused with an answer, and
//! nobody else (operators, probes, connections to nodes) finds that nothing is left.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollhouse_config::Bootstrap;
use tollhouse_net::accept::STRANGERS_MAX;
use tollhouse_proxy::l4::PIPES_MAX;
use tollhouse_proxy::settings::Limits;
use tollhouse_proxy::worker::REFUSED_OPEN_MAX;
use tollhouse_shenyu_admin::PROBES_AT_ONCE;

use crate::settings;

/// What an unlimited process is taken to have: more than memory lets it use.
const UNLIMITED: u64 = 1 << 24;

/// Of the process itself: store and logs, the runtimes' own.
const OWN: usize = 96;

/// Of each thread that serves: the reactor's, and what it opens in passing.
const OWN_PER_THREAD: usize = 8;

/// The registry's listener for HTTP takes no more than this by itself.
const REGISTRY_HTTP_MAX: usize = 4096;

/// Connections of a registry's thread that are worth having.
const REGISTRY_GRPC_MAX: usize = 16_384;

/// The shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// What there is.
    pub limit: usize,
    /// Connections of clients and to nodes together, of one worker.
    pub per_worker: usize,
    /// Connections of clients, of one worker.
    pub clients_per_worker: usize,
    /// Connections to each of the registry's threads.
    pub registry_grpc: usize,
    /// Connections to the registry's listener for HTTP.
    pub registry_http: usize,
    /// Connections to the Admin API.
    pub admin: usize,
    /// Connections to ShenYu's admin.
    pub shenyu: usize,
    /// Connections to each of the side listeners.
    pub side: usize,
}

/// Raises the soft limit to the hard one, and says what that is.
pub fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = match raised {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files cannot be raised to the hard one");
            current
        }
    };
    usize::try_from(limit.unwrap_or(UNLIMITED).min(UNLIMITED)).unwrap_or(usize::MAX)
}

impl Descriptors {
    /// Shares `limit` out. Whatever it is, every part gets some.
    pub fn share(limit: usize, bootstrap: &Bootstrap) -> Self {
        let workers = settings::worker_count(bootstrap.workers);
        let registry_threads = settings::worker_count(bootstrap.registry.workers);
        let listen = &bootstrap.listen;
        let grpc = registry_threads * listen.registry_grpc.len();
        // Each listening socket has a second handle, kept for a successor.
        let proxied = listen.http_proxied.len() + listen.https_proxied.len();
        let http = listen.http.len() + listen.https.len() + proxied;
        let data_plane = http + listen.unix.len() + listen.stream.len();
        let sockets = 2 * workers * data_plane + grpc + listen.registry_http.len();
        // A pipe has two ends.
        let pipes = if listen.stream.is_empty() { 0 } else { 2 * PIPES_MAX * workers };
        let own = OWN + OWN_PER_THREAD * (workers + grpc) + sockets + pipes;
        let admin = (limit / 16).clamp(16, 1024);
        // Services and gateways of ShenYu's keep theirs open.
        let shenyu = if listen.shenyu.is_empty() { 0 } else { (limit / 16).clamp(16, 4096) };
        let side = (limit / 64).clamp(8, 256);
        // Loggers, caches, checks and look-ups of names.
        let background = (limit / 32).clamp(16, 1024);
        let strangers = if listen.admin.is_empty() { 0 } else { STRANGERS_MAX };
        let probes = if listen.shenyu.is_empty() { 0 } else { PROBES_AT_ONCE };
        let operators = admin + shenyu + probes + strangers + 3 * side;
        let reserved = own + operators + background + workers * REFUSED_OPEN_MAX;
        let rest = limit.saturating_sub(reserved);
        let of_registry = rest / 4;
        let registry_http =
            share_of(of_registry / 4, listen.registry_http.len(), REGISTRY_HTTP_MAX);
        let registry_grpc = share_of(of_registry / 4 * 3, grpc, REGISTRY_GRPC_MAX);
        let registry = registry_http * listen.registry_http.len() + registry_grpc * grpc;
        let per_worker = (rest.saturating_sub(registry) / workers).max(8);
        Self {
            limit,
            per_worker,
            // A quarter is always left for connections to nodes, and more while clients are fewer.
            clients_per_worker: per_worker / 4 * 3,
            registry_grpc,
            registry_http,
            admin,
            shenyu,
            side,
        }
    }
}

impl Descriptors {
    /// Lowers the data plane's limits to its share; the clients of a worker where they are fewer than
    /// configured.
    pub fn lower(&self, limits: &mut Limits) -> Option<usize> {
        let configured = limits.connections_per_worker;
        limits.connections_per_worker = configured.min(self.clients_per_worker);
        limits.descriptors_per_worker = self.per_worker;
        (configured > self.clients_per_worker).then_some(self.clients_per_worker)
    }
}

/// The part of each of `count` listeners.
fn share_of(all: usize, count: usize, max: usize) -> usize {
    all.checked_div(count).map_or(0, |each| each.clamp(4, max))
}

#[cfg(test)]
mod tests {
    use tollhouse_config::bootstrap::Workers;

    use super::*;

    #[test]
    fn shares_add_up_to_the_limit_and_everybody_has_one() {
        for limit in [1024, 4096, 20_000, 1 << 20] {
            for (workers, has_registry, has_shenyu) in
                [(1, true, false), (2, false, true), (16, true, true)]
            {
                let mut bootstrap =
                    Bootstrap { workers: Workers::Count(workers), ..Bootstrap::default() };
                bootstrap.registry.workers = Workers::Count(workers);
                if !has_registry {
                    bootstrap.listen.registry_grpc.clear();
                    bootstrap.listen.registry_http.clear();
                }
                if has_shenyu {
                    bootstrap.listen.shenyu = vec![([127, 0, 0, 1], 9095).into()];
                }
                let shares = Descriptors::share(limit, &bootstrap);
                let workers = usize::from(workers);
                let registry = shares.registry_grpc * workers + shares.registry_http;
                let operators = shares.admin + shares.shenyu + 3 * shares.side;
                let sum = operators + workers * shares.per_worker + registry;
                assert!(sum < limit, "{limit}: {shares:?}");
                assert!(shares.clients_per_worker < shares.per_worker, "{limit}: {shares:?}");
                assert_eq!(has_registry, registry > 0, "{limit}: {shares:?}");
                assert_eq!(has_shenyu, shares.shenyu > 0, "{limit}: {shares:?}");
                assert!(sum > limit / 4 || limit < 2048, "much is left over: {limit}: {shares:?}");
            }
        }
    }
}
