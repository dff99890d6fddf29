//! Records of changes by operators, for the list of changes: author, object, and the object before
//! and after. Registrations of instances have no records, because programs make them.

use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_registry::config::{ConfigCommand, ConfigFileKey, ConfigFileView, ConfigRelease};
use tollhouse_registry::identity::{
    IdentityCommand, IdentityKind, IdentityObject, IdentityWrite, Policy, Principal,
};
use tollhouse_registry::{Command, Metadata, Outcome, Refusal, RuleKind, ServiceKey, State};

use super::config::messages::{DATA_KEY_TAG, is_encrypted};
use super::{Caller, Dialect, Entrance};
use crate::json;
use crate::rules::{layout_of, rule_message};
use crate::schema::descriptors;

/// Length in bytes up to which a record has the content of a file; of longer ones only the MD5 of
/// releases tells.
const CONTENT_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of objects of one command that are recorded: an import has at most some hundred.
const OBJECTS_MAX: usize = 100;

/// Change of one object by an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorChange {
    /// Time, in milliseconds of Unix time.
    pub at_ms: u64,
    /// Name of the user, machine or key; `None` if the caller has none.
    pub actor: Option<String>,
    pub entrance: Entrance,
    /// Path of the object, such as `registry/users/mary`.
    pub path: String,
    /// The object before the change, without secrets; `None` if it did not exist.
    pub before: Option<Value>,
    /// The object after the change; `None` if it was deleted.
    pub after: Option<Value>,
}

/// Destination of records.
pub trait ChangeSink: Send + Sync {
    /// Stores a record. Must not block.
    fn keep(&self, change: OperatorChange);
}

/// Name of an object that a command changes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Touched {
    Namespace(Arc<str>),
    Service(ServiceKey),
    Rule(RuleKind, Arc<str>),
    ConfigGroup(ServiceKey),
    ConfigFile(ConfigFileKey),
    Identity(IdentityKind, Arc<str>),
}

/// Objects of a command with their state before it.
struct Before(Vec<(Touched, String, Option<Value>)>);

impl Dialect {
    /// Executes a command of an operator, and records what it changes.
    pub(crate) async fn submit_recorded(
        &self,
        caller: &Caller<'_>,
        command: Command,
    ) -> Result<Outcome, Refusal> {
        let before = self.before(&command);
        let outcome = self.registry.submit(command).await?;
        self.record(caller, before, &outcome);
        Ok(outcome)
    }

    /// Reads the objects that a command is about to change.
    fn before(&self, command: &Command) -> Option<Before> {
        self.changes.as_ref()?;
        let state = self.registry.state();
        let objects = touched(command).into_iter().take(OBJECTS_MAX).map(|it| {
            let (path, value) = (it.path(&state), it.show(&state));
            (it, path, value)
        });
        Some(Before(objects.collect()))
    }

    /// Records what a successful command has changed.
    fn record(&self, caller: &Caller<'_>, before: Option<Before>, outcome: &Outcome) {
        let (Some(sink), Some(Before(mut objects))) = (&self.changes, before) else { return };
        // The registry gives new rules their ids.
        if let Outcome::Rule(rule) = outcome {
            for (object, ..) in &mut objects {
                *object = Touched::Rule(rule.kind, Arc::clone(&rule.id));
            }
        }
        let actor = Some(self.author(caller).to_string()).filter(|name| !name.is_empty());
        let entrance = caller.operator.map_or(Entrance::Api, |operator| operator.entrance);
        let at_ms = self.registry.now_ms();
        let state = self.registry.state();
        for (object, path, before) in objects {
            let after = object.show(&state);
            if before == after {
                continue;
            }
            // A new object has a name only now, and a deleted one had it only before.
            let path = if after.is_some() { object.path(&state) } else { path };
            let actor = actor.clone();
            sink.keep(OperatorChange { at_ms, actor, entrance, path, before, after });
        }
    }
}

fn touched(command: &Command) -> Vec<Touched> {
    match command {
        Command::CreateNamespace(name, _)
        | Command::UpdateNamespace(name, _)
        | Command::DeleteNamespace(name) => vec![Touched::Namespace(Arc::clone(name))],
        Command::CreateService(key, _)
        | Command::UpdateService(key, _)
        | Command::DeleteService(key) => vec![Touched::Service(key.clone())],
        Command::CreateRule(new) | Command::UpdateRule(new) => {
            vec![Touched::Rule(new.kind, Arc::clone(&new.id))]
        }
        Command::EnableRule(kind, id, _) | Command::DeleteRule(kind, id) => {
            vec![Touched::Rule(*kind, Arc::clone(id))]
        }
        Command::Config(_, command) => config_objects(command),
        Command::Identity(command) => identity_objects(command),
        Command::Register(_)
        | Command::Deregister(_)
        | Command::UpdateInstance(..)
        | Command::UpdateInstances(..)
        | Command::CreateAlias(_)
        | Command::UpdateAlias(..)
        | Command::DeleteAlias(_)
        | Command::PutContract(_)
        | Command::DeleteContract(_)
        | Command::Put(_) => Vec::new(),
    }
}

fn config_objects(command: &ConfigCommand) -> Vec<Touched> {
    let file = |key: &ConfigFileKey| vec![Touched::ConfigFile(key.clone())];
    match command {
        ConfigCommand::CreateGroup(key, _)
        | ConfigCommand::UpdateGroup(key, _)
        | ConfigCommand::DeleteGroup(key) => vec![Touched::ConfigGroup(key.clone())],
        ConfigCommand::CreateFile(key, _)
        | ConfigCommand::UpdateFile(key, _)
        | ConfigCommand::DeleteFile(key)
        | ConfigCommand::Publish(key, _)
        | ConfigCommand::WriteAndPublish { key, .. }
        | ConfigCommand::StopGray(key) => file(key),
        ConfigCommand::Rollback(target) | ConfigCommand::DeleteRelease(target) => file(&target.key),
        ConfigCommand::Import(files) => {
            files.iter().map(|(key, _)| Touched::ConfigFile(key.clone())).collect()
        }
        ConfigCommand::CreateTemplate(_) => Vec::new(),
    }
}

fn identity_objects(command: &IdentityCommand) -> Vec<Touched> {
    match command {
        IdentityCommand::Write(writes) => {
            let objects = writes.iter().filter_map(|write| match write {
                // It comes with its user or group.
                IdentityWrite::Create(IdentityObject::Policy(policy)) if policy.is_default => None,
                IdentityWrite::Create(object) | IdentityWrite::Replace(object) => Some(object),
            });
            objects.map(|it| Touched::Identity(it.kind(), Arc::clone(&it.head().id))).collect()
        }
        IdentityCommand::Delete(kind, id) => vec![Touched::Identity(*kind, Arc::clone(id))],
        IdentityCommand::Grant { .. } => Vec::new(),
    }
}

impl Touched {
    fn path(&self, state: &State) -> String {
        match self {
            Self::Namespace(name) => format!("registry/namespaces/{name}"),
            Self::Service(key) => format!("registry/services/{}/{}", key.namespace, key.name),
            Self::Rule(kind, id) => format!("registry/rules/{}/{id}", kind.name()),
            Self::ConfigGroup(key) => {
                format!("registry/config-groups/{}/{}", key.namespace, key.name)
            }
            Self::ConfigFile(key) => format!("registry/config-files/{key}"),
            Self::Identity(kind, id) => {
                let object = state.identity_object(*kind, id);
                let name = object.as_ref().map_or(id, |object| &object.head().name);
                let folder = match kind {
                    IdentityKind::User => "users",
                    IdentityKind::Group => "user-groups",
                    IdentityKind::Role => "roles",
                    IdentityKind::Policy => "policies",
                };
                format!("registry/{folder}/{name}")
            }
        }
    }

    /// Returns the object as a record has it: without passwords, tokens and data keys.
    fn show(&self, state: &State) -> Option<Value> {
        match self {
            Self::Namespace(name) => {
                let namespace = &state.namespace(name)?.namespace;
                Some(json!({
                    "name": namespace.name,
                    "comment": namespace.comment,
                    "owners": namespace.owners,
                    "metadata": namespace.metadata,
                    "export_to": namespace.export_to,
                }))
            }
            Self::Service(key) => {
                let service = &state.service(key.borrowed())?.service;
                Some(json!({
                    "namespace": service.key.namespace,
                    "name": service.key.name,
                    "comment": service.details.comment,
                    "business": service.details.business,
                    "department": service.details.department,
                    "metadata": service.metadata,
                    "export_to": service.details.export_to,
                }))
            }
            Self::Rule(kind, id) => {
                let rule = state.rule(*kind, id)?;
                let message = layout_of(*kind).message;
                let descriptor = descriptors().get_message_by_name(message)?;
                let text = json::print(&descriptor, rule_message(rule)).ok()?;
                let mut value: Value = serde_json::from_str(&text).ok()?;
                for own in ["revision", "ctime", "mtime", "etime"] {
                    value.as_object_mut()?.remove(own);
                }
                Some(value)
            }
            Self::ConfigGroup(key) => {
                let view = state.config_group(&key.namespace, &key.name)?;
                Some(json!({
                    "namespace": key.namespace,
                    "name": key.name,
                    "comment": view.group.comment,
                    "business": view.group.business,
                    "department": view.group.department,
                    "metadata": view.group.metadata,
                    "files": view.file_count,
                }))
            }
            Self::ConfigFile(key) => {
                show_file(state.config_file(&key.namespace, &key.group, &key.name)?)
            }
            Self::Identity(kind, id) => {
                state.identity_object(*kind, id).map(|object| show_identity(state, &object))
            }
        }
    }
}

/// A file with its releases in force; the content of an encrypted file is left out.
fn show_file(view: &ConfigFileView) -> Option<Value> {
    let file = view.file.as_ref()?;
    let is_shown = !is_encrypted(&file.tags) && file.content.len() <= CONTENT_BYTES_MAX;
    let release = |release: &Arc<ConfigRelease>| {
        let labels: Vec<Value> = release.labels.iter().map(|it| json!(it)).collect();
        json!({
            "name": release.name,
            "version": release.version,
            "md5": release.md5,
            "comment": release.description,
            "labels": labels,
        })
    };
    Some(json!({
        "content": is_shown.then_some(&*file.content),
        "format": file.format,
        "comment": file.comment,
        "tags": public_tags(&file.tags),
        "release": view.active.as_ref().map(release),
        "gray_release": view.gray.as_ref().map(release),
        "releases": view.releases.len(),
    }))
}

fn public_tags(tags: &Metadata) -> Value {
    let tags = tags.iter().filter(|(key, _)| &***key != DATA_KEY_TAG);
    tags.map(|(key, value)| (key.to_string(), json!(value))).collect()
}

/// Of passwords and tokens, a record tells only that they changed: by the revision of the object.
fn show_identity(state: &State, object: &IdentityObject) -> Value {
    let names = |kind, ids: &mut dyn Iterator<Item = &Arc<str>>| -> Vec<String> {
        let name = |id: &Arc<str>| {
            let found = state.identity_object(kind, id);
            found.map_or_else(|| id.to_string(), |it| it.head().name.to_string())
        };
        ids.map(name).collect()
    };
    let head = object.head();
    let mut value = json!({
        "id": head.id,
        "name": head.name,
        "comment": head.comment,
        "metadata": head.metadata,
        "revision": head.revision.to_string(),
    });
    match object {
        IdentityObject::User(user) => {
            value["token_enabled"] = user.token.is_enabled.into();
            value["email"] = (&*user.email).into();
            value["mobile"] = (&*user.mobile).into();
        }
        IdentityObject::Group(group) => {
            value["token_enabled"] = group.token.is_enabled.into();
            value["users"] = names(IdentityKind::User, &mut group.users.iter()).into();
        }
        IdentityObject::Role(role) => {
            value["users"] = names(IdentityKind::User, &mut role.users.iter()).into();
            value["groups"] = names(IdentityKind::Group, &mut role.groups.iter()).into();
        }
        IdentityObject::Policy(policy) => show_policy(&mut value, policy, |principal| {
            names(principal.kind, &mut std::iter::once(&principal.id)).remove(0)
        }),
    }
    value
}

fn show_policy(value: &mut Value, policy: &Policy, name: impl Fn(&Principal) -> String) {
    let principals = policy.principals.iter();
    let principals: Vec<String> =
        principals.map(|it| format!("{} {}", it.kind.name(), name(it))).collect();
    value["action"] = json!(policy.action);
    value["principals"] = principals.into();
    value["functions"] = json!(policy.functions);
    value["resources"] = json!(policy.resources);
    value["labels"] = json!(policy.labels);
}
