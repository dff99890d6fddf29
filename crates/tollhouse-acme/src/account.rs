//! The account with the ACME authority. Uses the stored account, or creates and stores a new one.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{Account, AccountCredentials, Error, ExternalAccountKey, NewAccount};
use tollhouse_store::{LeaseId, StoreError, Transaction};

use crate::attempt::past_bad_nonces;
use crate::authority::Remarks;
use crate::failure::{Code, Failure, from_protocol};
use crate::keys;
use crate::records::{ACCOUNT_PLACE, AccountRecord, to_json};
use crate::settings::Settings;
use crate::shared::Shared;

/// Time in seconds for which the refusal of an account also fails other attempts that wait for the
/// account. Shorter than any wait after a failure, so that a later attempt asks the authority
/// again.
const REFUSAL_SHARED_S: u64 = 5;

/// Maximum number of attempts to store a new account, [`WRITE_AGAIN_AFTER`] apart.
const WRITES_MAX: u32 = 10;
const WRITE_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Opens the stored account, or creates and stores a new one. Costs one request, for the
/// authority's directory, in addition to the creation.
///
/// # Errors
/// If the authority refuses or is unreachable, the store fails, or no key opens the stored account.
pub(crate) async fn open(
    shared: &Arc<Shared>,
    lease: LeaseId,
) -> Result<(Account, Remarks), Failure> {
    if let Some(record) = stored(shared).await? {
        return restore(shared, lease, record).await;
    }
    // Only one attempt at a time creates an account, because attempts run concurrently and an
    // authority may allow only one account per external account key.
    let mut gate = Arc::clone(&shared.account_gate).lock_owned().await;
    if let Some(record) = stored(shared).await? {
        drop(gate);
        return restore(shared, lease, record).await;
    }
    let now_s = shared.clock.now_s();
    if let Some((failed_s, failure)) = &*gate
        && now_s.saturating_sub(*failed_s) < REFUSAL_SHARED_S
    {
        return Err(failure.clone());
    }
    // Runs as a separate task, which is not aborted with the attempt, because a created account
    // must be stored: the authority does not issue it again.
    let shared = Arc::clone(shared);
    let created = tokio::spawn(async move {
        let created = create(&shared, lease).await;
        *gate = created.as_ref().err().map(|failure| (shared.clock.now_s(), failure.clone()));
        created
    });
    created.await.unwrap_or_else(|error| Err(Failure::new(Code::AccountRefused, error)))
}

/// Returns the stored record of the account; `None` if it is missing, or if no key opens it and the
/// settings allow its replacement.
async fn stored(shared: &Shared) -> Result<Option<AccountRecord>, Failure> {
    let key = keys::account(&shared.settings.directory);
    let record: Option<AccountRecord> = shared.record(&key).await?;
    let is_lost = |record: &AccountRecord| {
        shared.allows_lost_keys && shared.open(&record.credentials, ACCOUNT_PLACE).is_err()
    };
    Ok(record.filter(|record| !is_lost(record)))
}

/// Removes an account that the authority no longer knows.
pub(crate) async fn forget(shared: &Shared, lease: LeaseId) -> Result<(), Failure> {
    let key = keys::account(&shared.settings.directory);
    shared.commit(lease, Transaction::new().delete(key)).await.map(drop)
}

async fn restore(
    shared: &Shared,
    lease: LeaseId,
    mut record: AccountRecord,
) -> Result<(Account, Remarks), Failure> {
    let credentials = shared.open(&record.credentials, ACCOUNT_PLACE)?;
    let credentials: AccountCredentials = serde_json::from_str(&credentials)
        .map_err(|error| Failure::new(Code::KeyUnopened, format!("the account: {error}")))?;
    let (client, remarks) = shared.authority();
    let account = Account::builder_with_http(client).from_credentials(credentials).await;
    let account = account.map_err(account_failure)?;
    let contact = &shared.settings.contact;
    if record.contact != *contact {
        let urls: Vec<&str> = contact.iter().map(String::as_str).collect();
        past_bad_nonces!(account.update_contacts(&urls)).map_err(account_failure)?;
        record.contact.clone_from(contact);
        let put = Transaction::new().put(keys::account(&record.directory), to_json(&record));
        shared.commit(lease, put).await?;
    }
    Ok((account, remarks))
}

/// Creates an account. If the process ends before it is stored, the authority keeps an unused
/// account, which costs nothing. Orders, in contrast, are stored before they are created.
async fn create(shared: &Shared, lease: LeaseId) -> Result<(Account, Remarks), Failure> {
    let Settings { directory, contact, agrees, .. } = &shared.settings;
    let external = external_account(&shared.settings)?;
    let contact_urls: Vec<&str> = contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact_urls,
        terms_of_service_agreed: *agrees,
        only_return_existing: false,
    };
    let made = past_bad_nonces!(async {
        let (client, remarks) = shared.authority();
        let builder = Account::builder_with_http(client);
        let made = builder.create(&new, directory.clone(), external.as_ref()).await?;
        Ok::<_, Error>((made, remarks))
    });
    let ((account, credentials), remarks) = made.map_err(account_failure)?;
    let credentials = serde_json::to_string(&credentials)
        .map_err(|error| Failure::new(Code::AnswerMalformed, error))?;
    // Sealed, so that a copy of the store does not give access to the account.
    let record = AccountRecord {
        directory: directory.clone(),
        credentials: shared.keyring.seal(&credentials, ACCOUNT_PLACE),
        contact: contact.clone(),
    };
    write_down(shared, lease, &record).await?;
    tracing::info!(directory, "an account with the certificate authority has been made");
    Ok((account, remarks))
}

/// Stores a new account. Failures of the store are retried, because the account already exists at
/// the authority. If the lease has ended, the account is stored only if no other node has stored
/// one.
async fn write_down(
    shared: &Shared,
    lease: LeaseId,
    record: &AccountRecord,
) -> Result<(), Failure> {
    let key = keys::account(&record.directory);
    let put = || Transaction::new().put(key.clone(), to_json(record));
    for _ in 1..WRITES_MAX {
        match shared.store.commit(put().while_held(lease)).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Fenced { .. }) => {
                shared.store.commit(put().when_absent(key.clone())).await?;
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(%error, "the account is not written down yet, and tried again");
                tokio::time::sleep(WRITE_AGAIN_AFTER).await;
            }
        }
    }
    shared.commit(lease, put()).await.map(drop)
}

fn external_account(settings: &Settings) -> Result<Option<ExternalAccountKey>, Failure> {
    let Some(external) = &settings.external_account else { return Ok(None) };
    // Authorities issue base64url keys with or without padding; the decoder accepts none.
    let key = external.key.expose().trim_end_matches('=');
    let key = BASE64_URL_SAFE_NO_PAD.decode(key).map_err(|_| {
        Failure::new(Code::AccountRefused, "acme.eab.key is not in base64url")
            .with_authority_scope()
    })?;
    Ok(Some(ExternalAccountKey::new(external.id.clone(), &key)))
}

/// Converts an error of an account request. The failure applies to all requests to the authority,
/// because each needs the account.
fn account_failure(error: Error) -> Failure {
    from_protocol(error, Code::AccountRefused).with_authority_scope()
}
