//! The configuration centre in the state: groups and templates in `groups`, files in `files`, their
//! releases in `releases`, what a store and a transfer bring in `taken_in`.
//!
//! Every change of a file makes a new view of it, and [`State::write_config`] stores the difference
//! between the old and the new one. A command checks and encodes everything before the first
//! change.

mod files;
mod groups;
mod releases;
mod taken_in;

use std::sync::Arc;

use tollhouse_stdx::CowMap;

use super::{Change, State};
use crate::command::Outcome;
use crate::config::{
    ConfigAuthor, ConfigCommand, ConfigFileKey, ConfigFileView, ConfigGroupView, ConfigTemplate,
    ConfigTotals, Dates,
};
use crate::held_bytes::{MemoryClass, MemorySize};
use crate::journal::{Before, Record};
use crate::key::ServiceKey;
use crate::limits::{CONFIG_DELETED_FILES_MAX, CONFIG_FILES_MAX, CONFIG_GROUPS_MAX};
use crate::refusal::Refusal;

/// Bits of an id below its time in milliseconds: a thousand objects in one millisecond. With them
/// an id is exact in JavaScript, up to the year 2255.
const ID_SEQUENCE_BITS: u32 = 10;

/// Configuration centre without its groups, which are in their namespaces.
#[derive(Debug, Clone, Default)]
pub(super) struct ConfigState {
    templates: CowMap<Arc<str>, Arc<ConfigTemplate>>,
    totals: ConfigTotals,
    /// Highest id given out or loaded.
    last_id: u64,
    /// Files whose releases in force have changed since the last publication.
    changed: Vec<ConfigFileKey>,
}

/// New view of a file, encoded for the store, before it is in the state.
struct PreparedFile {
    key: ConfigFileKey,
    view: ConfigFileView,
    puts: Vec<(Record, Before)>,
    deletions: Vec<String>,
    bytes_before: usize,
    bytes_after: usize,
}

impl State {
    /// Returns a group with its files.
    pub fn config_group(&self, namespace: &str, name: &str) -> Option<&Arc<ConfigGroupView>> {
        self.namespaces.get(namespace)?.config_groups.get(name)
    }

    /// Iterates over all groups, in no defined order.
    pub fn config_groups(&self) -> impl Iterator<Item = &Arc<ConfigGroupView>> {
        self.namespaces.values().flat_map(|view| view.config_groups.values())
    }

    /// Returns a file; deleted ones are returned while they have a history.
    pub fn config_file(
        &self,
        namespace: &str,
        group: &str,
        name: &str,
    ) -> Option<&Arc<ConfigFileView>> {
        self.config_group(namespace, group)?.file(name)
    }

    pub fn config_template(&self, name: &str) -> Option<&Arc<ConfigTemplate>> {
        self.config.templates.get(name)
    }

    /// Iterates over all templates, in no defined order.
    pub fn config_templates(&self) -> impl Iterator<Item = &Arc<ConfigTemplate>> {
        self.config.templates.values()
    }

    pub fn config_totals(&self) -> ConfigTotals {
        ConfigTotals { templates: self.config.templates.len(), ..self.config.totals }
    }

    /// Whether two versions differ in templates; groups and files are in their namespaces.
    pub(super) fn differs_in_templates(&self, other: &Self) -> bool {
        !self.config.templates.is_same_version(&other.config.templates)
    }

    /// Takes the files whose releases in force have changed since the last call.
    pub(crate) fn take_changed_files(&mut self) -> Vec<ConfigFileKey> {
        std::mem::take(&mut self.config.changed)
    }

    pub(super) fn apply_config(
        &mut self,
        command: ConfigCommand,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        let outcome = match command {
            ConfigCommand::CreateGroup(key, what) => {
                self.create_config_group(&key, what, author, change)
            }
            ConfigCommand::UpdateGroup(key, what) => {
                self.update_config_group(&key, what, author, change)
            }
            ConfigCommand::DeleteGroup(key) => self.delete_config_group(&key, change),
            ConfigCommand::CreateFile(key, what) => {
                self.create_config_file(key, what, author, change)
            }
            ConfigCommand::UpdateFile(key, what) => {
                self.update_config_file(key, what, author, change)
            }
            ConfigCommand::DeleteFile(key) => self.delete_config_file(&key, author, change),
            ConfigCommand::Publish(key, release) => {
                self.publish_config(&key, release, author, change)
            }
            ConfigCommand::WriteAndPublish { key, file, release, expected } => {
                let written = files::WrittenFile { key, change: file, expected };
                self.write_and_publish_config(written, release, author, change)
            }
            ConfigCommand::Rollback(target) => self.rollback_config(&target, author, change),
            ConfigCommand::DeleteRelease(target) => {
                self.delete_config_release(&target, author, change)
            }
            ConfigCommand::StopGray(key) => self.stop_gray_config(&key, author, change),
            ConfigCommand::CreateTemplate(template) => {
                self.create_config_template(*template, author, change)
            }
            ConfigCommand::Import(files) => self.import_config(files, author, change),
        };
        outcome.map(Outcome::Config)
    }

    /// Returns a new id, which increases with time.
    fn next_config_id(&mut self, change: &Change<'_>) -> u64 {
        let own = self.salt & ((1 << ID_SEQUENCE_BITS) - 1);
        let id = (change.now_ms << ID_SEQUENCE_BITS | own).max(self.config.last_id + 1);
        self.config.last_id = id;
        id
    }

    /// Encodes the difference between the stored view of a file and a new one.
    fn prepare_config(
        &self,
        key: &ConfigFileKey,
        mut view: ConfigFileView,
    ) -> Result<PreparedFile, Refusal> {
        view.resolve();
        let empty = ConfigFileView::default();
        let before = self.config_file(&key.namespace, &key.group, &key.name);
        let before = before.map_or(&empty, |before| &**before);
        let (mut puts, mut deletions) = (Vec::new(), Vec::new());
        match (&before.file, &view.file) {
            (old, Some(new)) if !old.as_ref().is_some_and(|old| Arc::ptr_eq(old, new)) => {
                puts.push((Record::config_file(new)?, old.as_ref().into()));
            }
            (Some(old), None) => deletions.push(Record::config_file_key(&old.key)),
            _ => {}
        }
        for new in &view.releases {
            let old = before.releases.iter().find(|old| old.id == new.id);
            if !old.is_some_and(|old| Arc::ptr_eq(old, new)) {
                puts.push((Record::config_release(new)?, old.into()));
            }
        }
        let is_kept = |id| view.releases.iter().any(|new| new.id == id);
        let gone = before.releases.iter().filter(|old| !is_kept(old.id));
        deletions.extend(gone.map(|old| Record::config_release_key(old)));
        for new in &view.history {
            if !before.history.iter().any(|old| old.id == new.id) {
                puts.push((Record::config_event(new)?, Before::Absent));
            }
        }
        let is_kept = |id| view.history.iter().any(|new| new.id == id);
        let gone = before.history.iter().filter(|old| !is_kept(old.id));
        deletions.extend(gone.map(|old| Record::config_event_key(old)));
        Ok(PreparedFile {
            key: key.clone(),
            bytes_before: before.held_bytes(),
            bytes_after: view.held_bytes(),
            view,
            puts,
            deletions,
        })
    }

    /// Stores new views of files of existing or new groups, all or none.
    fn write_config(
        &mut self,
        prepared: Vec<PreparedFile>,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<(), Refusal> {
        let sum = |bytes: fn(&PreparedFile) -> usize| prepared.iter().map(bytes).sum::<usize>();
        let (before, after) = (sum(|it| it.bytes_before), sum(|it| it.bytes_after));
        self.held.check(MemoryClass::Config, before, after)?;
        let is_new = |it: &&PreparedFile| {
            let ConfigFileKey { namespace, group, name } = &it.key;
            let known = self.config_file(namespace, group, name);
            it.view.file.is_some() && known.is_none_or(|known| known.file.is_none())
        };
        let new_files = prepared.iter().filter(is_new).count();
        if new_files > 0 && self.config.totals.files + new_files > CONFIG_FILES_MAX {
            return Err(Refusal::Full { what: "configuration files", max: CONFIG_FILES_MAX });
        }
        let mut groups: Vec<ServiceKey> = prepared.iter().map(|it| it.key.group_key()).collect();
        groups.sort_unstable();
        groups.dedup();
        let is_new = |key: &&ServiceKey| self.config_group(&key.namespace, &key.name).is_none();
        let new_groups = groups.iter().filter(is_new).count();
        if self.config.totals.groups + new_groups > CONFIG_GROUPS_MAX {
            return Err(Refusal::Full { what: "configuration groups", max: CONFIG_GROUPS_MAX });
        }
        // The files of a command share their namespace, so that only the first group can be
        // refused, and that before any change.
        for group in &groups {
            self.ensure_config_group(group, author, change)?;
        }
        for PreparedFile { key, view, puts, deletions, .. } in prepared {
            puts.into_iter().for_each(|(record, before)| change.journal.put(record, before));
            deletions.into_iter().for_each(|key| change.journal.delete_key(key));
            self.place_config_file(&key, view);
        }
        Ok(())
    }

    /// Puts a view in the place of a file's; an empty one removes the file. The group must exist.
    fn place_config_file(&mut self, key: &ConfigFileKey, mut view: ConfigFileView) {
        view.resolve();
        let view = Arc::new(view);
        let before = self.config_file(&key.namespace, &key.group, &key.name).cloned();
        let before = before.unwrap_or_default();
        let placed = self.count(&key.namespace, |it| {
            it.config_groups.update(&*key.group, |group| {
                let group = Arc::make_mut(group);
                let revision = |view: &ConfigFileView| {
                    view.active.as_ref().map(|active| active.revision).unwrap_or_default()
                };
                group.releases_revision =
                    group.releases_revision.without(revision(&before)).with(revision(&view));
                group.file_count -= usize::from(before.file.is_some());
                group.file_count += usize::from(view.file.is_some());
                if view.is_empty() {
                    group.files.remove(&*key.name);
                } else {
                    group.files.insert(Arc::clone(&key.name), Arc::clone(&view));
                }
            })
        });
        if placed.flatten().is_none() {
            return;
        }
        let totals = &mut self.config.totals;
        totals.files -= usize::from(before.file.is_some());
        totals.files += usize::from(view.file.is_some());
        totals.releases -= before.releases.len();
        totals.releases += view.releases.len();
        self.held.replace(MemoryClass::Config, before.held_bytes(), view.held_bytes());
        let ids = view.file.iter().map(|file| file.id);
        let ids = ids.chain(view.releases.iter().map(|release| release.id));
        let ids = ids.chain(view.history.iter().map(|event| event.id));
        self.config.last_id = ids.fold(self.config.last_id, u64::max);
        if view.differs_for_clients(&before) {
            self.config.changed.push(key.clone());
        }
    }

    /// Returns a copy of the stored view of a file, to change; an empty one for a new file.
    fn config_view(&self, key: &ConfigFileKey) -> ConfigFileView {
        let known = self.config_file(&key.namespace, &key.group, &key.name);
        known.map_or_else(ConfigFileView::default, |view| (**view).clone())
    }

    /// Prepares the removal of the oldest deleted file of a group, if `key` would be one too many.
    fn forget_deleted_file(&self, key: &ConfigFileKey) -> Result<Option<PreparedFile>, Refusal> {
        let Some(group) = self.config_group(&key.namespace, &key.group) else { return Ok(None) };
        if group.files.len() - group.file_count < CONFIG_DELETED_FILES_MAX {
            return Ok(None);
        }
        let deleted = group.files().filter(|view| view.file.is_none());
        let last_id = |view: &ConfigFileView| view.history.last().map_or(0, |event| event.id);
        let oldest = deleted.min_by_key(|view| last_id(view));
        let oldest = oldest.and_then(|view| view.history.last());
        oldest.map(|event| self.prepare_config(&event.key, ConfigFileView::default())).transpose()
    }
}

impl Dates {
    fn created(author: &ConfigAuthor, change: &Change<'_>) -> Self {
        let now = change.now_seconds();
        Self {
            created_at: now,
            created_by: author.clone(),
            modified_at: now,
            modified_by: author.clone(),
        }
    }

    fn modify(&mut self, author: &ConfigAuthor, change: &Change<'_>) {
        self.modified_at = change.now_seconds();
        self.modified_by = author.clone();
    }
}
