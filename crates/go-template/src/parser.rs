//! Parser of blocks, scopes and assignments, which converts the pieces of a template to nodes.
//! [`expression`](self::expression) parses the expressions in them.

mod expression;

use tollhouse_stdx::nearest;

use super::lexer::{self, Piece, Token};
use super::node::{Node, Range};
use super::{Functions, TemplateError};

/// Maximum nesting depth of blocks and parentheses.
const DEPTH_MAX: usize = 32;
/// Maximum number of `$name` declarations in a template.
const SLOTS_MAX: usize = 64;

const KEYWORDS: [&str; 10] =
    ["if", "else", "end", "range", "with", "break", "continue", "define", "template", "block"];

/// Compiles a template; returns its nodes and the number of variable slots.
pub(super) fn parse(
    template: &str,
    functions: Functions,
) -> Result<(Vec<Node>, usize), TemplateError> {
    let pieces = lexer::pieces(template)?;
    let mut parser = Parser {
        template,
        functions,
        pieces: pieces.into_iter(),
        scope: Vec::new(),
        slots: 0,
        depth: 0,
        ranges: 0,
        dots: 0,
    };
    let (nodes, end) = parser.block()?;
    match end {
        BlockEnd::OfTemplate => Ok((nodes, parser.slots)),
        BlockEnd::End(at) => Err(lexer::error(template, at, "`end` without a block to end")),
        BlockEnd::Else { at, .. } => Err(lexer::error(template, at, "`else` without `if`")),
    }
}

struct Parser<'t> {
    template: &'t str,
    functions: Functions,
    pieces: std::vec::IntoIter<Piece<'t>>,
    /// Names of the visible variables with their slots; later entries shadow earlier ones of the
    /// same name.
    scope: Vec<(String, usize)>,
    slots: usize,
    depth: usize,
    /// Number of `range` blocks around the current position.
    ranges: usize,
    /// Number of enclosing `range` and `with` blocks, in which `.` is an element or value, not the
    /// request.
    dots: usize,
}

enum BlockEnd {
    OfTemplate,
    End(usize),
    Else { at: usize, rest: Tokens },
}

/// Tokens of an action that have not been parsed.
struct Tokens {
    tokens: std::collections::VecDeque<(Token, usize)>,
    /// Position of the action in the template, for errors about tokens that are missing.
    at: usize,
}

impl Tokens {
    fn peek(&self) -> Option<&Token> {
        self.tokens.front().map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<Token> {
        let (token, at) = self.tokens.pop_front()?;
        self.at = at;
        Some(token)
    }

    fn takes(&mut self, expected: &Token) -> bool {
        let is_there = self.peek() == Some(expected);
        if is_there {
            self.next();
        }
        is_there
    }
}

impl<'t> Parser<'t> {
    fn error(&self, at: usize, why: impl AsRef<str>) -> TemplateError {
        lexer::error(self.template, at, why.as_ref())
    }

    fn deeper(&mut self, at: usize) -> Result<(), TemplateError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error(at, format!("nested more than {DEPTH_MAX} deep")));
        }
        Ok(())
    }

    /// Parses nodes up to the end of the template, or the `end` or `else` of the enclosing block.
    fn block(&mut self) -> Result<(Vec<Node>, BlockEnd), TemplateError> {
        let names = self.scope.len();
        let mut nodes: Vec<Node> = Vec::new();
        let end = loop {
            match self.pieces.next() {
                None => break BlockEnd::OfTemplate,
                Some(Piece::Text(text)) => push_text(&mut nodes, text),
                Some(Piece::Action { inside, at }) => {
                    let tokens = lexer::tokens(self.template, inside, at)?;
                    let mut tokens = Tokens { tokens: tokens.into(), at };
                    if let Some(end) = self.action(&mut tokens, &mut nodes)? {
                        break end;
                    }
                }
            }
        };
        self.scope.truncate(names);
        Ok((nodes, end))
    }

    fn action(
        &mut self,
        tokens: &mut Tokens,
        nodes: &mut Vec<Node>,
    ) -> Result<Option<BlockEnd>, TemplateError> {
        let keyword = match tokens.peek() {
            None => return Err(self.error(tokens.at, "this {{}} is empty")),
            Some(Token::Word(word)) => KEYWORDS.into_iter().find(|keyword| keyword == word),
            Some(_) => None,
        };
        let Some(keyword) = keyword else {
            let node = self.emit_or_assign(tokens)?;
            nodes.push(node);
            return Ok(None);
        };
        tokens.next();
        let at = tokens.at;
        match keyword {
            "end" => {
                self.nothing_left(tokens)?;
                return Ok(Some(BlockEnd::End(at)));
            }
            "else" => {
                // `else if` continues in the same action, so that the remaining tokens are parsed
                // as a new action.
                let rest = Tokens { tokens: std::mem::take(&mut tokens.tokens), at };
                return Ok(Some(BlockEnd::Else { at, rest }));
            }
            "if" => nodes.push(self.if_block(tokens)?),
            "with" => nodes.push(self.with_block(tokens)?),
            "range" => nodes.push(self.range_block(tokens)?),
            "break" | "continue" => {
                self.nothing_left(tokens)?;
                if self.ranges == 0 {
                    return Err(self.error(at, format!("`{keyword}` outside of `range`")));
                }
                nodes.push(if keyword == "break" { Node::Break } else { Node::Continue });
            }
            other => {
                return Err(self.error(
                    at,
                    format!("`{other}` is not offered: a request is one template, without parts"),
                ));
            }
        }
        Ok(None)
    }

    fn nothing_left(&self, tokens: &Tokens) -> Result<(), TemplateError> {
        match tokens.tokens.front() {
            None => Ok(()),
            Some((token, at)) => Err(self.error(*at, format!("unexpected {}", describe(token)))),
        }
    }

    fn emit_or_assign(&mut self, tokens: &mut Tokens) -> Result<Node, TemplateError> {
        let declares = tokens.tokens.get(1).map(|(token, _)| token.clone());
        let name = match (tokens.peek(), declares) {
            (Some(Token::Variable(name)), Some(sign @ (Token::Declare | Token::Assign))) => {
                Some((name.clone(), sign == Token::Declare))
            }
            _ => None,
        };
        let Some((name, is_new)) = name else {
            let value = self.pipeline(tokens)?;
            self.nothing_left(tokens)?;
            return Ok(Node::Emit(value));
        };
        tokens.next();
        let at = tokens.at;
        tokens.next();
        let value = self.pipeline(tokens)?;
        self.nothing_left(tokens)?;
        let slot = if is_new { self.declare(name, at)? } else { self.slot(&name, at)? };
        Ok(Node::Assign { slot, value })
    }

    fn declare(&mut self, name: String, at: usize) -> Result<usize, TemplateError> {
        if name.is_empty() {
            return Err(self.error(at, "`$` is the request; give the variable a name, as in $x"));
        }
        if self.slots == SLOTS_MAX {
            return Err(self.error(at, format!("more than {SLOTS_MAX} variables")));
        }
        self.scope.push((name, self.slots));
        self.slots += 1;
        Ok(self.slots - 1)
    }

    fn slot(&self, name: &str, at: usize) -> Result<usize, TemplateError> {
        let found = self.scope.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, slot)| *slot).ok_or_else(|| {
            let near = nearest(name, self.scope.iter().map(|(known, _)| known.as_str()));
            let hint = near.map(|near| format!("; did you mean `${near}`?")).unwrap_or_default();
            self.error(at, format!("variable `${name}` is not declared{hint}"))
        })
    }

    fn if_block(&mut self, tokens: &mut Tokens) -> Result<Node, TemplateError> {
        let at = tokens.at;
        self.deeper(at)?;
        let condition = self.pipeline(tokens)?;
        self.nothing_left(tokens)?;
        let (then, end) = self.block()?;
        let otherwise = match end {
            // In `else if`, the single `end` ends the inner and the outer `if`.
            BlockEnd::Else { mut rest, .. } if rest.peek() == Some(&Token::Word("if".into())) => {
                rest.next();
                vec![self.if_block(&mut rest)?]
            }
            end => self.otherwise(end, at, "if")?,
        };
        self.depth -= 1;
        Ok(Node::If { condition, then, otherwise })
    }

    fn with_block(&mut self, tokens: &mut Tokens) -> Result<Node, TemplateError> {
        let at = tokens.at;
        self.deeper(at)?;
        let names = self.scope.len();
        let mut declared = self.declared(tokens, 1)?;
        let value = self.pipeline(tokens)?;
        self.nothing_left(tokens)?;
        self.dots += 1;
        let (then, end) = self.block()?;
        self.dots -= 1;
        let otherwise = self.otherwise(end, at, "with")?;
        self.scope.truncate(names);
        self.depth -= 1;
        Ok(Node::With { value, slot: declared.pop(), then, otherwise })
    }

    fn range_block(&mut self, tokens: &mut Tokens) -> Result<Node, TemplateError> {
        let at = tokens.at;
        self.deeper(at)?;
        let names = self.scope.len();
        let mut declared = self.declared(tokens, 2)?;
        let element_slot = declared.pop();
        let index_slot = declared.pop();
        let list = self.pipeline(tokens)?;
        self.nothing_left(tokens)?;
        self.dots += 1;
        self.ranges += 1;
        let (body, end) = self.block()?;
        self.dots -= 1;
        self.ranges -= 1;
        let otherwise = self.otherwise(end, at, "range")?;
        self.scope.truncate(names);
        self.depth -= 1;
        Ok(Node::Range(Box::new(Range { list, index_slot, element_slot, body, otherwise })))
    }

    /// Parses the variables that a block or action declares, `$a :=` or `$a, $b :=`, and returns
    /// their slots. The list is empty without a declaration.
    fn declared(
        &mut self,
        tokens: &mut Tokens,
        names_max: usize,
    ) -> Result<Vec<usize>, TemplateError> {
        let declares = tokens.tokens.iter().any(|(token, _)| *token == Token::Declare);
        let mut slots = Vec::new();
        if !declares {
            return Ok(slots);
        }
        loop {
            let Some(Token::Variable(name)) = tokens.next() else {
                return Err(self.error(tokens.at, "`:=` needs variables before it, as in $x"));
            };
            let slot = self.declare(name, tokens.at)?;
            slots.push(slot);
            if slots.len() > names_max {
                return Err(self.error(tokens.at, "too many variables before `:=`"));
            }
            if tokens.takes(&Token::Declare) {
                return Ok(slots);
            }
            if !tokens.takes(&Token::Comma) {
                return Err(self.error(tokens.at, "variables before `:=` stand with commas"));
            }
        }
    }

    /// Parses the nodes after `else`, up to `end`.
    fn otherwise(
        &mut self,
        end: BlockEnd,
        at: usize,
        keyword: &str,
    ) -> Result<Vec<Node>, TemplateError> {
        let unfinished = format!("this `{keyword}` has no `end`");
        match end {
            BlockEnd::End(_) => Ok(Vec::new()),
            BlockEnd::OfTemplate => Err(self.error(at, unfinished)),
            BlockEnd::Else { rest, .. } => {
                self.nothing_left(&rest)?;
                let (nodes, end) = self.block()?;
                match end {
                    BlockEnd::End(_) => Ok(nodes),
                    BlockEnd::OfTemplate => Err(self.error(at, unfinished)),
                    BlockEnd::Else { at, .. } => Err(self.error(at, "a second `else`")),
                }
            }
        }
    }
}

fn push_text(nodes: &mut Vec<Node>, text: &str) {
    match nodes.last_mut() {
        // Where a comment was removed, two texts are adjacent; they become one node.
        Some(Node::Text(before)) => *before = format!("{before}{text}").into(),
        _ => nodes.push(Node::Text(text.into())),
    }
}

/// Formats a token for error messages.
fn describe(token: &Token) -> String {
    match token {
        Token::Dot => "`.`".into(),
        Token::Field(name) | Token::Chain(name) => format!("`.{name}`"),
        Token::Variable(name) => format!("`${name}`"),
        Token::Word(word) => format!("`{word}`"),
        Token::Text(text) => format!("{text:?}"),
        Token::Integer(number) => format!("`{number}`"),
        Token::Float(number) => format!("`{number}`"),
        Token::Pipe => "`|`".into(),
        Token::Open => "`(`".into(),
        Token::Close => "`)`".into(),
        Token::Comma => "`,`".into(),
        Token::Declare => "`:=`".into(),
        Token::Assign => "`=`".into(),
    }
}
