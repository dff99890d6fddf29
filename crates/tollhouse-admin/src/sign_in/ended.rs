//! Signed-out sessions in the store, so that their cookies stay invalid after a restart and at
//! other gateways. Each entry has a lease that ends when the cookie expires.

use std::time::Duration;

use hyper::header::COOKIE;
use tollhouse_store::{StoreError, Transaction};

use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::index::OWN_KEYS;
use crate::options::Mode;
use crate::session::{ENDED_MAX, SignInId};

/// Prefix of the entries, which is among the gateway's internal keys. The rest of an entry's key
/// consists of the session's expiry and random number.
pub(crate) const FOLDER: &str = "tollhouse/ended/";

/// Parses the name of an entry as the id of its session.
pub(crate) fn parse(name: &str) -> Option<SignInId> {
    let (end_s, number) = name.split_once('.')?;
    Some((end_s.parse().ok()?, number.into()))
}

/// Stores a session as signed out. Beyond [`ENDED_MAX`], the entry that expires first is deleted.
///
/// # Errors
/// If the store cannot be written.
pub(super) async fn keep(admin: &Admin, id: &SignInId) -> Result<(), StoreError> {
    debug_assert!(FOLDER.starts_with(OWN_KEYS), "objects never lie there");
    match admin.parts.options.mode {
        Mode::Store | Mode::Away(_) => {}
        // Without a store, sign-outs are remembered only in this process.
        Mode::ReadOnly(_) | Mode::Standalone(_) => return Ok(()),
    }
    let key = |(end_s, number): &SignInId| admin.key_of(&format!("{FOLDER}{end_s}.{number}"));
    let left = Duration::from_secs(id.0.saturating_sub(auth::now_s()).max(1));
    let lease = admin.parts.store.grant(left).await?;
    let put = tollhouse_store::Operation::Put {
        key: key(id).as_str().into(),
        value: "ended".into(),
        lease: Some(lease),
    };
    let mut transaction = Transaction::new().then(put);
    if let Some(oldest) = admin.index.contents().oldest_ended_beyond(ENDED_MAX) {
        transaction = transaction.delete(key(oldest));
    }
    let committed = admin.parts.store.commit(transaction).await?;
    admin.index.expect(committed.revision);
    Ok(())
}

/// Removes the cookie from a call if its session was signed out at another gateway or before a
/// restart.
pub(crate) async fn drop_cookie(admin: &Admin, call: &mut Call) {
    let options = &admin.parts.options;
    let Some(sessions) = &options.sessions else { return };
    // Only a call with a valid cookie and proof causes the index to catch up.
    let Some(id) = sessions.id_of(options, call, auth::now_s()) else { return };
    // An error is ignored: if the store is unreachable, the sign-outs known so far apply.
    let _ = admin.index.catch_up().await;
    if admin.index.contents().has_ended(&id) {
        call.headers.remove(COOKIE);
    }
}
