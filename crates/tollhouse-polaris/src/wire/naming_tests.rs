//! What the registry holds, as clients read it with the generated types.

use super::*;
use crate::dialect::rights::Permits;
use crate::registration::new_instance;
use crate::v1;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tollhouse_registry::{
    Alias, Clock, Command, Instance, Keeper, ManualClock, Metadata, Options, Outcome, Registry,
    Revision, ServiceKey, ServiceRef,
};

/// 1994-11-06 08:49:37.
const NOW_MS: u64 = 784_111_777_000;

/// A registry at a fixed time.
async fn registry() -> (Registry, Arc<ManualClock>) {
    let store = tollhouse_store::open(&tollhouse_store::Location::Memory).expect("memory");
    let clock = ManualClock::at_ms(NOW_MS);
    let options = Options { clock: Clock::Manual(Arc::clone(&clock)), ..Options::default() };
    let (keeper, registry) = Keeper::open(store, options).await.expect("empty");
    tokio::spawn(keeper.run(std::future::pending()));
    (registry, clock)
}

async fn register(registry: &Registry, instance: &v1::Instance) -> Arc<Instance> {
    let bytes = instance.encode_to_vec();
    let request = InstanceRequest::parse(&bytes).expect("a message");
    let command = Command::Register(Box::new(new_instance(&request)));
    match registry.submit(command).await {
        Ok(Outcome::Instance(instance)) => instance,
        other => panic!("{other:?}"),
    }
}

fn full() -> v1::Instance {
    let text = |text: &str| Some(text.to_owned());
    v1::Instance {
        id: text("i"),
        service: text("s"),
        namespace: text("ns"),
        host: text(" 10.0.0.1 "),
        port: Some(8080),
        protocol: text("grpc"),
        version: text("1.2"),
        priority: Some(3),
        weight: Some(7),
        health_check: Some(v1::HealthCheck {
            r#type: 1,
            heartbeat: Some(v1::HeartbeatHealthCheck { ttl: Some(3) }),
        }),
        location: Some(v1::Location { region: text("r"), zone: text("z"), campus: None }),
        metadata: [("env", "gray"), ("zone", "theirs")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        logic_set: text("l"),
        vpc_id: text("v"),
        ..Default::default()
    }
}

/// The instance in a field of a `DiscoverResponse`.
fn discovered(instance: &Instance) -> v1::Instance {
    let mut message = Vec::new();
    put_discovered_instance(&mut message, instance);
    let mut response = v1::DiscoverResponse::decode(&*message).expect("a message");
    assert_eq!(response.instances.len(), 1);
    response.instances.remove(0)
}

#[tokio::test]
async fn an_instance_is_discovered_with_all_that_was_said_of_it() {
    let (registry, _) = registry().await;
    let instance = register(&registry, &full()).await;
    let labels = [
        ("env", "gray"),
        ("version", "1.2"),
        ("protocol", "grpc"),
        ("region", "r"),
        ("zone", "z"),
        ("campus", ""),
    ];
    let expected = v1::Instance {
        host: Some("10.0.0.1".to_owned()),
        healthy: Some(true),
        isolate: Some(false),
        enable_health_check: Some(true),
        metadata: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ctime: Some("1994-11-06 08:49:37".to_owned()),
        mtime: Some("1994-11-06 08:49:37".to_owned()),
        revision: Some(instance.revision.to_string()),
        ..full()
    };
    assert_eq!(discovered(&instance), expected);
}

#[tokio::test]
async fn what_was_not_said_of_an_instance_is_not_made_up() {
    let (registry, _) = registry().await;
    let text = |text: &str| Some(text.to_owned());
    let bare = v1::Instance {
        service: text("s"),
        namespace: text("ns"),
        host: text("h"),
        port: Some(0),
        location: Some(v1::Location::default()),
        ..Default::default()
    };
    let found = discovered(&*register(&registry, &bare).await);
    assert_eq!((found.weight, found.port, found.healthy), (Some(100), Some(0), Some(true)));
    assert_eq!((found.health_check, found.enable_health_check, found.location), (None, None, None));
    assert!(found.metadata.is_empty());
    assert_eq!(found.id.map(|id| id.len()), Some(40));
}

#[tokio::test]
async fn an_instance_that_fell_silent_says_since_when() {
    let (registry, clock) = registry().await;
    let instance = register(&registry, &full()).await;
    registry.heartbeat(&instance.id);
    // The keeper's time is the clock's: moved on, its next look finds the instance silent.
    clock.advance(Duration::from_secs(30));
    let mut versions = registry.subscribe();
    versions.changed().await.expect("the keeper runs");
    let lost = Arc::clone(registry.state().instance("i").expect("still there"));
    let found = discovered(&lost);
    assert_eq!(found.healthy, Some(false));
    let expected = (NOW_MS / 1_000).to_string();
    assert_eq!(found.metadata.get("internal-lastheartbeat"), Some(&expected));

    let mut bytes = Vec::new();
    put_instance(&mut bytes, &lost, Reader::Console);
    let shown = v1::Instance::decode(&bytes[..]).expect("a message");
    assert_eq!(shown.metadata, full().metadata, "the console edits what the owner gave");
}

#[tokio::test]
async fn fields_of_newer_editions_come_out_again() {
    let (registry, _) = registry().await;
    let mut bytes = full().encode_to_vec();
    write::put_text(&mut bytes, 900, "new");
    let request = InstanceRequest::parse(&bytes).expect("a message");
    let command = Command::Register(Box::new(new_instance(&request)));
    let Ok(Outcome::Instance(instance)) = registry.submit(command).await else {
        panic!("refused");
    };
    let mut out = Vec::new();
    put_instance(&mut out, &instance, Reader::Client);
    let again = InstanceRequest::parse(&out).expect("a message");
    assert_eq!(again.unknown().collect::<Vec<_>>(), request.unknown().collect::<Vec<_>>());
}

#[tokio::test]
async fn services_are_shown_under_the_name_that_was_asked_for() {
    let (registry, _) = registry().await;
    register(&registry, &full()).await;
    let state = registry.state_full();
    let view = state.service(ServiceRef { namespace: "ns", name: "s" }).expect("created");
    let mut bytes = Vec::new();
    let asked = ServiceRef { namespace: "other", name: "alias" };
    put_discovered_service(&mut bytes, &view.service, asked, view.revision);
    let service = v1::Service::decode(&bytes[..]).expect("a message");
    assert_eq!(
        (service.name.as_deref(), service.namespace.as_deref()),
        (Some("alias"), Some("other"))
    );
    assert_eq!(service.revision, Some(view.revision.to_string()));
    assert_eq!((service.token, service.ports), (None, None));

    bytes.clear();
    let permits = Permits { editable: true, deletable: false };
    put_console_service(&mut bytes, &view.service, view.counts, permits);
    let service = v1::Service::decode(&bytes[..]).expect("a message");
    assert_eq!((service.total_instance_count, service.healthy_instance_count), (Some(1), Some(1)));
    assert_eq!(
        (service.token, service.editable, service.deleteable),
        (None, Some(true), Some(false))
    );

    bytes.clear();
    put_namespace(&mut bytes, state.namespace("ns").expect("created"));
    let namespace = v1::Namespace::decode(&bytes[..]).expect("a message");
    assert_eq!((namespace.total_service_count, namespace.deleteable), (Some(1), None));
}

#[test]
fn an_alias_names_both_ends() {
    let alias = Alias {
        id: "a".to_owned(),
        key: ServiceKey::new("ns", "alias"),
        target: ServiceKey::new("ns2", "s"),
        comment: String::new(),
        owners: "me".to_owned(),
        metadata: Metadata::new(),
        created_at: 0,
        modified_at: 0,
        revision: Revision::default(),
    };
    let mut bytes = Vec::new();
    put_alias(&mut bytes, &alias, Permits::ALL);
    let alias = v1::ServiceAlias::decode(&bytes[..]).expect("a message");
    let names = [alias.alias, alias.alias_namespace, alias.service, alias.namespace];
    assert_eq!(names.map(Option::unwrap_or_default), ["alias", "ns", "s", "ns2"]);
}
