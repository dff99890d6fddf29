//! A member of an etcd: its connection and authentication.

use crate::messages::{
    AuthenticateRequest, AuthenticateResponse, Done, LeaseGrantRequest, LeaseGrantResponse,
    LeaseRequest, LeaseResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchRequest, WatchResponse,
};
use http::uri::PathAndQuery;
use prost::Message;
use std::marker::PhantomData;
use tokio::sync::{Mutex, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

/// Largest message accepted, in bytes: a hundred times a page of ordinary objects. Larger responses
/// are requested in smaller pages, down to a single key, whose size etcd limits.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A method of etcd's API with its request and response types.
pub(crate) struct Method<A, B> {
    path: &'static str,
    types: PhantomData<fn(A) -> B>,
}

impl<A, B> Method<A, B> {
    const fn new(path: &'static str) -> Self {
        Self { path, types: PhantomData }
    }
}

pub(crate) const RANGE: Method<RangeRequest, RangeResponse> = Method::new("/etcdserverpb.KV/Range");
pub(crate) const PUT: Method<PutRequest, PutResponse> = Method::new("/etcdserverpb.KV/Put");
pub(crate) const TXN: Method<TxnRequest, TxnResponse> = Method::new("/etcdserverpb.KV/Txn");
#[cfg(test)]
pub(crate) const COMPACT: Method<LeaseRequest, Done> = Method::new("/etcdserverpb.KV/Compact");
pub(crate) const WATCH: Method<WatchRequest, WatchResponse> =
    Method::new("/etcdserverpb.Watch/Watch");
pub(crate) const GRANT: Method<LeaseGrantRequest, LeaseGrantResponse> =
    Method::new("/etcdserverpb.Lease/LeaseGrant");
pub(crate) const REVOKE: Method<LeaseRequest, Done> =
    Method::new("/etcdserverpb.Lease/LeaseRevoke");
pub(crate) const KEEP_ALIVE: Method<LeaseRequest, LeaseResponse> =
    Method::new("/etcdserverpb.Lease/LeaseKeepAlive");
pub(crate) const TIME_TO_LIVE: Method<LeaseRequest, LeaseResponse> =
    Method::new("/etcdserverpb.Lease/LeaseTimeToLive");
pub(crate) const STATUS: Method<StatusRequest, StatusResponse> =
    Method::new("/etcdserverpb.Maintenance/Status");
const AUTHENTICATE: Method<AuthenticateRequest, AuthenticateResponse> =
    Method::new("/etcdserverpb.Auth/Authenticate");

type Token = MetadataValue<Ascii>;

pub(crate) struct Member {
    channel: Channel,
    user: Option<AuthenticateRequest>,
    /// Token of the last login. A task that logs in holds the lock, and the others wait for its
    /// token.
    token: Mutex<Option<Token>>,
}

/// Bidirectional stream: requests to etcd, and its answers.
pub(crate) struct Conversation<A, B> {
    /// Sender of requests. Dropping it makes etcd end the stream.
    _requests: mpsc::Sender<A>,
    pub(crate) answers: Streaming<B>,
}

impl Member {
    pub(crate) fn new(channel: Channel, user: Option<&(String, String)>) -> Self {
        let user = user.map(|(name, password)| AuthenticateRequest {
            name: name.clone(),
            password: password.clone(),
        });
        Self { channel, user, token: Mutex::default() }
    }

    /// Sends a request and returns its response.
    pub(crate) async fn call<A, B>(&self, method: &Method<A, B>, request: &A) -> Result<B, Status>
    where
        A: Message + Clone + Default + 'static,
        B: Message + Default + 'static,
    {
        let token = self.token(None).await?;
        let first = self.unary(method, request.clone(), token.as_ref()).await;
        match first {
            // The request was not executed, because etcd checks the token first.
            Err(status) if self.user.is_some() && is_stale(&status) => {
                let token = self.token(token.as_ref()).await?;
                self.unary(method, request.clone(), token.as_ref()).await
            }
            answer => answer,
        }
    }

    /// Opens a stream to etcd and sends one request on it.
    pub(crate) async fn converse<A, B>(
        &self,
        method: &Method<A, B>,
        request: A,
    ) -> Result<Conversation<A, B>, Status>
    where
        A: Message + Clone + Default + 'static,
        B: Message + Default + 'static,
    {
        let token = self.token(None).await?;
        let first = self.streaming(method, request.clone(), token.as_ref()).await;
        match first {
            Err(status) if self.user.is_some() && is_stale(&status) => {
                let token = self.token(token.as_ref()).await?;
                self.streaming(method, request, token.as_ref()).await
            }
            conversation => conversation,
        }
    }

    /// Makes the next request log in again.
    pub(crate) async fn forget_token(&self) {
        *self.token.lock().await = None;
    }

    async fn unary<A, B>(
        &self,
        method: &Method<A, B>,
        request: A,
        token: Option<&Token>,
    ) -> Result<B, Status>
    where
        A: Message + 'static,
        B: Message + Default + 'static,
    {
        let mut grpc = self.grpc().await?;
        let request = with_metadata(tonic::Request::new(request), token);
        let path = PathAndQuery::from_static(method.path);
        let codec = ProstCodec::<A, B>::default();
        grpc.unary(request, path, codec).await.map(tonic::Response::into_inner)
    }

    async fn streaming<A, B>(
        &self,
        method: &Method<A, B>,
        first: A,
        token: Option<&Token>,
    ) -> Result<Conversation<A, B>, Status>
    where
        A: Message + 'static,
        B: Message + Default + 'static,
    {
        let mut grpc = self.grpc().await?;
        let (sender, requests) = mpsc::channel(1);
        let _ = sender.send(first).await;
        let requests = with_metadata(tonic::Request::new(ReceiverStream::new(requests)), token);
        let path = PathAndQuery::from_static(method.path);
        let codec = ProstCodec::<A, B>::default();
        let answers = grpc.streaming(requests, path, codec).await?.into_inner();
        Ok(Conversation { _requests: sender, answers })
    }

    async fn grpc(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(grpc)
    }

    /// Returns a token other than the stale one; `None` if etcd requires none.
    async fn token(&self, stale: Option<&Token>) -> Result<Option<Token>, Status> {
        let Some(user) = &self.user else { return Ok(None) };
        let mut token = self.token.lock().await;
        if let Some(token) = token.as_ref().filter(|token| Some(*token) != stale) {
            return Ok(Some(token.clone()));
        }
        let answer = match self.unary(&AUTHENTICATE, user.clone(), None).await {
            // Authentication is disabled in etcd, which then ignores tokens.
            Err(status) if status.message().contains("authentication is not enabled") => {
                return Ok(None);
            }
            answer => answer?,
        };
        let fresh = answer.token.parse::<Token>();
        let fresh = fresh.map_err(|_| Status::internal("etcd returned an invalid token"))?;
        *token = Some(fresh.clone());
        Ok(Some(fresh))
    }
}

/// Whether the token is no longer valid, because it has expired, or users or roles have changed.
fn is_stale(status: &Status) -> bool {
    match status.code() {
        Code::Unauthenticated => status.message().contains("invalid auth token"),
        Code::InvalidArgument => {
            let message = status.message();
            message.contains("revision of auth store is old")
                || message.contains("user name is empty")
        }
        _ => false,
    }
}

fn with_metadata<T>(mut request: tonic::Request<T>, token: Option<&Token>) -> tonic::Request<T> {
    let metadata = request.metadata_mut();
    if let Some(token) = token {
        metadata.insert("token", token.clone());
    }
    // Without this header, a watch on a member that is disconnected from the others is silent for
    // ever.
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    request
}
