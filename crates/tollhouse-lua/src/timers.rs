//! Timers of scripts: functions that run later on the same core, without a request.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mlua::{Function, Value};

use crate::drive;
use crate::program::Program;
use crate::state::Core;

/// Timers of one core that may be pending.
const TIMERS_MAX: usize = 256;

/// Shortest time between two runs of a timer that repeats.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

pub(crate) struct Timer {
    pub(crate) function: Function,
    pub(crate) arguments: Vec<Value>,
    pub(crate) delay: Duration,
    pub(crate) repeats: bool,
    pub(crate) program: Option<Arc<Program>>,
}

/// Starts a timer on the executor of this thread. A timer of a program that no configuration has
/// any more ends.
///
/// # Errors
/// If too many timers are pending.
pub(crate) fn start(core: Rc<Core>, timer: Timer) -> Result<(), &'static str> {
    if core.is_trial {
        return Ok(());
    }
    let pending = &core.shared.timers;
    if pending.get() >= TIMERS_MAX {
        return Err("too many pending timers");
    }
    pending.set(pending.get() + 1);
    tokio::task::spawn_local(async move {
        run(&core, timer).await;
        core.shared.timers.set(core.shared.timers.get().saturating_sub(1));
    });
    Ok(())
}

async fn run(core: &Rc<Core>, timer: Timer) {
    let Timer { function, arguments, delay, repeats, program } = timer;
    let owner = program.as_ref().map(Arc::downgrade);
    drop(program);
    loop {
        let delay = if repeats { delay.max(INTERVAL_MIN) } else { delay };
        tokio::time::sleep(delay).await;
        let program = owner.as_ref().and_then(std::sync::Weak::upgrade);
        if owner.is_some() && program.is_none() {
            return;
        }
        // The first argument says whether the process ends; such timers do not run here.
        let mut values = vec![Value::Boolean(false)];
        values.extend(arguments.iter().cloned());
        if let Err(failure) = drive::run_timer(core, program.as_ref(), &function, values).await {
            let plugin = program.as_ref().map_or("", |program| program.plugin);
            tracing::error!(plugin, error = %failure, "a timer of a script failed");
        }
        if !repeats {
            return;
        }
    }
}
