//! Changes of users, groups, roles and policies.

mod groups;
mod policies;
mod users;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::http::request::Parts;
use prost::Message;
use tollhouse_registry::identity::{
    IdentityCommand, IdentityKind, IdentityObject, IdentityWrite as Change, Policy, PolicyAction,
    Principal, Resource, ResourceKind, ResourcePattern,
};
use tollhouse_registry::{Command, Noun, Refusal};

use super::messages;
use crate::access::{Door, Identity, random_digits};
use crate::code::Code;
use crate::dialect::Caller;
use crate::failure::Failure;
use crate::http::HttpApi;
use crate::http::console::{BATCH_ITEMS_MAX, descriptor, request_body};
use crate::http::intake::{NoBody, caller, read_with};
use crate::http::language::Language;
use crate::http::reply::{BATCH_WRITE, RESPONSE, Reply};
use crate::json;
use crate::v1;

/// Number of bytes of an id, of which Polaris shows the hex digits.
const ID_BYTES: usize = 16;

/// Maximum number of tries of a change that others overtake.
const TRIES_MAX: usize = 4;

/// Functions of a user's or group's own policy, as in Polaris.
const OWN_FUNCTIONS: [&str; 9] = [
    "DescribeUsers",
    "DescribeUserToken",
    "UpdateUser",
    "UpdateUserPassword",
    "EnableUserToken",
    "ResetUserToken",
    "DescribeAuthPolicies",
    "DescribeAuthPolicyDetail",
    "DescribeAuthRoles",
];

/// A call that changes identity objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdentityWrite {
    CreateUsers,
    DeleteUsers,
    UpdateUser,
    UpdatePassword,
    EnableUserToken,
    ResetUserToken,
    CreateGroup,
    UpdateGroups,
    DeleteGroups,
    EnableGroupToken,
    ResetGroupToken,
    CreatePolicy,
    UpdatePolicies,
    DeletePolicies,
    CreateRoles,
    UpdateRoles,
    DeleteRoles,
}

/// Item of a call, with its caller.
struct Item<'a> {
    api: &'a HttpApi,
    caller: &'a Caller<'a>,
    function: &'static str,
    message: &'a [u8],
}

/// Result of one item: the echoed message, and the reason if it was not done.
struct Done {
    failure: Failure,
    response: v1::Response,
}

/// Answers a call.
pub(super) async fn answer(api: HttpApi, call: IdentityWrite, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let language = Language::from_request(&head);
    let answer = if call.is_list() { BATCH_WRITE } else { RESPONSE };
    let reply = match request_body(&api, &head, body).await {
        Ok(body) => {
            let read = move |body: &[u8]| match call.is_list() {
                true => json::read_list(&descriptor(call.message()), body, BATCH_ITEMS_MAX),
                false => {
                    let item = json::read_kept(&descriptor(call.message()), body);
                    item.map(|item| Some(vec![item]))
                }
            };
            match read_with(&api.capacity, &body.bytes, read).await {
                Ok(Ok(Some(items))) => run(&api, &head, call, &items).await,
                Ok(Ok(None)) => Err(Code::BatchSizeOverLimit.into()),
                Ok(Err(error)) => Err(Failure::with(Code::ParseException, error.to_string())),
                Err(failure) => Err(failure),
            }
        }
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => Err(failure),
    };
    let reply = reply.unwrap_or_else(|failure| Reply::failure(answer, &failure));
    reply.send(&api.capacity, language).await
}

async fn run(
    api: &HttpApi,
    head: &Parts,
    call: IdentityWrite,
    items: &[Vec<u8>],
) -> Result<Reply, Failure> {
    if items.is_empty() {
        return Err(Code::EmptyRequest.into());
    }
    let caller = caller(head);
    let (mut codes, mut responses) = (Vec::new(), Vec::new());
    for message in items {
        let item = Item { api, caller: &caller, function: call.function(), message };
        let Done { failure, response } = call.run(&item).await;
        codes.push(failure.code);
        responses.push(v1::Response {
            code: Some(failure.code.number()),
            info: Some(failure.info().into_owned()),
            ..response
        });
    }
    if !call.is_list() {
        let response = responses.pop().unwrap_or_default();
        let mut reply = Reply::from_bytes(codes[0], RESPONSE, response.encode_to_vec());
        reply.info = response.info.unwrap_or_default();
        return Ok(reply);
    }
    let code = Code::highest(codes);
    let response = v1::BatchWriteResponse {
        code: Some(code.number()),
        info: Some(code.info().to_owned()),
        size: Some(responses.len() as u32),
        responses,
    };
    Ok(Reply::from_bytes(code, BATCH_WRITE, response.encode_to_vec()))
}

impl IdentityWrite {
    /// Message type of an item.
    fn message(self) -> &'static str {
        match self {
            Self::CreateUsers
            | Self::DeleteUsers
            | Self::UpdateUser
            | Self::EnableUserToken
            | Self::ResetUserToken => "v1.User",
            Self::UpdatePassword => "v1.ModifyUserPassword",
            Self::CreateGroup
            | Self::DeleteGroups
            | Self::EnableGroupToken
            | Self::ResetGroupToken => "v1.UserGroup",
            Self::UpdateGroups => "v1.ModifyUserGroup",
            Self::CreatePolicy | Self::DeletePolicies => "v1.AuthStrategy",
            Self::UpdatePolicies => "v1.ModifyAuthStrategy",
            Self::CreateRoles | Self::UpdateRoles | Self::DeleteRoles => "v1.Role",
        }
    }

    /// Name of the call, as policies name it.
    fn function(self) -> &'static str {
        match self {
            Self::CreateUsers => "CreateUsers",
            Self::DeleteUsers => "DeleteUsers",
            Self::UpdateUser => "UpdateUser",
            Self::UpdatePassword => "UpdateUserPassword",
            Self::EnableUserToken => "EnableUserToken",
            Self::ResetUserToken => "ResetUserToken",
            Self::CreateGroup => "CreateUserGroup",
            Self::UpdateGroups => "UpdateUserGroups",
            Self::DeleteGroups => "DeleteUserGroups",
            Self::EnableGroupToken => "EnableUserGroupToken",
            Self::ResetGroupToken => "ResetUserGroupToken",
            Self::CreatePolicy => "CreateAuthPolicy",
            Self::UpdatePolicies => "UpdateAuthPolicies",
            Self::DeletePolicies => "DeleteAuthPolicies",
            Self::CreateRoles => "CreateAuthRoles",
            Self::UpdateRoles => "UpdateAuthRoles",
            Self::DeleteRoles => "DeleteAuthRoles",
        }
    }

    /// Whether the body is a list of items.
    fn is_list(self) -> bool {
        match self {
            Self::CreateUsers
            | Self::DeleteUsers
            | Self::UpdateGroups
            | Self::DeleteGroups
            | Self::UpdatePolicies
            | Self::DeletePolicies
            | Self::CreateRoles
            | Self::UpdateRoles
            | Self::DeleteRoles => true,
            Self::UpdateUser
            | Self::UpdatePassword
            | Self::EnableUserToken
            | Self::ResetUserToken
            | Self::CreateGroup
            | Self::EnableGroupToken
            | Self::ResetGroupToken
            | Self::CreatePolicy => false,
        }
    }

    async fn run(self, item: &Item<'_>) -> Done {
        match self {
            Self::CreateUsers => users::create(item).await,
            Self::DeleteUsers => users::delete(item).await,
            Self::UpdateUser => users::update(item).await,
            Self::UpdatePassword => users::update_password(item).await,
            Self::EnableUserToken => users::enable_token(item).await,
            Self::ResetUserToken => users::reset_token(item).await,
            Self::CreateGroup => groups::create(item).await,
            Self::UpdateGroups => groups::update(item).await,
            Self::DeleteGroups => groups::delete(item).await,
            Self::EnableGroupToken => groups::enable_token(item).await,
            Self::ResetGroupToken => groups::reset_token(item).await,
            Self::CreatePolicy => policies::create(item).await,
            Self::UpdatePolicies => policies::update(item).await,
            Self::DeletePolicies => policies::delete(item).await,
            Self::CreateRoles => policies::create_role(item).await,
            Self::UpdateRoles => policies::update_role(item).await,
            Self::DeleteRoles => policies::delete_role(item).await,
        }
    }
}

impl Item<'_> {
    fn decode<M: Message + Default>(&self) -> Result<M, Failure> {
        M::decode(self.message).map_err(|_| Code::ParseException.into())
    }

    /// Checks the caller's right to the call, which creates an object.
    fn may_create(&self) -> Result<(), Failure> {
        let state = self.api.registry().state();
        let rights = self.api.dialect.rights(&state, Door::Console, self.caller);
        Ok(rights.check(self.function, &[])?)
    }

    /// Checks the caller's right to the call on an object.
    fn may(&self, kind: ResourceKind, id: &str) -> Result<(), Failure> {
        let state = self.api.registry().state();
        let rights = self.api.dialect.rights(&state, Door::Console, self.caller);
        let object = state.identity_object(identity_kind(kind), id);
        let labels = object.as_ref().map(|object| &object.head().metadata);
        let resource = Resource { labels, ..Resource::by_id(kind, id) };
        Ok(rights.check(self.function, &[resource])?)
    }

    /// Whether the caller is the account of the bootstrap file, or the gate is open.
    fn is_account(&self) -> bool {
        let state = self.api.registry().state();
        let rights = self.api.dialect.rights(&state, Door::Console, self.caller);
        rights.member().is_none()
    }

    /// Returns the stored user or group that calls.
    fn member(&self) -> Option<Principal> {
        match self.api.dialect.identify(&self.api.registry().state(), self.caller) {
            Ok(Identity::Member(member)) => Some(member.principal),
            Ok(Identity::Account | Identity::Client) | Err(_) => None,
        }
    }

    fn account_name(&self) -> &str {
        self.api.dialect.access().account_name()
    }

    /// Refuses a policy that reaches further than the rights of its writer, who could grant
    /// themselves anything otherwise.
    fn may_grant(&self, policy: &Policy) -> Result<(), Failure> {
        let state = self.api.registry().state();
        let rights = self.api.dialect.rights(&state, Door::Console, self.caller);
        let Some(writer) = rights.member() else { return Ok(()) };
        let too_far = || {
            let text = "a policy may not reach further than the rights of its writer";
            Failure::with(Code::NotAllowedAccess, text)
        };
        if !policy.labels.is_empty() {
            return Err(too_far());
        }
        let implied: &[&str] = match policy.action {
            PolicyAction::ReadOnly => &["Describe*", "Discover*", "Watch*"],
            PolicyAction::ReadWrite | PolicyAction::Deny => &["*"],
            PolicyAction::Allow => &[],
        };
        let functions: Vec<&str> = match policy.functions.is_empty() {
            true => implied.to_vec(),
            false => policy.functions.iter().map(|it| &**it).collect(),
        };
        // A pattern is covered by the patterns that match its text.
        let resources: Vec<Resource<'_>> = policy.resources.iter().map(as_resource).collect();
        let is_allowed = functions.iter().all(|function| {
            let attempt = tollhouse_registry::identity::Attempt { function, resources: &resources };
            state.decide(&writer, &attempt) == tollhouse_registry::identity::Verdict::Allowed
        });
        if is_allowed { Ok(()) } else { Err(too_far()) }
    }

    /// Refuses the id of an object that does not exist; `configured` is known without being stored.
    fn known(&self, kind: IdentityKind, id: &str, configured: &str) -> Result<(), Failure> {
        let is_stored = self.api.registry().state().identity_object(kind, id).is_some();
        if is_stored || (!configured.is_empty() && id == configured) {
            return Ok(());
        }
        Err(Refusal::NotFound(Noun::Identity(kind)).into())
    }

    /// Executes changes.
    async fn write(&self, changes: Vec<Change>) -> Result<(), Failure> {
        self.submit(IdentityCommand::Write(changes)).await
    }

    async fn delete(&self, kind: IdentityKind, id: &str) -> Result<(), Failure> {
        self.submit(IdentityCommand::Delete(kind, id.into())).await
    }

    async fn submit(&self, command: IdentityCommand) -> Result<(), Failure> {
        let command = Command::Identity(Box::new(command));
        self.api.dialect.submit_recorded(self.caller, command).await.map(drop).map_err(failure_of)
    }

    /// Changes a stored object; repeated if another call has changed it meanwhile.
    async fn edit(
        &self,
        kind: IdentityKind,
        id: &str,
        edit: impl Fn(IdentityObject) -> Result<IdentityObject, Failure> + Send + Sync,
    ) -> Result<(), Failure> {
        for _ in 0..TRIES_MAX {
            let stored = self.api.registry().state().identity_object(kind, id);
            let stored = stored.ok_or(Refusal::NotFound(Noun::Identity(kind)))?;
            let changed = edit(stored)?;
            match self.write(vec![Change::Replace(changed)]).await {
                Err(failure) if failure.code == Code::DataConflict => {}
                done => return done,
            }
        }
        Err(Code::DataConflict.into())
    }

    /// Returns the policy that a new user or group gets, as in Polaris.
    fn own_policy(&self, principal: Principal, name: &str) -> Policy {
        let name = format!("(用户) {name}的默认策略");
        let name = if principal.kind == IdentityKind::Group {
            name.replacen("用户", "用户组", 1)
        } else {
            name
        };
        let resources = (principal.kind == IdentityKind::User)
            .then(|| ResourcePattern { kind: ResourceKind::User, text: (&*principal.id).into() });
        let head = messages::new_head(new_id(), Some(&name), self.account_name());
        Policy {
            head: tollhouse_registry::identity::IdentityHead {
                comment: "default principal auth policy rule".into(),
                ..head
            },
            action: PolicyAction::Allow,
            principals: [principal].into(),
            resources: resources.into_iter().collect(),
            functions: OWN_FUNCTIONS.iter().map(|it| (*it).into()).collect(),
            is_default: true,
            ..Policy::default()
        }
    }
}

impl Done {
    /// Creates the result of an item that echoes its message.
    fn new(result: Result<(), Failure>, response: v1::Response) -> Self {
        let failure = result.err().unwrap_or_else(|| Code::ExecuteSuccess.into());
        Self { failure, response }
    }
}

impl From<Failure> for Done {
    fn from(failure: Failure) -> Self {
        Self { failure, response: v1::Response::default() }
    }
}

/// A pattern as the resource that it names.
fn as_resource(pattern: &ResourcePattern) -> Resource<'_> {
    let (namespace, name) = pattern.text.split_once('/').unwrap_or(("", &pattern.text));
    Resource { kind: pattern.kind, id: &pattern.text, namespace, name, labels: None }
}

fn identity_kind(kind: ResourceKind) -> IdentityKind {
    match kind {
        ResourceKind::UserGroup => IdentityKind::Group,
        ResourceKind::Role => IdentityKind::Role,
        ResourceKind::Policy => IdentityKind::Policy,
        _ => IdentityKind::User,
    }
}

fn new_id() -> String {
    random_digits::<ID_BYTES>()
}

/// Converts a refusal.
fn failure_of(refusal: Refusal) -> Failure {
    Failure::from(refusal)
}

fn text(text: Option<&String>) -> &str {
    text.map_or("", |text| text)
}
