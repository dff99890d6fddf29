//! Functions of the body phase as a filter: each piece is `ngx.arg[1]`, and its end `ngx.arg[2]`.

use std::rc::Rc;
use std::sync::Arc;

use tollhouse_model::variable::{Lookup, Variable};
use tollhouse_plugin::response::Source;
use tollhouse_plugin::{BodyFilter, FilterFailure, Piece, ResponseContext};

use crate::access::{BODY_VARIABLES, BodyFacts, InBody};
use crate::failure::Failure;
use crate::handler;
use crate::program::Program;
use crate::request::RequestState;
use crate::state::Core;
use crate::world::World;

/// Filter of one answer. It runs on the thread of its request, where the state of Lua is.
pub(crate) struct LuaBody {
    world: Arc<World>,
    program: Arc<Program>,
    /// Number of the request on its core.
    request: u64,
    facts: BodyFacts,
    has_failed: bool,
}

impl LuaBody {
    pub(crate) fn new(
        world: &Arc<World>,
        program: &Arc<Program>,
        request: &RequestState,
        cx: &ResponseContext<'_>,
    ) -> Self {
        let mut headers = Vec::new();
        cx.each_header(&mut |name, value| headers.push((name.to_vec(), value.to_vec())));
        let lookup = cx.variables();
        let variables = BODY_VARIABLES.iter().filter_map(|name| {
            let value = lookup.variable(&Variable::parse(name))?;
            Some((*name, value.into_owned()))
        });
        let variables = variables.collect();
        let source = match cx.source() {
            Source::Upstream => "upstream",
            Source::Gateway => "apisix",
        };
        Self {
            world: Arc::clone(world),
            program: Arc::clone(program),
            request: request.number,
            facts: BodyFacts { status: cx.status(), source, variables, headers },
            has_failed: false,
        }
    }

    fn run(&self, input: &[u8], piece: Piece, out: &mut Vec<u8>) -> Result<(), Failure> {
        let core = Core::for_thread(&self.world)?;
        let gone = || Failure::Error("the state of the request is on another thread".to_owned());
        let request: Rc<RequestState> = core.request(self.request).ok_or_else(gone)?;
        let loaded = core.loaded(&self.program)?;
        let Some(function) = loaded.bound("body_filter") else { return Ok(()) };
        *request.piece.borrow_mut() = Some(input.to_vec());
        request.is_last_piece.set(piece.is_last());
        let mut access = InBody { facts: &self.facts };
        handler::run(&core, &mut access, &request, &self.program, function)?;
        out.extend(request.piece.borrow_mut().take().unwrap_or_default());
        Ok(())
    }
}

impl BodyFilter for LuaBody {
    fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        if self.has_failed {
            return;
        }
        if let Err(failure) = self.run(input, piece, out) {
            let plugin = self.program.plugin;
            tracing::error!(plugin, error = %failure, "a script failed");
            self.has_failed = true;
        }
    }

    fn is_bound_to_thread(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<FilterFailure> {
        self.has_failed.then_some(FilterFailure::Unreadable)
    }
}

/// Filter that lets nothing pass, because a script has failed.
pub(crate) struct NoBody;

impl BodyFilter for NoBody {
    fn filter(&mut self, _input: &[u8], _piece: Piece, _out: &mut Vec<u8>) {}
}
