//! Primitive types of requests and responses.

use crate::response::Malformed;

/// Encoding of Kafka's primitive types, in big-endian order.
pub(crate) trait Put {
    fn put_i8(&mut self, number: i8);
    fn put_i16(&mut self, number: i16);
    fn put_i32(&mut self, number: i32);
    fn put_i64(&mut self, number: i64);
    /// Appends a text of at most 32,767 bytes. A longer one would be truncated; callers never pass
    /// one.
    fn put_text(&mut self, text: &str);
    /// Appends bytes after their 32-bit length.
    fn put_bytes(&mut self, bytes: &[u8]);
    /// Appends a number in zigzag encoding, in groups of seven bits.
    fn put_varint(&mut self, number: i64);
}

impl Put for Vec<u8> {
    fn put_i8(&mut self, number: i8) {
        self.extend_from_slice(&number.to_be_bytes());
    }

    fn put_i16(&mut self, number: i16) {
        self.extend_from_slice(&number.to_be_bytes());
    }

    fn put_i32(&mut self, number: i32) {
        self.extend_from_slice(&number.to_be_bytes());
    }

    fn put_i64(&mut self, number: i64) {
        self.extend_from_slice(&number.to_be_bytes());
    }

    fn put_text(&mut self, text: &str) {
        let length = i16::try_from(text.len()).unwrap_or(i16::MAX);
        self.put_i16(length);
        self.extend_from_slice(&text.as_bytes()[..usize::from(length.unsigned_abs())]);
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_i32(length(bytes.len()));
        self.extend_from_slice(bytes);
    }

    fn put_varint(&mut self, number: i64) {
        let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
        while rest >= 0x80 {
            self.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        self.push(rest.to_le_bytes()[0]);
    }
}

/// Converts a length or count to its type in requests.
///
/// # Panics
///
/// Above two gigabytes, which callers prevent by far lower limits.
pub(crate) fn length(count: usize) -> i32 {
    i32::try_from(count).expect("a request is smaller than 2 GiB")
}

/// Decoder of Kafka's primitive types.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn i8(&mut self) -> Result<i8, Malformed> {
        self.array().map(i8::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    /// Decodes a text; `None` for a null text.
    pub(crate) fn optional_text(&mut self) -> Result<Option<&'a str>, Malformed> {
        let length = match self.i16()? {
            -1 => return Ok(None),
            length => usize::try_from(length).map_err(|_| Malformed::Length(length.into()))?,
        };
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| Malformed::Text)?;
        Ok(Some(text))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        self.optional_text()?.ok_or(Malformed::Length(-1))
    }

    /// Decodes bytes with their length; null becomes empty.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        match self.i32()? {
            -1 => Ok(&[]),
            length => {
                self.take(usize::try_from(length).map_err(|_| Malformed::Length(length.into()))?)
            }
        }
    }

    /// Decodes a list whose items take at least `item_bytes_min` bytes. A declared length that
    /// cannot fit is refused before any allocation.
    pub(crate) fn list<T>(
        &mut self,
        item_bytes_min: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = match self.i32()? {
            -1 => 0,
            count => usize::try_from(count).map_err(|_| Malformed::Length(count.into()))?,
        };
        if count > self.rest.len() / item_bytes_min.max(1) {
            return Err(Malformed::Short);
        }
        (0..count).map(|_| item(self)).collect()
    }

    pub(crate) fn end(self) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Malformed::Long(left)),
        }
    }
}
