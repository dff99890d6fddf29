//! The subset of etcd's messages in use: fields of `rpc.proto` and `kv.proto` of etcd's API with
//! their numbers. Written by hand, because crates with the complete messages require a
//! protocol-buffers compiler for the build.

use bytes::Bytes;
use prost::{Message, Oneof};

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field:meta])* $member:ident : $kind:ty,)* })*) => {
        $($(#[$doc])* #[derive(Clone, PartialEq, Message)]
        pub(crate) struct $name { $($(#[$field])* pub(crate) $member: $kind,)* })*
    };
}

messages! {
    ResponseHeader {
        #[prost(uint64, tag = "1")] cluster_id: u64,
        #[prost(int64, tag = "3")] revision: i64,
    }
    StatusRequest {
    }
    StatusResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(string, tag = "2")] version: String,
        #[prost(int64, tag = "3")] database_bytes: i64,
        #[prost(uint64, tag = "4")] leader: u64,
        #[prost(string, repeated, tag = "8")] errors: Vec<String>,
    }
    KeyValue {
        #[prost(bytes = "bytes", tag = "1")] key: Bytes,
        #[prost(int64, tag = "2")] create_revision: i64,
        #[prost(int64, tag = "3")] mod_revision: i64,
        #[prost(int64, tag = "4")] version: i64,
        #[prost(bytes = "bytes", tag = "5")] value: Bytes,
        #[prost(int64, tag = "6")] lease: i64,
    }
    Event {
        #[prost(int32, tag = "1")] kind: i32,
        #[prost(message, optional, tag = "2")] kv: Option<KeyValue>,
    }
    RangeRequest {
        #[prost(bytes = "bytes", tag = "1")] key: Bytes,
        #[prost(bytes = "bytes", tag = "2")] range_end: Bytes,
        #[prost(int64, tag = "3")] limit: i64,
        #[prost(int64, tag = "4")] revision: i64,
        #[prost(bool, tag = "8")] keys_only: bool,
        #[prost(bool, tag = "9")] count_only: bool,
        #[prost(int64, tag = "10")] min_mod_revision: i64,
    }
    RangeResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(message, repeated, tag = "2")] kvs: Vec<KeyValue>,
        #[prost(bool, tag = "3")] more: bool,
        #[prost(int64, tag = "4")] count: i64,
    }
    PutRequest {
        #[prost(bytes = "bytes", tag = "1")] key: Bytes,
        #[prost(bytes = "bytes", tag = "2")] value: Bytes,
        #[prost(int64, tag = "3")] lease: i64,
        #[prost(bool, tag = "4")] prev_kv: bool,
    }
    PutResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(message, optional, tag = "2")] prev_kv: Option<KeyValue>,
    }
    DeleteRangeRequest {
        #[prost(bytes = "bytes", tag = "1")] key: Bytes,
        #[prost(bytes = "bytes", tag = "2")] range_end: Bytes,
        #[prost(bool, tag = "3")] prev_kv: bool,
    }
    DeleteRangeResponse {
        #[prost(int64, tag = "2")] deleted: i64,
        #[prost(message, repeated, tag = "3")] prev_kvs: Vec<KeyValue>,
    }
    RequestOp {
        #[prost(oneof = "Request", tags = "1, 2, 3")] request: Option<Request>,
    }
    ResponseOp {
        #[prost(oneof = "Response", tags = "1, 2, 3")] response: Option<Response>,
    }
    Compare {
        #[prost(int32, tag = "1")] result: i32,
        #[prost(int32, tag = "2")] target: i32,
        #[prost(bytes = "bytes", tag = "3")] key: Bytes,
        #[prost(oneof = "ComparisonValue", tags = "4, 6")] compared: Option<ComparisonValue>,
        #[prost(bytes = "bytes", tag = "64")] range_end: Bytes,
    }
    TxnRequest {
        #[prost(message, repeated, tag = "1")] compare: Vec<Compare>,
        #[prost(message, repeated, tag = "2")] success: Vec<RequestOp>,
        #[prost(message, repeated, tag = "3")] failure: Vec<RequestOp>,
    }
    TxnResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(bool, tag = "2")] succeeded: bool,
        #[prost(message, repeated, tag = "3")] responses: Vec<ResponseOp>,
    }
    WatchRequest {
        #[prost(message, optional, tag = "1")] create: Option<WatchCreateRequest>,
    }
    WatchCreateRequest {
        #[prost(bytes = "bytes", tag = "1")] key: Bytes,
        #[prost(bytes = "bytes", tag = "2")] range_end: Bytes,
        #[prost(int64, tag = "3")] start_revision: i64,
        #[prost(bool, tag = "8")] fragment: bool,
    }
    WatchResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(bool, tag = "3")] created: bool,
        #[prost(bool, tag = "4")] canceled: bool,
        #[prost(int64, tag = "5")] compact_revision: i64,
        #[prost(string, tag = "6")] cancel_reason: String,
        #[prost(bool, tag = "7")] fragment: bool,
        #[prost(message, repeated, tag = "11")] events: Vec<Event>,
    }
    LeaseGrantRequest {
        #[prost(int64, tag = "1")] ttl: i64,
    }
    LeaseGrantResponse {
        #[prost(int64, tag = "2")] id: i64,
    }
    /// Request with a lease as its only field.
    LeaseRequest {
        #[prost(int64, tag = "1")] id: i64,
    }
    /// Response with the duration of a lease.
    LeaseResponse {
        #[prost(int64, tag = "3")] ttl: i64,
    }
    AuthenticateRequest {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, tag = "2")] password: String,
    }
    AuthenticateResponse {
        #[prost(string, tag = "2")] token: String,
    }
    /// Response whose content is not used.
    Done {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
    }
}

/// Kind of an event that removes a key; all others put one.
pub(crate) const DELETE: i32 = 1;

/// Relation that a comparison requires (`CompareResult`).
pub(crate) const EQUAL: i32 = 0;
pub(crate) const GREATER: i32 = 1;
pub(crate) const LESS: i32 = 2;

/// Property of a key that a transaction's condition compares (`CompareTarget`).
pub(crate) const VERSION: i32 = 0;
pub(crate) const MOD: i32 = 2;

/// Value that a property is compared with.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum ComparisonValue {
    /// Number of puts since the key was created; 0 if the key does not exist.
    #[prost(int64, tag = "4")]
    Version(i64),
    /// Revision of the last change to the key's value.
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

/// Response to a request of a transaction.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Response {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeResponse),
}
