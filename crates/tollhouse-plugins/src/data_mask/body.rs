//! Masks of bodies. The value that is masked is the value that is logged; a body that is not of a
//! stated format is not logged.

use serde_json::Value;

use super::path::{Bounds, FieldPath};
use super::{Action, Masked, pairs};
use crate::shared::messages::unique_members::UniqueMembers;

const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// Largest number of commas and opening brackets of a JSON document, which bounds its values.
const VALUES_MAX: usize = 100_000;

/// Masks of bodies.
#[derive(Debug)]
pub(super) struct BodyMasks {
    /// Masks of forms: names of fields.
    pub form: Vec<(String, Action)>,
    /// Masks of JSON.
    pub fields: Vec<(FieldPath, Action)>,
    /// Longest body that is masked, in bytes.
    pub bytes_max: usize,
    /// Number of fields of a form that are kept.
    pub form_fields_max: usize,
}

impl BodyMasks {
    /// Returns the masked form of a body: `None` if nothing had to be masked, empty if the body must
    /// not be shown.
    pub(super) fn apply(&self, body: &[u8], content_type: &[u8]) -> Option<Vec<u8>> {
        if body.len() > self.bytes_max {
            return Some(Vec::new());
        }
        let masked = if is_form(body, content_type) && !self.form.is_empty() {
            pairs::mask(body, &self.form, self.form_fields_max).ok()
        } else if self.fields.is_empty() {
            None
        } else {
            self.mask_json(body)
        };
        masked.unwrap_or_else(|| Some(Vec::new()))
    }

    /// Masks JSON; `None` if the body must not be shown.
    fn mask_json(&self, body: &[u8]) -> Option<Option<Vec<u8>>> {
        if body.iter().filter(|byte| b",[{".contains(byte)).count() > VALUES_MAX {
            return None;
        }
        // Servers differ in which of two members with one name they read.
        serde_json::from_slice::<UniqueMembers>(body).ok()?;
        let mut document: Value = serde_json::from_slice(body).ok()?;
        let mut bounds = Bounds::new(body.len(), self.bytes_max);
        let mut is_masked = false;
        for (path, action) in &self.fields {
            is_masked |= path.mask(&mut document, &mut bounds, &|value| mask_value(value, action))?;
        }
        if !is_masked {
            return Some(None);
        }
        serde_json::to_vec(&document).ok().map(Some)
    }
}

fn mask_value(value: &Value, action: &Action) -> Masked {
    match (action, value) {
        // Regular expressions apply to texts only.
        (Action::Regex(..), Value::String(text)) => action.apply(text.as_bytes()),
        (Action::Regex(..), _) => Masked::Unchanged,
        _ => action.apply(b""),
    }
}

/// Whether a body is a form, by its type and by its text: encoders escape these characters, and
/// clients send JSON with this type.
fn is_form(body: &[u8], content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    let is_escaped = |byte: &u8| *byte > b' ' && !b"\"{}<>".contains(byte);
    essence.trim_ascii().eq_ignore_ascii_case(FORM) && body.iter().all(is_escaped)
}
