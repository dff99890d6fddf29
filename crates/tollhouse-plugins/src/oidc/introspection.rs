//! Token introspection (RFC 7662), with a cache of the answers.

use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest;
use hashbrown::HashMap;
use serde_json::Value;
use tollhouse_stdx::{MemoryBudget, Reservation};

use super::checks::Claims;
use super::client::{ClientAuth, Form};
use super::error::{TokenError, Unavailable};
use super::now::Now;
use super::provider::Provider;

/// Maximum number of cached introspection answers.
const ANSWERS_MAX: usize = 10_000;
/// Memory of an answer besides its text, in bytes.
const ANSWER_EXTRA_BYTES: u64 = 256;

/// Endpoint and cache of token introspection (RFC 7662).
#[derive(Debug)]
pub(crate) struct Introspection {
    /// Endpoint. `None`: the one in the provider's document.
    pub(crate) endpoint: Option<String>,
    pub(crate) auth: ClientAuth,
    /// Headers of the client's request that are sent along.
    pub(crate) addon_headers: Vec<String>,
    /// Claim with the expiry of a token.
    pub(crate) expiry_claim: String,
    /// Maximum time for which an answer is cached, in seconds; 0 for the lifetime of the token.
    pub(crate) interval_s: u64,
    pub(crate) answers: Arc<Answers>,
    /// Separates the answers for this client from those for others.
    pub(crate) segment: String,
}

/// Cached answers by the digest of their token.
#[derive(Debug)]
pub(crate) struct Answers {
    memory: Arc<MemoryBudget>,
    by_token: Mutex<HashMap<[u8; 32], Answer>>,
}

#[derive(Debug)]
struct Answer {
    claims: Arc<Claims>,
    until_s: u64,
    /// Reservation in the shared budget.
    _memory: Reservation,
}

/// Token of a request, and the client that asks about it.
#[derive(Debug)]
pub(crate) struct IntrospectionRequest<'r> {
    pub(crate) token: &'r str,
    /// Headers of the user's request that are sent along.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) client_id: &'r str,
}

impl Introspection {
    /// Returns the provider's claims about an active token.
    ///
    /// # Errors
    /// If the token is not active, or the provider does not answer.
    pub(crate) async fn claims(
        &self,
        provider: &Provider,
        request: IntrospectionRequest<'_>,
        now: Now,
    ) -> Result<Arc<Claims>, TokenError> {
        let IntrospectionRequest { token, headers, client_id } = request;
        let now_s = now.unix_s;
        let key = self.key(token, &headers);
        if let Some(claims) = self.answers.find(&key, now_s) {
            return Ok(claims);
        }
        let document = match self.endpoint {
            Some(_) => None,
            None => Some(provider.document(now.ms).await?),
        };
        let discovered =
            document.as_ref().and_then(|document| document.introspection_endpoint.as_ref());
        let endpoint = self.endpoint.as_ref().or(discovered);
        let what = "introspection";
        let endpoint = endpoint.ok_or_else(|| Unavailable::new(what, "no endpoint is known"))?;
        let fields =
            vec![("token", token.to_owned()), ("token_type_hint", "access_token".to_owned())];
        let form = Form { what, endpoint, fields, headers };
        let reply = self.auth.send(provider, client_id, now_s, form).await?;
        if reply.status != 200 {
            return Err(Unavailable::new(what, reply.reason()).into());
        }
        // Only an explicit `true` counts as active.
        if reply.fields.get("active") != Some(&Value::Bool(true)) {
            return Err(TokenError::Refused("invalid token"));
        }
        let end_s = match reply.fields.get(&self.expiry_claim).map(Value::as_f64) {
            None => None,
            Some(Some(end)) if end > 0.0 => Some(end as u64),
            Some(_) => Some(0),
        };
        if end_s.is_some_and(|end_s| end_s <= now_s) {
            return Err(TokenError::Refused("the token has expired"));
        }
        let claims = Arc::new(reply.fields);
        if let Some(end_s) = end_s {
            let until_s = match self.interval_s {
                0 => end_s,
                interval_s => end_s.min(now_s.saturating_add(interval_s)),
            };
            self.answers.keep(key, &claims, until_s, now_s);
        }
        Ok(claims)
    }

    fn key(&self, token: &str, headers: &[(String, Vec<u8>)]) -> [u8; 32] {
        let mut digest = digest::Context::new(&digest::SHA256);
        let mut part = |bytes: &[u8]| {
            digest.update(&(bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        part(self.segment.as_bytes());
        part(token.as_bytes());
        for (name, value) in headers {
            part(name.as_bytes());
            part(value);
        }
        let mut key = [0; 32];
        key.copy_from_slice(digest.finish().as_ref());
        key
    }
}

impl Answers {
    /// Returns an empty cache within this budget.
    pub(crate) fn new(memory: Arc<MemoryBudget>) -> Self {
        Self { memory, by_token: Mutex::default() }
    }

    fn find(&self, key: &[u8; 32], now_s: u64) -> Option<Arc<Claims>> {
        let mut answers = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        match answers.get(key) {
            Some(answer) if now_s < answer.until_s => return Some(Arc::clone(&answer.claims)),
            Some(_) => {}
            None => return None,
        }
        answers.remove(key);
        None
    }

    /// Caches an answer if there is room.
    fn keep(&self, key: [u8; 32], claims: &Arc<Claims>, until_s: u64, now_s: u64) {
        let bytes = serde_json::to_string(&**claims).map_or(0, |text| text.len() as u64);
        // Names and values take about twice the length of the text.
        let Some(memory) = self.memory.take(2 * bytes + ANSWER_EXTRA_BYTES) else { return };
        let mut answers = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= ANSWERS_MAX {
            answers.retain(|_, answer| now_s < answer.until_s);
        }
        if answers.len() >= ANSWERS_MAX {
            // Drops every second entry. Looking for the best one for each new answer would cost
            // more than asking the provider.
            let mut is_kept = false;
            answers.retain(|_, _| {
                is_kept = !is_kept;
                is_kept
            });
        }
        answers.insert(key, Answer { claims: Arc::clone(claims), until_s, _memory: memory });
    }
}
