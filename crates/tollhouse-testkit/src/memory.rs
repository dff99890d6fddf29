//! Memory of a process as the kernel counts it.

/// Bytes of memory that the process holds now.
///
/// # Panics
/// When there is no such process.
pub fn resident_bytes(process: u32) -> u64 {
    status_kibibytes(process, "VmRSS:") * 1024
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
    status_kibibytes(process, "VmHWM:") * 1024
}

fn status_kibibytes(process: u32, name: &str) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process is running");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("the kernel counts its memory")
}
