//! Released files of the configuration centre, as values of `$config://…` references.
//!
//! Values are read from the registry of this process when an object is compiled. A watch on all
//! named files compiles their objects again when a release comes into force or ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tollhouse_model::Problem;
use tollhouse_model::secret::SecretRef;
use tollhouse_polaris::ConfigDocument;
use tollhouse_registry::config::{ConfigFileKey, ConfigRelease};
use tollhouse_registry::limits::CONFIG_WATCHED_FILES_MAX;
use tollhouse_registry::{ConfigWatch, Registry, Revision};

use super::{Place, RETRY_TIME, SecretManagers};

/// Registry with the files, and the signal that other files are named.
#[derive(Default)]
pub(super) struct Files {
    registry: Mutex<Option<Registry>>,
    named: Notify,
    documents: Mutex<Documents>,
}

/// Documents by file, each with the revision of its release, so that an object with many references
/// to a file parses it once.
#[derive(Default)]
struct Documents {
    by_file: BTreeMap<ConfigFileKey, (Revision, Arc<ConfigDocument>)>,
    content_bytes: usize,
}

/// Maximum size of the contents of all cached documents. A parsed document takes about ten times its
/// content.
const DOCUMENTS_BYTES_MAX: usize = 4 << 20;

/// Files that objects name beyond those that are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfollowed {
    files: usize,
    example: ConfigFileKey,
}

impl Unfollowed {
    pub(super) fn problem(&self) -> Problem {
        let Self { files, example } = self;
        let reason = format!(
            "objects name {} configuration files, of which {CONFIG_WATCHED_FILES_MAX} are followed: \
             new releases of {files} of them, such as {example}, have no effect",
            files + CONFIG_WATCHED_FILES_MAX
        );
        Problem::warning("secrets", reason).with_hint(
            "refer to values in fewer files; an object reads its files anew when it is written",
        )
    }
}

/// Name of this process in the list of clients that watch a file.
const WATCHER: &str = "gateway";

/// Release in force of each followed file.
type Releases = BTreeMap<ConfigFileKey, Option<Revision>>;

/// Returns the file that a reference names.
pub(super) fn key_of(reference: &SecretRef) -> Option<ConfigFileKey> {
    let SecretRef::File { namespace, group, file, .. } = reference else { return None };
    Some(ConfigFileKey::new(namespace, group, file))
}

impl Files {
    /// Returns the content of a file that is in force for all clients, or a value in it.
    pub(super) fn value(&self, file: &ConfigFileKey, key: Option<&str>) -> Option<String> {
        self.document(file)?.value(key)
    }

    fn document(&self, file: &ConfigFileKey) -> Option<Arc<ConfigDocument>> {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let release = active(&registry, file)?;
        let mut documents = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        documents.get(file, &release)
    }

    pub(super) fn note_named(&self) {
        self.named.notify_one();
    }
}

impl Documents {
    fn get(
        &mut self,
        file: &ConfigFileKey,
        release: &ConfigRelease,
    ) -> Option<Arc<ConfigDocument>> {
        if let Some((revision, document)) = self.by_file.get(file) {
            if *revision == release.revision {
                return Some(Arc::clone(document));
            }
            self.content_bytes -= document.content_bytes();
            self.by_file.remove(file);
        }
        let document = Arc::new(ConfigDocument::open(release)?);
        let bytes = document.content_bytes();
        if self.content_bytes + bytes > DOCUMENTS_BYTES_MAX {
            *self = Self::default();
        }
        if bytes <= DOCUMENTS_BYTES_MAX {
            self.content_bytes += bytes;
            self.by_file.insert(file.clone(), (release.revision, Arc::clone(&document)));
        }
        Some(document)
    }
}

fn active(registry: &Registry, file: &ConfigFileKey) -> Option<Arc<ConfigRelease>> {
    let state = registry.state();
    let group = state.config_group(&file.namespace, &file.group)?;
    group.file(&file.name)?.active.clone()
}

/// Returns the version in force of a file; 0 if it has none.
fn version(registry: &Registry, file: &ConfigFileKey) -> u64 {
    active(registry, file).map_or(0, |release| release.version)
}

impl SecretManagers {
    /// Reads files from a registry from now on.
    pub fn set_registry(&self, registry: Registry) {
        *self.files.registry.lock().unwrap_or_else(PoisonError::into_inner) = Some(registry);
    }

    /// Compiles objects again when a file changes that they name; returns when the registry ends.
    pub async fn follow_files(self: Arc<Self>, registry: Registry) {
        let mut serving = registry.serving();
        let mut known = Releases::new();
        loop {
            let named = self.named_files();
            let versions = named.iter().map(|file| (file.clone(), version(&registry, file)));
            let watch = registry.watch_config(WATCHER, versions.collect());
            // Compared after the start of the watch, so that no change is missed.
            self.compare_files(&registry, &named, &mut known);
            tokio::select! {
                () = until_changed(watch.ok()) => {}
                () = self.files.named.notified() => {}
                _ = serving.wait_for(|_| false) => return,
            }
        }
    }

    /// Returns the files that objects name, as many as one watch takes. Notes the others for
    /// [`SecretManagers::problems`].
    fn named_files(&self) -> BTreeSet<ConfigFileKey> {
        let mut state = self.state();
        let places = state.referring.values().flat_map(|object| &object.places);
        let files = places.filter_map(|place| match place {
            Place::File(file) => Some(file.clone()),
            Place::Secret(_) => None,
        });
        let mut files: BTreeSet<_> = files.collect();
        let first_beyond = files.iter().nth(CONFIG_WATCHED_FILES_MAX).cloned();
        let unfollowed =
            first_beyond.as_ref().map_or_else(BTreeSet::new, |first| files.split_off(first));
        let unfollowed =
            first_beyond.map(|example| Unfollowed { files: unfollowed.len(), example });
        if state.unfollowed != unfollowed {
            state.unfollowed = unfollowed;
            state.version += 1;
            drop(state);
            self.changed.notify_one();
        }
        files
    }

    /// Notes the files whose release in force differs from the known one. A file that is named for
    /// the first time counts as changed, because its object may have been compiled without it.
    fn compare_files(
        &self,
        registry: &Registry,
        named: &BTreeSet<ConfigFileKey>,
        known: &mut Releases,
    ) {
        let current: Releases = named
            .iter()
            .map(|file| (file.clone(), active(registry, file).map(|release| release.revision)))
            .collect();
        let mut has_changed = false;
        let mut state = self.state();
        for (file, revision) in &current {
            let before = known.get(file);
            if before == Some(revision) {
                continue;
            }
            has_changed = true;
            state.changed.insert(Place::File(file.clone()));
            if revision.is_none() && before.is_some() {
                state.gone.insert(Place::File(file.clone()));
            }
        }
        drop(state);
        *known = current;
        if has_changed {
            self.changed.notify_one();
        }
    }
}

/// Waits for a watch; a refused one is tried again after a while.
async fn until_changed(watch: Option<ConfigWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => tokio::time::sleep(RETRY_TIME).await,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_model::secret::{EnvironmentSource, SecretSource};
    use tollhouse_model::{Id, Kind};
    use tollhouse_proxy::Change;
    use tollhouse_registry::config::{ConfigAuthor, ConfigCommand, ConfigFileChange, NewRelease};
    use tollhouse_registry::{Command, Keeper, Options};
    use tollhouse_store::Location;

    use super::*;

    async fn registry() -> Registry {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        let (keeper, registry) = Keeper::open(store, Options::default()).await.expect("empty");
        tokio::spawn(keeper.run(std::future::pending()));
        registry
    }

    async fn submit(registry: &Registry, command: ConfigCommand) {
        let command = Command::Config(ConfigAuthor::default(), Box::new(command));
        registry.submit(command).await.expect("done");
    }

    async fn publish(registry: &Registry, content: &str) {
        let change = ConfigFileChange {
            content: Some(content.into()),
            format: Some("yaml".into()),
            ..ConfigFileChange::default()
        };
        let key = ConfigFileKey::new("ns", "g", "app.yaml");
        let release = NewRelease::default();
        let command = ConfigCommand::WriteAndPublish { key, file: change, release, expected: None };
        submit(registry, command).await;
    }

    fn note(managers: &SecretManagers) {
        let key = "$config://ns/g/app.yaml#jack.key";
        let value = json!({"username": "jack", "plugins": {"key-auth": {"key": key}}});
        let id = Id::new("jack");
        let path = "consumer/jack".to_owned();
        managers.note(&Change::Upsert { kind: Kind::Consumer, id, value: Ok(value), path });
    }

    fn value(managers: &SecretManagers) -> Option<String> {
        managers.fetch(&SecretRef::parse("$config://ns/g/app.yaml#jack.key")?)
    }

    /// Waits until the objects of a change are compiled again, and counts the changes.
    async fn changes(managers: &SecretManagers) -> usize {
        managers.changed().await;
        managers.take_changes().len()
    }

    #[tokio::test]
    async fn an_object_follows_the_releases_of_a_file() {
        let registry = registry().await;
        let managers =
            Arc::new(SecretManagers::new(Box::new(EnvironmentSource::new(|_: &str| None))));
        assert_eq!(value(&managers), None, "without a registry");
        managers.set_registry(registry.clone());
        tokio::spawn(Arc::clone(&managers).follow_files(registry.clone()));
        note(&managers);
        assert_eq!((changes(&managers).await, value(&managers)), (1, None));
        publish(&registry, "jack: {key: one}\n").await;
        assert_eq!((changes(&managers).await, value(&managers).as_deref()), (1, Some("one")));
        publish(&registry, "jack: {key: two}\n").await;
        assert_eq!((changes(&managers).await, value(&managers).as_deref()), (1, Some("two")));
        submit(&registry, ConfigCommand::DeleteFile(ConfigFileKey::new("ns", "g", "app.yaml")))
            .await;
        assert_eq!((changes(&managers).await, value(&managers)), (2, None), "deleted, then added");
    }

    #[tokio::test]
    async fn a_release_is_parsed_once_for_all_references() {
        let registry = registry().await;
        let files = Files::default();
        *files.registry.lock().expect("not poisoned") = Some(registry.clone());
        let key = ConfigFileKey::new("ns", "g", "app.yaml");
        publish(&registry, "jack: {key: one}\n").await;
        let first = files.document(&key).expect("released");
        assert!(Arc::ptr_eq(&first, &files.document(&key).expect("released")));
        publish(&registry, "jack: {key: two}\n").await;
        assert_eq!(files.value(&key, Some("jack.key")).as_deref(), Some("two"));
        assert!(!Arc::ptr_eq(&first, &files.document(&key).expect("released")));
        let bytes = files.documents.lock().expect("not poisoned").content_bytes;
        assert_eq!(bytes, first.content_bytes(), "the former document is dropped");
    }

    #[tokio::test]
    async fn files_beyond_the_limit_of_a_watch_are_reported() {
        let managers = SecretManagers::new(Box::new(EnvironmentSource::new(|_: &str| None)));
        let name_files = |count: usize| {
            let keys: Vec<String> = (0..count).map(|n| format!("$config://ns/g/{n:05}")).collect();
            let (id, path) = (Id::new("1"), "routes/1".to_owned());
            let value = Ok(json!({"plugins": {"x": keys}}));
            managers.note(&Change::Upsert { kind: Kind::Route, id, value, path });
            managers.named_files().len()
        };
        assert_eq!(name_files(CONFIG_WATCHED_FILES_MAX), CONFIG_WATCHED_FILES_MAX);
        assert!(managers.problems().is_empty());
        let version = managers.version();
        assert_eq!(name_files(CONFIG_WATCHED_FILES_MAX + 2), CONFIG_WATCHED_FILES_MAX);
        let problems = managers.problems();
        let text = problems.first().map(ToString::to_string).expect("a problem");
        assert!(text.contains("new releases of 2 of them, such as ns/g/04096,"), "{text}");
        assert!(managers.version() > version);
        name_files(1);
        assert!(managers.problems().is_empty());
    }
}
