//! Import of the configuration centre from Polaris' database: groups, files, releases, history and
//! templates.

use prost::Message;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_registry::config::{
    ClientLabel, ConfigEvent, ConfigEventKind, ConfigFile, ConfigFileKey, ConfigGroup,
    ConfigObject, ConfigRelease, ConfigTemplate, Dates,
};
use tollhouse_registry::{Metadata, Object, ServiceKey};

use super::registered::{column, later_column};
use super::{Column, ImportRefusal, Part, Row};
use crate::dialect::config::messages::label_of;
use crate::json;
use crate::{descriptors, v1};

/// Value of `release_type` of a gray release.
const GRAY: &str = "gray";

/// Subquery for the id of a file's release in force, full or gray.
macro_rules! release_id {
    ($gray:literal) => {
        concat!(
            "(SELECT MAX(r.id) FROM config_file_release r WHERE r.namespace = f.namespace AND \
             r.`group` = f.`group` AND r.file_name = f.name AND r.flag = 0 AND r.active = 1 AND ",
            $gray,
            ")"
        )
    };
}

const FILE_TAGS: &str = "(SELECT JSON_OBJECTAGG(t.`key`, t.`Value`) FROM config_file_tag t WHERE \
                         t.namespace = f.namespace AND t.`group` = f.`group` AND t.file_name = f.name)";

const FILE_VERSION: &str = "(SELECT MAX(r.version) FROM config_file_release r WHERE r.namespace = \
                            f.namespace AND r.`group` = f.`group` AND r.file_name = f.name)";

/// Rules of a gray release, which Polaris keeps under a name made of the file's, and marks as deleted when
/// the release ends.
const GRAY_RULE: &str = "(SELECT g.match_rule FROM gray_resource g WHERE g.name = \
                         CONCAT('config@', r.namespace, '@', r.`group`, '@', r.file_name))";

pub(super) const GROUPS: Part = Part {
    name: "configuration groups",
    from: "config_file_group g",
    condition: "g.flag = 0",
    key: "g.id",
    columns: &[
        column("id", "g.id", "config_file_group", "id"),
        column("name", "g.name", "config_file_group", "name"),
        column("namespace", "g.namespace", "config_file_group", "namespace"),
        column("comment", "g.comment", "config_file_group", "comment"),
        column("owner", "g.owner", "config_file_group", "owner"),
        later_column("business", "g.business", "config_file_group", "business"),
        later_column("department", "g.department", "config_file_group", "department"),
        later_column("metadata", "g.metadata", "config_file_group", "metadata"),
        column("ctime", "UNIX_TIMESTAMP(g.create_time)", "config_file_group", "create_time"),
        column("create_by", "g.create_by", "config_file_group", "create_by"),
        column("mtime", "UNIX_TIMESTAMP(g.modify_time)", "config_file_group", "modify_time"),
        column("modify_by", "g.modify_by", "config_file_group", "modify_by"),
    ],
    details: None,
    read: group,
    is_optional: true,
};

pub(super) const FILES: Part = Part {
    name: "configuration files",
    from: "config_file f",
    condition: "f.flag = 0",
    key: "f.id",
    columns: &[
        column("id", "f.id", "config_file", "id"),
        column("namespace", "f.namespace", "config_file", "namespace"),
        column("group", "f.`group`", "config_file", "group"),
        column("file_name", "f.name", "config_file", "name"),
        column("content", "f.content", "config_file", "content"),
        column("format", "f.format", "config_file", "format"),
        column("comment", "f.comment", "config_file", "comment"),
        column("tags", FILE_TAGS, "config_file_tag", "key"),
        column("version", FILE_VERSION, "config_file_release", "version"),
        later_column(
            "active",
            release_id!("r.release_type <> 'gray'"),
            "config_file_release",
            "release_type",
        ),
        later_column(
            "gray",
            release_id!("r.release_type = 'gray'"),
            "config_file_release",
            "release_type",
        ),
        column("ctime", "UNIX_TIMESTAMP(f.create_time)", "config_file", "create_time"),
        column("create_by", "f.create_by", "config_file", "create_by"),
        column("mtime", "UNIX_TIMESTAMP(f.modify_time)", "config_file", "modify_time"),
        column("modify_by", "f.modify_by", "config_file", "modify_by"),
    ],
    details: None,
    read: file,
    is_optional: true,
};

/// Columns of a release; those of the history differ in a few.
const RELEASE_COLUMNS: &[Column] = &[
    column("id", "r.id", "config_file_release", "id"),
    column("name", "r.name", "config_file_release", "name"),
    column("namespace", "r.namespace", "config_file_release", "namespace"),
    column("group", "r.`group`", "config_file_release", "group"),
    column("file_name", "r.file_name", "config_file_release", "file_name"),
    later_column("format", "r.format", "config_file_release", "format"),
    column("content", "r.content", "config_file_release", "content"),
    column("comment", "r.comment", "config_file_release", "comment"),
    column("md5", "r.md5", "config_file_release", "md5"),
    column("version", "r.version", "config_file_release", "version"),
    later_column("tags", "r.tags", "config_file_release", "tags"),
    later_column("description", "r.description", "config_file_release", "description"),
    later_column("release_type", "r.release_type", "config_file_release", "release_type"),
    later_column("labels", GRAY_RULE, "gray_resource", "match_rule"),
    column("ctime", "UNIX_TIMESTAMP(r.create_time)", "config_file_release", "create_time"),
    column("create_by", "r.create_by", "config_file_release", "create_by"),
    column("mtime", "UNIX_TIMESTAMP(r.modify_time)", "config_file_release", "modify_time"),
    column("modify_by", "r.modify_by", "config_file_release", "modify_by"),
];

pub(super) const RELEASES: Part = Part {
    name: "releases of configuration files",
    from: "config_file_release r",
    condition: "r.flag = 0",
    key: "r.id",
    columns: RELEASE_COLUMNS,
    details: None,
    read: release,
    is_optional: true,
};

pub(super) const HISTORY: Part = Part {
    name: "history of configuration files",
    from: "config_file_release_history h",
    condition: "h.status = 'success'",
    key: "h.id",
    columns: &[
        column("id", "h.id", "config_file_release_history", "id"),
        column("name", "h.name", "config_file_release_history", "name"),
        column("namespace", "h.namespace", "config_file_release_history", "namespace"),
        column("group", "h.`group`", "config_file_release_history", "group"),
        column("file_name", "h.file_name", "config_file_release_history", "file_name"),
        column("content", "h.content", "config_file_release_history", "content"),
        column("format", "h.format", "config_file_release_history", "format"),
        column("comment", "h.comment", "config_file_release_history", "comment"),
        column("md5", "h.md5", "config_file_release_history", "md5"),
        column("type", "h.type", "config_file_release_history", "type"),
        later_column("tags", "h.tags", "config_file_release_history", "tags"),
        later_column("version", "h.version", "config_file_release_history", "version"),
        later_column("description", "h.description", "config_file_release_history", "description"),
        column(
            "mtime",
            "UNIX_TIMESTAMP(h.modify_time)",
            "config_file_release_history",
            "modify_time",
        ),
        column("modify_by", "h.modify_by", "config_file_release_history", "modify_by"),
    ],
    details: None,
    read: event,
    is_optional: true,
};

pub(super) const TEMPLATES: Part = Part {
    name: "templates of configuration files",
    from: "config_file_template t",
    condition: "1 = 1",
    key: "t.id",
    columns: &[
        column("id", "t.id", "config_file_template", "id"),
        column("name", "t.name", "config_file_template", "name"),
        column("content", "t.content", "config_file_template", "content"),
        column("format", "t.format", "config_file_template", "format"),
        column("comment", "t.comment", "config_file_template", "comment"),
        column("ctime", "UNIX_TIMESTAMP(t.create_time)", "config_file_template", "create_time"),
        column("create_by", "t.create_by", "config_file_template", "create_by"),
        column("mtime", "UNIX_TIMESTAMP(t.modify_time)", "config_file_template", "modify_time"),
        column("modify_by", "t.modify_by", "config_file_template", "modify_by"),
    ],
    details: None,
    read: template,
    is_optional: true,
};

fn config(object: ConfigObject) -> Object {
    Object::Config(Box::new(object))
}

fn key(row: &Row) -> ConfigFileKey {
    ConfigFileKey::new(row.text("namespace"), row.text("group"), row.text("file_name"))
}

fn dates(row: &Row) -> Result<Dates, ImportRefusal> {
    Ok(Dates {
        created_at: row.time("ctime")?,
        created_by: row.text("create_by").into(),
        modified_at: row.time("mtime")?,
        modified_by: row.text("modify_by").into(),
    })
}

fn group(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    Ok(config(ConfigObject::Group(ConfigGroup {
        id: row.small("id")?,
        key: ServiceKey::new(row.text("namespace"), row.text("name")),
        comment: row.text("comment").to_owned(),
        owner: row.text("owner").to_owned(),
        business: row.text("business").to_owned(),
        department: row.text("department").to_owned(),
        metadata: row.json("metadata")?,
        dates: dates(row)?,
        revision: row.revision(),
    })))
}

/// Returns the id of a release; 0 and NULL are `None`.
fn release_of(row: &Row, name: &'static str) -> Result<Option<u64>, ImportRefusal> {
    Ok(Some(row.small(name)?).filter(|id| *id != 0))
}

fn file(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    Ok(config(ConfigObject::File(ConfigFile {
        id: row.small("id")?,
        key: key(row),
        content: row.text("content").into(),
        format: row.text("format").into(),
        comment: row.text("comment").into(),
        tags: row.json("tags")?,
        dates: dates(row)?,
        version: row.small("version")?,
        active: release_of(row, "active")?,
        gray: release_of(row, "gray")?,
    })))
}

fn release(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    let is_gray = row.text("release_type") == GRAY;
    Ok(config(ConfigObject::Release(ConfigRelease {
        id: row.small("id")?,
        key: key(row),
        name: row.text("name").into(),
        content: row.text("content").into(),
        md5: row.text("md5").into(),
        version: row.small("version")?,
        format: row.text("format").into(),
        comment: row.text("comment").into(),
        tags: tags(row)?,
        description: row.text("description").into(),
        labels: if is_gray { labels(row)? } else { Vec::new() },
        dates: dates(row)?,
        revision: row.revision(),
        encoded: Default::default(),
    })))
}

/// Returns the tags of a release: an object, or in earlier versions a list of pairs.
fn tags(row: &Row) -> Result<Metadata, ImportRefusal> {
    #[derive(Deserialize, Default)]
    #[serde(untagged)]
    enum Tags {
        Pairs(Vec<Pair>),
        Object(Metadata),
        #[default]
        None,
    }
    #[derive(Deserialize)]
    struct Pair {
        #[serde(alias = "Key")]
        key: Box<str>,
        #[serde(alias = "Value")]
        value: Box<str>,
    }
    Ok(match row.json("tags")? {
        Tags::Object(tags) => tags,
        Tags::Pairs(pairs) => pairs.into_iter().map(|pair| (pair.key, pair.value)).collect(),
        Tags::None => Metadata::new(),
    })
}

/// Returns the labels of the clients of a gray release. Without any, all clients would get it.
fn labels(row: &Row) -> Result<Vec<ClientLabel>, ImportRefusal> {
    let unreadable = |reason: String| ImportRefusal::Unreadable { column: "match_rule", reason };
    let descriptor = descriptors().get_message_by_name("v1.ClientLabel").expect("in the schema");
    let items: Vec<Value> = row.json("labels")?;
    let label = |item: &Value| {
        let message = json::read_kept(&descriptor, item.to_string().as_bytes())
            .map_err(|error| unreadable(error.to_string()))?;
        let label = v1::ClientLabel::decode(&*message);
        label.map(|label| label_of(&label)).map_err(|error| unreadable(error.to_string()))
    };
    let labels = items.iter().map(label).collect::<Result<Vec<_>, _>>()?;
    if labels.is_empty() {
        return Err(unreadable("a gray release needs labels".to_owned()));
    }
    Ok(labels)
}

fn event(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    let kind = match row.text("type") {
        "gray" | "betaing" => ConfigEventKind::Gray,
        "cancel-gray" => ConfigEventKind::StopGray,
        "rollback" => ConfigEventKind::Rollback,
        "delete" => ConfigEventKind::DeleteRelease,
        "clean" => ConfigEventKind::DeleteFile,
        _ => ConfigEventKind::Release,
    };
    Ok(config(ConfigObject::Event(ConfigEvent {
        id: row.small("id")?,
        kind,
        key: key(row),
        name: row.text("name").into(),
        content: row.text("content").into(),
        md5: row.text("md5").into(),
        version: row.small("version")?,
        format: row.text("format").into(),
        comment: row.text("comment").into(),
        tags: tags(row)?,
        description: row.text("description").into(),
        at: row.time("mtime")?,
        by: row.text("modify_by").into(),
    })))
}

fn template(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    Ok(config(ConfigObject::Template(ConfigTemplate {
        id: row.small("id")?,
        name: row.text("name").into(),
        content: row.text("content").into(),
        format: row.text("format").into(),
        comment: row.text("comment").into(),
        dates: dates(row)?,
    })))
}
