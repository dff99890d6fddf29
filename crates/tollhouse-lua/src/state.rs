//! State of Lua on one core: its environment, its limits, and the runs of functions.
//!
//! A thread makes a state when the first script of a [`World`](crate::world::World) runs on it.
//! Functions run in coroutines that are used again. A function that waits leaves a
//! [`Wait`](crate::progress::Wait) behind and yields; the caller does the work on the worker's
//! executor and resumes it.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use mlua::chunk::ChunkMode;
use mlua::thread::ThreadStatus;
use mlua::{Function, Lua, MultiValue, Table, Thread, Value};

use crate::access::{Access, CURRENT, NoRequest};
use crate::direct::{Called, Calls, DirectFunction};
use crate::failure::{Failure, failure_of};
use crate::json::Marks;
use crate::limits::LimitReached;
use crate::limits::RunBefore;
use crate::program::{Loaded, Program};
use crate::progress::{Outcome, Progress};
use crate::request::RequestState;
use crate::shared::Shared;

mod build;

/// Idle coroutines that a state keeps, and states of requests.
const IDLE_MAX: usize = 64;

/// Functions of programs by the numbers of the programs.
type LoadedPrograms = HashMap<u64, (Weak<Program>, Rc<Loaded>)>;

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
    /// Binds the functions of a phase to their conf, in `modules.lua`.
    pub(crate) bound: Function,
    /// Calls of functions that neither wait nor use their context.
    pub(crate) calls: Calls,
    /// Variables of the current request: `ngx.var`.
    pub(crate) vars: Table,
    pump: Function,
    /// Marks the values that a coroutine yields when a function has returned.
    done: Value,
    idle: RefCell<Vec<Thread>>,
    idle_requests: RefCell<Vec<Rc<RequestState>>>,
    pub(crate) base: Table,
    pub(crate) libraries: Table,
    pub(crate) modules: Table,
    own_modules: RefCell<HashMap<String, Option<Value>>>,
    loaded: RefCell<LoadedPrograms>,
    /// Functions of the program that ran last, with its number.
    last_loaded: RefCell<Option<(u64, Rc<Loaded>)>>,
    next_request: Cell<u64>,
    requests: RefCell<HashMap<u64, std::rc::Weak<RequestState>>>,
}

impl Core {
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
        if program.is_some_and(|program| !program.may_wait) {
            self.shared.budget.begin_phase();
            return self.call(function, arguments, access, request, program);
        }
        let phase = access.phase();
        let mut values = self.to_values(arguments)?;
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
        if idle.len() < IDLE_MAX && thread.status() == ThreadStatus::Resumable {
            idle.push(thread.clone());
        }
        Ok(Progress::Ended(Outcome::Returned(values)))
    }

    /// Runs a function that does not wait, without a coroutine, which costs less. Results after the
    /// third one are dropped; no caller uses more.
    ///
    /// # Errors
    /// If it fails or exceeds a limit.
    pub(crate) fn call(
        &self,
        function: &Function,
        arguments: impl mlua::IntoLuaMulti,
        access: &mut (dyn Access + '_),
        request: Option<&Rc<RequestState>>,
        program: Option<&Arc<Program>>,
    ) -> Result<Outcome, Failure> {
        let _running = Running::begin(&self.shared, request, program);
        let called = catch_unwind(AssertUnwindSafe(|| {
            CURRENT.set(access, || function.call::<(Value, Value, Value)>(arguments))
        }));
        match called {
            // Most functions return nothing, which costs no list.
            Ok(Ok((Value::Nil, Value::Nil, Value::Nil))) => {
                Ok(Outcome::Returned(MultiValue::new()))
            }
            Ok(Ok((first, second, third))) => {
                Ok(Outcome::Returned(MultiValue::from_iter([first, second, third])))
            }
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(panic) if panic.is::<LimitReached>() => Err(Failure::Limit),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Runs functions that neither wait nor use their context, until one returns something. The state
    /// of the request is made when they use it. Returns `None`, without a call, within a run that was
    /// started in this way.
    pub(crate) fn call_directly(
        &self,
        functions: &[DirectFunction],
        access: &mut (dyn Access + '_),
        request: Option<&Rc<RequestState>>,
        program: &Arc<Program>,
    ) -> Option<Result<DirectOutcome, Failure>> {
        self.shared.budget.begin_phase();
        let _running = Running::begin(&self.shared, request, Some(program));
        self.shared.makes_request.set(true);
        let called = catch_unwind(AssertUnwindSafe(|| {
            CURRENT.set(access, || {
                for function in functions {
                    let called = self.calls.call(function)?;
                    // A function that ends the phase cannot yield here, and fails; the end counts even
                    // if the script has caught the failure.
                    if let Some(code) = self.shared.exit.take() {
                        return Some(Ok(Some(Outcome::Exited(code))));
                    }
                    match called {
                        Called::Nothing => {}
                        Called::Returned(first, second)
                            if functions.len() == 1 || is_set(&first) || is_set(&second) =>
                        {
                            let values = MultiValue::from_iter([first, second]);
                            return Some(Ok(Some(Outcome::Returned(values))));
                        }
                        Called::Returned(..) => {}
                        Called::Failed(error) => return Some(Err(error)),
                    }
                }
                Some(Ok(None))
            })
        }));
        let outcome = match called {
            Ok(None) => return None,
            Ok(Some(Ok(outcome))) => outcome,
            Ok(Some(Err(error))) => return Some(Err(self.failed(&error))),
            Err(panic) if panic.is::<LimitReached>() => return Some(Err(Failure::Limit)),
            Err(panic) => resume_unwind(panic),
        };
        let request = self.shared.request.borrow().as_ref().map(Rc::clone);
        Some(Ok(DirectOutcome { outcome, request }))
    }

    /// Classifies an error; after one of memory, collects garbage, so that other requests go on.
    fn failed(&self, error: &mlua::Error) -> Failure {
        let failure = failure_of(error);
        if failure == Failure::Memory {
            self.idle.borrow_mut().clear();
            self.idle_requests.borrow_mut().clear();
            let _ = self.lua.gc_collect();
        }
        failure
    }

    /// Returns the functions of a program, and loads them if this core has not run it yet.
    ///
    /// # Errors
    /// If the program fails while it is loaded.
    pub(crate) fn loaded(&self, program: &Arc<Program>) -> Result<Rc<Loaded>, Failure> {
        if let Some((id, loaded)) = &*self.last_loaded.borrow()
            && *id == program.id
        {
            return Ok(Rc::clone(loaded));
        }
        if let Some((_, loaded)) = self.loaded.borrow().get(&program.id) {
            *self.last_loaded.borrow_mut() = Some((program.id, Rc::clone(loaded)));
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
        if let Some(mut request) = self.idle_requests.borrow_mut().pop()
            && let Some(state) = Rc::get_mut(&mut request)
        {
            // Timers and closures of the last request may still have its context.
            state.ctx = ctx;
            return Ok(request);
        }
        let number = self.next_request.get();
        self.next_request.set(number + 1);
        Ok(Rc::new(RequestState::new(number, ctx)))
    }

    /// Takes back the state of a request that has ended, unless other code refers to it.
    pub(crate) fn give_back(&self, request: &Rc<RequestState>) {
        let is_alone = Rc::strong_count(request) == 1 && Rc::weak_count(request) == 0;
        if is_alone {
            request.clear();
            let mut idle = self.idle_requests.borrow_mut();
            if idle.len() < IDLE_MAX {
                idle.push(Rc::clone(request));
            }
        }
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

/// Outcome of functions that were called directly.
pub(crate) struct DirectOutcome {
    /// `None` if they returned nothing.
    pub(crate) outcome: Option<Outcome>,
    /// State of the request, if it has one.
    pub(crate) request: Option<Rc<RequestState>>,
}

fn is_set(value: &Value) -> bool {
    !matches!(value, Value::Nil | Value::Boolean(false))
}

/// Sets the request and the program of a run; Drop restores those of the run around it.
struct Running<'s> {
    shared: &'s Shared,
    request: Option<Rc<RequestState>>,
    program: Option<Arc<Program>>,
    makes_request: bool,
    before: RunBefore,
}

impl<'s> Running<'s> {
    fn begin(
        shared: &'s Shared,
        request: Option<&Rc<RequestState>>,
        program: Option<&Arc<Program>>,
    ) -> Self {
        shared.exit.set(None);
        if shared.wait.borrow().is_some() {
            *shared.wait.borrow_mut() = None;
        }
        let request = shared.request.replace(request.map(Rc::clone));
        let program = shared.program.replace(program.map(Arc::clone));
        let makes_request = shared.makes_request.replace(false);
        let before = shared.budget.enter();
        Self { shared, request, program, makes_request, before }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.shared.budget.restore(self.before);
        self.shared.makes_request.set(self.makes_request);
        *self.shared.request.borrow_mut() = self.request.take();
        *self.shared.program.borrow_mut() = self.program.take();
    }
}

/// Returns the name of a text in error messages: the start of the text itself, as in Lua, unless it
/// has one.
fn chunk_name(name: &str, text: &str) -> String {
    if name.is_empty() { text.replace('\0', " ") } else { format!("={name}") }
}
