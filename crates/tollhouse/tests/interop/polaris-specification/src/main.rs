//! The calls of a Polaris client, made through the stubs that Polaris publishes for Rust: messages and
//! method paths are theirs, so a wrong field number or a wrong wire type shows here.
//!
//! Each step prints a line; the first that is not answered as clients rely on ends the program with the
//! reason and exit code 1.

use std::error::Error;
use std::time::Duration;

use polaris_specification::v1::discover_request::DiscoverRequestType as Asks;
use polaris_specification::v1::health_check::HealthCheckType;
use polaris_specification::v1::polaris_grpc_client::PolarisGrpcClient;
use polaris_specification::v1::polaris_heartbeat_grpc_client::PolarisHeartbeatGrpcClient;
use polaris_specification::v1::polaris_service_contract_grpc_client::PolarisServiceContractGrpcClient;
use polaris_specification::v1::{
    Client, DelHeartbeatsRequest, DiscoverRequest, DiscoverResponse, GetHeartbeatsRequest,
    HealthCheck, HeartbeatHealthCheck, HeartbeatsRequest, Instance, InstanceHeartbeat, Location,
    Response, Service, ServiceContract,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Streaming};

type Outcome = Result<(), Box<dyn Error>>;

const DONE: u32 = 200_000;
const UNCHANGED: u32 = 200_001;
const EMPTY: u32 = 400_002;
const UNKNOWN_TYPE: u32 = 400_004;
const NOT_FOUND: u32 = 400_202;

const NAMESPACE: &str = "default";
const SERVICE: &str = "interop-specification";
const HOST: &str = "127.0.0.1";
/// Everything answers in milliseconds; what does not is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// Every type that the published enumeration has, apart from the unknown one and from that of clusters,
/// which nobody ever asked for.
const TYPES: [Asks; 12] = [
    Asks::Instance,
    Asks::Routing,
    Asks::RateLimit,
    Asks::CircuitBreaker,
    Asks::Services,
    Asks::Namespaces,
    Asks::FaultDetector,
    Asks::Lane,
    Asks::CustomRouteRule,
    Asks::NearbyRouteRule,
    Asks::Lossless,
    Asks::BlockAllowRule,
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let address = std::env::args().nth(1).ok_or("usage: polaris-specification-client HOST:PORT")?;
    let channel =
        Channel::from_shared(format!("http://{address}"))?.timeout(PATIENCE).connect().await?;
    let mut peer = Peer {
        naming: PolarisGrpcClient::new(channel.clone()),
        heartbeats: PolarisHeartbeatGrpcClient::new(channel.clone()),
        contracts: PolarisServiceContractGrpcClient::new(channel),
    };
    peer.report().await.map_err(at("ReportClient"))?;
    let id = peer.register().await.map_err(at("RegisterInstance"))?;
    peer.beat(&id).await.map_err(at("Heartbeat"))?;
    peer.discover(&id).await.map_err(at("Discover"))?;
    peer.ask_every_type().await.map_err(at("Discover of every type"))?;
    peer.batch(&id).await.map_err(at("PolarisHeartbeatGRPC"))?;
    peer.contract().await.map_err(at("PolarisServiceContractGRPC"))?;
    peer.deregister(&id).await.map_err(at("DeregisterInstance"))?;
    Ok(())
}

/// Prints the step that is done, or names it in its error.
fn at(step: &'static str) -> impl Fn(Box<dyn Error>) -> Box<dyn Error> {
    move |error| format!("{step}: {error}").into()
}

fn done(step: &str) {
    println!("ok: {step}");
}

struct Peer {
    naming: PolarisGrpcClient<Channel>,
    heartbeats: PolarisHeartbeatGrpcClient<Channel>,
    contracts: PolarisServiceContractGrpcClient<Channel>,
}

impl Peer {
    async fn report(&mut self) -> Outcome {
        let known =
            Client { id: Some("interop".into()), host: Some(HOST.into()), ..Client::default() };
        for client in [known.clone(), Client { id: None, ..known }, Client::default()] {
            let answer = self.naming.report_client(client.clone()).await?.into_inner();
            check_code(&answer, DONE)?;
            let echoed = answer.client.ok_or("the client is not in the answer")?;
            ensure(echoed.host == client.host, "the client comes back", &echoed)?;
        }
        done("ReportClient, with an id, without, and empty");
        Ok(())
    }

    /// Registers with everything set that the published message has.
    async fn register(&mut self) -> Result<String, Box<dyn Error>> {
        let instance = Instance {
            location: Some(Location {
                region: Some("region".into()),
                zone: Some("zone".into()),
                campus: Some("campus".into()),
            }),
            protocol: Some("grpc".into()),
            version: Some("1.2.3".into()),
            priority: Some(3),
            weight: Some(70),
            healthy: Some(true),
            isolate: Some(false),
            logic_set: Some("set".into()),
            metadata: [("key".to_owned(), "value".to_owned())].into(),
            enable_health_check: Some(true),
            health_check: Some(HealthCheck {
                r#type: HealthCheckType::Heartbeat.into(),
                heartbeat: Some(HeartbeatHealthCheck { ttl: Some(5) }),
            }),
            ..where_it_is()
        };
        let answer = self.naming.register_instance(instance).await?.into_inner();
        check_code(&answer, DONE)?;
        let id = answer.instance.and_then(|instance| instance.id).ok_or("no id in the answer")?;
        ensure(id.len() == 40, "the computed id has 40 digits", &id)?;
        let again = self.naming.register_instance(Instance::default()).await?.into_inner();
        ensure(code(&again) >= 400_000, "an empty registration is refused", &again)?;
        done("RegisterInstance");
        Ok(id)
    }

    async fn beat(&mut self, id: &str) -> Outcome {
        let by_id = Instance { id: Some(id.into()), ..Instance::default() };
        for instance in [by_id, where_it_is()] {
            let answer = self.naming.heartbeat(instance.clone()).await?.into_inner();
            check_code(&answer, DONE)?;
            let echoed = answer.instance.ok_or("the instance is not in the answer")?;
            ensure(echoed.host == instance.host, "the request comes back", &echoed)?;
        }
        done("Heartbeat, by id and by place");
        Ok(())
    }

    /// Three questions at once on one stream: answered in order, the second time by its revision alone.
    async fn discover(&mut self, id: &str) -> Outcome {
        let mut stream = self.open().await?;
        let unknown = question(Asks::Instance, "nobody");
        for asked in [question(Asks::Instance, SERVICE), unknown, question(Asks::Services, "")] {
            stream.send(asked).await?;
        }
        let first = stream.next().await?;
        check_full(&first, id)?;
        let second = stream.next().await?;
        ensure(second.code == Some(NOT_FOUND), "an unknown service", &second)?;
        ensure(name_of(&second) == Some("nobody"), "it is named", &second)?;
        let third = stream.next().await?;
        let is_listed = |service: &Service| service.name.as_deref() == Some(SERVICE);
        ensure(third.services.iter().any(is_listed), "the service is listed", &third)?;
        let mut again = question(Asks::Instance, SERVICE);
        let revision = first.service.and_then(|service| service.revision);
        again.service.as_mut().expect("asked above").revision = revision;
        stream.send(again).await?;
        let fourth = stream.next().await?;
        ensure(fourth.code == Some(UNCHANGED), "nothing has changed", &fourth)?;
        ensure(fourth.instances.is_empty(), "so nothing is repeated", &fourth)?;
        stream.end().await?;
        done("Discover: instances, an unknown service, services, an equal revision");
        Ok(())
    }

    /// With a service each type is answered as itself; without one it is refused as itself, as the probe
    /// of Java's SDK needs it. The stream lives on.
    async fn ask_every_type(&mut self) -> Outcome {
        let mut stream = self.open().await?;
        for asked in TYPES {
            stream.send(question(asked, SERVICE)).await?;
            let answer = stream.next().await?;
            ensure(answer.code == Some(DONE), "a type without rules is an empty success", &answer)?;
            ensure(
                answer.r#type == i32::from(asked),
                "the answer has the type asked for",
                &answer,
            )?;
            ensure(name_of(&answer) == Some(SERVICE), "and the service", &answer)?;
        }
        for asked in TYPES {
            stream
                .send(DiscoverRequest { r#type: asked.into(), ..DiscoverRequest::default() })
                .await?;
            let answer = stream.next().await?;
            ensure(answer.code == Some(EMPTY), "a question without a service", &answer)?;
            ensure(answer.r#type == i32::from(asked), "is refused as itself", &answer)?;
        }
        for number in [0, 999] {
            let asked = question(Asks::Instance, SERVICE);
            stream.send(DiscoverRequest { r#type: number, ..asked }).await?;
            let answer = stream.next().await?;
            ensure(answer.code == Some(UNKNOWN_TYPE), "a type that nobody knows", &answer)?;
        }
        stream.end().await?;
        done("Discover of every type, with a service and without, and of types that are none");
        Ok(())
    }

    async fn batch(&mut self, id: &str) -> Outcome {
        let beat = InstanceHeartbeat { instance_id: id.into(), ..InstanceHeartbeat::default() };
        let request = HeartbeatsRequest { heartbeats: vec![beat] };
        let requests = tokio_stream::iter(vec![request; 3]);
        let mut answers = self.heartbeats.batch_heartbeat(requests).await?.into_inner();
        let mut count = 0;
        while answers.message().await?.is_some() {
            count += 1;
        }
        ensure(count == 3, "an answer to each", &count)?;
        let ids = vec![id.to_owned()];
        let wanted = GetHeartbeatsRequest { instance_ids: ids.clone() };
        let found = self.heartbeats.batch_get_heartbeat(wanted).await?.into_inner();
        let has_beaten = |record: &_| {
            let record: &polaris_specification::v1::HeartbeatRecord = record;
            record.instance_id == id && record.exist && record.last_heartbeat_sec > 0
        };
        ensure(found.records.iter().any(has_beaten), "the last heartbeat is known", &found)?;
        self.heartbeats.batch_del_heartbeat(DelHeartbeatsRequest { instance_ids: ids }).await?;
        done("BatchHeartbeat, BatchGetHeartbeat, BatchDelHeartbeat");
        Ok(())
    }

    async fn contract(&mut self) -> Outcome {
        let contract = ServiceContract {
            name: "orders".into(),
            namespace: NAMESPACE.into(),
            service: SERVICE.into(),
            protocol: "http".into(),
            version: "1".into(),
            content: "{}".into(),
            ..ServiceContract::default()
        };
        let answer = self.contracts.report_service_contract(contract.clone()).await?.into_inner();
        check_code(&answer, DONE)?;
        let answer = self.contracts.get_service_contract(contract.clone()).await?.into_inner();
        check_code(&answer, DONE)?;
        done("ReportServiceContract, GetServiceContract");
        Ok(())
    }

    async fn deregister(&mut self, id: &str) -> Outcome {
        let asked = Instance { id: Some(id.into()), ..Instance::default() };
        for _ in 0..2 {
            let answer = self.naming.deregister_instance(asked.clone()).await?.into_inner();
            check_code(&answer, DONE)?;
        }
        let mut stream = self.open().await?;
        stream.send(question(Asks::Instance, SERVICE)).await?;
        let answer = stream.next().await?;
        ensure(answer.code == Some(DONE), "the service is still there", &answer)?;
        ensure(answer.instances.is_empty(), "without instances", &answer)?;
        stream.end().await?;
        let none = Instance { id: Some(String::new()), ..Instance::default() };
        let answer = self.naming.deregister_instance(none).await?.into_inner();
        ensure(code(&answer) == 400_130, "an empty id is refused", &answer)?;
        done("DeregisterInstance, twice");
        Ok(())
    }

    async fn open(&mut self) -> Result<Stream, Box<dyn Error>> {
        let (questions, asked) = mpsc::channel(8);
        let answers = self.naming.discover(ReceiverStream::new(asked)).await?.into_inner();
        Ok(Stream { questions, answers })
    }
}

/// Both directions of a Discover call.
struct Stream {
    questions: mpsc::Sender<DiscoverRequest>,
    answers: Streaming<DiscoverResponse>,
}

impl Stream {
    async fn send(&self, question: DiscoverRequest) -> Outcome {
        self.questions.send(question).await.map_err(|_| "the stream was ended by the server".into())
    }

    async fn next(&mut self) -> Result<DiscoverResponse, Box<dyn Error>> {
        let answer = tokio::time::timeout(PATIENCE, self.answers.message()).await;
        let answer = answer.map_err(|_| "a question was not answered")??;
        answer.ok_or_else(|| "the stream was ended by the server".into())
    }

    /// Half-closes; the server ends its side in peace.
    async fn end(mut self) -> Outcome {
        drop(self.questions);
        match tokio::time::timeout(PATIENCE, self.answers.message()).await? {
            Ok(None) => Ok(()),
            Ok(Some(answer)) => Err(format!("one answer too many: {answer:?}").into()),
            Err(status) if status.code() == Code::Ok => Ok(()),
            Err(status) => Err(format!("ended with {status}").into()),
        }
    }
}

/// All that tells an instance from others.
fn where_it_is() -> Instance {
    Instance {
        service: Some(SERVICE.into()),
        namespace: Some(NAMESPACE.into()),
        host: Some(HOST.into()),
        port: Some(8080),
        ..Instance::default()
    }
}

fn question(asked: Asks, service: &str) -> DiscoverRequest {
    let service = Service {
        name: Some(service.into()),
        namespace: Some(NAMESPACE.into()),
        ..Service::default()
    };
    DiscoverRequest { r#type: asked.into(), service: Some(service), ..DiscoverRequest::default() }
}

fn name_of(answer: &DiscoverResponse) -> Option<&str> {
    answer.service.as_ref()?.name.as_deref()
}

/// The answer of a known service, with the instance as it was registered.
fn check_full(answer: &DiscoverResponse, id: &str) -> Outcome {
    ensure(answer.code == Some(DONE), "the service is known", answer)?;
    ensure(answer.r#type == i32::from(Asks::Instance), "the type comes back", answer)?;
    let service = answer.service.as_ref().ok_or("no service in the answer")?;
    ensure(service.revision.as_ref().is_some_and(|text| !text.is_empty()), "a revision", service)?;
    let [instance] = answer.instances.as_slice() else {
        return Err(format!("not one instance: {answer:?}").into());
    };
    let is_alike = instance.id.as_deref() == Some(id)
        && instance.host.as_deref() == Some(HOST)
        && instance.port == Some(8080)
        && instance.weight == Some(70)
        && instance.protocol.as_deref() == Some("grpc")
        && instance.version.as_deref() == Some("1.2.3")
        && instance.priority == Some(3)
        && instance.logic_set.as_deref() == Some("set")
        && instance.healthy == Some(true)
        && instance.isolate == Some(false)
        && instance.metadata.get("key").map(String::as_str) == Some("value");
    ensure(is_alike, "the instance as it was registered", instance)?;
    let zone = instance.location.as_ref().and_then(|location| location.zone.as_deref());
    ensure(zone == Some("zone"), "with its location", instance)?;
    let check = instance.health_check.as_ref().and_then(|check| check.heartbeat.as_ref());
    ensure(check.and_then(|beat| beat.ttl) == Some(5), "with its TTL", instance)
}

fn code(answer: &Response) -> u32 {
    answer.code.unwrap_or_default()
}

fn check_code(answer: &Response, expected: u32) -> Outcome {
    ensure(code(answer) == expected, &format!("code {expected}"), answer)
}

fn ensure(holds: bool, expected: &str, seen: &dyn std::fmt::Debug) -> Outcome {
    if holds { Ok(()) } else { Err(format!("expected: {expected}; seen: {seen:?}").into()) }
}
