//! Text templates with variables: `$name`, `${name}`, `${name ?? default}`, and `\$` for a dollar
//! sign. A dot ends an unbraced name, except in `$post_arg.path.to.field`.
//!
//! Templates are parsed once, on load. Rendering allocates only if the output has to grow.

use crate::variable::{Lookup, Variable};

/// The only variable with dots in its unbraced name, as in APISIX: a path into a JSON body.
const POST_ARG: &str = "post_arg";

/// Text with variables in it, parsed once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Box<[Part]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplatePart<'a> {
    Text(&'a str),
    Variable {
        variable: &'a Variable,
        /// Text to use if the variable has no value; empty by default.
        default: &'a str,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Variable { variable: Variable, default: Box<str> },
}

impl Template {
    /// Parses a text. Never fails: a dollar sign that begins no variable is literal.
    pub fn parse(text: &str) -> Template {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['$', '\\']) {
            let (before, after) = rest.split_at(at);
            literal.push_str(before);
            if let Some(unescaped) = after.strip_prefix("\\$") {
                literal.push('$');
                rest = unescaped;
            } else if let Some((part, length)) = variable_at(after) {
                flush(&mut literal, &mut parts);
                parts.push(part);
                rest = &after[length..];
            } else {
                literal.push_str(&after[..1]);
                rest = &after[1..];
            }
        }
        literal.push_str(rest);
        flush(&mut literal, &mut parts);
        Template { parts: parts.into() }
    }

    /// Appends the text with the values of the request. An absent variable is replaced by its
    /// default, or by nothing.
    pub fn render(&self, request: &dyn Lookup, out: &mut Vec<u8>) {
        self.resolve(request, out);
    }

    /// Like `render`; also returns the number of variables that had a value or a default.
    pub fn resolve(&self, request: &dyn Lookup, out: &mut Vec<u8>) -> usize {
        let mut resolved = 0;
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Variable { variable, default } => match request.variable(variable) {
                    Some(value) => {
                        out.extend_from_slice(&value);
                        resolved += 1;
                    }
                    None => {
                        out.extend_from_slice(default.as_bytes());
                        resolved += usize::from(!default.is_empty());
                    }
                },
            }
        }
        resolved
    }

    /// Returns the parts in order, for callers that encode values depending on their position.
    pub fn parts(&self) -> impl Iterator<Item = TemplatePart<'_>> {
        self.parts.iter().map(|part| match part {
            Part::Text(text) => TemplatePart::Text(text),
            Part::Variable { variable, default } => TemplatePart::Variable { variable, default },
        })
    }

    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Variable { variable, .. } => Some(variable),
        })
    }

    /// Whether rendering needs the body of the request.
    pub fn reads_body(&self) -> bool {
        self.variables().any(Variable::reads_body)
    }
}

fn flush(literal: &mut String, parts: &mut Vec<Part>) {
    if !literal.is_empty() {
        parts.push(Part::Text(std::mem::take(literal).into()));
    }
}

/// Parses the variable at the start of a text; returns it with its length in bytes.
fn variable_at(text: &str) -> Option<(Part, usize)> {
    let mention = text.strip_prefix('$')?;
    if let Some(inside) = mention.strip_prefix('{') {
        let (inside, _) = inside.split_once('}')?;
        let (name, default) = inside.split_once("??").unwrap_or((inside, ""));
        let name = name.trim();
        let is_name = !name.is_empty() && !name.contains(['$', '{']);
        return is_name.then(|| (part(name, default.trim()), "${}".len() + inside.len()));
    }
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let word_end = |from: usize| {
        mention[from..].find(|letter| !is_word(letter)).map_or(mention.len(), |at| from + at)
    };
    let mut length = word_end(0);
    if &mention[..length] == POST_ARG {
        // A dot without a name after it is punctuation.
        while mention[length..].starts_with('.') && word_end(length + 1) > length + 1 {
            length = word_end(length + 1);
        }
    }
    (length > 0).then(|| (part(&mention[..length], ""), "$".len() + length))
}

fn part(name: &str, default: &str) -> Part {
    Part::Variable { variable: Variable::parse(name), default: default.into() }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    struct Request;

    impl Lookup for Request {
        fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
            match variable {
                Variable::Uri => Some(Cow::Borrowed(b"/a")),
                Variable::Arg(name) if name == "a" => Some(Cow::Borrowed(b"1")),
                Variable::Arg(name) if name == "empty" => Some(Cow::Borrowed(b"")),
                Variable::PostJson(path) if path == "a.b[0]" => Some(Cow::Borrowed(b"j")),
                Variable::PostJson(path) if path == "a.c" => Some(Cow::Borrowed(b"k")),
                _ => None,
            }
        }
    }

    #[test]
    fn variables_are_replaced_and_everything_else_stays() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("$uri", "/a"),
            ("$uri-$arg_a", "/a-1"),
            ("${uri}x$arg_a", "/ax1"),
            ("${ uri }", "/a"),
            ("$urix", ""),
            ("<$nothing>", "<>"),
            ("<${nothing ?? else}>", "<else>"),
            ("<${nothing??else}>", "<else>"),
            ("<${nothing ?? }>", "<>"),
            ("${arg_a ?? else}", "1"),
            ("<${arg_empty ?? else}>", "<>"),
            ("${post_arg.a.b[0]}", "j"),
            ("<$post_arg.a.c>", "<k>"),
            ("$post_arg.a.c.", "k."),
            ("$post_arg.a.c, $uri.json", "k, /a.json"),
            ("$post_arg.", "."),
            ("$post_arg..a", "..a"),
            ("\\$uri $uri", "$uri /a"),
            ("\\${uri}", "${uri}"),
            ("\\n", "\\n"),
            ("\\", "\\"),
            ("cost: 5$", "cost: 5$"),
            ("$$uri", "$/a"),
            ("$-$é", "$-$é"),
            ("${uri", "${uri"),
            ("${}", "${}"),
            ("${${uri}}", "${/a}"),
            ("é$uri", "é/a"),
        ] {
            let mut out = Vec::new();
            Template::parse(text).render(&Request, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn rendering_appends() {
        let mut out = b"before ".to_vec();
        Template::parse("$uri").render(&Request, &mut out);
        assert_eq!(out, b"before /a");
    }

    #[test]
    fn values_and_defaults_count_as_resolved() {
        for (text, resolved) in [
            ("plain", 0),
            ("$nothing", 0),
            ("$uri", 1),
            ("$uri $nothing ${nothing ?? a} $arg_empty", 3),
        ] {
            assert_eq!(
                Template::parse(text).resolve(&Request, &mut Vec::new()),
                resolved,
                "{text}"
            );
        }
    }

    #[test]
    fn only_body_variables_need_the_body() {
        assert!(Template::parse("a$post_arg_b").reads_body());
        assert!(Template::parse("${post_arg.b}").reads_body());
        assert!(!Template::parse("post_arg_b $uri").reads_body());
    }
}
