//! Sources of a selector's nodes: nodes that register or are written here. External registries are
//! not supported.

use crate::answer::Refusal;
use crate::row::{self, Row};

/// Discovery type of nodes that calls and registrations write.
pub(crate) const LOCAL: &str = "local";

/// Refuses discovery settings for an external registry. Forms name the type `type` or
/// `discoveryType`.
///
/// # Errors
///
/// If a type is given that is not [`LOCAL`].
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
