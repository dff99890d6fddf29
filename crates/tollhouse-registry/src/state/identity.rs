//! Identity objects in the state, with the tables by which a token's owner and a principal's
//! policies are found.

use std::collections::BTreeSet;
use std::sync::Arc;

use tollhouse_stdx::CowMap;

use super::{Change, State};
use crate::command::Outcome;
use crate::held_bytes::{MemoryClass, MemorySize};
use crate::identity::{
    AccessRole, IdentityCommand, IdentityKind, IdentityObject, IdentityWrite, Policy, Principal,
    ResourceKind, ResourcePattern, TokenDigest, User, UserGroup, check, token_digest,
};
use crate::journal::Record;
use crate::limits::IDENTITIES_MAX;
use crate::refusal::{Noun, Refusal};
use crate::transfer::Effect;

/// Users, groups, roles and policies.
#[derive(Debug, Clone, Default)]
pub(super) struct IdentityState {
    users: CowMap<Arc<str>, Arc<User>>,
    groups: CowMap<Arc<str>, Arc<UserGroup>>,
    roles: CowMap<Arc<str>, Arc<AccessRole>>,
    policies: CowMap<Arc<str>, Arc<Policy>>,
    /// Ids by name.
    names: CowMap<(IdentityKind, Arc<str>), Arc<str>>,
    /// Owners of tokens, disabled ones included.
    tokens: CowMap<TokenDigest, Principal>,
    policies_of: CowMap<Principal, Vec<Arc<Policy>>>,
    /// Groups and roles of users, and roles of groups.
    memberships: CowMap<Principal, Vec<Principal>>,
}

impl State {
    pub fn user(&self, id: &str) -> Option<&Arc<User>> {
        self.identity.users.get(id)
    }

    pub fn user_group(&self, id: &str) -> Option<&Arc<UserGroup>> {
        self.identity.groups.get(id)
    }

    pub fn access_role(&self, id: &str) -> Option<&Arc<AccessRole>> {
        self.identity.roles.get(id)
    }

    pub fn policy(&self, id: &str) -> Option<&Arc<Policy>> {
        self.identity.policies.get(id)
    }

    /// Iterates over all users, in no defined order.
    pub fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.identity.users.values()
    }

    /// Iterates over all groups of users, in no defined order.
    pub fn user_groups(&self) -> impl Iterator<Item = &Arc<UserGroup>> {
        self.identity.groups.values()
    }

    /// Iterates over all roles, in no defined order.
    pub fn access_roles(&self) -> impl Iterator<Item = &Arc<AccessRole>> {
        self.identity.roles.values()
    }

    /// Iterates over all policies, in no defined order.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.identity.policies.values()
    }

    pub fn user_named(&self, name: &str) -> Option<&Arc<User>> {
        self.user(self.identity.names.get(&(IdentityKind::User, Arc::from(name)))?)
    }

    /// Returns the user or group of a token, enabled or not.
    pub fn token_owner(&self, token: &str) -> Option<IdentityObject> {
        if token.is_empty() {
            return None;
        }
        let owner = self.identity.tokens.get(&token_digest(token))?;
        self.identity_object(owner.kind, &owner.id)
    }

    pub fn identity_object(&self, kind: IdentityKind, id: &str) -> Option<IdentityObject> {
        match kind {
            IdentityKind::User => self.user(id).cloned().map(IdentityObject::User),
            IdentityKind::Group => self.user_group(id).cloned().map(IdentityObject::Group),
            IdentityKind::Role => self.access_role(id).cloned().map(IdentityObject::Role),
            IdentityKind::Policy => self.policy(id).cloned().map(IdentityObject::Policy),
        }
    }

    /// Returns the policies that name a principal.
    pub fn policies_of(&self, principal: &Principal) -> &[Arc<Policy>] {
        self.identity.policies_of.get(principal).map_or(&[], Vec::as_slice)
    }

    /// Returns the groups and roles of a user, or the roles of a group.
    pub fn memberships_of(&self, principal: &Principal) -> &[Principal] {
        self.identity.memberships.get(principal).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of users, groups, roles and policies.
    pub fn identity_count(&self) -> usize {
        let identity = &self.identity;
        identity.users.len()
            + identity.groups.len()
            + identity.roles.len()
            + identity.policies.len()
    }

    /// Whether two versions differ in identity objects.
    pub(crate) fn differs_in_identities(&self, other: &Self) -> bool {
        let (one, other) = (&self.identity, &other.identity);
        !(one.users.is_same_version(&other.users)
            && one.groups.is_same_version(&other.groups)
            && one.roles.is_same_version(&other.roles)
            && one.policies.is_same_version(&other.policies))
    }

    pub(super) fn apply_identity(
        &mut self,
        command: IdentityCommand,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        let writes = match command {
            IdentityCommand::Write(writes) => self.prepared_writes(writes, change)?,
            IdentityCommand::Delete(kind, id) => {
                // Guards against references that another node has added meanwhile.
                change.journal.require_nothing_new();
                self.prepared_removal(kind, &id, change)?
            }
            IdentityCommand::Grant { principals, resources } => {
                self.prepared_grants(&principals, &resources, change)?
            }
        };
        let written = writes.iter().filter_map(PreparedWrite::object).collect();
        writes.into_iter().for_each(|write| self.write_identity(write, change));
        Ok(Outcome::Identities(written))
    }

    /// Checks and encodes all writes before the first change.
    fn prepared_writes(
        &mut self,
        writes: Vec<IdentityWrite>,
        change: &mut Change<'_>,
    ) -> Result<Vec<PreparedWrite>, Refusal> {
        let created = writes.iter().filter(|it| matches!(it, IdentityWrite::Create(_))).count();
        if created > 0 && self.identity_count() + created > IDENTITIES_MAX {
            return Err(Refusal::Full { what: IDENTITIES, max: IDENTITIES_MAX });
        }
        let mut prepared: Vec<PreparedWrite> = Vec::new();
        for write in writes {
            match write {
                IdentityWrite::Create(mut object) => {
                    let head = object.head_mut();
                    head.created_at = change.now_seconds();
                    self.prepare(object, None, change, &mut prepared)?;
                }
                IdentityWrite::Replace(mut object) => {
                    let current = self.identity_object(object.kind(), &object.head().id);
                    let current =
                        current.ok_or(Refusal::NotFound(Noun::Identity(object.kind())))?;
                    if current.head().revision != object.head().revision {
                        return Err(Refusal::Conflict);
                    }
                    if current == object {
                        return Err(Refusal::NoChange);
                    }
                    object.head_mut().created_at = current.head().created_at;
                    self.prepare(object, Some(current), change, &mut prepared)?;
                }
            }
        }
        let sum = |bytes: fn(&PreparedWrite) -> usize| prepared.iter().map(bytes).sum::<usize>();
        let (before, after) = (sum(PreparedWrite::bytes_before), sum(PreparedWrite::bytes_after));
        self.held.check(MemoryClass::Identities, before, after)?;
        Ok(prepared)
    }

    fn prepare(
        &mut self,
        mut object: IdentityObject,
        current: Option<IdentityObject>,
        change: &mut Change<'_>,
        prepared: &mut Vec<PreparedWrite>,
    ) -> Result<(), Refusal> {
        check::object(&object)?;
        let kind = object.kind();
        if current.is_none() && self.identity_object(kind, &object.head().id).is_some() {
            return Err(Refusal::Exists);
        }
        let name = (kind, Arc::clone(&object.head().name));
        let taken = self.identity.names.get(&name);
        if taken.is_some_and(|id| *id != object.head().id) {
            return Err(Refusal::Exists);
        }
        let digest = object.token().filter(|token| !token.text.is_empty());
        let digest = digest.map(|token| token_digest(&token.text));
        let owner = digest.and_then(|digest| self.identity.tokens.get(&digest));
        if owner.is_some_and(|owner| owner.kind != kind || owner.id != object.head().id) {
            return Err(Refusal::Exists);
        }
        self.check_references(&object, prepared, change)?;
        let revision = self.next_revision();
        let head = object.head_mut();
        (head.revision, head.modified_at) = (revision, change.now_seconds());
        let record = Record::identity(&object)?;
        prepared.push(PreparedWrite { before: current, after: Some((object, record)) });
        Ok(())
    }

    /// Refuses references to users, groups and roles that neither exist nor are created by an
    /// earlier write of the command.
    fn check_references(
        &self,
        object: &IdentityObject,
        prepared: &[PreparedWrite],
        change: &mut Change<'_>,
    ) -> Result<(), Refusal> {
        let mut check = |kind: IdentityKind, id: &Arc<str>| {
            let is_new = |write: &PreparedWrite| {
                write.object().is_some_and(|it| it.kind() == kind && it.head().id == *id)
            };
            if prepared.iter().any(is_new) {
                return Ok(());
            }
            if self.identity_object(kind, id).is_none() {
                return Err(Refusal::NotFound(Noun::Identity(kind)));
            }
            change.journal.require_identity(kind, id);
            Ok(())
        };
        match object {
            IdentityObject::User(_) => Ok(()),
            IdentityObject::Group(group) => {
                group.users.iter().try_for_each(|id| check(IdentityKind::User, id))
            }
            IdentityObject::Role(role) => {
                role.users.iter().try_for_each(|id| check(IdentityKind::User, id))?;
                role.groups.iter().try_for_each(|id| check(IdentityKind::Group, id))
            }
            IdentityObject::Policy(policy) => {
                policy.principals.iter().try_for_each(|it| check(it.kind, &it.id))
            }
        }
    }

    /// Prepares the removal of an object, of its default policy, and of all references to it. Each
    /// object is edited once, because a user is named once by a group, a role or a policy.
    fn prepared_removal(
        &mut self,
        kind: IdentityKind,
        id: &str,
        change: &Change<'_>,
    ) -> Result<Vec<PreparedWrite>, Refusal> {
        let mut prepared = Vec::new();
        let Some(object) = self.identity_object(kind, id) else { return Ok(prepared) };
        if let Some(principal) = object.principal() {
            for policy in self.policies_of(&principal).to_vec() {
                let mut without = Policy::clone(&policy);
                without.principals.remove(&principal);
                let is_over = policy.is_default && without.principals.is_empty();
                let after = (!is_over).then(|| IdentityObject::from(without));
                let before = IdentityObject::Policy(policy);
                self.prepare_edit(before, after, change, &mut prepared)?;
            }
            for membership in self.memberships_of(&principal).to_vec() {
                let holder = self.identity_object(membership.kind, &membership.id);
                let Some(holder) = holder else { continue };
                let after = without_member(&holder, &principal);
                self.prepare_edit(holder, Some(after), change, &mut prepared)?;
            }
        }
        self.prepare_edit(object, None, change, &mut prepared)?;
        Ok(prepared)
    }

    /// Adds an edit to the prepared ones.
    fn prepare_edit(
        &mut self,
        before: IdentityObject,
        after: Option<IdentityObject>,
        change: &Change<'_>,
        prepared: &mut Vec<PreparedWrite>,
    ) -> Result<(), Refusal> {
        let after = match after {
            Some(mut object) => {
                let revision = self.next_revision();
                let head = object.head_mut();
                (head.revision, head.modified_at) = (revision, change.now_seconds());
                let record = Record::identity(&object)?;
                Some((object, record))
            }
            None => None,
        };
        prepared.push(PreparedWrite { before: Some(before), after });
        Ok(())
    }

    fn prepared_grants(
        &mut self,
        principals: &[Principal],
        resources: &[ResourcePattern],
        change: &Change<'_>,
    ) -> Result<Vec<PreparedWrite>, Refusal> {
        let mut prepared = Vec::new();
        for principal in principals {
            let policy = self.policies_of(principal).iter().find(|policy| policy.is_default);
            let Some(policy) = policy.cloned() else { continue };
            let mut wider = Policy::clone(&policy);
            wider.resources.extend(resources.iter().cloned());
            if wider == *policy {
                continue;
            }
            let after = IdentityObject::from(wider);
            check::object(&after)?;
            let before = IdentityObject::Policy(policy);
            self.held.check(MemoryClass::Identities, before.held_bytes(), after.held_bytes())?;
            self.prepare_edit(before, Some(after), change, &mut prepared)?;
        }
        Ok(prepared)
    }

    /// Removes a namespace from all policies, so that a later one of this name is not covered.
    pub(super) fn forget_resource(
        &mut self,
        kind: ResourceKind,
        id: &str,
        change: &mut Change<'_>,
    ) -> Result<(), Refusal> {
        let pattern = ResourcePattern { kind, text: id.into() };
        let naming = self.policies().filter(|policy| policy.resources.contains(&pattern));
        let mut prepared = Vec::new();
        for policy in naming.cloned().collect::<Vec<_>>() {
            let mut without = Policy::clone(&policy);
            without.resources.remove(&pattern);
            let before = IdentityObject::Policy(policy);
            self.prepare_edit(before, Some(without.into()), change, &mut prepared)?;
        }
        prepared.into_iter().for_each(|write| self.write_identity(write, change));
        Ok(())
    }

    fn write_identity(&mut self, write: PreparedWrite, change: &mut Change<'_>) {
        let PreparedWrite { before, after } = write;
        match (before, after) {
            (before, Some((object, record))) => {
                change.journal.put(record, before.as_ref().into());
                self.place_identity(object);
            }
            (Some(before), None) => {
                let (kind, id) = (before.kind(), &before.head().id);
                change.journal.delete_key(Record::identity_key(kind, id));
                self.remove_identity(kind, id);
            }
            (None, None) => {}
        }
    }

    /// Stores an object in place of the one with its id.
    pub(super) fn place_identity(&mut self, object: IdentityObject) {
        self.remove_identity(object.kind(), &object.head().id);
        self.held.replace(MemoryClass::Identities, 0, object.held_bytes());
        let identity = &mut self.identity;
        let id = Arc::clone(&object.head().id);
        identity.names.insert((object.kind(), Arc::clone(&object.head().name)), Arc::clone(&id));
        if let Some(token) = object.token().filter(|token| !token.text.is_empty()) {
            let owner = object.principal().expect("what has a token is a principal");
            identity.tokens.insert(token_digest(&token.text), owner);
        }
        identity.link(&object);
        match object {
            IdentityObject::User(user) => drop(identity.users.insert(id, user)),
            IdentityObject::Group(group) => drop(identity.groups.insert(id, group)),
            IdentityObject::Role(role) => drop(identity.roles.insert(id, role)),
            IdentityObject::Policy(policy) => drop(identity.policies.insert(id, policy)),
        }
    }

    /// Removes an object from the tables; references to it stay.
    pub(super) fn remove_identity(&mut self, kind: IdentityKind, id: &str) {
        let Some(object) = self.identity_object(kind, id) else { return };
        self.held.replace(MemoryClass::Identities, object.held_bytes(), 0);
        let identity = &mut self.identity;
        let name = (kind, Arc::clone(&object.head().name));
        if identity.names.get(&name).is_some_and(|named| **named == *id) {
            identity.names.remove(&name);
        }
        if let Some(token) = object.token().filter(|token| !token.text.is_empty()) {
            identity.tokens.remove(&token_digest(&token.text));
        }
        identity.unlink(&object);
        match kind {
            IdentityKind::User => drop(identity.users.remove(id)),
            IdentityKind::Group => drop(identity.groups.remove(id)),
            IdentityKind::Role => drop(identity.roles.remove(id)),
            IdentityKind::Policy => drop(identity.policies.remove(id)),
        }
    }

    /// Stores an object of another registry in place of the one with its id.
    pub(super) fn take_identity(
        &mut self,
        object: IdentityObject,
        change: &mut Change<'_>,
    ) -> Result<Effect, Refusal> {
        let current = self.identity_object(object.kind(), &object.head().id);
        if current.is_none() && self.identity_count() >= IDENTITIES_MAX {
            return Err(Refusal::Full { what: IDENTITIES, max: IDENTITIES_MAX });
        }
        if let Some(current) = &current
            && is_alike_identity(current, &object)
        {
            return Err(Refusal::NoChange);
        }
        check::object(&object)?;
        let before = current.as_ref().map_or(0, MemorySize::held_bytes);
        self.held.check(MemoryClass::Identities, before, object.held_bytes())?;
        let mut object = object;
        let revision = self.next_revision();
        object.head_mut().revision = revision;
        change.journal.put(Record::identity(&object)?, current.as_ref().into());
        self.place_identity(object);
        Ok(if current.is_some() { Effect::Changed } else { Effect::Created })
    }
}

/// Noun for identity objects of all kinds, in refusals.
const IDENTITIES: &str = "users, groups, roles and policies";

impl IdentityState {
    fn link(&mut self, object: &IdentityObject) {
        for member in members(object) {
            match object {
                IdentityObject::Policy(policy) => {
                    push(&mut self.policies_of, member, Arc::clone(policy));
                }
                _ => {
                    let Some(holder) = object.principal() else { continue };
                    push(&mut self.memberships, member, holder);
                }
            }
        }
    }

    fn unlink(&mut self, object: &IdentityObject) {
        let id = &object.head().id;
        for member in members(object) {
            match object {
                IdentityObject::Policy(_) => {
                    remove(&mut self.policies_of, &member, |policy| policy.head.id == *id);
                }
                _ => remove(&mut self.memberships, &member, |holder| {
                    holder.id == *id && holder.kind == object.kind()
                }),
            }
        }
    }
}

/// Returns the principals that an object names.
fn members(object: &IdentityObject) -> BTreeSet<Principal> {
    let users = |ids: &BTreeSet<Arc<str>>| ids.iter().map(|id| Principal::user(id)).collect();
    match object {
        IdentityObject::User(_) => BTreeSet::new(),
        IdentityObject::Group(group) => users(&group.users),
        IdentityObject::Role(role) => {
            let mut all: BTreeSet<Principal> = users(&role.users);
            all.extend(role.groups.iter().map(|id| Principal::group(id)));
            all
        }
        IdentityObject::Policy(policy) => policy.principals.clone(),
    }
}

fn without_member(holder: &IdentityObject, member: &Principal) -> IdentityObject {
    match holder {
        IdentityObject::Group(group) => {
            let mut group = UserGroup::clone(group);
            group.users.remove(&member.id);
            group.into()
        }
        IdentityObject::Role(role) => {
            let mut role = AccessRole::clone(role);
            match member.kind {
                IdentityKind::User => drop(role.users.remove(&member.id)),
                _ => drop(role.groups.remove(&member.id)),
            }
            role.into()
        }
        IdentityObject::User(_) | IdentityObject::Policy(_) => holder.clone(),
    }
}

fn push<T: Clone>(table: &mut CowMap<Principal, Vec<T>>, key: Principal, value: T) {
    match table.get(&key) {
        Some(_) => drop(table.update(&key, |list| list.push(value))),
        None => drop(table.insert(key, vec![value])),
    }
}

fn remove<T: Clone>(
    table: &mut CowMap<Principal, Vec<T>>,
    key: &Principal,
    is_gone: impl Fn(&T) -> bool,
) {
    let is_empty = table.update(key, |list| {
        list.retain(|value| !is_gone(value));
        list.is_empty()
    });
    if is_empty == Some(true) {
        table.remove(key);
    }
}

/// Whether two objects differ at most in revision.
fn is_alike_identity(one: &IdentityObject, other: &IdentityObject) -> bool {
    let (mut one, mut other) = (one.clone(), other.clone());
    let none = Default::default();
    (one.head_mut().revision, other.head_mut().revision) = (none, none);
    one == other
}

/// A checked and encoded write of one object.
struct PreparedWrite {
    before: Option<IdentityObject>,
    after: Option<(IdentityObject, Record)>,
}

impl PreparedWrite {
    fn object(&self) -> Option<IdentityObject> {
        self.after.as_ref().map(|(object, _)| object.clone())
    }

    fn bytes_before(&self) -> usize {
        self.before.as_ref().map_or(0, MemorySize::held_bytes)
    }

    fn bytes_after(&self) -> usize {
        self.after.as_ref().map_or(0, |(object, _)| object.held_bytes())
    }
}
