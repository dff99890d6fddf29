//! Scheduling of background threads that share a core with request threads.

#![expect(unsafe_code, reason = "no safe wrapper of sched_setattr is kept; see below")]

use std::io;
use std::time::Duration;

/// Highest niceness, which means the lowest priority.
pub const NICENESS_MAX: i32 = 19;

/// Time slice of a background thread: the maximum the kernel accepts. Since Linux 6.12, a thread
/// with a shorter slice (about 3 ms by default) preempts it as soon as it wakes; with niceness
/// alone it would wait until the slice ends. Older kernels ignore the value.
const SLICE: Duration = Duration::from_millis(100);

/// Lowers the priority of the calling thread, so that it gets mostly unused CPU time. Unlike the
/// kernel's idle class, it keeps a small share and makes progress even if all cores are busy.
///
/// # Errors
/// If the system call fails.
pub fn stand_back(niceness: i32) -> io::Result<()> {
    // SAFETY: all fields are integers, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = const { size_of::<libc::sched_attr>() as u32 };
    attributes.sched_policy = libc::SCHED_OTHER as u32;
    attributes.sched_nice = niceness;
    attributes.sched_runtime = SLICE.as_nanos() as u64;
    let flags: libc::c_uint = 0;
    // SAFETY: the structure outlives the call and states its length; thread 0 is the calling
    // thread.
    let status = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, flags) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_back_without_the_others() {
        let niceness = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("a thread");
            let after_name = stat.rsplit_once(')').expect("a name").1.to_owned();
            // Field 19 of proc(5), counted after the name.
            after_name.split_whitespace().nth(16).map(str::to_owned)
        };
        let before = niceness();
        let lowered = std::thread::spawn(move || {
            stand_back(NICENESS_MAX).expect("lowering is allowed");
            niceness()
        });
        assert_eq!(lowered.join().expect("no panic").as_deref(), Some("19"));
        assert_eq!(niceness(), before);
    }
}
