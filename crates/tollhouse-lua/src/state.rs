//! State of Lua on one core: its environment, its limits, and the runs of functions.
//!
//! A thread makes a state when the first script of a [`World`] runs on it. Functions run in
//! coroutines that are used again. A function that waits leaves a [`Wait`] behind and yields; the
//! caller does the work on the worker's executor and resumes it.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::HashMap;
use mlua::chunk::ChunkMode;
use mlua::thread::ThreadStatus;
use mlua::{
    Function, HookTriggers, LightUserData, Lua, LuaOptions, MultiValue, StdLib, Table, Thread,
    Value, VmState,
};

use crate::access::{Access, CURRENT, NoRequest};
use crate::host;
use crate::json::Marks;
use crate::limits::{Budget, HOOK_INSTRUCTIONS, LimitReached};
use crate::program::{Loaded, Program};
use crate::request::RequestState;
use crate::world::{HttpCall, RedisCall, World};

/// Idle coroutines that a state keeps.
const PUMPS_MAX: usize = 64;

/// Memory of the libraries and the environment, which is added to the configured limit.
const BASE_BYTES: usize = 2 << 20;

/// Why a function has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the script ran too long without a wait; the limit is 4 ms of processor time")]
    Limit,
    #[error("the script has used up the memory of its core (scripting.memory)")]
    Memory,
    #[error("{0}")]
    Error(String),
}

/// Outcome of a run.
pub(crate) enum Outcome {
    /// The function returned these values.
    Returned(MultiValue),
    /// The script called `ngx.exit` or answered in another way, with this code.
    Exited(i64),
}

/// Work that a script waits for.
pub(crate) enum Wait {
    Sleep(Duration),
    /// Reads the request body, of at most this many bytes.
    Body(Option<u64>),
    Http(HttpCall),
    Redis(RedisCall),
}

/// Purpose of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Serves,
    Checks,
}

/// A run that ended or waits.
pub(crate) enum Progress {
    Ended(Outcome),
    Waits(Wait),
}

/// State that the functions of the gateway share with the code that starts runs.
pub(crate) struct Shared {
    pub(crate) world: Arc<World>,
    pub(crate) budget: Budget,
    pub(crate) wait: RefCell<Option<Wait>>,
    pub(crate) exit: Cell<Option<i64>>,
    pub(crate) request: RefCell<Option<Rc<RequestState>>>,
    pub(crate) program: RefCell<Option<Arc<Program>>>,
    pub(crate) timers: Cell<usize>,
    core: RefCell<std::rc::Weak<Core>>,
}

impl Shared {
    /// Returns the core that this state belongs to.
    pub(crate) fn core(&self) -> Option<Rc<Core>> {
        self.core.borrow().upgrade()
    }
}

/// State of one core.
pub(crate) struct Core {
    pub(crate) lua: Lua,
    /// Whether the state only checks texts.
    pub(crate) is_trial: bool,
    pub(crate) shared: Rc<Shared>,
    pub(crate) marks: Rc<Marks>,
    /// Functions that build environments and contexts, in `modules.lua` and `prelude.lua`.
    environment: Function,
    new_ctx: Function,
    pub(crate) run_all: Function,
    pump: Function,
    /// Marks the values that a coroutine yields when a function has returned.
    done: Value,
    idle: RefCell<Vec<Thread>>,
    pub(crate) base: Table,
    pub(crate) libraries: Table,
    pub(crate) modules: Table,
    own_modules: RefCell<HashMap<String, Option<Value>>>,
    loaded: RefCell<HashMap<u64, (Weak<Program>, Rc<Loaded>)>>,
    next_request: Cell<u64>,
    requests: RefCell<HashMap<u64, std::rc::Weak<RequestState>>>,
}

thread_local! {
    static CORES: RefCell<Vec<(Weak<World>, Rc<Core>)>> = const { RefCell::new(Vec::new()) };
}

impl Core {
    /// Returns the state of this thread, and makes it if it does not exist.
    ///
    /// # Errors
    /// If the memory limit is too small for the libraries.
    pub(crate) fn of(world: &Arc<World>) -> Result<Rc<Core>, Failure> {
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
        let shared = Rc::new(Shared {
            world: Arc::clone(world),
            budget: Budget::new(),
            wait: RefCell::default(),
            exit: Cell::new(None),
            request: RefCell::default(),
            program: RefCell::default(),
            timers: Cell::new(0),
            core: RefCell::default(),
        });
        let marks = Rc::new(Marks { array: lua.create_table()? });
        let host = host::table(&lua, &shared, &marks)?;
        let text = |name: &str, text: &'static str| {
            lua.load(text).set_mode(ChunkMode::Text).set_name(format!("={name}")).into_function()
        };
        let parts: Table = text("prelude", include_str!("prelude.lua"))?.call(host.clone())?;
        let tools: Table = text("modules", include_str!("modules.lua"))?.call((host, &parts))?;
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
        let make_pump: Function = tools.get("pump")?;
        let core = Rc::new(Core {
            is_trial: purpose == Use::Checks,
            environment: parts.get("environment")?,
            base: parts.get("base")?,
            libraries: parts.get("libraries")?,
            modules: tools.get("modules")?,
            new_ctx: tools.get("new_ctx")?,
            run_all: tools.get("run")?,
            pump: make_pump.call(&done)?,
            done,
            idle: RefCell::default(),
            own_modules: RefCell::default(),
            loaded: RefCell::default(),
            next_request: Cell::new(1),
            requests: RefCell::default(),
            lua,
            shared,
            marks,
        });
        *core.shared.core.borrow_mut() = Rc::downgrade(&core);
        Ok(core)
    }

    /// Compiles a text in an environment of its own.
    ///
    /// # Errors
    /// If it is not valid Lua; the text of the error is that of Lua.
    pub(crate) fn load(&self, text: &str, name: &str) -> Result<Function, Failure> {
        let environment: Table =
            self.environment.call(()).map_err(|error: mlua::Error| failure_of(&error))?;
        let chunk = self.lua.load(text).set_mode(ChunkMode::Text).set_name(chunk_name(name, text));
        let chunk = chunk.set_environment(environment);
        chunk.into_function().map_err(|error| failure_of(&error))
    }

    /// Runs a function without a request, such as the text of a plugin.
    ///
    /// # Errors
    /// If it fails, waits, or exceeds a limit.
    pub(crate) fn run_apart(
        &self,
        function: &Function,
        arguments: impl mlua::IntoLuaMulti,
    ) -> Result<MultiValue, Failure> {
        match self.run_now(&mut NoRequest("init"), None, None, function, arguments)? {
            Outcome::Returned(values) => Ok(values),
            Outcome::Exited(_) => Err(Failure::Error("ngx.exit needs a request".to_owned())),
        }
    }

    /// Runs a function in a phase that cannot wait.
    ///
    /// # Errors
    /// If it fails, waits, or exceeds a limit.
    pub(crate) fn run_now(
        &self,
        access: &mut (dyn Access + '_),
        request: Option<&Rc<RequestState>>,
        program: Option<&Arc<Program>>,
        function: &Function,
        arguments: impl mlua::IntoLuaMulti,
    ) -> Result<Outcome, Failure> {
        let phase = access.phase();
        let mut values = self.to_values(arguments)?;
        if program.is_some_and(|program| !program.may_wait) {
            self.shared.budget.begin_phase();
            return self.call(function, values, access, request, program);
        }
        let thread = self.thread()?;
        values.push_front(Value::Function(function.clone()));
        self.shared.budget.begin_phase();
        match self.resume(&thread, values, access, request, program)? {
            Progress::Ended(outcome) => Ok(outcome),
            Progress::Waits(_) => {
                Err(Failure::Error(format!("a script cannot wait in the phase {phase}")))
            }
        }
    }

    pub(crate) fn to_values(
        &self,
        arguments: impl mlua::IntoLuaMulti,
    ) -> Result<MultiValue, Failure> {
        arguments.into_lua_multi(&self.lua).map_err(|error| failure_of(&error))
    }

    /// Returns an idle coroutine.
    pub(crate) fn thread(&self) -> Result<Thread, Failure> {
        if let Some(thread) = self.idle.borrow_mut().pop() {
            return Ok(thread);
        }
        self.lua.create_thread(self.pump.clone()).map_err(|error| failure_of(&error))
    }

    /// Runs a coroutine until it ends or waits.
    pub(crate) fn resume(
        &self,
        thread: &Thread,
        values: MultiValue,
        access: &mut (dyn Access + '_),
        request: Option<&Rc<RequestState>>,
        program: Option<&Arc<Program>>,
    ) -> Result<Progress, Failure> {
        let _running = Running::begin(&self.shared, request, program);
        let resumed = catch_unwind(AssertUnwindSafe(|| {
            CURRENT.set(access, || thread.resume::<MultiValue>(values))
        }));
        let mut values = match resumed {
            Ok(Ok(values)) => values,
            Ok(Err(error)) => return Err(self.failed(&error)),
            Err(panic) if panic.is::<LimitReached>() => return Err(Failure::Limit),
            Err(panic) => resume_unwind(panic),
        };
        if let Some(wait) = self.shared.wait.take() {
            return Ok(Progress::Waits(wait));
        }
        // The coroutine stays where it is and is dropped, because the script must not go on.
        if let Some(code) = self.shared.exit.take() {
            return Ok(Progress::Ended(Outcome::Exited(code)));
        }
        if values.front() != Some(&self.done) {
            return Err(Failure::Error("attempt to yield outside of a coroutine".to_owned()));
        }
        values.pop_front();
        let mut idle = self.idle.borrow_mut();
        if idle.len() < PUMPS_MAX && thread.status() == ThreadStatus::Resumable {
            idle.push(thread.clone());
        }
        Ok(Progress::Ended(Outcome::Returned(values)))
    }

    /// Runs a function that does not wait, without a coroutine, which costs less.
    ///
    /// # Errors
    /// If it fails or exceeds a limit.
    pub(crate) fn call(
        &self,
        function: &Function,
        values: MultiValue,
        access: &mut (dyn Access + '_),
        request: Option<&Rc<RequestState>>,
        program: Option<&Arc<Program>>,
    ) -> Result<Outcome, Failure> {
        let _running = Running::begin(&self.shared, request, program);
        let called = catch_unwind(AssertUnwindSafe(|| {
            CURRENT.set(access, || function.call::<MultiValue>(values))
        }));
        match called {
            Ok(Ok(values)) => Ok(Outcome::Returned(values)),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(panic) if panic.is::<LimitReached>() => Err(Failure::Limit),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Classifies an error; after one of memory, collects garbage, so that other requests go on.
    fn failed(&self, error: &mlua::Error) -> Failure {
        let failure = failure_of(error);
        if failure == Failure::Memory {
            self.idle.borrow_mut().clear();
            let _ = self.lua.gc_collect();
        }
        failure
    }

    /// Returns the functions of a program, and loads them if this core has not run it yet.
    ///
    /// # Errors
    /// If the program fails while it is loaded.
    pub(crate) fn loaded(&self, program: &Arc<Program>) -> Result<Rc<Loaded>, Failure> {
        if let Some((_, loaded)) = self.loaded.borrow().get(&program.id) {
            return Ok(Rc::clone(loaded));
        }
        let loaded = Rc::new(program.load(self)?);
        let mut all = self.loaded.borrow_mut();
        // Programs that no configuration has any more are removed from time to time.
        if all.len().is_power_of_two() {
            all.retain(|_, (program, _)| program.strong_count() > 0);
        }
        all.insert(program.id, (Arc::downgrade(program), Rc::clone(&loaded)));
        Ok(loaded)
    }

    /// Returns a module of the folder; `None` if the folder does not contain it.
    ///
    /// # Errors
    /// If the module fails while it is loaded, or requires itself.
    pub(crate) fn own_module(&self, name: &str) -> Result<Option<Value>, Failure> {
        let key = name.strip_prefix("apisix.").unwrap_or(name);
        match self.own_modules.borrow().get(key) {
            Some(Some(module)) => return Ok(Some(module.clone())),
            Some(None) => {
                return Err(Failure::Error(format!("module '{name}' requires itself")));
            }
            None => {}
        }
        let Some(text) = self.shared.world.settings.sources.get(key) else { return Ok(None) };
        self.own_modules.borrow_mut().insert(key.to_owned(), None);
        let made = self.load(text, key).and_then(|chunk| self.run_module(&chunk));
        match made {
            Ok(module) => {
                self.own_modules.borrow_mut().insert(key.to_owned(), Some(module.clone()));
                Ok(Some(module))
            }
            Err(failure) => {
                self.own_modules.borrow_mut().remove(key);
                Err(failure)
            }
        }
    }

    fn run_module(&self, chunk: &Function) -> Result<Value, Failure> {
        let module = self.run_apart(chunk, ())?.into_iter().next().unwrap_or(Value::Nil);
        Ok(if module == Value::Nil { Value::Boolean(true) } else { module })
    }

    /// Returns the state of a new request.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub(crate) fn new_request(&self) -> Result<Rc<RequestState>, Failure> {
        let ctx: Table = self.new_ctx.call(()).map_err(|error: mlua::Error| failure_of(&error))?;
        let number = self.next_request.get();
        self.next_request.set(number + 1);
        Ok(Rc::new(RequestState::new(number, ctx)))
    }

    /// Makes a request known by its number, for filters of its body.
    pub(crate) fn register(&self, request: &Rc<RequestState>) {
        let mut requests = self.requests.borrow_mut();
        if requests.len().is_power_of_two() {
            requests.retain(|_, request| request.strong_count() > 0);
        }
        requests.insert(request.number, Rc::downgrade(request));
    }

    /// Returns a registered request that has not ended.
    pub(crate) fn request(&self, number: u64) -> Option<Rc<RequestState>> {
        self.requests.borrow().get(&number).and_then(std::rc::Weak::upgrade)
    }
}

/// Sets the request and the program of a run; Drop restores those of the run around it.
struct Running<'s> {
    shared: &'s Shared,
    request: Option<Rc<RequestState>>,
    program: Option<Arc<Program>>,
}

impl<'s> Running<'s> {
    fn begin(
        shared: &'s Shared,
        request: Option<&Rc<RequestState>>,
        program: Option<&Arc<Program>>,
    ) -> Self {
        shared.exit.set(None);
        *shared.wait.borrow_mut() = None;
        let request = shared.request.replace(request.map(Rc::clone));
        let program = shared.program.replace(program.map(Arc::clone));
        Self { shared, request, program }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.shared.request.borrow_mut() = self.request.take();
        *self.shared.program.borrow_mut() = self.program.take();
    }
}

/// Returns the name of a text in error messages: the start of the text itself, as in Lua, unless it
/// has one.
fn chunk_name(name: &str, text: &str) -> String {
    if name.is_empty() { text.replace('\0', " ") } else { format!("={name}") }
}

pub(crate) fn failure_of(error: &mlua::Error) -> Failure {
    match error {
        mlua::Error::MemoryError(_) => Failure::Memory,
        mlua::Error::CallbackError { cause, .. } => failure_of(cause),
        other => {
            let text = text_of(other);
            if text.ends_with("not enough memory") { Failure::Memory } else { Failure::Error(text) }
        }
    }
}

/// Returns the first line of an error, without the name of its kind.
pub(crate) fn text_of(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return text_of(cause),
        mlua::Error::RuntimeError(text) | mlua::Error::MemoryError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}
