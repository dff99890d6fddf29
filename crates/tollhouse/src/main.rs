//! The binary `tollhouse`; the program itself is in the library of the same name.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    tollhouse::main()
}
