//! Plugins of the folder, in the shape of APISIX's modules.

use std::sync::Arc;

use mlua::{Function, Value};
use tollhouse_plugin::{ConfError, ForeignPlugin, PluginType, Scope};

use crate::check;
use crate::failure::{Failure, failure_of};
use crate::handler::ScriptHandler;
use crate::json::{from_lua, to_lua};
use crate::program::{Code, Program};
use crate::state::Core;
use crate::world::World;
use crate::{Lua, conf_error};

/// Prefix of the names of modules that are plugins.
const PREFIX: &str = "plugins.";

/// Properties of a plugin that its module names.
struct Facts {
    name: String,
    priority: i32,
    version: f32,
    schema: serde_json::Value,
    metadata_schema: Option<serde_json::Value>,
}

impl Lua {
    /// Returns the plugins of the folder; those that cannot be used with the reasons.
    pub fn plugins(&self) -> (Vec<PluginType>, Vec<(String, ConfError)>) {
        let (mut plugins, mut problems) = (Vec::new(), Vec::new());
        for module in self.world.settings.sources.keys() {
            let is_plugin = module.strip_prefix(PREFIX).is_some_and(|name| !name.contains('.'));
            if is_plugin {
                match self.plugin(module) {
                    Ok(plugin) => plugins.push(plugin),
                    Err(error) => problems.push((module.clone(), error)),
                }
            }
        }
        (plugins, problems)
    }

    fn plugin(&self, module: &str) -> Result<PluginType, ConfError> {
        // Names live as long as the process; there are as many as files of the folder.
        let label: &'static str = Box::leak(module[PREFIX.len()..].to_owned().into_boxed_str());
        let code = Code::Module(module.to_owned());
        let program = Program::new(label, code.clone(), serde_json::Value::Null);
        let found = check::check(&self.world, &program, |core, loaded| {
            Ok::<_, Failure>((
                facts(core, module)?,
                loaded.phases(),
                !loaded.each("body_filter").is_empty(),
            ))
        });
        let (facts, phases, filters_body) = found.and_then(|found| found).map_err(conf_error)?;
        let name: &'static str =
            if facts.name == label { label } else { Box::leak(facts.name.into_boxed_str()) };
        let world = Arc::clone(&self.world);
        let build = move |conf: &serde_json::Value, scope: &Scope<'_>| {
            check_conf(&world, &code, conf).map_err(conf_error)?;
            let mut program = Program::new(name, code.clone(), conf.clone());
            program.metadata = scope.metadata.cloned();
            let (world, program) = (Arc::clone(&world), Arc::new(program));
            let handler = ScriptHandler { world, program, phases, filters_body };
            Ok(Arc::new(handler) as tollhouse_plugin::handler::SharedHandler)
        };
        let noted = if phases == tollhouse_plugin::Phases::NONE {
            phases
        } else {
            phases.union(tollhouse_plugin::Phases::RESPONSE)
        };
        PluginType::foreign(ForeignPlugin {
            name,
            priority: facts.priority,
            version: facts.version,
            phases: noted,
            schema: facts.schema,
            metadata_schema: facts.metadata_schema,
            build: Box::new(build),
        })
    }
}

fn facts(core: &Core, module: &str) -> Result<Facts, Failure> {
    let Some(Value::Table(table)) = core.own_module(module)? else {
        return Err(Failure::Error("the module is not a table".to_owned()));
    };
    let failed = |error: mlua::Error| failure_of(&error);
    let document = |name: &str| match table.get::<Value>(name).map_err(failed)? {
        Value::Nil => Ok(None),
        value => from_lua(&core.marks, &value, 0).map(Some).map_err(Failure::Error),
    };
    let wanted = |name: &str, what: &str| {
        Failure::Error(format!("the module has no field \"{name}\", which must be {what}"))
    };
    let name: Option<String> = table.get("name").map_err(failed)?;
    let priority: Option<i32> = table.get("priority").map_err(failed)?;
    let is_auth =
        table.get::<Value>("type").map_err(failed)?.to_string().is_ok_and(|it| it == "auth");
    if is_auth {
        let text = "a plugin of type \"auth\" is not available as a script: check the credential \
                    in rewrite, and call require(\"tollhouse\").note_identity";
        return Err(Failure::Error(text.to_owned()));
    }
    let empty = || serde_json::json!({ "type": "object" });
    let schema = document("schema")?.ok_or_else(|| wanted("schema", "a JSON Schema"))?;
    let is_empty = schema.as_array().is_some_and(Vec::is_empty)
        || schema.as_object().is_some_and(serde_json::Map::is_empty);
    Ok(Facts {
        name: name.ok_or_else(|| wanted("name", "a text"))?,
        priority: priority.ok_or_else(|| wanted("priority", "a number"))?,
        version: table.get::<Option<f32>>("version").map_err(failed)?.unwrap_or(0.1),
        schema: if is_empty { empty() } else { schema },
        metadata_schema: document("metadata_schema")?,
    })
}

/// Runs `check_schema` of the module, if it has one, because it may check more than the schema.
fn check_conf(world: &Arc<World>, code: &Code, conf: &serde_json::Value) -> Result<(), Failure> {
    let Code::Module(module) = code else { return Ok(()) };
    let core = Core::trial(world)?;
    let Some(Value::Table(table)) = core.own_module(module)? else { return Ok(()) };
    let failed = |error: mlua::Error| failure_of(&error);
    let check: Option<Function> = table.get("check_schema").map_err(failed)?;
    let Some(check) = check else { return Ok(()) };
    let conf = to_lua(&core.lua, &core.marks, conf).map_err(failed)?;
    let mut found = core.run_apart(&check, conf)?.into_iter();
    let is_good = !matches!(found.next(), None | Some(Value::Nil | Value::Boolean(false)));
    if is_good {
        return Ok(());
    }
    let reason = found.next().unwrap_or(Value::Nil).to_string().map_err(failed)?;
    Err(Failure::Error(reason))
}
