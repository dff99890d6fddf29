//! The text of a case, taken apart. Blocks are separated by empty lines; each is one exchange on the
//! case's connection:
//!
//! ```text
//! > POST /path?x=1        what the client sends: the request line, then header lines
//! > apikey: k1
//! >= the body             its length is added, unless the case sends a framing of its own
//! < 401                   what it gets: the status, then lines that must be there …
//! < Server: *             … with any value …
//! < !X-Other              … or must not
//! <= the whole body
//! <~ a part of the body
//! <z the whole body, once decompressed by its `Content-Encoding`
//! ^ POST /path?x=1        what the node saw: the request line, then lines as above
//! ^ !apikey
//! ^= the body
//! ^ none                  it saw nothing
//! ```
//!
//! `\n`, `\r`, `\t` and `\\` are read in bodies; `{repeat TEXT COUNT}` is the text that often.

#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) request: Vec<String>,
    pub(super) body: Option<String>,
    pub(super) answer: Side,
    pub(super) node: Side,
    pub(super) is_kept_from_node: bool,
}

/// What one side must see.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// The first line: a status, a method with a target.
    pub(super) first: Option<String>,
    pub(super) lines: Vec<Line>,
    pub(super) body: Option<String>,
    pub(super) parts: Vec<String>,
    pub(super) plain: Option<String>,
}

/// What must hold of the lines of one name.
#[derive(Debug)]
pub(super) enum Line {
    Absent(String),
    Present(String),
    Is(String, String),
}

/// Takes the text of a case apart.
pub(super) fn read(text: &str) -> Vec<Exchange> {
    let lines = text.lines().map(str::trim_start);
    let mut exchanges = vec![Exchange::default()];
    for line in lines {
        if line.is_empty() {
            exchanges.push(Exchange::default());
        } else if let Some(exchange) = exchanges.last_mut() {
            exchange.add(line);
        }
    }
    exchanges.retain(|exchange| !exchange.request.is_empty());
    exchanges
}

impl Exchange {
    fn add(&mut self, line: &str) {
        let (mark, rest) = line.split_at(1);
        let (kind, rest) = match rest.as_bytes().first() {
            Some(b'=' | b'~' | b'z') => rest.split_at(1),
            _ => ("", rest),
        };
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        match (mark, kind) {
            (">", "") => self.request.push(rest.to_owned()),
            (">", "=") => self.body = Some(unescape(rest)),
            ("^", "") if rest == "none" => self.is_kept_from_node = true,
            ("<", kind) => self.answer.add(kind, rest),
            ("^", kind) => self.node.add(kind, rest),
            _ => panic!("no line of a case: {line}"),
        }
    }
}

impl Side {
    fn add(&mut self, kind: &str, rest: &str) {
        match kind {
            "=" => self.body = Some(unescape(rest)),
            "z" => self.plain = Some(unescape(rest)),
            "~" => self.parts.push(unescape(rest)),
            _ => match (rest.strip_prefix('!'), rest.split_once(": ")) {
                (Some(name), _) => self.lines.push(Line::Absent(name.to_owned())),
                (None, Some((name, "*"))) => self.lines.push(Line::Present(name.to_owned())),
                (None, Some((name, value))) => {
                    self.lines.push(Line::Is(name.to_owned(), value.to_owned()));
                }
                (None, None) if rest.ends_with(':') => {
                    self.lines.push(Line::Is(rest.trim_end_matches(':').to_owned(), String::new()));
                }
                (None, None) => self.first = Some(rest.to_owned()),
            },
        }
    }
}

/// Reads the escapes of bodies.
pub(super) fn unescape(text: &str) -> String {
    let text = repeat(text);
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            other => out.push(other),
        }
    }
    out
}

/// Writes `{repeat TEXT COUNT}` out.
fn repeat(text: &str) -> String {
    let Some((before, rest)) = text.split_once("{repeat ") else { return text.to_owned() };
    let (inner, after) = rest.split_once('}').expect("a repetition ends with a brace");
    let (unit, count) = inner.rsplit_once(' ').expect("a repetition has a text and a count");
    let count = count.parse().expect("a repetition's count is a number");
    format!("{before}{}{}", unit.repeat(count), repeat(after))
}
