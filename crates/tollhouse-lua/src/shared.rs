//! State of the current run, for the functions of the gateway and for the code that starts runs.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use crate::access::CURRENT;
use crate::failure::Failure;
use crate::known::KnownNames;
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
    /// Whether the run has a request whose state is made on first use.
    pub(crate) makes_request: Cell<bool>,
    pub(crate) program: RefCell<Option<Arc<Program>>>,
    pub(crate) timers: Cell<usize>,
    names: RefCell<KnownNames>,
    /// Text of the variable that was read last.
    text: RefCell<Vec<u8>>,
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
            makes_request: Cell::new(false),
            program: RefCell::default(),
            timers: Cell::new(0),
            names: RefCell::default(),
            text: RefCell::default(),
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

    /// Returns the state of the current request, and makes it if the run has a request without one;
    /// `None` if the run has no request.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub(crate) fn request(&self) -> Result<Option<Rc<RequestState>>, Failure> {
        if let Some(request) = &*self.request.borrow() {
            return Ok(Some(Rc::clone(request)));
        }
        if !self.makes_request.get() {
            return Ok(None);
        }
        let Some(core) = self.core() else { return Ok(None) };
        let request = core.new_request()?;
        *self.request.borrow_mut() = Some(Rc::clone(&request));
        Ok(Some(request))
    }

    /// Reads a variable of the current request, and returns its text, which stays until the next
    /// reading. Returns `None` for what needs more than a copy of a short text.
    pub(crate) fn read_variable(&self, name: &[u8]) -> Option<*const [u8]> {
        let mut names = self.names.borrow_mut();
        let known = names.get(name)?;
        CURRENT.with(|access| {
            if known.distinguishes_users {
                access.note_nameless();
            }
            let value = access.variable(&known.variable)?;
            if value.len() > SHORT_TEXT_BYTES {
                return None;
            }
            let mut text = self.text.borrow_mut();
            text.clear();
            text.extend_from_slice(&value);
            Some(&raw const text[..])
        })
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
