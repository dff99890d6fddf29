//! Lua's words: names, strings with their escapes, numbers, signs, comments. What they mean together is
//! no matter of this file.

use super::Problem;

/// A word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// A name or a keyword.
    Name(String),
    /// A string, its escapes resolved.
    Text(String),
    /// A number, as it is written.
    Number(String),
    /// `=`, `..` and the like.
    Sign(&'static str),
}

/// A word and the line that it begins on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) word: Word,
    pub(super) line: usize,
}

/// Signs, longer ones first.
const SIGNS: [&str; 29] = [
    "...", "..", "==", "~=", "<=", ">=", "=", ".", "[", "]", "{", "}", "(", ")", ",", ";", ":",
    "+", "-", "*", "/", "%", "^", "#", "<", ">", "&", "|", "~",
];

/// Takes a script apart.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Problem> {
    // A first line for the shell is allowed.
    let text_start = if text.starts_with('#') { text.find('\n').unwrap_or(text.len()) } else { 0 };
    let mut lexer = Lexer { text, at: text_start, line: 1 };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let taken = &self.rest()[..bytes];
        self.at += bytes;
        self.line += taken.matches('\n').count();
        taken
    }

    fn next(&mut self) -> Result<Option<Token>, Problem> {
        self.skip_blank()?;
        let line = self.line;
        let Some(first) = self.rest().chars().next() else { return Ok(None) };
        let word = match first {
            '"' | '\'' => Word::Text(self.quoted(first)?),
            '[' if self.long_level().is_some() => Word::Text(self.long_text()?),
            '0'..='9' => Word::Number(self.take_while(is_number_part).to_owned()),
            'a'..='z' | 'A'..='Z' | '_' => Word::Name(self.take_while(is_name_part).to_owned()),
            other => {
                let sign = SIGNS.into_iter().find(|sign| self.rest().starts_with(sign));
                let sign = sign.ok_or_else(|| Problem::new(line, format!("`{other}`")))?;
                self.take(sign.len());
                Word::Sign(sign)
            }
        };
        Ok(Some(Token { word, line }))
    }

    fn take_while(&mut self, belongs: fn(char) -> bool) -> &'a str {
        let end = self.rest().find(|letter| !belongs(letter)).unwrap_or(self.rest().len());
        self.take(end)
    }

    fn skip_blank(&mut self) -> Result<(), Problem> {
        loop {
            self.take_while(char::is_whitespace);
            if !self.rest().starts_with("--") {
                return Ok(());
            }
            self.take(2);
            if self.long_level().is_some() {
                self.long_text()?;
            } else {
                self.take_while(|letter| letter != '\n');
            }
        }
    }

    /// How many `=` stand in an opening `[=[`, when there is one.
    fn long_level(&self) -> Option<usize> {
        let inner = self.rest().strip_prefix('[')?;
        let level = inner.bytes().take_while(|byte| *byte == b'=').count();
        inner[level..].starts_with('[').then_some(level)
    }

    fn long_text(&mut self) -> Result<String, Problem> {
        let line = self.line;
        let level = self.long_level().unwrap_or(0);
        self.take(level + 2);
        let close = format!("]{}]", "=".repeat(level));
        let end =
            self.rest().find(&close).ok_or_else(|| Problem::new(line, "`[[` without `]]`"))?;
        let text = self.take(end);
        self.take(close.len());
        let text = text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n')).unwrap_or(text);
        Ok(text.to_owned())
    }

    fn quoted(&mut self, quote: char) -> Result<String, Problem> {
        let line = self.line;
        self.take(1);
        let mut bytes = Vec::new();
        loop {
            let Some(letter) = self.rest().chars().next().filter(|letter| *letter != '\n') else {
                return Err(Problem::new(line, "a string without its end"));
            };
            let letter_text = self.take(letter.len_utf8());
            if letter == quote {
                break;
            }
            if letter == '\\' {
                self.escape(&mut bytes)?;
            } else {
                bytes.extend_from_slice(letter_text.as_bytes());
            }
        }
        String::from_utf8(bytes).map_err(|_| {
            Problem::new(
                line,
                "a string of bytes that are no UTF-8; put them in a file and read it",
            )
        })
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), Problem> {
        let line = self.line;
        let wrong = || Problem::new(line, "an escape that Lua does not know");
        let letter = self.rest().chars().next().ok_or_else(wrong)?;
        if letter.is_ascii_digit() {
            let digits = self.rest().bytes().take(3).take_while(u8::is_ascii_digit).count();
            out.push(self.take(digits).parse().map_err(|_| wrong())?);
            return Ok(());
        }
        self.take(letter.len_utf8());
        match letter {
            'n' | '\n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            'a' => out.push(7),
            'b' => out.push(8),
            'f' => out.push(12),
            'v' => out.push(11),
            '\\' | '"' | '\'' => out.push(letter as u8),
            'z' => {
                self.take_while(char::is_whitespace);
            }
            'x' => {
                let digits = self.rest().get(..2).ok_or_else(wrong)?;
                out.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
                self.take(2);
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }
}

fn is_name_part(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn is_number_part(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '.'
}
