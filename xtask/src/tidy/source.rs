//! A Rust file in the form that the checks need: code is separated from comments and literals, and
//! tests from the rest. This is a simple scanner, not a parser; it only recognizes literals,
//! comments and braces.

/// Line of a file in three forms: whole, only code, only comment.
pub(crate) struct Line {
    pub(crate) text: String,
    /// The code, with blanks instead of comments and the contents of literals.
    pub(crate) code: String,
    /// The comments, with blanks instead of the rest.
    pub(crate) comment: String,
    /// Whether the line belongs to a test.
    pub(crate) in_test: bool,
}

/// Rust file, split into lines.
pub(crate) struct Source {
    /// Path of the file from the workspace root.
    pub(crate) path: String,
    pub(crate) lines: Vec<Line>,
}

impl Source {
    /// Splits a file into lines. Text that is not Rust results in useless lines, but never in an
    /// error.
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let classes = classify(text);
        let whole_file_is_test = is_test_path(path);
        let mut lines: Vec<Line> = Vec::new();
        let mut position = 0;
        for raw in text.split('\n') {
            let (mut code, mut comment) = (String::new(), String::new());
            for (offset, character) in raw.char_indices() {
                let class = classes[position + offset];
                code.push(if class == Class::Code { character } else { ' ' });
                comment.push(if class == Class::Comment { character } else { ' ' });
            }
            position += raw.len() + 1;
            let text = raw.to_owned();
            lines.push(Line { text, code, comment, in_test: whole_file_is_test });
        }
        if lines.last().is_some_and(|line| line.text.is_empty()) {
            lines.pop();
        }
        let mut source = Self { path: path.to_owned(), lines };
        if !whole_file_is_test {
            source.mark_test_items();
        }
        source
    }

    /// Returns the code as one text, with line starts where the file has them.
    pub(crate) fn code(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().map(|line| line.code.as_str()).collect();
        lines.join("\n")
    }

    /// Returns the modules in other files that are declared for tests only, as paths without `.rs`.
    pub(crate) fn test_modules(&self) -> Vec<String> {
        let folder = match self.path.strip_suffix(".rs") {
            Some(stem) if ["lib", "main", "mod"].iter().any(|name| ends_with_part(stem, name)) => {
                stem.rsplit_once('/').map_or("", |(folder, _)| folder)
            }
            stem => stem.unwrap_or_default(),
        };
        let declared = self.lines.iter().filter(|line| line.in_test).filter_map(|line| {
            let (_, name) = line.code.trim().strip_suffix(';')?.rsplit_once("mod ")?;
            Some(format!("{folder}/{name}"))
        });
        declared.collect()
    }

    /// Marks the whole file as test code if it is one of these modules, or below one.
    pub(crate) fn mark_if_below(&mut self, modules: &[String]) {
        let is_below = modules.iter().any(|module| {
            let rest = self.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
        if is_below {
            self.lines.iter_mut().for_each(|line| line.in_test = true);
        }
    }

    /// Marks each item under `#[cfg(test)]`, up to its closing brace.
    fn mark_test_items(&mut self) {
        let code = self.code();
        let mut from = 0;
        while let Some(found) = code[from..].find("#[cfg(test)]") {
            let start = from + found;
            let end = item_end(&code, start + "#[cfg(test)]".len());
            let (first, last) = (line_of(&code, start), line_of(&code, end));
            for line in &mut self.lines[first..=last] {
                line.in_test = true;
            }
            from = end.max(start + 1);
        }
    }
}

/// Returns the line, from 0, that contains this byte.
pub(crate) fn line_of(text: &str, position: usize) -> usize {
    text.as_bytes()[..position].iter().filter(|byte| **byte == b'\n').count()
}

/// Returns the end of the item that follows `start`: its `;`, or its closing brace.
pub(crate) fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_i32;
    for (offset, byte) in code.as_bytes()[start..].iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return start + offset,
            b'{' if depth == 0 => return closing_brace(code, start + offset),
            _ => {}
        }
    }
    code.len()
}

/// Returns the brace that closes the one at `open`, or the end of the text.
pub(crate) fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_i32;
    for (offset, byte) in code.as_bytes()[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return open + offset;
        }
    }
    code.len()
}

fn ends_with_part(path: &str, name: &str) -> bool {
    path.rsplit('/').next() == Some(name)
}

/// Checks by its path alone whether a file contains only test code.
fn is_test_path(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains("/benches/")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Code,
    Comment,
    Literal,
}

/// Returns the class of each byte: code, comment or text.
fn classify(text: &str) -> Vec<Class> {
    let bytes = text.as_bytes();
    let mut classes = vec![Class::Code; bytes.len() + 1];
    let mut at = 0;
    while at < bytes.len() {
        let (class, end) = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => (Class::Comment, line_end(bytes, at)),
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                (Class::Comment, block_comment_end(bytes, at))
            }
            b'"' => (Class::Literal, string_end(bytes, at)),
            b'r' if starts_raw_string(bytes, at) => (Class::Literal, raw_string_end(bytes, at)),
            b'\'' => (Class::Literal, character_end(text, at)),
            _ => (Class::Code, at + 1),
        };
        // The quotes remain code, so that a call like `expect("…")` keeps its form.
        let (first, last) = if class == Class::Literal { (at + 1, end - 1) } else { (at, end) };
        for slot in classes.get_mut(first..last).into_iter().flatten() {
            *slot = class;
        }
        at = end;
    }
    classes
}

fn line_end(bytes: &[u8], start: usize) -> usize {
    bytes[start..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |n| start + n)
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Checks whether a raw string starts here (`r"`, `r#"`, also after `b` or `c`), and not an
/// identifier that ends in r.
fn starts_raw_string(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|i| bytes[i]);
    let is_prefix = matches!(before, Some(b'b' | b'c'));
    if !is_prefix && before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return false;
    }
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    bytes.get(at + 1 + hashes) == Some(&b'"')
}

fn raw_string_end(bytes: &[u8], start: usize) -> usize {
    let hashes = bytes[start + 1..].iter().take_while(|byte| **byte == b'#').count();
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = start + 2 + hashes;
    bytes[body..]
        .windows(close.len())
        .position(|window| window == close)
        .map_or(bytes.len(), |found| body + found + close.len())
}

/// Returns the end of a character literal; a lifetime ends immediately.
fn character_end(text: &str, start: usize) -> usize {
    let rest = &text[start + 1..];
    let mut characters = rest.char_indices();
    match characters.next() {
        Some((_, '\\')) => {
            // The character after the backslash cannot close the literal, even if it is a quote.
            let skipped = characters.next().map_or(0, |(at, c)| at + c.len_utf8());
            rest[skipped..].find('\'').map_or(text.len(), |end| start + 1 + skipped + end + 1)
        }
        Some((_, first)) if rest[first.len_utf8()..].starts_with('\'') => {
            start + 1 + first.len_utf8() + 1
        }
        _ => start + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::parse("crates/a/src/lib.rs", text).code()
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        let cases = [
            ("let a = 1; // unwrap()", "let a = 1;            "),
            ("x(\"a { b\")", "x(\"     \")"),
            ("x('{', '\\'', 'a)", "x(' ', '  ', 'a)"),
            ("r#\"a\"b\"# + 1", "r      # + 1"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("for x in \"é\".chars() {", "for x in \" \".chars() {"),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn a_comment_keeps_its_text() {
        let source = Source::parse("a.rs", "let a = \"// no\"; // yes");
        assert_eq!(source.lines[0].comment.trim(), "// yes");
    }

    #[test]
    fn test_items_end_at_their_brace() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let source = Source::parse("crates/a/src/lib.rs", text);
        let marks: Vec<bool> = source.lines.iter().map(|line| line.in_test).collect();
        assert_eq!(marks, [false, true, true, true, true, false]);
    }

    #[test]
    fn a_test_module_in_its_own_file_is_test_throughout() {
        assert!(Source::parse("crates/a/src/b/tests.rs", "fn a() {}").lines[0].in_test);
        let text = "#[cfg(test)]\nmod tests;\nfn a() {}";
        let source = Source::parse("crates/a/src/b.rs", text);
        let marks: Vec<bool> = source.lines.iter().map(|line| line.in_test).collect();
        assert_eq!(marks, [true, true, false]);
    }

    #[test]
    fn modules_declared_for_tests_are_test_throughout() {
        let cases = [
            ("crates/a/src/lib.rs", "crates/a/src/model.rs", true),
            ("crates/a/src/b.rs", "crates/a/src/b/model.rs", true),
            ("crates/a/src/b.rs", "crates/a/src/b/model/deep.rs", true),
            ("crates/a/src/b.rs", "crates/a/src/b/models.rs", false),
            ("crates/a/src/b.rs", "crates/a/src/model.rs", false),
        ];
        for (parent, path, expected) in cases {
            let declared =
                Source::parse(parent, "mod other;\n#[cfg(test)]\nmod model;\n").test_modules();
            let mut source = Source::parse(path, "fn a() {}");
            source.mark_if_below(&declared);
            assert_eq!(source.lines[0].in_test, expected, "{parent} {path}");
        }
    }

    #[test]
    fn unfinished_text_does_not_fail() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'", "'\\", "#[cfg(test)]", "{{{", ""] {
            Source::parse("a.rs", text);
        }
    }
}
