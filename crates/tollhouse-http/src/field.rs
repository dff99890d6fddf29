//! Header fields as spans; names that matter to the data plane are recognised once.

use tollhouse_stdx::header_name::is_same_folded;

use crate::Span;
use crate::grammar::FieldLine;

/// Names recognised during parsing, so that later steps compare a byte instead of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Known {
    /// Name without a variant in this list.
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
    Authorization,
    IfMatch,
    IfNoneMatch,
    IfModifiedSince,
    IfUnmodifiedSince,
    IfRange,
    ContentRange,
    Traceparent,
    Tracestate,
    /// A name that only the gateway may use towards a node: identities of consumers, in any
    /// spelling, and alternative spellings of the names that it writes itself. Without effect in a
    /// response.
    Reserved,
    /// Hidden after parsing: named by the message's own `Connection` header (RFC 9110 §7.6.1), or,
    /// in a request, reserved for the gateway.
    Hidden,
}

/// Names that only the gateway may use towards a node, in lower case. Servers that derive variables
/// from names read `X_Real_IP` as `X-Real-IP`, so any byte in place of the dashes counts; the
/// regular spellings have variants of [`Known`]. `http2-settings` is included because the gateway
/// never upgrades to HTTP/2 this way.
const RESERVED: [&[u8]; 10] = [
    b"x-real-ip",
    b"x-forwarded-for",
    b"x-forwarded-proto",
    b"x-forwarded-host",
    b"x-forwarded-port",
    b"content-length",
    b"transfer-encoding",
    b"keep-alive",
    b"proxy-connection",
    b"http2-settings",
];

/// Prefixes of names that identify the consumer. Every such name is reserved, because nodes may
/// read further ones than the gateway writes, and plugins may write more.
const IDENTITY_STARTS: [&[u8]; 2] = [b"x-consumer-", b"x-credential-"];

/// Bit `n` is set if a reserved name has `n` bytes, which excludes most names quickly.
const RESERVED_LENGTHS: u64 = {
    let mut lengths = 0;
    let mut index = 0;
    while index < RESERVED.len() {
        lengths |= 1 << RESERVED[index].len();
        index += 1;
    }
    lengths
};

/// Bit `n` is set if a reserved name begins with the `n`th letter of the alphabet.
const RESERVED_INITIALS: u32 = {
    let mut initials = 0;
    let mut index = 0;
    while index < RESERVED.len() {
        initials |= 1 << letter_number(RESERVED[index][0]);
        index += 1;
    }
    let mut index = 0;
    while index < IDENTITY_STARTS.len() {
        initials |= 1 << letter_number(IDENTITY_STARTS[index][0]);
        index += 1;
    }
    initials
};

/// Returns the position of a letter in the alphabet, regardless of case; any other byte maps to
/// some letter.
#[inline]
const fn letter_number(byte: u8) -> u32 {
    (byte & 0x1f) as u32
}

impl Known {
    /// Recognises `name`, a token, regardless of case.
    #[inline(always)]
    pub fn from_name(name: &[u8]) -> Known {
        let Some(first) = name.first() else { return Known::Other };
        // Length and first letter leave at most one candidate, and cost less than a hash. `| 0x20`
        // folds letters; `folds_to` excludes the other bytes that it maps together.
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
            (10, b't') if folds_to(name, b"tracestate") => Known::Tracestate,
            (11, b't') if folds_to(name, b"traceparent") => Known::Traceparent,
            (12, b'c') if folds_to(name, b"content-type") => Known::ContentType,
            (8, b'i') if folds_to(name, b"if-match") => Known::IfMatch,
            (8, b'i') if folds_to(name, b"if-range") => Known::IfRange,
            (13, b'a') if folds_to(name, b"authorization") => Known::Authorization,
            (13, b'c') if folds_to(name, b"content-range") => Known::ContentRange,
            (13, b'i') if folds_to(name, b"if-none-match") => Known::IfNoneMatch,
            (14, b'c') if folds_to(name, b"content-length") => Known::ContentLength,
            (15, b'x') if folds_to(name, b"x-forwarded-for") => Known::XForwardedFor,
            (16, b'p') if folds_to(name, b"proxy-connection") => Known::ProxyConnection,
            (16, b'x') if folds_to(name, b"x-forwarded-host") => Known::XForwardedHost,
            (16, b'x') if folds_to(name, b"x-forwarded-port") => Known::XForwardedPort,
            (17, b'i') if folds_to(name, b"if-modified-since") => Known::IfModifiedSince,
            (17, b't') if folds_to(name, b"transfer-encoding") => Known::TransferEncoding,
            (17, b'x') if folds_to(name, b"x-forwarded-proto") => Known::XForwardedProto,
            (19, b'i') if folds_to(name, b"if-unmodified-since") => Known::IfUnmodifiedSince,
            _ if is_reserved(name) => Known::Reserved,
            _ => Known::Other,
        }
    }

    /// Whether the field concerns a single connection and is never forwarded.
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
                | Known::Hidden
        )
    }
}

/// Fields that may occur only once in a request, because two could be interpreted differently;
/// nginx's list.
const STAND_ONCE: u64 = bit(Known::Authorization)
    | bit(Known::IfMatch)
    | bit(Known::IfNoneMatch)
    | bit(Known::IfModifiedSince)
    | bit(Known::IfUnmodifiedSince)
    | bit(Known::IfRange)
    | bit(Known::ContentRange);

/// Whether a name without a variant is one of [`RESERVED`], or is read as a reserved name by some
/// servers. Most names are excluded by their first letter.
#[inline(always)]
fn is_reserved(name: &[u8]) -> bool {
    let has_initial =
        name.first().is_some_and(|&first| RESERVED_INITIALS >> letter_number(first) & 1 == 1);
    has_initial && (says_who_asks(name) || is_spelled_as_reserved(name))
}

#[inline]
fn is_spelled_as_reserved(name: &[u8]) -> bool {
    let has_length = name.len() < u64::BITS as usize && RESERVED_LENGTHS >> name.len() & 1 == 1;
    has_length && RESERVED.iter().any(|reserved| is_same_folded(name, reserved))
}

/// Whether `name` has a prefix of [`IDENTITY_STARTS`], or is read so by some servers. Most names
/// are excluded by their first three bytes.
#[inline]
fn says_who_asks(name: &[u8]) -> bool {
    let [b'x' | b'X', separator, b'c' | b'C', ..] = name else { return false };
    let begins =
        |start: &&[u8]| name.get(..start.len()).is_some_and(|begin| is_same_folded(begin, start));
    !separator.is_ascii_alphanumeric() && IDENTITY_STARTS.iter().any(begins)
}

/// Compares `name` with `text`, given in lower case, regardless of case. Setting one bit folds the
/// case; otherwise it maps only CR to `-`, and a head with CR inside a line is refused.
#[inline(always)]
fn folds_to<const BYTES: usize>(name: &[u8], text: &[u8; BYTES]) -> bool {
    let Some(name) = name.first_chunk::<BYTES>() else { return false };
    name.iter().zip(text).fold(0, |difference, (byte, same)| difference | ((byte | 0x20) ^ same))
        == 0
}

/// Position of a header line in the buffer, with its recognised name.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Name of the field, if it has a variant.
    pub known: Known,
    name_bytes: u16,
    value_bytes: u16,
    name_start: u32,
    value_start: u32,
}

impl Field {
    /// Returns the span of the name, which starts the line.
    #[inline]
    pub fn name(&self) -> Span {
        Span { start: self.name_start, len: u32::from(self.name_bytes) }
    }

    /// Returns the span of the value, without surrounding white space.
    #[inline]
    pub fn value(&self) -> Span {
        Span { start: self.value_start, len: u32::from(self.value_bytes) }
    }
}

/// Header lines of one head, in the order received; reused from message to message.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    list: Vec<Field>,
    /// Bit `n` is set if a field with `Known` value `n` is present.
    present: u64,
    /// Bit `n` is set if more than one such field is present.
    repeated: u64,
}

/// Returns the bit that represents `known` in a set of names.
#[inline]
const fn bit(known: Known) -> u64 {
    1 << known as u32
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
        self.note(known);
        self.list.push(Field {
            known,
            name_bytes: line.name_end as u16,
            value_bytes: (line.value_end - line.value_start) as u16,
            name_start: line_start as u32,
            value_start: (line_start + line.value_start) as u32,
        });
    }

    #[inline]
    fn note(&mut self, known: Known) {
        self.repeated |= self.present & bit(known);
        self.present |= bit(known);
    }

    /// Returns all fields in the order received, including hidden ones, for code that copies lines.
    /// Readers use [`Self::visible`].
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.list.iter()
    }

    /// Returns the visible fields, in the order received.
    #[inline]
    pub fn visible(&self) -> impl Iterator<Item = &Field> {
        self.list.iter().filter(|field| field.known != Known::Hidden)
    }

    /// Whether any field was recognised as `known`.
    #[inline]
    pub fn has(&self, known: Known) -> bool {
        self.present & bit(known) != 0
    }

    /// Whether more than one field was recognised as `known`.
    #[inline]
    pub fn is_repeated(&self, known: Known) -> bool {
        self.repeated & bit(known) != 0
    }

    /// Returns the value of the first field recognised as `known`.
    #[inline]
    pub fn first(&self, known: Known) -> Option<Span> {
        if !self.has(known) {
            return None;
        }
        self.list.iter().find(|field| field.known == known).map(Field::value)
    }

    /// Returns the value of the field at `index`, if it was recognised as `known`.
    #[inline]
    pub(crate) fn value_at(&self, index: usize, known: Known) -> Option<Span> {
        self.list.get(index).filter(|field| field.known == known).map(Field::value)
    }

    /// Returns the value of the first visible field with this name, regardless of case.
    pub fn find<'a>(&self, name: &[u8], buffer: &'a [u8]) -> Option<&'a [u8]> {
        self.named(name, buffer).next()
    }

    /// Returns the values of all visible fields with this name, regardless of case, in the order
    /// received.
    #[inline]
    pub fn named<'f, 'a: 'f>(
        &'f self,
        name: &'f [u8],
        buffer: &'a [u8],
    ) -> impl Iterator<Item = &'a [u8]> + 'f {
        let end_of = |name: &[u8]| name.last().copied().unwrap_or_default();
        let (initial, end) = (name.first().copied().unwrap_or_default(), end_of(name));
        // A length of 0 matches no field, because names are not empty.
        let name_bytes = u16::try_from(name.len()).unwrap_or_default();
        // The length excludes nearly all fields, the first and the last letter most of the rest. Most
        // names are spelled alike, which is cheaper to compare than letters regardless of case.
        let is_meant = move |field: &&Field| {
            field.name_bytes == name_bytes && field.known != Known::Hidden && {
                let found = field.name().bytes_in(buffer);
                found.first().is_some_and(|first| (first ^ initial) & !0x20 == 0)
                    && (end_of(found) ^ end) & !0x20 == 0
                    && (found == name || found.eq_ignore_ascii_case(name))
            }
        };
        self.list.iter().filter(is_meant).map(move |field| field.value().bytes_in(buffer))
    }

    /// Returns the number of fields, including hidden ones.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Hides the fields that a `Connection` option names, so that they are not forwarded. Fields
    /// that the gateway itself interprets keep their meaning, so that a client cannot make it drop
    /// them.
    pub(crate) fn mark_connection_option(&mut self, option: &[u8], buffer: &[u8]) {
        for field in &mut self.list {
            let is_end_to_end = matches!(
                field.known,
                Known::Other | Known::Trailer | Known::Traceparent | Known::Tracestate
            ) || STAND_ONCE & bit(field.known) != 0;
            if is_end_to_end && field.name().bytes_in(buffer).eq_ignore_ascii_case(option) {
                field.known = Known::Hidden;
            }
        }
    }

    /// Hides the reserved names of a request, which clients may not send.
    #[inline]
    pub(crate) fn hide_reserved(&mut self) {
        if self.has(Known::Reserved) {
            let reserved = self.list.iter_mut().filter(|field| field.known == Known::Reserved);
            reserved.for_each(|field| field.known = Known::Hidden);
        }
    }

    /// Whether a field that may occur only once in a request is repeated.
    #[inline]
    pub(crate) fn repeats_what_stands_once(&self) -> bool {
        self.repeated & STAND_ONCE != 0
    }

    /// Replaces the value of the first field recognised as `known`.
    pub(crate) fn set_value(&mut self, known: Known, value: Span) {
        if let Some(field) = self.list.iter_mut().find(|field| field.known == known) {
            field.value_start = value.start;
            field.value_bytes = value.len as u16;
        }
    }
}

/// Returns the comma-separated elements of a header value, trimmed; empty elements are skipped.
pub fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}
