//! Distribution of pending challenges from the store to the part of this node that answers the
//! authority.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollhouse_store::{Entry, Lost, Revision, Store, StoreError, Watch, WatchEvent};

use crate::keys::CHALLENGES;
use crate::records::ChallengeRecord;
use crate::settings::ChallengeKind;

/// Time after a failed attempt to read the store until the next one.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Maximum number of pending challenges that a node answers; further ones are ignored. Concurrent
/// orders create far fewer, so that a larger number comes from a foreign writer.
pub(crate) const PENDING_MAX: usize = 1_000;

/// Maximum length of an answered token in characters. Tokens have 22 to 43 characters (RFC 8555
/// §8.1 requires at least 128 bits of entropy).
pub(crate) const TOKEN_CHARS_MAX: usize = 128;

/// A challenge waiting for the authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingChallenge {
    pub kind: ChallengeKind,
    /// Host name that the authority verifies.
    pub host: String,
    /// Token in the authority's request: letters, digits, `-` and `_`.
    pub token: String,
    /// Response body that the authority expects (RFC 8555 §8.1).
    pub key_authorization: String,
}

/// Component that answers the authority's requests for challenges on this node.
pub trait ChallengeResponder: Send + Sync {
    /// Replaces the set of pending challenges to answer.
    fn replace(&self, pending: &[PendingChallenge]);
}

/// Passes all changes of pending challenges in the store to `answers` until the store is closed.
/// `seen` receives the store revision that `answers` has.
pub async fn follow(
    store: Arc<dyn Store>,
    answers: Arc<dyn ChallengeResponder>,
    seen: Arc<watch::Sender<Revision>>,
) {
    loop {
        match list(store.as_ref(), answers.as_ref(), &seen).await {
            Ok(mut changes) => loop {
                match changes.next().await {
                    WatchEvent::Commit(_) => {
                        if list(store.as_ref(), answers.as_ref(), &seen).await.is_err() {
                            break;
                        }
                    }
                    WatchEvent::Progress(_) => {}
                    WatchEvent::Lost(Lost::Closed) => return answers.replace(&[]),
                    WatchEvent::Lost(_) => break,
                }
            },
            Err(StoreError::Closed) => return answers.replace(&[]),
            Err(error) => tracing::debug!(%error, "pending challenges cannot be read"),
        }
        tokio::time::sleep(READ_AGAIN_AFTER).await;
    }
}

async fn list(
    store: &dyn Store,
    answers: &dyn ChallengeResponder,
    seen: &watch::Sender<Revision>,
) -> Result<Watch, StoreError> {
    let listing = store.list(CHALLENGES).await?;
    let pending: Vec<_> = listing.entries.iter().filter_map(read).take(PENDING_MAX).collect();
    answers.replace(&pending);
    seen.send_replace(listing.revision);
    Ok(store.watch(CHALLENGES, listing.revision))
}

fn read(entry: &Entry) -> Option<PendingChallenge> {
    let token = entry.key.strip_prefix(CHALLENGES).filter(|token| is_token(token))?;
    let record: ChallengeRecord = serde_json::from_slice(&entry.value).ok()?;
    let ChallengeRecord { kind, host, key_authorization } = record;
    Some(PendingChallenge { kind, host, token: token.to_owned(), key_authorization })
}

/// Whether a text is a valid token: base64url without padding (RFC 8555 §8.1).
pub(crate) fn is_token(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=TOKEN_CHARS_MAX).contains(&text.len()) && text.bytes().all(letter)
}
