//! State of the configuration centre in a plan: releases in force on each side, and entries of the
//! history there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tollhouse_registry::config::{ConfigFileKey, ConfigObject, ConfigRelease};

use crate::database::config_records::{self, InForce};
use crate::database::record::{self, RowVersion, Statement};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ConfigPlan {
    /// Numbers of the rows of releases that are in force.
    rows_in_force: BTreeSet<u64>,
    /// Numbers of the registry's releases that are in force.
    own_in_force: BTreeSet<u64>,
    /// Files of the registry with a gray release in force.
    gray_files: BTreeSet<ConfigFileKey>,
    /// Files that have a release of the registry in force after the export.
    published: BTreeSet<(ConfigFileKey, Audience)>,
    /// Entries of the database's history.
    events: BTreeSet<String>,
    /// Rows of releases that give way to one of the registry, by their number.
    superseded: BTreeMap<String, RowVersion>,
}

/// Clients that a release is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Audience {
    All,
    Labelled,
}

impl ConfigPlan {
    /// Notes the object of a row. Returns whether it has to be compared: entries of the history never
    /// change.
    pub(super) fn add_row(&mut self, object: &ConfigObject) -> bool {
        match object {
            ConfigObject::File(file) => {
                self.rows_in_force.extend([file.active, file.gray].into_iter().flatten())
            }
            ConfigObject::Event(_) => {
                self.events.insert(config_records::name(object));
                return false;
            }
            ConfigObject::Group(_) | ConfigObject::Release(_) | ConfigObject::Template(_) => {}
        }
        true
    }

    /// Notes what is in force of a file of the registry.
    pub(super) fn expect(&mut self, object: &ConfigObject) {
        if let ConfigObject::File(file) = object {
            self.own_in_force.extend([file.active, file.gray].into_iter().flatten());
            if file.gray.is_some() {
                self.gray_files.insert(file.key.clone());
            }
        }
    }

    /// Whether the object is an entry of the history that the database has.
    pub(super) fn has_event(&self, object: &ConfigObject) -> bool {
        matches!(object, ConfigObject::Event(_))
            && self.events.contains(&config_records::name(object))
    }

    pub(super) fn in_force(&self, object: &ConfigObject) -> InForce {
        match object {
            ConfigObject::Release(release) => InForce {
                is_active: self.own_in_force.contains(&release.id),
                has_gray: self.gray_files.contains(&release.key),
            },
            _ => InForce::default(),
        }
    }

    /// Adds to the fields of a release whether it is in force; `row` is the number of its row.
    pub(super) fn compare_in_force(
        &self,
        object: &ConfigObject,
        row: &str,
        found: &mut Value,
        own: &mut Value,
    ) {
        if let ConfigObject::Release(_) = object {
            let is_there = row.parse().is_ok_and(|row: u64| self.rows_in_force.contains(&row));
            found["active"] = json!(is_there);
            own["active"] = json!(self.in_force(object).is_active);
        }
    }

    /// Notes that a release is in force there as here.
    pub(super) fn set_in_force(&mut self, object: &ConfigObject) {
        if let ConfigObject::Release(release) = object
            && self.in_force(object).is_active
        {
            self.published.insert((release.key.clone(), Audience::new(release)));
        }
    }

    /// Notes a release that only the database has, and that gives way to another one of its file.
    pub(super) fn note_superseded(&mut self, object: &ConfigObject, seen: &RowVersion) {
        let ConfigObject::Release(release) = object else { return };
        let is_in_force = self.rows_in_force.contains(&release.id);
        let file = (release.key.clone(), Audience::new(release));
        if is_in_force && self.published.contains(&file) {
            self.superseded.insert(seen.key.clone(), seen.clone());
        }
    }

    /// Forgets a row that is deleted.
    pub(super) fn keep_as_it_is(&mut self, table: &str, seen: &RowVersion) {
        if table == "config_file_release" {
            self.superseded.remove(&seen.key);
        }
    }

    /// Returns the statements that take superseded releases out of force.
    pub(super) fn deactivations(&self) -> Vec<Statement> {
        self.superseded.values().map(record::deactivate).collect()
    }
}

impl Audience {
    fn new(release: &ConfigRelease) -> Self {
        if release.is_gray() { Self::Labelled } else { Self::All }
    }
}
