//! Interface `/shenyu/…` of ShenYu's gateway itself, by which objects are written without an admin.
//! Objects have the form in which admins send them to gateways and are stored as such. The listener
//! that receives a call checks its rights.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;
use tollhouse_shenyu::weight::values_at_most;
use tollhouse_shenyu_gateway::LocalAnswer;

use crate::admin::ShenyuAdmin;
use crate::answer::{Outcome, Refusal, success};
use crate::clock;
use crate::conditions;
use crate::draft::Draft;
use crate::query::Arguments;
use crate::records::{Author, Interface};
use crate::row::{self, Row};
use crate::sync::synced;
use crate::table::Table;
use crate::tables::{Name, Tables, namespace};

/// Maximum number of rules in one call.
const RULES_MAX: usize = 5_000;

/// Maximum number of JSON values in a body that is parsed into a tree: as many as `RULES_MAX` rules
/// need, some ten megabytes.
const VALUES_MAX: usize = 200_000;

/// Member that marks rows created through this interface, rather than by an operator or a service.
/// Only these rows are deleted.
const LOCAL: &str = "local";

/// Default `sort` of selectors and rules, as in ShenYu.
const SORT: i64 = 10;

/// Request at the gateway's own interface.
#[derive(Debug, Clone, Copy)]
pub struct LocalRequest<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    pub body: &'a [u8],
    /// Namespace of the objects; ShenYu's default namespace if `None`.
    pub namespace: Option<&'a str>,
}

/// Parsed call.
struct LocalCall<'a> {
    method: &'a str,
    path: &'a str,
    arguments: Arguments,
    namespace: String,
}

impl ShenyuAdmin {
    /// Processes a call to the gateway's own interface.
    pub async fn call_local(&self, request: LocalRequest<'_>) -> LocalAnswer {
        let LocalRequest { method, path, query, body, namespace } = request;
        let decoded = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
        let local = LocalCall {
            method,
            path: decoded.strip_prefix("/shenyu/").unwrap_or_default().trim_end_matches('/'),
            arguments: Arguments::parse(query),
            namespace: namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned(),
        };
        match self.answer_local(&local, body).await {
            Ok(answer) => answer,
            Err((status, refusal)) => {
                let code = if status == 404 { 404 } else { 500 };
                let body = json!({"code": code, "message": refusal.message()}).to_string();
                LocalAnswer { status, body, warning: None }
            }
        }
    }

    async fn answer_local(
        &self,
        local: &LocalCall<'_>,
        body: &[u8],
    ) -> Result<LocalAnswer, (u16, Refusal)> {
        let wrong = |refusal| (400, refusal);
        if let Some(text) = find(&self.book.read(), local) {
            let answer = |body| LocalAnswer { status: 200, body, warning: None };
            return text.map(answer).map_err(|refusal| (404, refusal));
        }
        let change = local.change().ok_or_else(|| match local.is_known() {
            true => (405, Refusal::error(format!("{} is not possible here", local.method))),
            false => (404, Refusal::not_found("there is no such path here")),
        })?;
        let body = match change {
            Change::Removal(_) => Row::new(),
            Change::Object(_) | Change::Pair | Change::Pairs => read_object(body).map_err(wrong)?,
        };
        let (namespace, arguments) = (local.namespace.clone(), local.arguments.clone());
        let method = Method::from_bytes(local.method.as_bytes()).unwrap_or_default();
        let segments: Vec<&str> = local.path.split('/').collect();
        let author = Author::new("", Interface::Local, &method, &segments);
        let book = self.book.by(Arc::new(author));
        let outcome = book.write(move |draft| {
            let mut writer = Writer { draft, namespace: &namespace };
            match change {
                Change::Removal(removal) => writer.remove(removal, &arguments),
                Change::Object(kind) => writer.put(kind, &body),
                Change::Pair => writer.put_pair(&body),
                Change::Pairs => writer.put_pairs(&body),
            }
        });
        let success = outcome.await.map_err(wrong)?;
        let body = success.data.as_str().unwrap_or("success").to_owned();
        Ok(LocalAnswer { status: 200, body, warning: success.warnings.line() })
    }
}

/// Kind of change that a call makes.
#[derive(Debug, Clone, Copy)]
enum Change {
    Removal(Removal),
    Object(Kind),
    /// A selector with one rule.
    Pair,
    /// A selector with several rules.
    Pairs,
}

#[derive(Debug, Clone, Copy)]
enum Removal {
    Everything,
    /// Selectors and rules of a plugin.
    OfPlugin,
    Plugin,
    Plugins,
    Selector,
    Rule,
    Metadata,
    Application,
}

impl LocalCall<'_> {
    fn change(&self) -> Option<Change> {
        Some(match (self.method, self.path) {
            ("GET", "cleanAll") => Change::Removal(Removal::Everything),
            ("GET", "cleanPlugin") => Change::Removal(Removal::OfPlugin),
            ("GET", "plugin/delete") => Change::Removal(Removal::Plugin),
            ("GET", "plugin/deleteAll") => Change::Removal(Removal::Plugins),
            ("GET", "plugin/selector/delete") => Change::Removal(Removal::Selector),
            ("GET", "plugin/rule/delete") => Change::Removal(Removal::Rule),
            ("GET", "meta/delete") => Change::Removal(Removal::Metadata),
            ("GET", "auth/delete") => Change::Removal(Removal::Application),
            ("POST", "plugin/saveOrUpdate") => Change::Object(Kind::Plugin),
            ("POST", "plugin/selector/saveOrUpdate") => Change::Object(Kind::Selector),
            ("POST", "plugin/rule/saveOrUpdate") => Change::Object(Kind::Rule),
            ("POST", "meta/saveOrUpdate") => Change::Object(Kind::Metadata),
            ("POST", "auth/saveOrUpdate") => Change::Object(Kind::AppAuth),
            ("POST", "plugin/selectorAndRule") => Change::Pair,
            ("POST", "plugin/selectorAndRules") => Change::Pairs,
            _ => return None,
        })
    }

    /// Whether the path exists for some other method.
    fn is_known(&self) -> bool {
        const FOUND: [&str; 3] =
            ["plugin/findByName", "plugin/selector/findList", "plugin/rule/findList"];
        let with = |method| {
            let (path, arguments) = (self.path, Arguments::default());
            LocalCall { method, path, arguments, namespace: String::new() }.change().is_some()
        };
        with("GET") || with("POST") || FOUND.contains(&self.path)
    }
}

/// Answers a call that reads objects. Returns `None` for calls that write.
fn find(tables: &Tables, local: &LocalCall<'_>) -> Option<Result<String, Refusal>> {
    if local.method != "GET" {
        return None;
    }
    let argument = |name: &str| local.arguments.get(name).map(str::to_owned);
    let listed = |kind: Kind, parent: &str| {
        let (id, parent_id) = (argument("id"), argument(parent));
        let is_meant = |row_id: &str, row: &Row| {
            namespace(row) == local.namespace
                && id.as_deref().is_none_or(|id| id == row_id)
                && (parent_id.is_none() || row::text(row, parent) == parent_id)
        };
        let rows = tables.rows(Table::from_kind(kind)).filter(|(id, row)| is_meant(id, row));
        let rows: Vec<Value> = rows.filter_map(|(_, row)| synced(kind, row)).collect();
        Ok(Value::Array(rows).to_string())
    };
    Some(match local.path {
        "plugin/findByName" => {
            let name = argument("name").unwrap_or_default();
            let id = tables.ids(&plugin_name(&name, &local.namespace)).next();
            let plugin = id.and_then(|id| tables.get(Table::Plugin, id));
            let plugin = plugin.and_then(|plugin| synced(Kind::Plugin, &plugin.row));
            plugin.map(|it| it.to_string()).ok_or_else(|| Refusal::not_found("no such plugin"))
        }
        "plugin/selector/findList" => listed(Kind::Selector, "pluginName"),
        "plugin/rule/findList" => listed(Kind::Rule, "selectorId"),
        _ => return None,
    })
}

fn read_object(body: &[u8]) -> Result<Row, Refusal> {
    let invalid = |text: &str| Refusal::invalid("body", text);
    if values_at_most(body) > VALUES_MAX {
        return Err(invalid(&format!("at most {VALUES_MAX} values are possible")));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(invalid("expected a JSON object")),
        Err(error) => Err(invalid(&format!("expected JSON: {error}"))),
    }
}

fn plugin_name(name: &str, namespace: &str) -> Name {
    Name {
        table: Table::Plugin,
        namespace: namespace.to_owned(),
        parent: String::new(),
        name: name.to_owned(),
    }
}

struct Writer<'a, 'd> {
    draft: &'a mut Draft<'d>,
    namespace: &'a str,
}

impl Writer<'_, '_> {
    fn put(&mut self, kind: Kind, body: &Row) -> Outcome {
        let id = match kind {
            Kind::Selector => self.put_selector(body)?,
            Kind::Rule => self.put_rule(body)?,
            Kind::Plugin => self.put_plugin(body)?,
            Kind::Metadata => self.put_metadata(body)?,
            Kind::AppAuth => self.put_application(body)?,
            Kind::ProxySelector | Kind::DiscoveryUpstream => {
                return Err(Refusal::not_found("there is no such path here"));
            }
        };
        // Answers for other kinds carry no id.
        let says_id = matches!(kind, Kind::Selector | Kind::Rule);
        success("success", if says_id { Value::from(id) } else { Value::Null })
    }

    /// Stores a row with the members that every row has. Refuses a row that gateways could not
    /// read.
    fn put_row(&mut self, kind: Kind, id: &str, mut row: Row) -> Result<(), Refusal> {
        let table = Table::from_kind(kind);
        let before = self.draft.get(table, id);
        if let Some(before) = &before
            && namespace(before) != self.namespace
        {
            return Err(Refusal::conflict(id));
        }
        let created = before.as_ref().and_then(|before| row::text(before, "dateCreated"));
        match &before {
            // Members missing in the call stay, because an operator may have set them.
            Some(before) => before.iter().for_each(|(member, value)| {
                row.entry(member).or_insert_with(|| value.clone());
            }),
            None => drop(row.insert(LOCAL.to_owned(), true.into())),
        }
        for (member, value) in [
            ("namespaceId", self.namespace.to_owned()),
            ("dateCreated", created.unwrap_or_else(|| self.draft.now.clone())),
            ("dateUpdated", self.draft.now.clone()),
        ] {
            row.insert(member.to_owned(), value.into());
        }
        if synced(kind, &row).is_none() {
            return Err(Refusal::invalid("body", "not a valid object of this kind"));
        }
        self.draft.put(table, id, row);
        Ok(())
    }

    fn put_plugin(&mut self, body: &Row) -> Result<String, Refusal> {
        let name = required(body, "name")?;
        let stored_id = self.draft.find(&plugin_name(&name, self.namespace)).map(|(id, _)| id);
        let id = stored_id.or_else(|| row::filled(body, "id")).unwrap_or_else(clock::new_id);
        let mut row = Row::new();
        take(body, &mut row, &["name", "role", "sort", "enabled"]);
        row.insert("id".to_owned(), id.clone().into());
        row.insert("enabled".to_owned(), row::flag(body, "enabled").unwrap_or(true).into());
        if let Some(config) = conditions::json_text(body, "config")? {
            row.insert("config".to_owned(), config.into());
        }
        self.put_row(Kind::Plugin, &id, row)?;
        Ok(id)
    }

    fn put_selector(&mut self, body: &Row) -> Result<String, Refusal> {
        let plugin = required(body, "pluginName")?;
        let id = row::filled(body, "id").unwrap_or_else(clock::new_id);
        let mut row = Row::new();
        take(body, &mut row, &["matchMode", "matchRestful"]);
        let plugin_id = self.draft.find(&plugin_name(&plugin, self.namespace)).map(|(id, _)| id);
        for (member, value) in [
            ("id", json!(id)),
            ("pluginName", json!(plugin)),
            ("pluginId", json!(plugin_id)),
            ("name", json!(row::filled(body, "name").unwrap_or_else(|| id.clone()))),
            ("type", json!(row::number(body, "type").unwrap_or(1))),
            ("sort", json!(row::number(body, "sort").unwrap_or(SORT))),
            ("enabled", json!(row::flag(body, "enabled").unwrap_or(true))),
            ("continued", json!(row::flag(body, "continued").unwrap_or(true))),
            ("logged", json!(logged(body))),
            ("conditionList", conditions::read(body, "conditionList")?),
        ] {
            row.insert(member.to_owned(), value);
        }
        if let Some(handle) = conditions::json_text(body, "handle")? {
            row.insert("handle".to_owned(), handle.into());
        }
        self.put_row(Kind::Selector, &id, row)?;
        Ok(id)
    }

    fn put_rule(&mut self, body: &Row) -> Result<String, Refusal> {
        let selector_id = required(body, "selectorId")?;
        let selector = self.draft.get(Table::Selector, &selector_id);
        // A selector of another namespace counts as missing. Otherwise a caller of one namespace
        // could write into another.
        let selector = selector.filter(|selector| namespace(selector) == self.namespace);
        let selector =
            selector.ok_or_else(|| Refusal::invalid("selectorId", "there is no such selector"))?;
        let id = row::filled(body, "id").unwrap_or_else(clock::new_id);
        let mut row = Row::new();
        take(body, &mut row, &["matchMode", "matchRestful"]);
        for (member, value) in [
            ("id", json!(id)),
            ("selectorId", json!(selector_id)),
            ("pluginName", selector.get("pluginName").cloned().unwrap_or_default()),
            ("name", json!(row::filled(body, "name").unwrap_or_else(|| id.clone()))),
            ("sort", json!(row::number(body, "sort").unwrap_or(SORT))),
            ("enabled", json!(row::flag(body, "enabled").unwrap_or(true))),
            ("loged", json!(logged(body))),
            ("conditionDataList", conditions::read(body, "conditionDataList")?),
        ] {
            row.insert(member.to_owned(), value);
        }
        if let Some(handle) = conditions::json_text(body, "handle")? {
            row.insert("handle".to_owned(), handle.into());
        }
        self.put_row(Kind::Rule, &id, row)?;
        Ok(id)
    }

    /// Handles `selectorAndRule`: the given conditions apply to the selector and to its rule.
    fn put_pair(&mut self, body: &Row) -> Outcome {
        let selector = self.put_pair_selector(body)?;
        let mut rule = Row::new();
        rule.insert("selectorId".to_owned(), selector.into());
        for (from, to) in [
            ("selectorName", "name"),
            ("ruleHandler", "handle"),
            ("conditionDataList", "conditionDataList"),
        ] {
            rename(body, from, &mut rule, to);
        }
        self.put_rule(&rule)?;
        success("success", Value::Null)
    }

    /// Handles `selectorAndRules`: each rule has its own conditions.
    fn put_pairs(&mut self, body: &Row) -> Outcome {
        let rules: Vec<&Row> = row::rows(body, "ruleDataList").collect();
        if rules.len() > RULES_MAX {
            let text = format!("at most {RULES_MAX} are possible");
            return Err(Refusal::invalid("ruleDataList", &text));
        }
        let selector = self.put_pair_selector(body)?;
        for source in rules {
            let mut rule = Row::new();
            rule.insert("selectorId".to_owned(), selector.clone().into());
            for (from, to) in [
                ("ruleName", "name"),
                ("ruleHandler", "handle"),
                ("matchMode", "matchMode"),
                ("conditionDataList", "conditionDataList"),
            ] {
                rename(source, from, &mut rule, to);
            }
            self.put_rule(&rule)?;
        }
        success("success", Value::Null)
    }

    fn put_pair_selector(&mut self, body: &Row) -> Result<String, Refusal> {
        let mut selector = Row::new();
        for (from, to) in [
            ("pluginName", "pluginName"),
            ("selectorName", "name"),
            ("selectorHandler", "handle"),
            ("matchMode", "matchMode"),
            ("sort", "sort"),
            ("conditionDataList", "conditionList"),
        ] {
            rename(body, from, &mut selector, to);
        }
        self.put_selector(&selector)
    }

    fn put_metadata(&mut self, body: &Row) -> Result<String, Refusal> {
        let path = required(body, "path")?;
        let name = Name {
            table: Table::Metadata,
            namespace: self.namespace.to_owned(),
            parent: String::new(),
            name: path,
        };
        // A path has one metadata, so a call without an id refers to it.
        let stored_id = self.draft.find(&name).map(|(id, _)| id);
        let id = row::filled(body, "id").or(stored_id).unwrap_or_else(clock::new_id);
        let mut row = Row::new();
        take(
            body,
            &mut row,
            &[
                "appName",
                "contextPath",
                "path",
                "rpcType",
                "serviceName",
                "methodName",
                "parameterTypes",
            ],
        );
        if let Some(extension) = row::document(body, "rpcExt") {
            row.insert("rpcExt".to_owned(), extension.into());
        }
        row.insert("id".to_owned(), id.clone().into());
        row.insert("enabled".to_owned(), row::flag(body, "enabled").unwrap_or(true).into());
        self.put_row(Kind::Metadata, &id, row)?;
        Ok(id)
    }

    fn put_application(&mut self, body: &Row) -> Result<String, Refusal> {
        let (key, _) = (required(body, "appKey")?, required(body, "appSecret")?);
        let stored = self.draft.get(Table::AppAuth, &key);
        let id = stored.and_then(|stored| row::text(&stored, "id")).unwrap_or_else(clock::new_id);
        let mut row = Row::new();
        take(body, &mut row, &["appKey", "appSecret", "paramDataList", "pathDataList"]);
        row.insert("id".to_owned(), id.into());
        for member in ["enabled", "open"] {
            row.insert(member.to_owned(), row::flag(body, member).unwrap_or(true).into());
        }
        self.put_row(Kind::AppAuth, &key, row)?;
        Ok(key)
    }

    fn remove(&mut self, removal: Removal, arguments: &Arguments) -> Outcome {
        let argument = |name: &str| {
            let value = arguments.get(name).map(str::to_owned);
            value.ok_or_else(|| Refusal::missing(&[name]))
        };
        match removal {
            Removal::Everything => {
                for table in [Table::Plugin, Table::Selector, Table::Rule] {
                    self.delete_all(table, |_| true);
                }
            }
            Removal::Plugins => self.delete_all(Table::Plugin, |_| true),
            Removal::OfPlugin => self.delete_of("pluginName", &argument("name")?),
            Removal::Plugin => {
                let name = argument("name")?;
                self.delete_all(Table::Plugin, |row| {
                    row::text(row, "name").as_ref() == Some(&name)
                });
            }
            Removal::Selector => {
                let id = argument("id")?;
                self.delete_all(Table::Selector, |row| row::text(row, "id").as_ref() == Some(&id));
                self.delete_all(Table::Rule, |row| {
                    row::text(row, "selectorId").as_ref() == Some(&id)
                });
            }
            Removal::Rule => {
                let id = argument("id")?;
                self.delete_all(Table::Rule, |row| row::text(row, "id").as_ref() == Some(&id));
            }
            Removal::Metadata => {
                let (id, path) = (arguments.get("id"), arguments.get("path"));
                // Without either argument every metadata would match.
                if id.is_none() && path.is_none() {
                    return Err(Refusal::missing(&["id"]));
                }
                let is = |row: &Row, member: &str, wanted: Option<&str>| {
                    wanted.is_none() || row::text(row, member).as_deref() == wanted
                };
                self.delete_all(Table::Metadata, |row| is(row, "id", id) && is(row, "path", path));
            }
            Removal::Application => {
                let key = argument("appKey")?;
                self.delete_all(Table::AppAuth, |row| {
                    row::text(row, "appKey").as_ref() == Some(&key)
                });
            }
        }
        success("success", Value::Null)
    }

    fn delete_of(&mut self, member: &str, value: &str) {
        for table in [Table::Selector, Table::Rule] {
            self.delete_all(table, |row| row::text(row, member).as_deref() == Some(value));
        }
    }

    /// Deletes matching rows that were created through this interface, and disables all others.
    /// ShenYu removes the others only until the next synchronisation. Here an operator can enable
    /// them again.
    fn delete_all(&mut self, table: Table, is_meant: impl Fn(&Row) -> bool) {
        let own = |row: &Row| namespace(row) == self.namespace && is_meant(row);
        for (id, row) in self.draft.find_all(table, own) {
            if row::flag(&row, LOCAL) == Some(true) {
                self.draft.delete(table, &id);
            } else if row::flag(&row, "enabled") != Some(false) {
                let mut row = (*row).clone();
                row.insert("enabled".to_owned(), false.into());
                row.insert("dateUpdated".to_owned(), self.draft.now.clone().into());
                self.draft.put(table, &id, row);
            }
        }
    }
}

fn required(body: &Row, member: &str) -> Result<String, Refusal> {
    row::filled(body, member).ok_or_else(|| Refusal::missing(&[member]))
}

fn logged(body: &Row) -> bool {
    row::flag(body, "logged").or_else(|| row::flag(body, "loged")).unwrap_or(false)
}

fn take(body: &Row, made: &mut Row, members: &[&str]) {
    for member in members {
        rename(body, member, made, member);
    }
}

fn rename(body: &Row, from: &str, made: &mut Row, to: &str) {
    if let Some(value) = body.get(from).filter(|value| !value.is_null()) {
        made.insert(to.to_owned(), value.clone());
    }
}
