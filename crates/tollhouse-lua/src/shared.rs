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

    /// Sets the core that this state belongs to.
    pub(crate) fn set_core(&self, core: &Rc<Core>) {
        *self.core.borrow_mut() = Rc::downgrade(core);
    }

    /// Returns the core that this state belongs to.
    pub(crate) fn core(&self) -> Option<Rc<Core>> {
        self.core.borrow().upgrade()
    }
}
