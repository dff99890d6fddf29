//! The HTTP requests of a case, prepared once: which comes next, and its bytes for HTTP/1.
//!
//! HTTP/2 takes the same entries and encodes them its own way.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::case::{Body, Case, HttpVersion, RequestForm, UrlEntry};
use crate::error::BenchError;
use crate::protocol::Ticket;
use crate::target::Target;

/// Who asks, unless the case says otherwise.
const USER_AGENT: &str = concat!("tollhouse-bench/", env!("CARGO_PKG_VERSION"));
/// Entries of a URL list: more would not fit the memory that a generator should use.
const ENTRIES_MAX: usize = 1_000_000;
/// The sum of weights, which is the length of one turn over the list.
const TURN_MAX: u64 = 4_000_000;

/// All requests of a case.
#[derive(Debug)]
pub struct Requests {
    entries: Vec<Entry>,
    /// Which entry comes when, one turn; empty when there is only one.
    turn: Vec<u32>,
}

/// One request, as parts and as the bytes that HTTP/1 sends.
#[derive(Debug)]
pub struct Entry {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The header lines in order, without those that only HTTP/1 has.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The whole request for HTTP/1.
    pub bytes: Vec<u8>,
    /// Whether the answer has no body whatever it declares.
    pub is_head: bool,
}

impl Requests {
    /// Prepares the requests of a case; reads its files.
    ///
    /// # Errors
    /// When a file cannot be read or a line of it is no request.
    pub fn prepare(case: &Case, target: &Target) -> Result<Self, BenchError> {
        let http = &case.http;
        let body = match &http.body {
            None => Vec::new(),
            Some(Body::Text(text)) => text.clone().into_bytes(),
            Some(Body::File(path)) => fs::read(path).map_err(|error| bad_file(path, &error))?,
        };
        let mut listed = http.urls.clone();
        if let Some(path) = &http.urls_file {
            let text = fs::read_to_string(path).map_err(|error| bad_file(path, &error))?;
            listed.extend(parse_list(&text).map_err(|why| bad_file(path, &why))?);
        }
        if listed.is_empty() {
            listed.push(UrlEntry { method: None, url: target.path.clone(), weight: 1 });
        }
        let turn = turn_of(&listed)?;
        let entries = listed.iter().map(|entry| prepare_entry(case, target, entry, &body));
        Ok(Self { entries: entries.collect::<Result<_, _>>()?, turn })
    }

    /// The request that goes with a ticket.
    #[inline]
    pub fn next(&self, ticket: Ticket) -> &Entry {
        let index = match self.turn.len() {
            0 => 0,
            turn => self.turn[(ticket.number % turn as u64) as usize] as usize,
        };
        &self.entries[index]
    }
}

/// Lines `[METHOD] URL [weight]`; `#` begins a comment.
fn parse_list(text: &str) -> Result<Vec<UrlEntry>, String> {
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> =
            line.split_whitespace().take_while(|w| !w.starts_with('#')).collect();
        let is_url = |word: &str| word.starts_with('/') || word.contains("://");
        let (method, rest) = match words.as_slice() {
            [] => continue,
            [url, rest @ ..] if is_url(url) => (None, (url, rest)),
            [method, url, rest @ ..] if is_url(url) => (Some((*method).to_owned()), (url, rest)),
            _ => return Err(format!("line {}: write `[METHOD] URL [weight]`", index + 1)),
        };
        let weight = match rest.1 {
            [] => 1,
            [weight] => weight
                .parse()
                .map_err(|_| format!("line {}: `{weight}` is no weight", index + 1))?,
            _ => return Err(format!("line {}: too many words", index + 1)),
        };
        if entries.len() == ENTRIES_MAX {
            return Err(format!("more than {ENTRIES_MAX} requests"));
        }
        entries.push(UrlEntry { method, url: (*rest.0).to_owned(), weight });
    }
    if entries.is_empty() { Err("holds no request".into()) } else { Ok(entries) }
}

/// One turn over the entries: each as often as its weight, spread evenly.
fn turn_of(entries: &[UrlEntry]) -> Result<Vec<u32>, BenchError> {
    if entries.len() == 1 {
        return Ok(Vec::new());
    }
    let total: u64 = entries.iter().map(|entry| u64::from(entry.weight)).sum();
    if total == 0 || total > TURN_MAX {
        let why = format!("the weights add up to {total}; they must add up to 1 to {TURN_MAX}");
        return Err(BenchError::Case { key: "http.urls".into(), why });
    }
    if entries.iter().all(|entry| entry.weight == 1) {
        return Ok((0..entries.len() as u32).collect());
    }
    // The n-th of w turns of an entry stands at (n + ½)/w of the round.
    let mut places: Vec<(f64, u32)> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let weight = f64::from(entry.weight);
        places.extend((0..entry.weight).map(|n| ((f64::from(n) + 0.5) / weight, index as u32)));
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    Ok(places.into_iter().map(|(_, index)| index).collect())
}

fn prepare_entry(
    case: &Case,
    target: &Target,
    listed: &UrlEntry,
    body: &[u8],
) -> Result<Entry, BenchError> {
    let method = listed.method.clone().unwrap_or_else(|| case.http.method.clone());
    let path = path_of(&listed.url, target)?;
    let mut entry = Entry {
        headers: headers_of(case, target, body),
        is_head: method == "HEAD",
        method,
        path,
        body: body.to_vec(),
        bytes: Vec::new(),
    };
    check_words(&entry)?;
    entry.bytes = encode(case, target, &entry);
    Ok(entry)
}

/// Nothing that would break the request's framing may be written into it.
fn check_words(entry: &Entry) -> Result<(), BenchError> {
    let is_token = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&b))
    };
    let problem = |key: &str, why: String| Err(BenchError::Case { key: key.into(), why });
    if !is_token(&entry.method) {
        return problem("http.method", format!("`{}` is no method", entry.method.escape_debug()));
    }
    if entry.path.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return problem("http.urls", format!("`{}` has a space in it", entry.path.escape_debug()));
    }
    for (name, value) in &entry.headers {
        if !is_token(name) {
            return problem("http.headers", format!("`{}` is no header name", name.escape_debug()));
        }
        if value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
            return problem(
                "http.headers",
                format!("the value of `{name}` has a line break in it"),
            );
        }
    }
    Ok(())
}

fn path_of(url: &str, target: &Target) -> Result<String, BenchError> {
    let Some((_, rest)) = url.split_once("://") else { return Ok(url.to_owned()) };
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    if authority != target.authority {
        let why = format!("`{url}` is not of {}, and a case has one target", target.authority);
        return Err(BenchError::Case { key: "http.urls".into(), why });
    }
    Ok(match path.as_bytes().first() {
        Some(b'/') => path.to_owned(),
        _ => format!("/{path}"),
    })
}

/// The case's header lines, and the generator's own where it says nothing.
fn headers_of(case: &Case, target: &Target, body: &[u8]) -> Vec<(String, String)> {
    let given = &case.http.headers;
    let has = |name: &str| given.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let mut headers = Vec::new();
    if !has("host") {
        headers.push(("Host".to_owned(), target.authority.clone()));
    }
    if !has("user-agent") {
        headers.push(("User-Agent".to_owned(), USER_AGENT.to_owned()));
    }
    if let Some(credentials) = &target.credentials
        && !has("authorization")
    {
        headers
            .push(("Authorization".to_owned(), format!("Basic {}", STANDARD.encode(credentials))));
    }
    // An empty value takes a header of the generator's own away.
    headers.extend(given.iter().filter(|(_, value)| !value.is_empty()).cloned());
    let sends_length =
        !body.is_empty() || matches!(case.http.method.as_str(), "POST" | "PUT" | "PATCH");
    if sends_length && !has("content-length") && !has("transfer-encoding") {
        headers.push(("Content-Length".to_owned(), body.len().to_string()));
    }
    headers
}

/// The request as HTTP/1 sends it.
fn encode(case: &Case, target: &Target, entry: &Entry) -> Vec<u8> {
    let version = match case.http.version {
        HttpVersion::Http11 => "1.1",
        HttpVersion::Http10 => "1.0",
    };
    let origin = match case.http.form {
        RequestForm::Origin => String::new(),
        RequestForm::Absolute => format!("{}://{}", target.scheme, target.authority),
    };
    let mut head = format!("{} {origin}{} HTTP/{version}\r\n", entry.method, entry.path);
    for (name, value) in &entry.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let says_connection = entry.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("connection"));
    let connection = match (case.http.version, case.load.keep_alive) {
        (HttpVersion::Http11, false) => Some("close"),
        (HttpVersion::Http10, true) => Some("Keep-Alive"),
        _ => None,
    };
    if let Some(connection) = connection
        && !says_connection
    {
        head.push_str(&format!("Connection: {connection}\r\n"));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&entry.body);
    bytes
}

fn bad_file(path: &Path, why: &impl ToString) -> BenchError {
    BenchError::File { path: path.to_owned(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(change: impl FnOnce(&mut Case)) -> Result<Requests, BenchError> {
        let mut case = Case::new("http://127.0.0.1:8080/x?y=1");
        change(&mut case);
        Requests::prepare(&case, &Target::of(&case).expect("target"))
    }

    fn text(change: impl FnOnce(&mut Case)) -> String {
        let requests = prepared(change).expect("requests");
        String::from_utf8_lossy(&requests.next(Ticket { number: 0 }).bytes).into_owned()
    }

    fn agent() -> String {
        format!("User-Agent: {USER_AGENT}\r\n")
    }

    #[test]
    fn a_plain_request() {
        let expected = format!("GET /x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n{}\r\n", agent());
        assert_eq!(text(|_| ()), expected);
    }

    #[test]
    fn headers_replace_the_generators_own_and_an_empty_one_takes_it_away() {
        let sent = text(|case| {
            case.http.headers =
                vec![("host".into(), "a.example".into()), ("User-Agent".into(), String::new())];
        });
        assert_eq!(sent, "GET /x?y=1 HTTP/1.1\r\nhost: a.example\r\n\r\n");
    }

    #[test]
    fn a_body_has_its_length() {
        let sent = text(|case| {
            case.http.method = "POST".into();
            case.http.body = Some(Body::Text("hello".into()));
        });
        assert!(sent.ends_with("Content-Length: 5\r\n\r\nhello"), "{sent}");
    }

    #[test]
    fn versions_and_keeping_alive_show_in_connection() {
        let connection = |version, keep_alive| {
            let sent = text(|case| {
                case.http.version = version;
                case.load.keep_alive = keep_alive;
            });
            sent.lines().find(|line| line.starts_with("Connection")).map(str::to_owned)
        };
        assert_eq!(connection(HttpVersion::Http11, true), None);
        assert_eq!(connection(HttpVersion::Http11, false).as_deref(), Some("Connection: close"));
        assert_eq!(connection(HttpVersion::Http10, false), None);
        assert_eq!(
            connection(HttpVersion::Http10, true).as_deref(),
            Some("Connection: Keep-Alive")
        );
    }

    #[test]
    fn a_proxy_is_given_the_whole_url() {
        let sent = text(|case| case.http.form = RequestForm::Absolute);
        assert!(sent.starts_with("GET http://127.0.0.1:8080/x?y=1 HTTP/1.1\r\n"), "{sent}");
    }

    #[test]
    fn urls_take_turns_by_weight() {
        let requests = prepared(|case| {
            case.http.urls =
                parse_list("/a 3\nPOST http://127.0.0.1:8080/b # half\n").expect("list");
        });
        let requests = requests.expect("requests");
        let paths: Vec<&str> =
            (0..4).map(|number| requests.next(Ticket { number }).path.as_str()).collect();
        assert_eq!(paths, ["/a", "/a", "/b", "/a"]);
    }

    #[test]
    fn a_bad_list_is_named_by_its_line() {
        for (list, part) in
            [("/a\nb c d", "line 2"), ("/a x", "no weight"), ("# only", "no request")]
        {
            assert!(parse_list(list).is_err_and(|error| error.contains(part)), "{list}");
        }
    }

    #[test]
    fn what_would_break_the_framing_is_refused() {
        for (name, value) in [("a b", "c"), ("", "c"), ("a", "b\r\nc: d")] {
            let result =
                prepared(|case| case.http.headers = vec![(name.to_owned(), value.to_owned())]);
            assert!(result.is_err(), "{name:?}: {value:?}");
        }
        assert!(prepared(|case| case.http.method = "GET /".into()).is_err());
        let elsewhere = UrlEntry { method: None, url: "http://other/".into(), weight: 1 };
        assert!(prepared(|case| case.http.urls = vec![elsewhere]).is_err());
    }
}
