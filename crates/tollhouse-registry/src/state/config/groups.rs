//! Groups of files, and templates.

use std::sync::Arc;

use super::super::namespaces::replace;
use super::super::{Change, State};
use crate::config::{
    ConfigAuthor, ConfigGroup, ConfigGroupChange, ConfigGroupView, ConfigOutcome, ConfigTemplate,
    Dates, check,
};
use crate::held_bytes::{MemoryClass, MemorySize};
use crate::journal::{Before, Record};
use crate::key::ServiceKey;
use crate::limits::{CONFIG_GROUPS_MAX, CONFIG_TEMPLATES_MAX};
use crate::refusal::{Noun, Refusal};

/// Comment of a group that its first file created, as in Polaris.
const AUTO_CREATED: &str = "auto created";

impl State {
    pub(super) fn create_config_group(
        &mut self,
        key: &ServiceKey,
        what: ConfigGroupChange,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        check::group_key(key)?;
        check::group_change(&what)?;
        if self.config_group(&key.namespace, &key.name).is_some() {
            return Err(Refusal::Exists);
        }
        let group = self.make_config_group(key, what, author, change)?;
        Ok(ConfigOutcome::Group(group))
    }

    /// Makes sure that a group exists; creates it if missing. The names must be valid.
    pub(super) fn ensure_config_group(
        &mut self,
        key: &ServiceKey,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<(), Refusal> {
        if self.config_group(&key.namespace, &key.name).is_some() {
            change.journal.require_config_group(key.borrowed());
            return Ok(());
        }
        let what = ConfigGroupChange {
            comment: Some(AUTO_CREATED.to_owned()),
            ..ConfigGroupChange::default()
        };
        self.make_config_group(key, what, author, change).map(drop)
    }

    fn make_config_group(
        &mut self,
        key: &ServiceKey,
        what: ConfigGroupChange,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<Arc<ConfigGroup>, Refusal> {
        if self.config.totals.groups >= CONFIG_GROUPS_MAX {
            return Err(Refusal::Full { what: "configuration groups", max: CONFIG_GROUPS_MAX });
        }
        let mut group = ConfigGroup {
            id: self.next_config_id(change),
            key: key.clone(),
            comment: String::new(),
            owner: author.clone().into(),
            business: String::new(),
            department: String::new(),
            metadata: Default::default(),
            dates: Dates::created(author, change),
            revision: self.next_revision(),
        };
        set_group(&mut group, what);
        self.held.check(MemoryClass::Config, 0, group.held_bytes())?;
        let record = Record::config_group(&group)?;
        self.ensure_namespace(&key.namespace, change)?;
        change.journal.put(record, Before::Absent);
        Ok(self.place_config_group(group))
    }

    pub(super) fn update_config_group(
        &mut self,
        key: &ServiceKey,
        what: ConfigGroupChange,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        check::group_key(key)?;
        check::group_change(&what)?;
        let view = self.config_group(&key.namespace, &key.name);
        let before = Arc::clone(&view.ok_or(Refusal::NotFound(Noun::ConfigGroup))?.group);
        let mut group = ConfigGroup::clone(&before);
        set_group(&mut group, what);
        if group == *before {
            return Err(Refusal::NoChange);
        }
        group.dates.modify(author, change);
        group.revision = self.next_revision();
        self.held.check(MemoryClass::Config, before.held_bytes(), group.held_bytes())?;
        change.journal.put(Record::config_group(&group)?, Before::Present);
        Ok(ConfigOutcome::Group(self.place_config_group(group)))
    }

    pub(super) fn delete_config_group(
        &mut self,
        key: &ServiceKey,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        check::group_key(key)?;
        let view = self.config_group(&key.namespace, &key.name);
        let view = Arc::clone(view.ok_or(Refusal::NotFound(Noun::ConfigGroup))?);
        if view.file_count > 0 {
            return Err(Refusal::InUse(Noun::ConfigFile));
        }
        for file in view.files() {
            for event in &file.history {
                change.journal.delete_key(Record::config_event_key(event));
            }
        }
        change.journal.delete_key(Record::config_group_key(key.borrowed()));
        // Guards against a file that another node has added meanwhile.
        change.journal.require_nothing_new();
        self.remove_config_group(key);
        Ok(ConfigOutcome::Done)
    }

    pub(super) fn create_config_template(
        &mut self,
        mut template: ConfigTemplate,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        if !check::is_file_name(&template.name) {
            return Err(Refusal::ConfigTemplateName);
        }
        check::content(&template.content)?;
        check::short_text(&template.format, "format")?;
        check::short_text(&template.comment, "comment")?;
        if self.config.templates.contains_key(&template.name) {
            return Err(Refusal::Exists);
        }
        if self.config.templates.len() >= CONFIG_TEMPLATES_MAX {
            let what = "configuration templates";
            return Err(Refusal::Full { what, max: CONFIG_TEMPLATES_MAX });
        }
        template.id = self.next_config_id(change);
        template.dates = Dates::created(author, change);
        self.held.check(MemoryClass::Config, 0, template.held_bytes())?;
        change.journal.put(Record::config_template(&template)?, Before::Absent);
        Ok(ConfigOutcome::Template(self.place_config_template(template)))
    }

    /// Stores a new or changed group; its files stay.
    pub(super) fn place_config_group(&mut self, group: ConfigGroup) -> Arc<ConfigGroup> {
        let group = Arc::new(group);
        self.config.last_id = self.config.last_id.max(group.id);
        let ServiceKey { namespace, name } = &group.key;
        let current = self.config_group(namespace, name).cloned();
        let before = current.as_ref().map_or(0, |view| view.group.held_bytes());
        self.held.replace(MemoryClass::Config, before, group.held_bytes());
        let old = current.as_ref().map(|view| view.group.revision).unwrap_or_default();
        self.config.totals.groups += usize::from(current.is_none());
        let view = match current {
            Some(view) => ConfigGroupView { group: Arc::clone(&group), ..(*view).clone() },
            None => ConfigGroupView::new(Arc::clone(&group)),
        };
        self.count(namespace, |it| {
            it.config_revision = it.config_revision.without(old).with(group.revision);
            it.config_groups.insert(Arc::clone(name), Arc::new(view));
        });
        group
    }

    /// Removes a group with all its files.
    pub(super) fn remove_config_group(&mut self, key: &ServiceKey) {
        let removed = self.count(&key.namespace, |it| {
            let removed = it.config_groups.remove(&*key.name)?;
            it.config_revision = it.config_revision.without(removed.group.revision);
            Some(removed)
        });
        let Some(view) = removed.flatten() else { return };
        self.held.replace(MemoryClass::Config, view.group.held_bytes(), 0);
        let totals = &mut self.config.totals;
        totals.groups -= 1;
        totals.files -= view.file_count;
        for file in view.files() {
            totals.releases -= file.releases.len();
            self.held.replace(MemoryClass::Config, file.held_bytes(), 0);
            if let Some(file) = file.file.as_ref().filter(|file| file.active.is_some()) {
                self.config.changed.push(file.key.clone());
            }
        }
    }

    pub(super) fn place_config_template(
        &mut self,
        template: ConfigTemplate,
    ) -> Arc<ConfigTemplate> {
        let template = Arc::new(template);
        self.config.last_id = self.config.last_id.max(template.id);
        let after = template.held_bytes();
        let templates = &mut self.config.templates;
        let before = templates.insert(Arc::clone(&template.name), Arc::clone(&template));
        let before = before.map_or(0, |before| before.held_bytes());
        self.held.replace(MemoryClass::Config, before, after);
        template
    }

    pub(super) fn remove_config_template(&mut self, name: &str) {
        if let Some(removed) = self.config.templates.remove(name) {
            self.held.replace(MemoryClass::Config, removed.held_bytes(), 0);
        }
    }
}

fn set_group(group: &mut ConfigGroup, what: ConfigGroupChange) {
    let ConfigGroupChange { comment, owner, business, department, metadata } = what;
    replace(&mut group.comment, comment);
    replace(&mut group.owner, owner);
    replace(&mut group.business, business);
    replace(&mut group.department, department);
    replace(&mut group.metadata, metadata);
}
