//! Foreign spellings: the command lines and configuration files of other load generators, read into a
//! [`Case`](crate::case::Case) and what their output needs beside it.
//!
//! A flag that cannot be honoured is refused with its reason; none is ignored. How those tools print is
//! no matter of this module (see [`crate::report`]).

pub mod ab;
mod getopt;
pub mod ghz;
pub mod wrk;

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
