//! Numbers, texts and lists as they stand in requests and answers.

use crate::answer::Malformed;

/// Appends what requests consist of.
pub(crate) trait Put {
    fn put_i8(&mut self, number: i8);
    fn put_i16(&mut self, number: i16);
    fn put_i32(&mut self, number: i32);
    fn put_i64(&mut self, number: i64);
    /// A text of at most 32,767 bytes; what is longer is cut off, which no caller lets happen.
    fn put_text(&mut self, text: &str);
    /// Bytes with their number, of 32 bits, before them.
    fn put_bytes(&mut self, bytes: &[u8]);
    /// A number in groups of seven bits, small ones of either sign in few.
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

/// A number of bytes or items as requests have it.
///
/// # Panics
/// Beyond two gigabytes, which bounds of callers keep far away.
pub(crate) fn length(count: usize) -> i32 {
    i32::try_from(count).expect("a request is smaller than 2 GiB")
}

/// Reads what answers consist of, from the front.
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

    /// A text; `None` where the broker says that there is none.
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

    /// Bytes; none are as good as an empty piece.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        match self.i32()? {
            -1 => Ok(&[]),
            length => {
                self.take(usize::try_from(length).map_err(|_| Malformed::Length(length.into()))?)
            }
        }
    }

    /// A list whose items take `item_bytes_min` bytes at least: one that could not fit is refused before anything is
    /// made room for.
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

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Malformed::Long(left)),
        }
    }
}
