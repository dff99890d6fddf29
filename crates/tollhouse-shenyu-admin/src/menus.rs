//! Menus of ShenYu's console with the permissions below them, under the paths, names and keys of texts by which that
//! console knows them; and those that operators have added.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::Tables;

/// What an entry is, by ShenYu's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    MainMenu = 0,
    Menu = 1,
    Button = 2,
}

/// A menu, or a button of it, which is a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// A permission's name, or a menu's; of what operators have added, an id of its own.
    pub(crate) id: String,
    /// The id of its menu; blank for the first ones.
    pub(crate) parent: String,
    /// A key of the console's texts, or a text.
    pub(crate) title: String,
    pub(crate) name: String,
    /// Where it leads; blank for buttons.
    pub(crate) url: String,
    pub(crate) icon: String,
    /// The permission; blank for menus.
    pub(crate) permission: String,
    pub(crate) sort: i64,
    pub(crate) kind: EntryKind,
}

impl Entry {
    /// Whether it is a permission.
    pub(crate) fn is_button(&self) -> bool {
        self.kind == EntryKind::Button
    }

    /// As a tree of menus has it.
    pub(crate) fn node(&self, children: Value) -> Value {
        json!({"id": self.id, "parentId": self.parent, "name": self.name, "title": self.title,
            "url": self.url, "component": self.name, "sort": self.sort, "isLeaf": self.is_button(),
            "meta": {"icon": self.icon, "title": self.title}, "children": children})
    }

    /// As the list of menus has it.
    pub(crate) fn view(&self) -> Value {
        json!({"id": self.id, "parentId": self.parent, "title": self.title, "name": self.name,
            "url": self.url, "component": self.name, "resourceType": self.kind as i64,
            "sort": self.sort, "icon": self.icon, "isLeaf": self.is_button(), "isRoute": 0,
            "perms": self.permission, "status": 1, "dateCreated": null, "dateUpdated": null})
    }

    fn menu(parent: &str, (name, title, icon): (&str, &str, &str), sort: i64) -> Self {
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

    /// One that an operator has added.
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

/// A page of the console: its menu, how its permissions begin, and what they permit.
struct Page {
    parent: &'static str,
    /// Name, key of the title, and icon.
    menu: (&'static str, &'static str, &'static str),
    area: &'static str,
    verbs: &'static [&'static str],
}

const fn page(
    parent: &'static str,
    menu: (&'static str, &'static str, &'static str),
    area: &'static str,
    verbs: &'static [&'static str],
) -> Page {
    Page { parent, menu, area, verbs }
}

/// The first menus: name, key of the title, and icon.
const MAIN_MENUS: &[(&str, &str, &str)] = &[
    ("plug", "SHENYU.MENU.PLUGIN.LIST", "dashboard"),
    ("config", "SHENYU.MENU.CONFIG.MANAGMENT", "api"),
    ("system", "SHENYU.MENU.SYSTEM.MANAGMENT", "setting"),
    ("document", "Document", "file-text"),
];

/// The pages below them, in their order. The misspelling is ShenYu's.
const PAGES: &[Page] = &[
    page(
        "config",
        ("namespace", "SHENYU.MENU.SYSTEM.MANAGMENT.NAMESPACE", "appstore"),
        "namespace",
        &["add", "list", "delete", "edit"],
    ),
    page(
        "config",
        ("plugin", "SHENYU.MENU.SYSTEM.MANAGMENT.PLUGIN", "book"),
        "plugin",
        &["list", "delete", "add", "modify", "disable", "edit", "resource"],
    ),
    page(
        "config",
        ("namespacePlugin", "SHENYU.MENU.SYSTEM.MANAGMENT.NAMESPACEPLUGIN", "build"),
        "namespacePlugin",
        &["list", "delete", "add", "modify", "disable", "edit", "resource"],
    ),
    page(
        "config",
        ("pluginhandle", "SHENYU.PLUGIN.PLUGINHANDLE", "down-square"),
        "pluginHandler",
        &["list", "delete", "add", "edit"],
    ),
    page(
        "config",
        ("auth", "SHENYU.MENU.SYSTEM.MANAGMENT.AUTHEN", "audit"),
        "authen",
        &["list", "delete", "add", "disable", "modify", "edit", "editResourceDetails"],
    ),
    page(
        "config",
        ("metadata", "SHENYU.MENU.SYSTEM.MANAGMENT.METADATA", "snippets"),
        "meta",
        &["list", "delete", "add", "disable", "modify", "edit"],
    ),
    page(
        "config",
        ("dict", "SHENYU.MENU.SYSTEM.MANAGMENT.DICTIONARY", "ordered-list"),
        "dict",
        &["list", "delete", "add", "disable", "edit"],
    ),
    page(
        "config",
        ("instance", "SHENYU.MENU.SYSTEM.MANAGMENT.INSTANCE", "deployment-unit"),
        "instance",
        &["list"],
    ),
    page(
        "system",
        ("role", "SHENYU.MENU.SYSTEM.MANAGMENT.ROLE", "usergroup-add"),
        "role",
        &["add", "list", "delete", "edit"],
    ),
    page(
        "system",
        ("manage", "SHENYU.MENU.SYSTEM.MANAGMENT.USER", "user"),
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
        ("resource", "SHENYU.MENU.SYSTEM.MANAGMENT.RESOURCE", "menu"),
        "resource",
        &["list", "addMenu", "deleteMenu", "editMenu", "addButton", "editButton", "deleteButton"],
    ),
    page("document", ("apidoc", "API document", "api"), "api", &["list", "add", "edit", "delete"]),
];

/// What is done with selectors and rules of a plugin.
const PLUGIN_VERBS: &[&str] = &["add", "query", "edit", "delete"];

/// The key of a button's title.
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

/// All menus and buttons: those of the console, those of the plugins that there are, and those that were added.
pub(crate) fn entries(tables: &Tables) -> Vec<Entry> {
    let mut entries: Vec<Entry> =
        (0..).zip(MAIN_MENUS).map(|(sort, menu)| Entry::menu("", *menu, sort)).collect();
    let plugins = tables.rows(Table::Plugin).filter_map(|(_, row)| row::text(row, "name"));
    for plugin in plugins.collect::<BTreeSet<String>>() {
        let menu = Entry::menu("plug", (&plugin, &plugin, "book"), 0);
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

/// The entries below one that are meant, each with those below it, in their order.
pub(crate) fn tree(entries: &[Entry], parent: &str, is_meant: &dyn Fn(&Entry) -> bool) -> Value {
    /// Menus below menus: what was added may name itself.
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
