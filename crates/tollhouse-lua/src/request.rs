//! Data that scripts of one request share: context tables, globals, and the answer that they prepare.

use std::cell::{Cell, RefCell};

use hashbrown::HashMap;
use mlua::Table;

/// State of one request on its core. With the request it ends or goes to another one.
pub(crate) struct RequestState {
    /// Number within the core.
    pub(crate) number: u64,
    /// Second argument of the functions, `ctx`.
    pub(crate) ctx: Table,
    /// Table `ngx.ctx`.
    pub(crate) ngx_ctx: RefCell<Option<Table>>,
    /// Globals that the request's functions have written.
    pub(crate) globals: RefCell<Option<Table>>,
    pub(crate) answer: RefCell<PreparedAnswer>,
    /// Variables that scripts have set.
    pub(crate) variables: RefCell<HashMap<String, Vec<u8>>>,
    /// Piece of the body, and whether it is the last: `ngx.arg`.
    pub(crate) piece: RefCell<Option<Vec<u8>>>,
    pub(crate) is_last_piece: Cell<bool>,
    /// Pieces that a program has held back, by program.
    pub(crate) held: RefCell<HashMap<u64, Vec<u8>>>,
}

/// Status, headers and body that a script sets before an answer exists.
#[derive(Debug, Default)]
pub(crate) struct PreparedAnswer {
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<HeaderChange>,
    pub(crate) body: Vec<u8>,
    /// Whether the script has printed a body, which may be empty.
    pub(crate) has_body: bool,
}

/// Change of a header of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderChange {
    pub(crate) name: String,
    /// Values in order; none removes the header.
    pub(crate) values: Vec<Vec<u8>>,
    /// Whether earlier lines stay.
    pub(crate) is_added: bool,
}

impl RequestState {
    pub(crate) fn new(number: u64, ctx: Table) -> Self {
        Self {
            number,
            ctx,
            ngx_ctx: RefCell::default(),
            globals: RefCell::default(),
            answer: RefCell::default(),
            variables: RefCell::default(),
            piece: RefCell::default(),
            is_last_piece: Cell::new(false),
            held: RefCell::default(),
        }
    }
}

impl RequestState {
    /// Removes whatever scripts have left, for the next request. The context table is not changed.
    pub(crate) fn clear(&self) {
        *self.ngx_ctx.borrow_mut() = None;
        *self.globals.borrow_mut() = None;
        *self.answer.borrow_mut() = PreparedAnswer::default();
        self.variables.borrow_mut().clear();
        *self.piece.borrow_mut() = None;
        self.is_last_piece.set(false);
        self.held.borrow_mut().clear();
    }
}

impl PreparedAnswer {
    /// Returns the value of a header that a script has set.
    pub(crate) fn header(&self, name: &str) -> Option<Vec<u8>> {
        let mut found = None;
        for change in &self.headers {
            if change.name.eq_ignore_ascii_case(name) {
                match change.values.first() {
                    Some(value) if !change.is_added || found.is_none() => {
                        found = Some(value.clone());
                    }
                    Some(_) => {}
                    None => found = None,
                }
            }
        }
        found
    }
}
