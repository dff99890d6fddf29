//! Matcher of a model: an expression over the fields of a request and a policy.
//!
//! Supported are `&&`, `||`, `!`, `==`, `!=`, `in (…)`, parentheses, texts, and the functions
//! `keyMatch` to `keyMatch3`, `globMatch`, `regexMatch`, `ipMatch` and role definitions. Anything
//! else is refused when the conf is written.

use std::collections::HashMap;

use ipnet::IpNet;
use tollhouse_model::expr::pattern::{Case, Pattern};
use tollhouse_plugin::ConfError;

use super::model::{Bindings, Roles};
use super::wildcard::{Search, Style, Undecided, Wildcard};
use crate::shared::confs::patterns;

/// Deepest nesting of an expression.
const DEPTH_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct Matcher {
    root: Expression,
    /// Regular expressions of policies, by their text.
    patterns: HashMap<String, Pattern>,
    /// Wildcard patterns of policies, by their function and text.
    wildcards: HashMap<Style, HashMap<String, Wildcard>>,
}

#[derive(Debug)]
enum Expression {
    Or(Box<Expression>, Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Equal(Operand, Operand),
    Unequal(Operand, Operand),
    OneOf(Operand, Vec<Operand>),
    Call { name: String, arguments: Vec<Operand> },
    Constant(bool),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operand {
    Request(String),
    Policy(String),
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Name(String),
    Text(String),
    Mark(&'static str),
}

impl Matcher {
    /// Parses a matcher.
    ///
    /// # Errors
    /// If it uses what is not supported.
    pub(super) fn parse(text: &str) -> Result<Self, ConfError> {
        let refused = |at: &str| ConfError::from(format!("unsupported matcher near {at:?}"));
        let tokens = tokens(text).map_err(|at| refused(&at))?;
        let mut parser = Parser { tokens, position: 0, depth: 0 };
        let root = parser.or().filter(|_| parser.position == parser.tokens.len());
        let at = parser.tokens.get(parser.position).map_or(String::new(), |it| format!("{it:?}"));
        let root = root.ok_or_else(|| refused(&at))?;
        Ok(Self { root, patterns: HashMap::new(), wildcards: HashMap::new() })
    }

    /// Checks that all names exist.
    ///
    /// # Errors
    /// For a field or function that the model does not define.
    pub(super) fn check(
        &self,
        request: &[String],
        policy: &[String],
        roles: &HashMap<String, Roles>,
    ) -> Result<(), ConfError> {
        let mut fault = None;
        self.root.each(&mut |expression| {
            for operand in expression.operands() {
                let is_known = match operand {
                    Operand::Request(name) => request.contains(name),
                    Operand::Policy(name) => policy.contains(name),
                    Operand::Text(_) => true,
                };
                if !is_known {
                    fault = Some(format!("the matcher uses an unknown field: {operand:?}"));
                }
            }
            if let Expression::Call { name, arguments } = expression {
                let expected = match roles.get(name) {
                    Some(roles) => roles.arity(),
                    None if FUNCTIONS.contains(&name.as_str()) => 2,
                    None => 0,
                };
                if arguments.len() != expected {
                    fault = Some(format!("unsupported function {name:?} in the matcher"));
                }
                let is_fixed = |operand: &Operand| !matches!(operand, Operand::Request(_));
                let has_pattern = name == "regexMatch" || style(name).is_some();
                if has_pattern && !arguments.get(1).is_some_and(is_fixed) {
                    fault = Some(format!("{name} needs a pattern of the policy"));
                }
            }
        });
        fault.map_or(Ok(()), |fault| Err(fault.into()))
    }

    /// Compiles the patterns of the policies.
    ///
    /// # Errors
    /// If one is invalid.
    pub(super) fn prepare(
        &mut self,
        fields: &[String],
        policies: &[Vec<String>],
    ) -> Result<(), ConfError> {
        let mut texts: Vec<(String, String)> = Vec::new();
        self.root.each(&mut |expression| {
            let Expression::Call { name, arguments } = expression else { return };
            match arguments.get(1).filter(|_| name == "regexMatch" || style(name).is_some()) {
                Some(Operand::Text(text)) => texts.push((name.clone(), text.clone())),
                Some(Operand::Policy(field)) => {
                    let index = fields.iter().position(|other| other == field);
                    let values = policies.iter().filter_map(|policy| policy.get(index?));
                    texts.extend(values.map(|text| (name.clone(), text.clone())));
                }
                _ => {}
            }
        });
        for (name, text) in texts {
            match style(&name) {
                Some(style) => {
                    let wildcard = Wildcard::compile(style, &text)?;
                    self.wildcards.entry(style).or_default().insert(text, wildcard);
                }
                None => {
                    let pattern = patterns::compile(&text, Case::Sensitive)?;
                    self.patterns.insert(text, pattern);
                }
            }
        }
        Ok(())
    }

    /// Whether the matcher holds for a request and a policy.
    ///
    /// # Errors
    /// If a search exceeds its limit. The caller must refuse the request, because the policy may
    /// be one that denies it.
    pub(super) fn matches(
        &self,
        bindings: &Bindings<'_>,
        search: &mut Search,
    ) -> Result<bool, Undecided> {
        search.charge(1)?;
        self.holds(&self.root, bindings, search)
    }

    fn holds(
        &self,
        expression: &Expression,
        bindings: &Bindings<'_>,
        search: &mut Search,
    ) -> Result<bool, Undecided> {
        let value = |operand| value(operand, bindings);
        Ok(match expression {
            Expression::Or(one, other) => {
                self.holds(one, bindings, search)? || self.holds(other, bindings, search)?
            }
            Expression::And(one, other) => {
                self.holds(one, bindings, search)? && self.holds(other, bindings, search)?
            }
            Expression::Not(inner) => !self.holds(inner, bindings, search)?,
            Expression::Equal(one, other) => value(one) == value(other),
            Expression::Unequal(one, other) => value(one) != value(other),
            Expression::OneOf(one, others) => others.iter().any(|it| value(one) == value(it)),
            Expression::Call { name, arguments } => {
                let values: Vec<&str> = arguments.iter().map(value).collect();
                self.call(name, &values, bindings, search)?
            }
            Expression::Constant(constant) => *constant,
        })
    }

    fn call(
        &self,
        name: &str,
        values: &[&str],
        bindings: &Bindings<'_>,
        search: &mut Search,
    ) -> Result<bool, Undecided> {
        let (Some(first), Some(second)) = (values.first(), values.get(1)) else { return Ok(false) };
        if let Some(style) = style(name) {
            let wildcard = self.wildcards.get(&style).and_then(|them| them.get(*second));
            return wildcard.ok_or(Undecided)?.is_match(first, search);
        }
        match name {
            "regexMatch" => {
                search.charge(first.len())?;
                let pattern = self.patterns.get(*second).ok_or(Undecided)?;
                pattern.is_match(first.as_bytes()).map_err(|_| Undecided)
            }
            "ipMatch" => Ok(contains(second, first)),
            role => {
                let domain = values.get(2).copied().unwrap_or_default();
                bindings.has_role(role, [first, second, domain], search)
            }
        }
    }
}

/// Returns the meaning of a function's patterns; `None` for functions without wildcards.
fn style(function: &str) -> Option<Style> {
    match function {
        "keyMatch" => Some(Style::Star),
        "keyMatch2" => Some(Style::Colon),
        "keyMatch3" => Some(Style::Braces),
        "globMatch" => Some(Style::Glob),
        _ => None,
    }
}

const FUNCTIONS: [&str; 6] =
    ["keyMatch", "keyMatch2", "keyMatch3", "globMatch", "regexMatch", "ipMatch"];

fn value<'v>(operand: &'v Operand, bindings: &Bindings<'v>) -> &'v str {
    match operand {
        Operand::Request(name) => bindings.request_value(name).unwrap_or_default(),
        Operand::Policy(name) => bindings.policy_value(name).unwrap_or_default(),
        Operand::Text(text) => text,
    }
}

fn contains(network: &str, address: &str) -> bool {
    let Ok(address) = address.parse::<std::net::IpAddr>() else { return false };
    match network.parse::<IpNet>() {
        Ok(network) => network.contains(&address),
        Err(_) => network.parse() == Ok(address),
    }
}

impl Expression {
    fn each(&self, visit: &mut dyn FnMut(&Expression)) {
        visit(self);
        match self {
            Expression::Or(one, other) | Expression::And(one, other) => {
                one.each(visit);
                other.each(visit);
            }
            Expression::Not(inner) => inner.each(visit),
            _ => {}
        }
    }

    fn operands(&self) -> Vec<&Operand> {
        match self {
            Expression::Equal(one, other) | Expression::Unequal(one, other) => vec![one, other],
            Expression::OneOf(one, others) => std::iter::once(one).chain(others).collect(),
            Expression::Call { arguments, .. } => arguments.iter().collect(),
            _ => Vec::new(),
        }
    }
}

const MARKS: [&str; 8] = ["&&", "||", "==", "!=", "!", "(", ")", ","];

/// Splits a text into tokens; the error is the rest that cannot be read.
fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
            found.push(Token::Mark(mark));
            rest = rest[mark.len()..].trim_start();
        } else if matches!(first, '"' | '\'') {
            let (inside, behind) = rest[1..].split_once(first).ok_or(rest)?;
            found.push(Token::Text(inside.to_owned()));
            rest = behind.trim_start();
        } else {
            let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '.');
            let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
            if end == 0 {
                return Err(rest.to_owned());
            }
            found.push(Token::Name(rest[..end].to_owned()));
            rest = rest[end..].trim_start();
        }
    }
    Ok(found)
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
    depth: usize,
}

impl Parser {
    fn takes(&mut self, mark: &str) -> bool {
        let is_next = matches!(self.tokens.get(self.position), Some(Token::Mark(it)) if *it == mark);
        self.position += usize::from(is_next);
        is_next
    }

    fn or(&mut self) -> Option<Expression> {
        let mut left = self.and()?;
        while self.takes("||") {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Some(left)
    }

    fn and(&mut self) -> Option<Expression> {
        let mut left = self.unary()?;
        while self.takes("&&") {
            left = Expression::And(Box::new(left), Box::new(self.unary()?));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expression> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let found = if self.takes("!") {
            self.unary().map(|inner| Expression::Not(Box::new(inner)))
        } else if self.takes("(") {
            self.or().filter(|_| self.takes(")"))
        } else {
            self.comparison()
        };
        self.depth -= 1;
        found
    }

    fn comparison(&mut self) -> Option<Expression> {
        if let Some(Token::Name(name)) = self.tokens.get(self.position).cloned() {
            if matches!(name.as_str(), "true" | "false") {
                self.position += 1;
                return Some(Expression::Constant(name == "true"));
            }
            if self.tokens.get(self.position + 1) == Some(&Token::Mark("(")) {
                self.position += 2;
                return Some(Expression::Call { name, arguments: self.list()? });
            }
        }
        let left = self.operand()?;
        if self.takes("==") {
            return Some(Expression::Equal(left, self.operand()?));
        }
        if self.takes("!=") {
            return Some(Expression::Unequal(left, self.operand()?));
        }
        let is_in = self.tokens.get(self.position) == Some(&Token::Name("in".into()));
        self.position += usize::from(is_in);
        (is_in && self.takes("(")).then(|| self.list().map(|list| Expression::OneOf(left, list)))?
    }

    /// Parses operands up to the closing parenthesis.
    fn list(&mut self) -> Option<Vec<Operand>> {
        let mut list = vec![self.operand()?];
        while self.takes(",") {
            list.push(self.operand()?);
        }
        self.takes(")").then_some(list)
    }

    fn operand(&mut self) -> Option<Operand> {
        let token = self.tokens.get(self.position)?.clone();
        self.position += 1;
        match token {
            Token::Text(text) => Some(Operand::Text(text)),
            Token::Name(name) => {
                let (of, field) = name.split_once('.')?;
                match of {
                    "r" => Some(Operand::Request(field.to_owned())),
                    "p" => Some(Operand::Policy(field.to_owned())),
                    _ => None,
                }
            }
            Token::Mark(_) => None,
        }
    }
}
