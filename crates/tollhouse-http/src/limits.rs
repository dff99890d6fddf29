//! Limits of a message head. The bootstrap file sets the values, which the constants bound.

/// Maximum number of header lines that can be configured; keeps a head's list of fields below 4
/// KiB.
pub const HEADER_COUNT_MAX: usize = 256;

/// Maximum length of a head that can be configured, in bytes, so that spans of values fit into 16
/// bits. Higher limits are reduced to this value.
pub const HEAD_BYTES_MAX: usize = 65_535;

/// Maximum length of a chunk's size line in bytes: 16 hex digits and some room for extensions.
pub const CHUNK_LINE_BYTES_MAX: u32 = 256;

/// Maximum length of the trailer section in bytes; trailers carry a checksum or a status, not a
/// document.
pub const TRAILER_BYTES_MAX: u32 = 8 * 1024;

/// Length of CR LF in bytes.
pub(crate) const CRLF_BYTES: usize = 2;

/// Maximum number of empty lines that are skipped before a request line (RFC 9112 §2.2 asks for at
/// least one).
pub const LEADING_EMPTY_LINES_MAX: usize = 4;

/// Maximum number of options in the `Connection` headers of one head. Each is compared with every
/// field, so that without a bound, a head full of commas would cost a million comparisons.
pub const CONNECTION_OPTIONS_MAX: usize = 32;

/// Size limits of one request or response head.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// Maximum length of the request or status line in bytes.
    pub line_bytes: usize,
    /// Maximum length of all header lines in bytes, including the empty line that ends them.
    pub fields_bytes: usize,
    /// Maximum number of header lines.
    pub header_count: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { line_bytes: 8 * 1024, fields_bytes: 32 * 1024, header_count: 100 }
    }
}

impl HeadLimits {
    /// Returns the maximum length of a head in bytes, including the first line and the empty lines
    /// before it.
    pub fn head_bytes(&self) -> usize {
        let line_bytes = (LEADING_EMPTY_LINES_MAX + 1) * CRLF_BYTES + self.line_bytes;
        line_bytes.saturating_add(self.fields_bytes).min(HEAD_BYTES_MAX)
    }
}
