//! Plan of the changes that make a Polaris database equal to the registry. First the caller adds
//! the database's rows, read as an import reads them. Rows that are equal already are not written.
//! Rows that changed later than the registry's object, and rows that cannot be decoded, are left
//! alone. This module does no IO.

mod changes;
mod comparison;
mod config;
mod identity;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};

use tollhouse_registry::config::ConfigObject;
use tollhouse_registry::identity::ResourceKind;
use tollhouse_registry::{Effect, Object, Rule, ServiceKey};

pub use changes::Changes;
use comparison::{comparable, modified_at};
use config::ConfigPlan;
use identity::IdentityPlan;
pub use refusal::ExportRefusal;

use super::record::{self, Record, RowVersion, Statement};
use super::registered::is_own_server;
use super::{
    Columns, ImportRefusal, PARTS, Part, Row, config_records, identity_records, registered_rows,
    rule_rows,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Effect on the database.
    pub effect: Effect,
    /// Fields that this version of the database has no column for.
    pub stays_behind: Vec<&'static str>,
}

/// An object that the database has and the registry does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraObject {
    /// Kind of the object, for messages.
    pub kind: &'static str,
    /// Name of the object as in progress messages.
    pub name: String,
    table: &'static str,
    key: &'static str,
    seen: RowVersion,
}

/// Treatment of rows that changed later in the database than in the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewerRows {
    Keep,
    Overwrite,
}

/// Plan of the changes to a database; see the module.
#[derive(Debug)]
pub struct Plan {
    schema: Columns,
    newer_rows: NewerRows,
    there: BTreeMap<Name, DatabaseEntry>,
    /// Ids of the rows of services.
    ids: BTreeMap<ServiceKey, String>,
    /// Ids in use by services and aliases.
    taken: BTreeSet<String>,
    config: ConfigPlan,
    identities: IdentityPlan,
    changes: Changes,
}

/// Identity of an object within the database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Namespace(String),
    /// Name of a service or alias, which share one name space.
    Service(ServiceKey),
    Instance(String),
    /// Table and id of the row.
    Rule(&'static str, String),
    /// Table and name within it.
    Config(&'static str, String),
    /// Table and id of the row.
    Identity(&'static str, String),
}

#[derive(Debug)]
struct DatabaseEntry {
    part: &'static Part,
    seen: RowVersion,
    object: Result<Object, ImportRefusal>,
}

impl Plan {
    /// Creates a plan for a database with these columns; its rows are added next.
    pub fn new(schema: Columns, newer_rows: NewerRows) -> Self {
        Self {
            schema,
            newer_rows,
            there: BTreeMap::new(),
            ids: BTreeMap::new(),
            taken: BTreeSet::new(),
            config: ConfigPlan::default(),
            identities: IdentityPlan::default(),
            changes: Changes::default(),
        }
    }

    /// Adds a row of the database with its details. All rows must be added before the first object.
    ///
    /// # Errors
    /// If the row's modification time is malformed, so that the row cannot be compared.
    pub fn add_row(
        &mut self,
        part: &'static Part,
        row: &Row,
        details: &[Row],
    ) -> Result<(), ImportRefusal> {
        let seen = RowVersion::from_row(part, row)?;
        let object = part.read(row, details);
        let name = match part.table() {
            _ if let Ok(Object::Config(config)) = &object => {
                if !self.config.add_row(config) {
                    return Ok(());
                }
                if part.table() == "config_file_group" {
                    self.identities.add_group(&seen.key);
                }
                Name::Config(config_records::table(config), config_records::name(config))
            }
            _ if let Ok(Object::Identity(identity)) = &object => {
                self.identities.add_row(identity);
                Name::Identity(part.table(), seen.key.clone())
            }
            // Rows that cannot be read must be found by their names too: they are not new.
            "config_file_release_history" => return Ok(()),
            table if table.starts_with("config_file") => {
                Name::Config(table, config_records::row_name(table, row))
            }
            table if table == "user" || table == "user_group" || table.starts_with("auth_") => {
                Name::Identity(table, seen.key.clone())
            }
            "namespace" => Name::Namespace(row.text("name").to_owned()),
            "service" => {
                let key = ServiceKey::new(row.text("namespace"), row.text("name"));
                if part.name == "services" {
                    self.ids.insert(key.clone(), seen.key.clone());
                }
                self.taken.insert(seen.key.clone());
                Name::Service(key)
            }
            "instance" => Name::Instance(seen.key.clone()),
            table => Name::Rule(table, seen.key.clone()),
        };
        self.there.insert(name, DatabaseEntry { part, seen, object });
        Ok(())
    }

    /// Notes an object that will be written, which others refer to. All must be noted before the
    /// first one is written.
    pub fn expect(&mut self, object: &Object) {
        match object {
            Object::Config(config) => self.config.expect(config),
            Object::Identity(identity) => self.identities.expect(identity),
            _ => {}
        }
    }

    /// Plans the write of an object. Namespaces must come first, then services, then objects that
    /// refer to them.
    ///
    /// # Errors
    /// If Polaris' tables cannot hold the object: no table exists for its kind, its service is
    /// missing, or a value does not fit its column. Also if the object belongs to Polaris' own
    /// servers, or if the existing row cannot be decoded.
    pub fn put(&mut self, object: &Object) -> Result<WriteOutcome, ExportRefusal> {
        let (name, part) = self.place_of(object)?;
        if !part.is_there(&self.schema) {
            return Err(ExportRefusal::NoTable(part.table()));
        }
        if let Object::Config(config) = object
            && self.config.has_event(config)
        {
            return Ok(WriteOutcome { effect: Effect::Unchanged, stays_behind: Vec::new() });
        }
        let there = self.there.remove(&name);
        let record = self.record_of(object, there.as_ref())?;
        if let Some(misfit) = record.misfit(&self.schema) {
            return Err(ExportRefusal::Misfit(misfit));
        }
        let there_key = there.as_ref().map(|there| there.seen.key.clone());
        let effect = match there {
            None => {
                let is_named = record.table == "service";
                if is_named && !self.taken.insert(record.key_value().to_owned()) {
                    return Err(ExportRefusal::Misfit(
                        "its id is that of another service there".to_owned(),
                    ));
                }
                self.change(&record, record.insert(&self.schema));
                Effect::Created
            }
            Some(there) => self.meet(object, &record, part, there)?,
        };
        if let Object::Config(config) = object {
            self.config.set_in_force(config);
            if let ConfigObject::Group(group) = &**config {
                let row = there_key.unwrap_or_else(|| group.id.to_string());
                self.identities.set_number(ResourceKind::ConfigGroup, &group.id.to_string(), &row);
            }
        }
        if let Object::Service(service) = object {
            self.identities.set_number(ResourceKind::Service, &service.id, record.key_value());
            self.ids.insert(service.key.clone(), record.key_value().to_owned());
        }
        let mut stays_behind = record.without_column(&self.schema);
        if matches!(object, Object::Instance(it) if !it.unknown.is_empty()) {
            stays_behind.push("fields of a newer protocol");
        }
        Ok(WriteOutcome { effect, stays_behind })
    }

    fn change(&mut self, record: &Record, statements: Vec<Statement>) {
        self.changes.statements.extend(statements);
        match record.key_value() {
            // Entries of the history are found by their time, which stays.
            "" if record.unique.is_empty() => {}
            "" => self.changes.touch_named(record),
            key => self.changes.touch(record.table, record.key, key),
        }
    }

    /// Compares an object with its existing row, and plans the update if they differ.
    fn meet(
        &mut self,
        object: &Object,
        record: &Record,
        part: &'static Part,
        there: DatabaseEntry,
    ) -> Result<Effect, ExportRefusal> {
        if there.part.name != part.name {
            let other = if there.part.name == "aliases" { "an alias" } else { "a service" };
            return Err(ExportRefusal::OtherKind(other));
        }
        let found = there.object.map_err(ExportRefusal::Unreadable)?;
        let own = record
            .read_back(part, &self.schema)
            .map_err(|error| ExportRefusal::Unwritable(error.to_string()))?;
        let (mut found, mut own) = (comparable(&found), comparable(&own));
        if let Object::Config(config) = object {
            self.config.compare_in_force(config, &there.seen.key, &mut found, &mut own);
        }
        if found == own {
            return Ok(Effect::Unchanged);
        }
        // Differences in health are ignored here, because the instance sends its heartbeats to this
        // registry.
        for fields in [&mut found, &mut own] {
            for health in ["healthy", "expired_after_beat"] {
                fields.as_object_mut().and_then(|it| it.shift_remove(health));
            }
        }
        let later = there.seen.modified_at.saturating_sub(modified_at(object));
        if found != own && later > 0 && self.newer_rows == NewerRows::Keep {
            return Err(ExportRefusal::ChangedLater(later));
        }
        self.change(record, record.update(&there.seen, &self.schema));
        Ok(Effect::Changed)
    }

    fn place_of(&self, object: &Object) -> Result<(Name, &'static Part), ExportRefusal> {
        let (name, table) = match object {
            Object::Namespace(it) if &*it.name == tollhouse_registry::SYSTEM_NAMESPACE => {
                return Err(ExportRefusal::OwnServer);
            }
            Object::Namespace(it) => (Name::Namespace(it.name.to_string()), "namespaces"),
            Object::Service(it) if is_own_server(&it.key) => return Err(ExportRefusal::OwnServer),
            Object::Service(it) => (Name::Service(it.key.clone()), "services"),
            Object::Alias(it) => (Name::Service(it.key.clone()), "aliases"),
            Object::Instance(it) if is_own_server(&it.service) => {
                return Err(ExportRefusal::OwnServer);
            }
            Object::Instance(it) => (Name::Instance(it.id.to_string()), "instances"),
            Object::Rule(it) => {
                let table = rule_rows::table(it.kind).ok_or(ExportRefusal::NoPlace)?;
                let id = match table {
                    "routing_config" => self.id_of_target(it).ok_or(ExportRefusal::NoService)?,
                    _ => it.id.to_string(),
                };
                return in_table(Name::Rule(table, id), table);
            }
            Object::Contract(_) => return Err(ExportRefusal::Reported),
            Object::Config(it) => {
                let table = config_records::table(it);
                return in_table(Name::Config(table, config_records::name(it)), table);
            }
            Object::Identity(it) => {
                let table = identity_records::table(it.kind());
                self.identities.check_name(it)?;
                return in_table(Name::Identity(table, it.head().id.to_string()), table);
            }
        };
        let part = PARTS.into_iter().find(|part| part.name == table);
        Ok((name, part.ok_or(ExportRefusal::NoPlace)?))
    }

    fn id_of_target(&self, rule: &Rule) -> Option<String> {
        self.ids.get(rule.targets.first()?).cloned()
    }

    fn record_of(
        &self,
        object: &Object,
        there: Option<&DatabaseEntry>,
    ) -> Result<Record, ExportRefusal> {
        let id_of = |service| self.ids.get(service).ok_or(ExportRefusal::NoService);
        // An existing row keeps its id, because other rows refer to it.
        let row_id = |own: &str| there.map_or(own, |there| &there.seen.key).to_owned();
        Ok(match object {
            Object::Namespace(namespace) => registered_rows::namespace(namespace),
            Object::Service(service) => registered_rows::service(service, &row_id(&service.id)),
            Object::Alias(alias) => {
                registered_rows::alias(alias, &row_id(&alias.id), id_of(&alias.target)?)
            }
            Object::Instance(it) => registered_rows::instance(it, id_of(&it.service)?),
            Object::Rule(rule) => rule_rows::record(rule, self.id_of_target(rule).as_deref())?,
            Object::Contract(_) => return Err(ExportRefusal::Reported),
            Object::Config(it) => {
                // Without them, clients would get a gray release as one for all.
                let has_gray = self.schema.has("config_file_release", "release_type")
                    && self.schema.has_table("gray_resource");
                if matches!(&**it, ConfigObject::Release(it) if it.is_gray()) && !has_gray {
                    return Err(ExportRefusal::NoTable("gray_resource"));
                }
                let mut record = config_records::record(it, self.config.in_force(it))?;
                if let (ConfigObject::Group(group), None) = (&**it, there) {
                    // Policies name a group by its number, which must be known before it is written.
                    self.identities.check_free(group.id)?;
                    let number = i64::try_from(group.id).unwrap_or(i64::MAX);
                    record.born.push(record::number("id", number));
                }
                record
            }
            Object::Identity(it) => {
                let owner = self.identities.owner_in_database(&it.head().owner)?;
                let resources = self.identities.resources_in_database(it)?;
                identity_records::record(it, &owner, &self.schema, &resources)?
            }
        })
    }

    /// Takes out the objects that only the database has. Rules come first, because referring rows
    /// must be removed before the rows that they refer to. Rows that cannot be decoded, those of
    /// Polaris' own servers, and its main accounts are left out. A release among them is taken out of
    /// force if another one of its file came into force.
    pub fn only_there(&mut self) -> Vec<ExtraObject> {
        let rest = std::mem::take(&mut self.there);
        let rest = rest.into_values().filter(|it| match &it.object {
            Ok(Object::Identity(identity)) => !self.identities.is_main_account(identity),
            Ok(Object::Config(config)) => {
                self.config.note_superseded(config, &it.seen);
                record::has_flag(it.part.table())
            }
            _ => true,
        });
        let mut only_there: Vec<_> = rest.filter_map(ExtraObject::from_row).collect();
        only_there.reverse();
        only_there
    }

    /// Plans to mark the row as deleted.
    pub fn remove(&mut self, only_there: &ExtraObject) {
        let ExtraObject { table, key, seen, .. } = only_there;
        self.config.keep_as_it_is(table, seen);
        self.changes.statements.extend(record::remove(table, key, seen));
        self.changes.touch(table, key, &seen.key);
    }

    pub fn into_changes(mut self) -> Changes {
        self.changes.statements.extend(self.config.deactivations());
        self.changes
    }
}

fn in_table(name: Name, table: &'static str) -> Result<(Name, &'static Part), ExportRefusal> {
    let part = PARTS.into_iter().find(|part| part.table() == table);
    Ok((name, part.ok_or(ExportRefusal::NoPlace)?))
}

impl ExtraObject {
    fn from_row(there: DatabaseEntry) -> Option<Self> {
        let DatabaseEntry { part, seen, object } = there;
        let object = object.ok()?;
        let is_own = matches!(&object, Object::Namespace(it)
            if &*it.name == tollhouse_registry::SYSTEM_NAMESPACE);
        let (kind, name) = (object.kind(), object.name());
        let key = part.key.rsplit('.').next().unwrap_or(part.key);
        (!is_own).then_some(Self { kind, name, table: part.table(), key, seen })
    }
}

#[cfg(test)]
mod tests;
