//! The dialects of other load generators: wrk, wrk2, ab and ghz. Scripts that call one of them and read what
//! it prints need another program name and nothing else.
//!
//! Each tool is a folder: its options, read into a [`Case`](tollhouse_load::case::Case), its output, made of a
//! [`CaseResult`](tollhouse_load::result::CaseResult), and the command that joins the two. An option that
//! cannot be honoured is refused with its reason; none is ignored. Measuring is the engine's work
//! ([`tollhouse_load`]).

#![forbid(unsafe_code)]

pub mod ab;
mod getopt;
pub mod ghz;
mod process;
pub mod wrk;
pub mod wrk2;

pub use process::Process;

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked<T> {
    /// To measure.
    Run(T),
    /// To print a text, such as a version or the list of options.
    Print(String),
}

/// Keeps the last value of each header, as tables of headers do; names are compared as HTTP does.
fn set_header(headers: &mut Vec<(String, String)>, name: &str, value: String) {
    headers.retain(|(present, _)| !present.eq_ignore_ascii_case(name));
    headers.push((name.to_owned(), value));
}
