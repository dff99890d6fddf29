//! The configuration centre over HTTP.

use tollhouse_registry::Command;
use tollhouse_registry::config::{ConfigAuthor, ConfigCommand, ConfigFileChange, ConfigFileKey};

use super::*;

fn file(name: &str, content: &str) -> Value {
    json!({
        "namespace": "ns", "group": "group", "name": name, "content": content, "format": "yaml",
        "comment": "of a test", "tags": [{"key": "team", "value": "a"}],
    })
}

fn release(name: &str) -> Value {
    json!({"namespace": "ns", "group": "group", "fileName": name})
}

const FILES: &str = "/config/v1/configfiles";
const NAMED: &str = "namespace=ns&group=group&name=app.yaml";

impl Server {
    async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, TOKEN, "").await
    }

    async fn publish(&self, content: &str, release_name: &str) {
        let path = format!("{FILES}/createandpub");
        let mut written = file("app.yaml", content);
        written["file_name"] = json!("app.yaml");
        written["release_name"] = json!(release_name);
        let answer = self.post(&path, &written).await;
        assert_eq!(answer.code(), 200_000, "{}", answer.text);
    }
}

#[tokio::test]
async fn a_file_is_written_published_and_fetched() {
    let server = Server::start().await;
    let created = server.post(FILES, &file("app.yaml", "a: 1")).await;
    assert_eq!((created.status, created.code()), (200, 200_000), "{}", created.text);
    assert_eq!(created.json()["configFile"]["createBy"], "polaris");
    assert_eq!(created.json()["configFile"]["status"], "to-be-released");
    assert_eq!(server.post(FILES, &file("app.yaml", "a: 1")).await.code(), 400_201);
    let same = server.write("PUT", FILES, &file("app.yaml", "a: 1")).await;
    assert_eq!((same.status, same.code()), (200, 200_000));
    let published = server.post(&format!("{FILES}/release"), &release("app.yaml")).await;
    assert_eq!(published.code(), 200_000, "{}", published.text);
    assert_eq!(published.json()["configFileRelease"]["version"], "1");
    for root in ["/v1", "/config/v1"] {
        let path = format!("{root}/GetConfigFile?namespace=ns&group=group&fileName=app.yaml");
        let fetched = server.send("GET", &path, "", "").await.json();
        assert_eq!(fetched["configFile"]["content"], "a: 1", "{fetched}");
        assert_eq!(fetched["configFile"]["version"], "1");
    }
    let shown = server.get(&format!("{FILES}?{NAMED}")).await.json();
    assert_eq!(shown["configFile"]["status"], "normal", "{shown}");
    assert_eq!(shown["configFile"]["tags"], json!([{"key": "team", "value": "a"}]));
    let updated = server.write("PUT", FILES, &file("app.yaml", "a: 2")).await;
    assert_eq!(updated.json()["configFile"]["status"], "to-be-released", "{}", updated.text);
    let deleted = server.delete(&format!("{FILES}?{NAMED}")).await;
    assert_eq!(deleted.code(), 200_000);
    let path = "/config/v1/GetConfigFile?namespace=ns&group=group&fileName=app.yaml";
    assert_eq!(server.send("GET", path, "", "").await.code(), 400_202);
}

#[tokio::test]
async fn groups_are_listed_with_their_files_and_deleted_when_empty() {
    let server = Server::start().await;
    let groups = "/config/v1/configfilegroups";
    let group = json!({"namespace": "ns", "name": "group", "comment": "first", "business": "b"});
    assert_eq!(server.post(groups, &group).await.code(), 200_000);
    assert_eq!(server.post(groups, &group).await.code(), 400_201);
    let invalid = json!({"namespace": "ns", "name": "a b"});
    assert_eq!(server.post(groups, &invalid).await.code(), 400_801);
    let change = json!({"namespace": "ns", "name": "group", "comment": "second", "business": "b"});
    assert_eq!(server.write("PUT", groups, &change).await.code(), 200_000);
    assert_eq!(server.write("PUT", groups, &change).await.code(), 200_002);
    let absent = json!({"namespace": "ns", "name": "absent"});
    assert_eq!(server.write("PUT", groups, &absent).await.code(), 400_202);
    server.post(FILES, &file("app.yaml", "a: 1")).await;
    let list = server.get(&format!("{groups}?namespace=ns&group=gro*")).await.json();
    assert_eq!((&list["total"], &list["code"]), (&json!(1), &json!(200_000)), "{list}");
    let found = &list["configFileGroups"][0];
    assert_eq!((&found["comment"], &found["fileCount"]), (&json!("second"), &json!("1")));
    for (query, total) in
        [("fileName=app*", 1), ("fileName=other", 0), ("business=b", 1), ("namespace=x", 0)]
    {
        let list = server.get(&format!("{groups}?{query}")).await.json();
        assert_eq!(list["total"], total, "{query}: {list}");
    }
    let delete = format!("{groups}?namespace=ns&group=group");
    assert_eq!(server.delete(&delete).await.code(), 400_201, "it has a file");
    let namespaces = "/naming/v1/namespaces/delete";
    let refused = server.post(namespaces, &json!([{"name": "ns"}])).await;
    assert_eq!(refused.code(), 400_219);
    let files = json!([file("app.yaml", ""), file("absent", "")]);
    assert_eq!(server.post(&format!("{FILES}/batchdelete"), &files).await.code(), 200_000);
    assert_eq!(server.delete(&delete).await.code(), 200_000);
    assert_eq!(server.delete(&delete).await.code(), 400_202);
    assert_eq!(server.post(namespaces, &json!([{"name": "ns"}])).await.code(), 200_000);
}

#[tokio::test]
async fn files_are_found_by_group_name_and_tags() {
    let server = Server::start().await;
    for name in ["a.yaml", "b.yaml", "c.txt"] {
        server.post(FILES, &file(name, name)).await;
    }
    for (query, expected) in [
        ("namespace=ns&group=group", vec!["c.txt", "b.yaml", "a.yaml"]),
        ("name=*.yaml&order_field=name&order_type=asc", vec!["a.yaml", "b.yaml"]),
        ("group=other", vec![]),
        ("tags=team,a&limit=1", vec!["c.txt"]),
        ("tags=team,b", vec![]),
        ("offset=1&limit=1", vec!["b.yaml"]),
    ] {
        for path in ["search", "by-group"] {
            let list = server.get(&format!("{FILES}/{path}?{query}")).await.json();
            let names = list["configFiles"].as_array().expect("a list").iter();
            let names: Vec<_> = names.filter_map(|file| file["name"].as_str()).collect();
            assert_eq!(names, expected, "{path} {query}: {list}");
        }
    }
}

#[tokio::test]
async fn releases_are_listed_rolled_back_and_deleted() {
    let server = Server::start().await;
    server.publish("a: 1", "first").await;
    server.publish("a: 2", "second").await;
    let list =
        server.get(&format!("{FILES}/releases?namespace=ns&file_name=app.yaml")).await.json();
    let found: Vec<_> = list["configFileReleases"].as_array().expect("a list").iter().collect();
    let names: Vec<_> = found.iter().map(|it| (&it["name"], &it["active"])).collect();
    let expected = (json!("second"), json!(true), json!("first"), json!(false));
    assert_eq!(names, [(&expected.0, &expected.1), (&expected.2, &expected.3)], "{list}");
    assert_eq!(found[0]["content"], Value::Null, "lists are without contents");
    let active = format!("{FILES}/releases?namespace=ns&only_active=true");
    assert_eq!(server.get(&active).await.json()["total"], 1);
    let back =
        json!([{"namespace": "ns", "group": "group", "fileName": "app.yaml", "name": "first"}]);
    let path = format!("{FILES}/releases/rollback");
    let rolled = server.write("PUT", &path, &back).await.json();
    assert_eq!((&rolled["code"], &rolled["total"]), (&json!(200_000), &json!(1)), "{rolled}");
    let one = format!("{FILES}/release?namespace=ns&group=group&name=app.yaml");
    let now = server.get(&one).await.json();
    let now = &now["configFileRelease"];
    assert_eq!((&now["content"], &now["version"]), (&json!("a: 1"), &json!("3")), "{now}");
    let other = server.get(&format!("{one}&release_name=second")).await.json();
    assert_eq!(other["configFileRelease"]["active"], false);
    let absent = server.get(&format!("{one}&release_name=third")).await.json();
    assert_eq!((&absent["code"], &absent["configFileRelease"]), (&json!(200_000), &Value::Null));
    let versions = format!("{FILES}/release/versions?namespace=ns&group=group");
    let incomplete = server.get(&versions).await;
    assert_eq!(incomplete.code(), 400_000);
    let info = incomplete.json()["info"].to_string();
    assert!(info.starts_with("\"invalid "), "the text is the field's alone: {info}");
    assert_eq!(server.get(&format!("{versions}&file_name=app.yaml")).await.json()["total"], 2);
    let unknown =
        json!([{"namespace": "ns", "group": "group", "fileName": "app.yaml", "name": "x"}]);
    let rolled = server.write("PUT", &path, &unknown).await.json();
    assert_eq!(rolled["responses"][0]["code"], 400_202, "{rolled}");
    let deleted = server.post(&format!("{FILES}/releases/delete"), &back).await;
    assert_eq!(deleted.code(), 200_000, "{}", deleted.text);
    let history = format!("{FILES}/releasehistory?namespace=ns&group=group&name=app.yaml");
    let entries = server.get(&history).await.json();
    let entries = entries["configFileReleaseHistories"].as_array().expect("a list").clone();
    let kinds: Vec<_> = entries.iter().filter_map(|entry| entry["type"].as_str()).collect();
    assert_eq!(kinds, ["delete", "rollback", "normal", "normal"]);
    assert_eq!(
        (&entries[3]["content"], &entries[3]["status"]),
        (&json!("a: 1"), &json!("success"))
    );
    let end = entries[2]["id"].as_str().expect("an id");
    let older = server.get(&format!("{history}&endId={end}")).await.json();
    assert_eq!(older["total"], 1, "{older}");
}

#[tokio::test]
async fn a_gray_release_is_shown_and_stopped() {
    let server = Server::start().await;
    server.publish("for all", "").await;
    server.write("PUT", FILES, &file("app.yaml", "for some")).await;
    let mut gray = release("app.yaml");
    gray["releaseType"] = json!("gray");
    let path = format!("{FILES}/release");
    assert_eq!(server.post(&path, &gray).await.code(), 400_904);
    let value = json!({"type": "IN", "value": "10.0.0.1,10.0.0.2"});
    gray["betaLabels"] = json!([{"key": "CLIENT_IP", "value": value}]);
    assert_eq!(server.post(&path, &gray).await.code(), 200_000);
    let shown = server.get(&format!("{FILES}?{NAMED}")).await.json();
    assert_eq!(shown["configFile"]["status"], "betaing", "{shown}");
    let fetch = |tag: &str| {
        let named = "namespace=ns&group=group&fileName=app.yaml";
        format!("/config/v1/GetConfigFile?{named}&tags=CLIENT_IP%3D{tag}")
    };
    for (address, expected) in [("10.0.0.2", "for some"), ("10.0.0.3", "for all")] {
        let fetched = server.send("GET", &fetch(address), "", "").await.json();
        assert_eq!(fetched["configFile"]["content"], expected, "{address}");
    }
    let list = server.get(&format!("{FILES}/releases?only_active=true")).await.json();
    let labels = &list["configFileReleases"][0]["betaLabels"];
    assert_eq!(labels[0]["value"]["type"], "IN", "{list}");
    assert_eq!(server.post(&path, &release("app.yaml")).await.code(), 409_000);
    let stop = json!([release("app.yaml")]);
    assert_eq!(server.post(&format!("{FILES}/releases/stopbeta"), &stop).await.code(), 200_000);
    let fetched = server.send("GET", &fetch("10.0.0.2"), "", "").await.json();
    assert_eq!(fetched["configFile"]["content"], "for all");
}

#[tokio::test]
async fn templates_are_kept() {
    let server = Server::start().await;
    let path = "/config/v1/configfiletemplates";
    let template = json!({"name": "t", "content": "text", "format": "text"});
    assert_eq!(server.post(path, &template).await.code(), 200_000);
    assert_eq!(server.post(path, &template).await.code(), 400_201);
    assert_eq!(server.post(path, &json!({"name": "", "content": "x"})).await.code(), 400_808);
    assert_eq!(server.post(path, &json!({"name": ""})).await.code(), 400_808);
    assert_eq!(server.post(path, &json!({"name": "x"})).await.code(), 400_000);
    let list = server.get(path).await.json();
    assert_eq!(
        (&list["total"], &list["configFileTemplates"][0]["content"]),
        (&json!(1), &json!("text"))
    );
}

#[tokio::test]
async fn templates_are_as_long_as_at_polaris() {
    let server = Server::start().await;
    for (name, chars, code) in [("long", 20_000, 200_000), ("longer", 20_001, 400_803)] {
        // Characters are counted, not bytes.
        let template = json!({"name": name, "content": "\u{9879}".repeat(chars)});
        let answer = server.post("/config/v1/configfiletemplates", &template).await;
        assert_eq!(answer.code(), code, "{name}");
    }
}

#[tokio::test]
async fn the_consoles_calls_need_its_token() {
    let server = Server::start().await;
    let json_type = "content-type: application/json\r\n";
    for (method, path) in [
        ("POST", FILES.to_owned()),
        ("PUT", FILES.to_owned()),
        ("GET", format!("{FILES}?{NAMED}")),
        ("DELETE", format!("{FILES}?{NAMED}")),
        ("GET", format!("{FILES}/search")),
        ("POST", format!("{FILES}/release")),
        ("PUT", format!("{FILES}/releases/rollback")),
        ("GET", "/config/v1/configfilegroups".to_owned()),
        ("GET", format!("{FILES}/releasehistory")),
    ] {
        let answer = server.send(method, &path, json_type, "{}").await;
        assert_eq!((answer.status, answer.code()), (401, 401_001), "{method} {path}");
    }
}

#[tokio::test]
async fn a_long_poll_is_answered_by_the_publication() {
    let server = Server::start().await;
    server.publish("a: 1", "").await;
    let watched = json!({"watchFiles": [{
        "namespace": "ns", "group": "group", "fileName": "app.yaml", "version": "1",
    }]});
    let waiting = server.client("WatchConfigFile", &watched);
    let publishing = async {
        while server.dialect.registry().config_watch_count() == 0 {
            tokio::task::yield_now().await;
        }
        server.publish("a: 2", "").await;
    };
    let (answer, ()) = tokio::join!(waiting, publishing);
    let answer = answer.json();
    assert_eq!((&answer["code"], &answer["configFile"]["version"]), (&json!(200_000), &json!("2")));
    assert_eq!(answer["configFile"]["content"], Value::Null);
    let group = json!({"configFileGroup": {"namespace": "ns", "name": "group"}});
    let list = server.client("GetConfigFileMetadataList", &group).await.json();
    assert_eq!(list["config_file_infos"][0]["version"], "2", "{list}");
    let question = json!({"type": "CONFIG_FILE_GROUPS", "config_file": {"namespace": "ns"}});
    let found = server.client("ConfigDiscover", &question).await.json();
    assert_eq!(found["config_file_groups"][0]["name"], "group", "{found}");
}

#[tokio::test]
async fn an_encrypted_file_is_plain_in_the_console_and_encrypted_for_clients() {
    let server = Server::start().await;
    let mut written = file("app.yaml", "secret: 1");
    (written["encrypted"], written["encryptAlgo"]) = (json!(true), json!("AES"));
    let created = server.post(FILES, &written).await;
    assert_eq!(created.json()["configFile"]["content"], "secret: 1", "{}", created.text);
    assert_eq!(created.json()["configFile"]["encryptAlgo"], "AES");
    assert!(!created.text.contains("internal-datakey"), "{}", created.text);
    let state = server.dialect.registry().state_full();
    let view = state.config_file("ns", "group", "app.yaml").expect("created");
    assert!(!view.file.as_ref().expect("created").content.contains("secret"));
    let same = server.write("PUT", FILES, &written).await;
    assert_eq!(same.code(), 200_000, "{}", same.text);
    let state = server.dialect.registry().state_full();
    let after = state.config_file("ns", "group", "app.yaml").expect("created");
    assert_eq!(after.file, view.file, "the key stays");
    server.post(&format!("{FILES}/release"), &release("app.yaml")).await;
    let path = "/v1/GetConfigFile?namespace=ns&group=group&fileName=app.yaml";
    let fetched = server.send("GET", path, "", "").await.json();
    let fetched = &fetched["configFile"];
    assert_eq!(fetched["encrypted"], true);
    assert!(!fetched["content"].as_str().expect("a text").contains("secret"), "{fetched}");
    let tags = fetched["tags"].as_array().expect("tags");
    let key = tags.iter().find(|tag| tag["key"] == "internal-datakey");
    assert_eq!(key.expect("the key")["value"].as_str().map(str::len), Some(24));
    let history = server.get(&format!("{FILES}/releasehistory?namespace=ns")).await.json();
    assert_eq!(history["configFileReleaseHistories"][0]["content"], "secret: 1", "{history}");
    written["encrypted"] = json!(false);
    let opened = server.write("PUT", FILES, &written).await.json();
    assert_eq!(opened["configFile"]["encrypted"], false, "{opened}");
    assert_eq!(opened["configFile"]["content"], "secret: 1");
    let mut unknown = file("other.yaml", "a: 1");
    (unknown["encrypted"], unknown["encryptAlgo"]) = (json!(true), json!("ROT13"));
    assert_eq!(server.post(FILES, &unknown).await.code(), 400_809);
    let algorithms = server.get(&format!("{FILES}/encryptalgorithm")).await.json();
    assert_eq!(algorithms["algorithms"], json!(["AES"]));
}

#[tokio::test]
async fn any_content_is_published_where_the_server_is_told_to() {
    let server = Server::start().await;
    server.post(FILES, &file("app.yaml", "a: [1")).await;
    let publish = release("app.yaml").to_string();
    let descriptor = crate::http::console::descriptor("v1.ConfigFileRelease");
    let message = crate::json::read(&descriptor, publish.as_bytes()).expect("a release");
    let mut codes = Vec::new();
    for dialect in [server.dialect.clone(), server.dialect.clone().with_forced_publication()] {
        let caller =
            crate::dialect::Caller { token: Some("client"), address: None, operator: None };
        let reply = dialect.publish_config_file(&caller, &message).await;
        codes.push(reply.expect("a message").code);
    }
    assert_eq!(codes, [crate::Code::InvalidConfigFileFormat, crate::Code::ExecuteSuccess]);
}

#[tokio::test]
async fn a_content_that_does_not_parse_is_published_only_by_force() {
    let server = Server::start().await;
    server.post(FILES, &file("app.yaml", "a: [1")).await;
    let path = format!("{FILES}/release");
    let refused = server.post(&path, &release("app.yaml")).await;
    assert_eq!((refused.status, refused.code()), (400, 400_804), "{}", refused.text);
    assert!(refused.text.contains("force=true"), "{}", refused.text);
    let mut written = file("app.yaml", "{");
    (written["file_name"], written["format"]) = (json!("app.yaml"), json!("json"));
    let both = format!("{FILES}/createandpub");
    assert_eq!(server.post(&both, &written).await.code(), 400_804);
    let shown = server.get(&format!("{FILES}?{NAMED}")).await.json();
    assert_eq!(shown["configFile"]["content"], "a: [1", "neither is done");
    assert_eq!(
        server.post(&format!("{path}?force=true"), &release("app.yaml")).await.code(),
        200_000
    );
    assert_eq!(server.post(&format!("{both}?force=true"), &written).await.code(), 200_000);
}

#[tokio::test]
async fn files_are_exported_and_imported_as_an_archive() {
    let server = Server::start().await;
    for name in ["a.yaml", "b.yaml"] {
        server.post(FILES, &file(name, name)).await;
    }
    let mut secret = file("c.yaml", "secret: 1");
    secret["encrypted"] = json!(true);
    server.post(FILES, &secret).await;
    let path = format!("{FILES}/export");
    for (body, code) in [
        (json!({"groups": ["group"]}), 400_110),
        (json!({"namespace": "ns"}), 400_103),
        (json!({"namespace": "ns", "groups": ["group", "g"], "names": ["a"]}), 400_103),
        (json!({"namespace": "ns", "groups": ["absent"]}), 400_807),
    ] {
        assert_eq!(server.post(&path, &body).await.code(), code, "{body}");
    }
    let whole = json!({"namespace": "ns", "groups": ["group"]});
    let (head, archive) =
        server.bytes(&path, "application/json", whole.to_string().as_bytes()).await;
    assert!(head.contains("application/zip") && head.contains("config.zip"), "{head}");
    let import = |query: &str| format!("{FILES}/import?namespace=other&{query}");
    let first = server.import(&import(""), &archive).await;
    assert_eq!(first["code"], 200_000, "{first}");
    assert_eq!(first["createConfigFiles"].as_array().map(Vec::len), Some(3), "{first}");
    let named = format!("{FILES}?namespace=other&group=group&name=a.yaml");
    let shown = server.get(&named).await.json();
    let shown = &shown["configFile"];
    assert_eq!((&shown["content"], &shown["format"]), (&json!("a.yaml"), &json!("yaml")));
    assert_eq!((&shown["comment"], &shown["tags"][0]["value"]), (&json!("of a test"), &json!("a")));
    let opened = server.get(&named.replace("a.yaml", "c.yaml")).await.json();
    assert_eq!(opened["configFile"]["content"], "secret: 1", "{opened}");
    assert_eq!(opened["configFile"]["encrypted"], true);
    for (query, list) in [
        ("conflict_handling=skip", "skipConfigFiles"),
        ("conflict_handling=overwrite", "overwriteConfigFiles"),
        ("group=elsewhere", "createConfigFiles"),
    ] {
        let again = server.import(&import(query), &archive).await;
        assert_eq!(again[list].as_array().map(Vec::len), Some(3), "{query}: {again}");
    }
    for (query, bytes, code) in
        [("conflict_handling=x", &archive[..], 400_103), ("", b"no archive".as_slice(), 400_001)]
    {
        assert_eq!(server.import(&import(query), bytes).await["code"], code, "{query}");
    }
}

#[tokio::test]
async fn parameters_of_an_import_are_fields_of_its_form() {
    let server = Server::start().await;
    server.post(FILES, &file("a.yaml", "a: 1")).await;
    let whole = json!({"namespace": "ns", "groups": ["group"]}).to_string();
    let (_, archive) =
        server.bytes(&format!("{FILES}/export"), "application/json", whole.as_bytes()).await;
    let path = format!("{FILES}/import");
    let none = server.import_with(&path, &[("group", "elsewhere")], &archive).await;
    assert_eq!(none["code"], 400_110, "{none}");
    let fields = [("namespace", "other"), ("group", "elsewhere"), ("conflict_handling", "skip")];
    for list in ["createConfigFiles", "skipConfigFiles"] {
        let answer = server.import_with(&path, &fields, &archive).await;
        assert_eq!(answer[list][0]["group"], "elsewhere", "{answer}");
    }
}

impl Server {
    /// Posts bytes, and returns the head and the bytes of the answer.
    async fn bytes(&self, path: &str, content_type: &str, body: &[u8]) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).await.expect("listening");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{TOKEN}\
             content-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).await.expect("taken");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("answered");
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let body = bytes.split_off(end + 4);
        (String::from_utf8(bytes).expect("a head is text"), body)
    }

    async fn import(&self, path: &str, archive: &[u8]) -> Value {
        self.import_with(path, &[], archive).await
    }

    /// Posts a form of these fields and an archive.
    async fn import_with(&self, path: &str, fields: &[(&str, &str)], archive: &[u8]) -> Value {
        let part = |name: &str| format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"");
        let mut form = Vec::new();
        for (name, value) in fields {
            form.extend_from_slice(format!("{}\r\n\r\n{value}\r\n", part(name)).as_bytes());
        }
        let head = format!("{}; filename=\"c.zip\"\r\n\r\n", part("config"));
        form.extend_from_slice(&[head.as_bytes(), archive, b"\r\n--b--\r\n"].concat());
        let (_, body) = self.bytes(path, "multipart/form-data; boundary=b", &form).await;
        serde_json::from_slice(&body).expect("JSON")
    }
}

#[tokio::test]
async fn files_are_searched_by_their_content_but_not_encrypted_ones() {
    let server = Server::start().await;
    server.post(FILES, &file("app.yaml", "pool: Large")).await;
    let mut sealed = file("sealed.yaml", "pool: large");
    sealed["encrypted"] = json!(true);
    server.post(FILES, &sealed).await;
    let search = async |text: &str| {
        let found = server.get(&format!("{FILES}/search?namespace=ns&content={text}")).await.json();
        found["total"].clone()
    };
    assert_eq!(search("LARGE").await, 1);
    assert_eq!(search("small").await, 0);
}

#[tokio::test]
async fn a_file_whose_data_key_is_lost_is_neither_changed_nor_published() {
    let server = Server::start().await;
    let mut written = file("app.yaml", "secret: 1");
    (written["encrypted"], written["encryptAlgo"]) = (json!(true), json!("AES"));
    server.post(FILES, &written).await;
    let known = |server: &Server| {
        let state = server.dialect.registry().state_full();
        state.config_file("ns", "group", "app.yaml").expect("created").file.clone().expect("a file")
    };
    let (mut tags, content) = (known(&server).tags.clone(), known(&server).content.clone());
    // The store returns an empty text for a key that it cannot open.
    tags.insert("internal-datakey".into(), "".into());
    let change = ConfigFileChange { tags: Some(tags), ..ConfigFileChange::default() };
    let key = ConfigFileKey::new("ns", "group", "app.yaml");
    let lose = ConfigCommand::UpdateFile(key.clone(), change);
    let lose = Command::Config(ConfigAuthor::default(), Box::new(lose));
    server.dialect.registry().submit(lose).await.expect("changed");
    for encrypted in [Value::Null, json!(true), json!(false)] {
        let mut other = file("app.yaml", "secret: 2");
        other["encrypted"] = encrypted;
        let refused = server.write("PUT", FILES, &other).await;
        assert_eq!(refused.code(), 400_809, "{}", refused.text);
        assert!(refused.text.contains("encryption.keyring"), "{}", refused.text);
    }
    let refused = server.post(&format!("{FILES}/release"), &release("app.yaml")).await;
    assert_eq!(refused.code(), 400_809, "{}", refused.text);
    assert_eq!(known(&server).content, content, "nothing was written");
    let delete = json!([{"namespace": "ns", "group": "group", "name": "app.yaml"}]);
    assert_eq!(server.post(&format!("{FILES}/batchdelete"), &delete).await.code(), 200_000);
    assert_eq!(server.post(FILES, &written).await.code(), 200_000, "the remedy");
}
