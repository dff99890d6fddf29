//! Validation of names, texts and labels of the configuration centre.

use super::{ConfigFileChange, ConfigFileKey, ConfigGroupChange, NewRelease};
use crate::key::ServiceKey;
use crate::limits::{
    CONFIG_CONTENT_BYTES_MAX, CONFIG_LABELS_MAX, CONFIG_NAME_CHARS_MAX, METADATA_VALUE_CHARS_MAX,
    TEXT_CHARS_MAX,
};
use crate::refusal::Refusal;
use crate::texts::{is_longer, is_service_name, metadata, namespace_name};

/// Maximum length of a release's name: a file's name with a time and a version.
const RELEASE_NAME_CHARS_MAX: usize = 2 * CONFIG_NAME_CHARS_MAX;

pub(crate) fn group_key(key: &ServiceKey) -> Result<(), Refusal> {
    if !is_service_name(&key.name) {
        return Err(Refusal::ConfigGroupName);
    }
    namespace_name(&key.namespace)
}

pub(crate) fn file_key(key: &ConfigFileKey) -> Result<(), Refusal> {
    if !is_file_name(&key.name) {
        return Err(Refusal::ConfigFileName);
    }
    group_key(&key.group_key())
}

/// Whether a text can be the name of a file or template. Control characters are refused, because
/// line breaks and escapes would forge lines in logs and terminals.
pub(crate) fn is_file_name(text: &str) -> bool {
    !text.is_empty()
        && !is_longer(text, CONFIG_NAME_CHARS_MAX)
        && !text.chars().any(char::is_control)
}

pub(crate) fn group_change(change: &ConfigGroupChange) -> Result<(), Refusal> {
    let texts = [
        (&change.comment, "comment"),
        (&change.owner, "owner"),
        (&change.business, "business"),
        (&change.department, "department"),
    ];
    for (text, what) in texts {
        short_text(text.as_deref().unwrap_or_default(), what)?;
    }
    change.metadata.as_ref().map_or(Ok(()), |pairs| metadata(pairs, 0))
}

pub(crate) fn file_change(change: &ConfigFileChange) -> Result<(), Refusal> {
    content(change.content.as_deref().unwrap_or_default())?;
    short_text(change.format.as_deref().unwrap_or_default(), "format")?;
    short_text(change.comment.as_deref().unwrap_or_default(), "comment")?;
    match &change.tags {
        Some(tags) => metadata(tags, 0).map_err(|_| Refusal::ConfigTags),
        None => Ok(()),
    }
}

pub(crate) fn content(text: &str) -> Result<(), Refusal> {
    if text.len() > CONFIG_CONTENT_BYTES_MAX {
        return Err(Refusal::ConfigContent { bytes_max: CONFIG_CONTENT_BYTES_MAX });
    }
    Ok(())
}

pub(crate) fn release(release: &NewRelease) -> Result<(), Refusal> {
    if is_longer(&release.name, RELEASE_NAME_CHARS_MAX)
        || release.name.chars().any(char::is_control)
    {
        return Err(Refusal::Parameter("name"));
    }
    short_text(&release.comment, "comment")?;
    short_text(&release.description, "release_description")?;
    if release.labels.len() > CONFIG_LABELS_MAX {
        return Err(Refusal::ConfigLabels);
    }
    for label in &release.labels {
        let is_long = is_longer(&label.key, TEXT_CHARS_MAX)
            || is_longer(&label.value, METADATA_VALUE_CHARS_MAX);
        if label.key.is_empty() || is_long || !label.is_valid() {
            return Err(Refusal::ConfigLabels);
        }
    }
    Ok(())
}

pub(crate) fn short_text(text: &str, what: &'static str) -> Result<(), Refusal> {
    crate::texts::text(text, what)
}
