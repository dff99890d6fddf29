//! Size of users, groups, roles and policies, and of commands on them.

use super::{MemorySize, PAIR_BYTES, metadata_bytes};
use crate::identity::{
    IdentityCommand, IdentityHead, IdentityObject, IdentityWrite, Principal, ResourcePattern,
};

/// Overhead of an object without its texts: the object itself, and its places in the tables.
const OBJECT_BYTES: usize = 640;

impl MemorySize for IdentityObject {
    fn held_bytes(&self) -> usize {
        let long = match self {
            Self::User(user) => {
                // A token counts twice, because it is a key of a table too.
                let secrets = 2 * user.token.text.len() + user.password.0.len();
                user.mobile.len() + user.email.len() + secrets
            }
            Self::Group(group) => 2 * group.token.text.len() + ids_bytes(group.users.iter()),
            Self::Role(role) => ids_bytes(role.users.iter().chain(&role.groups)),
            Self::Policy(policy) => {
                let functions = policy.functions.iter().map(|it| PAIR_BYTES + it.len());
                let labels = policy.labels.iter();
                let labels = labels
                    .map(|it| 2 * PAIR_BYTES + it.key.len() + it.value.len() + it.compare.len());
                principals_bytes(policy.principals.iter())
                    + resources_bytes(policy.resources.iter())
                    + functions.sum::<usize>()
                    + labels.sum::<usize>()
            }
        };
        OBJECT_BYTES + head_bytes(self.head()) + long
    }
}

impl MemorySize for IdentityCommand {
    fn held_bytes(&self) -> usize {
        let long = match self {
            Self::Write(writes) => writes.iter().map(MemorySize::held_bytes).sum(),
            Self::Delete(_, id) => id.len(),
            Self::Grant { principals, resources } => {
                principals_bytes(principals.iter()) + resources_bytes(resources.iter())
            }
        };
        size_of::<Self>() + long
    }
}

impl MemorySize for IdentityWrite {
    fn held_bytes(&self) -> usize {
        match self {
            Self::Create(object) | Self::Replace(object) => object.held_bytes(),
        }
    }
}

fn head_bytes(head: &IdentityHead) -> usize {
    // Id and name count twice, because they are keys of tables too.
    let names = 2 * (head.id.len() + head.name.len());
    names
        + head.owner.len()
        + head.source.len()
        + head.comment.len()
        + metadata_bytes(&head.metadata)
}

/// Size of members: each is in the object and in a table.
fn ids_bytes<'a>(ids: impl Iterator<Item = &'a std::sync::Arc<str>>) -> usize {
    ids.map(|id| 4 * PAIR_BYTES + id.len()).sum()
}

fn principals_bytes<'a>(principals: impl Iterator<Item = &'a Principal>) -> usize {
    ids_bytes(principals.map(|principal| &principal.id))
}

fn resources_bytes<'a>(resources: impl Iterator<Item = &'a ResourcePattern>) -> usize {
    resources.map(|resource| PAIR_BYTES + resource.text.len()).sum()
}
