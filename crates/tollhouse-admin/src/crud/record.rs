//! Change row of a write, in the commit of that write. The previous object is read first, and the
//! commit requires that it is unchanged, so that the row always contains the object that was
//! replaced.

use tollhouse_model::change_row::{self, ChangeKind, ChangeRow, Way};
use tollhouse_store::{Condition, Entry, Operation, Transaction};

use super::request::Request;
use crate::auth;
use crate::call::Call;
use crate::chronicle;
use crate::context::Admin;
use crate::index;
use crate::object_rights::{ObjectRights, Versions};
use crate::reply::Reply;
use crate::session;

/// Number of bytes of a transaction that are reserved for keys, guards, and the fields of the
/// change row besides the objects.
const FRAME_BYTES: usize = 64 * 1024;

/// The value at a key before a write.
pub(super) struct Before {
    key: String,
    entry: Option<Entry>,
}

/// Contents of a change row besides the object before the write.
pub(super) struct ChangeNote {
    pub(super) deed: ChangeKind,
    /// The object as stored by the write.
    pub(super) after: Option<String>,
    /// Objects below a deleted object, which are deleted with it.
    pub(super) below: Vec<(String, String)>,
    /// Name of the row that this change undoes.
    pub(super) undoes: Option<String>,
}

impl ChangeNote {
    pub(super) fn new(deed: ChangeKind, after: Option<String>) -> Self {
        Self { deed, after, below: Vec::new(), undoes: None }
    }
}

impl Before {
    /// Reads the object's current value from the store.
    pub(super) async fn read(admin: &Admin, key: &str) -> Result<Self, Reply> {
        let entry = admin.parts.store.get(key).await?;
        Ok(Self { key: key.to_owned(), entry })
    }

    /// Creates the value from an entry that was already read.
    pub(super) fn known(entry: Entry) -> Self {
        Self { key: entry.key.to_string(), entry: Some(entry) }
    }

    /// Returns the entry, if its value is an object.
    pub(super) fn object(&self) -> Option<&Entry> {
        self.entry.as_ref().filter(|entry| index::holds_object(&self.key, &entry.value))
    }

    /// Returns the condition that the value is unchanged at the commit.
    pub(super) fn condition(&self) -> Condition {
        let key = self.key.as_str().into();
        match &self.entry {
            Some(entry) => Condition::ModifiedAt { key, revision: entry.mod_revision },
            None => Condition::Absent { key },
        }
    }

    /// Adds the change row and the condition to a transaction.
    ///
    /// # Errors
    /// If the caller may not write the object with its labels, or no random numbers are available.
    pub(super) fn record(
        &self,
        admin: &Admin,
        request: &Request<'_>,
        path: &str,
        note: ChangeNote,
        mut transaction: Transaction,
    ) -> Result<Transaction, Reply> {
        let before = self.object();
        if let Some(rights) = ObjectRights::from_call(admin, request.call) {
            let (after, below) = (note.after.as_deref(), &note.below[..]);
            rights.check_write(path, &Versions { before, after, below })?;
        }
        let text = |entry: &Entry| String::from_utf8(entry.value.to_vec()).ok();
        let row = ChangeRow {
            at_ms: chronicle::now_ms(),
            actor: auth::caller(&admin.parts.options, request.call).map(|key| key.name.clone()),
            way: way_of(request.call),
            deed: note.deed,
            path: path.to_owned(),
            before: before.and_then(text),
            after: note.after,
            below: note.below,
            was_to_end: before.is_some_and(|entry| entry.expires_at_ms.is_some()),
            is_cut: false,
            undoes: note.undoes,
        };
        let limits = admin.parts.store.limits();
        let written = row.after.as_ref().map_or(0, String::len);
        let left = limits.transaction_bytes_max.saturating_sub(FRAME_BYTES + written);
        // A quote in embedded JSON is escaped, which at worst doubles the size.
        let row = row.within(left.min(limits.value_bytes_max) / 2);
        let none = || Reply::unavailable("no random numbers are available");
        let name = change_row::key_of(row.at_ms, &chronicle::suffix().ok_or_else(none)?);
        let folder = change_row::FOLDER;
        for gone in admin.index.contents().changes().let_go() {
            transaction = transaction.delete(admin.key_of(&format!("{folder}{gone}")));
        }
        let put = Operation::put(admin.key_of(&format!("{folder}{name}")), row.to_text());
        Ok(transaction.then(put).when(self.condition()))
    }
}

/// Returns the origin of a call: the console if the call belongs to the session of a browser,
/// otherwise the API. Headers such as `User-Agent` are ignored.
pub(crate) fn way_of(call: &Call) -> Way {
    let is_console = session::is_own_page(call) && !auth::shows_any_key(call);
    if is_console { Way::Console } else { Way::Api }
}
