//! Token requests: for a code, and for a refresh token. Concurrent requests of a session cause one
//! renewal.

use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest;
use hashbrown::HashMap;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::client::{ClientAuth, Form, FormReply};
use super::error::Unavailable;
use super::now::Now;
use super::provider::Provider;
use crate::shared::auth::secret::SecretText;

/// Seconds for which the result of a renewal is available to requests that still carry the old
/// refresh token.
const RENEWAL_AGE_MAX_S: u64 = 30;
/// Maximum number of renewals that are remembered.
const RENEWALS_MAX: usize = 4_096;

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) secret: Option<SecretText>,
    pub(crate) auth: ClientAuth,
}

/// Tokens that the provider granted, with their lifetime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenSet {
    pub(crate) access_token: String,
    /// Lifetime of the access token, in seconds.
    pub(crate) lasts_s: Option<u64>,
    pub(crate) refresh_token: Option<String>,
    pub(crate) id_token: Option<String>,
    pub(crate) scope: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GrantError {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Client {
    /// Requests tokens.
    ///
    /// # Errors
    /// If the provider refuses, or gives no usable answer.
    pub(crate) async fn request_tokens(
        &self,
        provider: &Provider,
        fields: Vec<(&str, String)>,
        now: Now,
    ) -> Result<TokenSet, GrantError> {
        let what = "token";
        let document = provider.document(now.ms).await?;
        let endpoint = document.token_endpoint.as_deref();
        let endpoint = endpoint.ok_or_else(|| Unavailable::new(what, "no endpoint is known"))?;
        let form = Form { what, endpoint, fields, headers: Vec::new() };
        let reply = self.auth.send(provider, &self.id, now.unix_s, form).await?;
        TokenSet::read(&reply)
    }
}

impl TokenSet {
    fn read(reply: &FormReply) -> Result<Self, GrantError> {
        let unusable = |reason: &str| Unavailable::new("token", reason).into();
        match reply.status {
            200 => {}
            400..=499 => return Err(GrantError::Refused(reply.reason())),
            _ => return Err(Unavailable::new("token", reply.reason()).into()),
        }
        let text = |name: &str| reply.text(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let access_token =
            text("access_token").ok_or_else(|| unusable("it gives no access token"))?;
        // The tokens are used in headers unchanged, so their characters must be valid there.
        let is_plain = |text: &String| text.bytes().all(|byte| (0x21..0x7f).contains(&byte));
        let (refresh_token, id_token) = (text("refresh_token"), text("id_token"));
        if ![Some(&access_token), refresh_token.as_ref(), id_token.as_ref()]
            .into_iter()
            .flatten()
            .all(is_plain)
        {
            return Err(unusable("a token contains invalid characters"));
        }
        if text("token_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(unusable("its tokens are not bearer tokens"));
        }
        let lasts_s = match reply.fields.get("expires_in") {
            Some(Value::String(text)) => text.parse().ok(),
            Some(number) => number.as_u64(),
            None => None,
        };
        Ok(Self { access_token, lasts_s, refresh_token, id_token, scope: text("scope") })
    }
}

/// Running and recent renewals, because a provider may accept each refresh token only once.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    by_token: Mutex<HashMap<[u8; 32], RenewalEntry>>,
}

type Renewal = OnceCell<Result<TokenSet, GrantError>>;

/// Renewal and its start, in seconds since 1970.
type RenewalEntry = (u64, Arc<Renewal>);

impl Renewals {
    /// Renews a refresh token. `renew` asks the provider, once for all concurrent callers with an
    /// equal token.
    ///
    /// # Errors
    /// If `renew` fails.
    pub(crate) async fn renew(
        &self,
        refresh_token: &str,
        now_s: u64,
        renew: impl AsyncFnOnce() -> Result<TokenSet, GrantError>,
    ) -> Result<TokenSet, GrantError> {
        let mut key = [0; 32];
        key.copy_from_slice(digest::digest(&digest::SHA256, refresh_token.as_bytes()).as_ref());
        let Some(renewal) = self.join(key, now_s) else { return renew().await };
        let renewed = renewal.get_or_init(|| renew()).await.clone();
        if matches!(renewed, Err(GrantError::Unavailable(_))) {
            // The waiting callers get the error. The next one may find the provider up again.
            let mut under_way = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
            if under_way.get(&key).is_some_and(|(_, other)| Arc::ptr_eq(other, &renewal)) {
                under_way.remove(&key);
            }
        }
        renewed
    }

    /// Returns the renewal to wait for; `None` if there are too many.
    fn join(&self, key: [u8; 32], now_s: u64) -> Option<Arc<Renewal>> {
        let mut under_way = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let is_young = |begun_s: u64| now_s < begun_s.saturating_add(RENEWAL_AGE_MAX_S);
        if let Some((begun_s, renewal)) = under_way.get(&key)
            && is_young(*begun_s)
        {
            return Some(Arc::clone(renewal));
        }
        under_way.retain(|_, (begun_s, _)| is_young(*begun_s));
        if under_way.len() >= RENEWALS_MAX {
            return None;
        }
        let renewal = Arc::new(Renewal::new());
        under_way.insert(key, (now_s, Arc::clone(&renewal)));
        Some(renewal)
    }
}
