//! Runs functions that wait: resumes them when the work that they wait for is done.

use std::rc::Rc;
use std::sync::Arc;

use mlua::{Function, MultiValue, Table, Thread, Value};
use tollhouse_plugin::{BodyError, RequestContext};

use crate::access::{InRequest, NoRequest};
use crate::failure::{Failure, failure_of};
use crate::program::Program;
use crate::progress::{Outcome, Progress, Wait};
use crate::request::RequestState;
use crate::state::Core;
use crate::world::{HttpReply, RedisReply};

/// Length of a request body that a script reads by default, in bytes.
const BODY_BYTES_MAX: u64 = 8 << 20;

/// Coroutine with what it runs for.
pub(crate) struct Running {
    pub(crate) core: Rc<Core>,
    /// `None` if the function cannot wait, so that it needs no coroutine.
    pub(crate) thread: Option<Thread>,
    pub(crate) request: Rc<RequestState>,
    pub(crate) program: Arc<Program>,
}

impl Running {
    /// Starts the function of a phase, and runs it until it ends or waits.
    ///
    /// # Errors
    /// If the function fails or exceeds a limit.
    pub(crate) fn start(
        &self,
        cx: &mut RequestContext<'_>,
        phase: &'static str,
        function: &Function,
    ) -> Result<Progress, Failure> {
        let ctx = &self.request.ctx;
        if self.thread.is_some() {
            let values = [Value::Function(function.clone()), Value::Table(ctx.clone())];
            return self.step(cx, phase, MultiValue::from_iter(values));
        }
        let mut access = InRequest { cx, phase };
        let (request, program) = (Some(&self.request), Some(&self.program));
        self.core.call(function, ctx, &mut access, request, program).map(Progress::Ended)
    }

    /// Resumes the coroutine for a request until it ends or waits.
    pub(crate) fn step(
        &self,
        cx: &mut RequestContext<'_>,
        phase: &'static str,
        values: MultiValue,
    ) -> Result<Progress, Failure> {
        let Some(thread) = &self.thread else {
            return Err(Failure::Error("this function waits in a hidden way".to_owned()));
        };
        let mut access = InRequest { cx, phase };
        let (request, program) = (Some(&self.request), Some(&self.program));
        self.core.resume(thread, values, &mut access, request, program)
    }

    /// Goes on after a wait until the function ends.
    ///
    /// # Errors
    /// If the function fails or exceeds a limit.
    pub(crate) async fn finish(
        &self,
        cx: &mut RequestContext<'_>,
        phase: &'static str,
        wait: Wait,
    ) -> Result<Outcome, Failure> {
        let mut wait = wait;
        loop {
            let instructions = self.core.shared.budget.instructions();
            let values = match wait {
                Wait::Sleep(time) => {
                    cx.sleep(time).await;
                    MultiValue::new()
                }
                Wait::Body(max) => self.body(cx, max.unwrap_or(BODY_BYTES_MAX)).await?,
                other => perform(&self.core, other).await?,
            };
            self.core.shared.budget.resume_phase(instructions);
            match self.step(cx, phase, values)? {
                Progress::Ended(outcome) => return Ok(outcome),
                Progress::Waits(next) => wait = next,
            }
        }
    }

    async fn body(&self, cx: &mut RequestContext<'_>, max: u64) -> Result<MultiValue, Failure> {
        match cx.read_body(max).await {
            Ok(body) => self.core.to_values(self.core.lua.create_string(body)),
            Err(BodyError::TooLarge) => {
                let text = format!("request body is longer than {max} bytes");
                self.core.to_values((Value::Nil, text))
            }
            Err(BodyError::Broken) => {
                self.core.to_values((Value::Nil, "the client has not sent the request body"))
            }
        }
    }
}

/// Runs a function of a timer until it ends.
///
/// # Errors
/// If the function fails or exceeds a limit.
pub(crate) async fn run_timer(
    core: &Rc<Core>,
    program: Option<&Arc<Program>>,
    function: &Function,
    arguments: Vec<Value>,
) -> Result<(), Failure> {
    let request = core.new_request()?;
    let thread = core.thread()?;
    let mut values = MultiValue::from_iter(arguments);
    values.push_front(Value::Function(function.clone()));
    core.shared.budget.begin_phase();
    let mut instructions = 0;
    loop {
        core.shared.budget.resume_phase(instructions);
        let mut access = NoRequest("timer");
        let progress = core.resume(&thread, values, &mut access, Some(&request), program)?;
        instructions = core.shared.budget.instructions();
        match progress {
            Progress::Ended(_) => return Ok(()),
            Progress::Waits(Wait::Sleep(time)) => {
                tokio::time::sleep(time).await;
                values = MultiValue::new();
            }
            Progress::Waits(Wait::Body(_)) => {
                return Err(Failure::Error("a timer has no request body".to_owned()));
            }
            Progress::Waits(other) => values = perform(core, other).await?,
        }
    }
}

/// Calls another service for a script.
async fn perform(core: &Rc<Core>, wait: Wait) -> Result<MultiValue, Failure> {
    let outside = Arc::clone(&core.shared.world.settings.outside);
    match wait {
        Wait::Http(call) => match outside.http(call).await {
            Ok(reply) => {
                let table = http_reply(core, &reply).map_err(|error| failure_of(&error))?;
                core.to_values(table)
            }
            Err(problem) => core.to_values((Value::Nil, problem)),
        },
        Wait::Redis(call) => match outside.redis(call).await {
            Ok(RedisReply::Error(problem)) => core.to_values((false, problem)),
            Ok(reply) => {
                let value = redis_reply(core, &reply).map_err(|error| failure_of(&error))?;
                core.to_values(value)
            }
            Err(problem) => core.to_values((Value::Nil, problem)),
        },
        Wait::Sleep(_) | Wait::Body(_) => Ok(MultiValue::new()),
    }
}

fn http_reply(core: &Core, reply: &HttpReply) -> mlua::Result<Table> {
    let (lua, table) = (&core.lua, core.lua.create_table()?);
    let headers = lua.create_table()?;
    for (name, value) in &reply.headers {
        let value = Value::String(lua.create_string(value)?);
        let name = name.to_ascii_lowercase();
        match headers.raw_get::<Value>(name.as_str())? {
            Value::Nil => headers.raw_set(name, value)?,
            Value::Table(list) => list.raw_push(value)?,
            first => headers.raw_set(name, lua.create_sequence_from([first, value])?)?,
        }
    }
    table.raw_set("status", reply.status)?;
    table.raw_set("headers", headers)?;
    table.raw_set("body", lua.create_string(&reply.body)?)?;
    Ok(table)
}

fn redis_reply(core: &Core, reply: &RedisReply) -> mlua::Result<Value> {
    Ok(match reply {
        RedisReply::Null => crate::json::NULL,
        RedisReply::Number(number) => Value::Number(*number as f64),
        RedisReply::Text(text) => Value::String(core.lua.create_string(text)?),
        RedisReply::List(items) => {
            let items = items.iter().map(|item| redis_reply(core, item));
            let items = items.collect::<mlua::Result<Vec<_>>>()?;
            Value::Table(core.lua.create_sequence_from(items)?)
        }
        RedisReply::Error(text) => {
            let text = core.lua.create_string(text)?;
            let pair = [Value::Boolean(false), Value::String(text)];
            Value::Table(core.lua.create_sequence_from(pair)?)
        }
    })
}
