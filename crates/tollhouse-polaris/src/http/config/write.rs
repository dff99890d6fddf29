//! Changes of the configuration centre by the console.

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::http::request::Parts;
use prost::Message;
use tollhouse_registry::config::{
    ConfigCommand, ConfigFileKey, ConfigGroupChange, ConfigOutcome, ConfigTemplate, Dates,
    ReleaseRef,
};
use tollhouse_registry::{Metadata, Outcome, ServiceKey, State};

use super::{BATCH_WRITE, RESPONSE, reply};
use crate::access::Door;
use crate::code::Code;
use crate::dialect::config::format::FormatCheck;
use crate::dialect::config::messages;
use crate::dialect::config::write::{Overwrite, file_key, release_key};
use crate::dialect::rights::{Permits, grantees};
use crate::http::HttpApi;
use crate::http::console::{BATCH_ITEMS_MAX, descriptor, request_body};
use crate::http::failure::Failure;
use crate::http::intake::{NoBody, caller, read_with};
use crate::http::language::Language;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::json;
use crate::v1;

/// Maximum length of a template's content in characters, as in Polaris. Its console offers templates
/// as the beginning of a file.
const TEMPLATE_CHARS_MAX: usize = 20_000;

/// A call that writes one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SingleWrite {
    CreateGroup,
    UpdateGroup,
    CreateFile,
    UpdateFile,
    Publish,
    /// Creates or updates a file, whatever its content is, and publishes it.
    WriteAndPublish,
    CreateTemplate,
}

/// A call that writes a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchWrite {
    /// Stops at the first failure, and answers as for one object.
    DeleteFiles,
    Rollback,
    DeleteReleases,
    StopGray,
}

/// A call that deletes the object that its query names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    Group,
    File,
}

/// Answers a call that writes one object.
pub(super) async fn single(api: HttpApi, call: SingleWrite, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let language = Language::from_request(&head);
    let reply = match request_body(&api, &head, body).await {
        Ok(body) => {
            let read = move |body: &[u8]| json::read_kept(&descriptor(call.message()), body);
            let message = read_with(&api.capacity, &body.bytes, read).await;
            let message = message.and_then(|it| it.map_err(|_| Code::ParseException.into()));
            match message {
                Ok(message) => write_single(&api, &head, call, &message).await,
                Err(failure) => Err(failure),
            }
        }
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => Err(failure),
    };
    let reply = reply.unwrap_or_else(|failure| Reply::failure(RESPONSE, &failure));
    reply.send(&api.capacity, language).await
}

/// Answers a call that writes a list.
pub(super) async fn batch(api: HttpApi, call: BatchWrite, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let language = Language::from_request(&head);
    let reply = match request_body(&api, &head, body).await {
        Ok(body) => {
            let read = move |body: &[u8]| {
                json::read_list(&descriptor(call.message()), body, BATCH_ITEMS_MAX)
            };
            let items = read_with(&api.capacity, &body.bytes, read).await;
            let items = items.and_then(|items| {
                let items = items.map_err(|_| Failure::from(Code::ParseException))?;
                items.ok_or_else(|| Code::BatchSizeOverLimit.into())
            });
            match items {
                Ok(items) => write_batch(&api, &head, call, &items).await,
                Err(failure) => Err(failure),
            }
        }
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => Err(failure),
    };
    let reply = reply.unwrap_or_else(|failure| Reply::failure(call.answer(), &failure));
    reply.send(&api.capacity, language).await
}

/// Answers a call that deletes an object.
pub(super) async fn removal(api: HttpApi, call: Removal, request: Request) -> Response<Body> {
    let (head, _) = request.into_parts();
    let language = Language::from_request(&head);
    let admitted = api.dialect.admit_any(Door::Console, &caller(&head)).map_err(Failure::from);
    let command = admitted.and_then(|()| call.command(head.uri.query()));
    let done = match command {
        Ok(command) => api.dialect.change_config(Door::Console, &caller(&head), command).await,
        Err(failure) => Err(failure),
    };
    let failure = done.map_or_else(|failure| failure, |_| Code::ExecuteSuccess.into());
    Reply::failure(RESPONSE, &failure).print(language)
}

async fn write_single(
    api: &HttpApi,
    head: &Parts,
    call: SingleWrite,
    message: &[u8],
) -> Result<Reply, Failure> {
    let undecodable = |_| Failure::from(Code::ParseException);
    let mut response = v1::ConfigResponse::default();
    let is_forced = Query::parse(head.uri.query(), &["force"])?.flag("force")?.unwrap_or(false);
    let check = if is_forced { FormatCheck::Forced } else { api.dialect.format_check() };
    let mut granted = Vec::new();
    let command = match call {
        SingleWrite::CreateGroup | SingleWrite::UpdateGroup => {
            let group = v1::ConfigFileGroup::decode(message).map_err(undecodable)?;
            if call == SingleWrite::CreateGroup {
                granted = grantees(&api.registry().state(), &group.user_ids, &group.group_ids)?;
            }
            let (key, change) = group_change(group);
            match call {
                SingleWrite::CreateGroup => ConfigCommand::CreateGroup(key, change),
                _ => ConfigCommand::UpdateGroup(key, change),
            }
        }
        SingleWrite::CreateFile => {
            let file = v1::ConfigFile::decode(message).map_err(undecodable)?;
            api.dialect.file_command(&file, ConfigCommand::CreateFile)?
        }
        SingleWrite::UpdateFile => {
            let file = v1::ConfigFile::decode(message).map_err(undecodable)?;
            check_group(api, head, "UpdateConfigFile", &file_key(&file))?;
            api.dialect.file_command(&file, ConfigCommand::UpdateFile)?
        }
        SingleWrite::Publish => {
            let release = v1::ConfigFileRelease::decode(message).map_err(undecodable)?;
            check_group(api, head, "PublishConfigFile", &release_key(&release))?;
            api.dialect.publication(&release, check)?
        }
        SingleWrite::WriteAndPublish => {
            let written = v1::ConfigFilePublishInfo::decode(message).map_err(undecodable)?;
            let key = ConfigFileKey::new(
                written.namespace.as_deref().unwrap_or_default(),
                written.group.as_deref().unwrap_or_default(),
                written.file_name.as_deref().unwrap_or_default(),
            );
            check_group(api, head, "UpsertAndReleaseConfigFile", &key)?;
            api.dialect.upsert(&written, Overwrite::Always, check)?
        }
        SingleWrite::CreateTemplate => {
            let template = v1::ConfigFileTemplate::decode(message).map_err(undecodable)?;
            ConfigCommand::CreateTemplate(Box::new(new_template(&template)?))
        }
    };
    let outcome = api.dialect.change_config(Door::Console, &caller(head), command).await?;
    api.dialect.grant(granted, &Outcome::Config(outcome.clone())).await?;
    show(&mut response, &api.registry().state(), &outcome);
    Ok(reply(RESPONSE, &Code::ExecuteSuccess.into(), &response))
}

/// Refuses a call before its command is made, because refusals of the command tell of the stored
/// file.
fn check_group(
    api: &HttpApi,
    head: &Parts,
    function: &'static str,
    key: &ConfigFileKey,
) -> Result<(), Failure> {
    let (state, caller) = (api.registry().state(), caller(head));
    let rights = api.dialect.rights(&state, Door::Console, &caller);
    Ok(rights.group(function, &key.namespace, &key.group)?)
}

/// Adds the object that a command wrote.
fn show(response: &mut v1::ConfigResponse, state: &State, outcome: &ConfigOutcome) {
    match outcome {
        ConfigOutcome::Group(group) => {
            let view = state.config_group(&group.key.namespace, &group.key.name);
            let count = view.map_or(0, |view| view.file_count);
            // The caller has just changed it.
            response.config_file_group = Some(messages::group(group, count, Permits::ALL));
        }
        ConfigOutcome::File(file) => {
            let key = &file.key;
            let view = state.config_file(&key.namespace, &key.group, &key.name);
            response.config_file = view.map(|view| messages::file(view, file));
        }
        ConfigOutcome::Release(release) => {
            let key = &release.key;
            let view = state.config_file(&key.namespace, &key.group, &key.name);
            let content = messages::Content::LeftOut;
            response.config_file_release =
                view.map(|view| messages::release(view, release, content));
        }
        ConfigOutcome::Template(template) => {
            response.config_file_template = Some(messages::template(template));
        }
        ConfigOutcome::Done => {}
    }
}

async fn write_batch(
    api: &HttpApi,
    head: &Parts,
    call: BatchWrite,
    items: &[Vec<u8>],
) -> Result<Reply, Failure> {
    if items.is_empty() {
        return Err(Code::EmptyRequest.into());
    }
    let caller = caller(head);
    let mut responses = Vec::new();
    let mut codes = Vec::new();
    for item in items {
        let done = match call.command(item) {
            Ok(command) => api.dialect.change_config(Door::Console, &caller, command).await,
            Err(failure) => Err(failure),
        };
        let failure = done.map_or_else(|failure| failure, |_| Code::ExecuteSuccess.into());
        if call == BatchWrite::DeleteFiles && !failure.code.is_success() {
            return Err(failure);
        }
        codes.push(failure.code);
        responses.push(v1::ConfigResponse {
            code: Some(failure.code.number()),
            info: Some(failure.info().into_owned()),
            ..v1::ConfigResponse::default()
        });
    }
    if call == BatchWrite::DeleteFiles {
        return Ok(Reply::failure(RESPONSE, &Code::ExecuteSuccess.into()));
    }
    let response = v1::ConfigBatchWriteResponse {
        total: Some(responses.len() as u32),
        responses,
        ..v1::ConfigBatchWriteResponse::default()
    };
    Ok(reply(BATCH_WRITE, &Code::highest(codes).into(), &response))
}

impl SingleWrite {
    /// Message type of the object.
    fn message(self) -> &'static str {
        match self {
            Self::CreateGroup | Self::UpdateGroup => "v1.ConfigFileGroup",
            Self::CreateFile | Self::UpdateFile => "v1.ConfigFile",
            Self::Publish => "v1.ConfigFileRelease",
            Self::WriteAndPublish => "v1.ConfigFilePublishInfo",
            Self::CreateTemplate => "v1.ConfigFileTemplate",
        }
    }
}

impl BatchWrite {
    /// Message type of an item.
    fn message(self) -> &'static str {
        match self {
            Self::DeleteFiles => "v1.ConfigFile",
            Self::Rollback | Self::DeleteReleases | Self::StopGray => "v1.ConfigFileRelease",
        }
    }

    /// Message type of the answer.
    fn answer(self) -> &'static str {
        match self {
            Self::DeleteFiles => RESPONSE,
            Self::Rollback | Self::DeleteReleases | Self::StopGray => BATCH_WRITE,
        }
    }

    fn command(self, item: &[u8]) -> Result<ConfigCommand, Failure> {
        let undecodable = |_| Failure::from(Code::ParseException);
        if self == Self::DeleteFiles {
            let file = v1::ConfigFile::decode(item).map_err(undecodable)?;
            return Ok(ConfigCommand::DeleteFile(file_key(&file)));
        }
        let release = v1::ConfigFileRelease::decode(item).map_err(undecodable)?;
        let key = release_key(&release);
        let name = release.name.unwrap_or_default().into();
        Ok(match self {
            Self::Rollback => ConfigCommand::Rollback(ReleaseRef { key, name }),
            Self::DeleteReleases => ConfigCommand::DeleteRelease(ReleaseRef { key, name }),
            Self::StopGray | Self::DeleteFiles => ConfigCommand::StopGray(key),
        })
    }
}

impl Removal {
    fn command(self, query: Option<&str>) -> Result<ConfigCommand, Failure> {
        let query = Query::parse(query, &["namespace", "group", "name"])?;
        let text = |key: &str| query.get(key).unwrap_or_default().to_owned();
        Ok(match self {
            Self::Group => {
                ConfigCommand::DeleteGroup(ServiceKey::new(&text("namespace"), &text("group")))
            }
            Self::File => {
                let file = v1::ConfigFile {
                    namespace: Some(text("namespace")),
                    group: Some(text("group")),
                    name: Some(text("name")),
                    ..v1::ConfigFile::default()
                };
                ConfigCommand::DeleteFile(file_key(&file))
            }
        })
    }
}

fn group_change(group: v1::ConfigFileGroup) -> (ServiceKey, ConfigGroupChange) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let key = ServiceKey::new(&text(&group.namespace), &text(&group.name));
    let metadata: Metadata =
        group.metadata.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    let change = ConfigGroupChange {
        comment: group.comment,
        owner: group.owner.filter(|owner| !owner.is_empty()),
        business: group.business,
        department: group.department,
        metadata: Some(metadata),
    };
    (key, change)
}

fn new_template(template: &v1::ConfigFileTemplate) -> Result<ConfigTemplate, Failure> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let content = text(&template.content);
    if text(&template.name).is_empty() {
        return Err(Code::InvalidConfigFileTemplateName.into());
    }
    if content.chars().nth(TEMPLATE_CHARS_MAX).is_some() {
        return Err(Code::InvalidConfigFileContentLength.into());
    }
    if content.is_empty() {
        return Err(Failure::with(Code::BadRequest, "content can not be blank."));
    }
    Ok(ConfigTemplate {
        id: 0,
        name: text(&template.name).into(),
        content: content.into(),
        format: text(&template.format).into(),
        comment: text(&template.comment).into(),
        dates: Dates::default(),
    })
}
