//! State of the current run, for the functions of the gateway and for the code that starts runs.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use crate::limits::Budget;
use crate::program::Program;
use crate::progress::Wait;
use crate::request::RequestState;
use crate::state::Core;
use crate::world::World;

/// Longest text in bytes that may exceed the memory limit.
const SHORT_TEXT_BYTES: usize = 1024;

/// State that the functions of the gateway share with the code that starts runs.
pub(crate) struct Shared {
    pub(crate) world: Arc<World>,
    pub(crate) budget: Budget,
    pub(crate) wait: RefCell<Option<Wait>>,
    pub(crate) exit: Cell<Option<i64>>,
    pub(crate) request: RefCell<Option<Rc<RequestState>>>,
    pub(crate) program: RefCell<Option<Arc<Program>>>,
    pub(crate) timers: Cell<usize>,
    core: RefCell<Weak<Core>>,
}

impl Shared {
    /// Returns a state without a core, which [`Self::set_core`] sets when it is built.
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self {
            world: Arc::clone(world),
            budget: Budget::new(),
            wait: RefCell::default(),
            exit: Cell::new(None),
            request: RefCell::default(),
            program: RefCell::default(),
            timers: Cell::new(0),
            core: RefCell::default(),
        }
    }

    /// Makes a text for a script. Short ones are made outside of the memory limit, where an
    /// allocation needs no protected call; they count, and the next allocation meets the limit.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub(crate) fn text(&self, lua: &mlua::Lua, bytes: &[u8]) -> mlua::Result<mlua::LuaString> {
        if bytes.len() > SHORT_TEXT_BYTES {
            return lua.create_string(bytes);
        }
        let limit = lua.set_memory_limit(0)?;
        let text = lua.create_string(bytes);
        lua.set_memory_limit(limit)?;
        text
    }

    /// Sets the core that this state belongs to.
    pub(crate) fn set_core(&self, core: &Rc<Core>) {
        *self.core.borrow_mut() = Rc::downgrade(core);
    }

    /// Returns the core that this state belongs to.
    pub(crate) fn core(&self) -> Option<Rc<Core>> {
        self.core.borrow().upgrade()
    }
}
