//! Sign-ins that have ended, as the store keeps them: a cookie that was signed out opens nothing after a restart and at
//! other gateways of the same store. Each is kept under a lease until the cookie ends by itself.

use std::time::Duration;

use hyper::header::COOKIE;
use tollhouse_store::{StoreError, Transaction};

use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::index::OWN_KEYS;
use crate::options::Mode;
use crate::session::{ENDED_MAX, SignInId};

/// Folder of the ended sign-ins among the gateway's own keys; each is named by its end and its number.
pub(crate) const FOLDER: &str = "tollhouse/ended/";

/// The sign-in that a key below [`FOLDER`] names.
pub(crate) fn parse(name: &str) -> Option<SignInId> {
    let (end_s, number) = name.split_once('.')?;
    Some((end_s.parse().ok()?, number.into()))
}

/// Keeps a sign-in as ended. Beyond [`ENDED_MAX`], the one that ends first is let go.
///
/// # Errors
/// The store does not take it.
pub(super) async fn keep(admin: &Admin, id: &SignInId) -> Result<(), StoreError> {
    debug_assert!(FOLDER.starts_with(OWN_KEYS), "objects never lie there");
    match admin.parts.options.mode {
        Mode::Store | Mode::Away(_) => {}
        // Without a store, sign-ins end with the process.
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
    if let Some(oldest) = admin.index.known().oldest_ended_beyond(ENDED_MAX) {
        transaction = transaction.delete(key(oldest));
    }
    let committed = admin.parts.store.commit(transaction).await?;
    admin.index.expect(committed.revision);
    Ok(())
}

/// Takes the cookie out of a call whose sign-in has ended elsewhere or before a restart.
pub(crate) async fn drop_cookie(admin: &Admin, call: &mut Call) {
    let options = &admin.parts.options;
    let Some(sessions) = &options.sessions else { return };
    // Only a call with a good cookie and proof makes the index catch up.
    let Some(id) = sessions.id_of(&options.keys, call, auth::now_s()) else { return };
    // While the store is away, the sign-outs that are known count.
    let _ = admin.index.catch_up().await;
    if admin.index.known().has_ended(&id) {
        call.headers.remove(COOKIE);
    }
}
