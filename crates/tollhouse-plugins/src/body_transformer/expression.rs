//! Expressions of templates: paths, literals, operators, and a few functions.

use super::token::Token;

/// Largest depth of nested expressions.
const DEPTH_MAX: usize = 50;

/// Expression of a template.
#[derive(Debug, PartialEq)]
pub(super) enum Expression {
    Nil,
    Bool(bool),
    Number(f64),
    Text(Box<str>),
    /// Local variable, field of the body, `_body`, `_ctx` or `context`.
    Name(Box<str>),
    Index(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Negative(Box<Expression>),
    Length(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
    Call(Function, Box<Expression>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Concat,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    EscapeJson,
    EscapeXml,
    ToText,
    ToNumber,
    Lower,
    Upper,
}

/// Words that are not names of variables.
const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// Parser over the tokens of a code.
pub(super) struct Parser<'t> {
    tokens: &'t [Token],
    depth: usize,
}

/// Description of a construct that is not supported.
pub(super) type Unsupported = String;

impl<'t> Parser<'t> {
    pub(super) fn new(tokens: &'t [Token]) -> Self {
        Self { tokens, depth: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn takes_mark(&mut self, mark: &str) -> bool {
        self.takes(&|token| matches!(token, Token::Mark(other) if *other == mark))
    }

    pub(super) fn takes_word(&mut self, word: &str) -> bool {
        self.takes(&|token| matches!(token, Token::Name(other) if other == word))
    }

    fn takes(&mut self, is_meant: &dyn Fn(&Token) -> bool) -> bool {
        match self.tokens.split_first() {
            Some((first, rest)) if is_meant(first) => {
                self.tokens = rest;
                true
            }
            _ => false,
        }
    }

    /// Takes the name of a variable.
    pub(super) fn name(&mut self) -> Result<String, Unsupported> {
        match self.tokens.split_first() {
            Some((Token::Name(name), rest)) if !KEYWORDS.contains(&name.as_str()) => {
                self.tokens = rest;
                Ok(name.clone())
            }
            _ => Err(self.unsupported()),
        }
    }

    /// Describes the next token.
    pub(super) fn unsupported(&self) -> Unsupported {
        match self.tokens.first() {
            None => "an incomplete code".into(),
            Some(Token::Name(name)) => format!("\"{name}\""),
            Some(Token::Number(number)) => format!("\"{number}\""),
            Some(Token::Text(text)) => format!("the text {text:?}"),
            Some(Token::Mark(mark)) => format!("\"{mark}\""),
        }
    }

    /// Takes an expression.
    ///
    /// # Errors
    /// The first construct that is not supported.
    pub(super) fn expression(&mut self) -> Result<Expression, Unsupported> {
        self.binary(0)
    }

    /// Takes an expression of operators that bind at least as strongly as `level`.
    fn binary(&mut self, level: u8) -> Result<Expression, Unsupported> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("an expression deeper than {DEPTH_MAX} levels"));
        }
        let mut left = self.unary()?;
        while let Some((operator, own)) = self.operator().filter(|(_, own)| *own >= level) {
            self.tokens = &self.tokens[1..];
            // `..` groups from the right.
            let right = if operator == Operator::Concat { own } else { own + 1 };
            let right = self.binary(right)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operator(&self) -> Option<(Operator, u8)> {
        Some(match self.tokens.first()? {
            Token::Name(word) => match word.as_str() {
                "or" => (Operator::Or, 1),
                "and" => (Operator::And, 2),
                _ => return None,
            },
            Token::Mark(mark) => match *mark {
                "==" => (Operator::Equal, 3),
                "~=" => (Operator::Unequal, 3),
                "<" => (Operator::Less, 3),
                "<=" => (Operator::LessOrEqual, 3),
                ">" => (Operator::Greater, 3),
                ">=" => (Operator::GreaterOrEqual, 3),
                ".." => (Operator::Concat, 4),
                "+" => (Operator::Add, 5),
                "-" => (Operator::Subtract, 5),
                "*" => (Operator::Multiply, 6),
                "/" => (Operator::Divide, 6),
                "%" => (Operator::Modulo, 6),
                _ => return None,
            },
            _ => return None,
        })
    }

    fn unary(&mut self) -> Result<Expression, Unsupported> {
        let wrap: fn(Box<Expression>) -> Expression = if self.takes_word("not") {
            Expression::Not
        } else if self.takes_mark("-") {
            Expression::Negative
        } else if self.takes_mark("#") {
            Expression::Length
        } else {
            return self.suffixed();
        };
        self.binary(7).map(Box::new).map(wrap)
    }

    fn suffixed(&mut self) -> Result<Expression, Unsupported> {
        let mut value = self.primary()?;
        loop {
            if self.takes_mark(".") {
                let Some((Token::Name(name), rest)) = self.tokens.split_first() else {
                    return Err(self.unsupported());
                };
                self.tokens = rest;
                let name = Expression::Text(name.as_str().into());
                value = Expression::Index(Box::new(value), Box::new(name));
            } else if self.takes_mark("[") {
                let index = self.expression()?;
                if !self.takes_mark("]") {
                    return Err(self.unsupported());
                }
                value = Expression::Index(Box::new(value), Box::new(index));
            } else if self.takes_mark("(") {
                let function = Function::named(&value)?;
                let argument = self.expression()?;
                if !self.takes_mark(")") {
                    return Err(self.unsupported());
                }
                value = Expression::Call(function, Box::new(argument));
            } else if self.takes_mark(":") {
                return Err(format!("the method call \":{}\"", self.name().unwrap_or_default()));
            } else {
                return Ok(value);
            }
        }
    }

    fn primary(&mut self) -> Result<Expression, Unsupported> {
        if self.takes_mark("(") {
            let value = self.expression()?;
            return if self.takes_mark(")") { Ok(value) } else { Err(self.unsupported()) };
        }
        for (word, value) in [
            ("nil", Expression::Nil),
            ("true", Expression::Bool(true)),
            ("false", Expression::Bool(false)),
        ] {
            if self.takes_word(word) {
                return Ok(value);
            }
        }
        match self.tokens.split_first() {
            Some((Token::Number(number), rest)) => {
                self.tokens = rest;
                Ok(Expression::Number(*number))
            }
            Some((Token::Text(text), rest)) => {
                self.tokens = rest;
                Ok(Expression::Text(text.as_str().into()))
            }
            _ => Ok(Expression::Name(self.name()?.into())),
        }
    }
}

impl Function {
    fn named(value: &Expression) -> Result<Self, Unsupported> {
        let path = value.path().unwrap_or_default();
        Ok(match path.as_str() {
            "_escape_json" => Self::EscapeJson,
            "_escape_xml" => Self::EscapeXml,
            "tostring" => Self::ToText,
            "tonumber" => Self::ToNumber,
            "string.lower" => Self::Lower,
            "string.upper" => Self::Upper,
            _ => return Err(format!("the function \"{path}\"")),
        })
    }
}

impl Expression {
    /// Returns a path of names, such as `_ctx.var.uri`; `None` for any other expression.
    pub(super) fn path(&self) -> Option<String> {
        match self {
            Expression::Name(name) => Some(name.to_string()),
            Expression::Index(of, index) => match &**index {
                Expression::Text(name) => Some(format!("{}.{name}", of.path()?)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Calls `visit` with this expression and all within it.
    pub(super) fn each(&self, visit: &mut dyn FnMut(&Expression)) {
        visit(self);
        match self {
            Expression::Index(one, other) | Expression::Binary(_, one, other) => {
                one.each(visit);
                other.each(visit);
            }
            Expression::Not(value)
            | Expression::Negative(value)
            | Expression::Length(value)
            | Expression::Call(_, value) => value.each(visit),
            _ => {}
        }
    }
}
