//! Parsing of ngxway's files into directives: names, arguments, blocks and lines, without
//! interpretation.

/// Maximum nesting of blocks; ngxway's files have two levels.
const DEPTH_MAX: usize = 16;

/// Directive of an nginx file, with its block if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directive {
    /// Line number, from 1.
    pub(super) line: usize,
    pub(super) name: String,
    /// Arguments; the last one of a `…_by_lua_block` is its program.
    pub(super) arguments: Vec<String>,
    /// Contents of the braces; `None` if the directive ends with a semicolon.
    pub(super) block: Option<Vec<Directive>>,
}

impl Directive {
    /// Returns the first argument, or an empty text.
    pub(super) fn argument(&self) -> &str {
        self.arguments.first().map(String::as_str).unwrap_or_default()
    }

    /// Returns the directives of the block.
    pub(super) fn inner(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Open,
    Close,
    End,
}

/// Line number and reason of a syntax error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {0}: {1}")]
pub(super) struct SyntaxError(pub(super) usize, pub(super) &'static str);

/// Parses the directives of an nginx file.
pub(super) fn parse(text: &str) -> Result<Vec<Directive>, SyntaxError> {
    let mut reader = Reader { rest: text, line: 1 };
    reader.directives(0)
}

struct Reader<'t> {
    rest: &'t str,
    line: usize,
}

impl Reader<'_> {
    fn directives(&mut self, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        let mut directives = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut line = self.line;
        loop {
            let token = self.token()?;
            let is_first = words.is_empty();
            match token {
                Some(Token::Word(word)) => {
                    if is_first {
                        line = self.line;
                    }
                    words.push(word);
                }
                Some(Token::End | Token::Open) if is_first => {
                    return Err(SyntaxError(self.line, "a directive has no name"));
                }
                Some(token @ (Token::End | Token::Open)) => {
                    let mut words = std::mem::take(&mut words).into_iter();
                    let name = words.next().unwrap_or_default();
                    let mut arguments: Vec<String> = words.collect();
                    let block = match token {
                        Token::Open if name.ends_with("_by_lua_block") => {
                            arguments.push(self.program()?);
                            Some(Vec::new())
                        }
                        Token::Open => Some(self.block(depth)?),
                        _ => None,
                    };
                    directives.push(Directive { line, name, arguments, block });
                }
                Some(Token::Close) if depth > 0 && is_first => return Ok(directives),
                None if depth == 0 && is_first => return Ok(directives),
                Some(Token::Close) => return Err(SyntaxError(self.line, "a } too many")),
                None => return Err(SyntaxError(line, "it does not end")),
            }
        }
    }

    fn block(&mut self, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        if depth >= DEPTH_MAX {
            return Err(SyntaxError(self.line, "too many blocks within each other"));
        }
        self.directives(depth + 1)
    }

    /// Reads a Lua program up to the brace that ends its block.
    fn program(&mut self) -> Result<String, SyntaxError> {
        let began = self.line;
        let mut open = 1;
        let mut program = String::new();
        while let Some(letter) = self.next() {
            match letter {
                '{' => open += 1,
                '}' => open -= 1,
                _ => {}
            }
            if open == 0 {
                return Ok(program);
            }
            program.push(letter);
        }
        Err(SyntaxError(began, "it does not end"))
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        if letter == '\n' {
            self.line += 1;
        }
        Some(letter)
    }

    fn token(&mut self) -> Result<Option<Token>, SyntaxError> {
        loop {
            let Some(letter) = self.rest.chars().next() else { return Ok(None) };
            match letter {
                '#' => while self.next().is_some_and(|letter| letter != '\n') {},
                letter if letter.is_whitespace() => drop(self.next()),
                _ => break,
            }
        }
        let began = self.line;
        let letter = self.next().unwrap_or_default();
        Ok(Some(match letter {
            '{' => Token::Open,
            '}' => Token::Close,
            ';' => Token::End,
            quote @ ('"' | '\'') => {
                let mut word = String::new();
                loop {
                    match self.next() {
                        None => return Err(SyntaxError(began, "a quote does not end")),
                        Some('\\') => word.extend(self.next()),
                        Some(letter) if letter == quote => break Token::Word(word),
                        Some(letter) => word.push(letter),
                    }
                }
            }
            letter => {
                let mut word = String::from(letter);
                // `${name}` is a variable, not a block.
                let mut is_named = letter == '$';
                while let Some(letter) = self.rest.chars().next() {
                    let is_brace =
                        letter == '{' && is_named || letter == '}' && word.contains("${");
                    if letter.is_whitespace() || (matches!(letter, ';' | '{' | '}') && !is_brace) {
                        break;
                    }
                    is_named = letter == '$';
                    word.push(letter);
                    self.next();
                }
                Token::Word(word)
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_have_names_arguments_blocks_and_lines() {
        let text = "# a comment\nserver {\n  listen 8090; # another\n  location /api/ {\n    \
                    set_header Connection \"a \\\"b\\\";\";\n    access_by_lua_block { if x { } }\n    \
                    return 200 ${host}x;\n  }\n}\n";
        let all = parse(text).expect("it is right");
        let [server] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((server.line, server.name.as_str()), (2, "server"));
        let [listen, location] = server.inner() else { panic!("{server:?}") };
        assert_eq!((listen.line, listen.argument(), &listen.block), (3, "8090", &None));
        let [header, lua, last] = location.inner() else { panic!("{location:?}") };
        assert_eq!(header.arguments, ["Connection", "a \"b\";"]);
        assert_eq!((lua.argument().trim(), &lua.block), ("if x { }", &Some(Vec::new())));
        assert_eq!((last.line, last.arguments.join(" ")), (7, "200 ${host}x".to_owned()));
    }

    #[test]
    fn what_is_no_such_file_is_told_by_its_line() {
        let nested = format!("{}{}", "a {".repeat(40), "}".repeat(40));
        for (text, line, reason) in [
            ("a {\n b;\n", 2, "it does not end"),
            ("a b", 1, "it does not end"),
            ("a;\n}", 2, "a } too many"),
            ("a;\n;", 2, "a directive has no name"),
            ("a \"b\n", 1, "a quote does not end"),
            ("x_by_lua_block {\n{ }", 1, "it does not end"),
            (&nested, 1, "too many blocks within each other"),
        ] {
            assert_eq!(parse(text), Err(SyntaxError(line, reason)), "{text}");
        }
    }
}
