//! Memory of a process as the kernel counts it, but for pages of its program: of a debug build these come by the
//! megabyte when something is done for the first time, and a gateway lets go of them once it has started.

/// Bytes of memory that the process holds now.
///
/// # Panics
/// When there is no such process.
pub fn resident_bytes(process: u32) -> u64 {
    Kibibytes::read(process).now_without_files() * 1024
}

/// What a process holds, from which its peak counts.
#[derive(Debug, Clone, Copy)]
pub struct MemoryBefore(Kibibytes);

/// The peak begins with what the process holds now (proc(5), `clear_refs`).
///
/// # Panics
/// When there is no such process, or it is somebody else's.
pub fn before(process: u32) -> MemoryBefore {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").expect("the process is ours");
    MemoryBefore(Kibibytes::read(process))
}

/// Bytes that it held more at its peak than before.
///
/// # Panics
/// When there is no such process.
pub fn grown_bytes(process: u32, MemoryBefore(before): MemoryBefore) -> u64 {
    let after = Kibibytes::read(process);
    // Pages that it has let go of since were not more at the peak than before.
    let files = after.files.saturating_sub(before.files);
    after.peak.saturating_sub(before.now).saturating_sub(files) * 1024
}

#[derive(Debug, Clone, Copy)]
struct Kibibytes {
    now: u64,
    peak: u64,
    /// What is mapped of files.
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
