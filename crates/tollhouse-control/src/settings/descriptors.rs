//! Limit of open files and connections, and its division among the parts of the process.
//!
//! The shares add up to the kernel's limit. A flood of clients is therefore refused with an answer,
//! and leaves descriptors for operators, probes and upstream connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollhouse_config::Bootstrap;
use tollhouse_proxy::l4::PIPES_MAX;
use tollhouse_proxy::settings::Limits;
use tollhouse_proxy::worker::REFUSED_OPEN_MAX;
use tollhouse_shenyu_admin::PROBES_AT_ONCE;
use tollhouse_web::STRANGERS_MAX;

use crate::settings;

/// Limit assumed for an unlimited process: more than its memory could use.
const UNLIMITED: u64 = 1 << 24;

/// Descriptors of the process itself: store, logs and runtimes.
const OWN: usize = 96;

/// Descriptors per serving thread: its reactor and short-lived files.
const OWN_PER_THREAD: usize = 8;

/// Limit of connections to a listener of ShenYu's admin, whose clients keep them open.
const SHENYU_MAX: usize = 4096;

/// Limit of connections to a registry HTTP listener.
const REGISTRY_HTTP_MAX: usize = 4096;

/// Limit of connections per registry thread that is worth reserving for.
const REGISTRY_GRPC_MAX: usize = 16_384;

/// Descriptors for each part of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Maximum number of open files of the process.
    pub limit: usize,
    /// Connections per worker, to clients and upstream nodes together.
    pub per_worker: usize,
    /// Number of client connections per worker.
    pub clients_per_worker: usize,
    /// Connections per gRPC thread of the registry.
    pub registry_grpc: usize,
    /// Connections per HTTP listener of the registry.
    pub registry_http: usize,
    pub admin: usize,
    /// Connections per listener of ShenYu's admin, gateways that follow included.
    pub shenyu: usize,
    /// Number of connections per side listener (control, metrics, status).
    pub side: usize,
}

/// Raises the soft limit of open files to the hard limit, and returns it.
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
    /// Divides `limit`. Every part gets a minimum, however small the limit is.
    pub fn share(limit: usize, bootstrap: &Bootstrap) -> Self {
        let workers = settings::worker_count(bootstrap.workers);
        let registry_threads = settings::worker_count(bootstrap.registry.workers);
        let listen = &bootstrap.listen;
        let grpc = registry_threads * listen.registry_grpc.len();
        // Each listening socket has a duplicate for a successor.
        let proxied = listen.http_proxied.len() + listen.https_proxied.len();
        let http = listen.http.len() + listen.https.len() + proxied;
        let data_plane = http + listen.unix.len() + listen.stream.len();
        let sockets = 2 * workers * data_plane + grpc + listen.registry_http.len();
        // A pipe has two descriptors.
        let pipes = if listen.stream.is_empty() { 0 } else { 2 * PIPES_MAX * workers };
        let own = OWN + OWN_PER_THREAD * (workers + grpc) + sockets + pipes;
        let admin = (limit / 16).clamp(16, 1024);
        let shenyu = share_of((limit / 16).max(16), listen.shenyu.len(), SHENYU_MAX);
        let side = (limit / 64).clamp(8, 256);
        // Loggers, caches, health checks and DNS.
        let background = (limit / 32).clamp(16, 1024);
        let strangers = if listen.admin.is_empty() { 0 } else { STRANGERS_MAX };
        let probes = if listen.shenyu.is_empty() { 0 } else { PROBES_AT_ONCE };
        let operators = admin + shenyu * listen.shenyu.len() + probes + strangers + 3 * side;
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
            // At least a quarter is left for upstream connections.
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
    /// Lowers the data plane's limits to its share. Returns the clients per worker if fewer than
    /// configured.
    pub fn lower(&self, limits: &mut Limits) -> Option<usize> {
        let configured = limits.connections_per_worker;
        limits.connections_per_worker = configured.min(self.clients_per_worker);
        limits.descriptors_per_worker = self.per_worker;
        (configured > self.clients_per_worker).then_some(self.clients_per_worker)
    }
}

/// Returns the share of each of `count` listeners.
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
                    let address = |port| ([127, 0, 0, 1], port).into();
                    bootstrap.listen.shenyu = vec![address(9095), address(9096)];
                }
                let shares = Descriptors::share(limit, &bootstrap);
                let workers = usize::from(workers);
                let grpc = workers * bootstrap.listen.registry_grpc.len();
                let registry = shares.registry_grpc * grpc + shares.registry_http;
                let shenyu = shares.shenyu * bootstrap.listen.shenyu.len();
                let operators = shares.admin + shenyu + 3 * shares.side;
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
