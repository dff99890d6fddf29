//! Texts of one object: checked when the object is written, loaded by each core on first use.

use std::sync::atomic::{AtomicU64, Ordering};

use mlua::{Function, Table, Value};
use tollhouse_plugin::{FunctionPhase, Phases};

use crate::direct::DirectFunction;
use crate::failure::{Failure, failure_of};
use crate::json::to_lua;
use crate::look::{is_direct, may_reach_gateway, may_wait};
use crate::state::Core;

/// Phases by their names in modules.
pub(crate) const PHASE_NAMES: [(&str, Phases); 6] = [
    ("rewrite", Phases::REWRITE),
    ("access", Phases::ACCESS),
    ("before_proxy", Phases::BEFORE_PROXY),
    ("header_filter", Phases::RESPONSE),
    ("body_filter", Phases::RESPONSE),
    ("log", Phases::LOG),
];

/// Returns the name of a phase, as modules and `ngx.get_phase` have it.
pub(crate) fn phase_name(phase: FunctionPhase) -> &'static str {
    match phase {
        FunctionPhase::Rewrite => "rewrite",
        FunctionPhase::Access => "access",
        FunctionPhase::BeforeProxy => "before_proxy",
        FunctionPhase::HeaderFilter => "header_filter",
        FunctionPhase::BodyFilter => "body_filter",
        FunctionPhase::Log => "log",
    }
}

/// Source of the functions of a program.
#[derive(Debug, Clone)]
pub(crate) enum Code {
    /// Texts that each return a function, for one phase.
    Functions { phase: &'static str, texts: Vec<String> },
    /// Texts that are functions themselves; their arguments are `...`.
    Chunks(Vec<String>),
    /// Text that returns a table of functions by phase, which get only `ctx`.
    Script(String),
    /// Module of the folder with functions by phase.
    Module(String),
    /// Text after `return`, which is a function.
    Expression(String),
}

/// Texts of one object with the conf that their functions get.
#[derive(Debug)]
pub(crate) struct Program {
    /// Number that no other program of the process has.
    pub(crate) id: u64,
    /// Plugin that the texts belong to, for logs and errors.
    pub(crate) plugin: &'static str,
    pub(crate) code: Code,
    pub(crate) conf: serde_json::Value,
    pub(crate) metadata: Option<serde_json::Value>,
    /// Whether functions need a coroutine, because they may wait.
    pub(crate) may_wait: bool,
    /// Whether functions use nothing of their context but its variables, and do not wait, so that they
    /// are called directly.
    pub(crate) is_direct: bool,
    /// Whether functions may change the answer before it exists.
    pub(crate) may_note: bool,
    /// Whether functions may set the external user of the request.
    pub(crate) may_set_user: bool,
}

/// Functions of a program on one core.
pub(crate) struct Loaded {
    /// Functions by phase, in order.
    functions: Vec<(&'static str, Vec<Function>)>,
    /// Functions that take the context and run all functions of a phase.
    bound: Vec<(&'static str, Function)>,
    /// Functions of the phase, if they are called directly.
    direct: Option<(&'static str, Vec<DirectFunction>)>,
}

impl Program {
    pub(crate) fn new(plugin: &'static str, code: Code, conf: serde_json::Value) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let any = |may: fn(&str) -> bool| match &code {
            Code::Functions { texts, .. } => texts.iter().any(|text| may(text)),
            Code::Expression(text) => may(text),
            Code::Chunks(_) | Code::Script(_) | Code::Module(_) => true,
        };
        let (may_wait, may_note) = (any(may_wait), any(may_reach_gateway));
        let may_set_user = any(|text| text.contains("external_user"));
        let is_direct = match &code {
            Code::Functions { texts, .. } => texts.iter().all(|text| is_direct(text)),
            _ => false,
        };
        Self { id, plugin, code, conf, metadata: None, may_wait, is_direct, may_note, may_set_user }
    }

    /// Runs the texts on a core and returns their functions.
    ///
    /// # Errors
    /// If a text fails, or its result is not a function. The texts are those of APISIX.
    pub(crate) fn load(&self, core: &Core) -> Result<Loaded, Failure> {
        let mut functions: Vec<(&'static str, Vec<Function>)> = Vec::new();
        match &self.code {
            Code::Functions { phase, texts } => {
                let each = texts.iter().map(|text| function_of(core, text));
                functions.push((phase, each.collect::<Result<_, _>>()?));
            }
            Code::Chunks(texts) => {
                let each = texts.iter().map(|text| core.load(text, ""));
                functions.push(("exit", each.collect::<Result<_, _>>()?));
            }
            Code::Expression(text) => {
                let chunk = core.load(&format!("return {text}"), "")?;
                match first(core.run_apart(&chunk, ())?) {
                    Value::Function(function) => functions.push(("filter", vec![function])),
                    _ => return Err(Failure::Error("not a function".to_owned())),
                }
            }
            Code::Script(text) => {
                let chunk = core.load(text, "script")?;
                functions = phases_of(&table_of(first(core.run_apart(&chunk, ())?))?)?;
            }
            Code::Module(name) => {
                let module = core.own_module(name)?.unwrap_or(Value::Nil);
                functions = phases_of(&table_of(module)?)?;
            }
        }
        let bound = self.bind(core, &functions).map_err(|error| failure_of(&error))?;
        let direct = self.prepare(core, &functions).map_err(|error| failure_of(&error))?;
        Ok(Loaded { functions, bound, direct })
    }

    /// Prepares the functions of the phase for direct calls.
    fn prepare(
        &self,
        core: &Core,
        functions: &[(&'static str, Vec<Function>)],
    ) -> mlua::Result<Option<(&'static str, Vec<DirectFunction>)>> {
        let (true, [(phase, each)]) = (self.is_direct, functions) else { return Ok(None) };
        let conf = to_lua(&core.lua, &core.marks, &self.conf)?;
        let each = each.iter().map(|function| core.calls.prepare(function, &conf));
        Ok(Some((phase, each.collect::<mlua::Result<_>>()?)))
    }

    /// Binds the functions of each phase to the conf.
    fn bind(
        &self,
        core: &Core,
        functions: &[(&'static str, Vec<Function>)],
    ) -> mlua::Result<Vec<(&'static str, Function)>> {
        let takes_conf = !matches!(self.code, Code::Script(_));
        let conf = to_lua(&core.lua, &core.marks, &self.conf)?;
        let bind = |(phase, each): &(&'static str, Vec<Function>)| {
            let list = core.lua.create_sequence_from(each.iter().cloned())?;
            Ok((*phase, core.bound.call((list, takes_conf, &conf))?))
        };
        functions.iter().filter(|(_, each)| !each.is_empty()).map(bind).collect()
    }
}

/// Runs a text that returns a function; errors are in APISIX's words.
fn function_of(core: &Core, text: &str) -> Result<Function, Failure> {
    let said = |what: &str, failure: Failure| match failure {
        Failure::Error(text) => Failure::Error(format!("{what}: {text}")),
        other => other,
    };
    let chunk = core.load(text, "").map_err(|failure| said("failed to loadstring", failure))?;
    let made = core.run_apart(&chunk, ()).map_err(|failure| said("pcall error", failure))?;
    match first(made) {
        Value::Function(function) => Ok(function),
        other => {
            let kind = other.type_name();
            let kind = if kind == "integer" { "number" } else { kind };
            let text = format!("only accept Lua function, the input code type is {kind}");
            Err(Failure::Error(text))
        }
    }
}

fn first(values: mlua::MultiValue) -> Value {
    values.into_iter().next().unwrap_or(Value::Nil)
}

fn table_of(value: Value) -> Result<Table, Failure> {
    match value {
        Value::Table(table) => Ok(table),
        other => {
            let kind = other.type_name();
            Err(Failure::Error(format!("the text must return a table of phases, not a {kind}")))
        }
    }
}

fn phases_of(module: &Table) -> Result<Vec<(&'static str, Vec<Function>)>, Failure> {
    let mut functions = Vec::new();
    for (name, _) in PHASE_NAMES {
        match module.get::<Value>(name).map_err(|error| failure_of(&error))? {
            Value::Function(function) => functions.push((name, vec![function])),
            Value::Nil => {}
            other => {
                let kind = other.type_name();
                return Err(Failure::Error(format!("{name} is a {kind}, not a function")));
            }
        }
    }
    Ok(functions)
}

impl Loaded {
    /// Returns the function of a phase, which takes the context; `None` if the program has none.
    #[inline]
    pub(crate) fn bound(&self, phase: &str) -> Option<&Function> {
        self.bound.iter().find(|(name, _)| *name == phase).map(|(_, function)| function)
    }

    /// Returns the functions of a phase that are called directly; `None` if they are not.
    #[inline]
    pub(crate) fn direct(&self, phase: &str) -> Option<&[DirectFunction]> {
        let (_, each) = self.direct.as_ref().filter(|(name, _)| *name == phase)?;
        Some(each)
    }

    /// Returns the functions of a phase, in order.
    pub(crate) fn each(&self, phase: &str) -> &[Function] {
        let found = self.functions.iter().find(|(name, _)| *name == phase);
        found.map_or(&[], |(_, each)| each)
    }

    /// Returns the phases in which the program runs.
    pub(crate) fn phases(&self) -> Phases {
        let named = |name: &str| PHASE_NAMES.iter().find(|(other, _)| *other == name);
        let each = self.functions.iter().filter_map(|(name, _)| named(name));
        each.fold(Phases::NONE, |all, (_, phase)| all.union(*phase))
    }
}
