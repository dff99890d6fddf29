//! The first operation of a GraphQL document: its kind, its name and its root fields.
//!
//! The parser implements just enough of the grammar to tell valid documents from invalid ones.
//! Validation against a schema is left to the server.

use serde_json::Value;

use crate::variable::Variable;

/// Maximum length in bytes of a GraphQL document that is parsed.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Prefix of the names of GraphQL variables.
const PREFIX: &str = "graphql_";

pub fn is_graphql_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The first operation of a GraphQL document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    kind: String,
    name: String,
    root_fields: Vec<String>,
}

impl Operation {
    /// Parses the first operation of a document; `None` if the text is not GraphQL or begins with
    /// another definition.
    pub fn parse(document: &str) -> Option<Operation> {
        if document.len() > DOCUMENT_BYTES_MAX {
            return None;
        }
        let mut tokens = Tokens { rest: document };
        let operation = operation(&mut tokens)?;
        // The rest is not evaluated, but its tokens and brackets must be valid.
        let mut depth = 0_usize;
        while let Some(token) = tokens.next()? {
            match token {
                Token::Mark('{' | '(' | '[') => depth += 1,
                Token::Mark('}' | ')' | ']') => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        (depth == 0).then_some(operation)
    }

    /// Returns the value of `graphql_operation`, `graphql_name` or `graphql_root_fields`.
    pub fn value(&self, variable: &Variable) -> Option<Vec<u8>> {
        let Variable::Named(name) = variable else { return None };
        match name.strip_prefix(PREFIX)? {
            "operation" => Some(self.kind.clone().into_bytes()),
            "name" => Some(self.name.clone().into_bytes()),
            "root_fields" => {
                Some(Value::from(self.root_fields.as_slice()).to_string().into_bytes())
            }
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'d> {
    Word(&'d str),
    /// String or number as written.
    Literal,
    Mark(char),
    Spread,
}

struct Tokens<'d> {
    rest: &'d str,
}

impl<'d> Tokens<'d> {
    /// Reads the next token; `Some(None)` at the end, `None` for an invalid one.
    fn next(&mut self) -> Option<Option<Token<'d>>> {
        self.skip();
        let Some(first) = self.rest.chars().next() else { return Some(None) };
        let (token, length) = match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let length = self.span(|letter| letter.is_ascii_alphanumeric() || letter == '_');
                (Token::Word(&self.rest[..length]), length)
            }
            '0'..='9' | '-' => {
                (Token::Literal, self.span(|it| it.is_ascii_alphanumeric() || "-+.".contains(it)))
            }
            '"' => (Token::Literal, self.text()?),
            '.' if self.rest.starts_with("...") => (Token::Spread, 3),
            '{' | '}' | '(' | ')' | '[' | ']' | ':' | '$' | '!' | '=' | '|' | '@' | '&' => {
                (Token::Mark(first), 1)
            }
            _ => return None,
        };
        self.rest = &self.rest[length..];
        Some(Some(token))
    }

    fn peek(&self) -> Option<Option<Token<'d>>> {
        Tokens { rest: self.rest }.next()
    }

    /// Skips blanks, commas and comments, which have no meaning.
    fn skip(&mut self) {
        loop {
            let is_blank =
                |letter: char| letter.is_ascii_whitespace() || ",\u{feff}".contains(letter);
            self.rest = self.rest.trim_start_matches(is_blank);
            if !self.rest.starts_with('#') {
                return;
            }
            self.rest = self.rest.find(['\n', '\r']).map_or("", |end| &self.rest[end..]);
        }
    }

    fn span(&self, belongs: impl Fn(char) -> bool) -> usize {
        self.rest.find(|letter| !belongs(letter)).unwrap_or(self.rest.len())
    }

    /// Returns the length of the string literal that begins here, including its single or triple
    /// quotes.
    fn text(&self) -> Option<usize> {
        if let Some(inside) = self.rest.strip_prefix("\"\"\"") {
            return inside.find("\"\"\"").map(|end| end + 6);
        }
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => return Some(at + 1),
                '\\' => {
                    letters.next();
                }
                '\n' | '\r' => return None,
                _ => {}
            }
        }
        None
    }

    /// Skips a bracketed group if the next token opens one.
    fn skip_group(&mut self, open: char) -> Option<()> {
        if self.peek()? != Some(Token::Mark(open)) {
            return Some(());
        }
        let mut expected = Vec::new();
        loop {
            match self.next()?? {
                Token::Mark('{') => expected.push('}'),
                Token::Mark('(') => expected.push(')'),
                Token::Mark('[') => expected.push(']'),
                Token::Mark(close @ ('}' | ')' | ']')) => {
                    if expected.pop() != Some(close) {
                        return None;
                    }
                    if expected.is_empty() {
                        return Some(());
                    }
                }
                _ => {}
            }
        }
    }

    /// Skips directives such as `@include(if: $a)`.
    fn skip_directives(&mut self) -> Option<()> {
        while self.peek()? == Some(Token::Mark('@')) {
            self.next()?;
            let Token::Word(_) = self.next()?? else { return None };
            self.skip_group('(')?;
        }
        Some(())
    }

    fn word(&mut self) -> Option<&'d str> {
        match self.next()?? {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }
}

fn operation(tokens: &mut Tokens<'_>) -> Option<Operation> {
    let mut operation =
        Operation { kind: "query".into(), name: String::new(), root_fields: Vec::new() };
    if let Some(Token::Word(kind)) = tokens.peek()? {
        if !matches!(kind, "query" | "mutation" | "subscription") {
            return None;
        }
        tokens.next()?;
        operation.kind = kind.into();
        if let Some(Token::Word(name)) = tokens.peek()? {
            tokens.next()?;
            operation.name = name.into();
        }
        tokens.skip_group('(')?;
        tokens.skip_directives()?;
    }
    if tokens.next()?? != Token::Mark('{') {
        return None;
    }
    loop {
        match tokens.next()?? {
            // An empty selection is invalid by the grammar, and would pass every condition on
            // fields.
            Token::Mark('}') if operation.root_fields.is_empty() => return None,
            Token::Mark('}') => return Some(operation),
            Token::Word(word) => operation.root_fields.push(field(tokens, word)?.into()),
            Token::Spread => operation.root_fields.extend(spread(tokens)?.map(str::to_owned)),
            _ => return None,
        }
    }
}

/// Parses a field after its first word, which is an alias or the name. Returns the name.
fn field<'d>(tokens: &mut Tokens<'d>, first: &'d str) -> Option<&'d str> {
    let name = match tokens.peek()? {
        Some(Token::Mark(':')) => {
            tokens.next()?;
            tokens.word()?
        }
        _ => first,
    };
    tokens.skip_group('(')?;
    tokens.skip_directives()?;
    tokens.skip_group('{')?;
    Some(name)
}

/// Parses the rest of a spread. Returns the name of the fragment, `Some(None)` for an inline
/// fragment, and `None` for invalid text.
fn spread<'d>(tokens: &mut Tokens<'d>) -> Option<Option<&'d str>> {
    let name = match tokens.peek()? {
        Some(Token::Word("on")) => {
            tokens.next()?;
            tokens.word()?;
            None
        }
        Some(Token::Word(_)) => tokens.word(),
        _ => None,
    };
    tokens.skip_directives()?;
    if name.is_none() {
        tokens.skip_group('{')?;
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_operation_is_found() {
        for (document, expected) in [
            ("{ a }", Some(("query", "", "a"))),
            ("query { a, b(x: {y: [1, \"}\"]}) { c } }", Some(("query", "", "a b"))),
            (
                "query getRepo { owner { name } repo { created } }",
                Some(("query", "getRepo", "owner repo")),
            ),
            (
                "mutation($r: [T!]! = [1]) @d(a: 1) { add: addRepo(r: $r) { id } }",
                Some(("mutation", "", "addRepo")),
            ),
            ("subscription S { x } query T { y }", Some(("subscription", "S", "x"))),
            (
                "# a comment }\nquery{a @skip(if: $b){b} ...F ... on T { c }}",
                Some(("query", "", "a F")),
            ),
            ("{ a(b: \"\"\"block \" text\"\"\") }", Some(("query", "", "a"))),
            ("", None),
            ("{}", None),
            ("{ a", None),
            ("{ a } }", None),
            ("query { a(b: [1)} }", None),
            ("fragment F on T { a }", None),
            ("a=1&b=2", None),
            ("query { a \"x }", None),
        ] {
            let found = Operation::parse(document);
            let shown = found.as_ref().map(|it| (&*it.kind, &*it.name, it.root_fields.join(" ")));
            let expected = expected.map(|(kind, name, fields)| (kind, name, fields.to_owned()));
            assert_eq!(shown, expected, "{document}");
        }
    }
}
