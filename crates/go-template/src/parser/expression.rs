//! Parser for expressions: content of actions that are not blocks.

use tollhouse_stdx::nearest;

use super::super::function::{self, Function};
use super::super::lexer::Token;
use super::super::node::{Call, Operand, Pipeline, TimePart, VARIABLES};
use super::super::{Functions, TemplateError};
use super::{Parser, Tokens, describe};

impl Parser<'_> {
    pub(super) fn pipeline(&mut self, tokens: &mut Tokens) -> Result<Pipeline, TemplateError> {
        self.deeper(tokens.at)?;
        let first = self.command(tokens)?;
        let mut then = Vec::new();
        while tokens.takes(&Token::Pipe) {
            let Some(Token::Word(name)) = tokens.next() else {
                return Err(self.error(tokens.at, "after `|` comes a function"));
            };
            let function = self.function(&name, tokens.at)?;
            let arguments = self.arguments(tokens)?;
            self.check_count(function, arguments.len() + 1, tokens.at)?;
            then.push(Call { function, arguments });
        }
        self.depth -= 1;
        Ok(Pipeline { first, then })
    }

    /// Parses a value, or a function with its arguments.
    fn command(&mut self, tokens: &mut Tokens) -> Result<Operand, TemplateError> {
        let is_chained = matches!(tokens.tokens.get(1), Some((Token::Chain(_), _)));
        let word = match tokens.peek() {
            Some(Token::Word(word)) if constant(word).is_none() && !is_chained => {
                Some(word.clone())
            }
            _ => None,
        };
        let Some(word) = word else {
            let operand = self.operand(tokens, MayFormat::Yes)?;
            return match tokens.peek() {
                None | Some(Token::Pipe | Token::Close) => Ok(operand),
                Some(token) => {
                    let why = format!("unexpected {}; only functions take values", describe(token));
                    Err(self.error(tokens.at, why))
                }
            };
        };
        tokens.next();
        let at = tokens.at;
        let function = self.function(&word, at)?;
        let arguments = self.arguments(tokens)?;
        self.check_count(function, arguments.len(), at)?;
        Ok(Operand::Call(Call { function, arguments }))
    }

    fn arguments(&mut self, tokens: &mut Tokens) -> Result<Vec<Operand>, TemplateError> {
        let mut arguments = Vec::new();
        while !matches!(tokens.peek(), None | Some(Token::Pipe | Token::Close)) {
            let argument = self.operand(tokens, MayFormat::No)?;
            arguments.push(argument);
        }
        Ok(arguments)
    }

    fn operand(
        &mut self,
        tokens: &mut Tokens,
        may_format: MayFormat,
    ) -> Result<Operand, TemplateError> {
        let Some(token) = tokens.next() else {
            return Err(self.error(tokens.at, "a value is missing here"));
        };
        let at = tokens.at;
        let operand = match token {
            Token::Text(text) => Operand::Text(text.into()),
            Token::Integer(number) => Operand::Integer(number),
            Token::Float(number) => Operand::Float(number),
            // Inside `range` and `with`, `.Name` would be a field of the current value, not of the
            // request; it is refused to avoid confusion.
            Token::Field(name) if self.dots > 0 => {
                let why = format!("inside `range` and `with`, `.` is another; write `$.{name}`");
                return Err(self.error(at, why));
            }
            Token::Field(name) => self.variable(&name, at)?,
            Token::Variable(name) if name.is_empty() => match tokens.next() {
                Some(Token::Chain(field)) => self.variable(&field, at)?,
                _ => return Err(self.error(at, "`$` is the whole request; write $.RequestNumber")),
            },
            Token::Variable(name) => Operand::Slot(self.slot(&name, at)?),
            Token::Dot if self.dots > 0 => Operand::Dot,
            Token::Dot => {
                return Err(self.error(at, "`.` is the whole request; write .RequestNumber"));
            }
            Token::Word(word) => match constant(&word) {
                Some(constant) => constant,
                None => {
                    let function = self.function(&word, at)?;
                    self.check_count(function, 0, at)?;
                    Operand::Call(Call { function, arguments: Vec::new() })
                }
            },
            Token::Open => {
                let inner = self.pipeline(tokens)?;
                if !tokens.takes(&Token::Close) {
                    return Err(self.error(at, "this `(` has no `)`"));
                }
                Operand::Nested(Box::new(inner))
            }
            other => return Err(self.error(at, format!("unexpected {}", describe(&other)))),
        };
        self.chained(operand, tokens, may_format)
    }

    /// Parses an accessor such as `.Unix` directly after a value.
    fn chained(
        &mut self,
        operand: Operand,
        tokens: &mut Tokens,
        may_format: MayFormat,
    ) -> Result<Operand, TemplateError> {
        let Some(Token::Chain(name)) = tokens.peek().cloned() else { return Ok(operand) };
        tokens.next();
        let part = match name.as_str() {
            "Unix" => TimePart::Unix,
            "UnixMilli" => TimePart::UnixMilli,
            "UnixMicro" => TimePart::UnixMicro,
            "UnixNano" => TimePart::UnixNano,
            // All times are already in UTC.
            "UTC" => return self.chained(operand, tokens, may_format),
            "Format" if may_format == MayFormat::Yes => {
                TimePart::Format(Box::new(self.operand(tokens, MayFormat::No)?))
            }
            _ => {
                let known = ["Unix", "UnixMilli", "UnixMicro", "UnixNano", "UTC", "Format"];
                let why = format!(
                    "a value has no `.{name}`; times have {}, as in (now).Unix",
                    known.join(", ")
                );
                return Err(self.error(tokens.at, why));
            }
        };
        Ok(Operand::TimePart { time: Box::new(operand), part })
    }

    fn variable(&self, name: &str, at: usize) -> Result<Operand, TemplateError> {
        let known = VARIABLES.iter().find(|(known, _)| *known == name);
        if let Some((_, variable)) = known {
            return Ok(Operand::Variable(*variable));
        }
        let names = || VARIABLES.iter().map(|(known, _)| *known);
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean `.{near}`?"),
            None => format!("known are .{}", names().collect::<Vec<_>>().join(", .")),
        };
        Err(self.error(at, format!("variable `.{name}` is unknown; {hint}")))
    }

    fn function(&self, name: &str, at: usize) -> Result<&'static Function, TemplateError> {
        let function = function::find(name).map_err(|fault| self.error(at, fault.to_string()))?;
        if self.functions == Functions::Builtin && !function.is_builtin() {
            return Err(self.error(
                at,
                format!("function `{name}` is switched off by disable-template-functions"),
            ));
        }
        Ok(function)
    }

    fn check_count(
        &self,
        function: &Function,
        count: usize,
        at: usize,
    ) -> Result<(), TemplateError> {
        function.check_count(count).map_err(|fault| self.error(at, fault.to_string()))
    }
}

/// Permission to use `.Format`. It is allowed only at the start of a command, because it takes the
/// next value as its argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MayFormat {
    Yes,
    No,
}

fn constant(word: &str) -> Option<Operand> {
    match word {
        "true" => Some(Operand::Boolean(true)),
        "false" => Some(Operand::Boolean(false)),
        "nil" => Some(Operand::Nil),
        _ => None,
    }
}
