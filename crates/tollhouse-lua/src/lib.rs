//! Lua in the path of requests: functions of objects, and plugins of a folder.
//!
//! Each core has one state, made when the first script runs on it. A script sees the part of
//! OpenResty and of APISIX's modules that `docs/guides/lua.md` lists. It runs through the plugin
//! contract; this crate knows neither the data plane nor the protocols of other services.

#![deny(unsafe_code)]

use std::sync::Arc;

use mlua::{MultiValue, Value};
use serde_json::Value as Json;
use tollhouse_model::variable::Lookup;
use tollhouse_plugin::answer::AnswerBody;
use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::scripting::ExitFunctions;
use tollhouse_plugin::{
    Answer, ConfError, FunctionPhase, RequestContext, RouteFilter, Scope, Scripting,
};

use crate::access::{InMatching, InRequest};
use crate::failure::{Failure, failure_of};
use crate::handler::{Preceded, ScriptHandler};
use crate::program::{Code, Program, phase_name};
use crate::progress::Outcome;
use crate::state::Core;
use crate::world::World;

pub use crate::folder::{FolderError, read_folder};
pub use crate::world::{HttpCall, HttpReply, Outside, RedisCall, RedisReply, Settings};

mod access;
mod body;
mod check;
mod direct;
mod drive;
mod failure;
mod folder;
mod handler;
mod host;
mod json;
mod known;
mod limits;
mod look;
mod lua_pattern;
mod own;
mod program;
mod progress;
mod request;
mod shared;
mod state;
mod timers;
mod world;

#[cfg(test)]
mod tests;

/// Compiler of scripts of a process.
pub struct Lua {
    world: Arc<World>,
}

impl Lua {
    /// Returns a compiler; states are made later, by the cores that need one.
    pub fn new(settings: Settings) -> Self {
        Self { world: Arc::new(World::new(settings)) }
    }

    /// Checks a program and returns its handler.
    fn handler(&self, program: Program) -> Result<ScriptHandler, ConfError> {
        let found = check::check(&self.world, &program, |_, loaded| {
            (loaded.phases(), !loaded.each("body_filter").is_empty())
        });
        let (phases, filters_body) = found.map_err(conf_error)?;
        let (world, program) = (Arc::clone(&self.world), Arc::new(program));
        Ok(ScriptHandler { world, program, phases, filters_body })
    }
}

fn conf_error(failure: Failure) -> ConfError {
    failure.to_string().into()
}

impl Scripting for Lua {
    fn functions(
        &self,
        plugin: &'static str,
        phase: FunctionPhase,
        texts: &[String],
        scope: &Scope<'_>,
    ) -> Result<SharedHandler, ConfError> {
        let code = Code::Functions { phase: phase_name(phase), texts: texts.to_vec() };
        let program = Program::new(plugin, code, scope.conf.clone());
        Ok(Arc::new(self.handler(program)?))
    }

    fn exit_functions(
        &self,
        plugin: &'static str,
        texts: &[String],
    ) -> Result<Arc<dyn ExitFunctions>, ConfError> {
        let program = Program::new(plugin, Code::Chunks(texts.to_vec()), Json::Null);
        check::check(&self.world, &program, |_, _| ()).map_err(conf_error)?;
        let (world, program) = (Arc::clone(&self.world), Arc::new(program));
        Ok(Arc::new(Exits { world, program }))
    }

    fn route_filter(&self, text: &str) -> Result<Arc<dyn RouteFilter>, ConfError> {
        let program = Program::new("filter_func", Code::Expression(text.to_owned()), Json::Null);
        check::check(&self.world, &program, |_, _| ()).map_err(|failure| match failure {
            Failure::Error(text) if text == "not a function" => {
                ConfError::from("'filter_func' should be a function")
            }
            other => format!("failed to load 'filter_func' string: {other}").into(),
        })?;
        let (world, program) = (Arc::clone(&self.world), Arc::new(program));
        Ok(Arc::new(Filter { world, program }))
    }

    fn before(
        &self,
        text: &str,
        conf: &Json,
        inner: SharedHandler,
    ) -> Result<SharedHandler, ConfError> {
        let code = Code::Functions { phase: "access", texts: vec![text.to_owned()] };
        let program = Program::new(inner.name(), code, conf.clone());
        let before = self.handler(program).map_err(|error| {
            let name = inner.name();
            format!("failed to load _meta.pre_function in plugin {name}: {error}")
        })?;
        Ok(Arc::new(Preceded { before, inner }))
    }

    fn check_function(&self, text: &str) -> Result<(), ConfError> {
        let code = Code::Functions { phase: "access", texts: vec![text.to_owned()] };
        self.handler(Program::new("", code, Json::Null)).map(drop)
    }

    fn script(&self, text: &str) -> Result<SharedHandler, ConfError> {
        let program = Program::new("script", Code::Script(text.to_owned()), Json::Null);
        let handler = self.handler(program);
        Ok(Arc::new(handler.map_err(|error| format!("failed to load 'script' string: {error}"))?))
    }
}

/// Condition of a route.
struct Filter {
    world: Arc<World>,
    program: Arc<Program>,
}

impl Filter {
    fn run(&self, request: &dyn Lookup) -> Result<bool, Failure> {
        let core = Core::for_thread(&self.world)?;
        let loaded = core.loaded(&self.program)?;
        let Some(function) = loaded.each("filter").first() else { return Ok(false) };
        let state = core.new_request()?;
        let mut access = InMatching(request);
        let program = Some(&self.program);
        let outcome = core.run_now(&mut access, Some(&state), program, function, &core.vars)?;
        core.give_back(&state);
        match outcome {
            Outcome::Returned(values) => {
                let first = values.into_iter().next().unwrap_or(Value::Nil);
                Ok(!matches!(first, Value::Nil | Value::Boolean(false)))
            }
            Outcome::Exited(_) => Ok(false),
        }
    }
}

impl RouteFilter for Filter {
    fn holds(&self, request: &dyn Lookup) -> bool {
        self.run(request).unwrap_or_else(|failure| {
            tracing::error!(error = %failure, "filter_func failed; the route takes no request");
            false
        })
    }
}

/// Functions that rewrite answers of plugins.
struct Exits {
    world: Arc<World>,
    program: Arc<Program>,
}

impl Exits {
    fn run(
        &self,
        cx: &mut RequestContext<'_>,
        answer: &Answer<'_>,
    ) -> Result<Answer<'static>, Failure> {
        let core = Core::for_thread(&self.world)?;
        let loaded = core.loaded(&self.program)?;
        let failed = |error: mlua::Error| failure_of(&error);
        let request = core.new_request()?;
        let mut values = self.values_of(&core, answer).map_err(failed)?;
        for function in loaded.each("exit") {
            let arguments = MultiValue::from_iter(values.clone());
            let mut access = InRequest { cx, phase: "access" };
            let (request, program) = (Some(&request), Some(&self.program));
            match core.run_now(&mut access, request, program, function, arguments) {
                Ok(Outcome::Returned(found)) => {
                    let mut found = found.into_iter();
                    values = [(); 3].map(|()| found.next().unwrap_or(Value::Nil));
                }
                Ok(Outcome::Exited(_)) => {}
                // As in APISIX, a function that fails leaves the answer as it is.
                Err(failure) => {
                    let plugin = self.program.plugin;
                    tracing::error!(plugin, error = %failure, "a script failed");
                }
            }
        }
        self.answer_of(&core, answer, values)
    }

    /// Returns code, body and headers as functions get them. A body of JSON is a table, as in
    /// APISIX.
    fn values_of(&self, core: &Core, answer: &Answer<'_>) -> mlua::Result<[Value; 3]> {
        let body = match &answer.body {
            AnswerBody::Text(text) => match serde_json::from_slice::<Json>(text) {
                Ok(found @ (Json::Object(_) | Json::Array(_))) => {
                    json::to_lua(&core.lua, &core.marks, &found)?
                }
                _ => Value::String(core.lua.create_string(text)?),
            },
            AnswerBody::Json(value) => json::to_lua(&core.lua, &core.marks, value)?,
            AnswerBody::Shared(bytes) => Value::String(core.lua.create_string(bytes)?),
            AnswerBody::None | AnswerBody::Empty | AnswerBody::LeftOut(_) => Value::Nil,
        };
        let headers = core.lua.create_table()?;
        for (name, value) in &answer.headers {
            headers.raw_set(&**name, core.lua.create_string(value)?)?;
        }
        Ok([Value::Number(f64::from(answer.status)), body, Value::Table(headers)])
    }

    fn answer_of(
        &self,
        core: &Core,
        answer: &Answer<'_>,
        [code, body, headers]: [Value; 3],
    ) -> Result<Answer<'static>, Failure> {
        let failed = |error: mlua::Error| failure_of(&error);
        let status = match code {
            Value::Integer(code) => u16::try_from(code).ok(),
            Value::Number(code) => Some(code as u16),
            _ => None,
        };
        let status = status.filter(|status| (200..=999).contains(status));
        let mut made = Answer::status(status.unwrap_or(answer.status));
        (made.refusal, made.refused_by) = (answer.refusal, answer.refused_by.clone());
        if let Value::Table(headers) = headers {
            for pair in headers.pairs::<String, Value>() {
                let (name, value) = pair.map_err(failed)?;
                let value = value.to_string().map_err(failed)?;
                made = made.with_header(name, value.into_bytes());
            }
        }
        made.body = match &body {
            Value::Nil => match answer.body {
                AnswerBody::Empty => AnswerBody::Empty,
                _ => AnswerBody::None,
            },
            Value::String(text) => AnswerBody::Text(text.as_bytes().to_vec().into()),
            Value::Table(_) => {
                let value = json::from_lua(&core.marks, &body, 0).map_err(Failure::Error)?;
                AnswerBody::Json(value)
            }
            other => AnswerBody::Text(other.to_string().map_err(failed)?.into_bytes().into()),
        };
        Ok(made)
    }
}

impl ExitFunctions for Exits {
    fn rewrite(&self, cx: &mut RequestContext<'_>, answer: &Answer<'_>) -> Option<Answer<'static>> {
        match self.run(cx, answer) {
            Ok(made) => Some(made),
            Err(failure) => {
                let plugin = self.program.plugin;
                tracing::error!(plugin, error = %failure, "a script failed");
                None
            }
        }
    }
}
