//! Splits a template into texts and actions, and an action into tokens. Handles trim markers,
//! comments, quotes and numbers; the parser interprets the tokens.

use super::TemplateError;
use super::fault::Fault;

/// Literal text, or an action between braces.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece<'t> {
    /// Text, trimmed as adjacent actions require.
    Text(&'t str),
    /// Content between `{{` and `}}`, with its byte position in the template.
    Action { inside: &'t str, at: usize },
}

/// Token within an action.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// The dot alone.
    Dot,
    /// Field access `.Name` at the start of an operand.
    Field(String),
    /// `.Name` directly after a parenthesis or a variable.
    Chain(String),
    /// Variable `$` or `$name`, with its name without the sign.
    Variable(String),
    /// Name of a function or keyword.
    Word(String),
    /// Quoted text, without its quotes and escapes.
    Text(String),
    /// An integer or a character constant.
    Integer(i64),
    /// A number with decimal point or exponent.
    Float(f64),
    Pipe,
    Open,
    Close,
    Comma,
    Declare,
    Assign,
}

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// Splits a template into literal texts and actions.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut trims_left = false;
    loop {
        let offset = text.len() - rest.len();
        let Some(start) = rest.find(OPEN) else {
            push_text(&mut pieces, if trims_left { rest.trim_start() } else { rest });
            return Ok(pieces);
        };
        let before = &rest[..start];
        let mut inside = &rest[start + OPEN.len()..];
        let trims_before = trim_marker_at_start(inside);
        if trims_before {
            inside = &inside[1..];
        }
        let before = if trims_left { before.trim_start() } else { before };
        push_text(&mut pieces, if trims_before { before.trim_end() } else { before });
        let at = text.len() - inside.len();
        let end = action_end(inside).ok_or_else(|| {
            error(text, offset + start, "this `{{` has no `}}`; a literal one is {{\"{{\"}}")
        })?;
        rest = &inside[end + CLOSE.len()..];
        let mut body = &inside[..end];
        trims_left = trim_marker_at_end(body);
        if trims_left {
            body = &body[..body.len() - 1];
        }
        let trimmed = body.trim();
        // In Go a comment must fill its action; after a pipeline it is an error.
        let is_comment = trimmed.starts_with("/*") && trimmed.ends_with("*/") && trimmed.len() > 3;
        if !is_comment {
            pieces.push(Piece::Action { inside: body, at });
        }
    }
}

fn push_text<'t>(pieces: &mut Vec<Piece<'t>>, text: &'t str) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
}

/// Whether the action begins with a trim marker: `{{- ` does, `{{-3}}` begins with a number.
fn trim_marker_at_start(inside: &str) -> bool {
    inside.starts_with('-') && inside[1..].starts_with([' ', '\t', '\r', '\n'])
}

fn trim_marker_at_end(inside: &str) -> bool {
    inside.ends_with('-') && inside[..inside.len() - 1].ends_with([' ', '\t', '\r', '\n'])
}

/// Returns the end of the action: the first `}}` outside quotes and comments.
fn action_end(inside: &str) -> Option<usize> {
    let bytes = inside.as_bytes();
    let leading = inside.len() - inside.trim_start().len();
    let mut at = 0;
    if inside[leading..].starts_with("/*") {
        at = leading + 2 + inside[leading + 2..].find("*/")? + 2;
    }
    while at < bytes.len() {
        match bytes[at] {
            b'}' if bytes.get(at + 1) == Some(&b'}') => return Some(at),
            // Skips the escaped character, so that it opens no quote; the backslash itself is
            // reported later.
            b'\\' => at += 2,
            quote @ (b'"' | b'`' | b'\'') => at = quote_end(bytes, at, quote)?,
            _ => at += 1,
        }
    }
    None
}

/// Returns the position after the closing quote.
fn quote_end(bytes: &[u8], start: usize, quote: u8) -> Option<usize> {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote != b'`' => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// Splits an action into tokens, each with its byte position in the template.
pub(super) fn tokens(
    template: &str,
    inside: &str,
    start: usize,
) -> Result<Vec<(Token, usize)>, TemplateError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut member: Member = Token::Field;
    while let Some(first) = inside[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            member = Token::Field;
            continue;
        }
        let (token, bytes) = token(&inside[at..], first, member)
            .map_err(|fault| error(template, start + at, &fault.to_string()))?;
        member = match token {
            Token::Close
            | Token::Variable(_)
            | Token::Field(_)
            | Token::Chain(_)
            | Token::Word(_) => Token::Chain,
            _ => Token::Field,
        };
        tokens.push((token, start + at));
        at += bytes;
    }
    Ok(tokens)
}

/// Constructor of the token for `.Name`: [`Token::Field`], or [`Token::Chain`] directly after
/// another token.
type Member = fn(String) -> Token;

fn token(rest: &str, first: char, member: Member) -> Result<(Token, usize), Fault> {
    let second = rest[first.len_utf8()..].chars().next();
    match first {
        '|' => Ok((Token::Pipe, 1)),
        '(' => Ok((Token::Open, 1)),
        ')' => Ok((Token::Close, 1)),
        ',' => Ok((Token::Comma, 1)),
        '=' => Ok((Token::Assign, 1)),
        ':' if second == Some('=') => Ok((Token::Declare, 2)),
        '"' | '`' | '\'' => quoted(rest, first),
        '$' => {
            let name = word(&rest[1..]);
            Ok((Token::Variable(name.to_owned()), 1 + name.len()))
        }
        // `.5` is a number in Go; a field name never begins with a digit.
        '.' if second.is_some_and(|next| next.is_ascii_digit()) => number(rest),
        '.' => {
            let name = word(&rest[1..]);
            let token = if name.is_empty() { Token::Dot } else { member(name.to_owned()) };
            Ok((token, 1 + name.len()))
        }
        '-' | '+' if second.is_some_and(|next| next.is_ascii_digit() || next == '.') => {
            number(rest)
        }
        _ if first.is_ascii_digit() => number(rest),
        _ if first == '_' || first.is_alphabetic() => {
            let name = word(rest);
            Ok((Token::Word(name.to_owned()), name.len()))
        }
        '\\' => Err("a backslash means nothing here; inside JSON, texts of templates stand in \
                      backquotes, as in {{printf `%05d` .RequestNumber}}"
            .into()),
        other => Err(format!("`{other}` means nothing inside {{{{…}}}}").into()),
    }
}

fn word(text: &str) -> &str {
    let is_part = |letter: char| letter == '_' || letter.is_alphanumeric();
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    &text[..end]
}

fn number(rest: &str) -> Result<(Token, usize), Fault> {
    let mut previous = ' ';
    let end = rest.find(|letter: char| {
        // A sign is part of a number only at its start and after an exponent; `1-2` is not a number
        // and must fail.
        let is_sign = letter == '+' || letter == '-';
        let continues = letter.is_ascii_alphanumeric()
            || letter == '.'
            || letter == '_'
            || (is_sign && matches!(previous, 'e' | 'E' | ' '));
        previous = letter;
        !continues
    });
    let written = &rest[..end.unwrap_or(rest.len())];
    let digits = written.replace('_', "");
    let unsigned = digits.trim_start_matches(['+', '-']);
    let sign = if digits.starts_with('-') { -1 } else { 1 };
    let prefix = |length: usize| unsigned.get(..length).unwrap_or_default().to_ascii_lowercase();
    let radix = match prefix(2).as_str() {
        "0x" => Some(16),
        "0o" => Some(8),
        "0b" => Some(2),
        _ => None,
    };
    let integer = match radix {
        Some(radix) => i64::from_str_radix(&unsigned[2..], radix).ok().map(|value| sign * value),
        None => digits.parse::<i64>().ok(),
    };
    let token = match integer {
        Some(value) => Token::Integer(value),
        None => match digits.parse::<f64>().ok().filter(|value| value.is_finite()) {
            Some(value) if radix.is_none() => Token::Float(value),
            _ => return Err(format!("`{written}` is not a number").into()),
        },
    };
    Ok((token, written.len()))
}

fn quoted(rest: &str, quote: char) -> Result<(Token, usize), Fault> {
    let end = quote_end(rest.as_bytes(), 0, quote as u8)
        .filter(|end| *end <= rest.len())
        .ok_or_else(|| format!("this {quote} is not closed"))?;
    let inside = &rest[1..end - 1];
    if quote == '`' {
        return Ok((Token::Text(inside.to_owned()), end));
    }
    let text = unescaped(inside)?;
    if quote == '"' {
        return Ok((Token::Text(text), end));
    }
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => Ok((Token::Integer(i64::from(u32::from(letter))), end)),
        _ => {
            Err(format!("'{inside}' is not a single character; texts stand in double quotes")
                .into())
        }
    }
}

fn unescaped(text: &str) -> Result<String, Fault> {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        let escape = letters.next().unwrap_or(' ');
        match escape {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            '\\' | '"' | '\'' => out.push(escape),
            'x' | 'u' | 'U' => {
                let digits = match escape {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let code: String = letters.by_ref().take(digits).collect();
                // Go requires all digits; fewer are an error, not a shorter character.
                let value = u32::from_str_radix(&code, 16).ok().filter(|_| code.len() == digits);
                let character = value.and_then(char::from_u32);
                out.push(character.ok_or_else(|| format!("\\{escape}{code} is not a character"))?);
            }
            other => {
                return Err(
                    format!("\\{other} is not an escape; a backslash is written \\\\").into()
                );
            }
        }
    }
    Ok(out)
}

/// Creates an error at a byte of the template; the message counts characters.
pub(super) fn error(template: &str, at_byte: usize, why: &str) -> TemplateError {
    let before = template.char_indices().take_while(|(at, _)| *at < at_byte).count();
    TemplateError::Parse { at: before + 1, why: why.to_owned() }
}
