//! Memory of a process as the kernel counts it.

/// Bytes of memory that the process holds now.
///
/// # Panics
/// When there is no such process.
pub fn resident_bytes(process: u32) -> u64 {
    status_kibibytes(process, "VmRSS:") * 1024
}

/// The most bytes of memory that it ever held.
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
