//! Programs as plugins: each phase of the contract runs the functions of that phase.

use std::rc::Rc;
use std::sync::Arc;

use mlua::{Function, MultiValue, Value};
use tollhouse_plugin::answer::AnswerBody;
use tollhouse_plugin::handler::{Handler, SharedHandler};
use tollhouse_plugin::user::ExternalUser;
use tollhouse_plugin::{
    Answer, Effect, Flow, LogContext, Phases, RefusalKind, RequestContext, ResponseContext, Step,
    UpstreamRef,
};

use crate::access::{InLog, InRequest, InResponse};
use crate::body::{LuaBody, NoBody};
use crate::direct::DirectFunction;
use crate::drive::Running;
use crate::failure::{Failure, failure_of};
use crate::json::from_lua;
use crate::program::Program;
use crate::progress::{Outcome, Progress};
use crate::request::RequestState;
use crate::state::{Core, DirectOutcome};
use crate::world::World;

/// `ngx.OK` and `ngx.DECLINED`: the phase ends, and the request goes on.
const GOES_ON: [i64; 2] = [0, -5];

/// State of a request's scripts in the memory that its plugins share.
struct RequestSlot {
    core: Rc<Core>,
    request: Rc<RequestState>,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.core.give_back(&self.request);
    }
}

impl RequestSlot {
    /// Returns a slot with the state of a new request, and that state.
    fn new(core: &Rc<Core>) -> Result<(Self, Rc<RequestState>), Failure> {
        let request = core.new_request()?;
        Ok((Self { core: Rc::clone(core), request: Rc::clone(&request) }, request))
    }
}

/// Program that runs as a plugin.
pub(crate) struct ScriptHandler {
    pub(crate) world: Arc<World>,
    pub(crate) program: Arc<Program>,
    /// Phases of the program's functions.
    pub(crate) phases: Phases,
    /// Whether the program has functions of the body phase.
    pub(crate) filters_body: bool,
}

impl ScriptHandler {
    /// Runs the function of a phase until it ends or waits; `None` if the program has none. `name` is
    /// the phase of the function, which may differ from that of the request.
    fn begin(
        &self,
        cx: &mut RequestContext<'_>,
        phase: &'static str,
        name: &str,
    ) -> Result<Option<(Running, Progress)>, Failure> {
        let core = Core::for_thread(&self.world)?;
        let loaded = core.loaded(&self.program)?;
        if let Some(functions) = loaded.direct(name)
            && let Some(begun) = self.begin_directly(&core, cx, phase, functions)
        {
            return begun;
        }
        let Some(function) = loaded.bound(name) else { return Ok(None) };
        let request = match cx.shared::<RequestSlot>() {
            Some(slot) => Rc::clone(&slot.request),
            None => {
                let (slot, request) = RequestSlot::new(&core)?;
                cx.share(slot);
                request
            }
        };
        let thread = if self.program.may_wait { Some(core.thread()?) } else { None };
        core.shared.budget.begin_phase();
        let running = Running { core, thread, request, program: Arc::clone(&self.program) };
        let progress = running.start(cx, phase, function)?;
        Ok(Some((running, progress)))
    }

    /// Runs functions that are called directly. A request of which they leave nothing has no state.
    fn begin_directly(
        &self,
        core: &Rc<Core>,
        cx: &mut RequestContext<'_>,
        phase: &'static str,
        functions: &[DirectFunction],
    ) -> Option<Result<Option<(Running, Progress)>, Failure>> {
        let known = cx.shared::<RequestSlot>().map(|slot| Rc::clone(&slot.request));
        let mut access = InRequest { cx, phase };
        let called = core.call_directly(functions, &mut access, known.as_ref(), &self.program)?;
        let called = match called {
            Ok(DirectOutcome { outcome: None, request: None }) => return Some(Ok(None)),
            Ok(called) => called,
            Err(failure) => return Some(Err(failure)),
        };
        let outcome = called.outcome.unwrap_or_else(|| Outcome::Returned(MultiValue::new()));
        let request = match called.request.map_or_else(|| core.new_request(), Ok) {
            Ok(request) => request,
            Err(failure) => return Some(Err(failure)),
        };
        if known.is_none() {
            cx.share(RequestSlot { core: Rc::clone(core), request: Rc::clone(&request) });
        }
        let program = Arc::clone(&self.program);
        let running = Running { core: Rc::clone(core), thread: None, request, program };
        Some(Ok(Some((running, Progress::Ended(outcome)))))
    }

    fn request_phase<'a>(
        &'a self,
        cx: &'a mut RequestContext<'_>,
        phase: &'static str,
    ) -> Step<'a> {
        let (running, progress) = match self.begin(cx, phase, phase) {
            Ok(Some(begun)) => begun,
            Ok(None) => return Step::Continue,
            Err(failure) => return self.failed(&failure).borrowed().into(),
        };
        match progress {
            Progress::Ended(outcome) => match self.flow(cx, &running, outcome) {
                Flow::Continue => Step::Continue,
                Flow::Answer(answer) => answer.borrowed().into(),
            },
            Progress::Waits(wait) => Step::wait(async move {
                match running.finish(cx, phase, wait).await {
                    Ok(outcome) => match self.flow(cx, &running, outcome) {
                        Flow::Continue => Flow::Continue,
                        Flow::Answer(answer) => answer.borrowed().into(),
                    },
                    Err(failure) => self.failed(&failure).borrowed().into(),
                }
            }),
        }
    }

    /// Reports a failure, and answers in its place: what a script would have refused does not pass.
    fn failed(&self, failure: &Failure) -> Answer<'static> {
        let plugin = self.program.plugin;
        tracing::error!(plugin, error = %failure, "a script failed");
        Answer::status(500).refused(RefusalKind::PluginFailed).by(plugin)
    }

    fn flow(
        &self,
        cx: &mut RequestContext<'_>,
        running: &Running,
        outcome: Outcome,
    ) -> Flow<'static> {
        let ending = self.note_user(cx, running).and_then(|()| ending(running, outcome));
        match ending {
            Ok(Ending::GoesOn) => Flow::Continue,
            Ok(Ending::Said(answer)) => {
                let answer = after_earlier(cx, answer);
                cx.edits().answer = Some(Box::new(answer));
                Flow::Continue
            }
            Ok(Ending::Answers(answer)) => after_earlier(cx, answer).into(),
            Err(failure) => self.failed(&failure).into(),
        }
    }

    /// Shares the external user that a function has set, for the plugins after it.
    fn note_user(&self, cx: &mut RequestContext<'_>, running: &Running) -> Result<(), Failure> {
        if !self.program.may_set_user {
            return Ok(());
        }
        let user = running.request.ctx.raw_get::<Value>("external_user");
        match user.map_err(|error| failure_of(&error))? {
            Value::Nil | Value::Boolean(false) => {}
            user => {
                let user = from_lua(&running.core.marks, &user, 0).map_err(Failure::Error)?;
                cx.share(ExternalUser(user));
            }
        }
        Ok(())
    }
}

/// Ending of a phase of a program.
enum Ending {
    GoesOn,
    /// The functions have printed a body and said nothing about the request, which passes the other
    /// plugins before it gets the answer.
    Said(Answer<'static>),
    Answers(Answer<'static>),
}

/// Adds the headers of an earlier answer that waits for the end of the request phases. Its body is in
/// the new one.
fn after_earlier(cx: &mut RequestContext<'_>, mut answer: Answer<'static>) -> Answer<'static> {
    if let Some(earlier) = cx.edits().answer.take() {
        let own = std::mem::replace(&mut answer.headers, earlier.headers);
        for (name, _) in &own {
            answer.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        }
        answer.headers.extend(own);
    }
    answer
}

/// Returns the ending of a phase.
fn ending(running: &Running, outcome: Outcome) -> Result<Ending, Failure> {
    let mut prepared = running.request.answer.borrow_mut();
    let mut says_only = false;
    let code = match outcome {
        Outcome::Returned(values) if values.is_empty() && !prepared.has_body => {
            return Ok(Ending::GoesOn);
        }
        Outcome::Returned(values) => {
            let mut values = values.into_iter();
            let (code, body) = (values.next().unwrap_or(Value::Nil), values.next());
            let is_set = |value: &Value| !matches!(value, Value::Nil | Value::Boolean(false));
            let number = match &code {
                Value::Integer(code) => Some(*code),
                Value::Number(code) => Some(*code as i64),
                _ => None,
            };
            let texts = [Some(code).filter(|_| number.is_none()), body];
            says_only = number.is_none() && !texts.iter().flatten().any(is_set);
            for text in texts.into_iter().flatten().filter(is_set) {
                append(running, &text, &mut prepared.body)?;
                prepared.has_body = true;
            }
            if number.is_none() && !prepared.has_body {
                return Ok(Ending::GoesOn);
            }
            number.inspect(|number| prepared.status = u16::try_from(*number).ok()).unwrap_or(200)
        }
        Outcome::Exited(code) if GOES_ON.contains(&code) && !prepared.has_body => {
            return Ok(Ending::GoesOn);
        }
        Outcome::Exited(code) => code,
    };
    let said = u16::try_from(code).ok().filter(|code| (100..=999).contains(code));
    let status = match (prepared.has_body, prepared.status, said) {
        (true, Some(status), _) | (_, None, Some(status)) | (false, Some(_), Some(status)) => {
            status
        }
        (false, Some(status), None) => status,
        (true, None, None) => 200,
        (false, None, None) => 500,
    };
    let mut answer = Answer::status(status);
    for change in prepared.headers.drain(..) {
        if !change.is_added {
            answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(&change.name));
        }
        for value in change.values {
            answer = answer.with_header(change.name.clone(), value);
        }
    }
    if status >= 400 {
        answer = answer.refused(RefusalKind::DeniedByRule);
    }
    if says_only {
        answer.body = AnswerBody::Text(prepared.body.clone().into());
        return Ok(Ending::Said(answer));
    }
    if prepared.has_body {
        answer.body = AnswerBody::Text(std::mem::take(&mut prepared.body).into());
    } else if status < 300 {
        answer.body = AnswerBody::Empty;
    }
    Ok(Ending::Answers(answer))
}

/// Appends a value that a function has returned as a body: a text, or a table as JSON.
fn append(running: &Running, value: &Value, out: &mut Vec<u8>) -> Result<(), Failure> {
    match value {
        Value::String(text) => out.extend_from_slice(&text.as_bytes()),
        Value::Table(_) => {
            let json = from_lua(&running.core.marks, value, 0).map_err(Failure::Error)?;
            out.extend(json.to_string().into_bytes());
            out.push(b'\n');
        }
        other => {
            let text = other.to_string();
            out.extend(text.map_err(|error| failure_of(&error))?.into_bytes());
        }
    }
    Ok(())
}

impl ScriptHandler {
    fn on_response(&self, cx: &mut ResponseContext<'_>) -> Result<(), Failure> {
        apply_noted(cx);
        if !self.phases.intersects(Phases::RESPONSE) {
            return Ok(());
        }
        let core = Core::for_thread(&self.world)?;
        let loaded = core.loaded(&self.program)?;
        let (header, filters) = (loaded.bound("header_filter"), self.filters_body);
        if header.is_none() && !filters {
            return Ok(());
        }
        let request = match cx.shared::<RequestSlot>() {
            Some(slot) => Rc::clone(&slot.request),
            None => {
                let (slot, request) = RequestSlot::new(&core)?;
                cx.share(slot);
                request
            }
        };
        if let Some(function) = header {
            run(&core, &mut InResponse(cx), &request, &self.program, function)?;
        }
        if filters {
            core.register(&request);
            let filter = LuaBody::new(&self.world, &self.program, &request, cx);
            cx.remove_header("content-length");
            cx.filter_body(Effect::Rewrites, Box::new(filter));
        }
        Ok(())
    }

    fn on_log(&self, cx: &mut LogContext<'_>) -> Result<(), Failure> {
        let core = Core::for_thread(&self.world)?;
        let loaded = core.loaded(&self.program)?;
        let Some(function) = loaded.bound("log") else { return Ok(()) };
        let request = match cx.shared::<RequestSlot>() {
            Some(slot) => Rc::clone(&slot.request),
            None => core.new_request()?,
        };
        run(&core, &mut InLog(cx), &request, &self.program, function)
    }
}

/// Runs a function in a phase that cannot wait.
pub(crate) fn run(
    core: &Core,
    access: &mut (dyn crate::access::Access + '_),
    request: &Rc<RequestState>,
    program: &Arc<Program>,
    function: &Function,
) -> Result<(), Failure> {
    core.run_now(access, Some(request), Some(program), function, &request.ctx).map(drop)
}

/// Applies changes of the answer that scripts have noted before it existed.
fn apply_noted(cx: &mut ResponseContext<'_>) {
    let Some(slot) = cx.shared::<RequestSlot>() else { return };
    let changes = std::mem::take(&mut slot.request.answer.borrow_mut().headers);
    for change in changes {
        if !change.is_added {
            cx.remove_header(&change.name);
        }
        change.values.iter().for_each(|value| cx.add_header(&change.name, value));
    }
}

impl Handler for ScriptHandler {
    fn name(&self) -> &'static str {
        self.program.plugin
    }

    fn phases(&self) -> Phases {
        let before = Phases::REWRITE.union(Phases::ACCESS).union(Phases::BEFORE_PROXY);
        // Headers of the answer that are set earlier are applied in its phase.
        let notes = self.program.may_note && self.phases.intersects(before);
        let noted = if notes { Phases::RESPONSE } else { Phases::NONE };
        self.phases.union(noted)
    }

    fn upstreams(&self) -> Vec<UpstreamRef<'_>> {
        Vec::new()
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.request_phase(cx, "rewrite")
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.request_phase(cx, "access")
    }

    fn before_proxy<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.request_phase(cx, "before_proxy")
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        if let Err(failure) = self.on_response(cx) {
            self.failed(&failure);
            cx.set_status(500);
            cx.remove_header("content-length");
            cx.filter_body(Effect::Rewrites, Box::new(NoBody));
        }
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        if let Err(failure) = self.on_log(cx) {
            self.failed(&failure);
        }
    }
}

/// Plugin with a function that runs before each of its phases.
pub(crate) struct Preceded {
    pub(crate) before: ScriptHandler,
    pub(crate) inner: SharedHandler,
}

impl Preceded {
    fn request_phase<'a>(
        &'a self,
        cx: &'a mut RequestContext<'_>,
        phase: &'static str,
        next: impl for<'n> FnOnce(&'n dyn Handler, &'n mut RequestContext<'_>) -> Step<'n> + 'a,
    ) -> Step<'a> {
        let before = &self.before;
        let begun = match before.begin(cx, phase, "access") {
            Ok(Some((running, progress))) => match progress {
                Progress::Ended(outcome) => {
                    match before.flow(cx, &running, outcome.without_values()) {
                        Flow::Continue => None,
                        Flow::Answer(answer) => return answer.borrowed().into(),
                    }
                }
                Progress::Waits(wait) => Some((running, wait)),
            },
            Ok(None) => None,
            Err(failure) => return before.failed(&failure).borrowed().into(),
        };
        let Some((running, wait)) = begun else { return next(&*self.inner, cx) };
        Step::wait(async move {
            match running.finish(cx, phase, wait).await {
                Ok(outcome) => match before.flow(cx, &running, outcome.without_values()) {
                    Flow::Continue => {}
                    Flow::Answer(answer) => return answer.borrowed().into(),
                },
                Err(failure) => return before.failed(&failure).borrowed().into(),
            }
            match next(&*self.inner, cx) {
                Step::Continue => Flow::Continue,
                Step::Answer(answer) => Flow::Answer(answer),
                Step::Wait(future) => future.await,
            }
        })
    }
}

impl Handler for Preceded {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn phases(&self) -> Phases {
        // Headers of the answer that the function sets earlier are applied in its phase.
        self.inner.phases().union(Phases::RESPONSE)
    }

    fn upstreams(&self) -> Vec<UpstreamRef<'_>> {
        self.inner.upstreams()
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.request_phase(cx, "rewrite", |inner, cx| inner.rewrite(cx))
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.request_phase(cx, "access", |inner, cx| inner.access(cx))
    }

    fn before_proxy<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.request_phase(cx, "before_proxy", |inner, cx| inner.before_proxy(cx))
    }

    fn exit(&self, cx: &mut RequestContext<'_>, answer: &Answer<'_>) -> Option<Answer<'static>> {
        self.inner.exit(cx, answer)
    }

    fn replace(&self, cx: &mut ResponseContext<'_>) -> Option<Answer<'static>> {
        self.inner.replace(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        apply_noted(cx);
        if !self.inner.phases().intersects(Phases::RESPONSE) {
            return;
        }
        if let Err(failure) = self.run_on_answer(cx) {
            self.before.failed(&failure);
        }
        self.inner.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        self.inner.log(cx);
    }
}

impl Preceded {
    fn run_on_answer(&self, cx: &mut ResponseContext<'_>) -> Result<(), Failure> {
        let core = Core::for_thread(&self.before.world)?;
        let loaded = core.loaded(&self.before.program)?;
        let Some(function) = loaded.bound("access") else { return Ok(()) };
        let request = match cx.shared::<RequestSlot>() {
            Some(slot) => Rc::clone(&slot.request),
            None => core.new_request()?,
        };
        run(&core, &mut InResponse(cx), &request, &self.before.program, function)
    }
}
