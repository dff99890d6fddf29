//! Masks of queries and forms.

use tollhouse_model::variable::decode_argument;

use super::{Action, Masked};

/// Error: a value could not be searched.
pub(super) struct Unknown;

/// Masks the fields of a query or form; `None` if no mask applies. Only the first `count_max`
/// fields are kept.
///
/// # Errors
/// If a value could not be searched.
pub(super) fn mask(
    text: &[u8],
    masks: &[(String, Action)],
    count_max: usize,
) -> Result<Option<Vec<u8>>, Unknown> {
    let mut is_masked = false;
    let mut kept: Vec<u8> = Vec::with_capacity(text.len());
    let mut count = 0;
    for pair in text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        if count == count_max {
            is_masked = true;
            break;
        }
        let at = pair.iter().position(|byte| *byte == b'=');
        let masked = masked_value(pair, at, masks)?;
        is_masked |= !matches!(masked, Masked::Unchanged);
        if matches!(masked, Masked::Removed) {
            continue;
        }
        if !kept.is_empty() {
            kept.push(b'&');
        }
        match masked {
            Masked::Text(value) => {
                kept.extend_from_slice(&pair[..at.unwrap_or(pair.len())]);
                kept.push(b'=');
                escape(&value, &mut kept);
            }
            _ => kept.extend_from_slice(pair),
        }
        count += 1;
    }
    Ok(is_masked.then_some(kept))
}

/// Applies all masks for one field; `at` is the position of its `=`.
fn masked_value(
    pair: &[u8],
    at: Option<usize>,
    masks: &[(String, Action)],
) -> Result<Masked, Unknown> {
    let name = decode_argument(&pair[..at.unwrap_or(pair.len())]);
    let mut masked = Masked::Unchanged;
    for (_, action) in masks.iter().filter(|(other, _)| other.as_bytes() == &*name) {
        let value = match &masked {
            Masked::Text(text) => text.as_slice().into(),
            _ => at.map_or(Default::default(), |at| decode_argument(&pair[at + 1..])),
        };
        let is_flag = at.is_none() && matches!(masked, Masked::Unchanged);
        if is_flag && matches!(action, Action::Regex(..)) {
            continue;
        }
        match action.apply(&value) {
            Masked::Unchanged => {}
            Masked::Unknown => return Err(Unknown),
            Masked::Removed => return Ok(Masked::Removed),
            text => masked = text,
        }
    }
    Ok(masked)
}

/// Appends a value, encoded for a query; `*` stays as it is, because masks consist of it.
fn escape(value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~*".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}
