//! The request: variables, headers, target and body.

use std::borrow::Cow;
use std::rc::Rc;

use mlua::{Function, LuaString, Result, Table, Value};
use tollhouse_model::variable::{Variable, query_argument};
use tollhouse_plugin::exchange::MatchedObject;

use super::builder::{Host, error, request_of, with};
use super::runtime::{GETTERS, registered};
use crate::json::to_lua;
use crate::progress::Wait;
use crate::shared::Shared;

/// Variables that the scripts of one request may set.
const VARIABLES_MAX: usize = 64;

/// Length of the value of such a variable, in bytes.
const VARIABLE_BYTES_MAX: usize = 64 << 10;

/// Request headers that say nothing about the user.
const HARMLESS_HEADERS: [&str; 17] = [
    "host",
    "user-agent",
    "accept",
    "accept-encoding",
    "accept-language",
    "content-type",
    "content-length",
    "content-encoding",
    "connection",
    "origin",
    "referer",
    "x-request-id",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-real-ip",
];

pub(super) fn add(host: &Host) -> Result<()> {
    variables(host)?;
    headers(host)?;
    target(host)?;
    body(host)?;
    let marks = Rc::clone(&host.marks);
    host.add("ctx_field", move |lua, name: LuaString| {
        let variable = |name: &str| {
            let variable = Variable::parse(name);
            with(|access| access.variable(&variable).map(Cow::into_owned))
        };
        let text = |value: Option<Vec<u8>>| match value {
            Some(value) => Ok(Value::String(lua.create_string(value)?)),
            None => Ok(Value::Nil),
        };
        let found = match &*name.to_str()? {
            "matched_route" => with(|access| access.matched(MatchedObject::Route)),
            "matched_service" => with(|access| access.matched(MatchedObject::Service)),
            "consumer" => with(|access| access.consumer()),
            "route_id" | "conf_id" => return text(variable("route_id")),
            "service_id" => return text(variable("service_id")),
            "consumer_name" => return text(variable("consumer_name")),
            "consumer_group_id" => return text(variable("consumer_group_id")),
            "conf_type" => return text(Some(b"route".to_vec())),
            _ => None,
        };
        match found {
            // APISIX has the document in the field `value`.
            Some(document) if name.as_bytes().starts_with(b"matched") => {
                let table = lua.create_table()?;
                table.set("value", to_lua(lua, &marks, &document)?)?;
                Ok(Value::Table(table))
            }
            Some(document) => to_lua(lua, &marks, &document),
            None => Ok(Value::Nil),
        }
    })
}

fn variables(host: &Host) -> Result<()> {
    host.add_shared("var", |lua, shared, name: Value| match name {
        Value::String(name) => variable(lua, shared, &name.to_str()?),
        _ => Ok(Value::Nil),
    })?;
    // Index of `ngx.var` itself, without a function of Lua between.
    let shared = Rc::clone(&host.shared);
    host.add_quick("var_index", move |lua, (_is_table, name): (bool, String)| {
        variable(lua, &shared, &name)
    })?;
    let shared = Rc::clone(&host.shared);
    host.add_quick(
        "nginx_var_index",
        move |lua, (_is_table, name): (bool, String)| match variable(lua, &shared, &name)? {
            Value::Nil => argument_in_any_case(lua, &name),
            found => Ok(found),
        },
    )?;
    host.add_shared("set_var", |_, shared, (name, value): (LuaString, Value)| {
        let name = name.to_str()?.to_owned();
        let value = match value {
            Value::Nil => Vec::new(),
            Value::String(text) => text.as_bytes().to_vec(),
            other => other.to_string()?.into_bytes(),
        };
        match name.as_str() {
            "uri" | "upstream_uri" | "request_uri" => return rewrite(&value),
            "args" => return set_query(&value),
            "upstream_host" => {
                with(|access| access.edits().map(|edits| edits.host = Some(value)));
                return Ok(());
            }
            _ => {}
        }
        if value.len() > VARIABLE_BYTES_MAX {
            return error(format!("the value of ngx.var.{name} is longer than 64 KiB"));
        }
        let request = request_of(shared)?;
        let mut own = request.variables.borrow_mut();
        if own.len() >= VARIABLES_MAX && !own.contains_key(&name) {
            return error(format!("a request has more than {VARIABLES_MAX} variables of its own"));
        }
        own.insert(name.clone(), value.clone());
        with(|access| {
            if let Some(edits) = access.edits() {
                edits.variables.retain(|(other, _)| *other != name);
                edits.variables.push((Cow::Owned(name), value));
            }
        });
        Ok(())
    })?;
    host.add("register_var", |lua, (name, getter): (LuaString, Function)| {
        let getters = match lua.named_registry_value::<Table>(GETTERS) {
            Ok(getters) => getters,
            Err(_) => {
                let made = lua.create_table()?;
                lua.set_named_registry_value(GETTERS, &made)?;
                made
            }
        };
        getters.raw_set(name, getter)
    })?;
    host.add("note_identity", |_, (name, grant): (LuaString, LuaString)| {
        with(|access| access.note_identity(&name.as_bytes(), &grant.as_bytes()));
        Ok(())
    })
}

/// Returns the value of a variable: of the request, set by a script, or registered by one.
fn variable(lua: &mlua::Lua, shared: &Shared, name: &str) -> Result<Value> {
    let variable = Variable::parse(name);
    match &variable {
        Variable::Header(header) => note_reading(header),
        Variable::Cookie(_) => with(|access| access.note_nameless()),
        _ => {}
    }
    let text = with(|access| access.variable(&variable).map(|value| shared.text(lua, &value)));
    if let Some(text) = text {
        return Ok(Value::String(text?));
    }
    let request = shared.request.borrow().as_ref().map(Rc::clone);
    let Some(request) = request else { return Ok(Value::Nil) };
    if let Some(value) = request.variables.borrow().get(name) {
        return Ok(Value::String(lua.create_string(value)?));
    }
    match registered(lua, &request, name)? {
        Some(value) => Ok(value),
        None if name == "status" => {
            let status = request.answer.borrow().status;
            status.map_or(Ok(Value::Nil), |status| {
                Ok(Value::String(lua.create_string(status.to_string())?))
            })
        }
        None => Ok(Value::Nil),
    }
}

/// Returns the value of `arg_<name>` for an argument whose name differs in its case.
fn argument_in_any_case(lua: &mlua::Lua, name: &str) -> Result<Value> {
    let Some(name) = name.strip_prefix("arg_") else { return Ok(Value::Nil) };
    let query = with(|access| access.variable(&Variable::Args).map(Cow::into_owned));
    let Some(query) = query else { return Ok(Value::Nil) };
    let mut pairs = query.split(|byte| *byte == b'&');
    let given = pairs.find_map(|pair| {
        let given = pair.split(|byte| *byte == b'=').next()?;
        given.eq_ignore_ascii_case(name.as_bytes()).then_some(given)
    });
    let given = given.and_then(|given| std::str::from_utf8(given).ok());
    match given.and_then(|given| query_argument(&query, given)) {
        Some(value) => Ok(Value::String(lua.create_string(&*value)?)),
        None => Ok(Value::Nil),
    }
}

/// Notes that a script has read a header that may tell users apart, so that answers are not stored
/// for others.
fn note_reading(header: &str) {
    if !HARMLESS_HEADERS.iter().any(|name| name.eq_ignore_ascii_case(header)) {
        with(|access| access.note_nameless());
    }
}

/// Returns the values that a script assigns to a header.
pub(super) fn values_of(value: &Value) -> Result<Vec<Vec<u8>>> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::String(text) => Ok(vec![text.as_bytes().to_vec()]),
        Value::Table(items) => {
            let mut values = Vec::new();
            for value in items.sequence_values::<Value>() {
                values.push(values_of(&value?)?.pop().unwrap_or_default());
            }
            Ok(values)
        }
        other => Ok(vec![other.to_string()?.into_bytes()]),
    }
}

fn headers(host: &Host) -> Result<()> {
    host.add("headers", |lua, ()| {
        let mut lines: Vec<(String, Vec<u8>)> = Vec::new();
        with(|access| {
            access.note_nameless();
            access.each_header(&mut |name, value| {
                let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                lines.push((name, value.to_vec()));
            });
        });
        table_of(lua, lines)
    })?;
    host.add("header", |lua, name: LuaString| {
        let name = name.to_str()?;
        let with_hyphens = name.replace('_', "-");
        note_reading(&with_hyphens);
        // A header of exactly this name comes first, as in tables of headers.
        let value = with(|access| match access.header(&name) {
            None if with_hyphens != *name => access.header(&with_hyphens),
            found => found,
        });
        value.map(|value| lua.create_string(value)).transpose()
    })?;
    host.add("raw_header", |lua, ()| {
        let mut out = Vec::new();
        with(|access| {
            access.note_nameless();
            out.extend(access.method());
            let uri = access.variable(&Variable::Named("real_request_uri".into()));
            let uri = uri.or_else(|| access.variable(&Variable::RequestUri));
            out.push(b' ');
            out.extend_from_slice(&uri.unwrap_or_default());
            out.extend_from_slice(b" HTTP/1.1\r\n");
            access.each_header(&mut |name, value| {
                for part in [name, b": ", value, b"\r\n"] {
                    out.extend_from_slice(part);
                }
            });
        });
        out.extend_from_slice(b"\r\n");
        lua.create_string(out)
    })?;
    host.add("set_header", |_, (name, value): (LuaString, Value)| {
        let (name, values) = (name.to_str()?.to_owned(), values_of(&value)?);
        change(|edits| {
            edits.headers.remove(&name);
            values.iter().for_each(|value| edits.headers.add(&name, value));
            if name.eq_ignore_ascii_case("host") {
                edits.host = values.into_iter().next();
            }
        })
    })?;
    host.add("add_header", |_, (name, value): (LuaString, Value)| {
        let (name, values) = (name.to_str()?.to_owned(), values_of(&value)?);
        change(|edits| values.iter().for_each(|value| edits.headers.add(&name, value)))
    })
}

fn change(change_it: impl FnOnce(&mut tollhouse_plugin::RequestEdits)) -> Result<()> {
    match with(|access| access.edits().map(change_it)) {
        Some(()) => Ok(()),
        None => error("the request cannot be changed in this phase"),
    }
}

/// Returns header lines as a table: a value, or a list for several lines of one name.
pub(super) fn table_of(lua: &mlua::Lua, lines: Vec<(String, Vec<u8>)>) -> Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in lines {
        let value = Value::String(lua.create_string(value)?);
        match table.raw_get::<Value>(name.as_str())? {
            Value::Nil => table.raw_set(name, value)?,
            Value::Table(list) => list.raw_push(value)?,
            first => table.raw_set(name, lua.create_sequence_from([first, value])?)?,
        }
    }
    Ok(table)
}

/// Sends the request to a path with an optional query.
fn rewrite(uri: &[u8]) -> Result<()> {
    let (path, query) = match uri.iter().position(|byte| *byte == b'?') {
        Some(at) => (&uri[..at], Some(&uri[at + 1..])),
        None => (uri, None),
    };
    with(|access| access.rewrite(path, query)).map_err(mlua::Error::runtime)
}

fn set_query(query: &[u8]) -> Result<()> {
    let Some((path, _)) = with(|access| access.target()) else {
        return error("the request cannot be changed in this phase");
    };
    let query = (!query.is_empty()).then_some(query);
    with(|access| access.rewrite(&path, query)).map_err(mlua::Error::runtime)
}

/// Methods by the numbers of `ngx.HTTP_*`.
const METHODS: [(u32, &str); 8] = [
    (2, "GET"),
    (4, "HEAD"),
    (8, "POST"),
    (16, "PUT"),
    (32, "DELETE"),
    (512, "OPTIONS"),
    (16_384, "PATCH"),
    (32_768, "TRACE"),
];

fn target(host: &Host) -> Result<()> {
    host.add("method", |lua, ()| lua.create_string(with(|access| access.method())))?;
    host.add("set_method", |_, number: u32| {
        match METHODS.iter().find(|(other, _)| *other == number) {
            Some((_, name)) => change(|edits| edits.method = Some(name)),
            None => error("unsupported HTTP method"),
        }
    })?;
    host.add("set_args", |_, query: LuaString| set_query(&query.as_bytes()))?;
    // A path that a script sets keeps the query of the request, as in nginx.
    host.add("set_uri", |_, (path, _jump): (LuaString, Option<bool>)| {
        let path = path.as_bytes();
        if path.contains(&b'?') {
            return rewrite(&path);
        }
        let Some((_, query)) = with(|access| access.target()) else {
            return error("the request cannot be changed in this phase");
        };
        let mut escaped = Vec::with_capacity(path.len());
        tollhouse_router::escape_into(&path, &mut escaped);
        with(|access| access.rewrite(&escaped, query.as_deref())).map_err(mlua::Error::runtime)
    })
}

fn body(host: &Host) -> Result<()> {
    host.add_shared("ask_body", |_, shared: &Shared, max: Option<f64>| {
        let max = max.map(|max| max.max(0.0) as u64);
        *shared.wait.borrow_mut() = Some(Wait::Body(max));
        Ok(())
    })?;
    host.add("body", |lua, ()| {
        with(|access| access.body()).map(|body| lua.create_string(body)).transpose()
    })?;
    host.add("set_body", |_, body: LuaString| {
        let body = body.as_bytes().to_vec();
        change(|edits| edits.body = Some(body))
    })
}
