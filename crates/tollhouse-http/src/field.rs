//! Header fields as spans, with the names that the data plane cares about recognised once.

use crate::Span;
use crate::grammar::FieldLine;

/// Names recognised while parsing, so that later steps compare a byte instead of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the header of that name")]
#[repr(u8)]
pub enum Known {
    /// Any other name.
    Other,
    Host,
    Connection,
    ContentLength,
    TransferEncoding,
    KeepAlive,
    ProxyConnection,
    Te,
    Trailer,
    Upgrade,
    Expect,
    Forwarded,
    XForwardedFor,
    XForwardedProto,
    XForwardedHost,
    XForwardedPort,
    XRealIp,
    Server,
    Date,
    UserAgent,
    Referer,
    Cookie,
    ContentType,
    /// `X-Consumer-Username`, `X-Credential-Identifier` or `X-Consumer-Custom-ID`: what the gateway tells
    /// a node about an authenticated client, and nobody else may.
    ConsumerIdentity,
    /// Named by the message's own `Connection` header (RFC 9110 §7.6.1).
    ConnectionOption,
}

impl Known {
    /// Recognises `name`, a token, whatever its case.
    #[inline]
    pub fn of(name: &[u8]) -> Known {
        let Some(first) = name.first() else { return Known::Other };
        match (name.len(), first | 0x20) {
            (2, b't') if folds_to(name, b"te") => Known::Te,
            (4, b'h') if folds_to(name, b"host") => Known::Host,
            (4, b'd') if folds_to(name, b"date") => Known::Date,
            (6, b's') if folds_to(name, b"server") => Known::Server,
            (6, b'e') if folds_to(name, b"expect") => Known::Expect,
            (6, b'c') if folds_to(name, b"cookie") => Known::Cookie,
            (7, b'u') if folds_to(name, b"upgrade") => Known::Upgrade,
            (7, b't') if folds_to(name, b"trailer") => Known::Trailer,
            (7, b'r') if folds_to(name, b"referer") => Known::Referer,
            (9, b'f') if folds_to(name, b"forwarded") => Known::Forwarded,
            (9, b'x') if folds_to(name, b"x-real-ip") => Known::XRealIp,
            (10, b'c') if folds_to(name, b"connection") => Known::Connection,
            (10, b'k') if folds_to(name, b"keep-alive") => Known::KeepAlive,
            (10, b'u') if folds_to(name, b"user-agent") => Known::UserAgent,
            (12, b'c') if folds_to(name, b"content-type") => Known::ContentType,
            (14, b'c') if folds_to(name, b"content-length") => Known::ContentLength,
            (15, b'x') if folds_to(name, b"x-forwarded-for") => Known::XForwardedFor,
            (16, b'p') if folds_to(name, b"proxy-connection") => Known::ProxyConnection,
            (16, b'x') if folds_to(name, b"x-forwarded-host") => Known::XForwardedHost,
            (16, b'x') if folds_to(name, b"x-forwarded-port") => Known::XForwardedPort,
            (17, b't') if folds_to(name, b"transfer-encoding") => Known::TransferEncoding,
            (17, b'x') if folds_to(name, b"x-forwarded-proto") => Known::XForwardedProto,
            (19, b'x') if folds_to(name, b"x-consumer-username") => Known::ConsumerIdentity,
            (20, b'x') if folds_to(name, b"x-consumer-custom-id") => Known::ConsumerIdentity,
            (23, b'x') if folds_to(name, b"x-credential-identifier") => Known::ConsumerIdentity,
            _ => Known::Other,
        }
    }

    /// Whether it speaks about one connection only and is never forwarded.
    #[inline]
    pub fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Known::Connection
                | Known::KeepAlive
                | Known::ProxyConnection
                | Known::TransferEncoding
                | Known::Te
                | Known::Upgrade
                | Known::ConnectionOption
        )
    }
}

/// Whether `name` is `text`, which is in lower case, but for case. The one bit that is set here
/// tells upper from lower case; but for that, only CR would pass, for `-`, and no head with a CR
/// inside of a line is accepted.
#[inline]
fn folds_to<const BYTES: usize>(name: &[u8], text: &[u8; BYTES]) -> bool {
    let Some(name) = name.first_chunk::<BYTES>() else { return false };
    name.iter().zip(text).fold(0, |difference, (byte, same)| difference | ((byte | 0x20) ^ same))
        == 0
}

/// One header line.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// What the name was recognised as.
    pub known: Known,
    name_bytes: u16,
    value_bytes: u16,
    name_start: u32,
    value_start: u32,
}

impl Field {
    /// The name's span; a line starts with its name.
    #[inline]
    pub fn name(&self) -> Span {
        Span { start: self.name_start, len: u32::from(self.name_bytes) }
    }

    /// The value's span, without surrounding white space.
    #[inline]
    pub fn value(&self) -> Span {
        Span { start: self.value_start, len: u32::from(self.value_bytes) }
    }
}

/// The header lines of one head, in the order received; reused from message to message.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    list: Vec<Field>,
    /// Bit `n` is set when a field with `Known` value `n` is present.
    present: u32,
    /// Bit `n` is set when more than one is.
    repeated: u32,
}

impl Fields {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.present = 0;
        self.repeated = 0;
    }

    /// Adds the header line that starts `line_start` bytes into its head.
    #[inline]
    pub(crate) fn push(&mut self, line: FieldLine, line_start: usize) {
        let known = line.known;
        let bit = 1 << known as u32;
        self.repeated |= self.present & bit;
        self.present |= bit;
        self.list.push(Field {
            known,
            name_bytes: line.name_end as u16,
            value_bytes: (line.value_end - line.value_start) as u16,
            name_start: line_start as u32,
            value_start: (line_start + line.value_start) as u32,
        });
    }

    /// In the order received.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.list.iter()
    }

    /// Whether any field was recognised as `known`.
    #[inline]
    pub fn has(&self, known: Known) -> bool {
        self.present & (1 << known as u32) != 0
    }

    /// Whether more than one field was recognised as `known`.
    #[inline]
    pub fn is_repeated(&self, known: Known) -> bool {
        self.repeated & (1 << known as u32) != 0
    }

    /// The value of the first field recognised as `known`.
    #[inline]
    pub fn first(&self, known: Known) -> Option<Span> {
        if !self.has(known) {
            return None;
        }
        self.list.iter().find(|field| field.known == known).map(Field::value)
    }

    /// The value of the field at `index`, if that was recognised as `known`.
    #[inline]
    pub(crate) fn value_at(&self, index: usize, known: Known) -> Option<Span> {
        self.list.get(index).filter(|field| field.known == known).map(Field::value)
    }

    /// The value of the first field called `name` (any case).
    pub fn find<'a>(&self, name: &[u8], buffer: &'a [u8]) -> Option<&'a [u8]> {
        let matches = |field: &&Field| {
            usize::from(field.name_bytes) == name.len()
                && field.name().of_buffer(buffer).eq_ignore_ascii_case(name)
        };
        self.list.iter().find(matches).map(|field| field.value().of_buffer(buffer))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Marks every field that `Connection` names, so that it is not forwarded. Fields that the
    /// gateway itself acts on keep their meaning: a client cannot talk it into dropping those.
    pub(crate) fn mark_connection_option(&mut self, option: &[u8], buffer: &[u8]) {
        for field in &mut self.list {
            let is_end_to_end = matches!(field.known, Known::Other | Known::Trailer);
            if is_end_to_end && field.name().of_buffer(buffer).eq_ignore_ascii_case(option) {
                field.known = Known::ConnectionOption;
                let bit = 1 << Known::ConnectionOption as u32;
                self.repeated |= self.present & bit;
                self.present |= bit;
            }
        }
    }
}

/// The comma-separated elements of a header value, trimmed; empty elements are skipped.
pub fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}
