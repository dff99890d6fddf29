//! Menus of ShenYu's console with the permissions below them. Paths, names and title keys are those
//! that the console knows. Operators may add more entries.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::Tables;

/// Kind of an entry, by ShenYu's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    MainMenu = 0,
    Menu = 1,
    Button = 2,
}

/// Menu, or a button in it, which stands for a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Name of the permission or menu; entries added by operators have a generated id.
    pub(crate) id: String,
    /// Id of the parent menu; empty for main menus.
    pub(crate) parent: String,
    /// Key of one of the console's texts, or literal text.
    pub(crate) title: String,
    pub(crate) name: String,
    /// Path of the page; empty for buttons.
    pub(crate) url: String,
    pub(crate) icon: String,
    /// Name of the permission; empty for menus.
    pub(crate) permission: String,
    pub(crate) sort: i64,
    pub(crate) kind: EntryKind,
}

impl Entry {
    /// Whether the entry is a button, and so a permission.
    pub(crate) fn is_button(&self) -> bool {
        self.kind == EntryKind::Button
    }

    /// Returns the entry as a node of the menu tree.
    pub(crate) fn node(&self, children: Value) -> Value {
        json!({"id": self.id, "parentId": self.parent, "name": self.name, "title": self.title,
            "url": self.url, "component": self.name, "sort": self.sort, "isLeaf": self.is_button(),
            "meta": {"icon": self.icon, "title": self.title}, "children": children})
    }

    /// Returns the entry as a row of the menu list.
    pub(crate) fn view(&self) -> Value {
        json!({"id": self.id, "parentId": self.parent, "title": self.title, "name": self.name,
            "url": self.url, "component": self.name, "resourceType": self.kind as i64,
            "sort": self.sort, "icon": self.icon, "isLeaf": self.is_button(), "isRoute": 0,
            "perms": self.permission, "status": 1, "dateCreated": null, "dateUpdated": null})
    }

    fn menu(parent: &str, label: Label<'_>, sort: i64) -> Self {
        let Label { name, title, icon } = label;
        let (id, kind) = match parent {
            "" => (name.to_owned(), EntryKind::MainMenu),
            parent => (format!("{parent}:{name}"), EntryKind::Menu),
        };
        Self {
            url: format!("/{}", id.replace(':', "/")),
            id,
            parent: parent.to_owned(),
            title: title.to_owned(),
            name: name.to_owned(),
            icon: icon.to_owned(),
            permission: String::new(),
            sort,
            kind,
        }
    }

    fn button(parent: &str, permission: String, title: String, sort: usize) -> Self {
        Self {
            id: permission.clone(),
            parent: parent.to_owned(),
            title,
            name: String::new(),
            url: String::new(),
            icon: String::new(),
            permission,
            sort: i64::try_from(sort).unwrap_or(i64::MAX),
            kind: EntryKind::Button,
        }
    }

    /// Reads an entry that an operator has added.
    fn added(id: &str, row: &Row) -> Self {
        let text = |member| row::text(row, member).unwrap_or_default();
        let kind = match row::number(row, "resourceType") {
            Some(2) => EntryKind::Button,
            Some(1) => EntryKind::Menu,
            _ => EntryKind::MainMenu,
        };
        Self {
            id: id.to_owned(),
            parent: text("parentId"),
            title: text("title"),
            name: text("name"),
            url: text("url"),
            icon: text("icon"),
            permission: text("perms"),
            sort: row::number(row, "sort").unwrap_or(0),
            kind,
        }
    }
}

/// Name, title and icon of a menu.
#[derive(Clone, Copy)]
struct Label<'a> {
    name: &'a str,
    /// Key of one of the console's texts, or literal text.
    title: &'a str,
    icon: &'a str,
}

const fn label(name: &'static str, title: &'static str, icon: &'static str) -> Label<'static> {
    Label { name, title, icon }
}

/// Page of the console: its menu, and the area and verbs that form its permissions.
struct Page {
    parent: &'static str,
    menu: Label<'static>,
    area: &'static str,
    verbs: &'static [&'static str],
}

const fn page(
    parent: &'static str,
    menu: Label<'static>,
    area: &'static str,
    verbs: &'static [&'static str],
) -> Page {
    Page { parent, menu, area, verbs }
}

const MAIN_MENUS: &[Label<'static>] = &[
    label("plug", "SHENYU.MENU.PLUGIN.LIST", "dashboard"),
    label("config", "SHENYU.MENU.CONFIG.MANAGMENT", "api"),
    label("system", "SHENYU.MENU.SYSTEM.MANAGMENT", "setting"),
    label("document", "Document", "file-text"),
];

/// Pages below the main menus, in display order. The misspelled keys are ShenYu's.
const PAGES: &[Page] = &[
    page(
        "config",
        label("namespace", "SHENYU.MENU.SYSTEM.MANAGMENT.NAMESPACE", "appstore"),
        "namespace",
        &["add", "list", "delete", "edit"],
    ),
    page(
        "config",
        label("plugin", "SHENYU.MENU.SYSTEM.MANAGMENT.PLUGIN", "book"),
        "plugin",
        &["list", "delete", "add", "modify", "disable", "edit", "resource"],
    ),
    page(
        "config",
        label("namespacePlugin", "SHENYU.MENU.SYSTEM.MANAGMENT.NAMESPACEPLUGIN", "build"),
        "namespacePlugin",
        &["list", "delete", "add", "modify", "disable", "edit", "resource"],
    ),
    page(
        "config",
        label("pluginhandle", "SHENYU.PLUGIN.PLUGINHANDLE", "down-square"),
        "pluginHandler",
        &["list", "delete", "add", "edit"],
    ),
    page(
        "config",
        label("auth", "SHENYU.MENU.SYSTEM.MANAGMENT.AUTHEN", "audit"),
        "authen",
        &["list", "delete", "add", "disable", "modify", "edit", "editResourceDetails"],
    ),
    page(
        "config",
        label("metadata", "SHENYU.MENU.SYSTEM.MANAGMENT.METADATA", "snippets"),
        "meta",
        &["list", "delete", "add", "disable", "modify", "edit"],
    ),
    page(
        "config",
        label("dict", "SHENYU.MENU.SYSTEM.MANAGMENT.DICTIONARY", "ordered-list"),
        "dict",
        &["list", "delete", "add", "disable", "edit"],
    ),
    page(
        "config",
        label("instance", "SHENYU.MENU.SYSTEM.MANAGMENT.INSTANCE", "deployment-unit"),
        "instance",
        &["list"],
    ),
    page(
        "system",
        label("role", "SHENYU.MENU.SYSTEM.MANAGMENT.ROLE", "usergroup-add"),
        "role",
        &["add", "list", "delete", "edit"],
    ),
    page(
        "system",
        label("manage", "SHENYU.MENU.SYSTEM.MANAGMENT.USER", "user"),
        "manager",
        &[
            "add",
            "list",
            "delete",
            "edit",
            "configureDataPermission",
            "exportConfig",
            "importConfig",
        ],
    ),
    page(
        "system",
        label("resource", "SHENYU.MENU.SYSTEM.MANAGMENT.RESOURCE", "menu"),
        "resource",
        &["list", "addMenu", "deleteMenu", "editMenu", "addButton", "editButton", "deleteButton"],
    ),
    page(
        "document",
        label("apidoc", "API document", "api"),
        "api",
        &["list", "add", "edit", "delete"],
    ),
];

/// Verbs of the permissions for a plugin's selectors and rules.
const PLUGIN_VERBS: &[&str] = &["add", "query", "edit", "delete"];

/// Returns the title key of a button.
fn title(verb: &str) -> String {
    let key = match verb {
        "disable" => "SYSTEM.ENABLE",
        "modify" => "SYSTEM.SYNCHRONIZE",
        "configureDataPermission" => "DATA.PERMISSION.CONFIG",
        "exportConfig" => return "SHENYU.COMMON.EXPORT".to_owned(),
        "importConfig" => return "SHENYU.COMMON.IMPORT".to_owned(),
        "addMenu" => "RESOURCE.MENU.ADD",
        "deleteMenu" => "RESOURCE.MENU.DELETE",
        "editMenu" => "RESOURCE.MENU.EDIT",
        "addButton" => "RESOURCE.BUTTON.ADD",
        "editButton" => return "SHENYU.SYSTEM.EDITOR".to_owned(),
        "deleteButton" => return "SHENYU.SYSTEM.DELETEDATA".to_owned(),
        verb => return format!("SHENYU.BUTTON.SYSTEM.{}", verb.to_uppercase()),
    };
    format!("SHENYU.BUTTON.{key}")
}

/// Lists all menus and buttons: those of the console, those of existing plugins, and those added by
/// operators.
pub(crate) fn entries(tables: &Tables) -> Vec<Entry> {
    let mut entries: Vec<Entry> =
        (0..).zip(MAIN_MENUS).map(|(sort, menu)| Entry::menu("", *menu, sort)).collect();
    let plugins = tables.rows(Table::Plugin).filter_map(|(_, row)| row::text(row, "name"));
    for plugin in plugins.collect::<BTreeSet<String>>() {
        let menu = Entry::menu("plug", Label { name: &plugin, title: &plugin, icon: "book" }, 0);
        entries.extend(plugin_buttons(&menu.id, &plugin));
        entries.push(menu);
    }
    for (sort, page) in (0..).zip(PAGES) {
        let menu = Entry::menu(page.parent, page.menu, sort);
        let buttons = page.verbs.iter().enumerate().map(|(sort, verb)| {
            Entry::button(&menu.id, format!("system:{}:{verb}", page.area), title(verb), sort)
        });
        entries.extend(buttons);
        entries.push(menu);
    }
    entries.extend(tables.rows(Table::Resource).map(|(id, row)| Entry::added(id, row)));
    entries
}

fn plugin_buttons(menu: &str, plugin: &str) -> impl Iterator<Item = Entry> {
    let of_nouns = ["Selector", "Rule"].into_iter().flat_map(move |noun| {
        PLUGIN_VERBS.iter().map(move |verb| {
            let permission = format!("plugin:{plugin}{noun}:{verb}");
            (
                permission,
                format!("SHENYU.BUTTON.PLUGIN.{}", format!("{noun}.{verb}").to_uppercase()),
            )
        })
    });
    let synchronize =
        (format!("plugin:{plugin}:modify"), "SHENYU.BUTTON.PLUGIN.SYNCHRONIZE".to_owned());
    let all = of_nouns.chain([synchronize]).enumerate();
    all.map(move |(sort, (permission, title))| Entry::button(menu, permission, title, sort))
}

/// Builds the tree of the matching entries below `parent`, sorted at each level.
pub(crate) fn tree(entries: &[Entry], parent: &str, is_meant: &dyn Fn(&Entry) -> bool) -> Value {
    /// Maximum depth of the tree. The limit ends the recursion if an added menu is its own
    /// ancestor.
    const DEPTH_MAX: usize = 8;
    branch(entries, parent, is_meant, DEPTH_MAX)
}

fn branch(
    entries: &[Entry],
    parent: &str,
    is_meant: &dyn Fn(&Entry) -> bool,
    depth: usize,
) -> Value {
    if depth == 0 {
        return json!([]);
    }
    let mut below: Vec<&Entry> =
        entries.iter().filter(|entry| entry.parent == parent && is_meant(entry)).collect();
    below.sort_by_key(|entry| entry.sort);
    let node = |entry: &&Entry| entry.node(branch(entries, &entry.id, is_meant, depth - 1));
    below.iter().map(node).collect()
}
