//! Command lines and output of other load generators: wrk, wrk2, ab and ghz. Scripts that call one
//! of them only need to change the program name.
//!
//! Each tool has a folder: its options, converted to a [`Case`](tollhouse_load::case::Case); its
//! output, generated from a [`CaseResult`](tollhouse_load::result::CaseResult); and the command
//! that connects the two. An option that is not supported is refused with the reason, never
//! ignored. The measurement itself is in [`tollhouse_load`].

#![forbid(unsafe_code)]

pub mod ab;
mod getopt;
pub mod ghz;
mod process;
pub mod wrk;
pub mod wrk2;

pub use process::Process;

/// Action that a command line requests.
#[derive(Debug, Clone, PartialEq)]
pub enum Action<T> {
    /// Run a measurement with these settings.
    Run(T),
    /// Text to print, such as a version or the help.
    Print(String),
}

/// Sets a header and removes earlier ones called `name`, ignoring case.
fn set_header(headers: &mut Vec<(String, String)>, name: &str, value: String) {
    headers.retain(|(present, _)| !present.eq_ignore_ascii_case(name));
    headers.push((name.to_owned(), value));
}
