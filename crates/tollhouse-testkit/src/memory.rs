//! Memory of a process as the kernel counts it, but for pages of its program: of a debug build these come by the
//! megabyte when something is done for the first time.

/// Bytes of memory that the process holds now.
///
/// # Panics
/// When there is no such process.
pub fn resident_bytes(process: u32) -> u64 {
    own_kibibytes(process, "VmRSS:") * 1024
}

/// Forgets what it held before: the peak begins with what it holds now (proc(5), `clear_refs`).
///
/// # Panics
/// When there is no such process, or it is somebody else's.
pub fn forget_peak(process: u32) {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").expect("the process is ours");
}

/// The most bytes of memory that it held since it started, or since [`forget_peak`].
///
/// # Panics
/// When there is no such process.
pub fn resident_bytes_max(process: u32) -> u64 {
    own_kibibytes(process, "VmHWM:") * 1024
}

/// Without what is mapped of files, of which there is seldom more at the peak than later.
fn own_kibibytes(process: u32, name: &str) -> u64 {
    let status = |name| status_kibibytes(process, name);
    status(name).saturating_sub(status("RssFile:"))
}

fn status_kibibytes(process: u32, name: &str) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process is running");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("the kernel counts its memory")
}
