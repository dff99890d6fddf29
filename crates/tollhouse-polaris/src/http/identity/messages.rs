//! Users, groups, roles and policies as messages.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tollhouse_registry::identity::{
    AccessRole, IdentityHead, IdentityKind, Policy, PolicyAction, Principal, ResourceKind,
    ResourceLabel, ResourcePattern, User, UserGroup,
};
use tollhouse_registry::{Metadata, RuleKind, ServiceRef, State};

use crate::date::DateText;
use crate::v1;

/// Types of users in answers: the account of the bootstrap file, and all others.
pub(super) const MAIN: &str = "main";
pub(super) const SUB: &str = "sub";

/// Key of a policy's metadata with the objects of the gateway that it covers, which Polaris has no
/// field for: a list of patterns such as `routes/team-a-*`.
pub(super) const GATEWAY_KEY: &str = "gateway-objects";

/// Amount of a policy's fields in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Head,
    Full,
}

/// A user without password and token.
pub(super) fn user(user: &User) -> v1::User {
    let head = &user.head;
    v1::User {
        id: some(&head.id),
        name: some(&head.name),
        source: some(&head.source),
        owner: some(&head.owner),
        token_enable: Some(user.token.is_enabled),
        comment: some(&head.comment),
        ctime: date(head.created_at),
        mtime: date(head.modified_at),
        user_type: some(SUB),
        mobile: some(&user.mobile),
        email: some(&user.email),
        metadata: pairs(&head.metadata),
        ..v1::User::default()
    }
}

/// A group without token and members.
pub(super) fn group(group: &UserGroup) -> v1::UserGroup {
    let head = &group.head;
    v1::UserGroup {
        id: some(&head.id),
        name: some(&head.name),
        owner: some(&head.owner),
        token_enable: Some(group.token.is_enabled),
        comment: some(&head.comment),
        ctime: date(head.created_at),
        mtime: date(head.modified_at),
        user_count: Some(group.users.len() as u32),
        source: some(&head.source),
        metadata: pairs(&head.metadata),
        ..v1::UserGroup::default()
    }
}

/// A group with its members.
pub(super) fn group_detail(state: &State, it: &UserGroup) -> v1::UserGroup {
    let users = it.users.iter().filter_map(|id| state.user(id));
    let relation = v1::UserGroupRelation {
        group_id: some(&it.head.id),
        users: users.map(|it| user(it)).collect(),
    };
    v1::UserGroup { relation: Some(relation), ..group(it) }
}

pub(super) fn role(state: &State, role: &AccessRole) -> v1::Role {
    let head = &role.head;
    let users = role.users.iter().map(|id| v1::User {
        id: some(id),
        name: state.user(id).and_then(|it| some(&it.head.name)),
        ..v1::User::default()
    });
    let groups = role.groups.iter().map(|id| v1::UserGroup {
        id: some(id),
        name: state.user_group(id).and_then(|it| some(&it.head.name)),
        ..v1::UserGroup::default()
    });
    v1::Role {
        id: head.id.to_string(),
        name: head.name.to_string(),
        owner: head.owner.to_string(),
        source: head.source.to_string(),
        default_role: false,
        metadata: pairs(&head.metadata),
        comment: head.comment.to_string(),
        ctime: date(head.created_at).unwrap_or_default(),
        mtime: date(head.modified_at).unwrap_or_default(),
        users: users.collect(),
        user_groups: groups.collect(),
    }
}

pub(super) fn policy(state: &State, policy: &Policy, detail: Detail) -> v1::AuthStrategy {
    let head = &policy.head;
    let mut message = v1::AuthStrategy {
        id: some(&head.id),
        name: some(&head.name),
        owner: some(&head.owner),
        comment: some(&head.comment),
        ctime: date(head.created_at),
        mtime: date(head.modified_at),
        default_strategy: Some(policy.is_default),
        source: some(&head.source),
        ..v1::AuthStrategy::default()
    };
    message.set_action(action_message(policy.action));
    if detail == Detail::Full {
        message.principals = Some(principals(state, &policy.principals));
        message.resources = Some(resources(state, &head.id, policy.resources.iter()));
        message.functions = policy.functions.iter().map(|it| it.to_string()).collect();
        message.metadata = pairs(&head.metadata);
        message.resource_labels = policy.labels.iter().map(label).collect();
    }
    message
}

fn label(label: &ResourceLabel) -> v1::StrategyResourceLabel {
    v1::StrategyResourceLabel {
        key: label.key.to_string(),
        value: label.value.to_string(),
        compare_type: label.compare.to_string(),
    }
}

pub(super) fn label_of(label: &v1::StrategyResourceLabel) -> ResourceLabel {
    ResourceLabel {
        key: label.key.as_str().into(),
        value: label.value.as_str().into(),
        compare: label.compare_type.as_str().into(),
    }
}

fn action_message(action: PolicyAction) -> v1::AuthAction {
    match action {
        PolicyAction::ReadOnly => v1::AuthAction::OnlyRead,
        PolicyAction::ReadWrite => v1::AuthAction::ReadWrite,
        PolicyAction::Allow => v1::AuthAction::Allow,
        PolicyAction::Deny => v1::AuthAction::Deny,
    }
}

pub(super) fn action_of(action: v1::AuthAction) -> PolicyAction {
    match action {
        v1::AuthAction::OnlyRead => PolicyAction::ReadOnly,
        v1::AuthAction::ReadWrite => PolicyAction::ReadWrite,
        v1::AuthAction::Allow => PolicyAction::Allow,
        v1::AuthAction::Deny => PolicyAction::Deny,
    }
}

fn principals(state: &State, of: &BTreeSet<Principal>) -> v1::Principals {
    let mut message = v1::Principals::default();
    for principal in of {
        let object = state.identity_object(principal.kind, &principal.id);
        let entry = v1::Principal {
            id: some(&principal.id),
            name: object.and_then(|object| some(&object.head().name)),
        };
        match principal.kind {
            IdentityKind::User => message.users.push(entry),
            IdentityKind::Group => message.groups.push(entry),
            IdentityKind::Role | IdentityKind::Policy => message.roles.push(entry),
        }
    }
    message
}

/// Returns the principals of a message.
pub(super) fn principals_of(message: &v1::Principals) -> BTreeSet<Principal> {
    let ids = |list: &[v1::Principal], of: fn(&str) -> Principal| {
        let ids = list.iter().filter_map(|it| it.id.as_deref());
        ids.map(of).collect::<Vec<_>>()
    };
    let all = [
        ids(&message.users, Principal::user),
        ids(&message.groups, Principal::group),
        ids(&message.roles, Principal::role),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the list of a kind of resources; `None` for objects of the gateway.
fn list_of(
    message: &mut v1::StrategyResources,
    kind: ResourceKind,
) -> Option<&mut Vec<v1::StrategyResourceEntry>> {
    Some(match kind {
        ResourceKind::Namespace => &mut message.namespaces,
        ResourceKind::Service => &mut message.services,
        ResourceKind::ConfigGroup => &mut message.config_groups,
        ResourceKind::RouteRule => &mut message.route_rules,
        ResourceKind::RateLimitRule => &mut message.ratelimit_rules,
        ResourceKind::CircuitBreakerRule => &mut message.circuitbreaker_rules,
        ResourceKind::FaultDetectRule => &mut message.faultdetect_rules,
        ResourceKind::LaneRule => &mut message.lane_rules,
        ResourceKind::User => &mut message.users,
        ResourceKind::UserGroup => &mut message.user_groups,
        ResourceKind::Role => &mut message.roles,
        ResourceKind::Policy => &mut message.auth_policies,
        ResourceKind::Gateway => return None,
    })
}

/// Kinds of resources with a list in messages.
const KINDS: [ResourceKind; 12] = [
    ResourceKind::Namespace,
    ResourceKind::Service,
    ResourceKind::ConfigGroup,
    ResourceKind::RouteRule,
    ResourceKind::RateLimitRule,
    ResourceKind::CircuitBreakerRule,
    ResourceKind::FaultDetectRule,
    ResourceKind::LaneRule,
    ResourceKind::User,
    ResourceKind::UserGroup,
    ResourceKind::Role,
    ResourceKind::Policy,
];

pub(super) fn resources<'a>(
    state: &State,
    policy: &str,
    of: impl Iterator<Item = &'a ResourcePattern>,
) -> v1::StrategyResources {
    let strategy_id = (!policy.is_empty()).then(|| policy.to_owned());
    let mut message = v1::StrategyResources { strategy_id, ..v1::StrategyResources::default() };
    for pattern in of {
        let (namespace, name) = names_of(state, pattern);
        let entry = v1::StrategyResourceEntry {
            id: some(&pattern.text),
            namespace: some(&namespace),
            name: some(&name),
        };
        if let Some(list) = list_of(&mut message, pattern.kind) {
            list.push(entry);
        }
    }
    message
}

/// Returns namespace and name of a resource, for people.
fn names_of(state: &State, pattern: &ResourcePattern) -> (String, String) {
    let id = &*pattern.text;
    let of_id = |name: Option<&str>| (String::new(), name.unwrap_or(id).to_owned());
    match pattern.kind {
        ResourceKind::Service => {
            let found = state.services().find(|view| view.service.id == id);
            match found {
                Some(view) => {
                    let key = &view.service.key;
                    (key.namespace.to_string(), key.name.to_string())
                }
                None => of_id(None),
            }
        }
        ResourceKind::ConfigGroup => {
            let found = state.config_groups().find(|view| view.group.id.to_string() == id);
            match found {
                Some(view) => {
                    let key = &view.group.key;
                    (key.namespace.to_string(), key.name.to_string())
                }
                None => of_id(None),
            }
        }
        ResourceKind::Namespace => (id.to_owned(), id.to_owned()),
        ResourceKind::User => of_id(state.user(id).map(|it| &*it.head.name)),
        ResourceKind::UserGroup => of_id(state.user_group(id).map(|it| &*it.head.name)),
        ResourceKind::Role => of_id(state.access_role(id).map(|it| &*it.head.name)),
        ResourceKind::Policy => of_id(state.policy(id).map(|it| &*it.head.name)),
        ResourceKind::RouteRule => {
            let kinds = [
                RuleKind::Routing,
                RuleKind::NearbyRouting,
                RuleKind::RoutingV1,
                RuleKind::Lossless,
                RuleKind::BlockAllow,
                RuleKind::TrafficMirroring,
                RuleKind::FaultInjection,
            ];
            namespace_and_name(state, &kinds, id)
        }
        ResourceKind::RateLimitRule => namespace_and_name(state, &[RuleKind::RateLimit], id),
        ResourceKind::CircuitBreakerRule => {
            namespace_and_name(state, &[RuleKind::CircuitBreaker], id)
        }
        ResourceKind::FaultDetectRule => namespace_and_name(state, &[RuleKind::FaultDetector], id),
        ResourceKind::LaneRule => namespace_and_name(state, &[RuleKind::Lane], id),
        ResourceKind::Gateway => of_id(None),
    }
}

/// Returns namespace and name of a rule; the id if it has no name or does not exist.
fn namespace_and_name(state: &State, kinds: &[RuleKind], id: &str) -> (String, String) {
    match kinds.iter().find_map(|kind| state.rule(*kind, id)) {
        Some(rule) if !rule.name.is_empty() => (rule.namespace.to_string(), rule.name.to_string()),
        _ => (String::new(), id.to_owned()),
    }
}

/// Returns the resources of a message. An entry without an id is named by namespace and name.
pub(super) fn resources_of(state: &State, message: &v1::StrategyResources) -> Vec<ResourcePattern> {
    let mut message = message.clone();
    let mut patterns = Vec::new();
    for kind in KINDS {
        let Some(list) = list_of(&mut message, kind) else { continue };
        for entry in list.iter() {
            let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
            let (namespace, name) = (given(&entry.namespace), given(&entry.name));
            let text = match (given(&entry.id), namespace, name) {
                (Some(id), ..) => id,
                (None, Some(namespace), Some(name)) => known_id(state, kind, &namespace, &name),
                (None, Some(text), None) | (None, None, Some(text)) => text,
                (None, None, None) => continue,
            };
            patterns.push(ResourcePattern { kind, text: text.into() });
        }
    }
    patterns
}

fn known_id(state: &State, kind: ResourceKind, namespace: &str, name: &str) -> String {
    let id = match kind {
        ResourceKind::Service => {
            let view = state.service(ServiceRef { namespace, name });
            view.map(|view| view.service.id.clone())
        }
        ResourceKind::ConfigGroup => {
            state.config_group(namespace, name).map(|view| view.group.id.to_string())
        }
        _ => None,
    };
    id.unwrap_or_else(|| format!("{namespace}/{name}"))
}

/// Returns the patterns of objects of the gateway in a policy's metadata.
pub(super) fn gateway_of(metadata: &Metadata) -> impl Iterator<Item = ResourcePattern> {
    let text = metadata.get(GATEWAY_KEY).map_or("", |text| text);
    let patterns = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    patterns.map(|text| ResourcePattern { kind: ResourceKind::Gateway, text: text.into() })
}

pub(super) fn metadata_of(pairs: &HashMap<String, String>) -> Metadata {
    pairs.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}

/// Returns the head of a new object.
pub(super) fn new_head(id: String, name: Option<&String>, owner: &str) -> IdentityHead {
    IdentityHead {
        id: Arc::from(id),
        name: name.map_or("", |name| name).into(),
        owner: owner.into(),
        source: "Polaris".into(),
        ..IdentityHead::default()
    }
}

fn pairs(metadata: &Metadata) -> HashMap<String, String> {
    metadata.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

pub(super) fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn date(unix_seconds: u64) -> Option<String> {
    some(DateText::from_unix_seconds(unix_seconds).as_str())
}
