//! Rights of callers: the resources of each call, and the decision about them. `commands` maps
//! commands to functions and resources.
//!
//! An existing object is covered by policies that name its id or its name. An object that does not
//! exist yet is covered by policies that name it, or its namespace.

mod commands;

use tollhouse_registry::config::ConfigOutcome;
use tollhouse_registry::identity::{
    Attempt, IdentityCommand, Principal, Resource, ResourceKind, ResourcePattern, Verdict,
};
use tollhouse_registry::{Command, Outcome, Rule, RuleKind, ServiceKey, ServiceRef, State};

use super::{Caller, Dialect};
use crate::access::{Door, Gate, Identity, RefusedCall};
use crate::code::Code;
use crate::failure::Failure;
use crate::wire::is_nowhere;
use commands::creates;

/// Reader of a list, who may see some of its objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Viewer {
    /// User or group whose policies decide; `None` sees everything.
    principal: Option<Principal>,
    function: &'static str,
}

/// Changes of an object that the reader of a list may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permits {
    pub(crate) editable: bool,
    pub(crate) deletable: bool,
}

impl Permits {
    /// Permits of a reader without limits.
    pub(crate) const ALL: Self = Self { editable: true, deletable: true };
}

/// Check of calls of one caller at one door, at one version of the registry.
pub(crate) struct Rights<'a> {
    dialect: &'a Dialect,
    state: &'a State,
    door: Door,
    caller: &'a Caller<'a>,
    /// The caller, or the code that a locked gate answers with; `None` at an open gate.
    identity: Option<Result<Identity, Code>>,
}

impl Viewer {
    /// Whether the reader may see an object.
    pub(crate) fn sees(&self, state: &State, resource: Resource<'_>) -> bool {
        self.may(state, self.function, resource)
    }

    /// Checks the right of the reader to call a function on an object.
    fn may(&self, state: &State, function: &'static str, resource: Resource<'_>) -> bool {
        self.verdict(state, function, resource) == Verdict::Allowed
    }

    fn verdict(&self, state: &State, function: &'static str, resource: Resource<'_>) -> Verdict {
        let Some(principal) = &self.principal else { return Verdict::Allowed };
        state.decide(principal, &Attempt { function, resources: &[resource] })
    }

    /// Returns the changes of an object that the reader may make.
    pub(crate) fn permits(
        &self,
        state: &State,
        [update, delete]: [&'static str; 2],
        resource: Resource<'_>,
    ) -> Permits {
        Permits {
            editable: self.may(state, update, resource),
            deletable: self.may(state, delete, resource),
        }
    }

    pub(crate) fn service_permits(
        &self,
        state: &State,
        [update, delete]: [&'static str; 2],
        key: &ServiceKey,
    ) -> Permits {
        Permits {
            editable: self.may_service(state, update, key),
            deletable: self.may_service(state, delete, key),
        }
    }

    pub(crate) fn group_permits(&self, state: &State, namespace: &str, name: &str) -> Permits {
        let mut digits = String::new();
        let resource = group_resource(state, namespace, name, &mut digits);
        self.permits(state, ["UpdateConfigFileGroup", "DeleteConfigFileGroup"], resource)
    }

    pub(crate) fn rule_permits(&self, state: &State, rule: &Rule) -> Permits {
        let functions = commands::rule_functions(rule.kind);
        Permits {
            editable: self.may_rule(state, functions[1], rule),
            deletable: self.may_rule(state, functions[2], rule),
        }
    }

    /// Whether the reader sees everything.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.principal.is_none()
    }

    pub(crate) fn sees_service(&self, state: &State, key: &ServiceKey) -> bool {
        self.is_unlimited() || self.sees(state, service_resource(state, key.borrowed()))
    }

    pub(crate) fn sees_group(&self, state: &State, namespace: &str, name: &str) -> bool {
        if self.is_unlimited() {
            return true;
        }
        let mut digits = String::new();
        self.sees(state, group_resource(state, namespace, name, &mut digits))
    }

    pub(crate) fn sees_rule(&self, state: &State, rule: &Rule) -> bool {
        self.may_rule(state, self.function, rule)
    }

    /// Checks the right of the reader to call a function on a rule: by its id, or on all services
    /// that it targets.
    fn may_rule(&self, state: &State, function: &'static str, rule: &Rule) -> bool {
        match self.verdict(state, function, Resource::by_id(rule_resource(rule.kind), &rule.id)) {
            Verdict::Allowed => true,
            Verdict::Denied => false,
            Verdict::NotAllowed if rule.targets.is_empty() => {
                self.may(state, function, Resource::namespace(&rule.namespace))
            }
            Verdict::NotAllowed => {
                rule.targets.iter().all(|target| self.may_service(state, function, target))
            }
        }
    }

    /// Checks the right of the reader to call a function on a service. A service that does not exist
    /// is covered by its namespace too.
    fn may_service(&self, state: &State, function: &'static str, key: &ServiceKey) -> bool {
        let resource = service_resource(state, key.borrowed());
        match self.verdict(state, function, resource) {
            Verdict::Allowed => true,
            Verdict::Denied => false,
            Verdict::NotAllowed => {
                resource.id.is_empty()
                    && self.may(state, function, Resource::namespace(resource.namespace))
            }
        }
    }
}

impl Dialect {
    /// Starts the check of a call.
    pub(crate) fn rights<'a>(
        &'a self,
        state: &'a State,
        door: Door,
        caller: &'a Caller<'a>,
    ) -> Rights<'a> {
        let identity = match self.access.gate(door) {
            Gate::Open => None,
            Gate::Rehearsed | Gate::Locked => Some(self.identify(state, caller)),
        };
        Rights { dialect: self, state, door, caller, identity }
    }

    /// Returns whether a token is valid, even while the gates are open.
    pub(crate) fn knows(&self, token: &str) -> bool {
        self.access.identify(&self.registry.state(), Some(token)).is_ok()
    }

    /// Checks that the caller has a valid token, which is all that some calls need.
    pub(crate) fn admit_any(&self, door: Door, caller: &Caller<'_>) -> Result<(), Code> {
        if self.access.gate(door) == Gate::Open {
            return Ok(());
        }
        self.rights(&self.registry.state(), door, caller).admit()
    }

    /// Checks the call of a client about a service.
    pub(super) fn admit_service(
        &self,
        caller: &Caller<'_>,
        function: &'static str,
        service: ServiceRef<'_>,
    ) -> Result<(), Code> {
        if self.access.gate(Door::Client) == Gate::Open {
            return Ok(());
        }
        self.rights(&self.registry.state(), Door::Client, caller).service(function, service)
    }

    /// Checks the call of a client about groups of configuration files.
    pub(super) fn admit_groups<'k>(
        &self,
        caller: &Caller<'_>,
        function: &'static str,
        groups: impl Iterator<Item = (&'k str, &'k str)>,
    ) -> Result<(), Code> {
        if self.access.gate(Door::Client) == Gate::Open {
            return Ok(());
        }
        let state = self.registry.state();
        let rights = self.rights(&state, Door::Client, caller);
        rights.admit()?;
        groups.into_iter().try_for_each(|(namespace, name)| rights.group(function, namespace, name))
    }

    /// Checks a command, executes it, and gives a user the rights to what it creates.
    pub(crate) async fn submit_for(
        &self,
        door: Door,
        caller: &Caller<'_>,
        mut command: Command,
    ) -> Result<Outcome, Failure> {
        if let Command::Register(new) = &mut command
            && new.location.as_ref().is_none_or(is_nowhere)
            && let Some(location) = self.locations.find(&new.host)
        {
            new.location = Some(location.clone());
        }
        let owner = {
            let state = self.registry.state();
            let rights = self.rights(&state, door, caller);
            rights.command(&command)?;
            rights.member().filter(|_| creates(&state, &command))
        };
        let outcome = match door {
            Door::Console => self.submit_recorded(caller, command).await?,
            Door::Client => self.registry.submit(command).await?,
        };
        if let Some(owner) = owner {
            self.grant(vec![owner], &outcome).await?;
        }
        Ok(outcome)
    }

    /// Adds a created object to the default policies of users and groups.
    pub(crate) async fn grant(
        &self,
        principals: Vec<Principal>,
        outcome: &Outcome,
    ) -> Result<(), Failure> {
        let pattern = |kind, text: &str| ResourcePattern { kind, text: text.into() };
        let resources = match outcome {
            Outcome::Namespace(namespace) => {
                vec![pattern(ResourceKind::Namespace, &namespace.name)]
            }
            Outcome::Service(service) => vec![pattern(ResourceKind::Service, &service.id)],
            Outcome::Instance(instance) => {
                let state = self.registry.state();
                let view = state.service(instance.service.borrowed());
                view.map(|view| pattern(ResourceKind::Service, &view.service.id))
                    .into_iter()
                    .collect()
            }
            Outcome::Config(ConfigOutcome::Group(group)) => {
                vec![pattern(ResourceKind::ConfigGroup, &group.id.to_string())]
            }
            Outcome::Config(ConfigOutcome::File(file)) => {
                let state = self.registry.state();
                let view = state.config_group(&file.key.namespace, &file.key.group);
                view.map(|view| pattern(ResourceKind::ConfigGroup, &view.group.id.to_string()))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        };
        if resources.is_empty() || principals.is_empty() {
            return Ok(());
        }
        let grant = IdentityCommand::Grant { principals, resources };
        self.registry.submit(Command::Identity(Box::new(grant))).await?;
        Ok(())
    }
}

/// Returns the users and groups that a request names as those who may use the object to create.
///
/// # Errors
/// If one of them does not exist.
pub(crate) fn grantees(
    state: &State,
    users: &[String],
    groups: &[String],
) -> Result<Vec<Principal>, Code> {
    let users = users.iter().map(|id| match state.user(id) {
        Some(_) => Ok(Principal::user(id)),
        None => Err(Code::NotFoundUser),
    });
    let groups = groups.iter().map(|id| match state.user_group(id) {
        Some(_) => Ok(Principal::group(id)),
        None => Err(Code::NotFoundUserGroup),
    });
    users.chain(groups).collect()
}

impl Rights<'_> {
    /// Returns the stored user or group that calls.
    pub(crate) fn member(&self) -> Option<Principal> {
        match &self.identity {
            Some(Ok(Identity::Member(member))) => Some(member.principal.clone()),
            _ => None,
        }
    }

    /// Whether the caller is limited by policies.
    fn is_limited(&self) -> bool {
        matches!(self.identity, Some(Ok(Identity::Member(_))))
    }

    /// Checks the token only.
    pub(crate) fn admit(&self) -> Result<(), Code> {
        self.evaluate("", None)
    }

    /// Checks a call that concerns the whole server: a right to all namespaces covers it, and one to
    /// some of them does not.
    pub(crate) fn server(&self, function: &'static str) -> Result<(), Code> {
        self.check(function, &[Resource::namespace("*")])
    }

    /// Checks a call that touches these resources.
    pub(crate) fn check(
        &self,
        function: &'static str,
        resources: &[Resource<'_>],
    ) -> Result<(), Code> {
        self.evaluate(function, Some(resources))
    }

    fn evaluate(
        &self,
        function: &'static str,
        resources: Option<&[Resource<'_>]>,
    ) -> Result<(), Code> {
        let result = self.verdict(function, resources);
        self.finish(result, function, resources.and_then(<[_]>::first))
    }

    fn verdict(
        &self,
        function: &'static str,
        resources: Option<&[Resource<'_>]>,
    ) -> Result<(), Code> {
        let attempt = resources.map(|resources| Attempt { function, resources });
        match &self.identity {
            None => Ok(()),
            Some(Err(code)) => Err(*code),
            Some(Ok(identity)) => identity.check(self.state, self.door, attempt.as_ref()),
        }
    }

    /// Returns the result of a check; at a rehearsed gate a refusal is listed instead.
    fn finish(
        &self,
        result: Result<(), Code>,
        function: &'static str,
        resource: Option<&Resource<'_>>,
    ) -> Result<(), Code> {
        let access = &self.dialect.access;
        match result {
            Err(code) if access.gate(self.door) == Gate::Rehearsed => {
                let call = RefusedCall {
                    caller: self.caller_text(),
                    function: function.to_owned(),
                    resource: resource.map(resource_text).unwrap_or_default(),
                    code: code.number(),
                };
                access.rehearsal().add(call, self.dialect.registry.now_ms());
                Ok(())
            }
            result => result,
        }
    }

    fn caller_text(&self) -> String {
        match &self.identity {
            Some(Ok(Identity::Member(member))) => member.name.to_string(),
            Some(Ok(Identity::Account)) => self.dialect.author(self.caller).into(),
            Some(Ok(Identity::Client)) => "client token".to_owned(),
            Some(Err(_)) | None => self
                .caller
                .address
                .map_or_else(|| "unknown".to_owned(), |it| it.to_canonical().to_string()),
        }
    }

    /// Returns the reader of a list.
    pub(crate) fn viewer(&self, function: &'static str) -> Result<Viewer, Code> {
        self.check(function, &[])?;
        // A rehearsed gate shows everything.
        let is_locked = self.dialect.access.gate(self.door) == Gate::Locked;
        Ok(Viewer { principal: self.member().filter(|_| is_locked), function })
    }

    /// Checks a call about a service.
    pub(crate) fn service(
        &self,
        function: &'static str,
        service: ServiceRef<'_>,
    ) -> Result<(), Code> {
        if !self.is_limited() {
            return self.check(function, &[]);
        }
        let resource = service_resource(self.state, service);
        self.own_or_namespace(function, &resource)
    }

    /// Checks a call about a group of configuration files.
    pub(crate) fn group(
        &self,
        function: &'static str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Code> {
        if !self.is_limited() {
            return self.check(function, &[]);
        }
        let mut digits = String::new();
        let resource = group_resource(self.state, namespace, name, &mut digits);
        self.own_or_namespace(function, &resource)
    }

    /// Checks a call about an object; one that does not exist yet is covered by its namespace too.
    fn own_or_namespace(
        &self,
        function: &'static str,
        resource: &Resource<'_>,
    ) -> Result<(), Code> {
        let own = self.verdict(function, Some(&[*resource]));
        let result = match own {
            Err(_) if resource.id.is_empty() && !self.is_denied(function, resource) => {
                self.verdict(function, Some(&[Resource::namespace(resource.namespace)]))
            }
            own => own,
        };
        self.finish(result, function, Some(resource))
    }

    /// Whether a policy denies a call, rather than none allowing it.
    fn is_denied(&self, function: &'static str, resource: &Resource<'_>) -> bool {
        let Some(principal) = self.member() else { return false };
        let attempt = Attempt { function, resources: &[*resource] };
        self.state.decide(&principal, &attempt) == Verdict::Denied
    }
}

fn service_resource<'a>(state: &'a State, service: ServiceRef<'a>) -> Resource<'a> {
    let ServiceRef { namespace, name } = service;
    let (id, namespace, name, labels) = match state.resolve(service) {
        Some(found) => {
            let service = &found.view.service;
            let ServiceKey { namespace, name } = &service.key;
            (&*service.id, &**namespace, &**name, Some(&service.metadata))
        }
        None => ("", namespace, name, None),
    };
    Resource { kind: ResourceKind::Service, id, namespace, name, labels }
}

fn group_resource<'a>(
    state: &'a State,
    namespace: &'a str,
    name: &'a str,
    digits: &'a mut String,
) -> Resource<'a> {
    let group = state.config_group(namespace, name).map(|view| &view.group);
    if let Some(group) = group {
        *digits = group.id.to_string();
    }
    let labels = group.map(|group| &group.metadata);
    Resource { kind: ResourceKind::ConfigGroup, id: digits, namespace, name, labels }
}

/// A resource as text, for the list of rehearsed refusals.
fn resource_text(resource: &Resource<'_>) -> String {
    if resource.namespace.is_empty() {
        return resource.name.to_owned();
    }
    format!("{}/{}", resource.namespace, resource.name)
}

fn rule_resource(kind: RuleKind) -> ResourceKind {
    match kind {
        RuleKind::RateLimit => ResourceKind::RateLimitRule,
        RuleKind::CircuitBreaker => ResourceKind::CircuitBreakerRule,
        RuleKind::FaultDetector => ResourceKind::FaultDetectRule,
        RuleKind::Lane => ResourceKind::LaneRule,
        RuleKind::RoutingV1
        | RuleKind::Routing
        | RuleKind::NearbyRouting
        | RuleKind::Lossless
        | RuleKind::BlockAllow
        | RuleKind::TrafficMirroring
        | RuleKind::FaultInjection => ResourceKind::RouteRule,
    }
}
