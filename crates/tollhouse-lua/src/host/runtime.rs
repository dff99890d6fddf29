//! The environment of scripts: globals, loading of texts, logs, dictionaries and schemas.

use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{Function, IntoLua, LuaString, MultiValue, Result, Table, Value};
use tollhouse_model::schema::Schema;

use super::builder::{Host, error, passed_on, request_of, with};
use crate::failure::text_of;
use crate::json::{NULL, from_lua, to_lua};
use crate::shared::Shared;
use crate::world::{Shared as SharedValue, WriteIf};

/// Length of a text that is loaded at run time, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

pub(super) fn add(host: &Host) -> Result<()> {
    host.table.raw_set("null", NULL)?;
    host.table.raw_set("array_mt", host.marks.array.clone())?;
    let empty = host.lua.create_table()?;
    empty.set_metatable(Some(host.marks.array.clone()))?;
    host.table.raw_set("empty_array", empty)?;
    host.add_shared("waiting", |_, shared, ()| {
        Ok(shared.wait.borrow().is_some() || shared.exit.get().is_some())
    })?;
    // The conversion of the argument continues a panic, so that a limit cannot be caught.
    host.add("error_text", |_, value: Value| {
        Ok(match &value {
            Value::Error(error) => text_of(error),
            other => other.to_string()?,
        })
    })?;
    host.add("check_time", |_, ()| Ok(()))?;
    host.add("memory", |lua, ()| Ok(lua.used_memory()))?;
    host.add("worker_id", |_, ()| Ok(0))?;
    host.add("phase", |_, ()| Ok(with(|access| access.phase())))?;
    globals(host)?;
    loading(host)?;
    logs(host)?;
    dictionaries(host)?;
    host.add_shared("plugin_attr", {
        let marks = Rc::clone(&host.marks);
        move |lua, shared, name: LuaString| {
            let attributes = &shared.world.settings.attributes;
            match attributes.get(&*name.to_str()?) {
                Some(value) => to_lua(lua, &marks, value),
                None => Ok(Value::Nil),
            }
        }
    })?;
    host.add_shared("plugin_metadata", {
        let marks = Rc::clone(&host.marks);
        move |lua, shared, _name: Option<LuaString>| {
            let program = shared.program.borrow();
            match program.as_ref().and_then(|program| program.metadata.as_ref()) {
                Some(value) => to_lua(lua, &marks, value),
                None => Ok(Value::Nil),
            }
        }
    })?;
    let of_program =
        |shared: &Shared| shared.program.borrow().as_ref().map_or(0, |program| program.id);
    host.add_shared("instance", move |_, shared, ()| Ok(of_program(shared)))?;
    host.add_shared("version", move |_, shared, ()| Ok(of_program(shared)))?;
    let marks = Rc::clone(&host.marks);
    host.add("check_schema", move |lua, (document, value): (Value, Value)| {
        let read = |value: &Value| from_lua(&marks, value, 0).map_err(mlua::Error::runtime);
        let schema = Schema::compile(&read(&document)?).map_err(mlua::Error::external)?;
        let mut checked = read(&value)?;
        if let Err(violation) = schema.validate_and_fill(&mut checked) {
            return (false, String::from(violation)).into_lua_multi_of(lua);
        }
        // Defaults go into the table itself, as in APISIX.
        if let (Value::Table(table), serde_json::Value::Object(fields)) = (&value, &checked) {
            for (name, field) in fields {
                if table.raw_get::<Value>(name.as_str())? == Value::Nil {
                    table.raw_set(name.as_str(), to_lua(lua, &marks, field)?)?;
                }
            }
        }
        (true, Value::Nil).into_lua_multi_of(lua)
    })
}

/// Shorter name of the conversion of results.
trait IntoMulti {
    fn into_lua_multi_of(self, lua: &mlua::Lua) -> Result<MultiValue>;
}

impl<T: mlua::IntoLuaMulti> IntoMulti for T {
    fn into_lua_multi_of(self, lua: &mlua::Lua) -> Result<MultiValue> {
        self.into_lua_multi(lua)
    }
}

fn globals(host: &Host) -> Result<()> {
    host.add_shared("globals", |lua, shared, makes: bool| {
        let request = if makes {
            passed_on(shared.request())?
        } else {
            shared.request.borrow().as_ref().map(Rc::clone)
        };
        let Some(request) = request else { return Ok(None) };
        let mut globals = request.globals.borrow_mut();
        if globals.is_none() && makes {
            *globals = Some(lua.create_table()?);
        }
        Ok(globals.clone())
    })?;
    host.add_shared("ctx", |lua, shared, ()| {
        let request = request_of(shared)?;
        let mut ctx = request.ngx_ctx.borrow_mut();
        if ctx.is_none() {
            *ctx = Some(lua.create_table()?);
        }
        Ok(ctx.clone())
    })?;
    host.add_shared("set_ctx", |_, shared, ctx: Table| {
        *request_of(shared)?.ngx_ctx.borrow_mut() = Some(ctx);
        Ok(())
    })
}

fn loading(host: &Host) -> Result<()> {
    host.add("load", |lua, (text, name, environment): (LuaString, Option<LuaString>, Table)| {
        let text = text.as_bytes();
        if text.len() > TEXT_BYTES_MAX {
            return (Value::Nil, "the text is too long").into_lua_multi_of(lua);
        }
        // Bytecode could break the rules of the interpreter.
        if text.first() == Some(&0x1b) {
            return (Value::Nil, "bytecode cannot be loaded").into_lua_multi_of(lua);
        }
        let name = match name {
            Some(name) => name.to_string_lossy(),
            None => String::from_utf8_lossy(&text).replace('\0', " "),
        };
        let chunk = lua.load(&text[..]).set_mode(ChunkMode::Text).set_name(name);
        match chunk.set_environment(environment).into_function() {
            Ok(function) => function.into_lua(lua)?.into_lua_multi_of(lua),
            Err(error) => (Value::Nil, text_of(&error)).into_lua_multi_of(lua),
        }
    })?;
    host.add_shared("load_module", |_, shared, name: LuaString| {
        let Some(core) = shared.core() else { return Ok(Value::Nil) };
        Ok(passed_on(core.own_module(&name.to_str()?))?.unwrap_or(Value::Nil))
    })
}

fn logs(host: &Host) -> Result<()> {
    host.add_shared("log", |_, shared, (level, text): (u8, LuaString)| {
        let program = shared.program.borrow();
        let plugin = program.as_ref().map_or("", |program| program.plugin);
        let text = text.to_string_lossy();
        match level {
            0..=4 => tracing::error!(plugin, text, "a script says"),
            5 => tracing::warn!(plugin, text, "a script says"),
            6..=7 => tracing::info!(plugin, text, "a script says"),
            _ => tracing::debug!(plugin, text, "a script says"),
        }
        Ok(())
    })
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the time at which an entry ends; 0 for never.
fn ends_ms(seconds: f64) -> u64 {
    if seconds > 0.0 { now_ms().saturating_add((seconds * 1000.0) as u64) } else { 0 }
}

fn key_of(value: &Value) -> Result<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Nil => error("nil key"),
        other => Ok(other.to_string()?.into_bytes()),
    }
}

fn shared_value(value: &Value) -> Result<Option<SharedValue>> {
    Ok(Some(match value {
        Value::Nil => return Ok(None),
        Value::String(text) => SharedValue::Text(text.as_bytes().to_vec()),
        Value::Boolean(it) => SharedValue::Boolean(*it),
        Value::Integer(it) => SharedValue::Number(*it as f64),
        Value::Number(it) => SharedValue::Number(*it),
        _ => return error("bad value type"),
    }))
}

fn dictionaries(host: &Host) -> Result<()> {
    host.add_shared("dict_get", |lua, shared, (name, key): (LuaString, Value)| {
        match shared.world.get(&name.as_bytes(), &key_of(&key)?, now_ms()) {
            None => Ok(Value::Nil),
            Some(SharedValue::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
            Some(SharedValue::Number(it)) => Ok(Value::Number(it)),
            Some(SharedValue::Boolean(it)) => Ok(Value::Boolean(it)),
        }
    })?;
    type Write = (LuaString, LuaString, Value, Value, f64);
    host.add_shared("dict_set", |_, shared, (name, how, key, value, ttl): Write| {
        let condition = match &*how.to_str()? {
            "add" => WriteIf::Absent,
            "replace" => WriteIf::Present,
            _ => WriteIf::Always,
        };
        let (key, value) = (key_of(&key)?, shared_value(&value)?);
        let place = (&*name.as_bytes(), &*key);
        let written = shared.world.set(place, value, (ends_ms(ttl), now_ms()), condition);
        Ok((written.is_ok(), written.err(), false))
    })?;
    type Addition = (LuaString, Value, f64, Option<f64>, f64);
    host.add_shared("dict_incr", |_, shared, (name, key, by, start, ttl): Addition| {
        let key = key_of(&key)?;
        let place = (&*name.as_bytes(), &*key);
        let sum = shared.world.add(place, by, start, (ends_ms(ttl), now_ms()));
        Ok((sum.ok(), sum.err(), false))
    })?;
    host.add_shared("dict_ttl", |_, shared, (name, key): (LuaString, Value)| {
        let now_ms = now_ms();
        let ends = shared.world.ends_ms(&name.as_bytes(), &key_of(&key)?, now_ms);
        let left = ends.map(|ends| if ends == 0 { 0 } else { ends.saturating_sub(now_ms) });
        Ok((left.map(|left| left as f64 / 1000.0), left.is_none().then_some("not found")))
    })?;
    host.add_shared("dict_expire", |_, shared, (name, key, ttl): (LuaString, Value, f64)| {
        let is_found =
            shared.world.expire(&name.as_bytes(), &key_of(&key)?, ends_ms(ttl), now_ms());
        Ok((is_found.then_some(true), (!is_found).then_some("not found")))
    })?;
    host.add_shared("dict_flush", |_, shared, name: LuaString| {
        shared.world.flush(&name.as_bytes());
        Ok(())
    })?;
    host.add_shared("dict_keys", |lua, shared, (name, max): (LuaString, usize)| {
        let max = if max == 0 { usize::MAX } else { max };
        let keys = shared.world.keys(&name.as_bytes(), max, now_ms());
        let keys = keys.into_iter().map(|key| lua.create_string(key));
        lua.create_sequence_from(keys.collect::<Result<Vec<_>>>()?)
    })
}

/// Calls the getter of a variable that scripts have registered with `core.ctx.register_var`.
pub(super) fn registered(lua: &mlua::Lua, shared: &Shared, name: &str) -> Result<Option<Value>> {
    let Ok(getters) = lua.named_registry_value::<Table>(GETTERS) else { return Ok(None) };
    let getter = getters.raw_get::<Option<Function>>(name)?;
    match getter.zip(passed_on(shared.request())?) {
        Some((getter, request)) => Ok(Some(getter.call(request.ctx.clone())?)),
        None => Ok(None),
    }
}

/// Name of the table of registered variables in the registry.
pub(super) const GETTERS: &str = "tollhouse.getters";
