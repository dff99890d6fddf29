//! How the calling thread stands back where it shares a core with threads that answer requests.

/// The lowest niceness there is.
const NICENESS: i32 = 19;

/// Has the calling thread get what others leave, with a little of its own: on a machine whose cores are all
/// taken it goes on slowly, where the kernel's idle class would not go on at all.
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
        let niceness = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("a thread");
            let after_name = stat.rsplit_once(')').expect("a name").1.to_owned();
            // Field 19 of proc(5), counted after the name.
            after_name.split_whitespace().nth(16).map(str::to_owned)
        };
        let before = niceness();
        let lowered = std::thread::spawn(move || {
            be_nice().expect("lowering is allowed");
            niceness()
        });
        assert_eq!(lowered.join().expect("no panic").as_deref(), Some("19"));
        assert_eq!(niceness(), before);
    }
}
