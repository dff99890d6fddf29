//! Users of the database in a plan: names in use, owners and main accounts. Also the numbers
//! by which policies name groups of files and services, which may differ between the two sides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tollhouse_registry::identity::{
    IdentityKind, IdentityObject, Policy, ResourceKind, ResourcePattern,
};

use super::ExportRefusal;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct IdentityPlan {
    /// Ids of the database's objects by kind and name.
    names: BTreeMap<(&'static str, Arc<str>), BTreeSet<Arc<str>>>,
    users: BTreeSet<Arc<str>>,
    /// Users without an owner, who own the others.
    main_accounts: BTreeSet<Arc<str>>,
    /// Ids in the database of the registry's services and groups of files.
    numbers: BTreeMap<(ResourceKind, Box<str>), Box<str>>,
    /// Ids of the database's groups of files.
    groups: BTreeSet<Box<str>>,
}

impl IdentityPlan {
    /// Notes the object of a row.
    pub(super) fn add_row(&mut self, object: &IdentityObject) {
        let head = object.head();
        let name = (object.kind().name(), Arc::clone(&head.name));
        self.names.entry(name).or_default().insert(Arc::clone(&head.id));
        if object.kind() == IdentityKind::User {
            self.users.insert(Arc::clone(&head.id));
            if head.owner.is_empty() {
                self.main_accounts.insert(Arc::clone(&head.id));
            }
        }
    }

    /// Notes a user of the registry, who may own others.
    pub(super) fn expect(&mut self, object: &IdentityObject) {
        if let IdentityObject::User(user) = object {
            self.users.insert(Arc::clone(&user.head.id));
        }
    }

    /// Refuses a name that the database has for another id: its tokens and rights would be those of
    /// another user.
    pub(super) fn check_name(&self, object: &IdentityObject) -> Result<(), ExportRefusal> {
        let head = object.head();
        let ids = self.names.get(&(object.kind().name(), Arc::clone(&head.name)));
        match ids.filter(|ids| !ids.contains(&head.id)) {
            None => Ok(()),
            Some(_) => {
                let kind = object.kind().name();
                let text = format!("its name is that of a {kind} with another id there");
                Err(ExportRefusal::Misfit(text))
            }
        }
    }

    /// Returns the id of an owner in the database. The account of the bootstrap file is not a user: in
    /// its place is the only main account there.
    pub(super) fn owner_in_database(&self, owner: &str) -> Result<Box<str>, ExportRefusal> {
        if owner.is_empty() || self.users.contains(owner) {
            return Ok(owner.into());
        }
        let mut main = self.main_accounts.iter();
        match (main.next(), main.next()) {
            (Some(only), None) => Ok((&**only).into()),
            _ => Err(ExportRefusal::NoOwner(owner.to_owned())),
        }
    }

    /// Notes the row of a group of files.
    pub(super) fn add_group(&mut self, id: &str) {
        self.groups.insert(id.into());
    }

    /// Refuses a number for a new group of files that another group has.
    pub(super) fn check_free(&self, id: u64) -> Result<(), ExportRefusal> {
        match self.groups.contains(&*id.to_string()) {
            true => {
                let text = "its number is that of another group there".to_owned();
                Err(ExportRefusal::Misfit(text))
            }
            false => Ok(()),
        }
    }

    /// Notes the id that an object of the registry has in the database.
    pub(super) fn set_number(&mut self, kind: ResourceKind, own: &str, row: &str) {
        self.numbers.insert((kind, own.into()), row.into());
    }

    /// Returns the resources of a policy by their ids in the database; none for other objects.
    pub(super) fn resources_in_database(
        &self,
        object: &IdentityObject,
    ) -> Result<BTreeSet<ResourcePattern>, ExportRefusal> {
        match object {
            IdentityObject::Policy(policy) => self.renumbered(policy),
            _ => Ok(BTreeSet::new()),
        }
    }

    fn renumbered(&self, policy: &Policy) -> Result<BTreeSet<ResourcePattern>, ExportRefusal> {
        let in_database = |pattern: &ResourcePattern| {
            let id = self.numbers.get(&(pattern.kind, pattern.text.clone()));
            let is_group = pattern.kind == ResourceKind::ConfigGroup;
            match id {
                Some(id) => Ok(ResourcePattern { kind: pattern.kind, text: id.clone() }),
                None if is_group && self.groups.contains(&pattern.text) => {
                    let text = format!(
                        "it names the group of files {}, whose number is that of another there",
                        pattern.text
                    );
                    Err(ExportRefusal::Misfit(text))
                }
                None => Ok(pattern.clone()),
            }
        };
        policy.resources.iter().map(in_database).collect()
    }

    /// Whether an object is a main account of the database or its default policy: without them Polaris
    /// has no administrator.
    pub(super) fn is_main_account(&self, object: &IdentityObject) -> bool {
        match object {
            IdentityObject::User(user) => self.main_accounts.contains(&user.head.id),
            IdentityObject::Policy(policy) => {
                let is_main = |id: &Arc<str>| self.main_accounts.contains(id);
                policy.is_default && policy.principals.iter().any(|it| is_main(&it.id))
            }
            IdentityObject::Group(_) | IdentityObject::Role(_) => false,
        }
    }
}
