//! From tokens to what a renderer walks over. Every name is resolved here: fields to variables,
//! words to functions, `$names` to slots.

use tollhouse_stdx::nearest;

use super::function::{self, Function};
use super::lexer::{self, Piece, Token};
use super::{Functions, TemplateError};

/// How deep blocks and parentheses may stand in each other.
const DEPTH_MAX: usize = 32;
/// How many `$names` a template may declare.
const SLOTS_MAX: usize = 64;

/// A part of a template.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Text(Box<str>),
    Emit(Pipeline),
    Assign { slot: usize, value: Pipeline },
    If { condition: Pipeline, then: Vec<Node>, otherwise: Vec<Node> },
    With { value: Pipeline, slot: Option<usize>, then: Vec<Node>, otherwise: Vec<Node> },
    Range(Box<Range>),
    Break,
    Continue,
}

/// `{{range …}}`.
#[derive(Debug, Clone)]
pub(super) struct Range {
    pub(super) list: Pipeline,
    pub(super) index_slot: Option<usize>,
    pub(super) element_slot: Option<usize>,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
}

/// Commands, each of which takes the value of the one before as its last argument.
#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    pub(super) first: Operand,
    pub(super) then: Vec<Call>,
}

/// A function with its arguments.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) function: &'static Function,
    pub(super) arguments: Vec<Operand>,
}

/// A value, or what makes one.
#[derive(Debug, Clone)]
pub(super) enum Operand {
    Nil,
    Text(Box<str>),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Variable(Variable),
    /// `.` inside `range` and `with`.
    Dot,
    Slot(usize),
    Call(Call),
    Nested(Box<Pipeline>),
    /// `(now).Unix` and `(now).Format "2006"`.
    TimePart {
        time: Box<Operand>,
        part: TimePart,
    },
}

/// What can be asked of a time.
#[derive(Debug, Clone)]
pub(super) enum TimePart {
    Unix,
    UnixMilli,
    UnixMicro,
    UnixNano,
    Format(Box<Operand>),
}

/// A field of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variable {
    WorkerId,
    RequestNumber,
    FullyQualifiedName,
    MethodName,
    ServiceName,
    InputName,
    OutputName,
    IsClientStreaming,
    IsServerStreaming,
    Timestamp,
    TimestampUnix,
    TimestampUnixMilli,
    TimestampUnixNano,
    Uuid,
}

const VARIABLES: [(&str, Variable); 14] = [
    ("WorkerID", Variable::WorkerId),
    ("RequestNumber", Variable::RequestNumber),
    ("FullyQualifiedName", Variable::FullyQualifiedName),
    ("MethodName", Variable::MethodName),
    ("ServiceName", Variable::ServiceName),
    ("InputName", Variable::InputName),
    ("OutputName", Variable::OutputName),
    ("IsClientStreaming", Variable::IsClientStreaming),
    ("IsServerStreaming", Variable::IsServerStreaming),
    ("Timestamp", Variable::Timestamp),
    ("TimestampUnix", Variable::TimestampUnix),
    ("TimestampUnixMilli", Variable::TimestampUnixMilli),
    ("TimestampUnixNano", Variable::TimestampUnixNano),
    ("UUID", Variable::Uuid),
];

const KEYWORDS: [&str; 10] =
    ["if", "else", "end", "range", "with", "break", "continue", "define", "template", "block"];

/// Compiles a template: its nodes, and how many slots they use.
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
    /// Names in reach, with their slots; later ones hide earlier ones.
    scope: Vec<(String, usize)>,
    slots: usize,
    depth: usize,
    /// How many `range`s stand around.
    ranges: usize,
    /// How many blocks stand around in which `.` is no longer the request.
    dots: usize,
}

/// What ended a block.
enum BlockEnd {
    OfTemplate,
    End(usize),
    Else { at: usize, rest: Tokens },
}

/// Tokens of one action, from the front.
struct Tokens {
    tokens: std::collections::VecDeque<(Token, usize)>,
    /// Where the action is, for errors about what is missing.
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

    /// Nodes up to the end of the template or the `end` or `else` of the block around.
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
            Some((token, at)) => Err(self.error(*at, format!("unexpected {}", shown(token)))),
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
            // The `end` of the inner one is the end of both.
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

    /// `$a :=` or `$a, $b :=`, when it stands here.
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

    /// What stands after `else`, up to `end`.
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

    fn pipeline(&mut self, tokens: &mut Tokens) -> Result<Pipeline, TemplateError> {
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

    /// A value, or a function with its arguments.
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
                    let why = format!("unexpected {}; only functions take values", shown(token));
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
            other => return Err(self.error(at, format!("unexpected {}", shown(&other)))),
        };
        self.chained(operand, tokens, may_format)
    }

    /// `.Unix` and the like, right after a value.
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
            // Times are in UTC.
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
        let function = function::find(name).map_err(|why| self.error(at, why))?;
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
        function.check_count(count).map_err(|why| self.error(at, why))
    }
}

/// Whether `.Format` may stand here: it takes the value after it, so only where a command begins.
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

fn push_text(nodes: &mut Vec<Node>, text: &str) {
    match nodes.last_mut() {
        // Comments leave two texts side by side.
        Some(Node::Text(before)) => *before = format!("{before}{text}").into(),
        _ => nodes.push(Node::Text(text.into())),
    }
}

/// A token, as messages show it.
fn shown(token: &Token) -> String {
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
