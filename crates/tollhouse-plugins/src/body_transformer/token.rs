//! Tokens of the Lua subset that templates may use.

/// Token of an expression or statement.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// Name or keyword.
    Name(String),
    Number(f64),
    Text(String),
    Mark(&'static str),
}

/// Operators and punctuation; longer ones come first.
const MARKS: [&str; 24] = [
    "...", "..", "==", "~=", "<=", ">=", "(", ")", "[", "]", "{", "}", ".", ",", ":", ";", "=", "<",
    ">", "+", "-", "*", "/", "%",
];

/// Splits a code into tokens.
///
/// # Errors
/// The part that is not a token.
pub(super) fn tokens(code: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' => {
                let (text, length) = quoted(rest, first).ok_or_else(|| rest.to_owned())?;
                tokens.push(Token::Text(text));
                length
            }
            '0'..='9' => {
                let is_part = |it: char| it.is_ascii_alphanumeric() || it == '.';
                let length = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
                let number = rest[..length].parse().map_err(|_| rest[..length].to_owned())?;
                tokens.push(Token::Number(number));
                length
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
                let length = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
                tokens.push(Token::Name(rest[..length].to_owned()));
                length
            }
            '#' => {
                tokens.push(Token::Mark("#"));
                1
            }
            _ => {
                let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
                let mark = mark.filter(|_| !rest.starts_with("--")).ok_or_else(|| rest.to_owned())?;
                tokens.push(Token::Mark(mark));
                mark.len()
            }
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// Returns a quoted text, and its length with the quotes.
fn quoted(code: &str, quote: char) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut chars = code.char_indices().skip(1);
    while let Some((at, next)) = chars.next() {
        match next {
            '\\' => text.push(match chars.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                plain @ ('\\' | '"' | '\'' | '/') => plain,
                _ => return None,
            }),
            next if next == quote => return Some((text, at + 1)),
            '\n' => return None,
            next => text.push(next),
        }
    }
    None
}
