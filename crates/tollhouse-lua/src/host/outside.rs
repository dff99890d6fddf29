//! Waits of a script: time, and other services. The functions note the work; the caller of the
//! run does it.

use std::time::Duration;

use mlua::{Function, LuaString, Result, Table, Value};

use super::builder::{Host, error};
use super::request::values_of;
use crate::progress::Wait;
use crate::timers;
use crate::world::{HttpCall, RedisCall};

/// Longest sleep of a script; longer ones are shortened, because they hold a request.
const SLEEP_SECONDS_MAX: f64 = 60.0;

/// Length of a request body that a script sends, in bytes.
const BODY_BYTES_MAX: usize = 8 << 20;

pub(super) fn add(host: &Host) -> Result<()> {
    host.add_shared("ask_sleep", |_, shared, seconds: f64| {
        if seconds.is_nan() || seconds < 0.0 {
            return error("bad argument #1 to 'sleep' (expected a number of at least 0)");
        }
        let time = Duration::from_secs_f64(seconds.min(SLEEP_SECONDS_MAX));
        *shared.wait.borrow_mut() = Some(Wait::Sleep(time));
        Ok(())
    })?;
    type Http = (LuaString, LuaString, Option<Table>, Value, f64, bool);
    host.add_shared(
        "ask_http",
        |_, shared, (method, uri, headers, body, timeout, verifies): Http| {
            let mut lines = Vec::new();
            for pair in headers.iter().flat_map(Table::pairs::<Value, Value>) {
                let (name, value) = pair?;
                let name = name.to_string()?;
                lines.extend(values_of(&value)?.into_iter().map(|value| (name.clone(), value)));
            }
            let body = values_of(&body)?.pop().unwrap_or_default();
            if body.len() > BODY_BYTES_MAX {
                return error(format!("the body of a call is longer than {BODY_BYTES_MAX} bytes"));
            }
            *shared.wait.borrow_mut() = Some(Wait::Http(HttpCall {
                method: method.as_bytes().to_vec(),
                uri: uri.to_str()?.to_owned(),
                headers: lines,
                body,
                timeout_ms: timeout.clamp(1.0, 600_000.0) as u64,
                verifies,
            }));
            Ok(())
        },
    )?;
    type Redis = (LuaString, u16, bool, f64, Value, Value, i64, Table);
    host.add_shared("ask_redis", |_, shared, arguments: Redis| {
        let (address, port, tls, timeout, username, password, database, command) = arguments;
        let text = |value: &Value| match value {
            Value::String(text) => Ok::<_, mlua::Error>(Some(text.to_str()?.to_owned())),
            _ => Ok(None),
        };
        let parts = command.sequence_values::<Value>();
        let command = parts.map(|part| Ok(values_of(&part?)?.pop().unwrap_or_default()));
        *shared.wait.borrow_mut() = Some(Wait::Redis(RedisCall {
            host: address.to_str()?.to_owned(),
            port,
            tls,
            timeout_ms: timeout.clamp(1.0, 600_000.0) as u64,
            username: text(&username)?,
            password: text(&password)?,
            database,
            command: command.collect::<Result<_>>()?,
        }));
        Ok(())
    })?;
    type Timer = (f64, Function, Table, usize, bool);
    host.add_shared("timer", |_, shared, (delay, function, arguments, count, repeats): Timer| {
        let Some(core) = shared.core() else { return Ok(()) };
        let program = shared.program.borrow().as_ref().map(std::sync::Arc::clone);
        let delay = Duration::from_secs_f64(delay.clamp(0.0, 1e6));
        let mut values = Vec::with_capacity(count);
        for index in 1..=count {
            values.push(arguments.raw_get::<Value>(index)?);
        }
        let timer = timers::Timer { function, arguments: values, delay, repeats, program };
        match timers::start(core, timer) {
            Ok(()) => Ok(()),
            Err(problem) => error(problem),
        }
    })
}
