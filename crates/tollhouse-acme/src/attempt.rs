//! An attempt to obtain a certificate: resumes an existing order or creates one, and advances it
//! as far as the authority permits.
//!
//! Every result is stored before the next step, so that an interrupted attempt (by the end of the
//! process or by a failure) is resumed instead of repeated.

use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier,
    NewOrder, Order, OrderStatus,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use tokio::time::Instant;
use tollhouse_model::change_row::{self, ChangeKind, ChangeRow, Way};
use tollhouse_store::{Entry, LeaseId, Operation, Transaction};

use crate::account;
use crate::authority::Remarks;
use crate::certificate::{self, Facts, ObjectParts};
use crate::challenge::is_token;
use crate::failure::{Code, Failure, from_problem, from_protocol, is_bad_nonce};
use crate::keys;
use crate::records::{CertificateRecord, ChallengeRecord, ORDER_PLACE, OrderRecord, to_json};
use crate::schedule::{self, NoWindow};
use crate::settings::ChallengeKind;
use crate::shared::Shared;

/// Maximum number of retries of a request after a refused nonce, in addition to those of the ACME
/// library. Even if the authority refuses every second nonce, only one request in a million fails.
pub(crate) const NONCES_MAX: usize = 8;

/// Maximum time that one attempt waits for the authority's decision. After that, the attempt ends,
/// and the next attempt resumes the order.
const DECISION_TIME_MAX: Duration = Duration::from_secs(180);

/// Waits between two polls of an order: the first wait, the longest wait, and the longest wait that
/// an authority may request. A longer request ends the attempt.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const ASKED_WAIT_MAX: Duration = Duration::from_secs(30);

/// Maximum time to wait until this node serves the answers to pending challenges. Usually takes
/// milliseconds.
const ANSWERS_TIME_MAX: Duration = Duration::from_secs(10);

/// Number of unusable certificates that an authority may issue for one order before the order is
/// abandoned.
const UNUSABLE_MAX: u8 = 3;

/// Repeats a protocol call while the authority refuses its nonce. This is safe, because a request
/// with a refused nonce has no effect.
macro_rules! past_bad_nonces {
    ($call:expr) => {{
        let mut left = crate::attempt::NONCES_MAX;
        loop {
            match $call.await {
                Err(error) if left > 0 && crate::failure::is_bad_nonce(&error) => left -= 1,
                done => break done,
            }
        }
    }};
}
pub(crate) use past_bad_nonces;

pub(crate) struct Attempt<'s> {
    pub(crate) shared: &'s Arc<Shared>,
    pub(crate) lease: LeaseId,
    pub(crate) host: &'s str,
    /// Id of the certificate being renewed, for the field `replaces` of the order.
    pub(crate) replaces: Option<CertificateIdentifier<'static>>,
}

impl Attempt<'_> {
    /// Obtains a certificate and puts it into service, in one commit with the updated `record`.
    ///
    /// # Errors
    /// If the certificate could not be obtained yet.
    pub(crate) async fn run(self, record: &mut CertificateRecord) -> Result<Facts, Failure> {
        let order_record: Option<OrderRecord> = self.shared.record(&self.order_key()).await?;
        let order_record = order_record
            .filter(|order_record| order_record.directory == self.shared.settings.directory);
        let (account, remarks) = account::open(self.shared, self.lease).await?;
        let (mut order, order_record) = match self.resume(&account, order_record).await? {
            Some(resumed) => resumed,
            None => self.begin(&account, &remarks).await?,
        };
        let pem = match self.bring_through(&mut order, &order_record, &remarks).await {
            Ok(pem) => pem,
            Err(failure) => {
                if order.state().status == OrderStatus::Invalid {
                    self.give_up().await?;
                }
                return Err(failure);
            }
        };
        self.put_into_service(&pem, order_record, record).await
    }

    fn order_key(&self) -> String {
        format!("{}{}", keys::ORDERS, keys::certificate_id(self.host))
    }

    /// Resumes the order of an earlier attempt, if possible.
    async fn resume(
        &self,
        account: &Account,
        order_record: Option<OrderRecord>,
    ) -> Result<Option<(Order, OrderRecord)>, Failure> {
        let Some(order_record) = order_record else { return Ok(None) };
        // An order whose key cannot be opened is useless, and is replaced by a new order.
        let is_open = self.shared.open(&order_record.key, ORDER_PLACE).is_ok();
        let Some(url) = order_record.url.clone().filter(|_| is_open) else { return Ok(None) };
        match past_bad_nonces!(account.order(url.clone())) {
            Ok(mut order) => {
                if order.state().status == OrderStatus::Invalid {
                    return Ok(None);
                }
                tracing::info!(host = self.host, url, "an order for a certificate is resumed");
                Ok(Some((order, order_record)))
            }
            // The order has expired, or belongs to another account.
            Err(Error::Api(problem)) => {
                let failure = from_problem(&problem, Code::OrderRefused);
                if failure.code == Code::OrderRefused { Ok(None) } else { Err(failure) }
            }
            Err(error) => Err(from_protocol(error, Code::OrderRefused)),
        }
    }

    /// Creates an order. The key of the future certificate is stored before the request, so that no
    /// order is created if the store fails.
    async fn begin(
        &self,
        account: &Account,
        remarks: &Remarks,
    ) -> Result<(Order, OrderRecord), Failure> {
        let key = KeyPair::generate().map_err(|error| Failure::new(Code::KeyUnopened, error))?;
        let mut order_record = OrderRecord {
            host: self.host.to_owned(),
            directory: self.shared.settings.directory.clone(),
            url: None,
            key: self.shared.keyring.seal(&key.serialize_pem(), ORDER_PLACE),
            unusable: 0,
        };
        self.keep(&order_record).await?;
        let order = match self.ask_for(account, self.replaces.clone()).await {
            // Some authorities do not support `replaces`, or have already received it for this
            // certificate.
            Err(Error::Api(problem)) if self.replaces.is_some() => {
                let failure = from_problem(&problem, Code::OrderRefused);
                if failure.code == Code::RateLimited {
                    return Err(failure);
                }
                self.ask_for(account, None).await
            }
            // The order was created nevertheless. The library reports an error, because the
            // response lacks `replaces`.
            Err(Error::Other(reason))
                if self.replaces.is_some() && remarks.last().location.is_some() =>
            {
                let url = remarks.last().location.unwrap_or_default();
                tracing::debug!(%reason, "an order does not name the certificate it replaces");
                past_bad_nonces!(account.order(url.clone()))
            }
            asked => asked,
        };
        let order = order.map_err(|error| from_protocol(error, Code::OrderRefused))?;
        order_record.url = Some(order.url().to_owned());
        self.keep(&order_record).await?;
        tracing::info!(host = self.host, url = order.url(), "a certificate has been ordered");
        Ok((order, order_record))
    }

    async fn ask_for(
        &self,
        account: &Account,
        replaces: Option<CertificateIdentifier<'static>>,
    ) -> Result<Order, Error> {
        let identifiers = [Identifier::Dns(self.host.to_owned())];
        let mut new = NewOrder::new(&identifiers);
        if let Some(profile) = &self.shared.settings.profile {
            new = new.profile(profile);
        }
        if let Some(replaces) = replaces {
            new = new.replaces(replaces);
        }
        past_bad_nonces!(account.new_order(&new))
    }

    async fn keep(&self, order_record: &OrderRecord) -> Result<(), Failure> {
        let put = Transaction::new().put(self.order_key(), to_json(order_record));
        self.shared.commit(self.lease, put).await.map(drop)
    }

    async fn give_up(&self) -> Result<(), Failure> {
        let delete = Transaction::new().delete(self.order_key());
        self.shared.commit(self.lease, delete).await.map(drop)
    }

    /// Advances an order, whatever its state, until the certificate is issued; returns the
    /// certificate as PEM text.
    async fn bring_through(
        &self,
        order: &mut Order,
        order_record: &OrderRecord,
        remarks: &Remarks,
    ) -> Result<String, Failure> {
        if order.state().status == OrderStatus::Pending {
            let tokens = self.answer_challenges(order).await?;
            let decided = self.poll(order, remarks, |status| status != OrderStatus::Pending).await;
            self.withdraw(tokens).await?;
            decided?;
        }
        if order.state().status == OrderStatus::Ready {
            let key = self.shared.open(&order_record.key, ORDER_PLACE)?;
            let csr = signing_request(self.host, &key)?;
            past_bad_nonces!(order.finalize_csr(&csr)).map_err(refused)?;
        }
        self.poll(order, remarks, |status| {
            matches!(status, OrderStatus::Valid | OrderStatus::Invalid)
        })
        .await?;
        if order.state().status == OrderStatus::Invalid {
            return Err(self.why_invalid(order).await);
        }
        let pem = past_bad_nonces!(order.certificate()).map_err(refused)?;
        pem.ok_or_else(|| Failure::new(Code::AnswerMalformed, "a valid order has no certificate"))
    }

    /// Stores the answers to all challenges of the order, so that every node serves them, and
    /// notifies the authority.
    async fn answer_challenges(&self, order: &mut Order) -> Result<Vec<String>, Failure> {
        let pending = self.pending(order).await?;
        let mut put = Transaction::new();
        let mut tokens = Vec::new();
        for (token, record) in pending {
            // The entries are removed when the lease ends; the next holder of the lease stores them
            // again.
            let key = format!("{}{token}", keys::CHALLENGES);
            put = put.put_under(self.lease, key.as_str(), to_json(&record));
            tokens.push(key);
        }
        let revision = self.shared.commit(self.lease, put).await?;
        let mut seen = self.shared.seen.subscribe();
        let answered = seen.wait_for(|seen| *seen >= revision);
        if tokio::time::timeout(ANSWERS_TIME_MAX, answered).await.is_err() {
            let reason = "pending challenges do not reach the data plane";
            return Err(Failure::new(Code::StoreFailed, reason));
        }
        let kind = self.kind();
        let mut left = NONCES_MAX;
        'anew: loop {
            let mut authorizations = order.authorizations();
            while let Some(authorization) = authorizations.next().await {
                let mut authorization = authorization.map_err(refused)?;
                if authorization.status != AuthorizationStatus::Pending {
                    continue;
                }
                let Some(mut challenge) = authorization.challenge(kind.clone()) else { continue };
                match challenge.set_ready().await {
                    Ok(()) => {}
                    // Notifying the authority again of a ready challenge has no effect.
                    Err(error) if left > 0 && is_bad_nonce(&error) => {
                        left -= 1;
                        continue 'anew;
                    }
                    Err(error) => return Err(from_protocol(error, Code::ChallengeFailed)),
                }
            }
            return Ok(tokens);
        }
    }

    /// Returns the pending challenges of an order with their tokens.
    async fn pending(&self, order: &mut Order) -> Result<Vec<(String, ChallengeRecord)>, Failure> {
        let settings = &self.shared.settings;
        let kind = self.kind();
        let mut left = NONCES_MAX;
        // After a refused nonce the iterator has lost its position, so the listing starts again.
        'anew: loop {
            let mut pending = Vec::new();
            let mut authorizations = order.authorizations();
            while let Some(authorization) = authorizations.next().await {
                let mut authorization = match authorization {
                    Ok(authorization) => authorization,
                    Err(error) if left > 0 && is_bad_nonce(&error) => {
                        left -= 1;
                        continue 'anew;
                    }
                    Err(error) => return Err(refused(error)),
                };
                if authorization.status != AuthorizationStatus::Pending {
                    continue;
                }
                let Some(challenge) = authorization.challenge(kind.clone()) else {
                    let name = settings.challenge.name();
                    let reason = format!("the authority does not offer {name} for {}", self.host);
                    return Err(Failure::new(Code::OrderRefused, reason));
                };
                if !is_token(&challenge.token) {
                    let reason = "invalid challenge token";
                    return Err(Failure::new(Code::AnswerMalformed, reason));
                }
                let record = ChallengeRecord {
                    kind: settings.challenge,
                    host: self.host.to_owned(),
                    key_authorization: challenge.key_authorization().as_str().to_owned(),
                };
                pending.push((challenge.token.clone(), record));
            }
            return Ok(pending);
        }
    }

    fn kind(&self) -> ChallengeType {
        match self.shared.settings.challenge {
            ChallengeKind::Http01 => ChallengeType::Http01,
            ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        }
    }

    async fn withdraw(&self, tokens: Vec<String>) -> Result<(), Failure> {
        let delete = tokens.into_iter().fold(Transaction::new(), Transaction::delete);
        self.shared.commit(self.lease, delete).await.map(drop)
    }

    /// Polls an order until its status satisfies `is_decided`.
    async fn poll(
        &self,
        order: &mut Order,
        remarks: &Remarks,
        is_decided: impl Fn(OrderStatus) -> bool,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + DECISION_TIME_MAX;
        let mut wait = FIRST_WAIT;
        while !is_decided(order.state().status) {
            let asked = remarks.last().wait;
            let next = asked.map_or(wait, |asked| asked.max(FIRST_WAIT));
            if next > ASKED_WAIT_MAX || Instant::now() + next > deadline {
                let mut failure =
                    Failure::new(Code::Unavailable, "the authority has not decided yet");
                failure.wait = asked;
                return Err(failure);
            }
            tokio::time::sleep(next).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            past_bad_nonces!(order.refresh()).map_err(refused)?;
        }
        Ok(())
    }

    /// Returns the authority's reason for an invalid order, from its authorizations or the order
    /// itself.
    async fn why_invalid(&self, order: &mut Order) -> Failure {
        let of_order = order.state().error.as_ref().map(|it| from_problem(it, Code::OrderRefused));
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            // The authorization is read again, because the cached one is older than the challenge's
            // failure.
            if past_bad_nonces!(authorization.refresh()).is_err() {
                continue;
            }
            let error = authorization.challenges.iter().find_map(|it| it.error.as_ref());
            if let Some(problem) = error {
                let mut failure = from_problem(problem, Code::ChallengeFailed);
                failure.code = Code::ChallengeFailed;
                return failure;
            }
        }
        of_order.unwrap_or_else(|| {
            Failure::new(Code::OrderRefused, "the order is invalid; the authority gives no reason")
        })
    }

    /// Builds the row about the new certificate for the list of changes, as every write of an
    /// object has one.
    async fn change(&self, id: &str, after: &str, now_s: u64) -> Result<Operation, Failure> {
        let before = self.shared.store.get(&keys::object(&self.shared.prefix, id)).await?;
        let text = |entry: &Entry| String::from_utf8(entry.value.to_vec()).ok();
        let row = ChangeRow {
            at_ms: now_s.saturating_mul(1000),
            actor: None,
            way: Way::Acme,
            deed: if before.is_some() { ChangeKind::Replace } else { ChangeKind::Create },
            path: format!("ssls/{id}"),
            before: before.as_ref().and_then(text),
            after: Some(after.to_owned()),
            below: Vec::new(),
            was_to_end: false,
            is_cut: false,
            undoes: None,
        };
        // The name is unique, because a certificate changes at most once a second.
        let name = change_row::key_of(row.at_ms, id);
        let key = format!("{}/{}{name}", self.shared.prefix, change_row::FOLDER);
        Ok(Operation::put(key, row.within(change_row::BODIES_BYTES_MAX).to_text()))
    }

    /// Checks the new certificate, and replaces the previous one. The same commit removes the
    /// order.
    async fn put_into_service(
        &self,
        pem: &str,
        mut order_record: OrderRecord,
        record: &mut CertificateRecord,
    ) -> Result<Facts, Failure> {
        let now_s = self.shared.clock.now_s();
        let key = self.shared.open(&order_record.key, ORDER_PLACE)?;
        let facts = match certificate::check(pem, &key, self.host, now_s) {
            Ok(facts) => facts,
            Err(failure) => {
                // Without this limit, an authority that issues unusable certificates would be asked
                // for ever, against its rate limits.
                order_record.unusable = order_record.unusable.saturating_add(1);
                let given_up = order_record.unusable >= UNUSABLE_MAX;
                if given_up {
                    self.give_up().await?
                } else {
                    self.keep(&order_record).await?
                }
                return Err(failure);
            }
        };
        let id = keys::certificate_id(self.host);
        let parts = ObjectParts { id: &id, host: self.host, cert: pem, key: &key, now_s };
        let object = certificate::object(&parts, &self.shared.keyring);
        schedule::note_issued(record, now_s);
        let random = &mut self.shared.random();
        schedule::plan_by_life(
            record,
            &facts,
            NoWindow { wait: Some(Duration::ZERO), now_s },
            random,
        );
        let transaction = Transaction::new()
            .put(keys::object(&self.shared.prefix, &id), object.to_string())
            .then(self.change(&id, &object.to_string(), now_s).await?)
            .put(format!("{}{id}", keys::STATES), to_json(record))
            .delete(self.order_key());
        self.shared.commit(self.lease, transaction).await?;
        let not_after = tollhouse_model::certificate::format_date(
            i64::try_from(facts.not_after_s).unwrap_or(i64::MAX),
        );
        let (host, issuer) = (self.host, &facts.issuer);
        tracing::info!(host, issuer, not_after, "a certificate has been issued, and is served");
        Ok(facts)
    }
}

fn refused(error: Error) -> Failure {
    from_protocol(error, Code::OrderRefused)
}

/// Builds the certificate signing request (PKCS #10), DER.
fn signing_request(host: &str, key: &str) -> Result<Vec<u8>, Failure> {
    let made = || -> Result<_, rcgen::Error> {
        let mut params = CertificateParams::new([host.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        Ok(params.serialize_request(&KeyPair::from_pem(key)?)?.der().to_vec())
    };
    made().map_err(|error| Failure::new(Code::OrderRefused, format!("{host}: {error}")))
}
