//! Construction of states: one for each thread that runs scripts, and one for each check.
//!
//! Construction is apart from runs, because it puts the functions of the gateway into a state, and
//! some of these functions start runs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, LightUserData, Lua, LuaOptions, StdLib, Table, Value, VmState};

use super::Core;
use crate::direct::Calls;
use crate::failure::{Failure, failure_of};
use crate::host;
use crate::json::Marks;
use crate::limits::HOOK_INSTRUCTIONS;
use crate::shared::Shared;
use crate::world::World;

/// Memory of the libraries and the environment, which is added to the configured limit.
const BASE_BYTES: usize = 2 << 20;

/// Purpose of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Serves,
    Checks,
}

thread_local! {
    static CORES: RefCell<Vec<(Weak<World>, Rc<Core>)>> = const { RefCell::new(Vec::new()) };
}

impl Core {
    /// Returns the state of this thread, and makes it if it does not exist.
    ///
    /// # Errors
    /// If the memory limit is too small for the libraries.
    pub(crate) fn for_thread(world: &Arc<World>) -> Result<Rc<Core>, Failure> {
        let found = CORES.with_borrow(|cores| {
            let same = |(other, _): &&(Weak<World>, Rc<Core>)| other.as_ptr() == Arc::as_ptr(world);
            cores.iter().find(same).map(|(_, core)| Rc::clone(core))
        });
        if let Some(core) = found {
            return Ok(core);
        }
        let core = Core::build(world, Use::Serves).map_err(|error| failure_of(&error))?;
        CORES.with_borrow_mut(|cores| {
            cores.retain(|(world, _)| world.strong_count() > 0);
            cores.push((Arc::downgrade(world), Rc::clone(&core)));
        });
        Ok(core)
    }

    /// Makes a state that no other code uses, for checks.
    ///
    /// # Errors
    /// If the libraries cannot be loaded.
    pub(crate) fn trial(world: &Arc<World>) -> Result<Rc<Core>, Failure> {
        Self::build(world, Use::Checks).map_err(|error| failure_of(&error))
    }

    fn build(world: &Arc<World>, purpose: Use) -> mlua::Result<Rc<Core>> {
        // Without `jit`, everything is interpreted: compiled code would call no hook.
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::BIT;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        lua.set_memory_limit(world.settings.memory_bytes + BASE_BYTES)?;
        let shared = Rc::new(Shared::new(world));
        let marks = Rc::new(Marks { array: lua.create_table()? });
        let host = host::table(&lua, &shared, &marks)?;
        let text = |name: &str, text: &'static str| {
            lua.load(text).set_mode(ChunkMode::Text).set_name(format!("={name}")).into_function()
        };
        let parts: Table = text("prelude", include_str!("../prelude.lua"))?.call(host.clone())?;
        let tools: Table = text("modules", include_str!("../modules.lua"))?.call((host, &parts))?;
        let done = Value::LightUserData(LightUserData(
            std::ptr::from_ref::<Shared>(&*shared).cast_mut().cast(),
        ));
        let hooked = Rc::clone(&shared);
        lua.set_global_hook(
            HookTriggers::new().every_nth_instruction(HOOK_INSTRUCTIONS),
            move |_, _| {
                hooked.budget.charge(u64::from(HOOK_INSTRUCTIONS));
                Ok(VmState::Continue)
            },
        )?;
        let ctx: Table = tools.get::<Function>("variables_ctx")?.call(())?;
        let make_pump: Function = tools.get("pump")?;
        let core = Rc::new(Core {
            is_trial: purpose == Use::Checks,
            environment: parts.get("environment")?,
            base: parts.get("base")?,
            libraries: parts.get("libraries")?,
            modules: tools.get("modules")?,
            new_ctx: tools.get("new_ctx")?,
            bound: tools.get("bound")?,
            calls: Calls::new(&lua, &ctx)?,
            vars: parts.get("vars")?,
            pump: make_pump.call(&done)?,
            done,
            idle: RefCell::default(),
            idle_requests: RefCell::default(),
            own_modules: RefCell::default(),
            loaded: RefCell::default(),
            last_loaded: RefCell::default(),
            next_request: Cell::new(1),
            requests: RefCell::default(),
            lua,
            shared,
            marks,
        });
        core.shared.set_core(&core);
        Ok(core)
    }
}
