//! Access tokens of a service account (RFC 7523), each used until shortly before it expires.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::account::{Account, AccountSource, read_file};
use crate::http_client::HttpClient;
use crate::logging::batch::DeliveryError;
use crate::logging::http::{HttpServers, accept_ok, header};
use crate::oidc::form;

/// Lifetime of an assertion, in seconds: the longest that Google accepts.
const ASSERTION_S: u64 = 3_600;
/// Time before its end at which a token is replaced, in seconds.
const MARGIN_S: u64 = 60;

/// Access to the log of an account's project.
pub(super) struct Access {
    pub(super) project_id: String,
    pub(super) entries_uri: String,
    /// Value of the header `Authorization`.
    pub(super) authorization: String,
    until_s: u64,
}

/// Access tokens of an account.
pub(super) struct Tokens {
    account: AccountSource,
    client: HttpClient,
    current: Mutex<Option<Arc<Access>>>,
}

impl Tokens {
    pub(super) fn new(account: AccountSource, client: HttpClient) -> Self {
        Self { account, client, current: Mutex::default() }
    }

    /// Returns the current token, or a new one.
    ///
    /// # Errors
    /// If the account cannot be read, or no token is issued for it.
    pub(super) async fn access(&self) -> Result<Arc<Access>, DeliveryError> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let current = self.lock().clone();
        if let Some(access) = current.filter(|access| now_s + MARGIN_S < access.until_s) {
            return Ok(access);
        }
        let access = match &self.account {
            AccountSource::Conf(account) => self.fetch(account, now_s).await?,
            AccountSource::File(path) => {
                let path = path.clone();
                let account = tokio::task::spawn_blocking(move || read_file(&path)).await;
                let account = account.unwrap_or_else(|error| Err(error.to_string()));
                self.fetch(&account.map_err(DeliveryError::Token)?, now_s).await?
            }
        };
        let access = Arc::new(access);
        *self.lock() = Some(Arc::clone(&access));
        Ok(access)
    }

    /// Drops the current token, which the log does not accept.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Access>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(&self, account: &Account, now_s: u64) -> Result<Access, DeliveryError> {
        let failed = |reason: &str| DeliveryError::Token(reason.to_owned());
        let fields = &account.fields;
        let claims = json!({
            "iss": fields.client_email, "aud": fields.token_uri, "scope": account.scope(),
            "iat": now_s, "exp": now_s + ASSERTION_S,
        });
        let assertion = account.signer.sign_claims(&claims);
        let assertion = assertion.ok_or_else(|| failed("the assertion cannot be signed"))?;
        let body = form::encode(&[
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned()),
            ("assertion", assertion),
        ]);
        let servers = HttpServers::new([fields.token_uri.clone()], self.client.clone());
        let headers = vec![header("Content-Type", "application/x-www-form-urlencoded")];
        let reply = servers.post(headers, body).await;
        let reply = reply.map_err(|error| failed(&error.to_string()))?;
        accept_ok(&reply).map_err(|error| failed(&error.to_string()))?;
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let token = answer["access_token"].as_str().ok_or_else(|| failed("the answer has none"))?;
        let kind = answer["token_type"].as_str().unwrap_or("Bearer");
        Ok(Access {
            project_id: fields.project_id.clone(),
            entries_uri: fields.entries_uri.clone(),
            authorization: format!("{kind} {token}"),
            until_s: now_s.saturating_add(answer["expires_in"].as_u64().unwrap_or(0)),
        })
    }
}
