//! Files of the configuration centre, as clients write, fetch and await them.

use prost::Message;
use tollhouse_polaris::{Gate, v1};
use tollhouse_registry::Command;
use tollhouse_registry::config::{ConfigCommand, ConfigFileKey, ReleaseRef};

use super::{Caller, Polaris, TimeOfServer, some};
use crate::client::{Open, request, run};

/// MD5 of `a: 2`.
const MD5_OF_SECOND: &str = "9de2a49d06deb9c0194660123ef188d8";

const WATCH: &str = "/v1.PolarisConfigGRPC/WatchConfigFiles";

fn file(content: &str) -> v1::ConfigFile {
    v1::ConfigFile {
        namespace: some("ns"),
        group: some("group"),
        name: some("app.yaml"),
        content: some(content),
        ..v1::ConfigFile::default()
    }
}

fn release() -> v1::ConfigFileRelease {
    v1::ConfigFileRelease {
        namespace: some("ns"),
        group: some("group"),
        file_name: some("app.yaml"),
        ..v1::ConfigFileRelease::default()
    }
}

/// The file as a client names it that has a version.
fn asked(version: u64) -> v1::ClientConfigFileInfo {
    v1::ClientConfigFileInfo {
        namespace: some("ns"),
        group: some("group"),
        file_name: some("app.yaml"),
        version: Some(version),
        ..v1::ClientConfigFileInfo::default()
    }
}

fn watch(version: u64) -> v1::ClientWatchConfigFileRequest {
    v1::ClientWatchConfigFileRequest { watch_files: vec![asked(version)], ..Default::default() }
}

fn gray(key: &str, value: &str) -> v1::ConfigFileRelease {
    let value = v1::MatchString { value: some(value), ..v1::MatchString::default() };
    let label = v1::ClientLabel { key: key.to_owned(), value: Some(value) };
    v1::ConfigFileRelease { release_type: some("gray"), beta_labels: vec![label], ..release() }
}

impl Caller {
    async fn config(&self, method: &str, message: &impl Message) -> v1::ConfigClientResponse {
        self.call(&format!("/v1.PolarisConfigGRPC/{method}"), message).await
    }

    async fn write(&self, content: &str) {
        let created = self.config("CreateConfigFile", &file(content)).await;
        if created.code == Some(400_201) {
            let updated = self.config("UpdateConfigFile", &file(content)).await;
            assert_eq!(updated.code, Some(200_000), "{updated:?}");
        } else {
            assert_eq!(created.code, Some(200_000), "{created:?}");
        }
    }

    async fn publish(&self, content: &str) {
        self.write(content).await;
        let published = self.config("PublishConfigFile", &release()).await;
        assert_eq!(published.code, Some(200_000), "{published:?}");
    }

    /// Content and version of the file for this client.
    async fn fetch(&self) -> (String, u64) {
        let answer = self.config("GetConfigFile", &asked(0)).await;
        assert_eq!(answer.code, Some(200_000), "{answer:?}");
        let file = answer.config_file.expect("the file");
        (file.content.unwrap_or_default(), file.version.unwrap_or(0))
    }

    /// Begins to watch, and returns once the registry knows of it.
    async fn watch(&self, polaris: &Polaris, version: u64) -> Open {
        let before = polaris.registry.config_watch_count();
        let mut open = self.0.open(request(WATCH)).await;
        open.say(&watch(version).encode_to_vec());
        open.close();
        while polaris.registry.config_watch_count() == before {
            tokio::task::yield_now().await;
        }
        open
    }
}

async fn answer(open: &mut Open) -> v1::ConfigClientResponse {
    let message = open.next().await.expect("an answer");
    v1::ConfigClientResponse::decode(&*message).expect("a message")
}

#[test]
fn a_published_file_is_fetched_and_listed() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let absent = client.config("GetConfigFile", &asked(0)).await;
        assert_eq!((absent.code, absent.config_file), (Some(400_202), Some(asked(0))));
        let early = client.config("PublishConfigFile", &release()).await;
        assert_eq!(early.code, Some(400_305), "the namespace does not exist yet");
        client.publish("a: 1").await;
        assert_eq!(client.fetch().await, ("a: 1".to_owned(), 1));
        client.publish("a: 2").await;
        let answer = client.config("GetConfigFile", &asked(2)).await;
        let found = answer.config_file.expect("a file");
        assert_eq!(found.md5, some(MD5_OF_SECOND));
        assert_eq!((found.version, found.encrypted), (Some(2), Some(false)));
        let newer = client.config("GetConfigFile", &asked(3)).await;
        assert_eq!(newer.code, Some(200_001), "the client has more than the server");

        let group = v1::ConfigFileGroup {
            namespace: some("ns"),
            name: some("group"),
            ..v1::ConfigFileGroup::default()
        };
        let mut question =
            v1::ConfigFileGroupRequest { config_file_group: Some(group), ..Default::default() };
        let path = "/v1.PolarisConfigGRPC/GetConfigFileMetadataList";
        let list: v1::ConfigClientListResponse = client.call(path, &question).await;
        let names: Vec<_> = list.config_file_infos.iter().map(|it| it.file_name.clone()).collect();
        assert_eq!((list.code, names), (Some(200_000), vec![some("app.yaml")]));
        assert!(list.config_file_infos[0].content.is_none());
        question.revision = list.revision;
        let again: v1::ConfigClientListResponse = client.call(path, &question).await;
        assert_eq!(again.code, Some(200_001));
        client.publish("a: 3").await;
        let changed: v1::ConfigClientListResponse = client.call(path, &question).await;
        assert_eq!((changed.code, changed.config_file_infos.len()), (Some(200_000), 1));
    });
}

#[test]
fn a_watch_is_answered_by_the_publication() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        client.publish("a: 1").await;
        let at_once = client.config("WatchConfigFiles", &watch(0)).await;
        assert_eq!(at_once.code, Some(200_000));
        let mut waiting = client.watch(&polaris, 1).await;
        client.write("a: 2").await;
        assert_eq!(polaris.registry.config_watch_count(), 1, "an edit is no publication");
        let published = client.config("PublishConfigFile", &release()).await;
        assert_eq!(published.code, Some(200_000));
        let answer = answer(&mut waiting).await;
        let changed = answer.config_file.expect("the file");
        assert_eq!((answer.code, changed.version), (Some(200_000), Some(2)));
        assert_eq!((changed.content, changed.file_name), (None, some("app.yaml")));
        assert_eq!(waiting.end().await.code, Some(0));
        assert_eq!(polaris.registry.config_watch_count(), 0);
    });
}

#[test]
fn a_watch_of_a_file_that_goes_is_answered_and_the_next_one_waits() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        client.publish("a: 1").await;
        let mut waiting = client.watch(&polaris, 1).await;
        let key = ConfigFileKey::new("ns", "group", "app.yaml");
        let delete = ConfigCommand::DeleteFile(key);
        polaris.registry.submit(Command::Config("".into(), Box::new(delete))).await.expect("gone");
        let answer = answer(&mut waiting).await;
        assert_eq!(answer.code, Some(200_000));
        assert_eq!(client.config("GetConfigFile", &asked(0)).await.code, Some(400_202));
        drop(waiting);
        let next = client.watch(&polaris, 2).await;
        assert_eq!(polaris.registry.config_watch_count(), 1);
        drop(next);
    });
}

#[test]
fn a_watch_without_a_change_ends_after_half_a_minute() {
    let polaris = Polaris::start_at(Gate::Open, TimeOfServer::LeapsWhenAsked);
    run(async {
        let client = polaris.connect().await;
        client.publish("a: 1").await;
        let mut waiting = client.watch(&polaris, 1).await;
        polaris.server.leap();
        let answer = answer(&mut waiting).await;
        assert_eq!((answer.code, answer.config_file), (Some(200_001), None));
    });
}

#[test]
fn the_watch_of_a_client_that_leaves_is_forgotten() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        client.publish("a: 1").await;
        let waiting = client.watch(&polaris, 1).await;
        client.0.cut().await;
        drop(waiting);
        while polaris.registry.config_watch_count() > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn what_cannot_be_watched_is_told_so() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let nothing = v1::ClientWatchConfigFileRequest::default();
        assert_eq!(client.config("WatchConfigFiles", &nothing).await.code, Some(400_806));
        let nameless = v1::ClientConfigFileInfo { file_name: None, ..asked(0) };
        let nameless =
            v1::ClientWatchConfigFileRequest { watch_files: vec![nameless], ..Default::default() };
        assert_eq!(client.config("WatchConfigFiles", &nameless).await.code, Some(400_000));
        let mut many = watch(0);
        many.watch_files = (0..5_000)
            .map(|number| v1::ClientConfigFileInfo {
                file_name: Some(format!("{number}")),
                ..asked(0)
            })
            .collect();
        assert_eq!(client.config("WatchConfigFiles", &many).await.code, Some(400_103));
    });
}

#[test]
fn a_gray_release_reaches_the_clients_with_its_labels() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        client.publish("for all").await;
        client.write("for some").await;
        let unlabelled = v1::ConfigFileRelease { release_type: some("gray"), ..release() };
        let refused = client.config("PublishConfigFile", &unlabelled).await;
        assert_eq!(refused.code, Some(400_904));
        let here = client.config("PublishConfigFile", &gray("CLIENT_IP", "127.0.0.1")).await;
        assert_eq!(here.code, Some(200_000));
        assert_eq!(client.fetch().await, ("for some".to_owned(), 2), "by the peer's address");
        let elsewhere = v1::ConfigFileTag { key: some("CLIENT_IP"), value: some("10.9.9.9") };
        let other = v1::ClientConfigFileInfo { tags: vec![elsewhere], ..asked(0) };
        let answer = client.config("GetConfigFile", &other).await;
        let content = answer.config_file.and_then(|file| file.content);
        assert_eq!(content, some("for all"));
        let again = client.config("PublishConfigFile", &release()).await;
        assert_eq!(again.code, Some(409_000), "the gray release comes first");
        let waiting = client.watch(&polaris, 2).await;
        let stop = ConfigCommand::StopGray(ConfigFileKey::new("ns", "group", "app.yaml"));
        polaris.registry.submit(Command::Config("".into(), Box::new(stop))).await.expect("ended");
        drop(waiting);
        assert_eq!(client.fetch().await, ("for all".to_owned(), 3));
    });
}

#[test]
fn a_write_with_another_md5_than_the_files_is_refused() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let write = |content: &str, md5: Option<&str>| v1::ConfigFilePublishInfo {
            namespace: some("ns"),
            group: some("group"),
            file_name: some("app.yaml"),
            content: some(content),
            md5: md5.map(str::to_owned),
            ..v1::ConfigFilePublishInfo::default()
        };
        let path = "UpsertAndPublishConfigFile";
        let created = client.config(path, &write("a: 1", None)).await;
        let named = created.config_file.expect("the file is named");
        assert_eq!((created.code, named.file_name), (Some(200_000), some("app.yaml")));
        let refused = client.config(path, &write("a: 2", Some("other"))).await;
        assert_eq!(refused.code, Some(409_000));
        assert_eq!(client.fetch().await, ("a: 1".to_owned(), 1));
        let md5 = tollhouse_registry::config::md5_digits("a: 1");
        let written = client.config(path, &write("a: 2", Some(&md5))).await;
        assert_eq!(written.code, Some(200_000));
        assert_eq!(client.fetch().await, ("a: 2".to_owned(), 2));
    });
}

#[test]
fn a_stream_of_questions_is_answered_one_by_one() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        client.publish("a: 1").await;
        let mut open = client.0.open(request("/v1.PolarisConfigGRPC/Discover")).await;
        let mut revision = String::new();
        for (kind, code, names, groups) in
            [(1, 200_000, 0, 0), (2, 200_000, 1, 0), (3, 200_000, 0, 1), (9, 400_004, 0, 0)]
        {
            let question = v1::ConfigDiscoverRequest {
                r#type: kind,
                config_file: Some(asked(0)),
                ..Default::default()
            };
            open.say(&question.encode_to_vec());
            let message = open.next().await.expect("an answer");
            let answer = v1::ConfigDiscoverResponse::decode(&*message).expect("a message");
            assert_eq!((answer.code, answer.r#type), (code, kind), "{answer:?}");
            assert_eq!(answer.config_file_names.len(), names);
            assert_eq!(answer.config_file_groups.len(), groups);
            revision = if kind == 3 { answer.revision } else { revision };
        }
        let again = v1::ConfigDiscoverRequest { r#type: 3, config_file: Some(asked(0)), revision };
        open.say(&again.encode_to_vec());
        let message = open.next().await.expect("an answer");
        let answer = v1::ConfigDiscoverResponse::decode(&*message).expect("a message");
        assert_eq!(answer.code, 200_001);
    });
}

#[test]
fn a_locked_gate_takes_the_token_of_clients() {
    let polaris = Polaris::start_with(Gate::Locked);
    run(async {
        let client = polaris.connect().await;
        let path = "/v1.PolarisConfigGRPC/CreateConfigFile";
        let send = |token: &'static str| {
            let mut request = request(path);
            let token = token.parse().expect("a header value");
            request.headers_mut().insert("x-polaris-token", token);
            let message = crate::client::framed(&file("a: 1").encode_to_vec());
            let client = &client;
            async move {
                let ended = client.0.send(request, &[message]).await;
                let answer = v1::ConfigClientResponse::decode(&*ended.messages[0]);
                answer.expect("a message").code
            }
        };
        for method in ["CreateConfigFile", "UpdateConfigFile"] {
            assert_eq!(client.config(method, &file("a: 1")).await.code, Some(401_001));
        }
        for answer in [
            client.config("GetConfigFile", &asked(0)).await,
            client.config("WatchConfigFiles", &watch(0)).await,
            client.config("PublishConfigFile", &release()).await,
        ] {
            assert_eq!(answer.code, Some(401_001));
        }
        assert_eq!(send("client").await, Some(200_000));
        assert_eq!(send("right").await, Some(400_201));
        let state = polaris.registry.state_full();
        let view = state.config_file("ns", "group", "app.yaml").expect("created");
        let file = view.file.as_ref().expect("created");
        assert_eq!(&*file.dates.created_by, "", "a client has no name");
    });
}

#[test]
fn a_rollback_is_a_new_release_to_clients() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        client.write("a: 1").await;
        let named = v1::ConfigFileRelease { name: some("first"), ..release() };
        client.config("PublishConfigFile", &named).await;
        client.publish("a: 2").await;
        let mut waiting = client.watch(&polaris, 2).await;
        let key = ConfigFileKey::new("ns", "group", "app.yaml");
        let back = ConfigCommand::Rollback(ReleaseRef { key, name: "first".into() });
        polaris.registry.submit(Command::Config("".into(), Box::new(back))).await.expect("back");
        let version = answer(&mut waiting).await.config_file.and_then(|file| file.version);
        assert_eq!(version, Some(3));
        assert_eq!(client.fetch().await, ("a: 1".to_owned(), 3));
    });
}

#[test]
fn the_key_of_an_encrypted_file_is_wrapped_for_a_client_that_sends_its_own() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let encrypted = v1::ConfigFile {
            encrypted: Some(true),
            encrypt_algo: some("AES"),
            ..file("secret: 1")
        };
        assert_eq!(client.config("CreateConfigFile", &encrypted).await.code, Some(200_000));
        assert_eq!(client.config("PublishConfigFile", &release()).await.code, Some(200_000));
        let asked_badly = v1::ClientConfigFileInfo { public_key: some("no key"), ..asked(0) };
        let refused = client.config("GetConfigFile", &asked_badly).await;
        assert_eq!((refused.code, refused.config_file), (Some(400_809), None));
        let mut keys = Vec::new();
        for public_key in [None, some(PUBLIC_KEY)] {
            let asked = v1::ClientConfigFileInfo { public_key, ..asked(0) };
            let answer = client.config("GetConfigFile", &asked).await;
            let found = answer.config_file.expect("the file");
            assert_eq!(found.encrypted, Some(true));
            let of_key = |tag: &&v1::ConfigFileTag| tag.key == some("internal-datakey");
            let key = found.tags.iter().find(of_key).and_then(|tag| tag.value.clone());
            keys.push(key.expect("a key").len());
        }
        assert_eq!(keys, [24, 172], "16 bytes, and a block of RSA, in base64");
    });
}

/// Key of 1024 bits, as polaris-go makes them.
const PUBLIC_KEY: &str = "\
    MIGJAoGBAL3Uskszk8Gme5qRXNhINmcGKHjyvP+Ew6k8WuLS/oS2vfL3vxjqux3EWu3OkugcdS7BxUB+SeQ3\
    9y8lOLw4dMYaDc8gG00OKKfmARKcEJ8XfXDH1TH6U/0I9Cnc7icwzM4f7SZx63btJI8qF/+XO8KqvqcAlc49\
    o61+MmUlFaNnAgMBAAE=";
