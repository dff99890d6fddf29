//! Memory of a process according to the kernel, without pages of its program file. A debug build
//! loads those by the megabyte when code runs for the first time, and a gateway releases them after
//! its start.

/// Returns the bytes of memory that the process uses.
///
/// # Panics
///
/// If the process does not exist.
pub fn resident_bytes(process: u32) -> u64 {
    Kibibytes::read(process).now_without_files() * 1024
}

/// Memory use of a process at the time of the reset.
#[derive(Debug, Clone, Copy)]
pub struct MemoryBefore(Kibibytes);

/// Resets the peak of a process to its current use (proc(5), `clear_refs`).
///
/// # Panics
///
/// If the process does not exist, or belongs to another user.
pub fn before(process: u32) -> MemoryBefore {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").expect("the process is ours");
    MemoryBefore(Kibibytes::read(process))
}

/// Returns by how many bytes memory use has grown at its peak since `before`.
///
/// # Panics
///
/// If the process does not exist.
pub fn grown_bytes(process: u32, MemoryBefore(before): MemoryBefore) -> u64 {
    let after = Kibibytes::read(process);
    // File pages that were released since are not counted as growth.
    let files = after.files.saturating_sub(before.files);
    after.peak.saturating_sub(before.now).saturating_sub(files) * 1024
}

#[derive(Debug, Clone, Copy)]
struct Kibibytes {
    now: u64,
    peak: u64,
    /// Mapped pages of files in KiB.
    files: u64,
}

impl Kibibytes {
    fn read(process: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"));
        let status = status.expect("the process is running");
        let number = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            number.and_then(|number| number.parse().ok()).expect("the kernel counts its memory")
        };
        Self { now: number("VmRSS:"), peak: number("VmHWM:"), files: number("RssFile:") }
    }

    fn now_without_files(self) -> u64 {
        self.now.saturating_sub(self.files)
    }
}
