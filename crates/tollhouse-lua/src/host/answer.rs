//! The answer: status, headers and body. Before an answer exists, changes are noted and applied to
//! it later.

use mlua::{LuaString, Result, Value};

use super::builder::{Host, error, request_of, with};
use super::request::{table_of, values_of};
use crate::limits::TEXT_BYTES_MAX;
use crate::request::HeaderChange;
use crate::shared::Shared;

/// Headers that a request's scripts may note before an answer exists.
const HEADERS_MAX: usize = 100;

pub(super) fn add(host: &Host) -> Result<()> {
    host.add_shared("status", |_, shared, ()| {
        if let Some(status) = with(|access| access.answer().map(|answer| answer.status())) {
            return Ok(status);
        }
        let request = shared.request.borrow();
        Ok(request.as_ref().and_then(|request| request.answer.borrow().status).unwrap_or(0))
    })?;
    host.add_shared("set_status", |_, shared, status: f64| {
        let status = status as u16;
        if !(100..=999).contains(&status) {
            return error("invalid status: expected a number from 100 to 999");
        }
        let is_set = with(|access| access.answer().map(|answer| answer.set_status(status)));
        if is_set.is_none() {
            request_of(shared)?.answer.borrow_mut().status = Some(status);
        }
        Ok(())
    })?;
    host.add_shared("print", |_, shared, text: LuaString| {
        if with(|access| access.answer().is_some()) {
            return error("API disabled in this phase: use ngx.arg in body_filter");
        }
        let request = request_of(shared)?;
        let mut answer = request.answer.borrow_mut();
        if answer.body.len() + text.as_bytes().len() > TEXT_BYTES_MAX {
            return error(format!("the answer is longer than {TEXT_BYTES_MAX} bytes"));
        }
        answer.body.extend_from_slice(&text.as_bytes());
        answer.has_body = true;
        Ok(())
    })?;
    host.add_shared("exit", |_, shared, code: f64| {
        shared.exit.set(Some(code as i64));
        Ok(())
    })?;
    host.add_shared("redirect", |_, shared, (uri, status): (LuaString, f64)| {
        let status = status as u16;
        if ![301, 302, 303, 307, 308].contains(&status) {
            return error("only ngx.HTTP_MOVED_* statuses are redirects: 301, 302, 303, 307, 308");
        }
        note(
            shared,
            HeaderChange {
                name: "Location".to_owned(),
                values: vec![uri.as_bytes().to_vec()],
                is_added: false,
            },
        )?;
        request_of(shared)?.answer.borrow_mut().status = Some(status);
        shared.exit.set(Some(i64::from(status)));
        Ok(())
    })?;
    headers(host)?;
    pieces(host)
}

fn header_name(name: &LuaString) -> Result<String> {
    Ok(name.to_str()?.replace('_', "-"))
}

fn note(shared: &Shared, change: HeaderChange) -> Result<()> {
    let request = request_of(shared)?;
    let mut answer = request.answer.borrow_mut();
    if answer.headers.len() >= HEADERS_MAX {
        return error(format!("a request's scripts set more than {HEADERS_MAX} headers"));
    }
    answer.headers.push(change);
    Ok(())
}

fn headers(host: &Host) -> Result<()> {
    host.add_shared("answer_header", |lua, shared, name: LuaString| {
        let name = header_name(&name)?;
        let found = match with(|access| access.answer().map(|answer| answer.header(&name))) {
            Some(found) => found,
            None => {
                let request = shared.request.borrow();
                request.as_ref().and_then(|request| request.answer.borrow().header(&name))
            }
        };
        found.map(|value| lua.create_string(value)).transpose()
    })?;
    host.add_shared("set_answer_header", |_, shared, (name, value): (LuaString, Value)| {
        let (name, values) = (header_name(&name)?, values_of(&value)?);
        let is_set = with(|access| access.answer().map(|answer| answer.set_header(&name, &values)));
        match is_set {
            Some(()) => Ok(()),
            None => note(shared, HeaderChange { name, values, is_added: false }),
        }
    })?;
    host.add_shared("add_answer_header", |_, shared, (name, value): (LuaString, Value)| {
        let (name, values) = (header_name(&name)?, values_of(&value)?);
        let is_added = with(|access| {
            access.answer().map(|answer| {
                values.iter().for_each(|value| answer.add_header(&name, value));
            })
        });
        match is_added {
            Some(()) => Ok(()),
            None => note(shared, HeaderChange { name, values, is_added: true }),
        }
    })?;
    host.add("answer_headers", |lua, ()| {
        let mut lines = Vec::new();
        with(|access| {
            if let Some(answer) = access.answer() {
                answer.each_header(&mut |name, value| {
                    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                    lines.push((name, value.to_vec()));
                });
            }
        });
        table_of(lua, lines)
    })?;
    host.add("answer_source", |_, ()| {
        Ok(with(|access| access.answer().map(|answer| answer.source())))
    })
}

fn pieces(host: &Host) -> Result<()> {
    host.add_shared("arg", |lua, shared, index: usize| {
        let request = request_of(shared)?;
        match index {
            1 => {
                let piece = request.piece.borrow();
                let text = piece.as_ref().map(|piece| lua.create_string(piece)).transpose()?;
                Ok(text.map_or(Value::Nil, Value::String))
            }
            2 => Ok(Value::Boolean(request.is_last_piece.get())),
            _ => Ok(Value::Nil),
        }
    })?;
    host.add_shared("set_arg", |_, shared, (index, value): (usize, Value)| {
        let request = request_of(shared)?;
        if index == 1 {
            *request.piece.borrow_mut() = match &value {
                Value::Nil => None,
                Value::Table(_) => Some(values_of(&value)?.concat()),
                other => values_of(other)?.pop(),
            };
        } else if index == 2 {
            request.is_last_piece.set(!matches!(value, Value::Nil | Value::Boolean(false)));
        }
        Ok(())
    })?;
    host.add_shared("hold_body", |lua, shared, max: Option<f64>| {
        let request = request_of(shared)?;
        let max = max.map_or(TEXT_BYTES_MAX, |max| (max as usize).min(TEXT_BYTES_MAX));
        let program = shared.program.borrow().as_ref().map_or(0, |program| program.id);
        let piece = request.piece.borrow_mut().take().unwrap_or_default();
        let mut all = request.held.borrow_mut();
        let held = all.entry(program).or_default();
        if held.len() + piece.len() > max {
            return error(format!("the held body is longer than {max} bytes"));
        }
        held.extend_from_slice(&piece);
        if !request.is_last_piece.get() {
            return Ok(Value::Nil);
        }
        let body = std::mem::take(held);
        Ok(Value::String(lua.create_string(body)?))
    })
}
