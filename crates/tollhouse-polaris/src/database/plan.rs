//! Plan of the changes that make a Polaris database equal to the registry. First the caller adds
//! the database's rows, read as an import reads them. Rows that are equal already are not written.
//! Rows that changed later than the registry's object, and rows that cannot be decoded, are left
//! alone. This module does no IO.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tollhouse_registry::{Effect, Object, Rule, ServiceKey};

use super::record::{self, Record, RowVersion, Statement};
use super::registered::is_own_server;
use super::{Columns, ImportRefusal, PARTS, Part, Row, push_text, registered_rows, rule_rows};
use crate::descriptors;
use crate::json::print;
use crate::rules::{layout_of, rule_message};

/// Rows per statement that updates times; a statement is then some 100 kB long.
const TOUCHED_ROWS_MAX: usize = 500;

/// Reason for which an object is not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportRefusal {
    /// The object belongs to Polaris' own servers.
    #[error("it belongs to Polaris' own servers")]
    OwnServer,
    /// Clients report the object themselves, so that it need not be moved.
    #[error("clients report it again when they start")]
    Reported,
    /// Polaris has no table for such objects.
    #[error("the tables of Polaris have no place for it")]
    NoPlace,
    /// This database lacks the table, which a later version of Polaris adds.
    #[error("the database has no table {0}: a later version of Polaris has")]
    NoTable(&'static str),
    /// The object's service does not exist in the database and was not written.
    #[error("its service is not in the database")]
    NoService,
    /// The object cannot be encoded as Polaris reads it.
    #[error("it cannot be written: {0}")]
    Unwritable(String),
    /// A value does not fit into its column.
    #[error("{0}")]
    Misfit(String),
    /// The database has the object, but its row cannot be decoded.
    #[error("the database has one already, and {0}")]
    Unreadable(ImportRefusal),
    /// The name is a service on one side and an alias on the other.
    #[error("the database has this name as {0}")]
    OtherKind(&'static str),
    /// The row was changed later than the registry's object, by this many seconds.
    #[error(
        "it was changed in the database {} s later than here; --overwrite puts what is here in its place",
        .0
    )]
    ChangedLater(u64),
}

impl ExportRefusal {
    /// Whether the case is normal and needs no action.
    pub fn is_expected(&self) -> bool {
        matches!(self, Self::OwnServer | Self::Reported)
    }
}

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
    changes: Changes,
}

#[derive(Debug, Default)]
pub struct Changes {
    /// Statements, to be executed in this order in one transaction.
    pub statements: Vec<Statement>,
    touched: BTreeMap<(&'static str, &'static str), Vec<String>>,
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
        let (there, ids, taken) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { schema, newer_rows, there, ids, taken, changes: Changes::default() }
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
        let there = self.there.remove(&name);
        let record = self.record_of(object, there.as_ref())?;
        if let Some(misfit) = record.misfit(&self.schema) {
            return Err(ExportRefusal::Misfit(misfit));
        }
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
        if let Object::Service(service) = object {
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
        self.changes.touch(record.table, record.key, record.key_value());
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
                let part = PARTS.into_iter().find(|part| part.table() == table);
                let id = match table {
                    "routing_config" => self.id_of_target(it).ok_or(ExportRefusal::NoService)?,
                    _ => it.id.to_string(),
                };
                return Ok((Name::Rule(table, id), part.ok_or(ExportRefusal::NoPlace)?));
            }
            Object::Contract(_) => return Err(ExportRefusal::Reported),
            Object::Config(_) | Object::Identity(_) => return Err(ExportRefusal::NoPlace),
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
            Object::Config(_) | Object::Identity(_) => return Err(ExportRefusal::NoPlace),
        })
    }

    /// Takes out the objects that only the database has. Rules come first, because referring rows
    /// must be removed before the rows that they refer to. Rows that cannot be decoded, and those
    /// of Polaris' own servers, are left out.
    pub fn only_there(&mut self) -> Vec<ExtraObject> {
        let rest = std::mem::take(&mut self.there);
        let mut only_there: Vec<_> = rest.into_values().filter_map(ExtraObject::from_row).collect();
        only_there.reverse();
        only_there
    }

    /// Plans to mark the row as deleted.
    pub fn remove(&mut self, only_there: &ExtraObject) {
        let ExtraObject { table, key, seen, .. } = only_there;
        self.changes.statements.extend(record::remove(table, key, seen));
        self.changes.touch(table, key, &seen.key);
    }

    pub fn into_changes(self) -> Changes {
        self.changes
    }
}

impl Changes {
    fn touch(&mut self, table: &'static str, key: &'static str, value: &str) {
        self.touched.entry((table, key)).or_default().push(value.to_owned());
    }

    /// Returns statements that set the modification time of all changed rows to now. Polaris'
    /// servers poll for changes of the last seconds, but a long transaction becomes visible only at
    /// its end.
    pub fn touches(&self) -> Vec<Statement> {
        let mut statements = Vec::new();
        for ((table, key), values) in &self.touched {
            for values in values.chunks(TOUCHED_ROWS_MAX) {
                let mut sql =
                    format!("UPDATE `{table}` SET `mtime` = CURRENT_TIMESTAMP WHERE `{key}` IN (");
                for (place, value) in values.iter().enumerate() {
                    sql.push_str(if place == 0 { "" } else { ", " });
                    push_text(&mut sql, value);
                }
                sql.push(')');
                statements.push(Statement { sql, finds_one: false });
            }
        }
        statements
    }
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

/// Returns the fields to compare: all but revision, row ids and times, which the database sets
/// itself.
fn comparable(object: &Object) -> Value {
    let written = match object {
        Object::Namespace(it) => serde_json::to_value(it),
        Object::Service(it) => serde_json::to_value(it),
        Object::Alias(it) => serde_json::to_value(it),
        Object::Instance(it) => serde_json::to_value(it),
        Object::Rule(it) => return comparable_rule(it),
        Object::Contract(it) => serde_json::to_value(it),
        // Configuration files and users are in no table that is compared.
        Object::Config(_) | Object::Identity(_) => return Value::Null,
    };
    // Serialization never fails: these types consist of texts, numbers, lists and maps with text
    // keys.
    let mut fields = written.unwrap_or_default();
    for name in ["revision", "created_at", "modified_at"] {
        fields.as_object_mut().and_then(|fields| fields.shift_remove(name));
    }
    fields
}

/// Returns a rule as clients see it, so that different encodings of one message compare equal.
fn comparable_rule(rule: &Rule) -> Value {
    let descriptor = descriptors().get_message_by_name(layout_of(rule.kind).message);
    let text = descriptor.and_then(|descriptor| print(&descriptor, rule_message(rule)).ok());
    let mut message: Value =
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let mut forget = |fields: &mut Value| {
        for name in ["revision", "ctime", "mtime", "etime"] {
            fields.as_object_mut().and_then(|fields| fields.shift_remove(name));
        }
    };
    forget(&mut message);
    if let Some(Value::Array(lanes)) = message.get_mut("rules") {
        lanes.iter_mut().for_each(&mut forget);
    }
    message
}

fn modified_at(object: &Object) -> u64 {
    match object {
        Object::Namespace(it) => it.modified_at,
        Object::Service(it) => it.modified_at,
        Object::Alias(it) => it.modified_at,
        Object::Instance(it) => it.modified_at,
        Object::Rule(it) => it.modified_at,
        Object::Contract(it) => it.modified_at,
        Object::Config(_) | Object::Identity(_) => 0,
    }
}

#[cfg(test)]
mod tests;
