//! Clients' calls over HTTP: the same handlers as gRPC, with JSON around them.

use super::HttpApi;
use super::intake::{NoBody, json_body, token};
use super::reply::{DISCOVER, RESPONSE, Reply};
use crate::code::Code;
use crate::dialect::{Caller, Dialect, HealthFilter, Replied, Undecodable};
use crate::json;
use crate::schema::descriptors;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Response;

/// A call that clients make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientCall {
    /// A client says that it is there.
    ReportClient,
    /// An instance comes.
    RegisterInstance,
    /// An instance goes.
    DeregisterInstance,
    /// An instance is well.
    Heartbeat,
    /// What is known of a service. Over HTTP the filter of the request counts.
    Discover,
}

/// The header that names a call; it comes back with the answer.
pub(super) const REQUEST_ID: &str = "request-id";

impl ClientCall {
    fn request(self) -> &'static str {
        match self {
            Self::ReportClient => "v1.Client",
            Self::RegisterInstance | Self::DeregisterInstance | Self::Heartbeat => "v1.Instance",
            Self::Discover => "v1.DiscoverRequest",
        }
    }

    fn response(self) -> &'static str {
        match self {
            Self::Discover => DISCOVER,
            Self::ReportClient
            | Self::RegisterInstance
            | Self::DeregisterInstance
            | Self::Heartbeat => RESPONSE,
        }
    }

    async fn answer(
        self,
        dialect: &Dialect,
        caller: &Caller<'_>,
        message: Bytes,
    ) -> Result<Replied, Undecodable> {
        match self {
            Self::ReportClient => dialect.report_client(caller, &message),
            Self::RegisterInstance => dialect.register(caller, message).await,
            Self::DeregisterInstance => dialect.deregister(caller, message).await,
            Self::Heartbeat => dialect.heartbeat(caller, &message),
            Self::Discover => dialect.discover(caller, &message, HealthFilter::Honoured),
        }
    }
}

/// Answers a client's call.
pub(super) async fn call(api: HttpApi, call: ClientCall, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let failed = |failure| Reply::failure(call.response(), &failure).into_response();
    let body = match json_body(&head.headers, body).await {
        Ok(body) => body,
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => return failed(failure),
    };
    let descriptor = descriptors()
        .get_message_by_name(call.request())
        .expect("every type of request is in the schema");
    let Ok(message) = json::read(&descriptor, &body) else {
        return failed(Code::ParseException.into());
    };
    let caller = Caller { token: token(&head.headers) };
    // In one piece, because pieces cannot leave the thread that they come on.
    let answered = call.answer(&api.dialect, &caller, message.into()).await;
    let Ok((code, answer)) = answered.map(|replied| (replied.code, replied.answer.into_bytes()))
    else {
        return failed(Code::ParseException.into());
    };
    let reply = Reply::of_bytes(code, call.response(), answer.into());
    // A list of all instances of a service takes its time.
    tokio::task::spawn_blocking(|| reply.into_response())
        .await
        .unwrap_or_else(|_| failed(Code::ExecuteException.into()))
}
