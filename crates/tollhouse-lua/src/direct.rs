//! Calls by the C interface of Lua: of functions that neither wait nor use their context, and of the
//! index of variables. Each costs a fifth of the instructions that it costs by `mlua`, which checks
//! and copies every value between two stacks.
//!
//! All `unsafe` code of the crate is here. What it relies on:
//!
//! - The coroutine of [`Calls`] is used only here, and only while no call is in progress on it, so that
//!   its stack holds what this file has put there.
//! - The state outlives the coroutine: `Calls` owns a handle of the state, and the table of places,
//!   which `Calls` owns too, keeps the coroutine from being collected.
//! - Nothing of Lua that can fail runs outside of `lua_pcall`. What runs outside reads and writes
//!   existing places of a table and reserved places of the stack, and allocates nothing.
//! - Where Lua may end [`index`] with an error, no value with a destructor is alive.

#![expect(unsafe_code, reason = "three lines of Lua cost 2,000 instructions less; see above")]

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use mlua::{Error, Function, Lua, Table, Value, ffi, lua_State};

use crate::shared::Shared;

/// Places of the table for what a call leaves behind, and for the coroutine itself.
const FIRST_RESULT: c_int = 1;
const SECOND_RESULT: c_int = 2;
const COROUTINE: c_int = 3;

/// First place of the table for functions; each function has two, for itself and its conf.
const FIRST_FUNCTION: c_int = 4;

/// Indexes on the stack of the coroutine: the table of places, and the context of all calls.
const PLACES_AT: c_int = 1;
const CTX_AT: c_int = 2;

/// Function with its conf in the table of places.
#[derive(Debug)]
pub(crate) struct DirectFunction {
    place: c_int,
    free: Rc<RefCell<Vec<c_int>>>,
}

impl Drop for DirectFunction {
    /// Gives the place back. It keeps its values until the next function takes it, because a function
    /// may be dropped where Lua cannot be called.
    fn drop(&mut self) {
        self.free.borrow_mut().push(self.place);
    }
}

/// Outcome of a call.
pub(crate) enum Called {
    /// The function returned nothing, or only nil.
    Nothing,
    Returned(Value, Value),
    Failed(Error),
}

/// Coroutine on which functions are called.
pub(crate) struct Calls {
    coroutine: *mut lua_State,
    places: Table,
    free: Rc<RefCell<Vec<c_int>>>,
    next: Cell<c_int>,
    is_busy: Cell<bool>,
    /// Keeps the state open. Last, so that it is dropped after everything else.
    _lua: Lua,
}

impl Calls {
    /// Makes the coroutine. `ctx` is the context that all functions get; they must not keep or change
    /// it.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub(crate) fn new(lua: &Lua, ctx: &Table) -> mlua::Result<Self> {
        let places = lua.create_table()?;
        // The places exist before a call writes to them, so that a write allocates nothing.
        for place in FIRST_RESULT..FIRST_FUNCTION {
            places.raw_set(place, false)?;
        }
        let mut coroutine = std::ptr::null_mut();
        // SAFETY: the closure runs protected. Two arguments are on the stack of `state`, and three
        // further places are reserved; a new coroutine has room for two values.
        unsafe {
            lua.exec_raw::<()>((&places, ctx), |state| {
                coroutine = ffi::lua_newthread(state);
                ffi::lua_rawseti_(state, 1, COROUTINE);
                ffi::lua_xmove(state, coroutine, 2);
            })?;
        }
        Ok(Self {
            coroutine,
            places,
            free: Rc::default(),
            next: Cell::new(FIRST_FUNCTION),
            is_busy: Cell::new(false),
            _lua: lua.clone(),
        })
    }

    /// Puts a function and its conf into the table of places.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub(crate) fn prepare(
        &self,
        function: &Function,
        conf: &Value,
    ) -> mlua::Result<DirectFunction> {
        let reused = self.free.borrow_mut().pop();
        let place = reused.unwrap_or_else(|| self.next.replace(self.next.get() + 2));
        let prepared = DirectFunction { place, free: Rc::clone(&self.free) };
        self.places.raw_set(place, function)?;
        self.places.raw_set(place + 1, conf)?;
        Ok(prepared)
    }

    /// Calls a function with its conf and the context. Returns `None`, without a call, while another
    /// call is in progress.
    ///
    /// # Panics
    /// With the panic of a function of the gateway that the function has called.
    pub(crate) fn call(&self, function: &DirectFunction) -> Option<Called> {
        if self.is_busy.replace(true) {
            return None;
        }
        let coroutine = self.coroutine;
        // SAFETY: the coroutine lives and is not in use, see the head of this file. Its stack holds
        // two values and has room for eighteen more. `lua_pcall` catches errors of Lua and panics of
        // the gateway's functions; the other functions cannot fail with these arguments.
        let status = unsafe {
            ffi::lua_rawgeti_(coroutine, PLACES_AT, function.place);
            ffi::lua_rawgeti_(coroutine, PLACES_AT, function.place + 1);
            ffi::lua_pushvalue(coroutine, CTX_AT);
            let status = ffi::lua_pcall(coroutine, 2, ffi::LUA_MULTRET, 0);
            if status == ffi::LUA_OK {
                // Most functions return nothing.
                if ffi::lua_gettop(coroutine) == CTX_AT {
                    self.is_busy.set(false);
                    return Some(Called::Nothing);
                }
                ffi::lua_settop(coroutine, CTX_AT + 2);
                let is_nil = |at| ffi::lua_type(coroutine, at) == ffi::LUA_TNIL;
                if is_nil(CTX_AT + 1) && is_nil(CTX_AT + 2) {
                    ffi::lua_settop(coroutine, CTX_AT);
                    self.is_busy.set(false);
                    return Some(Called::Nothing);
                }
                ffi::lua_rawseti_(coroutine, PLACES_AT, SECOND_RESULT);
            }
            ffi::lua_rawseti_(coroutine, PLACES_AT, FIRST_RESULT);
            ffi::lua_settop(coroutine, CTX_AT);
            status
        };
        self.is_busy.set(false);
        let [first, second] = [FIRST_RESULT, SECOND_RESULT].map(|place| self.taken(place));
        Some(if status == ffi::LUA_OK {
            Called::Returned(first, second)
        } else {
            Called::Failed(error_of(first, status))
        })
    }

    /// Returns the value of a place, which is empty afterwards. Reading the place continues a panic of
    /// the gateway's functions.
    fn taken(&self, place: c_int) -> Value {
        let value = self.places.raw_get(place).unwrap_or(Value::Nil);
        let _ = self.places.raw_set(place, false);
        value
    }
}

fn error_of(thrown: Value, status: c_int) -> Error {
    if status == ffi::LUA_ERRMEM {
        return Error::MemoryError("not enough memory".to_owned());
    }
    match thrown {
        Value::Error(error) => *error,
        Value::String(text) => Error::RuntimeError(text.to_string_lossy()),
        Value::Integer(number) => Error::RuntimeError(number.to_string()),
        Value::Number(number) => Error::RuntimeError(number.to_string()),
        // The text of a table may be that of a function of the script.
        other => Error::RuntimeError(format!("<{}>", other.type_name())),
    }
}

/// Returns an index function for tables of variables: texts of the request come from
/// [`Shared::read_variable`], everything else from `fallback`, which takes table and name.
///
/// # Errors
/// If memory is exhausted.
pub(crate) fn variable_index(
    lua: &Lua,
    shared: &Rc<Shared>,
    fallback: impl Fn(&Lua, &Shared, &str) -> mlua::Result<Value> + 'static,
) -> mlua::Result<Function> {
    let owner = Rc::clone(shared);
    let fallback = lua.create_function(move |lua, (_is_table, name): (bool, String)| {
        fallback(lua, &owner, &name)
    })?;
    let shared: *const Shared = &raw const **shared;
    // SAFETY: the closure runs protected; one argument is on the stack, and three further places are
    // reserved. The function `fallback` owns the memory of the pointer, and the new function owns
    // `fallback`.
    unsafe {
        lua.exec_raw(fallback, |state| {
            ffi::lua_pushlightuserdata(state, shared.cast_mut().cast());
            ffi::lua_insert(state, 1);
            ffi::lua_pushcclosure(state, index, 2);
        })
    }
}

/// Index function of [`variable_index`]: its values are the pointer of the state and the fallback.
unsafe extern "C-unwind" fn index(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this function with the values of `variable_index`, and with twenty free places
    // on the stack. The name is read only while it is on the stack. The text is copied before anything
    // else can run.
    unsafe {
        let mut bytes = 0;
        let name = ffi::lua_tolstring(state, 2, &raw mut bytes);
        if !name.is_null() {
            let shared: *const Shared = ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast();
            let name = std::slice::from_raw_parts(name.cast::<u8>(), bytes);
            if let Some(text) = read(&*shared, name) {
                ffi::lua_pushlstring_(state, (*text).as_ptr().cast(), text.len());
                return 1;
            }
        }
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, 2, 1);
        1
    }
}

/// Reads a variable. A panic must not pass through Lua, so that the fallback meets it again.
fn read(shared: &Shared, name: &[u8]) -> Option<*const [u8]> {
    catch_unwind(AssertUnwindSafe(|| shared.read_variable(name))).unwrap_or_default()
}
