//! The program `tollhouse` as a library, so that a binary can serve plugins of its own.
//!
//! `docs/guides/write-a-plugin.md` builds such a binary. Only the two functions below are meant for it;
//! `tollhouse-plugin` is the interface of plugins.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::Parser;
pub use tollhouse_control::plugins::OwnPlugins;

/// Allocator with a heap per thread. This suits one worker thread per core, because memory is
/// seldom freed by another thread than the one that allocated it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the command line: parses the arguments, runs the command, and returns its exit code.
pub fn main() -> ExitCode {
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

/// Runs the command line as [`main`] does, with further plugins. Commands, Admin API, console and
/// gateway know them as they know the others.
pub fn main_with_plugins(plugins: OwnPlugins) -> ExitCode {
    match tollhouse_control::plugins::add_own(plugins) {
        Ok(()) => main(),
        Err(problem) => {
            cli::problems::print_failure(format_args!("{}: {}", problem.reason, problem.hint));
            ExitCode::from(cli::problems::FAILED)
        }
    }
}
