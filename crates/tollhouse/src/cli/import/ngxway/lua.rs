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

use super::syntax::{self, Directive};

/// Maximum length of a text that the gateway accepts, in bytes.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Main file of nginx, relative to ngxway's folder.
const MAIN_FILE: &str = "conf/nginx/nginx.conf";

/// Plugins that run a program, in order of their use.
const PLUGINS: [&str; 2] = ["serverless-pre-function", "serverless-post-function"];

/// Phases of requests with the directives of their programs.
const PHASES: [(&str, &str); 5] = [
    ("rewrite_by_lua", "rewrite"),
    ("access_by_lua", "access"),
    ("header_filter_by_lua", "header_filter"),
    ("body_filter_by_lua", "body_filter"),
    ("log_by_lua", "log"),
];

/// Function that sets the header that ngxway's `add_header X-Cache $upstream_cache_status` sets.
const CACHE_HEADER: &str =
    "return function() ngx.header[\"X-Cache\"] = ngx.header[\"Apisix-Cache-Status\"] end";

/// Lua programs of an imported folder.
pub(super) struct Programs {
    /// ngxway's folder, which is `/dist` in its container.
    root: PathBuf,
    /// Program of the start, with the name of its file.
    start: Option<(String, String)>,
    /// Names of the modules, with the texts; `None` if the gateway has the module itself.
    modules: RefCell<BTreeMap<String, Option<String>>>,
    /// Folders in which modules are searched, with `?` in the place of the name.
    places: Vec<String>,
}

/// Function that gives all clients one name before the cache.
const SHARED_IDENTITY: &str =
    "local function share() require(\"tollhouse\").note_identity(\"ngxway\") end\n";

/// Programs of a location, or of its server, by phase.
#[derive(Debug, Default, Clone)]
pub(super) struct Phases(BTreeMap<&'static str, String>);

impl Programs {
    /// Reads the settings of Lua from nginx's main file; without that file, programs run
    /// without modules and without a program of the start.
    pub(super) fn new(root: &Path) -> Self {
        let mut programs = Self {
            root: root.to_owned(),
            start: None,
            modules: RefCell::default(),
            places: Vec::new(),
        };
        let directives = programs.read(MAIN_FILE).and_then(|text| syntax::parse(&text).ok());
        let http = directives.iter().flatten().find(|it| it.name == "http");
        for directive in http.map(Directive::inner).unwrap_or_default() {
            match directive.name.as_str() {
                "init_by_lua_file" => {
                    let path = directive.argument();
                    programs.start = programs.read(path).map(|text| (path.to_owned(), text));
                }
                "init_by_lua_block" | "init_by_lua" => {
                    let text = directive.argument().to_owned();
                    programs.start = Some((directive.name.clone(), text));
                }
                "lua_package_path" => {
                    let places = directive.argument().split(';').filter(|it| it.ends_with(".lua"));
                    programs.places = places.map(str::to_owned).collect();
                }
                _ => {}
            }
        }
        programs
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

    /// Adds the program of a directive such as `access_by_lua_file`. Returns whether the directive
    /// has one that could be read.
    pub(super) fn take(&self, directive: &Directive, phases: &mut Phases) -> bool {
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
        let start = self.start.as_ref().map(|(_, text)| text.as_str()).unwrap_or_default();
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
        for phase in ["rewrite", "access"] {
            if let Some(text) = self.0.get_mut(phase) {
                text.insert_str(0, SHARED_IDENTITY);
                let program = "return function() program() end";
                *text = text.replace(program, "return function() share() program() end");
            }
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
        let programs = Programs::new(folder.path());
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
        let programs = Programs::new(folder.path());
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
    fn a_location_runs_its_own_program_before_that_of_its_server() {
        let programs = Programs::new(folder().path());
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
