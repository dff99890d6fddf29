//! `import ngxway`: the Lua programs of a folder protect the routes that they protected there.

use std::fs;
use std::path::Path;
use std::process::Command;

use tollhouse_testkit::program::run_well;
use tollhouse_testkit::{Gateway, Origin};

use crate::support::gateway;

const NGINX: &str = "http {\n  lua_shared_dict seen 1m;\n  lua_package_path \"/dist/lua/?.lua;\";\n  \
    init_by_lua_file /dist/lua/init.lua;\n  include /dist/conf/vhosts/vhosts.conf;\n}\n";

const VHOSTS: &str = "server {\n  listen 8090;\n  location /api/ {\n    proxy_cache my_cache;\n    \
    proxy_cache_key \"$scheme$request_method$host$request_uri\";\n    proxy_cache_valid 200 10m;\n    \
    proxy_pass http://api_host;\n    if ($upstream_cache_status != \"HIT\") {\n      \
    access_by_lua_file /dist/lua/main.lua;\n    }\n    add_header X-Cache $upstream_cache_status;\n  }\n}\n";

const INIT: &str = "local lists = require(\"lists\")\nforbidden = {}\nforbidden.paths = lists:read(\"paths\")\n\
    package.loaded[\"lists\"] = lists\n";

const LISTS: &str = "lists = {}\nfunction lists:read(name)\n  local file = io.open(\"/dist/conf/lists/\" .. name .. \".conf\", \"r\")\n  \
    local all = {}\n  for line in file:lines() do table.insert(all, line) end\n  file:close()\n  return all\nend\nreturn lists\n";

const MAIN: &str = "local key = ngx.var.host .. ngx.var.request_uri\nif ngx.shared.seen:get(key) == \"yes\" then\n  return\nend\n\
    local cookie = ngx.var.http_cookie\n\
    for _, rule in pairs(forbidden.paths) do\n  if rule ~= \"\" and ngx.re.match(ngx.var.request_uri, rule, \"isjo\") then\n    \
    return ngx.say('{\"refused\":true}')\n  end\nend\nngx.shared.seen:set(key, \"yes\", 60)\n";

/// Writes an ngxway whose upstream is the origin.
fn ngxway(origin: &Origin) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    let upstream = format!("upstream api_host {{ server {}; }}\n", origin.address());
    for (path, text) in [
        ("conf/nginx/nginx.conf", NGINX),
        ("conf/vhosts/vhosts.conf", VHOSTS),
        ("conf/vhosts/upstream.conf", &upstream),
        ("conf/lists/paths.conf", "union.*select\n\\.\\./\n"),
        ("lua/init.lua", INIT),
        ("lua/lists.lua", LISTS),
        ("lua/main.lua", MAIN),
    ] {
        let place = folder.path().join(path);
        fs::create_dir_all(place.parent().expect("a folder")).expect("a directory");
        fs::write(place, text).expect("a file");
    }
    folder
}

fn import(gateway: &Gateway, folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(["import", "ngxway", "--yes"]).env_remove("TOLLHOUSE_ADMIN_KEY");
    command.args(["--set", "scripting.lua=trusted"]);
    command.arg("--set").arg(format!("data_dir={}", gateway.folder().display()));
    command.arg("--admin").arg(format!("http://{}", gateway.admin_address()));
    run_well(command.arg(folder))
}

#[test]
fn programs_modules_and_lists_of_an_ngxway_work_after_the_import() {
    let origin = Origin::named("a");
    let folder = ngxway(&origin);
    let gateway = gateway().without_resources().set("scripting.lua", "trusted").start();
    import(&gateway, folder.path());
    drop(folder);
    let ask = |target: &str| gateway.client().get(target);
    // The second request of each target takes what the first has left in the shared dictionary.
    for (target, expected, cache) in [
        ("/api/1", "a", Some("MISS")),
        ("/api/1", "a", Some("HIT")),
        ("/api/1?q=1+UNION+SELECT+1", "{\"refused\":true}\n", None),
        ("/api/1?q=1+UNION+SELECT+1", "{\"refused\":true}\n", None),
        ("/api/1?q=1", "a", Some("MISS")),
    ] {
        let answer = ask(target);
        assert_eq!((answer.status(), answer.text().as_str()), (200, expected), "{target}");
        assert_eq!(answer.field("x-cache"), cache, "{target}");
    }
}
