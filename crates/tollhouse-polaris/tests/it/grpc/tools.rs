//! Health and reflection, as probes and tools without .proto files use them.

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, Value};
use tokio::sync::watch;
use tollhouse_polaris::descriptors;
use tollhouse_polaris::grpc::{Services, health, reflection};

use super::echo;
use crate::client::{Client, framed, request, run};
use crate::server::Server;

const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const REFLECTION_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// A server that can always do its work.
fn start() -> Server {
    let (serving, is_serving) = watch::channel(true);
    // Says so for as long as the test.
    std::mem::forget(serving);
    start_saying(is_serving)
}

/// A server that says of itself what comes over this channel.
fn start_saying(is_serving: watch::Receiver<bool>) -> Server {
    Server::start(|| {
        let services = Services::new().unary("/v1.PolarisGRPC/Heartbeat", echo);
        reflection::add(health::add(services, is_serving), descriptors())
    })
}

#[test]
fn a_server_that_cannot_do_its_work_says_so_until_it_can() {
    let (serving, is_serving) = watch::channel(true);
    let server = start_saying(is_serving);
    run(async {
        let client = Client::connect(server.address).await;
        let mut watching = client.open(request("/grpc.health.v1.Health/Watch")).await;
        watching.say(&text(1, ""));
        watching.close();
        assert_eq!(watching.next().await, Some(vec![8, 1]));
        for (is_serving, status) in [(false, 2), (true, 1), (false, 2), (true, 1)] {
            serving.send(is_serving).expect("the server listens");
            assert_eq!(watching.next().await, Some(vec![8, status]));
            let checked = client.unary("/grpc.health.v1.Health/Check", &text(1, "")).await;
            assert_eq!(checked.messages, [vec![8, status]]);
        }
        drop(serving);
        let checked = client.unary("/grpc.health.v1.Health/Check", &text(1, "")).await;
        assert_eq!(checked.messages, [vec![8, 2]], "nobody is left who could serve");
        assert_eq!(watching.next().await, Some(vec![8, 2]));
    });
}

/// A message of one text field.
fn text(number: u8, text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("short");
    [&[number << 3 | 2, length], text.as_bytes()].concat()
}

#[test]
fn known_services_are_healthy() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        for (service, code, message) in [
            ("", 0, Some(vec![8, 1])),
            ("v1.PolarisGRPC", 0, Some(vec![8, 1])),
            ("grpc.health.v1.Health", 0, Some(vec![8, 1])),
            ("v1.Other", 5, None),
        ] {
            let ended = client.unary("/grpc.health.v1.Health/Check", &text(1, service)).await;
            assert_eq!(ended.code, Some(code), "{service}");
            assert_eq!(ended.messages, Vec::from_iter(message), "{service}");
        }
        let broken = client.unary("/grpc.health.v1.Health/Check", &[0x0a, 9]).await;
        assert_eq!(broken.code, Some(13));
    });
}

#[test]
fn health_is_watched_until_the_server_stops_or_the_client_goes() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        for (service, status) in [("v1.PolarisGRPC", 1), ("v1.Other", 3)] {
            let mut watch = client.open(request("/grpc.health.v1.Health/Watch")).await;
            watch.say(&text(1, service));
            watch.close();
            assert_eq!(watch.next().await, Some(vec![8, status]));
            watch.stream.send_reset(h2::Reason::CANCEL);
        }
        let mut watch = client.open(request("/grpc.health.v1.Health/Watch")).await;
        watch.say(b"");
        watch.close();
        assert_eq!(watch.next().await, Some(vec![8, 1]));
        server.stop();
        assert_eq!(watch.end().await.code, Some(14));
    });
}

/// What reflection says, read with descriptors as a tool would.
struct Said(DynamicMessage);

impl Said {
    fn decode(message: &[u8]) -> Self {
        let kind: MessageDescriptor = descriptors()
            .get_message_by_name("grpc.reflection.v1.ServerReflectionResponse")
            .expect("declared");
        Self(DynamicMessage::decode(kind, message).expect("a message"))
    }

    fn part(&self, field: &str) -> Option<DynamicMessage> {
        let is_there = self.0.has_field_by_name(field);
        is_there.then(|| self.0.get_field_by_name(field)?.as_message().cloned()).flatten()
    }

    fn list(&self, part: &str, field: &str) -> Vec<Value> {
        let part = self.part(part).unwrap_or_else(|| panic!("{part} in {}", self.0));
        let list = part.get_field_by_name(field).expect("declared");
        list.as_list().expect("a list").to_vec()
    }
}

async fn ask(client: &Client, path: &str, questions: &[Vec<u8>]) -> Vec<Said> {
    let questions: Vec<_> = questions.iter().map(|question| framed(question)).collect();
    let ended = client.send(request(path), &questions).await;
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    ended.messages.iter().map(|message| Said::decode(message)).collect()
}

#[test]
fn services_are_listed_in_both_editions() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        for path in [REFLECTION, REFLECTION_ALPHA] {
            let said = ask(&client, path, &[text(7, "*")]).await;
            let names = said[0].list("list_services_response", "service");
            let names = names.iter().map(|service| {
                let name = service.as_message().expect("a service").get_field_by_name("name");
                name.expect("declared").as_str().expect("a text").to_owned()
            });
            assert_eq!(
                names.collect::<Vec<_>>(),
                [
                    "grpc.health.v1.Health",
                    "grpc.reflection.v1.ServerReflection",
                    "grpc.reflection.v1alpha.ServerReflection",
                    "v1.PolarisGRPC",
                ]
            );
        }
    });
}

#[test]
fn a_symbol_leads_to_files_that_are_whole() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        for (question, name) in [
            (text(4, "v1.PolarisGRPC"), "v1.PolarisGRPC"),
            (text(4, "v1.PolarisGRPC.Discover"), "v1.PolarisGRPC"),
            (text(4, "v1.Instance"), "v1.Instance"),
            (text(4, ".v1.Instance.host"), "v1.Instance"),
            (text(4, "grpc.health.v1.Health"), "grpc.health.v1.Health"),
            (text(3, "polaris/services.proto"), "v1.PolarisGRPC"),
        ] {
            let said = ask(&client, REFLECTION, &[question]).await;
            let files = said[0].list("file_descriptor_response", "file_descriptor_proto");
            let files = files.iter().map(|file| {
                let bytes = file.as_bytes().expect("bytes").clone();
                prost_types::FileDescriptorProto::decode(bytes).expect("a file")
            });
            let file = files.collect();
            let pool =
                DescriptorPool::from_file_descriptor_set(prost_types::FileDescriptorSet { file });
            let pool = pool.expect("nothing is missing");
            let is_there = pool.get_service_by_name(name).is_some()
                || pool.get_message_by_name(name).is_some();
            assert!(is_there, "{name}");
        }
    });
}

#[test]
fn what_is_not_there_is_said_and_the_stream_goes_on() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        let extension = [&[0x2a, 15][..], &text(1, "v1.Instance"), &[0x10, 1]].concat();
        let questions = [
            text(4, "v1.Nothing"),
            text(4, "v1.Instance.nothing"),
            text(3, "nothing.proto"),
            extension,
            text(6, "v1.Nothing"),
            vec![],
        ];
        let said = ask(&client, REFLECTION, &questions).await;
        let codes = said.iter().map(|said| {
            let error = said.part("error_response").expect("an error");
            error.get_field_by_name("error_code").expect("declared").as_i32().expect("a number")
        });
        assert_eq!(codes.collect::<Vec<_>>(), [5, 5, 5, 5, 5, 3]);
        let said = ask(&client, REFLECTION, &[text(6, "v1.Instance")]).await;
        let part = said[0].part("all_extension_numbers_response").expect("an answer");
        let name = part.get_field_by_name("base_type_name").expect("declared");
        assert_eq!(name.as_str(), Some("v1.Instance"));
    });
}
