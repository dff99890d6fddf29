//! Objects of the configuration centre as messages.

use std::collections::HashMap;

use tollhouse_registry::Metadata;
use tollhouse_registry::config::{
    ClientLabel, ConfigEvent, ConfigEventKind, ConfigFile, ConfigFileKey, ConfigFileView,
    ConfigGroup, ConfigRelease, ConfigTemplate, LabelMatch,
};

use super::sealing::plain;
use crate::code::Code;
use crate::date::DateText;
use crate::dialect::rights::Permits;
use crate::failure::Failure;
use crate::v1;
use crate::v1::match_string::MatchStringType;

/// Type of a release for clients with certain labels.
pub(crate) const GRAY: &str = "gray";

/// Tag that marks an encrypted file.
pub(crate) const ENCRYPTED_TAG: &str = "internal-encrypted";
/// Tag with the data key of an encrypted file, in base64.
pub(crate) const DATA_KEY_TAG: &str = "internal-datakey";
/// Tag with the algorithm of an encrypted file.
pub(crate) const ALGORITHM_TAG: &str = "internal-encryptalgo";

/// Presence of the content in a release or history entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Included,
    LeftOut,
}

pub(crate) fn group(
    group: &ConfigGroup,
    file_count: usize,
    permits: Permits,
) -> v1::ConfigFileGroup {
    let dates = &group.dates;
    v1::ConfigFileGroup {
        id: Some(group.id),
        name: some(&group.key.name),
        namespace: some(&group.key.namespace),
        comment: some(&group.comment),
        create_time: date(dates.created_at),
        create_by: some(&dates.created_by),
        modify_time: date(dates.modified_at),
        modify_by: some(&dates.modified_by),
        file_count: Some(file_count as u64),
        editable: Some(permits.editable),
        owner: some(&group.owner),
        business: some(&group.business),
        department: some(&group.department),
        metadata: pairs(&group.metadata),
        deleteable: Some(permits.deletable),
        ..v1::ConfigFileGroup::default()
    }
}

/// The working copy of a file, with the state of its publication.
pub(crate) fn file(view: &ConfigFileView, file: &ConfigFile) -> v1::ConfigFile {
    let dates = &file.dates;
    let (released, status) = match (&view.gray, &view.active) {
        (Some(gray), _) => (Some(gray), "betaing"),
        (None, active) => (active.as_ref(), "normal"),
    };
    // A release of another content is not the one of the working copy.
    let released = released.filter(|release| release.content == file.content);
    v1::ConfigFile {
        id: Some(file.id),
        name: some(&file.key.name),
        namespace: some(&file.key.namespace),
        group: some(&file.key.group),
        content: some(&plain(&file.content, &file.tags)),
        format: some(&file.format),
        comment: some(&file.comment),
        status: some(if released.is_some() { status } else { "to-be-released" }),
        tags: public_tags(&file.tags),
        create_time: date(dates.created_at),
        create_by: some(&dates.created_by),
        modify_time: date(dates.modified_at),
        modify_by: some(&dates.modified_by),
        release_time: released.map_or_else(|| some(""), |it| date(it.dates.modified_at)),
        release_by: some(released.map_or("", |it| &it.dates.modified_by)),
        encrypted: Some(is_encrypted(&file.tags)),
        encrypt_algo: some(file.tags.get(ALGORITHM_TAG).map_or("", |algorithm| algorithm)),
    }
}

pub(crate) fn release(
    view: &ConfigFileView,
    release: &ConfigRelease,
    content: Content,
) -> v1::ConfigFileRelease {
    let dates = &release.dates;
    let in_force = [&view.active, &view.gray].into_iter().flatten();
    v1::ConfigFileRelease {
        id: Some(release.id),
        name: some(&release.name),
        namespace: some(&release.key.namespace),
        group: some(&release.key.group),
        file_name: some(&release.key.name),
        content: (content == Content::Included)
            .then(|| plain(&release.content, &release.tags).into_owned()),
        comment: some(&release.comment),
        md5: some(&release.md5),
        version: Some(release.version),
        create_time: date(dates.created_at),
        create_by: some(&dates.created_by),
        modify_time: date(dates.modified_at),
        modify_by: some(&dates.modified_by),
        tags: public_tags(&release.tags),
        active: Some(in_force.map(|it| it.id).any(|id| id == release.id)),
        format: some(&release.format),
        release_description: some(&release.description),
        release_type: some(if release.is_gray() { GRAY } else { "" }),
        beta_labels: release.labels.iter().map(label).collect(),
    }
}

/// Returns Polaris' name for the kind of a history entry.
pub(crate) fn event_kind(kind: ConfigEventKind) -> &'static str {
    match kind {
        ConfigEventKind::Release => "normal",
        ConfigEventKind::Gray => "betaing",
        ConfigEventKind::StopGray => "cancel-gray",
        ConfigEventKind::Rollback => "rollback",
        ConfigEventKind::DeleteRelease => "delete",
        ConfigEventKind::DeleteFile => "clean",
    }
}

pub(crate) fn history(event: &ConfigEvent) -> v1::ConfigFileReleaseHistory {
    let kind = event_kind(event.kind);
    v1::ConfigFileReleaseHistory {
        id: Some(event.id),
        name: some(&event.name),
        namespace: some(&event.key.namespace),
        group: some(&event.key.group),
        file_name: some(&event.key.name),
        content: some(&plain(&event.content, &event.tags)),
        format: some(&event.format),
        comment: some(&event.comment),
        md5: some(&event.md5),
        r#type: some(kind),
        status: some("success"),
        tags: public_tags(&event.tags),
        create_time: date(event.at),
        create_by: some(&event.by),
        modify_time: date(event.at),
        modify_by: some(&event.by),
        reason: some(""),
        release_description: some(&event.description),
    }
}

pub(crate) fn template(template: &ConfigTemplate) -> v1::ConfigFileTemplate {
    let dates = &template.dates;
    v1::ConfigFileTemplate {
        id: Some(template.id),
        name: some(&template.name),
        content: some(&template.content),
        format: some(&template.format),
        comment: some(&template.comment),
        create_time: date(dates.created_at),
        create_by: some(&dates.created_by),
        modify_time: date(dates.modified_at),
        modify_by: some(&dates.modified_by),
    }
}

/// A release as clients get it, with its content.
pub(crate) fn client_file(release: &ConfigRelease) -> v1::ClientConfigFileInfo {
    v1::ClientConfigFileInfo {
        content: some(&release.content),
        tags: tags(&release.tags),
        encrypted: Some(is_encrypted(&release.tags)),
        ..watched_file(release)
    }
}

/// A release as a watch tells of it: without its content.
pub(crate) fn watched_file(release: &ConfigRelease) -> v1::ClientConfigFileInfo {
    v1::ClientConfigFileInfo {
        name: some(&release.name),
        version: Some(release.version),
        md5: some(&release.md5),
        ..named_file(&release.key)
    }
}

/// The name of a file alone.
pub(crate) fn named_file(key: &ConfigFileKey) -> v1::ClientConfigFileInfo {
    v1::ClientConfigFileInfo {
        namespace: some(&key.namespace),
        group: some(&key.group),
        file_name: some(&key.name),
        ..v1::ClientConfigFileInfo::default()
    }
}

/// A release in the list of its group.
pub(crate) fn listed_file(release: &ConfigRelease) -> v1::ClientConfigFileInfo {
    v1::ClientConfigFileInfo {
        name: some(&release.name),
        version: Some(release.version),
        md5: some(&release.md5),
        release_time: date(release.dates.modified_at),
        tags: public_tags(&release.tags),
        ..named_file(&release.key)
    }
}

/// Converts the tags of a file; both parts of each must be given.
pub(crate) fn tags_of(tags: &[v1::ConfigFileTag]) -> Result<Metadata, Failure> {
    let tags = tags.iter().map(|tag| match (tag.key.as_deref(), tag.value.as_deref()) {
        (Some(key), Some(value)) if !key.is_empty() && !value.is_empty() => {
            Ok((Box::from(key), Box::from(value)))
        }
        _ => Err(Code::InvalidConfigFileTags.into()),
    });
    tags.collect()
}

/// Converts the label of a gray release.
pub(crate) fn label_of(label: &v1::ClientLabel) -> ClientLabel {
    let value = label.value.as_ref();
    let kind = value.map_or(MatchStringType::Exact, v1::MatchString::r#type);
    let kind = match kind {
        MatchStringType::Exact => LabelMatch::Exact,
        MatchStringType::Regex => LabelMatch::Regex,
        MatchStringType::NotEquals => LabelMatch::NotEquals,
        MatchStringType::In => LabelMatch::In,
        MatchStringType::NotIn => LabelMatch::NotIn,
        MatchStringType::Range => LabelMatch::Range,
    };
    let text = value.and_then(|value| value.value.as_deref()).unwrap_or_default();
    ClientLabel::new(&label.key, kind, text)
}

pub(crate) fn label(label: &ClientLabel) -> v1::ClientLabel {
    let kind = match label.kind {
        LabelMatch::Exact => MatchStringType::Exact,
        LabelMatch::Regex => MatchStringType::Regex,
        LabelMatch::NotEquals => MatchStringType::NotEquals,
        LabelMatch::In => MatchStringType::In,
        LabelMatch::NotIn => MatchStringType::NotIn,
        LabelMatch::Range => MatchStringType::Range,
    };
    let value = v1::MatchString {
        r#type: kind.into(),
        value: some(&label.value),
        ..v1::MatchString::default()
    };
    v1::ClientLabel { key: label.key.to_string(), value: Some(value) }
}

pub(crate) fn is_encrypted(tags: &Metadata) -> bool {
    tags.contains_key(DATA_KEY_TAG)
}

/// Tags without the data key, which only the clients of an encrypted file get.
fn public_tags(pairs: &Metadata) -> Vec<v1::ConfigFileTag> {
    let pairs = pairs.iter().filter(|(key, _)| &***key != DATA_KEY_TAG);
    pairs.map(|(key, value)| tag(key, value)).collect()
}

fn tags(pairs: &Metadata) -> Vec<v1::ConfigFileTag> {
    pairs.iter().map(|(key, value)| tag(key, value)).collect()
}

pub(crate) fn tag(key: &str, value: &str) -> v1::ConfigFileTag {
    v1::ConfigFileTag { key: some(key), value: some(value) }
}

fn pairs(metadata: &Metadata) -> HashMap<String, String> {
    metadata.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

pub(crate) fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn date(unix_seconds: u64) -> Option<String> {
    some(DateText::from_unix_seconds(unix_seconds).as_str())
}
