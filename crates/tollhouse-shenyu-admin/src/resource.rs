//! Tables as resources of the REST interface: conversion of bodies to rows and of rows to answers.

use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;
use tollhouse_shenyu_gateway::check_handle;

use crate::answer::Refusal;
use crate::clock;
use crate::conditions;
use crate::covered;
use crate::draft::Draft;
use crate::local_discovery;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::{Name, Tables, namespace};

pub(crate) struct Resource {
    /// First path segment of the resource.
    pub(crate) path: &'static str,
    pub(crate) table: Table,
    /// Members that a body must have when a row is created.
    pub(crate) required: &'static [&'static str],
    /// Query arguments that filter a list by the row member with the argument's name.
    pub(crate) filters: &'static [&'static str],
    /// Messages in answers about this resource.
    pub(crate) words: Words,
    pub(crate) report: Report,
    /// Members that answers contain as `null` even if rows lack them, because the console reads
    /// them without checking.
    members: &'static [&'static str],
    /// Copies the known members of a body into a row, which holds the previous row or is empty.
    read: fn(&Draft<'_>, &Row, &mut Row) -> Result<(), Refusal>,
    /// Adds the members that only answers have.
    view: fn(&Tables, &mut Row),
}

pub(crate) struct Words {
    pub(crate) created: &'static str,
    pub(crate) updated: &'static str,
    pub(crate) deleted: &'static str,
    pub(crate) missing: &'static str,
}

impl Words {
    /// Returns the messages of most resources.
    const fn usual(missing: &'static str) -> Self {
        let (created, updated, deleted) = ("create success", "update success", "delete success");
        Self { created, updated, deleted, missing }
    }

    /// Returns messages that are `success` for every successful call.
    const fn plain(missing: &'static str) -> Self {
        Self { created: "success", updated: "success", deleted: "success", missing }
    }
}

/// Data in the answer to a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// Number of changed rows.
    Count,
    /// Id of a new row, which scripts since 2.6.1 read; otherwise the number of rows.
    NewId,
    Nothing,
    Row,
}

impl Report {
    /// Returns the data of an answer; `id` is that of a new row, `view` renders the row.
    pub(crate) fn data(self, id: Option<&str>, view: impl FnOnce() -> Value) -> Value {
        match (self, id) {
            (Self::NewId, Some(id)) => id.into(),
            (Self::Count | Self::NewId, _) => 1.into(),
            (Self::Nothing, _) => Value::Null,
            (Self::Row, _) => view(),
        }
    }
}

const PLUGIN_MEMBERS: &[&str] = &["role", "config", "sort", "enabled"];

/// Resources that share the generic calls.
pub(crate) const RESOURCES: &[Resource] = &[
    Resource {
        path: "selector",
        table: Table::Selector,
        required: &["name", "pluginId"],
        filters: &["pluginId", "name", "namespaceId"],
        words: Words::usual("selector is not existed"),
        report: Report::NewId,
        members: &["handle", "sort"],
        read: read_selector,
        view: view_selector,
    },
    Resource {
        path: "rule",
        table: Table::Rule,
        required: &["name", "selectorId"],
        filters: &["selectorId", "name", "namespaceId"],
        words: Words::usual("rule is not existed"),
        report: Report::Count,
        members: &["handle", "sort"],
        read: read_rule,
        view: view_rule,
    },
    Resource {
        path: "plugin",
        table: Table::Plugin,
        required: &["name", "role"],
        filters: &["name", "enabled", "namespaceId"],
        words: Words::usual("plugin is not existed"),
        report: Report::Nothing,
        members: PLUGIN_MEMBERS,
        read: read_plugin,
        view: view_plugin,
    },
    Resource {
        path: "plugin-template",
        table: Table::Plugin,
        required: &["name", "role"],
        // Templates are the plugins of the default namespace.
        filters: &["name", "enabled", "namespaceId"],
        words: Words::usual("plugin is not existed"),
        report: Report::Nothing,
        members: PLUGIN_MEMBERS,
        read: read_plugin,
        view: view_plugin,
    },
    Resource {
        path: "namespace-plugin",
        table: Table::Plugin,
        required: &["name"],
        filters: &["name", "enabled", "namespaceId"],
        words: Words::usual("namespace plugin relation is not exist"),
        report: Report::Nothing,
        members: PLUGIN_MEMBERS,
        read: read_plugin,
        view: view_namespace_plugin,
    },
    Resource {
        path: "plugin-handle",
        table: Table::PluginHandle,
        required: &["pluginId", "field", "label"],
        filters: &["pluginId", "field"],
        words: Words::usual("plugin handle is not existed"),
        report: Report::Count,
        members: &["defaultValue", "extObj", "sort"],
        read: read_plain,
        view: view_plugin_handle,
    },
    Resource {
        path: "meta-data",
        table: Table::Metadata,
        required: &["appName", "path", "rpcType", "serviceName", "methodName"],
        filters: &["path", "namespaceId"],
        words: Words::usual("meta data is not existed"),
        report: Report::Nothing,
        members: &["contextPath", "pathDesc", "parameterTypes", "rpcExt", "ruleName"],
        read: read_metadata,
        view: view_plain,
    },
    Resource {
        path: "appAuth",
        table: Table::AppAuth,
        required: &["appKey", "appSecret"],
        filters: &["appKey", "phone", "namespaceId"],
        words: Words { updated: "", ..Words::usual("app key not existed") },
        report: Report::Nothing,
        members: &["userId", "phone", "extInfo"],
        read: read_app_auth,
        view: view_app_auth,
    },
    Resource {
        path: "shenyu-dict",
        table: Table::Dict,
        required: &["type", "dictCode", "dictName"],
        filters: &["type", "dictCode", "dictName"],
        words: Words::usual("dict is not existed"),
        report: Report::Count,
        members: &["dictValue", "desc", "sort"],
        read: read_plain,
        view: view_plain,
    },
    Resource {
        path: "role",
        table: Table::Role,
        required: &["roleName"],
        filters: &["roleName"],
        words: Words::usual("role is not existed"),
        report: Report::Count,
        members: &["description"],
        read: read_role,
        view: view_plain,
    },
    Resource {
        path: "dashboardUser",
        table: Table::User,
        required: &["userName"],
        filters: &["userName"],
        words: Words::usual("user is not found"),
        report: Report::Count,
        members: &["role", "roles"],
        read: read_user,
        view: view_user,
    },
    Resource {
        path: "proxy-selector",
        table: Table::ProxySelector,
        required: &["name", "forwardPort"],
        filters: &["name", "namespaceId"],
        words: Words::usual("proxy selector not existed"),
        report: Report::Nothing,
        members: &[],
        read: read_proxy_selector,
        view: view_proxy_selector,
    },
    Resource {
        path: "discovery",
        table: Table::Discovery,
        required: &["name", "pluginName"],
        filters: &["pluginName", "level", "namespaceId"],
        words: Words { deleted: "delete success", ..Words::plain("discovery is not existed") },
        report: Report::Row,
        members: &["level", "serverList", "props"],
        read: read_discovery,
        view: view_plain,
    },
    Resource {
        path: "namespace",
        table: Table::Namespace,
        required: &["name"],
        filters: &["name", "namespaceId"],
        words: Words::plain("namespace is not existed"),
        report: Report::Row,
        members: &["description"],
        read: read_namespace,
        view: view_plain,
    },
];

/// Names of filters that match any part of a member. For all other filters, the member must be
/// equal.
const SUBSTRINGS: &[&str] =
    &["name", "path", "appKey", "phone", "dictCode", "dictName", "userName", "roleName", "field"];

/// Filters that name the owner of the listed rows.
const OWNERS: [&str; 2] = ["pluginId", "selectorId"];

impl Resource {
    /// Finds a resource by its first path segment.
    pub(crate) fn find(path: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|resource| resource.path == path)
    }

    /// Builds the row of a body; `before` is the row that it replaces.
    ///
    /// # Errors
    ///
    /// If a required member is missing, a member is invalid, or the name is taken.
    pub(crate) fn make_row(
        &self,
        draft: &Draft<'_>,
        id: &str,
        body: &Row,
        before: Option<&Row>,
    ) -> Result<Row, Refusal> {
        if before.is_none() {
            let is_missing = |member: &&str| row::filled(body, member).is_none();
            let missing: Vec<&str> = self.required.iter().copied().filter(is_missing).collect();
            if !missing.is_empty() {
                return Err(Refusal::missing(&missing));
            }
        }
        let mut made = before.cloned().unwrap_or_default();
        let uncovered = match before {
            Some(before) => covered::restore(body, before)?,
            None => None,
        };
        (self.read)(draft, uncovered.as_ref().unwrap_or(body), &mut made)?;
        made.insert("id".to_owned(), id.into());
        if made.get("namespaceId").is_none_or(Value::is_null) {
            made.insert("namespaceId".to_owned(), namespace(body).into());
        }
        made.entry("dateCreated").or_insert_with(|| draft.now.clone().into());
        made.insert("dateUpdated".to_owned(), draft.now.clone().into());
        self.check_duplicate(draft, id, &made)?;
        Ok(made)
    }

    fn check_duplicate(&self, draft: &Draft<'_>, id: &str, made: &Row) -> Result<(), Refusal> {
        if !matches!(
            self.table,
            Table::Plugin
                | Table::User
                | Table::Namespace
                | Table::Role
                | Table::ProxySelector
                | Table::Metadata
                | Table::PluginHandle
                | Table::Dict
        ) {
            return Ok(());
        }
        let Some(name) = Name::from_row(self.table, made) else { return Ok(()) };
        match draft.find(&name) {
            Some((other, _)) if other != id && self.table == Table::Metadata => {
                Err(Refusal::error("The path already exists and can't be added repeatedly!"))
            }
            Some((other, _)) if other != id => Err(Refusal::conflict(&name.name)),
            _ => Ok(()),
        }
    }

    /// Returns a row as answers show it.
    pub(crate) fn view_row(&self, tables: &Tables, row: &Row) -> Value {
        let mut view = row.clone();
        for member in self.members {
            view.entry(*member).or_insert(Value::Null);
        }
        (self.view)(tables, &mut view);
        Value::Object(view)
    }

    /// Whether a row matches the arguments of a list.
    pub(crate) fn is_meant(&self, row: &Row, argument: &dyn Fn(&str) -> Option<String>) -> bool {
        self.filters.iter().all(|filter| {
            let wanted = match argument(filter) {
                Some(wanted) => wanted,
                // The default namespace applies, unless the list is filtered by plugin or selector,
                // whose namespace its rows share.
                None if *filter == "namespaceId"
                    && self.table != Table::Namespace
                    && !OWNERS.iter().any(|owner| argument(owner).is_some()) =>
                {
                    DEFAULT_NAMESPACE.to_owned()
                }
                None => return true,
            };
            match *filter {
                "namespaceId" => namespace(row) == wanted,
                // Consoles write this argument as a number, scripts as a word.
                "enabled" => row::flag(row, filter) == row::flag_of(&wanted),
                filter if SUBSTRINGS.contains(&filter) => {
                    row::text(row, filter).is_some_and(|text| text.contains(&wanted))
                }
                filter => row::text(row, filter).is_some_and(|text| text == wanted),
            }
        })
    }
}

/// Copies the listed members that the body contains.
fn take(body: &Row, made: &mut Row, members: &[&str]) {
    for member in members {
        if let Some(value) = body.get(*member).filter(|value| !value.is_null()) {
            made.insert((*member).to_owned(), value.clone());
        }
    }
}

/// Boolean member of rows.
#[derive(Clone, Copy)]
struct Flag<'a> {
    name: &'a str,
    /// Name of the member in bodies.
    body_name: &'a str,
    /// Value if neither body nor row has the member.
    default: bool,
}

impl<'a> Flag<'a> {
    const fn on(name: &'a str) -> Self {
        Self { name, body_name: name, default: true }
    }

    const fn off(name: &'a str) -> Self {
        Self { name, body_name: name, default: false }
    }

    /// Copies the member, or sets its default.
    fn take(self, body: &Row, made: &mut Row) {
        match row::flag(body, self.body_name) {
            Some(flag) => drop(made.insert(self.name.to_owned(), flag.into())),
            None => drop(made.entry(self.name).or_insert(self.default.into())),
        }
    }
}

/// Copies a number; sets `default` if neither body nor row has it.
fn take_number(body: &Row, made: &mut Row, member: &str, default: i64) {
    match row::number(body, member) {
        Some(number) => drop(made.insert(member.to_owned(), number.into())),
        None => drop(made.entry(member).or_insert(default.into())),
    }
}

fn read_plain(_: &Draft<'_>, body: &Row, made: &mut Row) -> Result<(), Refusal> {
    for (name, value) in body {
        if !matches!(name.as_str(), "dateCreated" | "dateUpdated" | "password" | "dictOptions") {
            made.insert(name.clone(), value.clone());
        }
    }
    if body.contains_key("enabled") {
        Flag::on("enabled").take(body, made);
    }
    Ok(())
}

fn view_plain(_: &Tables, _: &mut Row) {}

fn read_matching(body: &Row, made: &mut Row) -> Result<(), Refusal> {
    take(body, made, &["name", "namespaceId"]);
    for (member, default) in [("matchMode", 0), ("sort", 1)] {
        take_number(body, made, member, default);
    }
    Flag::on("enabled").take(body, made);
    Flag::off("matchRestful").take(body, made);
    if let Some(handle) = conditions::json_text(body, "handle")? {
        made.insert("handle".to_owned(), handle.into());
    }
    Ok(())
}

fn read_logged(body: &Row, made: &mut Row, name: &str) {
    let body_name = if body.contains_key("loged") { "loged" } else { "logged" };
    Flag { body_name, ..Flag::off(name) }.take(body, made);
}

fn read_selector(draft: &Draft<'_>, body: &Row, made: &mut Row) -> Result<(), Refusal> {
    read_matching(body, made)?;
    take_number(body, made, "type", 1);
    Flag::on("continued").take(body, made);
    read_logged(body, made, "logged");
    if let Some(id) = row::filled(body, "pluginId") {
        let plugin = draft.get(Table::Plugin, &id);
        let plugin =
            plugin.ok_or_else(|| Refusal::invalid("pluginId", "there is no such plugin"))?;
        made.insert("pluginId".to_owned(), id.into());
        made.insert("pluginName".to_owned(), row::text(&plugin, "name").unwrap_or_default().into());
    }
    if body.contains_key("selectorConditions") || !made.contains_key("conditionList") {
        made.insert("conditionList".to_owned(), conditions::read(body, "selectorConditions")?);
    }
    Ok(())
}

fn view_selector(tables: &Tables, view: &mut Row) {
    let id = row::text(view, "id").unwrap_or_default();
    let conditions = view.remove("conditionList");
    view.insert(
        "selectorConditions".to_owned(),
        conditions::view(conditions.as_ref(), "selectorId", &id),
    );
    let logged = view.remove("logged").unwrap_or(Value::Bool(false));
    view.insert("loged".to_owned(), logged);
    view_match_mode(view);
    let full = row::number(view, "type") == Some(0);
    let name = if full { "full" } else { "custom" };
    view.insert("typeName".to_owned(), name.into());
    let discovered = tables.get(Table::DiscoveryUpstream, &id);
    let upstreams = discovered.and_then(|stored| stored.row.get("upstreamDataList")).cloned();
    let handler = upstreams
        .is_some()
        .then(|| json!({"id": id, "handler": "{}", "listenerNode": "", "props": "{}"}));
    view.insert("discoveryHandler".to_owned(), handler.into());
    let source = upstreams.is_some().then(|| {
        json!({"id": id, "discoveryName": "", "discoveryType": local_discovery::LOCAL, "level": "2",
            "serverList": "", "pluginName": view.get("pluginName"), "props": "{}",
            "namespaceId": view.get("namespaceId"), "discoveryHandler": null, "discoveryRel": null})
    });
    view.insert("discoveryVO".to_owned(), source.into());
    view.insert("discoveryUpstreams".to_owned(), upstreams.unwrap_or_else(|| json!([])));
}

fn view_match_mode(view: &mut Row) {
    let name = if row::number(view, "matchMode") == Some(1) { "or" } else { "and" };
    view.insert("matchModeName".to_owned(), name.into());
}

fn read_rule(draft: &Draft<'_>, body: &Row, made: &mut Row) -> Result<(), Refusal> {
    read_matching(body, made)?;
    read_logged(body, made, "loged");
    if let Some(id) = row::filled(body, "selectorId") {
        let selector = draft.get(Table::Selector, &id);
        let selector =
            selector.ok_or_else(|| Refusal::invalid("selectorId", "there is no such selector"))?;
        made.insert("selectorId".to_owned(), id.into());
        made.insert(
            "pluginName".to_owned(),
            row::text(&selector, "pluginName").unwrap_or_default().into(),
        );
        made.insert("namespaceId".to_owned(), namespace(&selector).into());
    }
    // The gateway would ignore an invalid handle although the call succeeded, so it is refused
    // here.
    let (plugin, handle) = (row::text(made, "pluginName"), row::text(made, "handle"));
    check_handle(&plugin.unwrap_or_default(), &handle.unwrap_or_default())
        .map_err(|reason| Refusal::invalid("handle", &reason))?;
    if body.contains_key("ruleConditions") || !made.contains_key("conditionDataList") {
        made.insert("conditionDataList".to_owned(), conditions::read(body, "ruleConditions")?);
    }
    Ok(())
}

fn view_rule(_: &Tables, view: &mut Row) {
    let id = row::text(view, "id").unwrap_or_default();
    let conditions = view.remove("conditionDataList");
    view.insert("ruleConditions".to_owned(), conditions::view(conditions.as_ref(), "ruleId", &id));
    view_match_mode(view);
}

fn read_plugin(_: &Draft<'_>, body: &Row, made: &mut Row) -> Result<(), Refusal> {
    if row::filled(body, "file").is_some() {
        return Err(Refusal::invalid(
            "file",
            "archives of Java classes cannot be run here; leave it out",
        ));
    }
    take(body, made, &["name", "role", "namespaceId", "pluginId"]);
    if let Some(sort) = row::number(body, "sort") {
        made.insert("sort".to_owned(), sort.into());
    }
    Flag::on("enabled").take(body, made);
    if let Some(config) = conditions::json_text(body, "config")? {
        made.insert("config".to_owned(), config.into());
    }
    Ok(())
}

fn view_plugin(_: &Tables, view: &mut Row) {
    view.entry("pluginId").or_insert_with(|| Value::Null);
    if view.get("pluginId").is_some_and(Value::is_null) {
        let id = view.get("id").cloned().unwrap_or_default();
        view.insert("pluginId".to_owned(), id);
    }
    view.entry("file").or_insert(Value::Null);
}

/// Adds the members of a plugin in a namespace: the id that ShenYu's console uses for it, and the
/// fields of its settings form.
fn view_namespace_plugin(tables: &Tables, view: &mut Row) {
    view_plugin(tables, view);
    let id = view.get("id").cloned().unwrap_or_default();
    view.insert("pluginRelId".to_owned(), id);
    let plugin = row::text(view, "pluginId").unwrap_or_default();
    let fields = tables.rows(Table::PluginHandle).map(|(_, row)| row);
    let is_setting = |row: &&Arc<Row>| {
        row::text(row, "pluginId").as_deref() == Some(&*plugin)
            && row::number(row, "type") == Some(3)
    };
    let fields: Vec<Value> = fields
        .filter(is_setting)
        .map(|row| {
            let mut field = (**row).clone();
            view_plugin_handle(tables, &mut field);
            Value::Object(field)
        })
        .collect();
    view.insert("pluginHandleList".to_owned(), fields.into());
}

/// Adds the options of a field that is chosen from a list.
fn view_plugin_handle(tables: &Tables, view: &mut Row) {
    /// Value of `dataType` of fields whose value is one of several options.
    const CHOICE: i64 = 3;
    let options = (row::number(view, "dataType") == Some(CHOICE)).then(|| {
        let kind = row::text(view, "field").unwrap_or_default();
        let mut rows: Vec<&Arc<Row>> = tables
            .rows(Table::Dict)
            .map(|(_, row)| row)
            .filter(|row| row::text(row, "type").as_deref() == Some(&*kind))
            .collect();
        rows.sort_by_key(|row| row::number(row, "sort").unwrap_or(i64::MAX));
        rows.into_iter().map(|row| Value::Object((**row).clone())).collect::<Vec<Value>>()
    });
    view.insert("dictOptions".to_owned(), options.into());
}

fn read_metadata(_: &Draft<'_>, body: &Row, made: &mut Row) -> Result<(), Refusal> {
    let members = [
        "appName",
        "contextPath",
        "path",
        "pathDesc",
        "rpcType",
        "serviceName",
        "methodName",
        "parameterTypes",
        "ruleName",
        "namespaceId",
    ];
    take(body, made, &members);
    if let Some(extension) = row::document(body, "rpcExt") {
        made.insert("rpcExt".to_owned(), extension.into());
    }
    Flag::on("enabled").take(body, made);
    Ok(())
}

fn read_app_auth(_: &Draft<'_>, body: &Row, made: &mut Row) -> Result<(), Refusal> {
    take(body, made, &["appKey", "appSecret", "userId", "phone", "extInfo", "namespaceId"]);
    for member in ["enabled", "open"] {
        Flag::on(member).take(body, made);
    }
    for (from, to) in [("authParamList", "paramDataList"), ("authPathList", "pathDataList")] {
        if let Some(list) = body.get(from).filter(|list| list.is_array()) {
            made.insert(to.to_owned(), list.clone());
        }
    }
    Ok(())
}

fn view_app_auth(_: &Tables, view: &mut Row) {
    for (from, to) in [("paramDataList", "authParamList"), ("pathDataList", "authPathList")] {
        let list = view.remove(from).unwrap_or_else(|| json!([]));
        view.insert(to.to_owned(), list);
    }
}

fn read_user(_: &Draft<'_>, body: &Row, made: &mut Row) -> Result<(), Refusal> {
    take(body, made, &["userName", "role", "roles"]);
    Flag::on("enabled").take(body, made);
    // The caller hashes the password beforehand, because hashing would block the writer task.
    if let Some(password) = row::filled(body, "keptPassword") {
        made.insert("password".to_owned(), password.into());
    }
    if !made.contains_key("password") {
        return Err(Refusal::invalid("password", "must not be null"));
    }
    Ok(())
}

fn view_user(_: &Tables, view: &mut Row) {
    view.remove("password");
}

fn read_role(_: &Draft<'_>, body: &Row, made: &mut Row) -> Result<(), Refusal> {
    let is_super = |row: &Row| row::text(row, "roleName").as_deref() == Some("super");
    if is_super(body) && !is_super(made) {
        return Err(Refusal::error("can not create super role"));
    }
    take(body, made, &["roleName", "description"]);
    if let Some(permissions) = body.get("currentPermissionIds").filter(|it| it.is_array()) {
        made.insert("currentPermissionIds".to_owned(), permissions.clone());
    }
    Ok(())
}

/// Copies the members of a namespace. Its id never changes, because all its objects refer to it.
fn read_namespace(_: &Draft<'_>, body: &Row, made: &mut Row) -> Result<(), Refusal> {
    take(body, made, &["name", "description"]);
    if !made.contains_key("namespaceId") {
        let id = row::filled(body, "namespaceId").map_or_else(clock::new_uuid, Ok)?;
        made.insert("namespaceId".to_owned(), id.into());
    }
    Ok(())
}

fn read_discovery(draft: &Draft<'_>, body: &Row, made: &mut Row) -> Result<(), Refusal> {
    local_discovery::check_source(Some(body))?;
    read_plain(draft, body, made)
}

fn read_proxy_selector(_: &Draft<'_>, body: &Row, made: &mut Row) -> Result<(), Refusal> {
    let source = body.get("discovery").and_then(Value::as_object);
    local_discovery::check_source(source)?;
    take(body, made, &["name", "pluginName", "type", "namespaceId", "listenerNode", "handler"]);
    made.entry("pluginName").or_insert_with(|| "tcp".into());
    made.entry("type").or_insert_with(|| "tcp".into());
    if body.contains_key("forwardPort") {
        let port = row::number(body, "forwardPort").filter(|port| (1..=65_535).contains(port));
        let port =
            port.ok_or_else(|| Refusal::invalid("forwardPort", "must be a port from 1 to 65535"))?;
        made.insert("forwardPort".to_owned(), port.into());
    }
    if let Some(props) = conditions::json_text(body, "props")? {
        // Gateways expect an object.
        let props: Value = serde_json::from_str(&props).unwrap_or_default();
        made.insert("props".to_owned(), if props.is_object() { props } else { json!({}) });
    }
    Ok(())
}

fn view_proxy_selector(tables: &Tables, view: &mut Row) {
    let id = row::text(view, "id").unwrap_or_default();
    let props = row::document(view, "props").unwrap_or_else(|| "{}".to_owned());
    view.insert("props".to_owned(), props.into());
    for (member, default) in [("listenerNode", ""), ("handler", "{}")] {
        view.entry(member).or_insert_with(|| default.into());
    }
    // Names of the times in ShenYu's list of proxy selectors, the only ones that its console shows.
    for (member, stored) in [("createTime", "dateCreated"), ("updateTime", "dateUpdated")] {
        view.insert(member.to_owned(), view.get(stored).cloned().unwrap_or_default());
    }
    let discovery = json!({"discoveryType": local_discovery::LOCAL, "type": local_discovery::LOCAL, "serverList": "", "props": "{}"});
    view.insert("discovery".to_owned(), discovery);
    view.insert("discoveryHandlerId".to_owned(), id.clone().into());
    let discovered = tables.get(Table::DiscoveryUpstream, &id);
    let upstreams = discovered.and_then(|stored| stored.row.get("upstreamDataList")).cloned();
    view.insert("discoveryUpstreams".to_owned(), upstreams.unwrap_or_else(|| json!([])));
}
