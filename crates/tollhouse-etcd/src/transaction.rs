//! Conversion of transactions to etcd requests, and of its responses.

use crate::keys::{Keys, revision_of, to_lease_number, to_number};
use crate::messages::{
    Compare, ComparisonValue, DeleteRangeRequest, EQUAL, GREATER, KeyValue, LESS, MOD, PutRequest,
    RangeRequest, Request, RequestOp, Response, ResponseOp, TxnRequest, TxnResponse, VERSION,
};
use bytes::Bytes;
use tollhouse_store::{
    Committed, Condition, Entry, LeaseId, Limits, Operation, Revision, StoreError, Transaction,
};

/// etcd's default limits: 128 operations (`--max-txn-ops`) and requests of 1.5 MiB
/// (`--max-request-bytes`). A sixth of the latter is reserved for framing, and because the key of a
/// condition is sent twice.
pub(crate) const LIMITS: Limits = Limits {
    key_bytes_max: 4 * 1024,
    value_bytes_max: 1024 * 1024,
    operations_max: 128,
    transaction_bytes_max: 1280 * 1024,
};

/// Converts a transaction to an etcd request. If a condition fails, the request reads the keys of
/// all conditions.
pub(crate) fn to_request(keys: &Keys, transaction: &Transaction) -> TxnRequest {
    TxnRequest {
        compare: transaction.conditions.iter().map(|it| compare(keys, it)).collect(),
        success: transaction.operations.iter().map(|it| operation(keys, it)).collect(),
        failure: transaction.conditions.iter().map(|it| look(keys, it)).collect(),
    }
}

fn key_of(keys: &Keys, condition: &Condition) -> Bytes {
    match condition {
        Condition::LeaseHeld { lease } => keys.lease(*lease),
        Condition::NothingPutSince { .. } => keys.range("").0,
        Condition::Absent { key }
        | Condition::Exists { key }
        | Condition::ModifiedAt { key, .. }
        | Condition::UnchangedSince { key, .. } => keys.outside(key),
    }
}

fn compare(keys: &Keys, condition: &Condition) -> Compare {
    let (result, target, compared) = match condition {
        Condition::Absent { .. } => (EQUAL, VERSION, ComparisonValue::Version(0)),
        Condition::Exists { .. } | Condition::LeaseHeld { .. } => {
            (GREATER, VERSION, ComparisonValue::Version(0))
        }
        // etcd treats a missing key as having revision zero, while in this store it has no
        // revision.
        Condition::ModifiedAt { revision: Revision::ZERO, .. } => {
            (LESS, MOD, ComparisonValue::ModRevision(0))
        }
        Condition::ModifiedAt { revision, .. } => {
            (EQUAL, MOD, ComparisonValue::ModRevision(to_number(*revision)))
        }
        Condition::UnchangedSince { revision, .. } | Condition::NothingPutSince { revision } => {
            (LESS, MOD, ComparisonValue::ModRevision(to_number(revision.next())))
        }
    };
    let range_end = range_end_of(keys, condition);
    Compare { result, target, key: key_of(keys, condition), range_end, compared: Some(compared) }
}

/// Returns the end of the key range that a condition compares; empty for a single key.
fn range_end_of(keys: &Keys, condition: &Condition) -> Bytes {
    match condition {
        Condition::NothingPutSince { .. } => keys.range("").1,
        _ => Bytes::new(),
    }
}

fn operation(keys: &Keys, operation: &Operation) -> RequestOp {
    let request = match operation {
        Operation::Put { key, value, lease } => Request::Put(PutRequest {
            key: keys.outside(key),
            value: value.clone(),
            lease: lease.map_or(0, to_lease_number),
            prev_kv: true,
        }),
        Operation::Delete { key } => Request::Delete(DeleteRangeRequest {
            key: keys.outside(key),
            range_end: Bytes::new(),
            prev_kv: true,
        }),
        Operation::DeletePrefix { prefix } => {
            let (key, range_end) = keys.range(prefix);
            Request::Delete(DeleteRangeRequest { key, range_end, prev_kv: false })
        }
    };
    RequestOp { request: Some(request) }
}

fn look(keys: &Keys, condition: &Condition) -> RequestOp {
    let mut range = RangeRequest { keys_only: true, ..RangeRequest::default() };
    range.key = key_of(keys, condition);
    if let Condition::NothingPutSince { revision } = condition {
        range.range_end = range_end_of(keys, condition);
        range.min_mod_revision = to_number(revision.next());
        range.limit = 1;
    }
    RequestOp { request: Some(Request::Range(range)) }
}

/// Converts the response to a transaction.
pub(crate) fn to_committed(
    keys: &Keys,
    transaction: &Transaction,
    answer: TxnResponse,
) -> Result<Committed, StoreError> {
    if !answer.succeeded {
        return Err(refusal(keys, &transaction.conditions, &answer.responses));
    }
    let revision = revision_of(answer.header.as_ref());
    let mut committed = Committed { revision, previous: Vec::new(), removed: 0 };
    for (index, operation) in transaction.operations.iter().enumerate() {
        let response = answer.responses.get(index).and_then(|it| it.response.as_ref());
        let previous: Option<&KeyValue> = match response {
            Some(Response::Put(put)) => put.prev_kv.as_ref(),
            Some(Response::Delete(delete)) => {
                committed.removed += usize::try_from(delete.deleted).unwrap_or_default();
                delete.prev_kvs.first().filter(|_| is_of_key(operation))
            }
            Some(Response::Range(_)) | None => None,
        };
        committed.previous.push(previous.and_then(|held| keys.entry(held)));
    }
    Ok(committed)
}

fn is_of_key(operation: &Operation) -> bool {
    match operation {
        Operation::Put { .. } | Operation::Delete { .. } => true,
        Operation::DeletePrefix { .. } => false,
    }
}

/// Returns the error for the first condition that does not hold, using the keys that etcd has read
/// in the transaction.
fn refusal(keys: &Keys, conditions: &[Condition], responses: &[ResponseOp]) -> StoreError {
    for (index, condition) in conditions.iter().enumerate() {
        let found: Option<Entry> = match responses.get(index).and_then(|it| it.response.as_ref()) {
            Some(Response::Range(range)) => {
                // The key of a lease is not an entry of the store; only its existence matters.
                if let Condition::LeaseHeld { lease } = condition {
                    if range.kvs.is_empty() {
                        return StoreError::Fenced { lease: *lease };
                    }
                    continue;
                }
                range.kvs.first().and_then(|held| keys.entry(held))
            }
            Some(Response::Put(_) | Response::Delete(_)) | None => None,
        };
        if let Condition::NothingPutSince { revision } = condition
            && found.is_some()
        {
            return StoreError::Outdated { revision: *revision };
        }
        if !condition.holds(found.as_ref()) {
            return StoreError::Conflict { key: condition.key().unwrap_or_default().into() };
        }
    }
    StoreError::Conflict { key: "".into() }
}

/// Returns the first lease that the transaction attaches a key to.
pub(crate) fn first_lease(transaction: &Transaction) -> Option<LeaseId> {
    transaction.operations.iter().find_map(|operation| match operation {
        Operation::Put { lease, .. } => *lease,
        Operation::Delete { .. } | Operation::DeletePrefix { .. } => None,
    })
}

/// Builds a request that reads all keys a transaction puts, at one instant. `None` if the
/// transaction also removes or puts nothing, because a missing key does not show which commit
/// removed it.
pub(crate) fn to_look(keys: &Keys, transaction: &Transaction) -> Option<TxnRequest> {
    let key = |operation: &Operation| match operation {
        Operation::Put { key, .. } => Some(keys.outside(key)),
        Operation::Delete { .. } | Operation::DeletePrefix { .. } => None,
    };
    let keys: Vec<Bytes> = transaction.operations.iter().map(key).collect::<Option<_>>()?;
    let range = |key| RequestOp {
        request: Some(Request::Range(RangeRequest { key, ..RangeRequest::default() })),
    };
    let success: Vec<RequestOp> = keys.into_iter().map(range).collect();
    (!success.is_empty()).then(|| TxnRequest { success, ..TxnRequest::default() })
}

/// Returns the commit if all keys of a transaction have its values and were put by a single commit.
pub(crate) fn found_commit(transaction: &Transaction, answer: &TxnResponse) -> Option<Committed> {
    let mut revision = None;
    for (index, operation) in transaction.operations.iter().enumerate() {
        let Operation::Put { value, .. } = operation else { return None };
        let Some(Response::Range(range)) = answer.responses.get(index)?.response.as_ref() else {
            return None;
        };
        let entry = range.kvs.first()?;
        if entry.value != *value
            || *revision.get_or_insert(entry.mod_revision) != entry.mod_revision
        {
            return None;
        }
    }
    let revision = crate::keys::to_revision(revision?);
    let previous = vec![None; transaction.operations.len()];
    Some(Committed { revision, previous, removed: 0 })
}
