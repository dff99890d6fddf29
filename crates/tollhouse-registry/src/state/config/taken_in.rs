//! Objects of the configuration centre as read from the store, and as transferred from another
//! registry.

use std::sync::Arc;

use super::super::{Change, State};
use crate::config::{
    ConfigAuthor, ConfigFileKey, ConfigFileView, ConfigGroup, ConfigObject, Dates, check,
};
use crate::held_bytes::{MemoryClass, MemorySize};
use crate::journal::Record;
use crate::key::ServiceKey;
use crate::refusal::Refusal;
use crate::transfer::{Effect, is_alike};

impl State {
    /// Stores an object that was read from the store.
    pub(crate) fn restore_config(&mut self, object: ConfigObject) {
        let key = match object {
            ConfigObject::Group(group) => {
                self.restore_namespace(&group.key.namespace);
                self.place_config_group(group);
                return;
            }
            ConfigObject::Template(template) => {
                self.place_config_template(template);
                return;
            }
            ConfigObject::File(ref file) => file.key.clone(),
            ConfigObject::Release(ref release) => release.key.clone(),
            ConfigObject::Event(ref event) => event.key.clone(),
        };
        self.restore_config_group(&key.group_key());
        let mut view = self.config_view(&key);
        view.put(object);
        self.place_config_file(&key, view);
    }

    /// Creates the group of an existing file if the group's own entry is damaged.
    fn restore_config_group(&mut self, key: &ServiceKey) {
        if self.config_group(&key.namespace, &key.name).is_some() {
            return;
        }
        self.restore_namespace(&key.namespace);
        let revision = self.next_revision();
        self.place_config_group(ConfigGroup {
            id: 0,
            key: key.clone(),
            comment: String::new(),
            owner: String::new(),
            business: String::new(),
            department: String::new(),
            metadata: Default::default(),
            dates: Dates::default(),
            revision,
        });
    }

    pub(crate) fn take_away_config_group(&mut self, key: &ServiceKey) {
        self.remove_config_group(key);
    }

    pub(crate) fn take_away_config_template(&mut self, name: &str) {
        self.remove_config_template(name);
    }

    pub(crate) fn take_away_config_file(&mut self, key: &ConfigFileKey) {
        self.take_away_of_file(key, |view| view.file = None);
    }

    pub(crate) fn take_away_config_release(&mut self, key: &ConfigFileKey, id: u64) {
        self.take_away_of_file(key, |view| view.releases.retain(|release| release.id != id));
    }

    pub(crate) fn take_away_config_event(&mut self, key: &ConfigFileKey, id: u64) {
        self.take_away_of_file(key, |view| view.history.retain(|event| event.id != id));
    }

    fn take_away_of_file(&mut self, key: &ConfigFileKey, remove: impl FnOnce(&mut ConfigFileView)) {
        if self.config_file(&key.namespace, &key.group, &key.name).is_some() {
            let mut view = self.config_view(key);
            remove(&mut view);
            self.place_config_file(key, view);
        }
    }

    /// Stores a transferred object, in place of an existing one with its name and id.
    pub(in crate::state) fn take_config(
        &mut self,
        object: ConfigObject,
        change: &mut Change<'_>,
    ) -> Result<Effect, Refusal> {
        match object {
            ConfigObject::Group(group) => self.take_config_group(group, change),
            ConfigObject::Template(template) => {
                let current = self.config_template(&template.name).cloned();
                if current.as_deref() == Some(&template) {
                    return Err(Refusal::NoChange);
                }
                let before = current.as_ref().map_or(0, |current| current.held_bytes());
                self.held.check(MemoryClass::Config, before, template.held_bytes())?;
                change.journal.put(Record::config_template(&template)?, current.as_ref().into());
                self.place_config_template(template);
                Ok(effect(current.as_ref()))
            }
            ConfigObject::File(ref file) => {
                let key = file.key.clone();
                self.take_part_of_file(&key, object, change)
            }
            ConfigObject::Release(ref release) => {
                let key = release.key.clone();
                self.take_part_of_file(&key, object, change)
            }
            ConfigObject::Event(ref event) => {
                let key = event.key.clone();
                self.take_part_of_file(&key, object, change)
            }
        }
    }

    fn take_config_group(
        &mut self,
        group: ConfigGroup,
        change: &mut Change<'_>,
    ) -> Result<Effect, Refusal> {
        let current = self.config_group(&group.key.namespace, &group.key.name);
        let current = current.map(|view| Arc::clone(&view.group));
        if current.as_deref() == Some(&group) {
            return Err(Refusal::NoChange);
        }
        let before = current.as_ref().map_or(0, |current| current.held_bytes());
        self.held.check(MemoryClass::Config, before, group.held_bytes())?;
        let record = Record::config_group(&group)?;
        self.ensure_namespace(&group.key.namespace, change)?;
        change.journal.put(record, current.as_ref().into());
        self.place_config_group(group);
        Ok(effect(current.as_ref()))
    }

    fn take_part_of_file(
        &mut self,
        key: &ConfigFileKey,
        object: ConfigObject,
        change: &mut Change<'_>,
    ) -> Result<Effect, Refusal> {
        let mut view = self.config_view(key);
        let effect = match view.part_like(&object) {
            Some(known) if is_alike_part(&known, &object) => return Err(Refusal::NoChange),
            Some(_) => Effect::Changed,
            None => Effect::Created,
        };
        view.put(object);
        let prepared = self.prepare_config(key, view)?;
        self.write_config(vec![prepared], &ConfigAuthor::default(), change)?;
        Ok(effect)
    }
}

impl ConfigFileView {
    /// Puts a part in the place of the one with its id. Equal contents are shared, because a file,
    /// its release and the entry of the history usually have the same.
    fn put(&mut self, object: ConfigObject) {
        match object {
            ConfigObject::File(file) => self.file = Some(Arc::new(file)),
            ConfigObject::Release(mut release) => {
                if let Some(file) = self.file.as_ref().filter(|it| it.content == release.content) {
                    release.content = Arc::clone(&file.content);
                }
                self.releases.retain(|it| it.id != release.id);
                let place = self.releases.partition_point(|it| it.id < release.id);
                self.releases.insert(place, Arc::new(release));
            }
            ConfigObject::Event(mut event) => {
                let alike = self.releases.iter().find(|it| it.content == event.content);
                if let Some(release) = alike {
                    event.content = Arc::clone(&release.content);
                }
                self.history.retain(|it| it.id != event.id);
                let place = self.history.partition_point(|it| it.id < event.id);
                self.history.insert(place, Arc::new(event));
            }
            ConfigObject::Group(_) | ConfigObject::Template(_) => {}
        }
    }

    /// Returns the part in whose place an object would be put.
    fn part_like(&self, object: &ConfigObject) -> Option<ConfigObject> {
        match object {
            ConfigObject::File(_) => {
                self.file.as_ref().map(|file| ConfigObject::File((**file).clone()))
            }
            ConfigObject::Release(release) => {
                let known = self.releases.iter().find(|it| it.id == release.id);
                known.map(|known| ConfigObject::Release((**known).clone()))
            }
            ConfigObject::Event(event) => {
                let known = self.history.iter().find(|it| it.id == event.id);
                known.map(|known| ConfigObject::Event((**known).clone()))
            }
            ConfigObject::Group(_) | ConfigObject::Template(_) => None,
        }
    }
}

fn is_alike_part(first: &ConfigObject, second: &ConfigObject) -> bool {
    match (first, second) {
        (ConfigObject::File(first), ConfigObject::File(second)) => first == second,
        (ConfigObject::Release(first), ConfigObject::Release(second)) => is_alike(first, second),
        (ConfigObject::Event(first), ConfigObject::Event(second)) => first == second,
        _ => false,
    }
}

fn effect<T>(before: Option<&T>) -> Effect {
    if before.is_some() { Effect::Changed } else { Effect::Created }
}

impl ConfigObject {
    /// Checks the object as one of a client would be checked.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::Group(group) => check::group_key(&group.key),
            Self::File(file) => {
                check::file_key(&file.key)?;
                check::content(&file.content)
            }
            Self::Release(release) => {
                check::file_key(&release.key)?;
                check::content(&release.content)
            }
            Self::Event(event) => {
                check::file_key(&event.key)?;
                check::content(&event.content)
            }
            Self::Template(template) if check::is_file_name(&template.name) => {
                check::content(&template.content)
            }
            Self::Template(_) => Err(Refusal::ConfigTemplateName),
        }
    }
}
