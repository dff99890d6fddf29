//! Splitting of a message into fields, without interpreting them.
//!
//! Errors are limited to what the format makes undecodable: wrong lengths, numbers of more than 64
//! bits, and groups, which the protocol never uses and whose end is uncertain.

use thiserror::Error;

/// Reason for which bytes cannot be decoded as a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end within a field.
    #[error("the message ends inside of a field")]
    Truncated,
    /// A number does not fit into 64 bits.
    #[error("a number is longer than 64 bits")]
    NumberTooLong,
    /// A field number is not in the range 1 to 2^29 - 1.
    #[error("a field has a number that no field can have")]
    FieldNumber,
    /// The wire type is a group or undefined.
    #[error("a field has wire type {0}, which is not in use")]
    WireType(u8),
    #[error("a string is not UTF-8")]
    NotUtf8,
}

/// Value of a field by wire type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number, a boolean or an enum.
    Varint(u64),
    Fixed64(u64),
    /// A string, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Value<'a> {
    /// Returns the bytes of a length-delimited field.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Varint(_) | Self::Fixed64(_) | Self::Fixed32(_) => None,
        }
    }

    /// Returns the number of a varint field.
    pub fn varint(self) -> Option<u64> {
        match self {
            Self::Varint(number) => Some(number),
            Self::Bytes(_) | Self::Fixed64(_) | Self::Fixed32(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Number of the field in the schema.
    pub number: u32,
    pub value: Value<'a>,
    /// Offset of the field's first byte in the message.
    pub start: usize,
    /// Offset after the field's last byte.
    pub end: usize,
}

/// Iterator over the fields of a message in encoded order; ends after the first error.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    message: &'a [u8],
    position: usize,
}

/// Number of bits of a tag for the wire type.
const WIRE_TYPE_BITS: u32 = 3;
/// Maximum field number: 29 bits of a tag.
const FIELD_NUMBER_MAX: u64 = (1 << 29) - 1;
/// Maximum length of a varint: 64 bits in groups of 7.
const VARINT_BYTES_MAX: usize = 10;

impl<'a> Fields<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Self { message, position: 0 }
    }

    fn read(&mut self) -> Result<Field<'a>, WireError> {
        let start = self.position;
        let tag = self.read_varint()?;
        let number = tag >> WIRE_TYPE_BITS;
        if number == 0 || number > FIELD_NUMBER_MAX {
            return Err(WireError::FieldNumber);
        }
        let value = match tag & 0b111 {
            0 => Value::Varint(self.read_varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.read_array()?)),
            2 => {
                let length = self.read_varint()?;
                let length = usize::try_from(length).map_err(|_| WireError::Truncated)?;
                Value::Bytes(self.read_slice(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.read_array()?)),
            unused => return Err(WireError::WireType(unused as u8)),
        };
        Ok(Field { number: number as u32, value, start, end: self.position })
    }

    fn read_varint(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for index in 0..VARINT_BYTES_MAX {
            let byte = *self.message.get(self.position).ok_or(WireError::Truncated)?;
            self.position += 1;
            // The tenth byte has room for the 64th bit only.
            if index == VARINT_BYTES_MAX - 1 && byte > 1 {
                return Err(WireError::NumberTooLong);
            }
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(WireError::NumberTooLong)
    }

    fn read_slice(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let end = self.position.checked_add(length).ok_or(WireError::Truncated)?;
        let slice = self.message.get(self.position..end).ok_or(WireError::Truncated)?;
        self.position = end;
        Ok(slice)
    }

    fn read_array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let slice = self.read_slice(N)?;
        slice.try_into().map_err(|_| WireError::Truncated)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.message.len() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.position = self.message.len();
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(message: &[u8]) -> Result<Vec<(u32, Value<'_>)>, WireError> {
        Fields::new(message).map(|field| field.map(|field| (field.number, field.value))).collect()
    }

    #[test]
    fn fields_are_read_in_order_with_their_place() {
        let message = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 0, 0, 0];
        let fields: Vec<Field<'_>> = Fields::new(&message).map(Result::unwrap).collect();
        assert_eq!(
            fields,
            [
                Field { number: 1, value: Value::Varint(150), start: 0, end: 3 },
                Field { number: 2, value: Value::Bytes(b"hi"), start: 3, end: 7 },
                Field { number: 3, value: Value::Fixed32(1), start: 7, end: 12 },
            ]
        );
    }

    #[test]
    fn bytes_that_are_no_message_are_told_apart() {
        let cases: [(&[u8], WireError); 14] = [
            (&[0x08], WireError::Truncated),
            (&[0x80], WireError::Truncated),
            (&[0x08, 0x80], WireError::Truncated),
            (&[0x12, 0x05, b'h', b'i'], WireError::Truncated),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f], WireError::Truncated),
            (
                &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
                WireError::Truncated,
            ),
            (&[0x0d, 1, 2, 3], WireError::Truncated),
            (&[0x09, 1, 2, 3, 4, 5, 6, 7], WireError::Truncated),
            (
                &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
                WireError::NumberTooLong,
            ),
            (
                &[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0],
                WireError::NumberTooLong,
            ),
            (&[0x00, 0x01], WireError::FieldNumber),
            (&[0x80, 0x80, 0x80, 0x80, 0x10, 0], WireError::FieldNumber),
            (&[0x0b, 0x0c], WireError::WireType(3)),
            (&[0x0e], WireError::WireType(6)),
        ];
        for (message, expected) in cases {
            assert_eq!(scan(message), Err(expected), "{message:x?}");
        }
    }

    #[test]
    fn the_largest_number_fits() {
        let message = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(scan(&message), Ok(vec![(1, Value::Varint(u64::MAX))]));
    }

    #[test]
    fn nothing_is_read_after_an_error() {
        let mut fields = Fields::new(&[0x0b, 0x08, 0x01]);
        assert_eq!(fields.next(), Some(Err(WireError::WireType(3))));
        assert_eq!(fields.next(), None);
    }
}
