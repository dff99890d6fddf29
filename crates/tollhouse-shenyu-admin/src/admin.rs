//! What answers: the tables, the keys of tokens, and who may call.

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
use crate::sync::places::Places;
use crate::table::Table;
use crate::tables::Name;
use crate::token::{Claims, TokenKey};
use crate::writer::Book;

/// Bytes of the key of tokens: the output of the hash that signs with it.
const TOKEN_KEY_BYTES: usize = 32;

/// What an admin is given once.
#[derive(Clone)]
pub struct Options {
    /// The password of the user `admin`, where there is none in the store yet.
    pub first_password: String,
    /// What gateways over WebSocket have to bring; `None` lets everybody follow, as ShenYu does up to 2.7.1.
    pub sync_token: Option<String>,
    /// Whether nodes are asked for connections.
    pub probing: Probing,
    /// What is written where there is nothing yet.
    pub beginning: Beginning,
    /// With what clients and login pages encrypt passwords, if they do.
    pub aes: Option<Aes>,
    /// Names under which browsers may call, beside addresses and local ones.
    pub hosts: HostNames,
    /// Up to which revision the data plane serves what is written; calls are then answered once it does.
    pub in_service: Option<InService>,
}

/// What an admin writes where there is nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// What ShenYu's admin begins with: plugins, a dictionary, a namespace, a role and a user.
    Admin,
    /// Nothing: only the gateway's own interface is served.
    Nothing,
}

/// Whether nodes of services are asked for connections, to find those that went without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probing {
    /// Every ten seconds, for as long as the listener serves.
    Always,
    /// Never: this machine does not reach them.
    Never,
}

/// Why an admin cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be read or written.
    #[error("the store cannot be used: {0}")]
    Store(#[from] StoreError),
    /// What an admin begins with cannot be written.
    #[error("what ShenYu's admin begins with cannot be written: {0}")]
    Begin(String),
}

/// ShenYu's admin; clones are the same one.
#[derive(Clone)]
pub struct ShenyuAdmin {
    pub(crate) book: Book,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) places: Arc<Places>,
    pub(crate) instances: Arc<Instances>,
    /// Turns true when whatever holds the store has to let go of it.
    pub(crate) ending: watch::Sender<bool>,
    pub(crate) probing: Probing,
    pub(crate) aes: Option<Arc<Aes>>,
    pub(crate) hosts: HostNames,
    /// What bodies of requests take their bytes of.
    pub(crate) memory: Arc<MemoryBudget>,
    sync_token: Option<Arc<str>>,
    logins: Arc<Logins>,
    failed_logins: Arc<FailedLogins>,
    key: TokenKey,
}

/// Who calls.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) user: Arc<Row>,
    pub(crate) rights: Rights,
}

impl ShenyuAdmin {
    /// Reads the store, writes what an admin begins with where that is missing, and follows from there.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn open(store: Arc<dyn Store>, options: Options) -> Result<Self, OpenError> {
        let ending = watch::Sender::new(false);
        let rows_max = store.limits().operations_max;
        let book = Book::open(store, ending.subscribe()).await?;
        let begin = |reason: &str| OpenError::Begin(reason.to_owned());
        if options.beginning == Beginning::Nothing {
            // Nobody logs in: the key of tokens is this process's, and forgotten with it.
            let mut bytes = [0; TOKEN_KEY_BYTES];
            rand::fill(&mut bytes).map_err(|_| begin("the system gives no random numbers"))?;
            return Ok(Self::over((book, ending), options, TokenKey::new(&bytes)));
        }
        let mut bytes = [0; TOKEN_KEY_BYTES];
        rand::fill(&mut bytes).map_err(|_| begin("the system gives no random numbers"))?;
        let password = password::keep(&options.first_password);
        let password = password.ok_or_else(|| begin("the system gives no random numbers"))?;
        let token_key = STANDARD.encode(bytes);
        let call = move |draft: &mut Draft<'_>| {
            let (password, token_key) = (password.clone(), token_key.clone());
            seed::write_missing(draft, &Secrets { password, token_key }, rows_max)
        };
        // A store takes so many rows at once, and there are more of them.
        while book.write(call.clone()).await.map_err(|refusal| begin(refusal.message()))?.data
            != true
        {}
        let key = {
            let tables = book.read();
            let kept = tables.get(Table::Secret, TOKEN_KEY);
            let text = kept.and_then(|kept| row::text(&kept.row, "key")).unwrap_or_default();
            let bytes = STANDARD.decode(text).ok().filter(|bytes| bytes.len() >= TOKEN_KEY_BYTES);
            TokenKey::new(&bytes.ok_or_else(|| begin("the key of tokens in the store is broken"))?)
        };
        Ok(Self::over((book, ending), options, key))
    }

    fn over((book, ending): (Book, watch::Sender<bool>), options: Options, key: TokenKey) -> Self {
        Self {
            // What there is to begin with was written without a wait: whoever opens an admin may be the one who puts
            // things into service.
            book: book.answering_once(options.in_service),
            snapshots: Arc::default(),
            ending,
            probing: options.probing,
            aes: options.aes.map(Arc::new),
            hosts: options.hosts,
            memory: MemoryBudget::new(BODIES_BYTES_MAX),
            sync_token: options.sync_token.map(Arc::from),
            places: Arc::default(),
            instances: Arc::default(),
            logins: Arc::default(),
            failed_logins: Arc::default(),
            key,
        }
    }

    /// The same admin in the hands of somebody: what is written is noted with it.
    pub(crate) fn by(&self, author: &Arc<Author>) -> Self {
        Self { book: self.book.by(Arc::clone(author)), ..self.clone() }
    }

    /// The same admin for a further listener, which probes no node.
    #[must_use]
    pub fn without_probing(&self) -> Self {
        Self { probing: Probing::Never, ..self.clone() }
    }

    /// Lets go of the store, and ends all who follow.
    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Whether gateways have to bring a token.
    pub(crate) fn asks_followers(&self) -> bool {
        self.sync_token.is_some()
    }

    /// Whether a gateway that brings this token may follow.
    pub(crate) fn lets_follow(&self, token: Option<&[u8]>) -> bool {
        let Some(wanted) = &self.sync_token else { return true };
        // The same time for every wrong one.
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

    /// `/platform/login`.
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
        let kept = user.as_ref().and_then(|user| row::text(user, "password"));
        // A name that nobody has takes as long as a password that is wrong.
        let kept = kept.unwrap_or_else(|| password::NOBODYS.to_owned());
        if !self.failed_logins.may_try(peer) {
            let text = "too many wrong passwords from this address, please try again in a minute";
            return Err(Refusal::error(text));
        }
        let is_right = self.is_right(password, kept.clone()).await?;
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
            Claims { user_name: name, client_id: client, exp, password: fingerprint(&kept) };
        let token = self.key.sign(&claims).map_err(|error| Refusal::error(error.to_string()))?;
        let mut data = (*user).clone();
        data.remove("password");
        data.insert("token".to_owned(), token.into());
        data.insert("expiredTime".to_owned(), expired_ms.into());
        crate::answer::success("login dashboard user success", Value::Object(data))
    }

    /// A password as it was typed, whether it comes encrypted or not.
    fn decrypted(&self, password: String) -> String {
        let decrypted = self.aes.as_ref().and_then(|aes| aes.decrypt(&password));
        decrypted.unwrap_or(password)
    }

    /// Whether a password is the one that is kept; off this thread, a few at a time.
    ///
    /// # Errors
    /// Too many wait already.
    pub(crate) async fn is_right(&self, password: String, kept: String) -> Result<bool, Refusal> {
        let _turn = self.logins.wait().await?;
        let work = tokio::task::spawn_blocking(move || password::is_right(&password, &kept));
        Ok(work.await.unwrap_or(false))
    }

    /// The form in which a password is kept.
    pub(crate) async fn keep_password(&self, password: String) -> Result<String, Refusal> {
        let failed = || Refusal::error("the password cannot be kept; ask again");
        let _turn = self.logins.wait().await?;
        let kept = tokio::task::spawn_blocking(move || password::keep(&password)).await;
        kept.ok().flatten().ok_or_else(failed)
    }

    /// Who brings this token.
    ///
    /// # Errors
    /// When it does not count, or its user is gone, disabled, or has another password by now.
    pub(crate) fn identify(&self, token: Option<&str>) -> Result<Caller, Refusal> {
        let claims = token.and_then(|token| self.key.verify(token, clock::now_ms() / 1000));
        let claims = claims.ok_or_else(Refusal::token)?;
        let user = self.user(&claims.user_name).ok_or_else(Refusal::token)?;
        let kept = row::text(&user, "password").unwrap_or_default();
        if fingerprint(&kept) != claims.password || row::flag(&user, "enabled") == Some(false) {
            return Err(Refusal::token());
        }
        let rights = Rights::read(&self.book.read(), &user);
        Ok(Caller { user, rights })
    }
}

/// Of a kept password, enough to see that it has changed.
fn fingerprint(kept: &str) -> String {
    /// Characters of the end, which are of the derived key and not of the salt.
    const LENGTH: usize = 12;
    let start = kept.len().saturating_sub(LENGTH);
    kept.get(start..).unwrap_or_default().to_owned()
}
