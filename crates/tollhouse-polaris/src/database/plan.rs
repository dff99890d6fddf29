//! What is to be done to a Polaris' database so that it has what the registry has. Its rows are read first, as an
//! import reads them; what is there as it is costs nothing, what was changed there later is left alone, and rows
//! that cannot be read are not touched. Does no IO.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tollhouse_registry::{Effect, Object, Rule, ServiceKey};

use super::record::{self, Record, Seen, Statement};
use super::registered::is_own_server;
use super::{Columns, LeftOut, PARTS, Part, Row, push_text, registered_rows, rule_rows};
use crate::descriptors;
use crate::json::print;
use crate::rules::{layout_of, rule_message};

/// Rows that one statement touches: some 100 kB of it.
const TOUCHED_ROWS_MAX: usize = 500;

/// Why an object is not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotMoved {
    /// It is how Polaris' servers find each other, or what they set up themselves.
    #[error("it belongs to Polaris' own servers")]
    OwnServer,
    /// Clients report it themselves.
    #[error("clients report it again when they start")]
    Reported,
    /// There is no table for such objects.
    #[error("the tables of Polaris have no place for it")]
    NoPlace,
    /// There would be one in a later version.
    #[error("the database has no table {0}: a later version of Polaris has")]
    NoTable(&'static str),
    /// Its service is not there and was not written.
    #[error("its service is not in the database")]
    NoService,
    /// It cannot be brought into the form that Polaris reads.
    #[error("it cannot be written: {0}")]
    Unwritable(String),
    /// A column is too small for it.
    #[error("{0}")]
    Misfit(String),
    /// There is one already, which nobody can read.
    #[error("the database has one already, and {0}")]
    Unreadable(LeftOut),
    /// A service cannot become an alias, nor an alias a service.
    #[error("the database has this name as {0}")]
    OtherKind(&'static str),
    /// Somebody changed it there.
    #[error(
        "it was changed in the database {} s later than here; --overwrite puts what is here in its place",
        .0
    )]
    ChangedLater(u64),
}

impl NotMoved {
    /// Whether nobody has to do anything about it.
    pub fn is_expected(&self) -> bool {
        matches!(self, Self::OwnServer | Self::Reported)
    }
}

/// What becomes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What that changes.
    pub effect: Effect,
    /// What of it stays behind, since this version of the database has no column for it.
    pub stays_behind: Vec<&'static str>,
}

/// Something that the database has and the registry does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnlyThere {
    /// What people call its kind.
    pub kind: &'static str,
    /// What people call it.
    pub name: String,
    table: &'static str,
    key: &'static str,
    seen: Seen,
}

/// See the module.
#[derive(Debug)]
pub struct Plan {
    known: Columns,
    /// Whether what was changed there later is replaced all the same.
    overwrite: bool,
    there: BTreeMap<Name, There>,
    /// The ids of the rows of services.
    ids: BTreeMap<ServiceKey, String>,
    /// Those of services and aliases.
    taken: BTreeSet<String>,
    changes: Changes,
}

/// All that is to be done.
#[derive(Debug, Default)]
pub struct Changes {
    /// In their order.
    pub statements: Vec<Statement>,
    touched: BTreeMap<(&'static str, &'static str), Vec<String>>,
}

/// What tells an object from others of the database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Namespace(String),
    /// Aliases too: their names are of one space.
    Service(ServiceKey),
    Instance(String),
    /// Its table and its id there.
    Rule(&'static str, String),
}

#[derive(Debug)]
struct There {
    part: &'static Part,
    seen: Seen,
    object: Result<Object, LeftOut>,
}

impl Plan {
    /// A plan for an empty database with these columns.
    pub fn new(known: Columns, overwrite: bool) -> Self {
        let (there, ids, taken) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { known, overwrite, there, ids, taken, changes: Changes::default() }
    }

    /// Takes in a row of the database, with those that belong to it. All come before the first object does.
    ///
    /// # Errors
    /// Its time cannot be read, so that nothing can be said about it.
    pub fn add_row(
        &mut self,
        part: &'static Part,
        row: &Row,
        details: &[Row],
    ) -> Result<(), LeftOut> {
        let seen = Seen::from_row(part, row)?;
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
        self.there.insert(name, There { part, seen, object });
        Ok(())
    }

    /// Plans an object. Namespaces come first, then services, then what is theirs.
    ///
    /// # Errors
    /// Why it is not written.
    pub fn put(&mut self, object: &Object) -> Result<Written, NotMoved> {
        let (name, part) = self.place_of(object)?;
        if !part.is_there(&self.known) {
            return Err(NotMoved::NoTable(part.table()));
        }
        let there = self.there.remove(&name);
        let record = self.record_of(object, there.as_ref())?;
        if let Some(misfit) = record.misfit(&self.known) {
            return Err(NotMoved::Misfit(misfit));
        }
        let effect = match there {
            None => {
                let is_named = record.table == "service";
                if is_named && !self.taken.insert(record.key_value().to_owned()) {
                    return Err(NotMoved::Misfit(
                        "its id is that of another service there".to_owned(),
                    ));
                }
                self.change(&record, record.insert(&self.known));
                Effect::Created
            }
            Some(there) => self.meet(object, &record, part, there)?,
        };
        if let Object::Service(service) = object {
            self.ids.insert(service.key.clone(), record.key_value().to_owned());
        }
        let mut stays_behind = record.without_column(&self.known);
        if matches!(object, Object::Instance(it) if !it.unknown.is_empty()) {
            stays_behind.push("fields of a newer protocol");
        }
        Ok(Written { effect, stays_behind })
    }

    fn change(&mut self, record: &Record, statements: Vec<Statement>) {
        self.changes.statements.extend(statements);
        self.changes.touch(record.table, record.key, record.key_value());
    }

    /// What an object does to the row that is there.
    fn meet(
        &mut self,
        object: &Object,
        record: &Record,
        part: &'static Part,
        there: There,
    ) -> Result<Effect, NotMoved> {
        if there.part.name != part.name {
            let other = if there.part.name == "aliases" { "an alias" } else { "a service" };
            return Err(NotMoved::OtherKind(other));
        }
        let found = there.object.map_err(NotMoved::Unreadable)?;
        let own = record
            .read_back(part, &self.known)
            .map_err(|error| NotMoved::Unwritable(error.to_string()))?;
        let (mut found, mut own) = (comparable(&found), comparable(&own));
        if found == own {
            return Ok(Effect::Unchanged);
        }
        // Whose heartbeats come here has the health that is known here.
        for fields in [&mut found, &mut own] {
            for health in ["healthy", "expired_after_beat"] {
                fields.as_object_mut().and_then(|it| it.shift_remove(health));
            }
        }
        let later = there.seen.modified_at.saturating_sub(modified_at(object));
        if found != own && later > 0 && !self.overwrite {
            return Err(NotMoved::ChangedLater(later));
        }
        self.change(record, record.update(&there.seen, &self.known));
        Ok(Effect::Changed)
    }

    fn place_of(&self, object: &Object) -> Result<(Name, &'static Part), NotMoved> {
        let (name, table) = match object {
            Object::Namespace(it) if &*it.name == tollhouse_registry::SYSTEM_NAMESPACE => {
                return Err(NotMoved::OwnServer);
            }
            Object::Namespace(it) => (Name::Namespace(it.name.to_string()), "namespaces"),
            Object::Service(it) if is_own_server(&it.key) => return Err(NotMoved::OwnServer),
            Object::Service(it) => (Name::Service(it.key.clone()), "services"),
            Object::Alias(it) => (Name::Service(it.key.clone()), "aliases"),
            Object::Instance(it) if is_own_server(&it.service) => return Err(NotMoved::OwnServer),
            Object::Instance(it) => (Name::Instance(it.id.to_string()), "instances"),
            Object::Rule(it) => {
                let table = rule_rows::table(it.kind).ok_or(NotMoved::NoPlace)?;
                let part = PARTS.into_iter().find(|part| part.table() == table);
                let id = match table {
                    "routing_config" => self.id_of_target(it).ok_or(NotMoved::NoService)?,
                    _ => it.id.to_string(),
                };
                return Ok((Name::Rule(table, id), part.ok_or(NotMoved::NoPlace)?));
            }
            Object::Contract(_) => return Err(NotMoved::Reported),
        };
        let part = PARTS.into_iter().find(|part| part.name == table);
        Ok((name, part.ok_or(NotMoved::NoPlace)?))
    }

    fn id_of_target(&self, rule: &Rule) -> Option<String> {
        self.ids.get(rule.targets.first()?).cloned()
    }

    fn record_of(&self, object: &Object, there: Option<&There>) -> Result<Record, NotMoved> {
        let id_of = |service| self.ids.get(service).ok_or(NotMoved::NoService);
        // A row keeps its id: others name it.
        let row_id = |own: &str| there.map_or(own, |there| &there.seen.key).to_owned();
        Ok(match object {
            Object::Namespace(namespace) => registered_rows::namespace(namespace),
            Object::Service(service) => registered_rows::service(service, &row_id(&service.id)),
            Object::Alias(alias) => {
                registered_rows::alias(alias, &row_id(&alias.id), id_of(&alias.target)?)
            }
            Object::Instance(it) => registered_rows::instance(it, id_of(&it.service)?),
            Object::Rule(rule) => rule_rows::record(rule, self.id_of_target(rule).as_deref())?,
            Object::Contract(_) => return Err(NotMoved::Reported),
        })
    }

    /// What the database has and the registry does not, rules first: what names comes before what is named. Rows that
    /// cannot be read, and what Polaris' servers set up themselves, are nobody's to remove.
    pub fn only_there(&mut self) -> Vec<OnlyThere> {
        let rest = std::mem::take(&mut self.there);
        let mut only_there: Vec<_> = rest.into_values().filter_map(OnlyThere::from_row).collect();
        only_there.reverse();
        only_there
    }

    /// Plans to mark it as deleted.
    pub fn remove(&mut self, only_there: &OnlyThere) {
        let OnlyThere { table, key, seen, .. } = only_there;
        self.changes.statements.extend(record::remove(table, key, seen));
        self.changes.touch(table, key, &seen.key);
    }

    /// All that is to be done.
    pub fn into_changes(self) -> Changes {
        self.changes
    }
}

impl Changes {
    fn touch(&mut self, table: &'static str, key: &'static str, value: &str) {
        self.touched.entry((table, key)).or_default().push(value.to_owned());
    }

    /// What gives all rows that were changed the time of now: servers look for changes of the last seconds, and a
    /// large change is visible only at its end.
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

impl OnlyThere {
    fn from_row(there: There) -> Option<Self> {
        let There { part, seen, object } = there;
        let object = object.ok()?;
        let is_own = matches!(&object, Object::Namespace(it)
            if &*it.name == tollhouse_registry::SYSTEM_NAMESPACE);
        let (kind, name) = (object.kind(), object.name());
        let key = part.key.rsplit('.').next().unwrap_or(part.key);
        (!is_own).then_some(Self { kind, name, table: part.table(), key, seen })
    }
}

/// What is compared of two objects: all but the revision, ids that rows keep, and times, of which the database has its
/// own.
fn comparable(object: &Object) -> Value {
    let written = match object {
        Object::Namespace(it) => serde_json::to_value(it),
        Object::Service(it) => serde_json::to_value(it),
        Object::Alias(it) => serde_json::to_value(it),
        Object::Instance(it) => serde_json::to_value(it),
        Object::Rule(it) => return comparable_rule(it),
        Object::Contract(it) => serde_json::to_value(it),
    };
    // Texts, numbers, lists and maps with texts as keys: they can always be written.
    let mut fields = written.unwrap_or_default();
    for name in ["revision", "created_at", "modified_at"] {
        fields.as_object_mut().and_then(|fields| fields.shift_remove(name));
    }
    fields
}

/// A rule as clients see it: two encodings of one message are one rule.
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
    }
}

#[cfg(test)]
mod tests;
