//! Clients' calls over HTTP: the handlers of gRPC, with JSON as encoding.

use super::HttpApi;
use super::capacity::SHORT_BYTES_MAX;
use super::failure::Failure;
use super::intake::{CLIENT_BYTES_MAX, NoBody, caller, json_body, read_with};
use super::language::Language;
use super::printing::{self, Name};
use super::query::Query;
use super::reply::{DISCOVER, RESPONSE, Reply, responding};
use crate::answer::Answer;
use crate::code::Code;
use crate::dialect::config::messages::tag;
use crate::dialect::{CallReply, Caller, Dialect, HealthFilter, Undecodable};
use crate::json;
use crate::schema::descriptors;
use crate::v1;
use crate::wire::answer::discover;
use crate::wire::{DiscoverRequest, Fields, Value};
use aws_lc_rs::digest::{Context, SHA256};
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Response;
use prost::Message;

/// Call of the interface for client libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientCall {
    ReportClient,
    RegisterInstance,
    DeregisterInstance,
    Heartbeat,
    /// Queries a service or its rules. Over HTTP the request's health filter is honoured.
    Discover,
    /// Waits for a newer release of a configuration file.
    WatchConfigFile,
    ListConfigFiles,
    DiscoverConfig,
}

/// Header with the id of a call, which is returned with the answer.
pub(super) const REQUEST_ID: &str = "request-id";

/// Field number of `Service.revision`.
const REVISION: u32 = 15;

impl ClientCall {
    fn request(self) -> &'static str {
        match self {
            Self::ReportClient => "v1.Client",
            Self::RegisterInstance | Self::DeregisterInstance | Self::Heartbeat => "v1.Instance",
            Self::Discover => "v1.DiscoverRequest",
            Self::WatchConfigFile => "v1.ClientWatchConfigFileRequest",
            Self::ListConfigFiles => "v1.ConfigFileGroupRequest",
            Self::DiscoverConfig => "v1.ConfigDiscoverRequest",
        }
    }

    fn response(self) -> &'static str {
        match self {
            Self::Discover => DISCOVER,
            Self::WatchConfigFile => CONFIG_CLIENT,
            Self::ListConfigFiles => "v1.ConfigClientListResponse",
            Self::DiscoverConfig => "v1.ConfigDiscoverResponse",
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
    ) -> Result<CallReply, Undecodable> {
        match self {
            Self::ReportClient => dialect.report_client(caller, &message),
            Self::RegisterInstance => dialect.register(caller, message).await,
            Self::DeregisterInstance => dialect.deregister(caller, message).await,
            Self::Heartbeat => dialect.heartbeat(caller, &message),
            Self::Discover => dialect.discover(caller, &message, HealthFilter::Honoured),
            Self::WatchConfigFile => dialect.watch_config_files(caller, &message).await,
            Self::ListConfigFiles => dialect.list_config_files(caller, &message),
            Self::DiscoverConfig => dialect.discover_config(caller, &message),
        }
    }
}

/// Message type of an answer about one configuration file.
const CONFIG_CLIENT: &str = "v1.ConfigClientResponse";
/// Query parameters of a call for a configuration file.
const CONFIG_FILE_KEYS: &[&str] = &["namespace", "group", "fileName", "version", "tags"];

/// Answers a client's call for a configuration file, which it names in the query.
pub(super) async fn config_file(api: HttpApi, request: Request) -> Response<Body> {
    let (head, _) = request.into_parts();
    let language = Language::from_request(&head);
    let failed = |failure: &Failure| Reply::failure(CONFIG_CLIENT, failure).print(language);
    let message = match config_file_message(head.uri.query()) {
        Ok(message) => message,
        Err(failure) => return failed(&failure),
    };
    match api.dialect.get_config_file(&caller(&head), &message) {
        Ok(CallReply { code, answer }) => {
            let bytes = answer.into_bytes().into();
            Reply::from_bytes(code, CONFIG_CLIENT, bytes).send(&api.capacity, language).await
        }
        Err(_) => failed(&Code::ParseException.into()),
    }
}

fn config_file_message(query: Option<&str>) -> Result<Vec<u8>, Failure> {
    let query = Query::parse(query, CONFIG_FILE_KEYS)?;
    let text = |key: &str| query.get(key).map(str::to_owned);
    let version = query.get("version").map(str::parse).transpose();
    let tags = query.all("tags").filter_map(|tag| tag.split_once('='));
    let message = v1::ClientConfigFileInfo {
        namespace: text("namespace"),
        group: text("group"),
        file_name: text("fileName"),
        version: version.map_err(|_| Failure::with(Code::InvalidParameter, "version"))?,
        tags: tags.map(|(key, value)| tag(key.trim(), value.trim())).collect(),
        ..v1::ClientConfigFileInfo::default()
    };
    Ok(message.encode_to_vec())
}

/// Answers a call of a client library.
pub(super) async fn call(api: HttpApi, call: ClientCall, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let language = Language::from_request(&head);
    let failed = |failure: &Failure| Reply::failure(call.response(), failure).print(language);
    let body = json_body(&api.capacity, &head.headers, body, CLIENT_BYTES_MAX).await;
    let body = match body {
        Ok(body) => body,
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => return failed(&failure),
    };
    let message = match read(&api, call, &body.bytes).await {
        Ok(message) => message,
        Err(failure) => return failed(&failure),
    };
    drop(body);
    let caller = caller(&head);
    let request_fields = RequestFields::parse(call, &message);
    match call.answer(&api.dialect, &caller, message).await {
        Ok(replied) => send(&api, call, request_fields, replied, language).await,
        Err(_) => failed(&Code::ParseException.into()),
    }
}

async fn read(api: &HttpApi, call: ClientCall, body: &Bytes) -> Result<Bytes, Failure> {
    let read = move |body: &[u8]| {
        let descriptor = descriptors()
            .get_message_by_name(call.request())
            .expect("every type of request is in the schema");
        json::read(&descriptor, body)
    };
    let message = read_with(&api.capacity, body, read).await?;
    message.map(Bytes::from).map_err(|_| Code::ParseException.into())
}

async fn send(
    api: &HttpApi,
    call: ClientCall,
    request_fields: Option<RequestFields>,
    replied: CallReply,
    language: Language,
) -> Response<Body> {
    let CallReply { code, answer } = replied;
    if answer.length() <= SHORT_BYTES_MAX {
        let bytes = answer.into_bytes().into();
        return Reply::from_bytes(code, call.response(), bytes).print(language);
    }
    let name =
        request_fields.filter(|_| code == Code::ExecuteSuccess).and_then(|it| it.name_of(&answer));
    let text = match name {
        Some(name) => api.texts.shared(name, &api.capacity, call.response(), answer).await,
        None => printing::alone(&api.capacity, call.response(), answer).await,
    };
    match text {
        Ok(text) => responding(code, code.info(), text),
        Err(failure) => Reply::failure(call.response(), &failure).print(language),
    }
}

/// Fields of a request that its answer does not echo within the service.
#[derive(Debug, Clone, Copy)]
struct RequestFields {
    kind: i32,
    direction: i32,
    only_healthy: bool,
}

impl RequestFields {
    fn parse(call: ClientCall, message: &[u8]) -> Option<Self> {
        let request =
            (call == ClientCall::Discover).then(|| DiscoverRequest::parse(message).ok())??;
        Some(Self {
            kind: request.kind,
            direction: request.direction.0,
            only_healthy: request.only_healthy == Some(true),
        })
    }

    /// Returns the cache key of an answer: the request, and the echoed service with its revision.
    /// `None` if the answer has no revision.
    fn name_of(self, answer: &Answer) -> Option<Name> {
        // The head of an answer is always in its first piece.
        let service = Fields::new(&answer.first).flatten().find_map(|field| match field.value {
            Value::Bytes(service) if field.number == discover::SERVICE => Some(service),
            _ => None,
        })?;
        Fields::new(service).flatten().find(|field| field.number == REVISION)?;
        let mut digest = Context::new(&SHA256);
        digest.update(&self.kind.to_le_bytes());
        digest.update(&self.direction.to_le_bytes());
        digest.update(&[u8::from(self.only_healthy)]);
        digest.update(service);
        digest.finish().as_ref().try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_known_by_their_question_and_their_revision() {
        let answer = |name: &str, revision: Option<&str>| {
            let service = v1::Service {
                name: Some(name.to_owned()),
                revision: revision.map(str::to_owned),
                ..Default::default()
            };
            let answer = v1::DiscoverResponse { service: Some(service), ..Default::default() };
            Answer::from(Bytes::from(answer.encode_to_vec()))
        };
        let request_fields = RequestFields { kind: 1, direction: 0, only_healthy: false };
        let name = request_fields.name_of(&answer("a", Some("1")));
        assert_eq!(name, request_fields.name_of(&answer("a", Some("1"))));
        for (other, answer) in [
            (request_fields, answer("a", Some("2"))),
            (request_fields, answer("b", Some("1"))),
            (RequestFields { kind: 6, ..request_fields }, answer("a", Some("1"))),
            (RequestFields { direction: 1, ..request_fields }, answer("a", Some("1"))),
            (RequestFields { only_healthy: true, ..request_fields }, answer("a", Some("1"))),
        ] {
            assert_ne!(name, other.name_of(&answer), "{other:?}");
        }
        assert_eq!(request_fields.name_of(&answer("a", None)), None);
    }
}
