//! Whose nodes a selector may have: those that register here or are written here, and no other registry's.

use crate::answer::Refusal;
use crate::row::{self, Row};

/// What finds nodes: calls and registrations.
pub(crate) const LOCAL: &str = "local";

/// Refuses what would have to follow another registry. Forms name it `type` or `discoveryType`.
///
/// # Errors
/// When it is not [`LOCAL`], nor left out.
pub(crate) fn check_source(discovery: Option<&Row>) -> Result<(), Refusal> {
    for member in ["type", "discoveryType"] {
        let kind = discovery.and_then(|discovery| row::filled(discovery, member));
        if let Some(kind) = kind.filter(|kind| kind != LOCAL) {
            let text = format!(
                "nodes that `{kind}` has are not followed here; let services register themselves, or write \
                 their nodes with `{LOCAL}`"
            );
            return Err(Refusal::invalid(member, &text));
        }
    }
    Ok(())
}
