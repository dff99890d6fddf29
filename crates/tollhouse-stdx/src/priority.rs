//! How the calling thread stands back where it shares a core with threads that answer requests.

#![expect(unsafe_code, reason = "the system call has no safe wrapper")]

/// The lowest niceness there is.
const NICENESS: i32 = 19;

/// Has the calling thread run when nothing else wants its core, and give it back at once: not only
/// after the slice that the kernel leaves to a thread that is merely nice. For long computations, not
/// for what somebody waits for. Where that is not allowed it becomes as nice as can be.
///
/// # Errors
/// What the kernel says where neither is allowed.
pub fn run_when_idle() -> std::io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is as the call expects it, and outlives it; 0 is the calling thread.
    let done = unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const parameter)
    };
    if done == 0 { Ok(()) } else { be_nice() }
}

/// Has the calling thread get what others leave, with a little of its own.
///
/// # Errors
/// What the kernel says.
pub fn be_nice() -> std::io::Result<()> {
    Ok(rustix::process::setpriority_process(None, NICENESS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_back_without_the_others() {
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("a thread");
            let after_name = stat.rsplit_once(')').expect("a name").1.to_owned();
            let fields: Vec<_> = after_name.split_whitespace().map(str::to_owned).collect();
            // Fields 19 (nice) and 41 (policy) of proc(5), counted after the name.
            (fields[16].clone(), fields[38].clone())
        };
        let before = policy();
        let (niceness, idle) = std::thread::spawn(move || {
            run_when_idle().expect("lowering is allowed");
            policy()
        })
        .join()
        .expect("no panic");
        assert!(idle == "5" || niceness == "19", "niceness {niceness}, policy {idle}");
        assert_eq!(policy(), before);
    }
}
