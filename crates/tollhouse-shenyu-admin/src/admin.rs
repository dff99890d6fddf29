//! State of ShenYu's admin: its tables, the key that signs tokens, and the rights of callers.

use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::sync::watch;
use tollhouse_net::failed_logins::FailedLogins;
use tollhouse_net::local_name::HostNames;
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;
use tollhouse_stdx::MemoryBudget;
use tollhouse_store::{InService, Store, StoreError};

use crate::aes::Aes;
use crate::answer::{Outcome, Refusal};
use crate::clock;
use crate::draft::Draft;
use crate::instances::Instances;
use crate::limits::BODIES_BYTES_MAX;
use crate::logins::Logins;
use crate::password;
use crate::records::Author;
use crate::rights::Rights;
use crate::row::{self, Row};
use crate::seed::{self, Secrets, TOKEN_KEY};
use crate::sync::Snapshots;
use crate::sync::permits::FollowerPermits;
use crate::table::Table;
use crate::tables::Name;
use crate::token::{Claims, TokenKey};
use crate::warnings::ProblemSource;
use crate::writer::Book;

/// Length of the key that signs tokens: the output length of the HMAC's hash.
const TOKEN_KEY_BYTES: usize = 32;

/// Settings that an admin is opened with.
#[derive(Clone)]
pub struct Options {
    /// Initial password of the user `admin`; used only if the store has no such user yet.
    pub first_password: String,
    /// Token that gateways present to follow over WebSocket. With `None` every gateway may follow,
    /// as in ShenYu up to 2.7.1.
    pub sync_token: Option<String>,
    /// Setting for TCP probes of the services' nodes.
    pub probing: Probing,
    /// Rows written into an empty store.
    pub beginning: Beginning,
    /// Key with which clients and login pages encrypt passwords; `None` if passwords arrive in
    /// plain text.
    pub aes: Option<Aes>,
    /// Host names under which browsers may call, in addition to IP addresses and local names.
    pub hosts: HostNames,
    /// Revision up to which the data plane serves what is written. With `Some`, a call is answered
    /// once its change is in service.
    pub in_service: Option<InService>,
    /// Problems of the data plane. With `Some`, the answer to a write names what does not serve.
    pub problems: Option<Arc<dyn ProblemSource>>,
}

/// Rows that an admin writes into an empty store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// The initial rows of ShenYu's admin: plugins, dictionary, a namespace, a role and a user.
    Admin,
    /// The tables get no rows, because the admin serves the gateway's local interface only.
    Nothing,
}

/// Setting for TCP probes of the services' nodes, which find crashed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probing {
    /// Nodes are probed every ten seconds, for as long as the listener serves.
    Always,
    /// Nodes are not probed, because this machine does not reach them.
    Never,
}

/// Why an admin cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the store cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The initial rows cannot be written.
    #[error("the initial rows of ShenYu's admin cannot be written: {0}")]
    Begin(String),
}

/// ShenYu's admin. Clones share one state.
#[derive(Clone)]
pub struct ShenyuAdmin {
    pub(crate) book: Book,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) follower_permits: Arc<FollowerPermits>,
    pub(crate) instances: Arc<Instances>,
    /// Turns true when every task that holds the store must release it.
    pub(crate) ending: watch::Sender<bool>,
    pub(crate) probing: Probing,
    pub(crate) aes: Option<Arc<Aes>>,
    pub(crate) hosts: HostNames,
    /// Memory budget shared by the bodies of all requests.
    pub(crate) memory: Arc<MemoryBudget>,
    sync_token: Option<Arc<str>>,
    logins: Arc<Logins>,
    failed_logins: Arc<FailedLogins>,
    key: TokenKey,
}

/// Admin on behalf of the caller of one call.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(crate) admin: &'a ShenyuAdmin,
    pub(crate) caller: &'a Caller,
}

/// The user of a call, with the user's rights.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) user: Arc<Row>,
    pub(crate) rights: Rights,
}

impl ShenyuAdmin {
    /// Reads the store, writes the initial rows that are missing, and follows the store from then
    /// on.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written.
    pub async fn open(store: Arc<dyn Store>, options: Options) -> Result<Self, OpenError> {
        let ending = watch::Sender::new(false);
        let rows_max = store.limits().operations_max;
        let book = Book::open(store, ending.subscribe()).await?;
        let begin = |reason: &str| OpenError::Begin(reason.to_owned());
        if options.beginning == Beginning::Nothing {
            // Without users nothing can log in, so the key need not outlive this process.
            let mut bytes = [0; TOKEN_KEY_BYTES];
            rand::fill(&mut bytes).map_err(|_| begin("no random numbers available"))?;
            return Ok(Self::over(book, ending, options, TokenKey::new(&bytes)));
        }
        let mut bytes = [0; TOKEN_KEY_BYTES];
        rand::fill(&mut bytes).map_err(|_| begin("no random numbers available"))?;
        let password = password::keep(&options.first_password);
        let password = password.ok_or_else(|| begin("no random numbers available"))?;
        let token_key = STANDARD.encode(bytes);
        let call = move |draft: &mut Draft<'_>| {
            let (password, token_key) = (password.clone(), token_key.clone());
            seed::write_missing(draft, &Secrets { password, token_key }, rows_max)
        };
        // The store limits the rows of one transaction, and there are more initial rows than that.
        while book.write(call.clone()).await.map_err(|refusal| begin(refusal.message()))?.data
            != true
        {}
        let key = {
            let tables = book.read();
            let hash = tables.get(Table::Secret, TOKEN_KEY);
            let text = hash.and_then(|hash| row::text(&hash.row, "key")).unwrap_or_default();
            let bytes = STANDARD.decode(text).ok().filter(|bytes| bytes.len() >= TOKEN_KEY_BYTES);
            TokenKey::new(&bytes.ok_or_else(|| begin("the token key in the store is invalid"))?)
        };
        Ok(Self::over(book, ending, options, key))
    }

    fn over(book: Book, ending: watch::Sender<bool>, options: Options, key: TokenKey) -> Self {
        Self {
            // Only from here on do writes wait until they are in service. The initial rows were
            // written without that wait, because the caller may itself be the one that puts
            // configuration into service.
            book: book.answering_once(options.in_service).warning_of(options.problems),
            snapshots: Arc::default(),
            ending,
            probing: options.probing,
            aes: options.aes.map(Arc::new),
            hosts: options.hosts,
            memory: MemoryBudget::new(BODIES_BYTES_MAX),
            sync_token: options.sync_token.map(Arc::from),
            follower_permits: Arc::default(),
            instances: Arc::default(),
            logins: Arc::default(),
            failed_logins: Arc::default(),
            key,
        }
    }

    /// Returns a copy of the admin that records every write with `author`.
    pub(crate) fn by(&self, author: &Arc<Author>) -> Self {
        Self { book: self.book.by(Arc::clone(author)), ..self.clone() }
    }

    /// Returns a copy of the admin for a further listener, without probes of nodes.
    #[must_use]
    pub fn without_probing(&self) -> Self {
        Self { probing: Probing::Never, ..self.clone() }
    }

    /// Releases the store and disconnects all followers.
    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Whether gateways must present a token.
    pub(crate) fn asks_followers(&self) -> bool {
        self.sync_token.is_some()
    }

    /// Whether a gateway that presents this token may receive the configuration.
    pub(crate) fn lets_follow(&self, token: Option<&[u8]>) -> bool {
        let Some(wanted) = &self.sync_token else { return true };
        // Constant time, so that the duration does not reveal how much of the token is right.
        token.is_some_and(|token| verify_slices_are_equal(token, wanted.as_bytes()).is_ok())
    }

    fn user(&self, name: &str) -> Option<Arc<Row>> {
        let tables = self.book.read();
        let name = Name {
            table: Table::User,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            parent: String::new(),
            name: name.to_owned(),
        };
        let id = tables.ids(&name).next()?;
        tables.get(Table::User, id).map(|stored| Arc::clone(&stored.row))
    }

    /// Answers `/platform/login`: checks user name and password, and issues a token.
    pub(crate) async fn log_in(
        &self,
        name: String,
        password: String,
        client: Option<String>,
        peer: IpAddr,
    ) -> Outcome {
        let wrong = || Refusal::error("username or password error");
        let password = self.decrypted(password);
        let user = self.user(&name);
        let hash = user.as_ref().and_then(|user| row::text(user, "password"));
        // An unknown user is checked against a dummy hash, so that it takes as long as a wrong
        // password.
        let hash = hash.unwrap_or_else(|| password::NOBODYS.to_owned());
        if !self.failed_logins.may_try(peer) {
            let text = "too many wrong passwords from this address, please try again in a minute";
            return Err(Refusal::error(text));
        }
        let is_right = self.is_right(password, hash.clone()).await?;
        let Some(user) = user.filter(|_| is_right) else {
            self.failed_logins.failed(peer);
            tracing::info!(%peer, user = name.escape_debug().to_string(), "a login at ShenYu's admin failed");
            return Err(wrong());
        };
        self.failed_logins.succeeded(peer);
        if row::flag(&user, "enabled") == Some(false) {
            return Err(Refusal::error("the user is disabled"));
        }
        let expired_ms = u64::try_from(crate::limits::TOKEN_TIME.as_millis()).unwrap_or(u64::MAX);
        let exp = clock::now_ms().saturating_add(expired_ms) / 1000;
        let claims =
            Claims { user_name: name, client_id: client, exp, password: fingerprint(&hash) };
        let token = self.key.sign(&claims).map_err(|error| Refusal::error(error.to_string()))?;
        let mut data = (*user).clone();
        data.remove("password");
        data.insert("token".to_owned(), token.into());
        data.insert("expiredTime".to_owned(), expired_ms.into());
        crate::answer::success("login dashboard user success", Value::Object(data))
    }

    /// Returns the password as it was typed, whether it arrives encrypted or in plain text.
    fn decrypted(&self, password: String) -> String {
        let decrypted = self.aes.as_ref().and_then(|aes| aes.decrypt(&password));
        decrypted.unwrap_or(password)
    }

    /// Whether `password` matches the hash `kept`. Hashing runs on the blocking pool, a few at a
    /// time.
    ///
    /// # Errors
    ///
    /// If too many logins wait already.
    pub(crate) async fn is_right(&self, password: String, kept: String) -> Result<bool, Refusal> {
        let _permit = self.logins.wait().await?;
        let work = tokio::task::spawn_blocking(move || password::is_right(&password, &kept));
        Ok(work.await.unwrap_or(false))
    }

    /// Returns the salted hash of a password, in its stored form.
    pub(crate) async fn keep_password(&self, password: String) -> Result<String, Refusal> {
        let failed = || Refusal::error("the password cannot be kept; ask again");
        let _permit = self.logins.wait().await?;
        let hash = tokio::task::spawn_blocking(move || password::keep(&password)).await;
        hash.ok().flatten().ok_or_else(failed)
    }

    /// Returns the user that a token was issued to.
    ///
    /// # Errors
    ///
    /// If the token is invalid, or if its user was deleted, was disabled, or has changed the
    /// password since.
    pub(crate) fn identify(&self, token: Option<&str>) -> Result<Caller, Refusal> {
        let claims = token.and_then(|token| self.key.verify(token, clock::now_ms() / 1000));
        let claims = claims.ok_or_else(Refusal::token)?;
        let user = self.user(&claims.user_name).ok_or_else(Refusal::token)?;
        let hash = row::text(&user, "password").unwrap_or_default();
        if fingerprint(&hash) != claims.password || row::flag(&user, "enabled") == Some(false) {
            return Err(Refusal::token());
        }
        let rights = Rights::read(&self.book.read(), &user);
        Ok(Caller { user, rights })
    }
}

/// Returns the end of a password hash, enough to notice that the password has changed.
fn fingerprint(kept: &str) -> String {
    /// Number of characters taken from the end, which belong to the derived key and not to the
    /// salt.
    const LENGTH: usize = 12;
    let start = kept.len().saturating_sub(LENGTH);
    kept.get(start..).unwrap_or_default().to_owned()
}
