//! Templates in the documented subset of lua-resty-template: `{{ }}`, `{* *}`, `{# #}`, and `{% %}`
//! with `if`, `for` and `local`.

use std::collections::BTreeSet;

use super::expression::{Expression, Parser, Unsupported};
use super::token::tokens;

/// Largest depth of nested blocks.
const DEPTH_MAX: usize = 50;

/// Path of the variables of request and answer.
const VARIABLES: &str = "_ctx.var";

/// Parsed template.
#[derive(Debug)]
pub(super) struct Template {
    pub nodes: Vec<Node>,
    /// Names in `_ctx.var`.
    pub variables: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) enum Node {
    Text(String),
    Output(Expression, Escape),
    Local(String, Expression),
    /// Branches in order; the last may have no condition.
    If(Vec<(Option<Expression>, Vec<Node>)>),
    For(Loop, Vec<Node>),
}

/// Treatment of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    /// Characters of HTML are escaped.
    Html,
    None,
}

#[derive(Debug)]
pub(super) enum Loop {
    /// Variables for key and value, and the table.
    Pairs(String, Option<String>, Expression),
    /// Variable, first, last, and the step.
    Range(String, Expression, Expression, Expression),
}

/// Part of a template before blocks are joined.
enum Part {
    Node(Node),
    If(Expression),
    ElseIf(Expression),
    Else,
    For(Loop),
    End,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// The first construct that is not supported.
    pub(super) fn parse(text: &str) -> Result<Self, Unsupported> {
        let mut parts = parts(text)?.into_iter();
        let (nodes, end) = block(&mut parts, 0)?;
        if end.is_some() {
            return Err("an \"end\" or \"else\" without its \"if\" or \"for\"".into());
        }
        let mut template = Self { nodes, variables: BTreeSet::new() };
        let mut variables = BTreeSet::new();
        let mut problem = None;
        each_expression(&template.nodes, &mut |expression| {
            note_variable(expression, &mut variables, &mut problem);
        });
        template.variables = variables;
        problem.map_or(Ok(template), Err)
    }
}

/// Notes the name of a variable. A name that is computed is not supported.
fn note_variable(
    expression: &Expression,
    names: &mut BTreeSet<String>,
    problem: &mut Option<Unsupported>,
) {
    let Expression::Index(of, index) = expression else { return };
    match (of.path().as_deref(), &**index) {
        (Some(VARIABLES), Expression::Text(name)) => drop(names.insert(name.to_string())),
        (Some(VARIABLES), _) => *problem = Some(format!("a computed name in {VARIABLES}")),
        (Some("_ctx"), Expression::Text(name)) if matches!(&**name, "var" | "consumer" | "consumer_name") => {}
        (Some("_ctx"), _) => {
            let path = expression.path().unwrap_or_else(|| "_ctx[]".into());
            *problem = Some(format!("\"{path}\""));
        }
        _ => {}
    }
}

fn each_expression(nodes: &[Node], visit: &mut dyn FnMut(&Expression)) {
    for node in nodes {
        match node {
            Node::Text(_) => {}
            Node::Output(value, _) | Node::Local(_, value) => value.each(visit),
            Node::If(branches) => {
                for (condition, nodes) in branches {
                    condition.iter().for_each(|condition| condition.each(visit));
                    each_expression(nodes, visit);
                }
            }
            Node::For(each, nodes) => {
                match each {
                    Loop::Pairs(_, _, table) => table.each(visit),
                    Loop::Range(_, first, last, step) => {
                        [first, last, step].into_iter().for_each(|value| value.each(visit));
                    }
                }
                each_expression(nodes, visit);
            }
        }
    }
}

/// Joins parts to nodes, up to the part that ends the block, which is returned.
fn block(
    parts: &mut dyn Iterator<Item = Part>,
    depth: usize,
) -> Result<(Vec<Node>, Option<Part>), Unsupported> {
    if depth > DEPTH_MAX {
        return Err(format!("blocks deeper than {DEPTH_MAX} levels"));
    }
    let unclosed = || "a block without its \"end\"".to_owned();
    let mut nodes = Vec::new();
    while let Some(part) = parts.next() {
        match part {
            Part::Node(node) => nodes.push(node),
            Part::For(each) => match block(parts, depth + 1)? {
                (inner, Some(Part::End)) => nodes.push(Node::For(each, inner)),
                _ => return Err(unclosed()),
            },
            Part::If(condition) => {
                let mut branches = Vec::new();
                let mut next = Some(condition);
                loop {
                    let (inner, end) = block(parts, depth + 1)?;
                    let is_else = next.is_none();
                    branches.push((next.take(), inner));
                    match end {
                        Some(Part::End) => break,
                        Some(Part::Else) if !is_else => {}
                        Some(Part::ElseIf(condition)) if !is_else => next = Some(condition),
                        _ => return Err(unclosed()),
                    }
                }
                nodes.push(Node::If(branches));
            }
            end => return Ok((nodes, Some(end))),
        }
    }
    Ok((nodes, None))
}

/// Splits a template at its tags.
fn parts(text: &str) -> Result<Vec<Part>, Unsupported> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at(at);
        let close = match tag.as_bytes().get(1) {
            Some(b'{') => "}}",
            Some(b'*') => "*}",
            Some(b'%') => "%}",
            Some(b'#') => "#}",
            Some(b'(') => ")}",
            Some(b'[') => "]}",
            Some(b'-') => "-}",
            _ => "",
        };
        let length = tag.get(2..).filter(|_| !close.is_empty()).and_then(|tag| tag.find(close));
        let Some(length) = length else {
            plain.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
            continue;
        };
        let code = &tag[2..2 + length];
        rest = &tag[2 + length + 2..];
        if let Some(before) = before.strip_suffix('\\') {
            plain.push_str(before);
            plain.push_str(&tag[..2 + length + 2]);
            continue;
        }
        plain.push_str(before);
        if matches!(close, "%}" | "#}") {
            plain.truncate(plain.trim_end_matches([' ', '\t']).len());
            rest = rest.strip_prefix("\r\n").or(rest.strip_prefix('\n')).unwrap_or(rest);
        }
        if !plain.is_empty() {
            parts.push(Part::Node(Node::Text(std::mem::take(&mut plain))));
        }
        match close {
            "}}" => parts.push(Part::Node(Node::Output(expression(code)?, Escape::Html))),
            "*}" => parts.push(Part::Node(Node::Output(expression(code)?, Escape::None))),
            "%}" => statements(code, &mut parts)?,
            "#}" => {}
            _ => return Err(format!("the tag \"{}\"", &tag[..2])),
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(Part::Node(Node::Text(plain)));
    }
    Ok(parts)
}

fn expression(code: &str) -> Result<Expression, Unsupported> {
    let tokens = tokens(code)?;
    let mut parser = Parser::new(&tokens);
    let expression = parser.expression()?;
    if parser.is_at_end() { Ok(expression) } else { Err(parser.unsupported()) }
}

/// Parses the statements of a `{% %}`; blocks may begin and end in different ones.
fn statements(code: &str, parts: &mut Vec<Part>) -> Result<(), Unsupported> {
    let tokens = tokens(code)?;
    let mut parser = Parser::new(&tokens);
    while !parser.is_at_end() {
        if parser.takes_mark(";") {
            continue;
        }
        parts.push(statement(&mut parser)?);
    }
    Ok(())
}

fn statement(parser: &mut Parser<'_>) -> Result<Part, Unsupported> {
    let condition = |parser: &mut Parser<'_>| {
        let condition = parser.expression()?;
        if parser.takes_word("then") { Ok(condition) } else { Err(parser.unsupported()) }
    };
    if parser.takes_word("if") {
        return condition(parser).map(Part::If);
    }
    if parser.takes_word("elseif") {
        return condition(parser).map(Part::ElseIf);
    }
    if parser.takes_word("else") {
        return Ok(Part::Else);
    }
    if parser.takes_word("end") {
        return Ok(Part::End);
    }
    if parser.takes_word("for") {
        return each(parser).map(Part::For);
    }
    if parser.takes_word("local") {
        let name = parser.name()?;
        let is_set = parser.takes_mark("=");
        let value = if is_set { parser.expression()? } else { return Err(parser.unsupported()) };
        return Ok(Part::Node(Node::Local(name, value)));
    }
    Err(parser.unsupported())
}

fn each(parser: &mut Parser<'_>) -> Result<Loop, Unsupported> {
    let first = parser.name()?;
    let each = if parser.takes_mark("=") {
        let start = parser.expression()?;
        let end = match parser.takes_mark(",") {
            true => parser.expression()?,
            false => return Err(parser.unsupported()),
        };
        let step = match parser.takes_mark(",") {
            true => parser.expression()?,
            false => Expression::Number(1.0),
        };
        Loop::Range(first, start, end, step)
    } else {
        let second = if parser.takes_mark(",") { Some(parser.name()?) } else { None };
        let is_in = parser.takes_word("in");
        let is_pairs = is_in && (parser.takes_word("ipairs") || parser.takes_word("pairs"));
        let table = match is_pairs && parser.takes_mark("(") {
            true => parser.expression()?,
            false => return Err(parser.unsupported()),
        };
        if !parser.takes_mark(")") {
            return Err(parser.unsupported());
        }
        Loop::Pairs(first, second, table)
    };
    if parser.takes_word("do") { Ok(each) } else { Err(parser.unsupported()) }
}
