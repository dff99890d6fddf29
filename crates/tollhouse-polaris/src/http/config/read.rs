//! Lists and single objects of the configuration centre.

use std::cmp::Reverse;
use std::sync::Arc;

use prost::Message;
use tollhouse_registry::State;
use tollhouse_registry::config::{
    ConfigEvent, ConfigFile, ConfigFileView, ConfigGroupView, ConfigRelease,
};

use super::{BATCH_QUERY, RESPONSE};
use crate::code::Code;
use crate::dialect::config::messages::{self, Content, is_encrypted};
use crate::dialect::config::sealing::AES;
use crate::http::failure::Failure;
use crate::http::query::{Query, allows};
use crate::v1;

/// A call that reads objects.
pub(super) struct ConfigList {
    /// Message type of the answer.
    pub(super) message: &'static str,
    /// Name of the call, as policies name it.
    pub(super) function: &'static str,
    /// Names of the query parameters that the call supports.
    pub(super) keys: &'static [&'static str],
    /// Function that returns the fields of the answer other than code and text.
    pub(super) find: fn(&State, &Query) -> Result<Vec<u8>, Failure>,
}

/// Parameters that order a list.
const ORDER_FIELD: &str = "order_field";
const ORDER_TYPE: &str = "order_type";

pub(super) const GROUPS: ConfigList = ConfigList {
    message: BATCH_QUERY,
    function: "DescribeConfigFileGroups",
    keys: &[
        "namespace",
        "group",
        "name",
        "fileName",
        "business",
        "department",
        ORDER_FIELD,
        ORDER_TYPE,
    ],
    find: groups,
};

pub(super) const FILES: ConfigList = ConfigList {
    message: BATCH_QUERY,
    function: "DescribeConfigFiles",
    keys: &["namespace", "group", "name", "tags", "content", ORDER_FIELD, ORDER_TYPE],
    find: files,
};

pub(super) const FILE: ConfigList = ConfigList {
    message: RESPONSE,
    function: "DescribeConfigFileRichInfo",
    keys: &["namespace", "group", "name"],
    find: file,
};

pub(super) const RELEASE: ConfigList = ConfigList {
    message: RESPONSE,
    function: "DescribeConfigFileRelease",
    keys: &["namespace", "group", "file_name", "name", "release_name"],
    find: release,
};

pub(super) const RELEASES: ConfigList = ConfigList {
    message: BATCH_QUERY,
    function: "DescribeConfigFileReleases",
    keys: &[
        "namespace",
        "group",
        "file_name",
        "fileName",
        "name",
        "release_name",
        "only_active",
        ORDER_FIELD,
        ORDER_TYPE,
    ],
    find: releases,
};

pub(super) const VERSIONS: ConfigList = ConfigList {
    message: BATCH_QUERY,
    function: "DescribeConfigFileReleaseVersions",
    keys: &["namespace", "group", "file_name", "fileName"],
    find: versions,
};

pub(super) const HISTORY: ConfigList = ConfigList {
    message: BATCH_QUERY,
    function: "DescribeConfigFileReleaseHistories",
    keys: &["namespace", "group", "name", "endId", "end_id", ORDER_FIELD, ORDER_TYPE],
    find: history,
};

pub(super) const TEMPLATES: ConfigList = ConfigList {
    message: BATCH_QUERY,
    function: "DescribeAllConfigFileTemplates",
    keys: &[],
    find: templates,
};

pub(super) const ALGORITHMS: ConfigList = ConfigList {
    message: "v1.ConfigEncryptAlgorithmResponse",
    function: "DescribeConfigFiles",
    keys: &[],
    find: |_, _| {
        let algorithms = vec![AES.to_owned()];
        let response = v1::ConfigEncryptAlgorithmResponse { algorithms, ..Default::default() };
        Ok(response.encode_to_vec())
    },
};

fn groups(state: &State, query: &Query) -> Result<Vec<u8>, Failure> {
    let name = query.get("group").or_else(|| query.get("name"));
    let has_file = |view: &ConfigGroupView| {
        let pattern = query.get("fileName");
        let mut files = view.files().filter_map(|file| file.file.as_ref());
        pattern.is_none() || files.any(|file| allows(pattern, &file.key.name))
    };
    let groups = state.config_groups().filter(|view| {
        let group = &view.group;
        query.get("namespace").is_none_or(|namespace| namespace == &*group.key.namespace)
            && allows(name, &group.key.name)
            && allows(query.get("business"), &group.business)
            && allows(query.get("department"), &group.department)
            && has_file(view)
            && query.viewer.sees_group(state, &group.key.namespace, &group.key.name)
    });
    let mut groups: Vec<_> = groups.collect();
    order(query, &mut groups, |view| OrderKey {
        name: Arc::clone(&view.group.key.name),
        modified_at: view.group.dates.modified_at,
        id: view.group.id,
    });
    let page = query.page()?.slice(&groups);
    let response = v1::ConfigBatchQueryResponse {
        total: Some(groups.len() as u32),
        config_file_groups: page
            .iter()
            .map(|view| {
                let key = &view.group.key;
                let permits = query.viewer.group_permits(state, &key.namespace, &key.name);
                messages::group(&view.group, view.file_count, permits)
            })
            .collect(),
        ..v1::ConfigBatchQueryResponse::default()
    };
    Ok(response.encode_to_vec())
}

fn files(state: &State, query: &Query) -> Result<Vec<u8>, Failure> {
    let tags = tag_pairs(query.get("tags"));
    let content = query.get("content").map(str::to_lowercase);
    let in_groups = matching_files(state, query, "group");
    let files = in_groups.filter_map(|view| Some((view, view.file.as_ref()?)));
    let files = files.filter(|(_, file)| {
        let has = |(key, value): &(&str, &str)| {
            file.tags.get(*key).is_some_and(|known| &**known == *value)
        };
        allows(query.get("name"), &file.key.name)
            && (tags.is_empty() || tags.iter().any(has))
            && content.as_ref().is_none_or(|text| has_text(file, text))
    });
    let mut files: Vec<_> = files.collect();
    order(query, &mut files, |(_, file)| OrderKey {
        name: Arc::clone(&file.key.name),
        modified_at: file.dates.modified_at,
        id: file.id,
    });
    let page = query.page()?.slice(&files);
    let response = v1::ConfigBatchQueryResponse {
        total: Some(files.len() as u32),
        config_files: page.iter().map(|(view, file)| messages::file(view, file)).collect(),
        ..v1::ConfigBatchQueryResponse::default()
    };
    Ok(response.encode_to_vec())
}

fn file(state: &State, query: &Query) -> Result<Vec<u8>, Failure> {
    let namespace = query.required("namespace", Code::InvalidNamespaceName)?;
    let group = query.required("group", Code::InvalidConfigFileGroupName)?;
    let name = query.required("name", Code::InvalidConfigFileName)?;
    check_group(state, query, namespace, group)?;
    let view = state.config_file(namespace, group, name).ok_or(Code::NotFoundResource)?;
    let file = view.file.as_ref().ok_or(Code::NotFoundResource)?;
    let response = v1::ConfigResponse {
        config_file: Some(messages::file(view, file)),
        ..v1::ConfigResponse::default()
    };
    Ok(response.encode_to_vec())
}

fn release(state: &State, query: &Query) -> Result<Vec<u8>, Failure> {
    let required = |key: &str, what: &'static str| {
        query.get(key).ok_or_else(|| Failure::with(Code::BadRequest, what))
    };
    let namespace = required("namespace", "invalid namespace")?;
    let group = required("group", "invalid config group")?;
    let name = query.get("file_name").or_else(|| query.get("name"));
    let name = name.ok_or_else(|| Failure::with(Code::BadRequest, "invalid config file name"))?;
    check_group(state, query, namespace, group)?;
    let view = state.config_file(namespace, group, name);
    let release = view.and_then(|view| {
        let release = match query.get("release_name") {
            Some(name) => view.release(name),
            None => view.active.as_ref(),
        };
        Some(messages::release(view, release?, Content::Included))
    });
    let response =
        v1::ConfigResponse { config_file_release: release, ..v1::ConfigResponse::default() };
    Ok(response.encode_to_vec())
}

fn releases(state: &State, query: &Query) -> Result<Vec<u8>, Failure> {
    let only_active = query.flag("only_active")?.unwrap_or(false);
    let name = query.get("release_name").or_else(|| query.get("name"));
    let mut found = all_releases(state, query);
    found.retain(|(view, release)| {
        let is_in_force = || {
            let in_force = [&view.active, &view.gray].into_iter().flatten();
            in_force.map(|it| it.id).any(|id| id == release.id)
        };
        allows(name, &release.name) && (!only_active || is_in_force())
    });
    order(query, &mut found, |(_, release)| OrderKey {
        name: release.name.clone().into(),
        modified_at: release.dates.modified_at,
        id: release.version,
    });
    let page = query.page()?.slice(&found);
    Ok(release_page(found.len(), page))
}

fn versions(state: &State, query: &Query) -> Result<Vec<u8>, Failure> {
    let required = |value: Option<&str>, what: &'static str| match value {
        Some(_) => Ok(()),
        None => Err(Failure::with(Code::BadRequest, what)),
    };
    required(query.get("namespace"), "invalid namespace")?;
    required(query.get("group"), "invalid config group")?;
    required(file_name(query), "invalid config file name")?;
    let mut found = all_releases(state, query);
    found.sort_by_key(|(_, release)| Reverse(release.version));
    Ok(release_page(found.len(), &found))
}

fn release_page(total: usize, page: &[(&Arc<ConfigFileView>, &Arc<ConfigRelease>)]) -> Vec<u8> {
    let releases = page.iter().map(|(view, it)| messages::release(view, it, Content::LeftOut));
    let response = v1::ConfigBatchQueryResponse {
        total: Some(total as u32),
        config_file_releases: releases.collect(),
        ..v1::ConfigBatchQueryResponse::default()
    };
    response.encode_to_vec()
}

fn history(state: &State, query: &Query) -> Result<Vec<u8>, Failure> {
    let end = query.get("endId").or_else(|| query.get("end_id"));
    let end: Option<u64> = end
        .map(str::parse)
        .transpose()
        .map_err(|_| Failure::with(Code::InvalidParameter, "endId"))?;
    let end = end.filter(|end| *end > 0).unwrap_or(u64::MAX);
    let views = matching_files(state, query, "group");
    let events = views.flat_map(|view| &view.history);
    let events =
        events.filter(|event| event.id < end && allows(query.get("name"), &event.key.name));
    let mut events: Vec<&Arc<ConfigEvent>> = events.collect();
    events.sort_by_key(|event| Reverse(event.id));
    let page = query.page()?.slice(&events);
    let response = v1::ConfigBatchQueryResponse {
        total: Some(events.len() as u32),
        config_file_release_histories: page.iter().map(|it| messages::history(it)).collect(),
        ..v1::ConfigBatchQueryResponse::default()
    };
    Ok(response.encode_to_vec())
}

fn templates(state: &State, _: &Query) -> Result<Vec<u8>, Failure> {
    let mut templates: Vec<_> = state.config_templates().collect();
    templates.sort_by(|first, second| first.name.cmp(&second.name));
    let response = v1::ConfigBatchQueryResponse {
        total: Some(templates.len() as u32),
        config_file_templates: templates.into_iter().map(|it| messages::template(it)).collect(),
        ..v1::ConfigBatchQueryResponse::default()
    };
    Ok(response.encode_to_vec())
}

/// Refuses a reader who may not see a group.
fn check_group(state: &State, query: &Query, namespace: &str, group: &str) -> Result<(), Failure> {
    match query.viewer.sees_group(state, namespace, group) {
        true => Ok(()),
        false => Err(Code::NotAllowedAccess.into()),
    }
}

fn file_name(query: &Query) -> Option<&str> {
    query.get("file_name").or_else(|| query.get("fileName"))
}

fn all_releases<'a>(
    state: &'a State,
    query: &Query,
) -> Vec<(&'a Arc<ConfigFileView>, &'a Arc<ConfigRelease>)> {
    let views = matching_files(state, query, "group");
    let releases = views.flat_map(|view| view.releases.iter().map(move |it| (view, it)));
    releases.filter(|(_, release)| allows(file_name(query), &release.key.name)).collect()
}

/// Iterates over the files of the groups that a query names.
fn matching_files<'a>(
    state: &'a State,
    query: &Query,
    group_key: &str,
) -> impl Iterator<Item = &'a Arc<ConfigFileView>> {
    let namespace = query.get("namespace").map(str::to_owned);
    let pattern = query.get(group_key).map(str::to_owned);
    let viewer = query.viewer.clone();
    let groups = state.config_groups().filter(move |view| {
        let key = &view.group.key;
        namespace.as_deref().is_none_or(|namespace| namespace == &*key.namespace)
            && allows(pattern.as_deref(), &key.name)
            && viewer.sees_group(state, &key.namespace, &key.name)
    });
    groups.flat_map(|view| view.files())
}

/// Whether a file contains a text in lower case, whatever the case there. Encrypted files are not
/// searched.
fn has_text(file: &ConfigFile, text: &str) -> bool {
    !is_encrypted(&file.tags) && file.content.to_lowercase().contains(text)
}

/// Returns the pairs of a list `key1,value1,key2,value2`.
fn tag_pairs(text: Option<&str>) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.unwrap_or_default().split(',').collect();
    parts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Values that a list may be ordered by.
struct OrderKey {
    name: Arc<str>,
    modified_at: u64,
    id: u64,
}

/// Orders a list by name or time of change, newest first by default.
fn order<T>(query: &Query, found: &mut [T], key: impl Fn(&T) -> OrderKey) {
    match query.get(ORDER_FIELD) {
        Some("name") => found.sort_by_cached_key(|it| key(it).name),
        Some("mtime" | "modify_time" | "ctime" | "create_time") => {
            found.sort_by_cached_key(|it| (key(it).modified_at, key(it).id));
        }
        _ => found.sort_by_cached_key(|it| key(it).id),
    }
    if !query.get(ORDER_TYPE).is_some_and(|order| order.eq_ignore_ascii_case("asc")) {
        found.reverse();
    }
}
