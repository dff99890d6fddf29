//! Plugins of the folder, conditions of routes, functions before plugins, and scripts.

use tollhouse_model::variable::{Lookup, Variable};
use tollhouse_plugin::Phases;
use tollhouse_plugin::answer::AnswerBody;

use super::*;

const GREET: &str = r#"
local core = require("apisix.core")
local plugin = require("apisix.plugin")
local words = require("lib.words")
local schema = { type = "object", properties = { name = { type = "string" }, loud = { type = "boolean", default = false } }, required = { "name" } }
local _M = { version = 0.2, priority = 42, name = "greet", schema = schema, metadata_schema = { type = "object" } }
local calls = 0
function _M.check_schema(conf, schema_type)
    if conf.name == "nobody" then return false, "nobody cannot be greeted" end
    return core.schema.check(schema, conf)
end
function _M.access(conf, ctx)
    calls = calls + 1
    local attr = plugin.plugin_attr("greet")
    return 200, attr.word .. " " .. words.cleaned(conf.name) .. calls .. tostring(conf.loud)
end
function _M.log(conf, ctx) core.log.info("done") end
return _M
"#;
const WORDS: &str = "return { cleaned = function(s) return (s:gsub('%s', '')) end }";

fn plugin(sources: &[(&str, &str)]) -> (Vec<tollhouse_plugin::PluginType>, String) {
    let (plugins, problems) = lua_with(sources).plugins();
    let problems = problems.iter().map(|(name, error)| format!("{name}: {error}"));
    (plugins, problems.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_module_of_the_folder_is_a_plugin() {
    let (plugins, problems) = plugin(&[("plugins.greet", GREET), ("lib.words", WORDS)]);
    assert_eq!(problems, "");
    let greet = &plugins[0];
    assert_eq!((greet.name, greet.priority, greet.version), ("greet", 42, 0.2));
    assert!(greet.phases.intersects(Phases::ACCESS) && greet.phases.intersects(Phases::LOG));
    assert_eq!(greet.schema()["required"], json!(["name"]));
    let services = Arc::new(Services::new("test"));
    let catalogue = Catalogue::empty();
    let compile = |conf: Value| {
        let scope = Scope {
            owner: "routes/1",
            conf: &conf,
            metadata: None,
            protos: None,
            catalogue: &catalogue,
            services: &services,
        };
        greet.compile(&conf, &scope)
    };
    assert!(compile(json!({})).is_err_and(|error| error.text().contains("name")));
    assert_eq!(
        compile(json!({"name": "nobody"})).err().map(String::from).unwrap_or_default(),
        "nobody cannot be greeted"
    );
    let handler = compile(json!({"name": "the world"})).expect("a good conf");
    let mut harness = Harness::with(handler, Arc::clone(&services));
    harness.request("GET / HTTP/1.1\n\n");
    assert_eq!(text_of(&harness.request("GET / HTTP/1.1\n\n")), "hello theworld2false");
}

#[test]
fn modules_that_are_not_plugins_are_reported() {
    let table = [
        ("return 1", "must return a table of phases"),
        ("return {name = 'a', priority = 1}", "no field \"schema\""),
        ("return {name = 'a', schema = {}}", "no field \"priority\""),
        ("return {name = 'a', priority = 1, schema = {}, access = 1}", "access is a"),
        ("return {name = 'a', priority = 1, schema = {}, type = 'auth'}", "note_identity"),
        ("local r = require('plugins.x') return r", "requires itself"),
        ("return io", "\"io\" is not available"),
    ];
    for (text, expected) in table {
        let (plugins, problems) = plugin(&[("plugins.x", text)]);
        assert!(plugins.is_empty() && problems.contains(expected), "{text}: {problems}");
    }
}

struct Request;

impl Lookup for Request {
    fn variable(&self, variable: &Variable) -> Option<std::borrow::Cow<'_, [u8]>> {
        (*variable == Variable::Arg("k".to_owned())).then_some(std::borrow::Cow::Borrowed(b"v"))
    }
}

#[test]
fn a_condition_of_a_route_is_a_function_of_variables() {
    let lua = lua_with(&[]);
    for (text, holds) in [
        ("function(vars) return vars.arg_k == 'v' end", true),
        ("function(vars) return vars['arg_k'] == 'w' end", false),
        ("function(vars) return vars.http_x ~= nil end", false),
        ("function(vars) error('x') end", false),
        ("function(vars) while true do end end", false),
    ] {
        let filter = lua.route_filter(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(filter.holds(&Request), holds, "{text}");
    }
    let refused = |text: &str| lua.route_filter(text).err().map(String::from).unwrap_or_default();
    assert!(refused("function(").starts_with("failed to load 'filter_func' string: "));
    assert_eq!(refused("1"), "'filter_func' should be a function");
}

#[test]
fn a_function_runs_before_a_plugin() {
    let lua = lua_with(&[]);
    let inner = functions_of(
        &lua,
        tollhouse_plugin::FunctionPhase::Access,
        &["return function(c, x) return 200, ngx.req.get_headers()['x-by'] end"],
    );
    let text = "return function(conf, ctx) ngx.req.set_header('X-By', conf.who) ngx.sleep(0) end";
    let handler = lua.before(text, &json!({"who": "me"}), Arc::clone(&inner.handler));
    let mut harness = Harness::with(handler.expect("a function"), Arc::clone(&inner.services));
    assert_eq!(text_of(&harness.request("GET / HTTP/1.1\n\n")), "me");
    assert!(lua.before("return 1", &json!({}), Arc::clone(&inner.handler)).is_err());
}

#[test]
fn a_script_stands_for_the_plugins_of_a_route() {
    let lua = lua_with(&[]);
    let text =
        "local _M = {} function _M.access(ctx) ngx.say(ctx.var.uri) ngx.exit(200) end return _M";
    let handler = lua.script(text).expect("a script");
    let mut harness = Harness::with(handler, Arc::new(Services::new("test")));
    assert_eq!(text_of(&harness.request("GET /s HTTP/1.1\n\n")), "/s\n");
    assert!(lua.script("return 1").is_err_and(|it| it.text().contains("table of phases")));
}

#[test]
fn answers_of_plugins_are_rewritten() {
    let lua = lua_with(&[]);
    let text = "local code, body, header = ... ; if code == 404 then header['X-Was'] = '404' return 405, {was = body.error_msg}, header end return ...";
    let functions = lua.exit_functions("exit-transformer", &[text.to_owned()]).expect("good");
    let mut exchange = get();
    let mut memory = tollhouse_plugin::Memory::default();
    let mut cx = tollhouse_plugin::RequestContext::new(
        &mut exchange,
        &tollhouse_plugin::NoConsumers,
        &mut memory,
    );
    let given = tollhouse_plugin::Answer::error_msg(404, "gone");
    let made = functions.rewrite(&mut cx, &given).expect("another answer");
    assert_eq!(made.status, 405);
    assert!(matches!(&made.body, AnswerBody::Json(value) if *value == json!({"was": "gone"})));
    assert_eq!(made.headers[0].0, "X-Was");
}

#[test]
fn the_examples_of_the_guide_are_accepted() {
    let guide = include_str!("../../../../docs/guides/lua.md");
    let mut examples = 0;
    for block in guide.split("```lua\n").skip(1) {
        let text = block.split("```").next().unwrap_or_default();
        examples += 1;
        if text.contains("local _M") {
            let (plugins, problems) = plugin(&[("plugins.greet", text)]);
            assert_eq!((plugins.len(), problems.as_str()), (1, ""), "{text}");
        } else {
            assert_eq!(refusal(text), "", "{text}");
        }
    }
    assert_eq!(examples, 6);
    for block in guide.split("```json\n").skip(1) {
        let text = block.split("```").next().unwrap_or_default();
        let example: Value = serde_json::from_str(text).expect("JSON");
        let lua = lua_with(&[]);
        if let Some(text) = example["filter_func"].as_str() {
            assert!(lua.route_filter(text).is_ok(), "{text}");
        }
        let functions = &example["plugins"]["serverless-pre-function"]["functions"];
        for text in functions.as_array().into_iter().flatten() {
            assert_eq!(refusal(text.as_str().unwrap_or_default()), "", "{text}");
        }
    }
}
