//! Functions of the gateway that `prelude.lua` and `modules.lua` build the interface of scripts
//! from. Scripts never see this table itself.

use std::rc::Rc;

use mlua::{FromLuaMulti, IntoLuaMulti, Lua, Result, Table};

use crate::access::{Access, CURRENT};
use crate::json::Marks;
use crate::limits::LimitReached;
use crate::request::RequestState;
use crate::state::{Failure, Shared};

mod answer;
mod codec;
mod outside;
mod regex;
mod request;
mod runtime;
mod text;
mod time;

/// Returns the table of all functions.
///
/// # Errors
/// If memory is exhausted for it.
pub(crate) fn table(lua: &Lua, shared: &Rc<Shared>, marks: &Rc<Marks>) -> Result<Table> {
    let host = Host {
        lua: lua.clone(),
        table: lua.create_table()?,
        shared: Rc::clone(shared),
        marks: Rc::clone(marks),
    };
    runtime::add(&host)?;
    text::add(&host)?;
    codec::add(&host)?;
    regex::add(&host)?;
    time::add(&host)?;
    request::add(&host)?;
    answer::add(&host)?;
    outside::add(&host)?;
    Ok(host.table)
}

/// Table of functions while it is filled.
struct Host {
    lua: Lua,
    table: Table,
    shared: Rc<Shared>,
    marks: Rc<Marks>,
}

impl Host {
    fn add<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &str,
        function: impl Fn(&Lua, A) -> Result<R> + 'static,
    ) -> Result<()> {
        self.table.raw_set(name, self.lua.create_function(function)?)
    }

    /// Adds a function that uses the state that runs share.
    fn add_shared<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &str,
        function: impl Fn(&Lua, &Shared, A) -> Result<R> + 'static,
    ) -> Result<()> {
        let shared = Rc::clone(&self.shared);
        self.add(name, move |lua, arguments| function(lua, &shared, arguments))
    }
}

/// Runs `use_it` with what the current phase may see.
fn with<T>(use_it: impl FnOnce(&mut (dyn Access + '_)) -> T) -> T {
    CURRENT.with(|access| use_it(access))
}

fn error<T>(text: impl std::fmt::Display) -> Result<T> {
    Err(mlua::Error::runtime(text))
}

/// Returns the state of the current request.
///
/// # Errors
/// If the function runs without a request.
fn request_of(shared: &Shared) -> Result<Rc<RequestState>> {
    match &*shared.request.borrow() {
        Some(request) => Ok(Rc::clone(request)),
        None => error("this function needs a request; it cannot be used while a script is loaded"),
    }
}

/// Ends the run if a limit was reached within a run inside of it; other failures are errors.
fn passed_on<T>(result: std::result::Result<T, Failure>) -> Result<T> {
    match result {
        Ok(value) => Ok(value),
        Err(Failure::Limit) => std::panic::resume_unwind(Box::new(LimitReached)),
        Err(failure) => error(failure),
    }
}
