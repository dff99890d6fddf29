//! Rules for messages (RFC 9113 §8, RFC 8441 §4). A head is checked field by field while it is
//! decoded, and again once it is complete.

use crate::field::{Field, FieldKind, Malformed, content_length, status};
use crate::frame::flag;
use crate::hpack::FIELD_OVERHEAD_BYTES;
use crate::{Limits, Priority};
use tollhouse_http::authority;

/// The part of a message that a header block contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// Head of a request.
    Request,
    /// The head of a response, possibly an interim one.
    Response,
    /// Trailer fields, after the body.
    Trailers,
}

/// Methods with special rules for bodies or targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Method {
    #[default]
    Other,
    Head,
    Connect,
    Options,
}

impl Method {
    pub(crate) fn from_name(name: &[u8]) -> Self {
        match name {
            b"HEAD" => Self::Head,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            _ => Self::Other,
        }
    }
}

/// State of the check of the current head; one per connection, reused.
#[derive(Default)]
pub(crate) struct HeadCheck {
    kind: Option<HeadKind>,
    takes_connect_protocol: bool,
    /// Bits for the pseudo-header fields that were received.
    pseudo: u32,
    has_regular: bool,
    fault: Option<Malformed>,
    fields: u32,
    crumbs: u32,
    list_bytes: usize,
    is_path_asterisk: bool,
    default_port: &'static [u8],
    authority: Vec<u8>,
    has_host: bool,
    pub(crate) method: Method,
    pub(crate) status: u16,
    pub(crate) content_length: Option<u64>,
    pub(crate) priority: Option<Priority>,
}

const fn bit(kind: FieldKind) -> u32 {
    1 << kind as u32
}

const REQUEST_FIELDS: u32 = bit(FieldKind::Method)
    | bit(FieldKind::Scheme)
    | bit(FieldKind::Authority)
    | bit(FieldKind::Path)
    | bit(FieldKind::Protocol);

/// Fields required in every request except a plain CONNECT.
const REQUEST_LINE: u32 = bit(FieldKind::Method) | bit(FieldKind::Scheme) | bit(FieldKind::Path);
/// All fields of a plain CONNECT.
const CONNECT_LINE: u32 = bit(FieldKind::Method) | bit(FieldKind::Authority);

impl HeadCheck {
    pub(crate) fn begin(&mut self, kind: HeadKind, limits: &Limits) {
        let mut authority = std::mem::take(&mut self.authority);
        authority.clear();
        *self = Self {
            kind: Some(kind),
            takes_connect_protocol: limits.connect_protocol,
            authority,
            ..Self::default()
        };
    }

    /// Checks the next field; `true` if it may be handed out.
    #[inline]
    pub(crate) fn admit(&mut self, field: &Field<'_>, limits: &Limits) -> bool {
        self.list_bytes += field.name.len() + field.value.len() + FIELD_OVERHEAD_BYTES;
        if field.kind == FieldKind::Cookie {
            self.crumbs += 1;
        } else {
            self.fields += 1;
        }
        if self.list_bytes > limits.header_list_bytes as usize
            || self.fields > limits.header_fields
            || self.crumbs > limits.cookie_crumbs
        {
            self.fault = Some(Malformed::TooLarge);
        }
        if self.fault.is_some() {
            return false;
        }
        if let Err(fault) = self.examine(field) {
            self.fault = Some(fault);
            return false;
        }
        true
    }

    #[inline]
    fn examine(&mut self, field: &Field<'_>) -> Result<(), Malformed> {
        if field.kind.is_pseudo() {
            return self.examine_pseudo(field);
        }
        self.has_regular = true;
        match field.kind {
            FieldKind::Regular | FieldKind::Cookie => Ok(()),
            FieldKind::Priority => {
                self.priority = Some(Priority::parse(field.value));
                Ok(())
            }
            FieldKind::ContentLength if self.content_length.is_some() => {
                Err(Malformed::ContentLength)
            }
            FieldKind::ContentLength => {
                self.content_length = Some(content_length(field.value)?);
                Ok(())
            }
            FieldKind::Host => self.examine_host(field.value),
            _ => Err(malformed(field)),
        }
    }

    fn examine_pseudo(&mut self, field: &Field<'_>) -> Result<(), Malformed> {
        let bit = bit(field.kind);
        if self.has_regular || self.pseudo & bit != 0 || self.kind == Some(HeadKind::Trailers) {
            return Err(Malformed::MisplacedPseudo);
        }
        let is_of_request = REQUEST_FIELDS & bit != 0;
        if is_of_request != (self.kind == Some(HeadKind::Request)) {
            return Err(Malformed::UnknownPseudo);
        }
        self.pseudo |= bit;
        match field.kind {
            FieldKind::Method => self.method = Method::from_name(field.value),
            FieldKind::Scheme => {
                self.default_port = match field.value {
                    b"http" => b"80",
                    b"https" => b"443",
                    _ => b"",
                };
            }
            FieldKind::Path => self.is_path_asterisk = field.value == b"*",
            FieldKind::Authority => self.authority.extend_from_slice(field.value),
            FieldKind::Status => self.status = status(field.value).unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }

    /// Checks that there is only one host and that it matches `:authority`. An explicit default
    /// port makes no difference.
    fn examine_host(&mut self, host: &[u8]) -> Result<(), Malformed> {
        if self.kind != Some(HeadKind::Request) {
            return Ok(());
        }
        if self.has_host {
            return Err(Malformed::Host);
        }
        self.has_host = true;
        if self.pseudo & bit(FieldKind::Authority) == 0 || host == self.authority {
            return Ok(());
        }
        let is_same = is_same_authority(host, &self.authority, self.default_port);
        if is_same { Ok(()) } else { Err(Malformed::Host) }
    }

    /// Checks the complete head; `ends` tells whether the message ends with it.
    pub(crate) fn finish(&self, ends: EndStream) -> Result<(), Malformed> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        match self.kind {
            Some(HeadKind::Request) => self.finish_request(),
            Some(HeadKind::Response) => self.finish_response(ends),
            Some(HeadKind::Trailers) | None => match ends {
                EndStream::Yes => Ok(()),
                EndStream::No => Err(Malformed::Sequence),
            },
        }
    }

    fn finish_request(&self) -> Result<(), Malformed> {
        let has_protocol = self.pseudo & bit(FieldKind::Protocol) != 0;
        let is_connect = self.method == Method::Connect;
        if has_protocol && !(is_connect && self.takes_connect_protocol) {
            return Err(Malformed::UnknownPseudo);
        }
        if is_connect && !has_protocol {
            let is_good = self.pseudo == CONNECT_LINE;
            return if is_good { Ok(()) } else { Err(Malformed::MissingPseudo) };
        }
        if self.pseudo & REQUEST_LINE != REQUEST_LINE {
            return Err(Malformed::MissingPseudo);
        }
        if self.pseudo & bit(FieldKind::Authority) == 0 && (has_protocol || !self.has_host) {
            return Err(Malformed::MissingPseudo);
        }
        if self.is_path_asterisk && self.method != Method::Options {
            return Err(Malformed::PseudoValue);
        }
        Ok(())
    }

    fn finish_response(&self, ends: EndStream) -> Result<(), Malformed> {
        match self.status {
            0 => Err(Malformed::MissingPseudo),
            101 => Err(Malformed::PseudoValue),
            100..=199 if ends == EndStream::Yes => Err(Malformed::Sequence),
            _ => Ok(()),
        }
    }

    /// Whether this is the head of an interim response.
    pub(crate) fn is_interim(&self) -> bool {
        self.kind == Some(HeadKind::Response) && self.status < 200
    }
}

/// The END_STREAM flag of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndStream {
    /// The frame ends its message.
    Yes,
    /// DATA or trailers follow.
    No,
}

impl EndStream {
    /// Returns the bit in the flags of HEADERS and DATA.
    pub(crate) fn flag(self) -> u8 {
        match self {
            Self::Yes => flag::END_STREAM,
            Self::No => 0,
        }
    }
}

impl From<bool> for EndStream {
    fn from(ends: bool) -> Self {
        if ends { Self::Yes } else { Self::No }
    }
}

/// Returns the reason why a field that is marked as malformed in a table is wrong.
#[cold]
fn malformed(field: &Field<'_>) -> Malformed {
    crate::field::examine(field.name, field.value).err().unwrap_or(Malformed::Name)
}

/// Whether two authorities name the same host and port; an absent port counts as `default_port`.
fn is_same_authority(one: &[u8], other: &[u8], default_port: &[u8]) -> bool {
    let parts = |text: &[u8]| {
        let (host, port) = authority::split(text)?;
        let host = host.bytes_in(text).to_ascii_lowercase();
        let port = port.map_or(&b""[..], |port| port.bytes_in(text));
        let port = if port.is_empty() { default_port } else { port };
        Some((host, port.to_vec()))
    };
    parts(one).is_some_and(|one| Some(one) == parts(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::classify;

    /// Checks a head given as `name: value` lines.
    fn check(kind: HeadKind, lines: &str, ends: EndStream) -> Result<(), Malformed> {
        let limits = Limits { connect_protocol: true, ..Limits::default() };
        let mut check = HeadCheck::default();
        check.begin(kind, &limits);
        for line in lines.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            let (name, value) = (name.as_bytes(), value.as_bytes());
            let kind = classify(name, value);
            check.admit(&Field { name, value, kind, is_sensitive: false }, &limits);
        }
        check.finish(ends)
    }

    const GET: &str = ":method: GET\n:scheme: https\n:path: /\n:authority: a";

    #[test]
    fn requests_are_accepted_or_malformed() {
        for (lines, expected) in [
            (GET.to_owned(), Ok(())),
            (format!("{GET}\nhost: a"), Ok(())),
            (format!("{GET}\nhost: A:443"), Ok(())),
            (format!("{GET}\nhost: a:"), Ok(())),
            (format!("{GET}\nhost: a:80"), Err(Malformed::Host)),
            (format!("{GET}\nhost: b"), Err(Malformed::Host)),
            (format!("{GET}\nhost: a\nhost: a"), Err(Malformed::Host)),
            (GET.replace(":authority", "host"), Ok(())),
            (GET.replace("\n:authority: a", ""), Err(Malformed::MissingPseudo)),
            (GET.replace(":path: /\n", ""), Err(Malformed::MissingPseudo)),
            (GET.replace(":method: GET\n", ""), Err(Malformed::MissingPseudo)),
            (GET.replace(":scheme: https\n", ""), Err(Malformed::MissingPseudo)),
            (GET.replace(":path: /", ":path: *"), Err(Malformed::PseudoValue)),
            (GET.replace(":path: /", ":path: *").replace("GET", "OPTIONS"), Ok(())),
            (format!("{GET}\n:path: /b"), Err(Malformed::MisplacedPseudo)),
            (format!("a: b\n{GET}"), Err(Malformed::MisplacedPseudo)),
            (format!("{GET}\n:status: 200"), Err(Malformed::UnknownPseudo)),
            (format!("{GET}\n:foo: x"), Err(Malformed::UnknownPseudo)),
            (format!("{GET}\n:protocol: websocket"), Err(Malformed::UnknownPseudo)),
            (format!("{GET}\n:protocol: websocket").replace("GET", "CONNECT"), Ok(())),
            (":method: CONNECT\n:authority: a:1".to_owned(), Ok(())),
            (GET.replace("GET", "CONNECT"), Err(Malformed::MissingPseudo)),
            (":method: CONNECT".to_owned(), Err(Malformed::MissingPseudo)),
            (format!("{GET}\ncontent-length: 5"), Ok(())),
            (format!("{GET}\ncontent-length: 5\ncontent-length: 5"), Err(Malformed::ContentLength)),
            (format!("{GET}\nconnection: close"), Err(Malformed::ConnectionSpecific)),
        ] {
            assert_eq!(check(HeadKind::Request, &lines, EndStream::Yes), expected, "{lines}");
        }
    }

    #[test]
    fn responses_are_accepted_or_malformed() {
        for (lines, ends, expected) in [
            (":status: 200", EndStream::Yes, Ok(())),
            (":status: 200", EndStream::No, Ok(())),
            (":status: 100", EndStream::No, Ok(())),
            (":status: 100", EndStream::Yes, Err(Malformed::Sequence)),
            (":status: 101", EndStream::No, Err(Malformed::PseudoValue)),
            (":status: 20", EndStream::No, Err(Malformed::PseudoValue)),
            ("a: b", EndStream::No, Err(Malformed::MissingPseudo)),
            (":status: 200\n:status: 200", EndStream::No, Err(Malformed::MisplacedPseudo)),
            (":status: 200\n:path: /", EndStream::No, Err(Malformed::UnknownPseudo)),
        ] {
            assert_eq!(check(HeadKind::Response, lines, ends), expected, "{lines}");
        }
    }

    #[test]
    fn trailers_end_a_message_and_have_no_pseudo_fields() {
        assert_eq!(check(HeadKind::Trailers, "a: b", EndStream::Yes), Ok(()));
        assert_eq!(check(HeadKind::Trailers, "a: b", EndStream::No), Err(Malformed::Sequence));
        let outcome = check(HeadKind::Trailers, ":path: /", EndStream::Yes);
        assert_eq!(outcome, Err(Malformed::MisplacedPseudo));
    }

    #[test]
    fn honest_crumbs_pass_and_floods_do_not() {
        let crumbs = |count: usize, bytes: usize| {
            format!("{GET}{}", format!("\ncookie: {}", "c".repeat(bytes)).repeat(count))
        };
        assert_eq!(check(HeadKind::Request, &crumbs(150, 80), EndStream::Yes), Ok(()));
        let too_large = Err(Malformed::TooLarge);
        assert_eq!(check(HeadKind::Request, &crumbs(1001, 1), EndStream::Yes), too_large);
        assert_eq!(check(HeadKind::Request, &crumbs(20, 4000), EndStream::Yes), too_large);
        let fields = format!("{GET}{}", "\na: b".repeat(197));
        assert_eq!(check(HeadKind::Request, &fields, EndStream::Yes), too_large);
    }
}
