//! Validation of identity objects.

use super::{IdentityHead, IdentityObject};
use crate::limits::{
    INSTANCE_ID_CHARS_MAX, METADATA_VALUE_CHARS_MAX, POLICY_FUNCTIONS_MAX, POLICY_LABELS_MAX,
    POLICY_MEMBERS_MAX, TEXT_CHARS_MAX,
};
use crate::refusal::Refusal;
use crate::texts::{is_longer, metadata, refuse_if, text};

/// Maximum length of a name; the default policy of a user adds some characters to the user's.
const NAME_CHARS_MAX: usize = 128;

/// Maximum length of a token or of a password's hash.
const SECRET_CHARS_MAX: usize = 512;

pub(crate) fn object(object: &IdentityObject) -> Result<(), Refusal> {
    head(object.head())?;
    if let Some(token) = object.token() {
        refuse_if(is_longer(&token.text, SECRET_CHARS_MAX), Refusal::Parameter("auth_token"))?;
    }
    let too_many = Refusal::Parameter("more users, groups, roles or resources than one may have");
    match object {
        IdentityObject::User(user) => {
            text(&user.mobile, "mobile")?;
            text(&user.email, "email")?;
            refuse_if(is_longer(&user.password.0, SECRET_CHARS_MAX), Refusal::Parameter("password"))
        }
        IdentityObject::Group(group) => refuse_if(group.users.len() > POLICY_MEMBERS_MAX, too_many),
        IdentityObject::Role(role) => {
            let members = role.users.len() + role.groups.len();
            refuse_if(members > POLICY_MEMBERS_MAX, too_many)
        }
        IdentityObject::Policy(policy) => {
            let members = policy.principals.len().max(policy.resources.len());
            refuse_if(members > POLICY_MEMBERS_MAX, too_many)?;
            refuse_if(
                policy.functions.len() > POLICY_FUNCTIONS_MAX,
                Refusal::Parameter("functions"),
            )?;
            refuse_if(
                policy.labels.len() > POLICY_LABELS_MAX,
                Refusal::Parameter("resource_labels"),
            )?;
            for function in &policy.functions {
                refuse_if(is_longer(function, NAME_CHARS_MAX), Refusal::Parameter("functions"))?;
            }
            for resource in &policy.resources {
                text(&resource.text, "resources")?;
            }
            for label in &policy.labels {
                let is_long = is_longer(&label.key, TEXT_CHARS_MAX)
                    || is_longer(&label.value, METADATA_VALUE_CHARS_MAX)
                    || !super::decision::is_comparison(&label.compare);
                refuse_if(is_long, Refusal::Parameter("resource_labels"))?;
            }
            Ok(())
        }
    }
}

fn head(head: &IdentityHead) -> Result<(), Refusal> {
    let is_id = |id: &str| {
        !id.is_empty()
            && !is_longer(id, INSTANCE_ID_CHARS_MAX)
            && !id.contains('/')
            && !id.chars().any(char::is_control)
    };
    refuse_if(!is_id(&head.id), Refusal::Parameter("id"))?;
    let is_name = !head.name.is_empty()
        && !is_longer(&head.name, NAME_CHARS_MAX)
        && !head.name.chars().any(char::is_control);
    refuse_if(!is_name, Refusal::Parameter("name"))?;
    text(&head.owner, "owner")?;
    text(&head.source, "source")?;
    text(&head.comment, "comment")?;
    metadata(&head.metadata, 0)
}
