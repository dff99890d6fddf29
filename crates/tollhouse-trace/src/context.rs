//! Identity of a span: the ids of its trace and of itself, and the sampling decision.

use tollhouse_stdx::hex::{self, Letters};

/// Id of a trace; never all zeros (W3C Trace Context §3.2.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// Id of a span; never all zeros (W3C Trace Context §3.2.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// Returns the id, unless all bytes are zero.
    #[inline]
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Makes an id of two random numbers. The last bit is set, so that the id is never zero.
    #[inline]
    pub fn from_random(high: u64, low: u64) -> Self {
        Self((u128::from(high) << 64 | u128::from(low | 1)).to_be_bytes())
    }

    /// Parses 32 lower-case hexadecimal digits that are not all zero.
    pub fn parse(text: &[u8]) -> Option<Self> {
        Self::from_bytes(hex::read(text, Letters::Lower)?)
    }

    #[inline]
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    #[inline]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Last eight bytes as a number, by which samplers decide.
    #[inline]
    pub fn low(self) -> u64 {
        u128::from_be_bytes(self.0) as u64
    }

    /// The id as 32 hexadecimal digits.
    pub fn to_hex(self) -> String {
        hex::to_text(&self.0)
    }
}

impl SpanId {
    /// Returns the id, unless all bytes are zero.
    #[inline]
    pub fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// Makes an id of a random number. The last bit is set, so that the id is never zero.
    #[inline]
    pub fn from_random(number: u64) -> Self {
        Self((number | 1).to_be_bytes())
    }

    /// Parses 16 lower-case hexadecimal digits that are not all zero.
    pub fn parse(text: &[u8]) -> Option<Self> {
        Self::from_bytes(hex::read(text, Letters::Lower)?)
    }

    #[inline]
    pub fn bytes(self) -> [u8; 8] {
        self.0
    }

    #[inline]
    pub fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }

    /// The id as 16 hexadecimal digits.
    pub fn to_hex(self) -> String {
        hex::to_text(&self.0)
    }
}

/// Identity of a span with the decision whether its trace is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    pub trace_id: TraceId,
    pub span_id: SpanId,
    pub is_sampled: bool,
}

impl SpanContext {
    /// Starts a trace with new ids.
    pub fn random(random: &mut impl FnMut() -> u64, is_sampled: bool) -> Self {
        let trace_id = TraceId::from_random(random(), random());
        Self { trace_id, span_id: SpanId::from_random(random()), is_sampled }
    }
}
