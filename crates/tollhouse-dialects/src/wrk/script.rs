//! Scripts of wrk that only define what is sent: `wrk.method`, `wrk.path`, `wrk.body` and
//! `wrk.headers["Name"]`, each set to a string. Lua is not executed; anything else is refused with
//! its line number.

use std::path::Path;

use tollhouse_load::case::{Body, Case};
use tollhouse_load::error::BenchError;
use tollhouse_load::file;

use crate::set_header;

/// Parts of a request that a script sets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    method: Option<String>,
    path: Option<String>,
    /// All headers, including those of the command line.
    headers: Vec<(String, String)>,
    body: Option<String>,
}

/// Maximum length of a script in bytes; scripts that only define what is sent are much shorter.
const SCRIPT_BYTES_MAX: u64 = 16 * 1024 * 1024;

const WHAT_IS_SUPPORTED: &str = "a script may set wrk.method, wrk.path, wrk.body and wrk.headers[\"Name\"] to \
     strings, no Lua runs; write other requests in a plan file and use `tollhouse bench run PLAN.yaml`";

impl Script {
    /// Reads a script. It may replace `headers`, which come from the command line.
    ///
    /// # Errors
    /// If a line does more than define what is sent, or the file cannot be read.
    pub fn open(path: &Path, headers: Vec<(String, String)>) -> Result<Self, BenchError> {
        let text = file::read_text(path, SCRIPT_BYTES_MAX)?;
        Self::parse(&text, headers).map_err(|why| BenchError::File { path: path.to_owned(), why })
    }

    fn parse(text: &str, headers: Vec<(String, String)>) -> Result<Self, String> {
        // The first line may be for the shell.
        let start = if text.starts_with('#') { text.find('\n').unwrap_or(text.len()) } else { 0 };
        let mut cursor = Cursor { text, at: start };
        let mut script = Self { headers, ..Self::default() };
        while cursor.skip_blank().is_some() {
            script.assignment(&mut cursor).map_err(|why| {
                let line = 1 + text[..cursor.at].matches('\n').count();
                format!("line {line}: {why}; {WHAT_IS_SUPPORTED}")
            })?;
        }
        Ok(script)
    }

    /// Parses `wrk.name = "…"`, `wrk.headers["Name"] = "…"` or `wrk.headers.Name = "…"`.
    fn assignment(&mut self, cursor: &mut Cursor<'_>) -> Result<(), String> {
        if cursor.passes(";") {
            return Ok(());
        }
        let first = cursor.name();
        if first != "wrk" {
            return Err(cursor.unsupported(first));
        }
        let field = cursor.key()?;
        let header = if field == "headers" { Some(cursor.key()?) } else { None };
        if !cursor.passes("=") {
            return Err(cursor.unsupported(""));
        }
        let mut value = cursor.string()?;
        // Concatenation is the only supported operator, because scripts use it for long bodies.
        while cursor.passes("..") {
            value.push_str(&cursor.string()?);
        }
        match (field.as_str(), header) {
            ("headers", Some(name)) => set_header(&mut self.headers, &name, value),
            ("method", _) => self.method = Some(value),
            ("body", _) => self.body = Some(value),
            ("path", _) if value.starts_with('/') => self.path = Some(value),
            ("path", _) => return Err(format!("wrk.path is `{value}`; a path begins with `/`")),
            _ => return Err(format!("`wrk.{field}` is not supported")),
        }
        Ok(())
    }

    /// Applies the script to a case.
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
        case.http.body = self.body.map(Body::Text);
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips blanks and comments. Returns the next character, if any.
    fn skip_blank(&mut self) -> Option<char> {
        loop {
            let rest = self.rest().trim_start();
            self.at = self.text.len() - rest.len();
            let Some(comment) = rest.strip_prefix("--") else { return rest.chars().next() };
            let length = match long_string(comment) {
                Some((_, length)) => length,
                None => comment.find('\n').unwrap_or(comment.len()),
            };
            self.at += 2 + length;
        }
    }

    /// Skips a token if it comes next. Returns whether it did.
    fn passes(&mut self, sign: &str) -> bool {
        self.skip_blank();
        let is_next = self.rest().starts_with(sign);
        self.at += if is_next { sign.len() } else { 0 };
        is_next
    }

    /// Returns the next name, or an empty text.
    fn name(&mut self) -> &'a str {
        self.skip_blank();
        let rest = self.rest();
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let (name, _) = rest.split_at(rest.find(|letter| !is_part(letter)).unwrap_or(rest.len()));
        self.at += name.len();
        name
    }

    /// Parses a table key: `.name` or `["name"]`.
    fn key(&mut self) -> Result<String, String> {
        if self.passes(".") {
            return Ok(self.name().to_owned());
        }
        if !self.passes("[") {
            return Err(self.unsupported(""));
        }
        let key = self.string()?;
        if self.passes("]") { Ok(key) } else { Err(self.unsupported("")) }
    }

    /// Parses a string in quotes or long brackets.
    fn string(&mut self) -> Result<String, String> {
        let quote = match self.skip_blank() {
            Some(quote @ ('"' | '\'')) => quote,
            Some('[') => {
                let (text, length) = long_string(self.rest()).ok_or("`[[` without `]]`")?;
                self.at += length;
                return Ok(text.to_owned());
            }
            _ => return Err(self.unsupported("")),
        };
        let rest = &self.rest()[1..];
        let mut text = String::new();
        let mut letters = rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => text.push(escaped(letters.next().map(|(_, letter)| letter))?),
                '\n' => break,
                letter if letter == quote => {
                    self.at += 1 + at + 1;
                    return Ok(text);
                }
                letter => text.push(letter),
            }
        }
        Err("a string without its end".into())
    }

    /// Returns an error about the given name, or about the next token.
    fn unsupported(&mut self, name: &str) -> String {
        let next = if name.is_empty() { self.name() } else { name };
        match (next, self.rest().chars().next()) {
            ("", None) => "the script ends too early".into(),
            ("", Some(letter)) => format!("`{letter}` is not supported here"),
            (name, _) => format!("`{name}` is not supported here"),
        }
    }
}

/// Parses `[[…]]` or `[=[…]=]`. Returns the text and the length of the whole, or `None` for
/// anything else.
fn long_string(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix('[')?;
    let level = inner.bytes().take_while(|byte| *byte == b'=').count();
    let inner = inner[level..].strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    let end = inner.find(&close)?;
    let content = inner[..end].trim_start_matches('\r');
    Some((
        content.strip_prefix('\n').unwrap_or(content),
        text.len() - inner.len() + end + close.len(),
    ))
}

fn escaped(letter: Option<char>) -> Result<char, String> {
    match letter {
        Some('n' | '\n') => Ok('\n'),
        Some('r') => Ok('\r'),
        Some('t') => Ok('\t'),
        Some(letter @ ('\\' | '"' | '\'' | '/')) => Ok(letter),
        Some(letter) => Err(format!("the escape `\\{letter}` is not supported")),
        None => Err("a string without its end".into()),
    }
}

#[cfg(test)]
mod tests;
