//! Table of the gateway's functions while it is filled, and what most of these functions use.

use std::rc::Rc;

use mlua::{FromLuaMulti, IntoLuaMulti, Lua, Result, Table};

use crate::access::{Access, CURRENT};
use crate::failure::Failure;
use crate::json::Marks;
use crate::limits::LimitReached;
use crate::request::RequestState;
use crate::shared::Shared;

/// Table of functions while it is filled.
pub(super) struct Host {
    pub(super) lua: Lua,
    pub(super) table: Table,
    pub(super) shared: Rc<Shared>,
    pub(super) marks: Rc<Marks>,
}

impl Host {
    pub(super) fn add<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &str,
        function: impl Fn(&Lua, A) -> Result<R> + 'static,
    ) -> Result<()> {
        let shared = Rc::clone(&self.shared);
        self.add_quick(name, move |lua, arguments| {
            shared.budget.check();
            function(lua, arguments)
        })
    }

    /// Adds a function of small constant cost, which does not check the time of the run.
    pub(super) fn add_quick<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &str,
        function: impl Fn(&Lua, A) -> Result<R> + 'static,
    ) -> Result<()> {
        self.table.raw_set(name, self.lua.create_function(function)?)
    }

    /// Adds a function that uses the state that runs share.
    pub(super) fn add_shared<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &str,
        function: impl Fn(&Lua, &Shared, A) -> Result<R> + 'static,
    ) -> Result<()> {
        let shared = Rc::clone(&self.shared);
        self.add(name, move |lua, arguments| function(lua, &shared, arguments))
    }
}

/// Runs `use_it` with what the current phase may see.
pub(super) fn with<T>(use_it: impl FnOnce(&mut (dyn Access + '_)) -> T) -> T {
    CURRENT.with(|access| use_it(access))
}

pub(super) fn error<T>(text: impl std::fmt::Display) -> Result<T> {
    Err(mlua::Error::runtime(text))
}

/// Returns the state of the current request.
///
/// # Errors
/// If the function runs without a request.
pub(super) fn request_of(shared: &Shared) -> Result<Rc<RequestState>> {
    match passed_on(shared.request())? {
        Some(request) => Ok(request),
        None => error("this function needs a request; it cannot be used while a script is loaded"),
    }
}

/// Ends the run if a limit was reached within a run inside of it; other failures are errors.
pub(super) fn passed_on<T>(result: std::result::Result<T, Failure>) -> Result<T> {
    match result {
        Ok(value) => Ok(value),
        Err(Failure::Limit) => std::panic::resume_unwind(Box::new(LimitReached)),
        Err(failure) => error(failure),
    }
}
