//! Functions of the gateway that `prelude.lua` and `modules.lua` build the interface of scripts
//! from. Scripts never see this table itself.

use std::rc::Rc;

use mlua::{Lua, Result, Table};

use self::builder::Host;
use crate::json::Marks;
use crate::shared::Shared;

mod answer;
mod builder;
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
