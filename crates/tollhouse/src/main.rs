//! The `tollhouse` binary: parses the arguments, runs the command, and returns its exit code.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::Parser;

/// Allocator with a heap per thread. This suits one worker thread per core, because memory is
/// seldom freed by another thread than the one that allocated it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The allocator requests huge pages but would use only a tenth of them, which wastes 23 MiB.
    // The gateway's allocations are many and small, so that huge pages bring no gain. A failure is
    // harmless.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let arguments = cli::Arguments::parse();
    match cli::run(arguments) {
        Ok(code) => code,
        Err(error) => {
            cli::problems::print_failure(format_args!("{error:#}"));
            ExitCode::from(cli::problems::FAILED)
        }
    }
}
