//! The configuration centre: what publications show to clients, what stays of them, and what a
//! restart and a transfer keep.

use super::*;
use crate::config::{
    ClientLabel, ConfigCommand, ConfigEventKind, ConfigFileChange, ConfigFileKey, ConfigFileView,
    ConfigGroupChange, ConfigOutcome, ConfigTemplate, Dates, LabelMatch, NewRelease, ReleaseRef,
    md5_digits,
};
use crate::instance::Metadata;
use crate::limits::{
    CONFIG_CONTENT_BYTES_MAX, CONFIG_DELETED_FILES_MAX, CONFIG_HISTORY_MAX, CONFIG_RELEASES_MAX,
};
use crate::refusal::Noun;
use crate::transfer::{Effect, Object};

fn key(name: &str) -> ConfigFileKey {
    ConfigFileKey::new("ns", "group", name)
}

fn content(text: &str) -> ConfigFileChange {
    ConfigFileChange { content: Some(text.into()), ..ConfigFileChange::default() }
}

fn gray(address: &str) -> NewRelease {
    let label = ClientLabel::new("CLIENT_IP", LabelMatch::Exact, address);
    NewRelease { labels: vec![label], ..NewRelease::default() }
}

fn client(address: &str) -> Metadata {
    Metadata::from([("CLIENT_IP".into(), address.into())])
}

impl Bench {
    fn config(&mut self, command: ConfigCommand) -> Result<ConfigOutcome, Refusal> {
        match self.apply(Command::Config("alice".into(), Box::new(command)))? {
            Outcome::Config(outcome) => Ok(outcome),
            other => panic!("{other:?}"),
        }
    }

    fn edit(&mut self, name: &str, text: &str) {
        let known = self.view(name).is_some_and(|view| view.file.is_some());
        let command = if known { ConfigCommand::UpdateFile } else { ConfigCommand::CreateFile };
        self.config(command(key(name), content(text))).expect("written");
    }

    fn publish(&mut self, name: &str, release: NewRelease) -> Result<ConfigOutcome, Refusal> {
        self.config(ConfigCommand::Publish(key(name), release))
    }

    fn released(&mut self, name: &str, text: &str) {
        self.edit(name, text);
        self.publish(name, NewRelease::default()).expect("published");
    }

    fn view(&self, name: &str) -> Option<&ConfigFileView> {
        self.state.config_file("ns", "group", name).map(|view| &**view)
    }

    /// Content and version for a client at an address.
    fn seen_by(&self, name: &str, address: &str) -> Option<(String, u64)> {
        let release = self.view(name)?.release_for(&client(address))?;
        Some((release.content.to_string(), release.version))
    }

    fn events(&self, name: &str) -> Vec<ConfigEventKind> {
        self.view(name).expect("known").history.iter().map(|event| event.kind).collect()
    }
}

fn seen(text: &str, version: u64) -> Option<(String, u64)> {
    Some((text.to_owned(), version))
}

/// All that readers see, as text.
fn shown(state: &State) -> String {
    let mut groups: Vec<_> = state.config_groups().collect();
    groups.sort_by_key(|view| view.group.id);
    let mut text = format!("{:?}", state.config_totals());
    for view in groups {
        let mut files: Vec<_> = view.files().collect();
        files.sort_by_key(|file| file.history.last().map(|event| event.id));
        let files: Vec<_> = files
            .iter()
            .map(|view| {
                let ConfigFileView { file, releases, history, active, gray } = &***view;
                let ids = [active, gray].map(|it| it.as_ref().map(|it| (it.id, it.version)));
                let releases: Vec<_> = releases.iter().map(|it| (&it.name, it.version)).collect();
                format!("{file:?} {releases:?} {history:?} {ids:?}")
            })
            .collect();
        let revision = view.releases_revision;
        text.push_str(&format!("\n{:?} {} {revision} {files:?}", view.group, view.file_count));
    }
    text
}

#[test]
fn clients_see_a_release_and_never_the_working_copy() {
    let mut bench = Bench::new();
    bench.edit("app.yaml", "a: 1");
    assert_eq!(bench.seen_by("app.yaml", "10.0.0.1"), None);
    bench.publish("app.yaml", NewRelease::default()).expect("published");
    bench.edit("app.yaml", "a: 2");
    assert_eq!(bench.seen_by("app.yaml", "10.0.0.1"), seen("a: 1", 1));
    bench.publish("app.yaml", NewRelease::default()).expect("published");
    assert_eq!(bench.seen_by("app.yaml", "10.0.0.1"), seen("a: 2", 2));
    let release = bench.view("app.yaml").and_then(|view| view.active.clone()).expect("active");
    assert_eq!(&*release.md5, md5_digits("a: 2"));
    assert_eq!(&*release.dates.modified_by, "alice");
    assert_eq!(&*release.name, "app.yaml-1700000000-2");
    let group = bench.state.config_group("ns", "group").expect("made with its first file");
    assert_eq!((group.group.comment.as_str(), group.file_count), ("auto created", 1));
}

#[test]
fn a_rollback_brings_an_earlier_release_back_under_a_new_version() {
    let mut bench = Bench::new();
    for text in ["one", "two"] {
        bench.edit("f", text);
        let release = NewRelease { name: text.into(), ..NewRelease::default() };
        bench.publish("f", release).expect("published");
    }
    let back = |name: &str| ReleaseRef { key: key("f"), name: name.into() };
    bench.config(ConfigCommand::Rollback(back("one"))).expect("rolled back");
    assert_eq!(bench.seen_by("f", "x"), seen("one", 3));
    let absent = bench.config(ConfigCommand::Rollback(back("three")));
    assert_eq!(absent.err(), Some(Refusal::NotFound(Noun::ConfigRelease)));
    bench.config(ConfigCommand::DeleteRelease(back("one"))).expect("deleted");
    assert_eq!(bench.seen_by("f", "x"), None);
    bench.publish("f", NewRelease::default()).expect("published");
    assert_eq!(bench.seen_by("f", "x"), seen("two", 5), "clients know up to 4");
    use ConfigEventKind::{DeleteRelease, Release, Rollback};
    assert_eq!(bench.events("f"), [Release, Release, Rollback, DeleteRelease, Release]);
}

#[test]
fn a_release_of_a_known_name_replaces_that_one() {
    let mut bench = Bench::new();
    let named = || NewRelease { name: "v".into(), ..NewRelease::default() };
    bench.edit("f", "one");
    bench.publish("f", named()).expect("published");
    bench.edit("f", "two");
    bench.publish("f", named()).expect("published");
    assert_eq!(bench.seen_by("f", "x"), seen("two", 2));
    assert_eq!(bench.view("f").expect("known").releases.len(), 1);
}

#[test]
fn a_gray_release_is_for_clients_with_its_labels_until_it_ends() {
    let mut bench = Bench::new();
    bench.released("f", "for all");
    bench.edit("f", "for some");
    bench.publish("f", gray("10.0.0.1")).expect("published");
    assert_eq!(bench.seen_by("f", "10.0.0.1"), seen("for some", 2));
    assert_eq!(bench.seen_by("f", "10.0.0.2"), seen("for all", 1));
    assert_eq!(bench.publish("f", NewRelease::default()).err(), Some(Refusal::Conflict));
    bench.config(ConfigCommand::StopGray(key("f"))).expect("ended");
    assert_eq!(bench.seen_by("f", "10.0.0.1"), seen("for all", 3), "newer than the gray one");
    bench.publish("f", NewRelease::default()).expect("published");
    assert_eq!(bench.seen_by("f", "10.0.0.1"), seen("for some", 4));
    use ConfigEventKind::{Gray, Release, StopGray};
    assert_eq!(bench.events("f"), [Release, Gray, StopGray, Release]);
    let label = ClientLabel::new("k", LabelMatch::Regex, "(");
    let invalid = NewRelease { labels: vec![label], ..NewRelease::default() };
    assert_eq!(bench.publish("f", invalid).err(), Some(Refusal::ConfigLabels));
}

#[test]
fn a_file_that_comes_back_continues_its_versions() {
    let mut bench = Bench::new();
    bench.released("f", "one");
    bench.released("f", "two");
    bench.config(ConfigCommand::DeleteFile(key("f"))).expect("deleted");
    assert_eq!(bench.seen_by("f", "x"), None);
    assert_eq!(bench.state.config_totals().files, 0);
    bench.config(ConfigCommand::DeleteFile(key("f"))).expect("deleting it again is no error");
    bench.released("f", "three");
    assert_eq!(bench.seen_by("f", "x"), seen("three", 4));
}

#[test]
fn watchers_are_woken_by_what_clients_see_and_by_nothing_else() {
    let mut bench = Bench::new();
    bench.edit("f", "one");
    assert_eq!(bench.state.take_changed_files(), []);
    bench.publish("f", NewRelease::default()).expect("published");
    assert_eq!(bench.state.take_changed_files(), [key("f")]);
    bench.edit("f", "two");
    assert_eq!(bench.state.take_changed_files(), []);
    bench.publish("f", gray("x")).expect("published");
    assert_eq!(bench.state.take_changed_files(), [key("f")]);
    bench.config(ConfigCommand::DeleteFile(key("f"))).expect("deleted");
    assert_eq!(bench.state.take_changed_files(), [key("f")]);
}

#[test]
fn writing_and_publishing_takes_both_or_neither() {
    let mut bench = Bench::new();
    let both = |text: &str, expected: Option<&str>| ConfigCommand::WriteAndPublish {
        key: key("f"),
        file: content(text),
        release: NewRelease::default(),
        expected: expected.map(Into::into),
    };
    bench.config(both("one", Some("of no file yet"))).expect("the file is new");
    assert_eq!(bench.config(both("two", Some("other"))).err(), Some(Refusal::Conflict));
    assert_eq!(bench.seen_by("f", "x"), seen("one", 1));
    bench.config(both("two", Some(&md5_digits("one")))).expect("the content is known");
    bench.config(both("two", None)).expect("an unchanged file can be published");
    assert_eq!(bench.seen_by("f", "x"), seen("two", 3));
    bench.publish("f", gray("x")).expect("published");
    assert_eq!(bench.config(both("three", None)).err(), Some(Refusal::Conflict));
    let file = bench.view("f").and_then(|view| view.file.clone()).expect("known");
    assert_eq!(&*file.content, "two");
}

#[test]
fn groups_and_namespaces_stay_while_they_have_files() {
    let mut bench = Bench::new();
    bench.released("f", "one");
    let group = ServiceKey::new("ns", "group");
    let delete = || ConfigCommand::DeleteGroup(group.clone());
    assert_eq!(bench.config(delete()).err(), Some(Refusal::InUse(Noun::ConfigFile)));
    let namespace = || Command::DeleteNamespace("ns".into());
    let refused = bench.apply(namespace()).err();
    assert_eq!(refused, Some(Refusal::InUse(Noun::ConfigGroup)));
    bench.config(ConfigCommand::DeleteFile(key("f"))).expect("deleted");
    bench.config(delete()).expect("deleted with its history");
    bench.apply(namespace()).expect("deleted");
    assert_eq!(bench.durable.len(), 0, "{:?}", bench.durable.keys());
    assert_eq!(bench.config(delete()).err(), Some(Refusal::NotFound(Noun::ConfigGroup)));
}

#[test]
fn what_is_deleted_takes_no_memory() {
    let mut bench = Bench::new();
    let before = bench.state.totals().held_bytes;
    for number in 0..5 {
        bench.released(&format!("f{number}"), "text");
    }
    bench.publish("f0", gray("x")).expect("published");
    assert!(bench.state.totals().held_bytes > before);
    for number in 0..5 {
        let name = format!("f{number}");
        bench.config(ConfigCommand::DeleteFile(key(&name))).expect("deleted");
    }
    bench.config(ConfigCommand::DeleteGroup(ServiceKey::new("ns", "group"))).expect("deleted");
    bench.apply(Command::DeleteNamespace("ns".into())).expect("deleted");
    assert_eq!(bench.state.totals().held_bytes, before);
    assert_eq!(bench.state.config_totals(), Default::default());
}

#[test]
fn names_texts_and_memory_are_bounded() {
    let mut bench = Bench::with_memory(64 * 1024);
    let long = "x".repeat(CONFIG_CONTENT_BYTES_MAX + 1);
    let bytes_max = CONFIG_CONTENT_BYTES_MAX;
    let no_group = ConfigFileKey::new("ns", "a b", "f");
    let cases = [
        (key(""), content(""), Refusal::ConfigFileName),
        (key("a\nb"), content(""), Refusal::ConfigFileName),
        (key(&"n".repeat(129)), content(""), Refusal::ConfigFileName),
        (no_group, content(""), Refusal::ConfigGroupName),
        (ConfigFileKey::new("", "g", "f"), content(""), Refusal::NamespaceName),
        (key("f"), content(&long), Refusal::ConfigContent { bytes_max }),
    ];
    for (key, change, expected) in cases {
        let refused = bench.config(ConfigCommand::CreateFile(key, change)).err();
        assert_eq!(refused, Some(expected));
    }
    let full = (0..100).find_map(|number| {
        let command = ConfigCommand::CreateFile(key(&number.to_string()), content(&long[..500]));
        bench.config(command).err()
    });
    assert!(matches!(full, Some(Refusal::OutOfMemory { .. })), "{full:?}");
}

#[test]
fn old_releases_and_entries_are_dropped_and_those_in_force_stay() {
    let mut bench = Bench::new();
    bench.edit("f", "first");
    bench.publish("f", NewRelease { name: "first".into(), ..NewRelease::default() }).expect("done");
    for number in 0..CONFIG_RELEASES_MAX + 10 {
        bench.released("f", &number.to_string());
    }
    let view = bench.view("f").expect("known");
    assert_eq!(
        (view.releases.len(), view.history.len()),
        (CONFIG_RELEASES_MAX, CONFIG_HISTORY_MAX)
    );
    assert!(view.release("first").is_none() && view.active.is_some());
    let stored = |prefix: &str| bench.durable.keys().filter(|key| key.starts_with(prefix)).count();
    assert_eq!(stored("/config-releases/"), CONFIG_RELEASES_MAX);
    assert_eq!(stored("/config-history/"), CONFIG_HISTORY_MAX);
}

#[test]
fn of_deleted_files_a_bounded_number_is_remembered() {
    let mut bench = Bench::new();
    bench.edit("kept", "text");
    for number in 0..CONFIG_DELETED_FILES_MAX + 5 {
        let name = number.to_string();
        bench.released(&name, "text");
        bench.config(ConfigCommand::DeleteFile(key(&name))).expect("deleted");
    }
    assert!(bench.view("0").is_none() && bench.view("10").is_some());
    let stored = bench.durable.keys().filter(|key| key.starts_with("/config-history/")).count();
    assert_eq!(stored, CONFIG_DELETED_FILES_MAX);
}

fn filled() -> Bench {
    let mut bench = Bench::new();
    for name in ["a", "b#c", "d"] {
        bench.released(name, "one");
        bench.released(name, "two");
    }
    bench.publish("a", gray("10.0.0.1")).expect("published");
    bench.config(ConfigCommand::DeleteFile(key("d"))).expect("deleted");
    let change = ConfigGroupChange { comment: Some("empty".into()), ..Default::default() };
    let other = ServiceKey::new("other", "g");
    bench.config(ConfigCommand::CreateGroup(other, change)).expect("created");
    let template = ConfigTemplate {
        id: 0,
        name: "t".into(),
        content: "text".into(),
        format: "text".into(),
        comment: "".into(),
        dates: Dates::default(),
    };
    let template = ConfigCommand::CreateTemplate(Box::new(template));
    bench.config(template).expect("created");
    bench
}

#[test]
fn a_restart_keeps_everything() {
    let bench = filled();
    let restarted = bench.restarted();
    assert_eq!(shown(&restarted), shown(&bench.state));
    assert_eq!(restarted.config_template("t"), bench.state.config_template("t"));
    let release = restarted.config_file("ns", "group", "a").and_then(|view| view.active.clone());
    assert_eq!(release.map(|it| it.version), Some(2));
}

#[test]
fn commits_of_other_nodes_lead_to_the_same_state() {
    let bench = filled();
    let event = |(key, value): (&Box<str>, &bytes::Bytes)| {
        tollhouse_store::Event::Put(Entry {
            key: key.clone(),
            value: value.clone(),
            create_revision: StoreRevision(1),
            mod_revision: StoreRevision(1),
            expires_at_ms: None,
        })
    };
    let events: Vec<_> = bench.durable.iter().map(event).collect();
    let mut other = State::new(7, STATE_BYTES_MAX);
    assert_eq!(other.fold(&events, START_MS, &mut Vec::new()), []);
    assert_eq!(shown(&other), shown(&bench.state));
    assert!(other.take_changed_files().contains(&key("a")));
    let gone = bench
        .durable
        .keys()
        .map(|key| tollhouse_store::Event::Delete { key: key.clone(), revision: StoreRevision(2) });
    let gone: Vec<_> = gone.collect();
    assert_eq!(other.fold(&gone, START_MS, &mut Vec::new()), []);
    assert_eq!((other.config_totals(), other.config_groups().count()), Default::default());
}

#[test]
fn a_transfer_brings_everything_and_a_second_one_nothing() {
    let source = filled();
    let mut target = Bench::new();
    for expected in [Ok(Effect::Created), Err(Refusal::NoChange)] {
        for prefix in LOADED.into_iter().filter(|prefix| prefix.starts_with("/config-")) {
            for (key, value) in source.durable.iter().filter(|(key, _)| key.starts_with(prefix)) {
                let object = Object::from_entry(key, value).expect("it is ours");
                let put = target.apply(Command::Put(object)).map(|outcome| match outcome {
                    Outcome::Put(effect) => effect,
                    other => panic!("{other:?}"),
                });
                assert_eq!(put, expected, "{key}");
            }
        }
    }
    assert_eq!(shown(&target.state), shown(&source.state));
    assert_eq!(shown(&target.restarted()), shown(&source.state));
}
