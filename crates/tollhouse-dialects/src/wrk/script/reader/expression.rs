//! Values of a script: strings, joined strings, names, tables of strings, files that are read whole.

use super::{Read, Reader, text_of};
use crate::set_header;
use crate::wrk::script::lexer::Word;
use crate::wrk::script::{Problem, Script, Value};
use tollhouse_load::case::Body;

/// Brackets within brackets, at most: none of wrk's values nests.
const DEPTH_MAX: usize = 16;

impl Reader<'_> {
    /// `.name` or `["name"]`.
    pub(super) fn key(&mut self) -> Read<String> {
        if self.passes(".") {
            return self.name().map(ToOwned::to_owned);
        }
        self.expect("[")?;
        let line = self.line();
        let value = self.expression()?;
        self.expect("]")?;
        text_of(line, "a key", value)
    }

    pub(super) fn arguments(&mut self) -> Read<Vec<Value>> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.passes(")") {
            if !arguments.is_empty() {
                self.expect(",")?;
            }
            arguments.push(self.expression()?);
        }
        Ok(arguments)
    }

    /// Operands joined by `..`.
    pub(super) fn expression(&mut self) -> Read<Value> {
        let line = self.line();
        let mut value = self.operand()?;
        while self.passes("..") {
            let next = self.operand()?;
            let left = text_of(line, "a string that is joined", value)?;
            let right = text_of(line, "a string that is joined", next)?;
            value = Value::Text(left + &right);
        }
        Ok(value)
    }

    fn operand(&mut self) -> Read<Value> {
        if self.depth == DEPTH_MAX {
            return self.problem("too many tables and brackets within each other");
        }
        self.depth += 1;
        let value = self.operand_within();
        self.depth -= 1;
        let mut value = value?;
        while self.passes(":") {
            value = self.read_file(value)?;
        }
        Ok(value)
    }

    fn operand_within(&mut self) -> Read<Value> {
        let Some(word) = self.peek() else { return self.unexpected() };
        match word {
            Word::Text(text) | Word::Number(text) => {
                self.at += 1;
                Ok(Value::Text(text.clone()))
            }
            Word::Sign("{") => self.table(),
            Word::Sign("(") => {
                self.at += 1;
                let value = self.expression()?;
                self.expect(")")?;
                Ok(value)
            }
            Word::Name(name) => self.named(name),
            Word::Sign(_) => self.unexpected(),
        }
    }

    fn named(&mut self, name: &str) -> Read<Value> {
        match name {
            "nil" => {
                self.at += 1;
                Ok(Value::Nil)
            }
            "io" => self.open_file(),
            "assert" => {
                self.at += 1;
                let mut arguments = self.arguments()?;
                if arguments.is_empty() { self.unexpected() } else { Ok(arguments.swap_remove(0)) }
            }
            "wrk" => {
                self.at += 1;
                self.wrk_value()
            }
            name => {
                let Some(value) = self.names.get(name).cloned() else { return self.unexpected() };
                self.at += 1;
                Ok(value)
            }
        }
    }

    /// What was assigned to a field of `wrk` before.
    fn wrk_value(&mut self) -> Read<Value> {
        let field = self.key()?;
        let text = |text: &Option<String>, or: &str| {
            Ok(Value::Text(text.clone().unwrap_or_else(|| or.to_owned())))
        };
        match (field.as_str(), &self.script) {
            ("method", script) => text(&script.method, "GET"),
            ("path", Script { path: Some(path), .. }) => Ok(Value::Text(path.clone())),
            ("headers", script) => Ok(Value::Table(script.headers.clone())),
            ("body", script) => Ok(match script.body.clone() {
                None => Value::Nil,
                Some(Body::Text(text)) => Value::Text(text),
                Some(Body::File(path)) => Value::Content(path),
            }),
            _ => self.problem(format!("`wrk.{field}` is not known before the run")),
        }
    }

    /// `io.open(path)` and `io.open(path, mode)`.
    fn open_file(&mut self) -> Read<Value> {
        let line = self.line();
        self.at += 1;
        self.expect(".")?;
        self.expect_name("open")?;
        let mut arguments = self.arguments()?.into_iter();
        let path = text_of(line, "the path", arguments.next().unwrap_or(Value::Nil))?;
        match arguments.next() {
            None => {}
            Some(Value::Text(mode)) if matches!(mode.as_str(), "r" | "rb") => {}
            Some(_) => return Err(Problem::new(line, "a file is opened for more than reading")),
        }
        Ok(Value::File(path.into()))
    }

    /// After `file:`, `read("*a")`.
    fn read_file(&mut self, value: Value) -> Read<Value> {
        let line = self.line();
        self.expect_name("read")?;
        let what = match self.peek() {
            Some(Word::Text(what)) => {
                self.at += 1;
                what.clone()
            }
            _ => {
                let mut arguments = self.arguments()?.into_iter();
                text_of(line, "what is read", arguments.next().unwrap_or(Value::Nil))?
            }
        };
        match value {
            Value::File(path) if matches!(what.as_str(), "*a" | "*all" | "a" | "all") => {
                Ok(Value::Content(path))
            }
            Value::File(_) => Err(Problem::new(line, "a file is read in pieces, not with \"*a\"")),
            other => Err(Problem::new(line, format!("{} cannot be read", other.kind()))),
        }
    }

    /// `{ name = value, ["name"] = value }`.
    fn table(&mut self) -> Read<Value> {
        self.expect("{")?;
        let mut entries = Vec::new();
        while !self.passes("}") {
            let line = self.line();
            let name = if self.is_sign("[") { self.key()? } else { self.name()?.to_owned() };
            self.expect("=")?;
            let value = self.expression()?;
            set_header(&mut entries, &name, text_of(line, &name, value)?);
            if !self.passes(",") && !self.passes(";") && !self.is_sign("}") {
                return self.unexpected();
            }
        }
        Ok(Value::Table(entries))
    }
}
