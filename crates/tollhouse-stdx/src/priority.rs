//! How the calling thread stands back where it shares a core with threads that answer requests.

#![expect(unsafe_code, reason = "no safe wrapper of sched_setattr is kept; see below")]

use std::io;
use std::time::Duration;

/// The lowest niceness there is.
pub const NICENESS_MAX: i32 = 19;

/// How long the kernel would let a background thread run in one piece: the most it accepts. Since Linux 6.12 a
/// thread with a shorter slice, and the default is about 3 ms, takes over as soon as it wakes; with
/// niceness alone it would wait until the slice of the other ends. Older kernels ignore the value.
const SLICE: Duration = Duration::from_millis(100);

/// Has the calling thread get what others leave, with a little of its own: on a machine whose cores are all
/// taken it goes on slowly, where the kernel's idle class would not go on at all.
///
/// # Errors
/// What the kernel says.
pub fn stand_back(niceness: i32) -> io::Result<()> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = const { size_of::<libc::sched_attr>() as u32 };
    attributes.sched_policy = libc::SCHED_OTHER as u32;
    attributes.sched_nice = niceness;
    attributes.sched_runtime = SLICE.as_nanos() as u64;
    let flags: libc::c_uint = 0;
    // SAFETY: the structure outlives the call and says how long it is; thread 0 is the calling one.
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
