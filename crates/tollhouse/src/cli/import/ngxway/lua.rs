//! Conversion of Lua programs to `serverless` plugins. A program, the modules that it requires, the
//! program of the start and the files that they read become one text, which runs without the
//! original folder.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::access::protection;
use super::syntax::{self, Directive};

/// Maximum length of a text that the gateway accepts, in bytes.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Main file of nginx, relative to ngxway's folder.
const MAIN_FILE: &str = "conf/nginx/nginx.conf";

/// Plugins that run a program, in order of their use.
const PLUGINS: [&str; 2] = ["serverless-pre-function", "serverless-post-function"];

/// Phases of requests with the directives of their programs.
const PHASES: [(&str, &str); 5] = [
    // The first plugin runs before the cache, which a program of this phase protects.
    ("access_by_lua", "access"),
    ("rewrite_by_lua", "rewrite"),
    ("header_filter_by_lua", "header_filter"),
    ("body_filter_by_lua", "body_filter"),
    ("log_by_lua", "log"),
];

/// Function that sets the header that ngxway's `add_header X-Cache $upstream_cache_status` sets. Other
/// methods have no cache there, and so no status.
const CACHE_HEADER: &str = "return function() local method = ngx.req.get_method() if method == \"GET\" or method == \"HEAD\" then \
     ngx.header[\"X-Cache\"] = ngx.header[\"Apisix-Cache-Status\"] end end";

/// Lua programs of an imported folder.
pub(super) struct Programs {
    /// ngxway's folder, which is `/dist` in its container.
    root: PathBuf,
    /// Program of the start.
    start: Option<String>,
    /// Names of the modules, with the texts; `None` if the gateway has the module itself.
    modules: RefCell<BTreeMap<String, Option<String>>>,
    /// Folders in which modules are searched, with `?` in the place of the name.
    places: Vec<String>,
    /// Programs of all servers.
    pub(super) phases: Phases,
    /// Access control of all servers that is not converted, or a file that may contain some.
    pub(super) protection: Option<String>,
    use_of_programs: UseOfPrograms,
}

/// Treatment of programs in an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UseOfPrograms {
    Convert,
    Omit,
}

/// Function that gives all clients one name before the cache.
const SHARED_IDENTITY: &str =
    "local function share() require(\"tollhouse\").note_identity(\"ngxway\") end\n";

/// Programs of a location, or of its server, by phase.
#[derive(Debug, Default, Clone)]
pub(super) struct Phases(BTreeMap<&'static str, String>);

impl Programs {
    /// Reads the settings of all servers from nginx's main file; without that file, programs run
    /// without modules and without a program of the start.
    pub(super) fn new(root: &Path, use_of_programs: UseOfPrograms) -> Self {
        let mut programs = Self {
            root: root.to_owned(),
            start: None,
            modules: RefCell::default(),
            places: Vec::new(),
            phases: Phases::default(),
            protection: None,
            use_of_programs,
        };
        let Some(text) = programs.read(MAIN_FILE) else { return programs };
        match syntax::parse(&text) {
            Ok(directives) => {
                let http = directives.iter().find(|it| it.name == "http");
                programs.take_main(http.map(Directive::inner).unwrap_or_default());
            }
            Err(error) => programs.protection = Some(format!("nginx.conf: {error}")),
        }
        programs
    }

    fn take_main(&mut self, directives: &[Directive]) {
        // Programs of requests need the modules and the start.
        let (settings, others): (Vec<_>, Vec<_>) = directives
            .iter()
            .partition(|it| it.name.starts_with("init_by_lua") || it.name == "lua_package_path");
        for directive in settings {
            let argument = directive.argument().to_owned();
            match directive.name.as_str() {
                "lua_package_path" => {
                    let places = argument.split(';').filter(|it| it.ends_with(".lua"));
                    self.places = places.map(str::to_owned).collect();
                    continue;
                }
                "init_by_lua_file" => self.start = self.read(&argument),
                _ => self.start = Some(argument),
            }
            if self.start.is_none() {
                self.protection = Some(place(directive));
            }
        }
        for directive in others {
            let mut phases = std::mem::take(&mut self.phases);
            let is_taken = self.take(directive, &mut phases);
            self.phases = phases;
            let is_list = matches!(directive.name.as_str(), "allow" | "deny");
            // Servers have their own files.
            let is_server = matches!(directive.name.as_str(), "server" | "include" | "upstream");
            if !is_taken && !is_server && (is_list || protection(directive).is_some()) {
                self.protection.get_or_insert_with(|| place(directive));
            }
        }
    }

    /// Reads a file by its path on the original machine: its longest end that exists in the folder.
    fn read(&self, path: &str) -> Option<String> {
        let place = self.find(path)?;
        let size = std::fs::metadata(&place).ok()?.len();
        (size <= TEXT_BYTES_MAX).then(|| std::fs::read_to_string(&place).ok())?
    }

    fn find(&self, path: &str) -> Option<PathBuf> {
        let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if parts.contains(&"..") {
            return None;
        }
        let ends = (0..parts.len()).map(|start| self.root.join(parts[start..].join("/")));
        ends.into_iter().find(|place| place.exists())
    }

    pub(super) fn are_omitted(&self) -> bool {
        self.use_of_programs == UseOfPrograms::Omit
    }

    /// Adds the program of a directive such as `access_by_lua_file`. Returns whether the directive
    /// has one that could be read.
    pub(super) fn take(&self, directive: &Directive, phases: &mut Phases) -> bool {
        if self.are_omitted() {
            return false;
        }
        if directive.name == "if" && is_always(&directive.arguments) {
            let inner = directive.inner();
            return !inner.is_empty() && inner.iter().all(|inner| self.take(inner, phases));
        }
        let name = directive.name.as_str();
        let Some((start, phase)) = PHASES.iter().find(|(start, _)| name.starts_with(start)) else {
            return false;
        };
        let program = match &name[start.len()..] {
            "_file" => self.read(directive.argument()),
            "_block" | "" => Some(directive.argument().to_owned()),
            _ => None,
        };
        let Some(program) = program.filter(|text| !text.starts_with('\u{1b}')) else {
            return false;
        };
        phases.0.insert(phase, self.bundle(&program));
        true
    }

    /// Builds one text of a program and of all it needs.
    fn bundle(&self, program: &str) -> String {
        let start = self.start.as_deref().unwrap_or_default();
        let mut sources = vec![start.to_owned(), program.to_owned()];
        let mut names = BTreeSet::new();
        let mut at = 0;
        while let Some(source) = sources.get(at).cloned() {
            for required in REQUIRE.captures_iter(&source) {
                let name = required[1].to_owned();
                if let Some(text) = self.module(&name)
                    && names.insert(name)
                {
                    sources.push(text);
                }
            }
            at += 1;
        }
        let mut bundle = String::new();
        let globals: BTreeSet<&str> = sources.iter().flat_map(|text| globals(text)).collect();
        for global in globals {
            let _ = writeln!(bundle, "local {global}");
        }
        if sources.iter().any(|text| OPENS.is_match(text)) {
            self.add_files(&mut bundle, &sources);
        }
        if !names.is_empty() {
            self.add_modules(&mut bundle, &names);
        }
        if !start.is_empty() {
            let _ =
                writeln!(bundle, "do\n  local function start(...)\n{start}\n  end\n  start()\nend");
        }
        let _ = write!(
            bundle,
            "local function program(...)\n{program}\nend\nreturn function() program() end\n"
        );
        bundle
    }

    fn module(&self, name: &str) -> Option<String> {
        if let Some(known) = self.modules.borrow().get(name) {
            return known.clone();
        }
        let path = name.replace('.', "/");
        let text = self.places.iter().find_map(|place| self.read(&place.replace('?', &path)));
        self.modules.borrow_mut().insert(name.to_owned(), text.clone());
        text
    }

    /// Adds `require` for the modules; others are the gateway's.
    fn add_modules(&self, bundle: &mut String, names: &BTreeSet<String>) {
        bundle.push_str("local modules, loaded = {}, {}\nlocal package = { loaded = loaded }\n");
        bundle.push_str(REQUIRE_FUNCTION);
        for name in names {
            let text = self.module(name).unwrap_or_default();
            let _ = writeln!(bundle, "modules[{}] = function(...)\n{text}\nend", quoted(name));
        }
    }

    /// Adds `io.open` and `io.lines` for the files whose paths, or folders, the sources contain.
    fn add_files(&self, bundle: &mut String, sources: &[String]) {
        bundle.push_str("local files = {}\n");
        let mut paths = BTreeSet::new();
        for literal in sources.iter().flat_map(|text| PATH.captures_iter(text)) {
            let path = &literal[1];
            match self.find(path).filter(|place| place.is_dir() && path.ends_with('/')) {
                Some(folder) => {
                    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
                    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
                    paths.extend(names.map(|name| format!("{path}{name}")));
                }
                None => drop(paths.insert(path.to_owned())),
            }
        }
        for path in paths {
            if let Some(text) = self.read(&path) {
                let _ = writeln!(bundle, "files[{}] = {}", quoted(&path), quoted(&text));
            }
        }
        bundle.push_str(FILES_FUNCTION);
    }
}

impl Phases {
    /// Programs of a location; those of its server apply to phases without one.
    pub(super) fn over(mut self, server: &Self) -> Self {
        for (phase, text) in &server.0 {
            self.0.entry(phase).or_insert_with(|| text.clone());
        }
        self
    }

    /// Lets all clients share cached responses, whatever the programs read of requests: as in nginx,
    /// the key of the cache alone tells responses apart.
    pub(super) fn share_cache(&mut self) {
        let phase = if self.0.contains_key("rewrite") { "rewrite" } else { "access" };
        if let Some(text) = self.0.get_mut(phase) {
            text.insert_str(0, SHARED_IDENTITY);
            let program = "return function() program() end";
            *text = text.replace(program, "return function() share() program() end");
        }
    }

    /// Adds the header that tells what the cache did.
    pub(super) fn add_cache_header(&mut self) {
        self.0.entry("header_filter").or_insert_with(|| CACHE_HEADER.to_owned());
    }

    /// Adds the plugins that run the programs.
    ///
    /// # Errors
    /// Returns the first phase for which no plugin is left.
    pub(super) fn add_to(self, plugins: &mut Map<String, Value>) -> Result<(), &'static str> {
        let mut names = PLUGINS.iter();
        for phase in PHASES.iter().map(|(_, phase)| phase) {
            let Some(text) = self.0.get(phase) else { continue };
            let name = names.next().ok_or(*phase)?;
            let plugin = json!({"phase": phase, "functions": [text]});
            plugins.insert((*name).to_owned(), plugin);
        }
        Ok(())
    }
}

/// Returns whether a condition always holds in the phases of requests, in which the status of the
/// cache is still empty.
fn is_always(condition: &[String]) -> bool {
    let condition = condition.join(" ").replace(['(', ')'], "");
    let value = condition.trim().strip_prefix("$upstream_cache_status !=");
    value.is_some_and(|value| !value.trim().is_empty())
}

/// Returns the globals that a source declares outside of functions. As locals of the text they stay
/// from request to request, as they do in nginx.
fn globals(source: &str) -> impl Iterator<Item = &str> {
    GLOBAL.captures_iter(source).filter_map(|found| Some(found.get(1)?.as_str()))
}

/// Writes a Lua string.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\0' => quoted.push_str("\\000"),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// Place of a directive of the main file.
fn place(directive: &Directive) -> String {
    format!("nginx.conf:{} {}", directive.line, directive.name)
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of the program is valid")
}

static REQUIRE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"\brequire\s*\(?\s*["']([A-Za-z0-9_.]+)["']"#));
static OPENS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bio\s*\.\s*(open|lines)\b"));
static PATH: LazyLock<Regex> = LazyLock::new(|| pattern(r#"["'](/[^"'\n]+)["']"#));
static GLOBAL: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^([A-Za-z_][A-Za-z0-9_]*)\s*=[^=]"));

const REQUIRE_FUNCTION: &str = r#"local gateway_require = require
local function require(name)
  if loaded[name] ~= nil then return loaded[name] end
  local module = modules[name]
  if module == nil then return gateway_require(name) end
  local value = module(name)
  if value ~= nil then loaded[name] = value end
  if loaded[name] == nil then loaded[name] = true end
  return loaded[name]
end
"#;

const FILES_FUNCTION: &str = r#"local function open_file(path, mode)
  local text = files[path]
  if text == nil or (mode and mode:find("[wa+]")) then
    return nil, path .. ": No such file or directory", 2
  end
  local at = 1
  local file = {}
  function file:read(format)
    if format == "*a" or format == "a" then
      local rest = text:sub(at)
      at = #text + 1
      return rest
    end
    if at > #text then return nil end
    local stop = text:find("\n", at, true) or #text + 1
    local line = text:sub(at, stop - 1)
    at = stop + 1
    return line
  end
  function file:lines() return function() return file:read() end end
  function file:close() return true end
  return file
end
local io = {
  open = open_file,
  lines = function(path)
    local file, reason = open_file(path)
    if not file then error(reason, 2) end
    return file:lines()
  end,
}
"#;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Folder with a program, its modules, a file that they read, and nginx's main file.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a directory");
        let files = [
            (
                MAIN_FILE,
                "http { lua_package_path \"/dist/lua/?.ljbc;/dist/lua/?.lua;;\"; \
                 init_by_lua_file /dist/lua/init.lua; }",
            ),
            ("lua/init.lua", "local rules = require(\"rules\")\nforbidden = rules.list()\n"),
            (
                "lua/rules.lua",
                "local M = {}\nfunction M.list()\n  local t = {}\n  \
                 for line in io.open(\"/dist/conf/waf/\" .. \"url.conf\"):lines() do t[#t + 1] = line end\n  \
                 return t\nend\nreturn M\n",
            ),
            ("lua/main.lua", "if forbidden[1] == ngx.var.uri then return ngx.say('no') end\n"),
            ("conf/waf/url.conf", "/a\"b\n/c\n"),
        ];
        for (path, text) in files {
            let place = folder.path().join(path);
            fs::create_dir_all(place.parent().expect("a folder")).expect("a directory");
            fs::write(place, text).expect("a file");
        }
        folder
    }

    fn directive(text: &str) -> Directive {
        syntax::parse(text).expect("it is right").remove(0)
    }

    #[test]
    fn a_program_is_one_text_with_its_modules_its_start_and_the_files_it_reads() {
        let folder = folder();
        let programs = Programs::new(folder.path(), UseOfPrograms::Convert);
        let mut phases = Phases::default();
        assert!(programs.take(&directive("access_by_lua_file /dist/lua/main.lua;"), &mut phases));
        let text = &phases.0["access"];
        for expected in [
            "local forbidden\n",
            "modules[\"rules\"] = function(...)",
            "files[\"/dist/conf/waf/url.conf\"] = \"/a\\\"b\\n/c\\n\"",
            "forbidden = rules.list()",
            "return function() program() end",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        let mut plugins = Map::new();
        phases.add_to(&mut plugins).expect("one phase has room");
        assert_eq!(plugins["serverless-pre-function"]["phase"], "access");
    }

    #[test]
    fn conditions_on_the_cache_hold_and_others_are_not_converted() {
        let folder = folder();
        let programs = Programs::new(folder.path(), UseOfPrograms::Convert);
        for (text, is_taken) in [
            (
                "if ($upstream_cache_status != \"HIT\") { access_by_lua_file /dist/lua/main.lua; }",
                true,
            ),
            ("if ($upstream_cache_status != \"\") { access_by_lua_block { } }", false),
            ("if ($arg_a = b) { access_by_lua_file /dist/lua/main.lua; }", false),
            ("if ($upstream_cache_status != \"HIT\") { access_by_lua_file /no.lua; }", false),
            ("if ($upstream_cache_status != \"HIT\") { deny all; }", false),
            ("access_by_lua_block { if a then return end }", true),
            ("access_by_lua_file /dist/lua/../../secret.lua;", false),
            ("deny all;", false),
        ] {
            let mut phases = Phases::default();
            assert_eq!(programs.take(&directive(text), &mut phases), is_taken, "{text}");
        }
    }

    #[test]
    fn access_control_of_all_servers_and_unread_files_protect() {
        let folder = folder();
        for (main, expected) in [
            ("http { include x.conf; server { deny all; } }", None),
            ("http {\n deny 10.0.0.1; }", Some("nginx.conf:2 deny")),
            ("http { access_by_lua_file /no.lua; }", Some("nginx.conf:1 access_by_lua_file")),
            ("http { init_by_lua_file /no.lua; }", Some("nginx.conf:1 init_by_lua_file")),
            ("http { auth_basic x; }", Some("nginx.conf:1 auth_basic")),
            ("http {", Some("nginx.conf: line 1: it does not end")),
        ] {
            fs::write(folder.path().join(MAIN_FILE), main).expect("a file");
            let programs = Programs::new(folder.path(), UseOfPrograms::Convert);
            assert_eq!(programs.protection.as_deref(), expected, "{main}");
        }
        let main = "http { access_by_lua_file /dist/lua/main.lua; }";
        fs::write(folder.path().join(MAIN_FILE), main).expect("a file");
        let programs = Programs::new(folder.path(), UseOfPrograms::Convert);
        assert_eq!((programs.phases.0.len(), &programs.protection), (1, &None));
        let omitted = Programs::new(folder.path(), UseOfPrograms::Omit);
        assert!(omitted.protection.is_some(), "the program protects");
    }

    #[test]
    fn a_program_that_decides_runs_before_the_cache() {
        let mut plugins = Map::new();
        let programs = Programs::new(folder().path(), UseOfPrograms::Convert);
        let mut phases = Phases::default();
        for text in ["rewrite_by_lua_block { one() }", "access_by_lua_block { two() }"] {
            assert!(programs.take(&directive(text), &mut phases));
        }
        phases.share_cache();
        phases.add_to(&mut plugins).expect("two phases have room");
        assert_eq!(plugins["serverless-pre-function"]["phase"], "access");
        let sharing = plugins.values().filter(|it| it.to_string().contains("note_identity"));
        assert_eq!(sharing.count(), 1);
    }

    #[test]
    fn a_location_runs_its_own_program_before_that_of_its_server() {
        let programs = Programs::new(folder().path(), UseOfPrograms::Convert);
        let phases = |text: &str| {
            let mut phases = Phases::default();
            assert!(programs.take(&directive(text), &mut phases), "{text}");
            phases
        };
        let server = phases("access_by_lua_block { one() }");
        let own = phases("access_by_lua_block { two() }").over(&server);
        assert!(own.0["access"].contains("two()") && !own.0["access"].contains("one()"));
        let both = phases("log_by_lua_block { three() }").over(&server);
        assert_eq!(both.0.keys().collect::<Vec<_>>(), [&"access", &"log"]);
    }
}
