//! Reads the words of a script as assignments, and carries them out on the spot: there is nothing in
//! such a script that could come out differently at another time.

mod expression;

use std::collections::HashMap;

use super::lexer::{Token, Word, tokens};
use super::{Problem, Script, Value};
use crate::set_header;
use tollhouse_load::case::Body;

/// Reads a script.
pub(super) fn read(text: &str, headers: Vec<(String, String)>) -> Result<Script, Problem> {
    let tokens = tokens(text)?;
    let script = Script { headers, ..Script::default() };
    let mut reader = Reader { tokens: &tokens, at: 0, names: HashMap::new(), script, depth: 0 };
    while reader.peek().is_some() {
        reader.statement()?;
    }
    let script = reader.script;
    match &script.path {
        Some(path) if !path.starts_with('/') => {
            Err(Problem::new(1, format!("wrk.path is `{path}`; a path begins with `/`")))
        }
        _ => Ok(script),
    }
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    names: HashMap<String, Value>,
    script: Script,
    depth: usize,
}

type Read<T> = Result<T, Problem>;

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a Word> {
        self.tokens.get(self.at).map(|token| &token.word)
    }

    fn line(&self) -> usize {
        let token = self.tokens.get(self.at).or(self.tokens.last());
        token.map_or(1, |token| token.line)
    }

    fn problem<T>(&self, why: impl Into<String>) -> Read<T> {
        Err(Problem::new(self.line(), why))
    }

    /// What comes next is not understood.
    fn unexpected<T>(&self) -> Read<T> {
        match self.peek() {
            None => self.problem("the script ends too early"),
            Some(Word::Name(name)) => self.problem(format!("`{name}` is not understood here")),
            Some(Word::Sign(sign)) => self.problem(format!("`{sign}` is not understood here")),
            Some(Word::Number(number)) => {
                self.problem(format!("`{number}` is not understood here"))
            }
            Some(Word::Text(_)) => self.problem("a string is not understood here"),
        }
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Word::Sign(present)) if *present == sign)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Some(Word::Name(present)) if present == name)
    }

    /// Passes a sign if it comes next.
    fn passes(&mut self, sign: &str) -> bool {
        let is_next = self.is_sign(sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, sign: &str) -> Read<()> {
        if self.passes(sign) { Ok(()) } else { self.unexpected() }
    }

    fn expect_name(&mut self, name: &str) -> Read<()> {
        if !self.is_name(name) {
            return self.unexpected();
        }
        self.at += 1;
        Ok(())
    }

    fn name(&mut self) -> Read<&'a str> {
        let Some(Word::Name(name)) = self.peek() else { return self.unexpected() };
        self.at += 1;
        Ok(name)
    }

    fn statement(&mut self) -> Read<()> {
        if self.passes(";") {
            return Ok(());
        }
        let Some(Word::Name(first)) = self.peek() else { return self.unexpected() };
        match first.as_str() {
            "wrk" => self.wrk_assignment(),
            "function" => {
                self.at += 1;
                self.expect_name("request")?;
                self.request_body()
            }
            "io" => {
                self.at += 1;
                self.expect(".")?;
                self.expect_name("close")?;
                self.expect("(")?;
                self.expression()?;
                self.expect(")")
            }
            "local" => {
                self.at += 1;
                if self.is_name("function") {
                    return self.unexpected();
                }
                self.assignment()
            }
            _ => self.assignment(),
        }
    }

    /// `name = …`, `name:close()`, or the function `request`.
    fn assignment(&mut self) -> Read<()> {
        let line = self.line();
        let name = self.name()?;
        if self.passes(":") {
            self.expect_name("close")?;
            self.expect("(")?;
            return self.expect(")");
        }
        self.expect("=")?;
        if self.is_name("function") {
            if name != "request" {
                return Err(Problem::new(line, format!("`{name}` is a function")));
            }
            self.at += 1;
            return self.request_body();
        }
        let value = self.expression()?;
        self.names.insert(name.to_owned(), value);
        Ok(())
    }

    /// `wrk.name = …`, `wrk["name"] = …`, `wrk.headers["Name"] = …`, `wrk.headers.Name = …`.
    fn wrk_assignment(&mut self) -> Read<()> {
        let line = self.line();
        self.at += 1;
        let field = self.key()?;
        let header =
            if field == "headers" && !self.is_sign("=") { Some(self.key()?) } else { None };
        self.expect("=")?;
        let value = self.expression()?;
        match header {
            Some(name) => self.set_one_header(line, &name, value),
            None => self.set_field(line, &field, value),
        }
    }

    fn set_field(&mut self, line: usize, field: &str, value: Value) -> Read<()> {
        match field {
            "method" => self.script.method = optional_text(line, "wrk.method", value)?,
            "path" => self.script.path = optional_text(line, "wrk.path", value)?,
            "body" => self.script.body = body_of(line, value)?,
            "headers" => self.script.headers = table_of(line, value)?,
            "host" => {
                let host = text_of(line, "wrk.host", value)?;
                set_header(&mut self.script.headers, "Host", host);
            }
            _ => return Err(Problem::new(line, format!("`wrk.{field}` is not understood"))),
        }
        Ok(())
    }

    fn set_one_header(&mut self, line: usize, name: &str, value: Value) -> Read<()> {
        let what = format!("wrk.headers[\"{name}\"]");
        match optional_text(line, &what, value)? {
            Some(value) => set_header(&mut self.script.headers, name, value),
            None => self.script.headers.retain(|(present, _)| !present.eq_ignore_ascii_case(name)),
        }
        Ok(())
    }

    /// After `request`: `() … return wrk.format(…) end`.
    fn request_body(&mut self) -> Read<()> {
        self.expect("(")?;
        self.expect(")")?;
        while !self.is_name("return") {
            self.statement()?;
        }
        self.at += 1;
        self.expect_name("wrk")?;
        self.expect(".")?;
        self.expect_name("format")?;
        let line = self.line();
        let arguments = self.arguments()?;
        self.passes(";");
        self.expect_name("end")?;
        self.format(line, arguments)
    }

    /// What `wrk.format(method, path, headers, body)` changes; `nil` leaves what there is.
    fn format(&mut self, line: usize, arguments: Vec<Value>) -> Read<()> {
        let fields = ["method", "path", "headers", "body"];
        if arguments.len() > fields.len() {
            return Err(Problem::new(line, "wrk.format has more than four arguments"));
        }
        for (field, value) in fields.into_iter().zip(arguments) {
            if value == Value::Nil {
                continue;
            }
            // A table of headers replaces all but the host.
            let host = self.script.headers.iter().find(|(name, _)| name == "Host").cloned();
            self.set_field(line, field, value)?;
            let has_host = self.script.headers.iter().any(|(name, _)| name == "Host");
            self.script.headers.extend(host.filter(|_| !has_host));
        }
        Ok(())
    }
}

fn text_of(line: usize, what: &str, value: Value) -> Read<String> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(Problem::new(line, format!("{what} is {}, not a string", other.kind()))),
    }
}

fn optional_text(line: usize, what: &str, value: Value) -> Read<Option<String>> {
    match value {
        Value::Nil => Ok(None),
        value => text_of(line, what, value).map(Some),
    }
}

fn body_of(line: usize, value: Value) -> Read<Option<Body>> {
    match value {
        Value::Content(path) => Ok(Some(Body::File(path))),
        value => Ok(optional_text(line, "wrk.body", value)?.map(Body::Text)),
    }
}

fn table_of(line: usize, value: Value) -> Read<Vec<(String, String)>> {
    match value {
        Value::Table(entries) => Ok(entries),
        other => Err(Problem::new(line, format!("wrk.headers is {}, not a table", other.kind()))),
    }
}
