//! wrk's scripts, as far as they only say what is sent: assignments to `wrk.method`, `wrk.path`,
//! `wrk.body` and `wrk.headers`, local names, strings put together, files read whole, and a `request`
//! that always returns the same `wrk.format(…)`.
//!
//! Such scripts are most of those in use. Anything else is code that would have to run for each request;
//! it is refused with its line, and a plan file can say what it meant.

mod lexer;
mod reader;

use std::path::{Path, PathBuf};

use tollhouse_load::case::{Body, Case};
use tollhouse_load::error::BenchError;

/// What a script says is sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// The method, when the script names one.
    pub method: Option<String>,
    /// The path, when the script names one.
    pub path: Option<String>,
    /// All header lines, those of the command line included.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<Body>,
}

/// The longest script read; those that only say what is sent are far below, bodies included.
const SCRIPT_BYTES_MAX: u64 = 16 * 1024 * 1024;

impl Script {
    /// Reads a script. `headers` are those of the command line, which a script sees and may replace.
    ///
    /// # Errors
    /// The first line that does more than say what is sent, or that the file cannot be read.
    pub fn read(path: &Path, headers: Vec<(String, String)>) -> Result<Self, BenchError> {
        let error = |why: String| BenchError::File { path: path.to_owned(), why };
        let length = std::fs::metadata(path).map_err(|why| error(why.to_string()))?.len();
        if length > SCRIPT_BYTES_MAX {
            return Err(error(format!("is {length} bytes long; {SCRIPT_BYTES_MAX} are the most")));
        }
        let text = std::fs::read_to_string(path).map_err(|why| error(why.to_string()))?;
        Self::parse(&text, headers).map_err(error)
    }

    fn parse(text: &str, headers: Vec<(String, String)>) -> Result<Self, String> {
        reader::read(text, headers).map_err(|problem| {
            format!(
                "line {}: {}; only scripts that say what is sent are understood, without running \
                 Lua: write the requests in a plan file and use `tollhouse bench run PLAN.yaml`",
                problem.line, problem.why
            )
        })
    }

    /// Lets a case send it.
    pub(super) fn apply(self, case: &mut Case) {
        if let Some(method) = self.method {
            case.http.method = method;
        }
        if let Some(path) = self.path {
            let start = case.target.find("://").map_or(0, |at| at + 3);
            let end = case.target[start..].find(['/', '?', '#']).map(|at| start + at);
            case.target.truncate(end.unwrap_or(case.target.len()));
            case.target.push_str(&path);
        }
        case.http.headers = self.headers;
        case.http.body = self.body;
    }
}

/// What is not understood, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    line: usize,
    why: String,
}

impl Problem {
    fn new(line: usize, why: impl Into<String>) -> Self {
        Self { line, why: why.into() }
    }
}

/// What an expression is.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Nil,
    Text(String),
    Table(Vec<(String, String)>),
    /// An open file.
    File(PathBuf),
    /// All that is in a file.
    Content(PathBuf),
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Text(_) => "a string",
            Self::Table(_) => "a table",
            Self::File(_) => "a file",
            Self::Content(_) => "the content of a file",
        }
    }
}

#[cfg(test)]
mod tests;
