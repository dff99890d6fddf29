//! Registry of a running gateway: its store, its main task, and its listeners. Each runs on its own
//! threads, so that large answers and slow clients do not delay registrations.
//!
//! The crate `tollhouse-registry` implements the registry; `tollhouse-polaris` implements the
//! client protocol.

mod beats;
pub mod database;
pub mod dialect;
mod limiter;
pub mod metrics;
pub(crate) mod observers;
pub mod offline;
mod sealing;
pub mod secrets;
mod sockets;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context;
use tokio::sync::watch;
use tollhouse_admin::{ChangeQueue, RegistryListeners, RegistryPart};
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::Secret;
use tollhouse_net::listener_tls::ListenerTls;
use tollhouse_net::local_name::HostNames;
use tollhouse_net::slots::Slots;
use tollhouse_polaris::dialect::Dialect;
use tollhouse_polaris::http::{self, Capacity, HttpApi, MetricsPage};
use tollhouse_polaris::{Access, Account, Gate, Locations, NetworkLocation, grpc};
use tollhouse_registry::{CleanUp, ClusterOptions, Keeper, Options, Registry};
use tollhouse_store::limits::RESERVE_BYTES;
use tollhouse_store::{HistoryExtent, Location, Store, Watch};
use tollhouse_trace::Tracer;
use tollhouse_web::{Limits, Listener, until_stopped};

use crate::feed::open_store;
use crate::introspection::listeners;
use crate::process::handover::Predecessor;
use crate::process_log::ProcessLogLevel;
use crate::registry::database::{ClusterDatabase, SharedDatabase};
use crate::registry::dialect::{AuditedReads, NotedChanges, PolarisDialect};
use crate::registry::metrics::{LastMinute, Sources};
use crate::registry::observers::CallObservers;
pub use crate::registry::sealing::keyring_path;
use crate::registry::secrets::RegistrySecrets;
pub use crate::registry::sockets::{RegistrySockets, Takeover};
use crate::settings;
use crate::settings::descriptors::Descriptors;

/// Folder of the registry's store in `data_dir`. It is separate from the configuration store, so
/// that a flood of registrations neither delays nor displaces configuration changes.
pub const FOLDER: &str = "registry";

pub struct RunningRegistry {
    /// Handle to the registry's state, for other parts.
    pub handle: Registry,
    /// Implementation of client calls, with counters.
    pub dialect: Dialect,
    pub connections: Arc<grpc::Counts>,
    /// Open gRPC connections.
    open_connections: grpc::Connections,
    /// gRPC addresses, in configured order.
    pub grpc: Vec<SocketAddr>,
    /// HTTP address, if there is one.
    pub http: Option<SocketAddr>,
    /// TLS settings of both listeners, if TLS is on.
    tls: Option<ListenerTls>,
    part: RegistryPart,
    last_minute: Arc<LastMinute>,
    stop_serving: watch::Sender<bool>,
    stop_keeping: watch::Sender<bool>,
    /// Watch on the store; ends when the store's writer thread ends.
    writes: Watch,
    servers: Vec<JoinHandle<()>>,
    keeper: JoinHandle<()>,
    /// Duplicates of the listening sockets, for a successor.
    sockets: RegistrySockets,
    /// Tracing of gRPC calls, if it is on.
    tracer: Option<Arc<Tracer>>,
}

impl std::fmt::Debug for RunningRegistry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RunningRegistry")
            .field("grpc", &self.grpc)
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

/// Whether the bootstrap file configures the registry's addresses. An explicitly configured
/// registry must start; for a default one the gateway starts without it.
pub fn is_asked_for(bootstrap: &Bootstrap) -> bool {
    let (listen, usual) = (&bootstrap.listen, tollhouse_config::bootstrap::Listen::default());
    is_wanted(bootstrap)
        && (listen.registry_grpc != usual.registry_grpc
            || listen.registry_http != usual.registry_http)
}

/// Whether the registry is in a database shared with other nodes. The gateway then starts even if
/// the database is unreachable.
pub fn is_shared(bootstrap: &Bootstrap) -> bool {
    let store = &bootstrap.registry.store;
    store.mysql.is_some() || store.postgresql.is_some()
}

/// Whether at least one registry listener is on.
pub fn is_wanted(bootstrap: &Bootstrap) -> bool {
    !bootstrap.listen.registry_grpc.is_empty() || !bootstrap.listen.registry_http.is_empty()
}

/// Starts the registry; returns `None` if both listeners are off.
///
/// # Errors
/// If an address is in use, or the store cannot be opened or read.
pub async fn start(
    bootstrap: &Bootstrap,
    descriptors: &Descriptors,
    database: &SharedDatabase,
    takeover: Takeover,
    observers: CallObservers,
) -> anyhow::Result<Option<RunningRegistry>> {
    let Takeover { predecessor, sockets } = takeover;
    let CallObservers { tracer, audit } = observers;
    if !is_wanted(bootstrap) {
        return Ok(None);
    }
    let secrets = RegistrySecrets::open(bootstrap)?;
    let access = Arc::new(access(bootstrap, &secrets));
    let (store, cluster) = open_either(bootstrap, database, predecessor).await?;
    // Read before the keeper starts, so that the watch misses none of its writes.
    let newest = store.revision().await.context("the registry's store")?;
    let writes = store.watch("", newest);
    let options = Options {
        mass_expiry_threshold: bootstrap.registry.mass_expiry_threshold,
        memory_max: bootstrap.registry.memory_max,
        clean_up: CleanUp {
            unhealthy_after: bootstrap.registry.delete_unhealthy_after,
            empty_services_after: bootstrap.registry.delete_empty_services_after,
        },
        cluster,
        ..Options::default()
    };
    let (keeper, handle) =
        Keeper::open(store, options).await.context("the registry's store cannot be read")?;
    let (stop_keeping, stopped) = watch::channel(false);
    let keeper = thread("registry", async move || keeper.run(until_stopped(stopped)).await)?;
    let (stop_serving, _) = watch::channel(false);
    let capacity = Capacity::default();
    let changes = ChangeQueue::default();
    let mut dialect =
        Dialect::new(handle.clone(), Arc::clone(&access)).with_locations(locations(bootstrap));
    if bootstrap.registry.force_publication {
        dialect = dialect.with_forced_publication();
    }
    // Only the Admin API takes rows out of the queue.
    if !bootstrap.listen.admin.is_empty() {
        dialect = dialect.with_changes(Arc::new(NotedChanges(changes.clone())));
    }
    if let Some(audit) = audit {
        dialect = dialect.with_token_reads(Arc::new(AuditedReads(audit)));
    }
    let of_admin = Arc::new(PolarisDialect { api: api_of_admin(&dialect, &access, &capacity) });
    let mut running = RunningRegistry {
        dialect,
        part: RegistryPart::new(handle.clone(), of_admin).noting(changes),
        handle,
        connections: Arc::default(),
        open_connections: grpc::Connections::default(),
        last_minute: Arc::default(),
        grpc: Vec::new(),
        http: None,
        tls: listeners::tls("registry.tls", &bootstrap.registry.tls)?,
        stop_serving,
        stop_keeping,
        writes,
        servers: Vec::new(),
        keeper,
        sockets,
        tracer,
    };
    running.listen(bootstrap, &access, descriptors, &capacity)?;
    running.announce_limiter(bootstrap)?;
    Ok(Some(running))
}

/// Returns the calls of Polaris with their state, as Markdown, by the routers of a registry in memory.
///
/// # Errors
/// If a registry in memory cannot be opened.
pub async fn polaris_calls() -> anyhow::Result<String> {
    let store = tollhouse_store::open(&Location::Memory)?;
    let (_keeper, handle) = Keeper::open(store, Options::default()).await?;
    let account = Account { name: String::new(), password: String::new(), token: String::new() };
    let access = Access::new(Gate::Locked, Gate::Locked, account, String::new());
    let services = grpc::polaris::services(Dialect::new(handle, Arc::new(access)));
    Ok(tollhouse_polaris::reference::calls_markdown(&services))
}

/// Opens the store: in the data folder, or shared with other nodes, then with its cluster options.
async fn open_either(
    bootstrap: &Bootstrap,
    database: &SharedDatabase,
    predecessor: Predecessor,
) -> anyhow::Result<(Arc<dyn Store>, Option<ClusterOptions>)> {
    if let Some(shared) = database.open(bootstrap).await.context("the registry's store")? {
        let ClusterDatabase { store, proof } = shared;
        let cluster = ClusterOptions {
            name: database.node().into(),
            has_predecessor: predecessor == Predecessor::Leaving,
            channel: beats::open(&bootstrap.registry.store)?,
            proof: Some(proof),
        };
        return Ok((sealing::seal(store, bootstrap).await?, Some(cluster)));
    }
    let location = Location::Directory(bootstrap.data_dir.join(FOLDER));
    // No history, because no reader watches for changes: the store is read once at the next start.
    let options = tollhouse_store::Options {
        history: HistoryExtent::Nothing,
        reserve_bytes: RESERVE_BYTES,
        ..Default::default()
    };
    let store =
        open_store(&location, &options, predecessor).await.context("the registry's store")?;
    Ok((sealing::seal(store, bootstrap).await?, None))
}

impl RunningRegistry {
    fn listen(
        &mut self,
        bootstrap: &Bootstrap,
        access: &Arc<Access>,
        descriptors: &Descriptors,
        capacity: &Capacity,
    ) -> anyhow::Result<()> {
        let workers = settings::worker_count(bootstrap.registry.workers);
        let mut inherited = std::mem::take(&mut self.sockets);
        let addresses = &bootstrap.listen.registry_grpc;
        let mut of_workers: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
        for address in addresses {
            let listeners = inherited
                .listen(*address, workers)
                .context("listen.registry_grpc; give \"\" to turn it off")?;
            self.grpc.push(listeners.address);
            self.sockets.add(&listeners.sockets)?;
            for (number, socket) in listeners.sockets.into_iter().enumerate() {
                of_workers[number % workers].push(socket);
            }
        }
        // One count for all threads, because the kernel does not distribute connections evenly.
        let connections = descriptors.registry_grpc * workers * addresses.len();
        let slots = Slots::new("registry gRPC", connections);
        for (number, sockets) in of_workers.into_iter().enumerate() {
            if !sockets.is_empty() {
                self.serve_grpc(number, sockets, slots.clone())?;
            }
        }
        for address in &bootstrap.listen.registry_http {
            let listeners = inherited
                .listen(*address, 1)
                .context("listen.registry_http; give \"\" to turn it off")?;
            self.http.get_or_insert(listeners.address);
            self.sockets.add(&listeners.sockets)?;
            for socket in listeners.sockets {
                let metrics = self.polaris_page();
                let dialect = self.dialect.for_thread();
                let api = HttpApi::new(dialect, Arc::clone(access), metrics, capacity.clone());
                let api = api
                    .with_hosts(HostNames::new(&bootstrap.listen.hosts))
                    .with_connections(self.open_connections.clone())
                    .with_log(Arc::new(ProcessLogLevel));
                self.serve_http(socket, api, http::limits(descriptors.registry_http))?;
            }
        }
        Ok(())
    }

    fn serve_grpc(
        &mut self,
        number: usize,
        sockets: Vec<TcpListener>,
        slots: Slots,
    ) -> anyhow::Result<()> {
        let dialect = self.dialect.for_thread();
        let counts = Arc::clone(&self.connections);
        let stop = self.stop_serving.subscribe();
        let (tls, tracer) = (self.tls.clone(), self.tracer.clone());
        let connections = self.open_connections.clone();
        let serve = async move || {
            let usual = grpc::Options::default();
            let options = grpc::Options { counts, connections, slots, tls, tracer, ..usual };
            let services = grpc::polaris::services(dialect);
            if let Err(error) = grpc::serve(sockets, services, options, stop).await {
                tracing::error!(%error, "a thread of the registry cannot listen");
            }
        };
        self.servers.push(thread(&format!("registry-{number}"), serve)?);
        Ok(())
    }

    /// Registers the node as a server of global rate limits, if its address is configured.
    fn announce_limiter(&mut self, bootstrap: &Bootstrap) -> anyhow::Result<()> {
        let Some(address) = bootstrap.registry.limiter else { return Ok(()) };
        let (handle, stop) = (self.handle.clone(), self.stop_serving.subscribe());
        let announce = async move || limiter::announce(handle, address, stop).await;
        self.servers.push(thread("registry-limiter", announce)?);
        Ok(())
    }

    fn polaris_page(&self) -> MetricsPage {
        let sources = self.sources();
        Arc::new(move || sources.polaris_page())
    }

    fn serve_http(
        &mut self,
        socket: TcpListener,
        api: HttpApi,
        limits: Limits,
    ) -> anyhow::Result<()> {
        let stop = self.stop_serving.subscribe();
        socket.set_nonblocking(true)?;
        let tls = self.tls.clone();
        let serve = async move || {
            let socket = match tokio::net::TcpListener::from_std(socket) {
                Ok(socket) => socket,
                Err(error) => return tracing::error!(%error, "the registry cannot listen"),
            };
            let listener = Listener { socket, tls, limits };
            tollhouse_web::serve(listener, http::router(api), until_stopped(stop)).await;
        };
        self.servers.push(thread("registry-http", serve)?);
        Ok(())
    }

    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the registry's access for the Admin API.
    pub fn admin_part(&self) -> RegistryPart {
        let listeners =
            RegistryListeners { grpc: self.grpc.clone(), http: self.http.into_iter().collect() };
        self.part.clone().listening_on(listeners)
    }

    pub fn sources(&self) -> Sources {
        Sources {
            registry: self.handle.clone(),
            dialect: self.dialect.clone(),
            connections: Arc::clone(&self.connections),
            part: self.part.clone(),
            last_minute: Arc::clone(&self.last_minute),
        }
    }

    /// Returns the reason why the registry is dead, if one of its threads has ended. The rest must
    /// then be stopped and restarted.
    pub fn death(&self) -> Option<String> {
        // Checked first, because a dead keeper closes the store and so ends its writer thread.
        if self.keeper.is_finished() || self.handle.serving().has_changed().is_err() {
            return Some("the registry's keeper has ended".to_owned());
        }
        if self.writes.is_over() {
            return Some("the thread that writes the registry's store has ended".to_owned());
        }
        let ended = self.servers.iter().find(|thread| thread.is_finished())?;
        Some(format!("the thread {} has ended", ended.thread().name().unwrap_or_default()))
    }

    /// Ends the thread that changes the registry (its keeper), as if it had died.
    #[cfg(test)]
    pub(crate) fn kill_keeper(&self) {
        let _ = self.stop_keeping.send(true);
        while !self.keeper.is_finished() {
            std::thread::yield_now();
        }
    }

    /// Takes the listening sockets for a successor. New connections then wait in the backlogs until
    /// it accepts them.
    pub fn take_sockets(&mut self) -> RegistrySockets {
        std::mem::take(&mut self.sockets)
    }

    /// Completes pending calls, then closes the store.
    pub async fn stop(self) {
        // Closed first, so that clients are refused rather than queued.
        drop(self.sockets);
        // Fails only if no server thread is left.
        let _ = self.stop_serving.send(true);
        let ended = tokio::task::spawn_blocking(move || {
            self.servers.into_iter().for_each(join);
            let _ = self.stop_keeping.send(true);
            join(self.keeper);
        });
        if ended.await.is_err() {
            tracing::error!("the registry ended with a panic");
        }
    }
}

/// Returns the locations of hosts from the bootstrap file.
fn locations(bootstrap: &Bootstrap) -> Locations {
    let networks = bootstrap.registry.locations.iter().map(|it| NetworkLocation {
        network: it.network,
        location: tollhouse_registry::Location {
            region: it.region.as_str().into(),
            zone: it.zone.as_str().into(),
            campus: it.campus.as_str().into(),
        },
    });
    Locations::new(networks.collect())
}

/// Returns the HTTP API for callers of the Admin API, who need rights whatever the gates of the
/// registry's listeners are.
fn api_of_admin(dialect: &Dialect, access: &Access, capacity: &Capacity) -> axum::Router {
    let access = Arc::new(access.locked());
    let dialect = dialect.clone().with_access(Arc::clone(&access));
    let metrics: MetricsPage = Arc::new(String::new);
    http::router(HttpApi::new(dialect, access, metrics, capacity.clone()))
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the registry ended with a panic");
    }
}

/// Starts a thread with its own runtime that runs one future.
fn thread<F: Future<Output = ()>>(
    name: &str,
    run: impl FnOnce() -> F + Send + 'static,
) -> anyhow::Result<JoinHandle<()>> {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default())
    };
    let started =
        std::thread::Builder::new().name(name.to_owned()).spawn(move || match runtime() {
            Ok(runtime) => runtime.block_on(run()),
            Err(error) => tracing::error!(%error, "a runtime of the registry cannot be started"),
        });
    started.with_context(|| format!("the thread {name} cannot be started"))
}

/// Returns the access rules for callers from the bootstrap file.
fn access(bootstrap: &Bootstrap, secrets: &RegistrySecrets) -> Access {
    let settings = &bootstrap.registry;
    let gate = |is_locked| match (is_locked, settings.auth_rehearsal) {
        (true, _) => Gate::Locked,
        (false, true) => Gate::Rehearsed,
        (false, false) => Gate::Open,
    };
    let text = |secret: &Secret| secret.expose().to_owned();
    let account = Account {
        name: settings.user.clone(),
        password: text(&secrets.password),
        token: text(&secrets.token),
    };
    let (console, client) = (gate(settings.console_auth), gate(settings.client_auth));
    Access::new(console, client, account, text(&secrets.client_token))
}

#[cfg(test)]
mod tests {
    use tollhouse_config::bootstrap::Workers;
    use tollhouse_registry::{Command, Refusal};
    use tollhouse_testkit::Database;

    use super::*;

    /// A registry on free ports, with one thread for gRPC.
    async fn started(folder: &std::path::Path) -> RunningRegistry {
        let mut bootstrap = Bootstrap { data_dir: folder.to_owned(), ..Bootstrap::default() };
        bootstrap.registry.workers = Workers::Count(1);
        let any_port = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        bootstrap.listen.registry_grpc = any_port.clone();
        bootstrap.listen.registry_http = any_port;
        let descriptors = Descriptors::share(1_024, &bootstrap);
        let database = SharedDatabase::named("test");
        let observers = CallObservers::default();
        let running = start(&bootstrap, &descriptors, &database, Takeover::none(), observers).await;
        running.expect("it starts").expect("it is asked for")
    }

    async fn death(running: &RunningRegistry) -> String {
        loop {
            if let Some(death) = running.death() {
                return death;
            }
            // The thread ends by itself; the test's own limit of time bounds the wait.
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn the_death_of_each_part_is_named_and_what_is_left_can_be_stopped() {
        for part in ["keeper", "listeners", "writer"] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut running = started(folder.path()).await;
            assert_eq!(running.death(), None);
            let mut serving = running.handle.serving();
            let expected: &[&str] = match part {
                "keeper" => {
                    running.stop_keeping.send_replace(true);
                    let _ = serving.wait_for(|is_serving| !is_serving).await;
                    assert!(serving.has_changed().is_err(), "nobody says that it serves");
                    let refused = running.handle.submit(Command::Deregister("a".into())).await;
                    assert_eq!(refused.err(), Some(Refusal::Closed));
                    &["the registry's keeper has ended"]
                }
                "listeners" => {
                    running.stop_serving.send_replace(true);
                    // Either thread may end first.
                    &["the thread registry-0 has ended", "the thread registry-http has ended"]
                }
                _ => {
                    let closed = tollhouse_store::open(&Location::Memory).expect("memory opens");
                    let revision = closed.revision().await.expect("readable");
                    running.writes = closed.watch("", revision);
                    drop(closed);
                    &["the thread that writes the registry's store has ended"]
                }
            };
            let death = death(&running).await;
            assert!(expected.contains(&&*death), "{part}: {death}");
            running.stop().await;
            // The store is released completely: the next registry opens it at once.
            started(folder.path()).await.stop().await;
        }
    }

    /// A node of a registry in a database.
    struct Node {
        bootstrap: Bootstrap,
        database: SharedDatabase,
        _folder: tempfile::TempDir,
    }

    impl Node {
        fn new(name: &str, scheme: &str, database: &Database) -> Self {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut bootstrap =
                Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() };
            bootstrap.registry.workers = Workers::Count(1);
            let any_port = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
            bootstrap.listen.registry_grpc = any_port.clone();
            bootstrap.listen.registry_http = any_port;
            let url = format!("{scheme}://tollhouse@{}/tollhouse", database.address());
            let store = &mut bootstrap.registry.store;
            let key = if scheme == "mysql" { &mut store.mysql } else { &mut store.postgresql };
            *key = Some(Secret::new(url));
            store.tls = false;
            Self { bootstrap, database: SharedDatabase::named(name), _folder: folder }
        }

        async fn start(&self) -> anyhow::Result<RunningRegistry> {
            let descriptors = Descriptors::share(1_024, &self.bootstrap);
            let running = start(
                &self.bootstrap,
                &descriptors,
                &self.database,
                Takeover::none(),
                CallObservers::default(),
            )
            .await?;
            Ok(running.expect("it is asked for"))
        }
    }

    async fn create(running: &RunningRegistry, name: &str) -> Result<(), Refusal> {
        let create = Command::CreateNamespace(name.into(), Default::default());
        running.handle.submit(create).await.map(|_| ())
    }

    /// Asserts which namespaces a node has; waits for the expected ones.
    async fn has(running: &RunningRegistry, names: [(&str, bool); 3]) {
        let mut versions = running.handle.subscribe();
        let is_there = |name: &str| running.handle.state_full().namespace(name).is_some();
        while names.iter().any(|(name, expected)| *expected && !is_there(name)) {
            versions.changed().await.expect("its keeper works");
        }
        assert!(names.iter().all(|(name, expected)| is_there(name) == *expected));
    }

    #[tokio::test]
    async fn several_nodes_serve_at_once_and_have_all_that_was_acknowledged() {
        let databases = [("mysql", Database::mariadb()), ("postgresql", Database::postgres())];
        for (scheme, database) in databases {
            let Some(mut database) = database else { continue };
            let [a, b] = ["a", "b"].map(|name| Node::new(name, scheme, &database));
            let first = a.start().await.expect("it is there");
            create(&first, "one").await.expect("it is kept");
            let second = b.start().await.expect("both may serve");
            has(&second, [("one", true), ("two", false), ("three", false)]).await;

            database.kill();
            let refused = create(&first, "two").await;
            assert!(matches!(refused, Err(Refusal::Store(_))), "{refused:?}");
            has(&first, [("one", true), ("two", false), ("three", false)]).await;
            database.run();
            // Each attempt waits for the database.
            while create(&second, "three").await.is_err() {}
            has(&first, [("one", true), ("two", false), ("three", true)]).await;
            assert_eq!((first.death(), second.death()), (None, None), "{scheme}");

            first.stop().await;
            create(&second, "four").await.expect("it is kept");
            has(&second, [("one", true), ("two", false), ("four", true)]).await;
            second.stop().await;
        }
    }

    #[test]
    fn a_registry_is_asked_for_where_its_addresses_are_named() {
        let mut bootstrap = Bootstrap::default();
        assert!(is_wanted(&bootstrap) && !is_asked_for(&bootstrap));
        bootstrap.listen.registry_http = Vec::new();
        assert!(is_asked_for(&bootstrap));
        bootstrap.listen.registry_grpc = Vec::new();
        assert!(!is_wanted(&bootstrap) && !is_asked_for(&bootstrap));
    }
}
