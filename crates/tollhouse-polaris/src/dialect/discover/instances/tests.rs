//! What a change costs who asks next, counted in instances that are encoded again; and that answers are
//! right all the while.

use std::collections::BTreeSet;

use prost::Message;
use tollhouse_registry::{
    AliasChange, Command, Keeper, Metadata, NewInstance, Options, Registry, Revision, ServiceKey,
};
use tollhouse_store::Location;

use super::*;
use crate::v1;
use crate::wire::DiscoverRequest;

const MANY: usize = 10_000;

/// A registry with so many instances in one service, every tenth of them unhealthy.
async fn registry(instances: usize) -> Registry {
    let store = tollhouse_store::open(&Location::Memory).expect("memory opens");
    let (keeper, registry) = Keeper::open(store, Options::default()).await.expect("readable");
    tokio::spawn(keeper.run(std::future::pending()));
    let tasks: Vec<_> = (0..instances)
        .map(|number| {
            let (registry, healthy) = (registry.clone(), !number.is_multiple_of(10));
            let new = NewInstance { healthy: Some(healthy), ..instance(number) };
            tokio::spawn(async move { registry.submit(Command::Register(Box::new(new))).await })
        })
        .collect();
    for task in tasks {
        task.await.expect("runs").expect("good");
    }
    registry
}

fn instance(number: usize) -> NewInstance {
    NewInstance {
        id: format!("i{number}").into(),
        service: "s".into(),
        namespace: "ns".into(),
        host: "10.0.0.1".into(),
        port: Some(80),
        ..NewInstance::default()
    }
}

/// The answer over HTTP or gRPC, decoded; its length is as announced.
fn ask(registry: &Registry, name: &str, only_healthy: bool) -> v1::DiscoverResponse {
    let message = v1::DiscoverRequest {
        r#type: INSTANCE,
        service: Some(v1::Service {
            name: Some(name.to_owned()),
            namespace: Some("ns".to_owned()),
            ..v1::Service::default()
        }),
        filter: Some(v1::DiscoverFilter { only_healthy_instance: only_healthy }),
        ..v1::DiscoverRequest::default()
    };
    let message = message.encode_to_vec();
    let request = DiscoverRequest::parse(&message).expect("a message");
    let question = Question { request, service: request.service.expect("given") };
    let name = ServiceRef { namespace: "ns", name };
    let replied = super::answer(&registry.state(), &question, name, HealthFilter::Honoured);
    let length = replied.answer.length();
    let bytes = replied.answer.into_bytes();
    assert_eq!(bytes.len(), length);
    v1::DiscoverResponse::decode(bytes).expect("a message")
}

/// Instances that the next answer has to encode.
fn unencoded(registry: &Registry) -> usize {
    let state = registry.state();
    let view = state.service(ServiceRef { namespace: "ns", name: "s" }).expect("there");
    let chunks = view.members.chunks().filter(|chunk| chunk.encoded.get().is_none());
    chunks.map(|chunk| chunk.objects().len()).sum()
}

fn ids(answer: &v1::DiscoverResponse) -> BTreeSet<&str> {
    answer.instances.iter().filter_map(|instance| instance.id.as_deref()).collect()
}

#[tokio::test]
async fn a_change_among_ten_thousand_encodes_its_neighbours_and_nobody_else() {
    let registry = registry(MANY).await;
    assert_eq!(unencoded(&registry), MANY);
    assert_eq!(ids(&ask(&registry, "s", false)).len(), MANY);
    assert_eq!(unencoded(&registry), 0);
    let mut encoded = 0;
    for number in 0..100 {
        let command = match number % 3 {
            0 => Command::Deregister(format!("i{}", 17 * number).into()),
            1 => Command::Register(Box::new(instance(17 * number))),
            _ => Command::Register(Box::new(instance(MANY + number))),
        };
        registry.submit(command).await.expect("good");
        let changed = unencoded(&registry);
        assert!((1..=2 * CHUNK_OBJECTS).contains(&changed), "{changed}");
        encoded += changed;
        let total = registry.state().totals().instances.total as usize;
        assert_eq!(ids(&ask(&registry, "s", false)).len(), total);
    }
    assert!(encoded <= 134 * CHUNK_OBJECTS, "{encoded} instances were encoded for 100 changes");
}

#[tokio::test]
async fn filters_and_aliases_share_the_chunks() {
    for instances in [CHUNK_OBJECTS - 1, CHUNK_OBJECTS, CHUNK_OBJECTS + 1, 10 * CHUNK_OBJECTS] {
        let registry = registry(instances).await;
        let alias = tollhouse_registry::Alias {
            id: String::new(),
            key: ServiceKey::new("ns", "other"),
            target: ServiceKey::new("ns", "s"),
            comment: String::new(),
            owners: String::new(),
            metadata: Metadata::new(),
            created_at: 0,
            modified_at: 0,
            revision: Revision::default(),
        };
        registry.submit(Command::CreateAlias(Box::new(alias))).await.expect("good");
        let all = ask(&registry, "s", false);
        let by_alias = ask(&registry, "other", false);
        assert_eq!(ids(&all).len(), instances);
        assert_eq!(ids(&all), ids(&by_alias));
        assert_eq!(by_alias.service.and_then(|service| service.name).as_deref(), Some("other"));
        let healthy = ask(&registry, "s", true);
        assert_eq!(ids(&healthy).len(), instances - instances.div_ceil(10));
        assert!(healthy.instances.iter().all(|instance| instance.healthy == Some(true)));
        assert_eq!(ids(&ask(&registry, "other", true)), ids(&healthy));
        let change = AliasChange { comment: Some("c".to_owned()), ..AliasChange::default() };
        let key = ServiceKey::new("ns", "other");
        registry.submit(Command::UpdateAlias(key, Box::new(change))).await.expect("good");
        assert_eq!(unencoded(&registry), 0);
    }
}
