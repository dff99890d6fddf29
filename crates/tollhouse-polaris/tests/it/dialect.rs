//! The calls of Polaris, over gRPC, against a registry in memory. Names of tests tell what clients count
//! on; the numbers in comments are those of the acceptance cases of the protocol's reference.

mod clients;
mod config;
mod discovery;
mod governance;
mod heartbeats;
mod limiter;
mod registration;

use std::sync::Arc;
use std::sync::mpsc;

use prost::Message;
use tokio::runtime::Builder;
use tollhouse_polaris::dialect::Dialect;
use tollhouse_polaris::grpc::{Options, polaris};
use tollhouse_polaris::{Access, Account, Gate, v1};
use tollhouse_registry::{Clock, Keeper, ManualClock, Registry};
use tollhouse_store::Location;

use crate::client::{Client, Open, framed, request};
use crate::server::{Clock as TimeOfServer, Server, listener};

/// Some second of Unix time: 2023-11-14 22:13:20.
const START_MS: u64 = 1_700_000_000_000;

/// A registry and a server before it.
struct Polaris {
    server: Server,
    registry: Registry,
    clock: Arc<ManualClock>,
}

impl Polaris {
    fn start() -> Self {
        Self::start_with(Gate::Open)
    }

    /// With a gate before clients that the token `right` opens.
    fn start_with(client: Gate) -> Self {
        Self::start_at(client, TimeOfServer::Real)
    }

    fn start_at(client: Gate, time: TimeOfServer) -> Self {
        let [name, password, token] = ["polaris", "word", "right"].map(str::to_owned);
        let account = Account { name, password, token };
        let access = Access::new(Gate::Locked, client, account, "client".to_owned());
        let clock = ManualClock::at_ms(START_MS);
        let registry = keep(Arc::clone(&clock));
        let dialect = Dialect::new(registry.clone(), Arc::new(access));
        let services = move || polaris::services(dialect);
        let server = Server::start_with(services, Options::default(), listener(), time);
        Self { server, registry, clock }
    }

    async fn connect(&self) -> Caller {
        Caller(Client::connect(self.server.address).await)
    }
}

/// A registry in memory, kept by a thread for as long as there are handles.
fn keep(clock: Arc<ManualClock>) -> Registry {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let store = tollhouse_store::open(&Location::Memory).expect("memory opens");
            let options =
                tollhouse_registry::Options { clock: Clock::Manual(clock), ..Default::default() };
            let (keeper, registry) = Keeper::open(store, options).await.expect("readable");
            sender.send(registry).expect("the test waits");
            keeper.run(std::future::pending()).await;
        });
    });
    receiver.recv().expect("the keeper starts")
}

/// A client of the protocol.
struct Caller(Client);

impl Caller {
    async fn call<M: Message + Default>(&self, path: &str, message: &impl Message) -> M {
        let ended = self.0.unary(path, &message.encode_to_vec()).await;
        assert_eq!(ended.code, Some(0), "{path}: {}", ended.text);
        M::decode(&*ended.messages[0]).expect("a message")
    }

    async fn register(&self, instance: &v1::Instance) -> v1::Response {
        self.call("/v1.PolarisGRPC/RegisterInstance", instance).await
    }

    async fn deregister(&self, instance: &v1::Instance) -> v1::Response {
        self.call("/v1.PolarisGRPC/DeregisterInstance", instance).await
    }

    async fn heartbeat(&self, instance: &v1::Instance) -> v1::Response {
        self.call("/v1.PolarisGRPC/Heartbeat", instance).await
    }

    async fn open_discover(&self) -> Discovering {
        Discovering(self.0.open(request("/v1.PolarisGRPC/Discover")).await)
    }

    /// Asks one question.
    async fn discover(&self, question: &v1::DiscoverRequest) -> v1::DiscoverResponse {
        let ended = self.0.unary("/v1.PolarisGRPC/Discover", &question.encode_to_vec()).await;
        assert_eq!(ended.code, Some(0), "{}", ended.text);
        v1::DiscoverResponse::decode(&*ended.messages[0]).expect("a message")
    }

    /// The instances of `ns/svc`.
    async fn instances(&self) -> Vec<v1::Instance> {
        self.discover(&about(1, "ns", "svc")).await.instances
    }
}

/// A stream of questions.
struct Discovering(Open);

impl Discovering {
    async fn ask(&mut self, question: &v1::DiscoverRequest) -> v1::DiscoverResponse {
        self.0.say(&question.encode_to_vec());
        self.next().await
    }

    async fn next(&mut self) -> v1::DiscoverResponse {
        let message = self.0.next().await.expect("an answer");
        v1::DiscoverResponse::decode(&*message).expect("a message")
    }
}

/// A text that is given.
fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A question of a type about a service.
fn about(kind: i32, namespace: &str, name: &str) -> v1::DiscoverRequest {
    let service =
        v1::Service { name: some(name), namespace: some(namespace), ..v1::Service::default() };
    v1::DiscoverRequest { r#type: kind, service: Some(service), ..v1::DiscoverRequest::default() }
}

/// The same from a client that has a revision.
fn about_since(kind: i32, revision: &str) -> v1::DiscoverRequest {
    let mut question = about(kind, "ns", "svc");
    if let Some(service) = &mut question.service {
        service.revision = some(revision);
    }
    question
}

/// A good instance of `ns/svc`.
fn instance(host: &str, port: u32) -> v1::Instance {
    v1::Instance {
        service: some("svc"),
        namespace: some("ns"),
        host: some(host),
        port: Some(port),
        ..v1::Instance::default()
    }
}

/// Heartbeats every so many seconds.
fn ttl(seconds: u32) -> Option<v1::HealthCheck> {
    let heartbeat = v1::HeartbeatHealthCheck { ttl: Some(seconds) };
    Some(v1::HealthCheck { r#type: 1, heartbeat: Some(heartbeat) })
}

fn code(response: &v1::Response) -> u32 {
    response.code.expect("every answer has a code")
}

/// The revision in an answer.
fn revision(response: &v1::DiscoverResponse) -> String {
    let service = response.service.as_ref().expect("every answer has its service");
    service.revision.clone().unwrap_or_default()
}

/// A whole message as it travels.
fn travelling(message: &impl Message) -> bytes::Bytes {
    framed(&message.encode_to_vec())
}
