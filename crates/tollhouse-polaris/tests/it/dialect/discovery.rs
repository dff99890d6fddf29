//! Questions and answers about services.

use prost::Message;
use tollhouse_polaris::v1;
use tollhouse_registry::{Alias, Command, Metadata, Revision, ServiceChange, ServiceKey};

use super::{Polaris, about, about_since, instance, revision, some, travelling};
use crate::client::{request, run};

/// Every type of the protocol but the unknown one.
const TYPES: [i32; 15] = [1, 2, 3, 4, 5, 6, 12, 13, 100, 101, 102, 103, 104, 105, 106];

async fn submit(polaris: &Polaris, command: Command) {
    polaris.registry.submit(command).await.expect("a good command");
}

fn alias(name: &str) -> Command {
    Command::CreateAlias(Box::new(Alias {
        id: String::new(),
        key: ServiceKey::new("ns", name),
        target: ServiceKey::new("ns", "svc"),
        comment: String::new(),
        owners: String::new(),
        metadata: Metadata::default(),
        created_at: 0,
        modified_at: 0,
        revision: Revision::default(),
    }))
}

#[test]
fn an_unknown_service_is_told_so() {
    // 26.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let question = about(1, "ns", "nothing");
        let answer = client.discover(&question).await;
        assert_eq!((answer.code, answer.r#type), (Some(400_202), 1));
        assert_eq!(answer.service, question.service);
        assert_eq!(answer.info.as_deref(), Some("not found resource"));
    });
}

#[test]
fn an_equal_revision_is_answered_without_instances() {
    // 27.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        client.register(&instance("h", 1)).await;
        let mut stream = client.open_discover().await;
        let first = stream.ask(&about(1, "ns", "svc")).await;
        assert_eq!((first.code, first.instances.len()), (Some(200_000), 1));
        let known = about_since(1, &revision(&first));
        let second = stream.ask(&known).await;
        assert_eq!((second.code, second.r#type), (Some(200_001), 1));
        assert_eq!((second.instances.len(), &second.service), (0, &known.service));
        client.register(&instance("i", 1)).await;
        let third = stream.ask(&known).await;
        assert_eq!((third.code, third.instances.len()), (Some(200_000), 2));
        assert_ne!(revision(&third), revision(&first));
        client.deregister(&instance("i", 1)).await;
        client.deregister(&instance("h", 1)).await;
        let empty = stream.ask(&known).await;
        assert_eq!((empty.code, empty.instances.len()), (Some(200_000), 0));
        // 29.
        assert!(!revision(&empty).is_empty());
        let still = stream.ask(&about_since(1, &revision(&empty))).await;
        assert_eq!(still.code, Some(200_001));
    });
}

#[test]
fn names_that_are_left_out_have_their_codes() {
    // 28.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let here = v1::Instance { namespace: some("default"), ..instance("h", 1) };
        client.register(&here).await;
        for (kind, namespace, name, expected) in [
            (1, None, Some("svc"), 200_000),
            (1, Some(""), Some("svc"), 200_000),
            (1, Some("ns"), Some(""), 400_120),
            (1, Some("ns"), None, 400_120),
            (3, None, Some("svc"), 400_110),
            (3, Some("ns"), Some(""), 400_120),
            (4, None, Some("svc"), 400_110),
            (100, Some(""), Some("svc"), 400_110),
        ] {
            let mut question = about(kind, "", "");
            let service = question.service.as_mut().expect("given");
            (service.namespace, service.name) =
                (namespace.map(str::to_owned), name.map(str::to_owned));
            let answer = client.discover(&question).await;
            assert_eq!((answer.code, answer.r#type), (Some(expected), kind), "{question:?}");
        }
    });
}

#[test]
fn every_type_is_answered_for_who_waits_for_it() {
    // 30, 33.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        client.register(&instance("h", 1)).await;
        let mut stream = client.open_discover().await;
        for kind in TYPES {
            for direction in [0, 1] {
                let question = v1::DiscoverRequest { direction, ..about(kind, "ns", "svc") };
                let answer = stream.ask(&question).await;
                assert_eq!((answer.code, answer.r#type), (Some(200_000), kind), "{kind}");
                let service = answer.service.clone().expect("a service");
                assert_eq!((service.name, service.namespace), (some("svc"), some("ns")), "{kind}");
                assert_eq!(answer.direction, direction, "{kind}");
                assert_eq!(answer.instances.len(), usize::from(kind == 1), "{kind}");
            }
        }
        let routing = stream.ask(&about(3, "ns", "other")).await;
        let body = routing.routing.expect("there even when it is empty");
        let revision = body.revision.expect("a revision");
        assert_eq!((body.service, body.namespace), (some("other"), some("ns")));
        let mut again = about(3, "ns", "other");
        again.service.as_mut().expect("given").revision = Some(revision);
        assert_eq!(stream.ask(&again).await.code, Some(200_001));
    });
}

#[test]
fn a_question_without_a_service_is_a_probe() {
    // 31.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let mut stream = client.open_discover().await;
        let known = TYPES.map(|kind| (kind, 400_002));
        for (kind, expected) in
            known.into_iter().chain([(0, 400_004), (999, 400_004), (-1, 400_004)])
        {
            let probe = v1::DiscoverRequest { r#type: kind, ..Default::default() };
            let answer = stream.ask(&probe).await;
            assert_eq!((answer.code, answer.r#type), (Some(expected), kind));
        }
        let unknown = stream.ask(&about(999, "ns", "svc")).await;
        assert_eq!((unknown.code, unknown.r#type), (Some(400_004), 999));
    });
}

#[test]
fn three_questions_at_once_have_three_answers_in_order() {
    // 32.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let questions = [about(3, "ns", "a"), about(1, "ns", "b"), about(100, "ns", "c")];
        let bytes = questions.iter().map(|question| travelling(question).to_vec());
        let bytes = bytes.collect::<Vec<_>>().concat().into();
        let ended = client.0.send(request("/v1.PolarisGRPC/Discover"), &[bytes]).await;
        assert_eq!(ended.code, Some(0), "half-closed by the client");
        let types = ended
            .messages
            .iter()
            .map(|message| v1::DiscoverResponse::decode(&**message).expect("a message").r#type);
        assert_eq!(types.collect::<Vec<_>>(), [3, 1, 100]);
    });
}

#[test]
fn isolated_and_silent_instances_are_among_the_others() {
    // 34.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        client.register(&v1::Instance { isolate: Some(true), ..instance("a", 1) }).await;
        client.register(&v1::Instance { healthy: Some(false), ..instance("b", 1) }).await;
        let mut question = about(1, "ns", "svc");
        question.filter = Some(v1::DiscoverFilter { only_healthy_instance: true });
        for question in [question, about(1, "ns", "svc")] {
            assert_eq!(client.discover(&question).await.instances.len(), 2, "clients choose");
        }
    });
}

#[test]
fn an_alias_shows_the_instances_of_its_service() {
    // 12, 35.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        client.register(&instance("h", 1)).await;
        let direct = client.discover(&about(1, "ns", "svc")).await;
        submit(&polaris, alias("other")).await;
        for direction in [0, 1] {
            let question = v1::DiscoverRequest { direction, ..about(1, "ns", "other") };
            let answer = client.discover(&question).await;
            let service = answer.service.clone().expect("a service");
            assert_eq!((service.name, service.namespace), (some("other"), some("ns")));
            let source = answer.alias_for.clone().expect("the source");
            assert_eq!(source.name, some("svc"));
            assert_eq!(
                (answer.instances.clone(), answer.direction),
                (direct.instances.clone(), direction)
            );
            let mut known = question.clone();
            known.service.as_mut().expect("given").revision = Some(revision(&answer));
            assert_eq!(client.discover(&known).await.code, Some(200_001));
        }
        let onto_alias = v1::Instance { service: some("other"), ..instance("h", 1) };
        let refused = client.register(&onto_alias).await;
        assert_eq!(super::code(&refused), 400_000);
        assert!(refused.info.is_some_and(|info| info.contains("alias")));
    });
}

#[test]
fn services_are_listed_by_namespace_or_all_at_once() {
    // 36.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        client.register(&instance("h", 1)).await;
        let labels: Metadata = [("k".into(), "v".into())].into();
        let change = ServiceChange { metadata: Some(labels), ..ServiceChange::default() };
        submit(&polaris, Command::CreateService(ServiceKey::new("ns", "two"), Box::new(change)))
            .await;
        let elsewhere = ServiceKey::new("other", "three");
        submit(&polaris, Command::CreateService(elsewhere, Box::default())).await;
        let ask = |namespace: Option<&str>, revision: Option<String>| {
            let namespace = namespace.map(str::to_owned);
            let service = v1::Service { namespace, revision, ..Default::default() };
            v1::DiscoverRequest { r#type: 6, service: Some(service), ..Default::default() }
        };
        for (namespace, expected) in [
            (Some("ns"), &["svc", "two"][..]),
            (Some("other"), &["three"]),
            (Some("nowhere"), &[]),
            (None, &["svc", "three", "two"]),
        ] {
            let answer = client.discover(&ask(namespace, None)).await;
            assert_eq!(answer.code, Some(200_000), "{namespace:?}");
            let mut names: Vec<_> =
                answer.services.iter().filter_map(|service| service.name.clone()).collect();
            names.sort();
            assert_eq!(names, expected, "{namespace:?}");
            let two = answer.services.iter().find(|service| service.name == some("two"));
            assert!(two.is_none_or(|two| two.metadata.get("k").is_some_and(|value| value == "v")));
            if !expected.is_empty() {
                let known = ask(namespace, Some(revision(&answer)));
                assert_eq!(client.discover(&known).await.code, Some(200_001), "{namespace:?}");
            }
        }
        let mut namespaces = client.discover(&about(12, "ns", "svc")).await.namespaces;
        namespaces.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<_> = namespaces.iter().filter_map(|it| it.name.as_deref()).collect();
        assert_eq!(names, ["Polaris", "default", "ns", "other"]);
        assert!(namespaces.iter().all(|namespace| namespace.token.is_none()), "no secrets");
    });
}

#[test]
fn ten_megabytes_of_instances_are_delivered_and_an_equal_revision_needs_none_of_them() {
    // 37.
    // As many bytes as 50,000 usual instances have, which take a debug build too long to register: few
    // instances with long metadata, so that a busy machine has time for it too.
    const COUNT: u32 = 640;
    let polaris = Polaris::start();
    run(async {
        let mut pending = Vec::new();
        let label = |key: &str| (key.into(), "long ".repeat(800).into());
        for number in 0..COUNT {
            let new = tollhouse_registry::NewInstance {
                id: format!("{number:040}").into(),
                metadata: ["a", "b", "c", "d"].map(label).into(),
                service: "svc".into(),
                namespace: "ns".into(),
                host: format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255).into(),
                port: Some(8080),
                ..Default::default()
            };
            let registry = polaris.registry.clone();
            let command = Command::Register(Box::new(new));
            pending.push(tokio::spawn(async move { registry.submit(command).await }));
        }
        for submitted in pending {
            submitted.await.expect("no panic").expect("a good instance");
        }
        let client = polaris.connect().await;
        let path = "/v1.PolarisGRPC/Discover";
        let ended = client.0.unary(path, &about(1, "ns", "svc").encode_to_vec()).await;
        let message = &*ended.messages[0];
        assert!(message.len() > 10_000_000, "{}", message.len());
        let answer = v1::DiscoverResponse::decode(message).expect("a message");
        assert_eq!(answer.instances.len(), COUNT as usize);
        let known = client.discover(&about_since(1, &revision(&answer))).await;
        assert_eq!((known.code, known.instances.len()), (Some(200_001), 0));
        let caller = v1::DiscoverRequest { direction: 1, ..about(1, "ns", "svc") };
        let ended = client.0.unary(path, &caller.encode_to_vec()).await;
        let (same, field) = ended.messages[0].split_at(message.len());
        assert!(same == message && field == [0xe8, 1, 1], "the direction is behind the rest");
    });
}
