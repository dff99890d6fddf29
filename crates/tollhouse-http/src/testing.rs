//! Helpers of this crate's tests: a head's properties as one readable line, and feeding bytes in
//! every possible split.

use crate::{
    BodyLength, Expectation, Fields, HeadError, HeadLimits, RequestHead, ResponseHead, Span,
    Version,
};

/// Outcome of a head: `None` while incomplete, else its properties.
pub(crate) type Outcome = Result<Option<String>, HeadError>;

/// A parser of one head, fed with a growing buffer.
pub(crate) trait Feed {
    fn feed(&mut self, buffer: &[u8]) -> Outcome;
}

/// Parser of requests under test.
#[derive(Default)]
pub(crate) struct RequestFeed {
    pub(crate) head: RequestHead,
    pub(crate) limits: HeadLimits,
}

impl Feed for RequestFeed {
    fn feed(&mut self, buffer: &[u8]) -> Outcome {
        let is_whole = self.head.parse(buffer, &self.limits)?;
        Ok(is_whole.then(|| request_facts(&self.head, buffer)))
    }
}

/// Parses responses to `method` within `limits`.
pub(crate) struct ResponseFeed {
    pub(crate) head: ResponseHead,
    pub(crate) limits: HeadLimits,
    pub(crate) method: &'static str,
}

impl Feed for ResponseFeed {
    fn feed(&mut self, buffer: &[u8]) -> Outcome {
        let is_whole = self.head.parse(buffer, &self.limits, self.method.as_bytes())?;
        Ok(is_whole.then(|| response_facts(&self.head, buffer)))
    }
}

fn text(span: Span, buffer: &[u8]) -> String {
    span.bytes_in(buffer).escape_ascii().to_string()
}

fn version(version: Version) -> &'static str {
    match version {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
    }
}

/// Formats a body length: `-`, a number, `chunked` or `close`.
pub(crate) fn body(body: BodyLength) -> String {
    match body {
        BodyLength::None => "-".to_owned(),
        BodyLength::Known(bytes) => bytes.to_string(),
        BodyLength::Chunked => "chunked".to_owned(),
        BodyLength::UntilClose => "close".to_owned(),
    }
}

/// Formats fields as `name=value`; names that are not forwarded are in brackets.
fn fields(fields: &Fields, buffer: &[u8]) -> String {
    let one = |field: &crate::Field| {
        let (name, value) = (text(field.name(), buffer), text(field.value(), buffer));
        if field.known.is_hop_by_hop() {
            format!(" [{name}]={value}")
        } else {
            format!(" {name}={value}")
        }
    };
    fields.iter().map(one).collect()
}

/// Formats a request head: `METHOD target version @authority body flags | fields`.
pub(crate) fn request_facts(head: &RequestHead, buffer: &[u8]) -> String {
    let host = &head.authority.bytes_in(buffer)[..head.host_bytes as usize];
    let port = &head.authority.bytes_in(buffer)[head.host_bytes as usize..];
    let mut facts = format!(
        "{} {} {} @{}{} {}",
        text(head.method, buffer),
        text(head.target, buffer),
        version(head.version),
        host.escape_ascii(),
        port.escape_ascii(),
        body(head.body),
    );
    for (flag, is_set) in [
        (" keep", head.keep_alive),
        (" upgrade", head.upgrade),
        (" continue", head.expectation == Expectation::Continue),
    ] {
        facts += if is_set { flag } else { "" };
    }
    facts + " |" + &fields(&head.fields, buffer)
}

/// Formats a response head: `version status reason body declared flags | fields`.
fn response_facts(head: &ResponseHead, buffer: &[u8]) -> String {
    let mut facts = format!(
        "{} {} '{}' {}",
        version(head.version),
        head.status,
        text(head.reason, buffer),
        body(head.body)
    );
    if let Some(bytes) = head.declared_length {
        facts += &format!(" declared={bytes}");
    }
    facts += if head.keep_alive { " keep" } else { "" };
    facts += if head.is_interim() { " interim" } else { "" };
    facts + " |" + &fields(&head.fields, buffer)
}

/// Feeds `bytes` whole, cut in two at every position, and byte by byte, each time to a new parser,
/// and asserts that all outcomes are equal. Accepted heads are also fed with bytes of a next
/// message behind them.
pub(crate) fn feed_in_every_split<F: Feed>(bytes: &[u8], new: impl Fn() -> F) -> Outcome {
    let whole = new().feed(bytes);
    for cut in 0..bytes.len() {
        assert_eq!(feed_at_cuts(bytes, &[cut], &new), whole, "cut at {cut}: {}", printable(bytes));
    }
    let every: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(feed_at_cuts(bytes, &every, &new), whole, "byte by byte: {}", printable(bytes));
    if matches!(whole, Ok(Some(_))) {
        for rest in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\n", b"\0\xff\r\r"] {
            let longer = [bytes, rest].concat();
            assert_eq!(new().feed(&longer), whole, "with {} behind", printable(rest));
        }
    }
    whole
}

/// Feeds the bytes up to each cut in turn, and then all, until there is an outcome.
pub(crate) fn feed_at_cuts<F: Feed>(bytes: &[u8], cuts: &[usize], new: &impl Fn() -> F) -> Outcome {
    let mut feed = new();
    for &cut in cuts {
        match feed.feed(&bytes[..cut]) {
            Ok(None) => {}
            outcome => return outcome,
        }
    }
    feed.feed(bytes)
}

pub(crate) fn printable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
