//! Import of exported objects into the tables.
//!
//! Exports of 2.6 contain objects in the form of the REST interface or of synchronisation. Those of
//! 2.7 contain plugin templates and their copies in namespaces. All of these are accepted.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use tollhouse_shenyu::Kind;

use super::report::{Part, Report};
use super::{CONTENTS, Content};
use crate::archive::{self, ArchiveError};
use crate::clock;
use crate::conditions;
use crate::draft::Draft;
use crate::limits::UPSTREAMS_MAX;
use crate::resource::Resource;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::{Name, namespace};

/// Maximum length of an accepted id in bytes; ShenYu's have 19 or 36.
const ID_BYTES_MAX: usize = 128;

#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// Files with their index in [`CONTENTS`]: the rows, or why they cannot be read.
    files: Vec<(usize, Result<Vec<Row>, String>)>,
    unknown: Vec<String>,
}

impl Incoming {
    /// Parses an archive.
    ///
    /// # Errors
    ///
    /// If it is not a zip archive, or is damaged.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ArchiveError> {
        let mut incoming = Self::default();
        for file in archive::read(bytes)? {
            let place = CONTENTS.iter().position(|content| content.file == file.name);
            let Some(place) = place else {
                incoming.unknown.push(file.name);
                continue;
            };
            let rows = serde_json::from_slice::<Vec<Row>>(&file.content);
            let rows = rows.map_err(|error| format!("expected a list of JSON objects: {error}"));
            incoming.files.push((place, rows));
        }
        incoming.files.sort_by_key(|(place, _)| *place);
        Ok(incoming)
    }

    /// Reads the groups that a gateway fetches: the `data` of `/configs/fetch`.
    pub(crate) fn from_groups(groups: &Value) -> Self {
        let mut incoming = Self::default();
        for kind in Kind::ALL {
            let list = groups.get(kind.group()).and_then(|group| group.get("data"));
            let Some(list) = list.and_then(Value::as_array) else { continue };
            let rows = list.iter().filter_map(Value::as_object).cloned().collect();
            let name = match kind {
                Kind::Plugin => "plugin",
                Kind::Selector => "selector",
                Kind::Rule => "rule",
                Kind::Metadata => "meta",
                Kind::AppAuth => "auth",
                Kind::ProxySelector => "proxySelector",
                Kind::DiscoveryUpstream => "discoveryUpstream",
            };
            if let Some(place) = CONTENTS.iter().position(|content| content.name == name) {
                incoming.files.push((place, Ok(rows)));
            }
        }
        incoming.files.sort_by_key(|(place, _)| *place);
        incoming
    }

    /// Writes the objects into a draft, all into the namespace `wanted`, or with `None` each into
    /// the one it names.
    pub(crate) fn put(&self, draft: &mut Draft<'_>, wanted: Option<&str>) -> Report {
        let mut intake = Intake::new(draft, wanted);
        let mut report = Report { parts: Vec::new(), unknown: self.unknown.clone() };
        for (place, rows) in &self.files {
            let Some(content) = CONTENTS.get(*place) else { continue };
            let mut part = Part { name: content.name, ..Part::default() };
            match rows {
                Ok(rows) => {
                    for row in rows {
                        match intake.put(content, row) {
                            Ok(()) => part.taken += 1,
                            Err(reason) => part.add_problem(|| format!("{}: {reason}", label(row))),
                        }
                    }
                }
                Err(reason) => part.add_problem(|| reason.clone()),
            }
            report.parts.push(part);
        }
        intake.finish();
        report
    }
}

/// Returns the name of an object for error messages.
fn label(row: &Row) -> String {
    let names = ["name", "path", "appKey", "dictCode", "field", "url", "id"];
    let name = names.into_iter().find_map(|member| row::filled(row, member));
    name.map_or_else(|| "an object without a name".to_owned(), |name| format!("`{name}`"))
}

/// State of an import: the draft, and facts about earlier objects that later ones need.
struct Intake<'a, 'b> {
    draft: &'a mut Draft<'b>,
    wanted: Option<&'a str>,
    /// Names of plugins by their ids in the export.
    plugin_names: HashMap<String, String>,
    /// Cache of existing plugins by namespace and name; `None` if missing.
    plugin_ids: HashMap<(String, String), Option<String>>,
    /// New ids of objects whose id another namespace already uses.
    new_ids: HashMap<(Table, String), String>,
    dictionary: Option<Dictionary>,
    /// Ids of selectors by the id of their discovery handler.
    handlers: HashMap<String, String>,
    /// Nodes by the id of their selector.
    nodes: HashMap<String, Vec<Row>>,
}

type ImportResult = Result<(), String>;

/// Type, code and name of a dictionary entry, which identify it.
type DictionaryName = (String, String, String);

/// Type and value of a dictionary entry.
type DictionaryValue = (String, String);

/// Existing dictionary entries. Their ids differ between ShenYu's releases, so they are matched by
/// content.
struct Dictionary {
    /// Ids by type, code and name, which together are unique; the code alone is not.
    names: HashMap<DictionaryName, String>,
    /// Ids by type and value, because this admin uses other codes and names than ShenYu.
    values: HashMap<DictionaryValue, String>,
    /// Ids of entries that this import has matched already.
    claimed: HashSet<String>,
}

impl Dictionary {
    fn new(draft: &Draft<'_>) -> Self {
        let (mut names, mut values) = (HashMap::new(), HashMap::new());
        for (id, row) in draft.find_all(Table::Dict, |_| true) {
            if let Some((name, value)) = Self::keys(&row) {
                names.insert(name, id.clone());
                values.insert(value, id);
            }
        }
        Self { names, values, claimed: HashSet::new() }
    }

    /// Returns the keys of an entry in both maps.
    fn keys(row: &Row) -> Option<(DictionaryName, DictionaryValue)> {
        let (kind, code) = (row::filled(row, "type")?, row::filled(row, "dictCode")?);
        let text = |member: &str| row::text(row, member).unwrap_or_default();
        Some(((kind.clone(), code, text("dictName")), (kind, text("dictValue"))))
    }

    /// Returns the id for an entry. An existing entry with the same name keeps its id; failing
    /// that, one with the same value; otherwise the id is new. Returns `None` if the entry has no
    /// type or code.
    fn claim(&mut self, row: &Row, new_id: impl FnOnce() -> String) -> Option<String> {
        let (name, value) = Self::keys(row)?;
        let same = || self.values.get(&value).filter(|id| !self.claimed.contains(*id));
        let id = self.names.get(&name).or_else(same).cloned().unwrap_or_else(new_id);
        self.claimed.insert(id.clone());
        self.names.insert(name, id.clone());
        Some(id)
    }
}

impl<'a, 'b> Intake<'a, 'b> {
    fn new(draft: &'a mut Draft<'b>, wanted: Option<&'a str>) -> Self {
        Self {
            draft,
            wanted,
            plugin_names: HashMap::new(),
            plugin_ids: HashMap::new(),
            new_ids: HashMap::new(),
            dictionary: None,
            handlers: HashMap::new(),
            nodes: HashMap::new(),
        }
    }

    fn put(&mut self, content: &Content, row: &Row) -> ImportResult {
        let Some(resource) = Resource::find(content.resource) else { return self.add_nodes(row) };
        let mut body = row.clone();
        let target = self.wanted.map_or_else(|| namespace(row), str::to_owned);
        body.insert("namespaceId".to_owned(), target.clone().into());
        match resource.table {
            Table::Plugin => self.put_plugin(resource, body, &target),
            Table::Selector => self.put_selector(resource, body, &target),
            Table::Rule => self.put_rule(resource, body, &target),
            Table::AppAuth => self.put_app_auth(resource, body, &target),
            Table::Dict => self.put_dictionary(resource, body),
            Table::Discovery => {
                self.note_handlers(&body);
                self.put_plain(resource, body, &target)
            }
            _ => self.put_plain(resource, body, &target),
        }
    }

    /// Returns the id for an object: its exported id, or a new one if another namespace uses that
    /// id already.
    fn id(&mut self, table: Table, row: &Row, target: &str) -> String {
        let id = row::filled(row, "id").filter(|id| id.len() <= ID_BYTES_MAX);
        let Some(id) = id else { return clock::new_id() };
        let is_taken = |there: &Row| self.wanted.is_some() && namespace(there) != target;
        if self.draft.get(table, &id).is_none_or(|there| !is_taken(&there)) {
            return id;
        }
        self.new_ids.entry((table, id)).or_insert_with(clock::new_id).clone()
    }

    /// Returns the id here of an exported selector or proxied port.
    fn owner_id(&self, id: String) -> String {
        let new_id = |table: Table| self.new_ids.get(&(table, id.clone()));
        new_id(Table::Selector).or_else(|| new_id(Table::ProxySelector)).cloned().unwrap_or(id)
    }

    fn write(&mut self, resource: &Resource, key: &str, id: &str, body: &Row) -> ImportResult {
        // Given a previous row, even an empty one, `make_row` does not insist on the required
        // members of forms.
        let before = self.draft.get(resource.table, key);
        let before = before.map(|before| (*before).clone()).unwrap_or_default();
        let made = resource.make_row(self.draft, id, body, Some(&before));
        let mut made = made.map_err(|refusal| refusal.message().to_owned())?;
        if let Some(target) = body.get("namespaceId") {
            made.insert("namespaceId".to_owned(), target.clone());
        }
        self.draft.put(resource.table, key, made);
        Ok(())
    }

    fn put_plain(&mut self, resource: &Resource, body: Row, target: &str) -> ImportResult {
        let id = self.id(resource.table, &body, target);
        self.write(resource, &id, &id, &body)
    }

    fn plugin_id(&mut self, target: &str, name: &str) -> Option<String> {
        let key = (target.to_owned(), name.to_owned());
        if let Some(known) = self.plugin_ids.get(&key) {
            return known.clone();
        }
        let wanted = Name {
            table: Table::Plugin,
            namespace: target.to_owned(),
            parent: String::new(),
            name: name.to_owned(),
        };
        let stored_id = self.draft.find(&wanted).map(|(id, _)| id);
        self.plugin_ids.insert(key, stored_id.clone());
        stored_id
    }

    fn put_plugin(&mut self, resource: &Resource, mut body: Row, target: &str) -> ImportResult {
        let name = row::filled(&body, "name").ok_or("it has no name")?;
        for member in ["id", "pluginId"] {
            if let Some(id) = row::filled(&body, member) {
                self.plugin_names.insert(id, name.clone());
            }
        }
        let there = self.plugin_id(target, &name);
        let id = match there {
            Some(id) => id,
            None => self.id(Table::Plugin, &body, target),
        };
        let has_archive =
            ["file", "pluginJar"].into_iter().any(|it| row::filled(&body, it).is_some());
        body.remove("file");
        let handles: Vec<Row> = row::rows(&body, "pluginHandleList").cloned().collect();
        // The exported plugin id is dropped, because rows here refer to this admin's ids.
        body.remove("pluginId");
        self.write(resource, &id, &id, &body)?;
        self.plugin_ids.insert((target.to_owned(), name), Some(id.clone()));
        if let Some(resource) = Resource::find("plugin-handle") {
            for mut handle in handles {
                handle.insert("pluginId".to_owned(), id.clone().into());
                self.put_plain(resource, handle, target)?;
            }
        }
        if has_archive {
            return Err(
                "it is there, but its archive of Java classes cannot be run here".to_owned()
            );
        }
        Ok(())
    }

    fn put_selector(&mut self, resource: &Resource, mut body: Row, target: &str) -> ImportResult {
        row::filled(&body, "name").ok_or("it has no name")?;
        rename(&mut body, "conditionList", "selectorConditions");
        let plugin = row::filled(&body, "pluginId");
        let name = row::filled(&body, "pluginName")
            .or_else(|| self.plugin_names.get(plugin.as_ref()?).cloned())
            .or_else(|| {
                let row = self.draft.get(Table::Plugin, plugin.as_ref()?)?;
                row::filled(&row, "name")
            });
        let name = name.ok_or("the export does not say of which plugin it is")?;
        let plugin = self.plugin_id(target, &name);
        let plugin = plugin.ok_or_else(|| format!("its plugin {name} is not there"))?;
        body.insert("pluginId".to_owned(), plugin.into());
        // The id may differ from the exported one, so rules and nodes must use the new id.
        let id = self.id(Table::Selector, &body, target);
        if let Some(handler) = body.get("discoveryHandler").and_then(Value::as_object)
            && let Some(handler) = row::filled(handler, "id")
        {
            self.handlers.insert(handler, id.clone());
            // A discovered selector gets a node list even if empty; otherwise the nodes in its
            // handle would be served.
            self.nodes.entry(id.clone()).or_default();
        }
        self.write(resource, &id, &id, &body)?;
        let nodes: Vec<Row> = row::rows(&body, "discoveryUpstreams").cloned().collect();
        for node in nodes {
            self.add_node(id.clone(), node)?;
        }
        Ok(())
    }

    fn put_rule(&mut self, resource: &Resource, mut body: Row, target: &str) -> ImportResult {
        row::filled(&body, "name").ok_or("it has no name")?;
        rename(&mut body, "conditionDataList", "ruleConditions");
        let selector = row::filled(&body, "selectorId").ok_or("it has no selector")?;
        let selector = self.owner_id(selector);
        if self.draft.get(Table::Selector, &selector).is_none() {
            return Err(format!("its selector {selector} is not there"));
        }
        body.insert("selectorId".to_owned(), selector.into());
        let id = self.id(Table::Rule, &body, target);
        self.write(resource, &id, &id, &body)
    }

    fn put_app_auth(&mut self, resource: &Resource, mut body: Row, target: &str) -> ImportResult {
        rename(&mut body, "paramDataList", "authParamList");
        rename(&mut body, "pathDataList", "authPathList");
        let key = row::filled(&body, "appKey").ok_or("it has no appKey")?;
        if key.len() > ID_BYTES_MAX {
            return Err(format!("its appKey is longer than {ID_BYTES_MAX} bytes"));
        }
        if row::filled(&body, "appSecret").is_none() {
            return Err("it has no appSecret".to_owned());
        }
        let there = self.draft.get(Table::AppAuth, &key);
        if there.as_ref().is_some_and(|there| namespace(there) != target) {
            return Err("its appKey is another namespace's".to_owned());
        }
        let id = there.and_then(|there| row::filled(&there, "id"));
        let id = id.or_else(|| row::filled(&body, "id")).unwrap_or_else(clock::new_id);
        self.write(resource, &key, &id, &body)
    }

    fn put_dictionary(&mut self, resource: &Resource, body: Row) -> ImportResult {
        let dictionary = self.dictionary.get_or_insert_with(|| Dictionary::new(self.draft));
        let id = dictionary.claim(&body, || {
            let own = row::filled(&body, "id").filter(|id| id.len() <= ID_BYTES_MAX);
            let own = own.filter(|id| self.draft.get(Table::Dict, id).is_none());
            own.unwrap_or_else(clock::new_id)
        });
        let id = id.ok_or("it has no type or no dictCode")?;
        self.write(resource, &id, &id, &body)
    }

    /// Records which selector a discovery handler belongs to.
    fn note_handlers(&mut self, body: &Row) {
        let Some(relation) = body.get("discoveryRel").and_then(Value::as_object) else { return };
        let selector = ["selectorId", "proxySelectorId"];
        let selector = selector.into_iter().find_map(|member| row::filled(relation, member));
        let (Some(handler), Some(selector)) =
            (row::filled(relation, "discoveryHandlerId"), selector)
        else {
            return;
        };
        let selector = self.owner_id(selector);
        self.handlers.insert(handler, selector);
    }

    /// Imports a single node with its discovery handler, or all nodes of a selector in the form
    /// that gateways get.
    fn add_nodes(&mut self, row: &Row) -> ImportResult {
        if row.contains_key("upstreamDataList") {
            let selector = row::filled(row, "selectorId").ok_or("it has no selector")?;
            let selector = self.owner_id(selector);
            // An empty list is stored too, so that the nodes in the selector's handle are not
            // served instead.
            self.nodes.entry(selector.clone()).or_default();
            for node in row::rows(row, "upstreamDataList") {
                self.add_node(selector.clone(), node.clone())?;
            }
            return Ok(());
        }
        let handler =
            row::filled(row, "discoveryHandlerId").ok_or("it has no discovery handler")?;
        // Exports of this admin use the selector's id as the handler's id.
        let selector = self.handlers.get(&handler).cloned();
        let selector = selector.unwrap_or_else(|| self.owner_id(handler));
        self.add_node(selector, row.clone())
    }

    fn add_node(&mut self, selector: String, node: Row) -> ImportResult {
        let owner = self.draft.get(Table::Selector, &selector);
        if owner.or_else(|| self.draft.get(Table::ProxySelector, &selector)).is_none() {
            return Err("no selector of the export has its discovery handler".to_owned());
        }
        let url = row::filled(&node, "url").ok_or("it has no url")?;
        conditions::json_text(&node, "props").map_err(|refusal| refusal.message().to_owned())?;
        let nodes = self.nodes.entry(selector).or_default();
        // The node is exported with its selector and in the list of all nodes; the later one
        // replaces the earlier.
        nodes.retain(|known| row::text(known, "url").as_ref() != Some(&url));
        if nodes.len() >= UPSTREAMS_MAX {
            return Err(format!("its selector has {UPSTREAMS_MAX} nodes already"));
        }
        nodes.push(node);
        Ok(())
    }

    /// Writes the imported nodes. They replace the stored nodes of their selectors.
    fn finish(self) {
        for (selector, mut nodes) in self.nodes {
            let owner = self.draft.get(Table::Selector, &selector);
            let owner = owner.or_else(|| self.draft.get(Table::ProxySelector, &selector));
            let Some(owner) = owner else { continue };
            for node in &mut nodes {
                node.insert("discoveryHandlerId".to_owned(), selector.clone().into());
                node.insert("namespaceId".to_owned(), namespace(&owner).into());
            }
            let made = json!({
                "selectorId": selector, "discoveryHandlerId": selector, "namespaceId": namespace(&owner),
                "pluginName": owner.get("pluginName"), "selectorName": owner.get("name"),
                "upstreamDataList": nodes, "dateUpdated": self.draft.now,
            });
            if let Value::Object(made) = made {
                self.draft.put(Table::DiscoveryUpstream, &selector, made);
            }
        }
    }
}

/// Renames the member `from` to `to`, its name in forms, unless the row already has a member `to`.
fn rename(row: &mut Row, from: &str, to: &str) {
    if let Some(value) = row.remove(from) {
        row.entry(to).or_insert(value);
    }
}
