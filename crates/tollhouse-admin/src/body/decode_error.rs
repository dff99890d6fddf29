//! Error messages for invalid JSON, in the words of the decoder that APISIX uses (lua-cjson):
//! `Expected value but found invalid token at character 1`.
//!
//! Used only after the JSON decoder has refused a text. This module finds most syntax errors, but
//! not all that the decoder reports.

/// Maximum nesting depth that lua-cjson accepts.
const DEPTH_MAX: usize = 1000;

/// Describes the first syntax error; `None` if this module finds none.
pub(super) fn describe(body: &[u8]) -> Option<String> {
    let mut scan = Scan { body, at: 0, depth: 0 };
    scan.document().err()
}

struct Scan<'b> {
    body: &'b [u8],
    at: usize,
    depth: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text,
    Scalar(&'static str),
    Colon,
    Comma,
    End,
    Fault(&'static str),
}

impl Token {
    fn name(self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Text => "T_STRING",
            Self::Scalar(name) | Self::Fault(name) => name,
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
        }
    }
}

/// Token with its position in the text.
#[derive(Clone, Copy)]
struct Lexeme {
    token: Token,
    at: usize,
}

type Fault = Result<(), String>;

fn expected(what: &str, lexeme: Lexeme) -> String {
    let Lexeme { token, at } = lexeme;
    format!("Expected {what} but found {} at character {}", token.name(), at + 1)
}

impl Scan<'_> {
    fn document(&mut self) -> Fault {
        let first = self.next();
        self.value(first)?;
        let end = self.next();
        if end.token == Token::End { Ok(()) } else { Err(expected("the end", end)) }
    }

    fn value(&mut self, lexeme: Lexeme) -> Fault {
        match lexeme.token {
            Token::Text | Token::Scalar(_) => Ok(()),
            Token::ObjectBegin => self.nested(Self::object),
            Token::ArrayBegin => self.nested(Self::array),
            _ => Err(expected("value", lexeme)),
        }
    }

    fn nested(&mut self, inside: fn(&mut Self) -> Fault) -> Fault {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!(
                "Found too many nested data structures ({}) at character {}",
                self.depth, self.at
            ));
        }
        inside(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self) -> Fault {
        let mut lexeme = self.next();
        if lexeme.token == Token::ObjectEnd {
            return Ok(());
        }
        loop {
            if lexeme.token != Token::Text {
                return Err(expected("object key string", lexeme));
            }
            let colon = self.next();
            if colon.token != Token::Colon {
                return Err(expected("colon", colon));
            }
            let value = self.next();
            self.value(value)?;
            let separator = self.next();
            match separator.token {
                Token::ObjectEnd => return Ok(()),
                Token::Comma => lexeme = self.next(),
                _ => return Err(expected("comma or object end", separator)),
            }
        }
    }

    fn array(&mut self) -> Fault {
        let mut lexeme = self.next();
        if lexeme.token == Token::ArrayEnd {
            return Ok(());
        }
        loop {
            self.value(lexeme)?;
            let separator = self.next();
            match separator.token {
                Token::ArrayEnd => return Ok(()),
                Token::Comma => lexeme = self.next(),
                _ => return Err(expected("comma or array end", separator)),
            }
        }
    }

    fn next(&mut self) -> Lexeme {
        while matches!(self.body.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let start = self.at;
        let Some(&byte) = self.body.get(start) else {
            return Lexeme { token: Token::End, at: start };
        };
        let lexeme = |token| Lexeme { token, at: start };
        self.at += 1;
        match byte {
            b'{' => lexeme(Token::ObjectBegin),
            b'}' => lexeme(Token::ObjectEnd),
            b'[' => lexeme(Token::ArrayBegin),
            b']' => lexeme(Token::ArrayEnd),
            b':' => lexeme(Token::Colon),
            b',' => lexeme(Token::Comma),
            b'"' => self.text(),
            b'-' | b'0'..=b'9' => lexeme(self.number(start)),
            _ => lexeme(self.word(start)),
        }
    }

    fn word(&mut self, start: usize) -> Token {
        let words = [("true", "T_BOOLEAN"), ("false", "T_BOOLEAN"), ("null", "T_NULL")];
        let rest = &self.body[start..];
        for (word, name) in words {
            if rest.starts_with(word.as_bytes()) {
                self.at = start + word.len();
                return Token::Scalar(name);
            }
        }
        Token::Fault("invalid token")
    }

    fn number(&mut self, start: usize) -> Token {
        let is_part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = self.body[start..].iter().take_while(is_part).count();
        self.at = start + length;
        let digits = &self.body[start..self.at];
        let unsigned = digits.strip_prefix(b"-").unwrap_or(digits);
        let leads_with_zero =
            unsigned.first() == Some(&b'0') && unsigned.get(1).is_some_and(u8::is_ascii_digit);
        let parsed = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<f64>().ok());
        if parsed.is_none() || leads_with_zero {
            return Token::Fault("invalid number");
        }
        Token::Scalar("T_NUMBER")
    }

    fn text(&mut self) -> Lexeme {
        let start = self.at - 1;
        loop {
            let Some(&byte) = self.body.get(self.at) else {
                return self.fault("unexpected end of string");
            };
            match byte {
                // In lua-cjson a NUL byte ends the string.
                0 => return self.fault("unexpected end of string"),
                b'"' => {
                    self.at += 1;
                    return Lexeme { token: Token::Text, at: start };
                }
                b'\\' => match self.escape() {
                    Some(fault) => return self.fault(fault),
                    None => continue,
                },
                _ => self.at += 1,
            }
        }
    }

    fn fault(&self, fault: &'static str) -> Lexeme {
        Lexeme { token: Token::Fault(fault), at: self.at }
    }

    fn escape(&mut self) -> Option<&'static str> {
        match self.body.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.body.get(self.at + 2..self.at + 6).unwrap_or(b"-");
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Some("invalid unicode escape code");
                }
                self.at += 6;
            }
            Some(_) | None => return Some("invalid escape code"),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_in_the_words_of_the_known_decoder() {
        let table = [
            ("abc", "Expected value but found invalid token at character 1"),
            ("{", "Expected object key string but found T_END at character 2"),
            ("{a: 1}", "Expected object key string but found invalid token at character 2"),
            (r#"{"a" 1}"#, "Expected colon but found T_NUMBER at character 6"),
            (r#"{"a": }"#, "Expected value but found T_OBJ_END at character 7"),
            (r#"{"a": 1,}"#, "Expected object key string but found T_OBJ_END at character 9"),
            (r#"{"a": 1 "b""#, "Expected comma or object end but found T_STRING at character 9"),
            (r#"{"a": 1"#, "Expected comma or object end but found T_END at character 8"),
            ("[1 2]", "Expected comma or array end but found T_NUMBER at character 4"),
            ("{} {}", "Expected the end but found T_OBJ_BEGIN at character 4"),
            (
                r#"{"a"#,
                "Expected object key string but found unexpected end of string at character 4",
            ),
            (r#"["\x"]"#, "Expected value but found invalid escape code at character 3"),
            (
                r#"["\uzzzz"]"#,
                "Expected value but found invalid unicode escape code at character 3",
            ),
            ("[1.2.3]", "Expected value but found invalid number at character 2"),
            ("", "Expected value but found T_END at character 1"),
            ("[\"a\0\"]", "Expected value but found unexpected end of string at character 4"),
        ];
        for (text, expected) in table {
            assert_eq!(describe(text.as_bytes()).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(describe(b"[\"a\nb\"]"), None);
        let deep = "[".repeat(100_000);
        let fault = describe(deep.as_bytes()).expect("it is too deep");
        assert!(fault.starts_with("Found too many nested"), "{fault}");
    }

    #[test]
    fn an_escape_cut_off_does_not_end_the_scan_wrongly() {
        let text = br#"["\u12"#;
        assert!(describe(text).is_some_and(|fault| fault.contains("at character")));
    }
}
