//! Writes of many objects in one commit with one change row: imports and their undo. All objects
//! are checked together, because objects of one import may refer to each other.

use std::collections::{BTreeMap, HashSet};

use hyper::StatusCode;
use serde_json::Value;
use tollhouse_model::change_row::{self, BODIES_BYTES_MAX, ChangeKind, ChangeRow, IMPORTED, Way};
use tollhouse_store::{Condition, Entry, Operation, Revision, Transaction};

use super::delete;
use super::guards::{Attempt, Attempts, Guards};
use super::record::way_of;
use super::undo::{place_of, request_about};
use crate::auth;
use crate::call::Call;
use crate::chronicle;
use crate::context::Admin;
use crate::index::facts::Facts;
use crate::index::{Contents, Revisions};
use crate::limits::OBJECTS_PER_TURN;
use crate::reply::Reply;
use crate::resource::{Candidate, ReferenceCheck, Resource};

/// Placeholder in a change row for an object that does not fit into it.
const LEFT_OUT: &str = "…";

/// Write or deletion of one object.
pub(crate) struct Step {
    /// Path of the object, such as `routes/1`.
    pub(crate) path: String,
    pub(crate) resource: &'static Resource,
    /// The stored object, if it exists.
    pub(crate) before: Option<Entry>,
    /// The new object; `None` to delete it.
    pub(crate) after: Option<NewObject>,
}

/// A new object.
pub(crate) struct NewObject {
    /// Object for checks, with secrets in plain text and without timestamps.
    pub(crate) plain: Value,
    /// Object for the store, as JSON text.
    pub(crate) stored: String,
}

impl Step {
    /// Creates a step; `None` if the path is not that of an object.
    pub(crate) fn new(path: &str, before: Option<Entry>, after: Option<NewObject>) -> Option<Self> {
        let (resource, ..) = place_of(path)?;
        Some(Self { path: path.to_owned(), resource, before, after })
    }
}

/// Returns an index of all objects as they will be after the steps. Yields regularly to other
/// tasks.
pub(crate) async fn prospect(admin: &Admin, steps: &[Step]) -> Contents {
    let touched: HashSet<&str> = steps.iter().map(|step| step.path.as_str()).collect();
    let paths: Vec<Box<str>> = {
        let contents = admin.index.contents();
        contents.paths().filter(|path| !touched.contains(path)).map(Box::from).collect()
    };
    let mut prospect = Contents::default();
    for some in paths.chunks(OBJECTS_PER_TURN) {
        {
            let contents = admin.index.contents();
            for path in some {
                if let Some(facts) = contents.facts(path) {
                    prospect.insert(path, facts.clone(), Revisions::default());
                }
            }
        }
        tokio::task::yield_now().await;
    }
    let (catalogue, keyring) = (&admin.parts.catalogue, &admin.parts.keyring);
    for (at, step) in steps.iter().enumerate() {
        if let Some(written) = &step.after {
            let facts = Facts::inspect(&step.path, written.stored.as_bytes(), catalogue, keyring);
            prospect.insert(&step.path, facts, Revisions::default());
        }
        if at % OBJECTS_PER_TURN == OBJECTS_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
    prospect
}

/// Returns the reason why an object cannot be deleted: after all steps, another object still refers
/// to it or is below it. `None` if it can be deleted.
pub(crate) fn kept_by(step: &Step, prospect: &Contents) -> Option<String> {
    if step.after.is_some() {
        return None;
    }
    if delete::has_children(step.resource) {
        let folder = format!("{}/", step.path);
        if let Some(below) = prospect.paths().find(|path| path.starts_with(&folder)) {
            return Some(format!("{below} is below it and would go too; delete that first"));
        }
    }
    (step.resource.guard)(&step.path, prospect)
}

/// Returns an object for validation against all objects as they will be after the steps.
pub(crate) fn candidate<'a>(
    admin: &'a Admin,
    prospect: &'a Contents,
    path: &'a str,
    value: &'a Value,
) -> Candidate<'a> {
    Candidate {
        path,
        value,
        contents: prospect,
        parts: &admin.parts,
        references: ReferenceCheck::On,
    }
}

/// Returns the change row for all steps. It contains all previous objects, so that the change can
/// be undone, and as many of the new objects as fit.
pub(crate) fn row(admin: &Admin, call: &Call, steps: &[Step], undoes: Option<&str>) -> ChangeRow {
    let text = |entry: &Entry| String::from_utf8(entry.value.to_vec()).ok();
    let below: Vec<(String, String)> = steps
        .iter()
        .filter_map(|step| Some((step.path.clone(), text(step.before.as_ref()?)?)))
        .collect();
    let written = || steps.iter().filter_map(|step| Some((&step.path, step.after.as_ref()?)));
    let whole: BTreeMap<&String, Value> = written()
        .map(|(path, it)| (path, serde_json::from_str(&it.stored).unwrap_or_default()))
        .collect();
    let names = || -> BTreeMap<&String, Value> {
        written().map(|(path, _)| (path, LEFT_OUT.into())).collect()
    };
    let json = |map: &BTreeMap<&String, Value>| serde_json::to_string(map).unwrap_or_default();
    let bytes: usize = below.iter().map(|(path, value)| path.len() + value.len()).sum();
    let mut after = json(&whole);
    if bytes + after.len() > BODIES_BYTES_MAX {
        after = json(&names());
    }
    let row = ChangeRow {
        at_ms: chronicle::now_ms(),
        actor: auth::caller(&admin.parts.options, call).map(|key| key.name.clone()),
        way: if undoes.is_some() { way_of(call) } else { Way::Import },
        deed: if undoes.is_some() { ChangeKind::Undo } else { ChangeKind::Replace },
        path: IMPORTED.to_owned(),
        before: None,
        after: Some(after),
        below,
        was_to_end: steps
            .iter()
            .any(|step| step.before.as_ref().is_some_and(|entry| entry.expires_at_ms.is_some())),
        is_cut: false,
        undoes: undoes.map(str::to_owned),
    };
    // A quote in embedded JSON is escaped, which at worst doubles the size.
    let mut row = row.within(admin.parts.store.limits().value_bytes_max / 2);
    row.is_cut |= !can_go_back(admin, call, steps);
    row
}

/// Whether undoing these steps fits into one commit. Undoing a creation deletes the object with its
/// guard; undoing a deletion writes the guards of all referenced objects.
fn can_go_back(admin: &Admin, call: &Call, steps: &[Step]) -> bool {
    let back: Vec<Step> = steps.iter().filter_map(|step| reversed(admin, step)).collect();
    let Ok(mut all) = assemble(admin, call, &back) else { return false };
    // A key in place of that of the row about the undo, because only the size of the transaction
    // matters.
    let row = admin.key_of(change_row::FOLDER);
    let row_bytes = (2 * BODIES_BYTES_MAX).min(admin.parts.store.limits().value_bytes_max);
    all = all.then(Operation::put(row, vec![0_u8; row_bytes]));
    check_size(admin, &all).is_ok()
}

/// Returns the step that undoes `step`.
fn reversed(admin: &Admin, step: &Step) -> Option<Step> {
    let before = step.after.as_ref().map(|written| Entry {
        key: admin.key_of(&step.path).into(),
        value: written.stored.clone().into(),
        create_revision: Revision::ZERO,
        mod_revision: Revision::ZERO,
        expires_at_ms: None,
    });
    let after = step.before.as_ref().and_then(|entry| {
        let stored = String::from_utf8(entry.value.to_vec()).ok()?;
        Some(NewObject { plain: serde_json::from_str(&stored).ok()?, stored })
    });
    Step::new(&step.path, before, after)
}

/// Returns one transaction with all steps and the change row, on the condition that the objects are
/// unchanged.
///
/// # Errors
/// If the transaction is too large for the store, or no random numbers are available.
pub(crate) fn transaction(
    admin: &Admin,
    call: &Call,
    steps: &[Step],
    row: &ChangeRow,
) -> Result<Transaction, Reply> {
    let all = assemble(admin, call, steps)?;
    let none = || Reply::unavailable("no random numbers are available");
    let name = change_row::key_of(row.at_ms, &chronicle::suffix().ok_or_else(none)?);
    let key = admin.key_of(&format!("{}{name}", change_row::FOLDER));
    let all = all.then(Operation::put(key, row.to_text()));
    check_size(admin, &all)?;
    Ok(all)
}

/// Builds the transaction of all steps, without the change row.
fn assemble(admin: &Admin, call: &Call, steps: &[Step]) -> Result<Transaction, Reply> {
    let made: HashSet<String> = steps
        .iter()
        .filter(|step| step.before.is_none())
        .map(|step| admin.key_of(&step.path))
        .collect();
    let mut all = chronicle::room(admin);
    let contents = admin.index.contents();
    for step in steps {
        let key = admin.key_of(&step.path);
        let guards = match &step.after {
            Some(written) => {
                let object = candidate(admin, &contents, &step.path, &written.plain);
                all = all.then(Operation::put(key.clone(), written.stored.clone()));
                Guards::for_write(admin, step.resource, &object)
            }
            None => {
                let request = request_about(call, &step.path);
                let request = request.ok_or_else(|| Reply::bad("unknown kind of objects"))?;
                all.operations.extend(delete::removal(admin, &request, &step.path).operations);
                Guards::for_deletion(admin, &step.path, &contents)
            }
        };
        all = guards.add_to(all);
        let key = key.as_str().into();
        all = all.when(match &step.before {
            Some(entry) => Condition::ModifiedAt { key, revision: entry.mod_revision },
            None => Condition::Absent { key },
        });
    }
    drop(contents);
    // Objects that this commit creates need not exist before it.
    all.conditions.retain(|condition| match condition {
        Condition::Exists { key } => !made.contains(&**key),
        _ => true,
    });
    once_each(&mut all);
    Ok(all)
}

/// Removes duplicate operations on guards, duplicate conditions, and deletions of keys under a
/// prefix that the transaction deletes as a whole.
fn once_each(transaction: &mut Transaction) {
    let folders: Vec<Box<str>> = transaction
        .operations
        .iter()
        .filter_map(|operation| match operation {
            Operation::DeletePrefix { prefix } => Some(prefix.clone()),
            Operation::Put { .. } | Operation::Delete { .. } => None,
        })
        .collect();
    let mut put = HashSet::new();
    transaction.operations.retain(|operation| match operation {
        Operation::Put { key, .. } => put.insert(key.clone()),
        Operation::Delete { key } => !folders.iter().any(|folder| key.starts_with(&**folder)),
        Operation::DeletePrefix { .. } => true,
    });
    // An exact revision implies that no later one exists.
    let is_exact = |condition: &&Condition| matches!(condition, Condition::ModifiedAt { .. });
    let exact: HashSet<Box<str>> = transaction
        .conditions
        .iter()
        .filter(is_exact)
        .filter_map(|it| it.key().map(Box::from))
        .collect();
    transaction.conditions.retain(|condition| match condition {
        Condition::UnchangedSince { key, .. } => !exact.contains(key),
        _ => true,
    });
    let mut conditions: Vec<Condition> = Vec::new();
    let mut seen = HashSet::new();
    for condition in transaction.conditions.drain(..) {
        if seen.insert(format!("{condition:?}")) {
            conditions.push(condition);
        }
    }
    transaction.conditions = conditions;
}

fn check_size(admin: &Admin, transaction: &Transaction) -> Result<(), Reply> {
    let limits = admin.parts.store.limits();
    let parts = transaction.operations.len().max(transaction.conditions.len());
    if parts <= limits.operations_max && transaction.bytes() <= limits.transaction_bytes_max {
        return Ok(());
    }
    let text = format!(
        "these changes are too many for one commit of this store: they come to {parts} operations and {} bytes, and \
         it takes {} and {}; import the document in parts, or with `tollhouse import`",
        transaction.bytes(),
        limits.operations_max,
        limits.transaction_bytes_max,
    );
    Err(Reply::refusal(StatusCode::PAYLOAD_TOO_LARGE, text))
}

/// Commits a transaction, and waits until it is in service.
///
/// # Errors
/// Returns 412 if an object has changed since the check.
pub(crate) async fn commit(admin: &Admin, transaction: Transaction) -> Result<Revision, Reply> {
    match Attempts::new(admin).commit(transaction).await? {
        Attempt::Committed(committed) => Ok(committed.revision),
        Attempt::Changed(key) => {
            let key = key.strip_prefix(&admin.key_of("")).unwrap_or(&key);
            let path = key.strip_prefix("tollhouse/guard/").unwrap_or(key);
            Err(changed(&[path]))
        }
    }
}

/// Returns the error reply 412: these objects have changed since the check.
pub(crate) fn changed(paths: &[&str]) -> Reply {
    let text = format!(
        "nothing was written: {} changed meanwhile; look again at what would change",
        paths.join(", ")
    );
    Reply::refusal(StatusCode::PRECONDITION_FAILED, text)
}
