//! The `tollhouse` binary: parse the arguments, run the command, turn the outcome into an exit code.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::Parser;

/// Frees little memory from other threads' heaps, which suits one thread per core.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The allocator asks for huge pages, of which it would fill a tenth: 23 MiB for nothing. What is
    // small and many is allocated here, so that there is nothing to gain by them. Failing is harmless.
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
