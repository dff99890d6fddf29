//! Encoder of JSON to Hessian 2.

use serde_json::{Map, Number, Value};

/// Maximum length of a string chunk in UTF-16 units.
const PIECE_UNITS: usize = 0x8000;

/// Encoder that appends values to a buffer.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub fn null(&mut self) {
        self.out.push(b'N');
    }

    pub fn text(&mut self, text: &str) {
        let units: Vec<u16> = text.encode_utf16().collect();
        let mut rest = units.as_slice();
        while rest.len() > PIECE_UNITS {
            // A surrogate pair is never split, so that each chunk is valid text.
            let is_split = (0xd800..0xdc00).contains(&rest[PIECE_UNITS - 1]);
            let (piece, behind) = rest.split_at(PIECE_UNITS - usize::from(is_split));
            self.out.push(b'R');
            self.out.extend_from_slice(&(piece.len() as u16).to_be_bytes());
            self.units(piece);
            rest = behind;
        }
        match rest.len() {
            length @ 0..=31 => self.out.push(length as u8),
            length @ 32..=1023 => {
                self.out.extend_from_slice(&[0x30 + (length >> 8) as u8, (length & 0xff) as u8]);
            }
            length => {
                self.out.push(b'S');
                self.out.extend_from_slice(&(length as u16).to_be_bytes());
            }
        }
        self.units(rest);
    }

    fn units(&mut self, units: &[u16]) {
        for &unit in units {
            match unit {
                0..0x80 => self.out.push(unit as u8),
                0x80..0x800 => {
                    self.out
                        .extend_from_slice(&[0xc0 | (unit >> 6) as u8, 0x80 | (unit & 0x3f) as u8]);
                }
                _ => self.out.extend_from_slice(&[
                    0xe0 | (unit >> 12) as u8,
                    0x80 | (unit >> 6 & 0x3f) as u8,
                    0x80 | (unit & 0x3f) as u8,
                ]),
            }
        }
    }

    /// Encodes a whole number: as Java's `int` if it fits, otherwise as `long`.
    pub fn integer(&mut self, number: i64) {
        let bytes = number.to_be_bytes();
        match number {
            -0x10..=0x2f => self.out.push((0x90 + number) as u8),
            -0x800..=0x7ff => self.out.extend_from_slice(&[(0xc8 + (number >> 8)) as u8, bytes[7]]),
            -0x4_0000..=0x3_ffff => {
                self.out.extend_from_slice(&[(0xd4 + (number >> 16)) as u8, bytes[6], bytes[7]]);
            }
            -0x8000_0000..=0x7fff_ffff => {
                self.out.push(b'I');
                self.out.extend_from_slice(&bytes[4..]);
            }
            _ => {
                self.out.push(b'L');
                self.out.extend_from_slice(&bytes);
            }
        }
    }

    fn number(&mut self, number: &Number) {
        match number.as_i64() {
            Some(whole) => self.integer(whole),
            None => {
                self.out.push(b'D');
                let number = number.as_f64().unwrap_or(f64::NAN);
                self.out.extend_from_slice(&number.to_bits().to_be_bytes());
            }
        }
    }

    /// Encodes strings as Java's `String[]`.
    pub fn texts(&mut self, texts: &[&str]) {
        self.typed_list("[string", texts.len());
        texts.iter().for_each(|text| self.text(text));
    }

    /// Encodes values as Java's `Object[]`.
    pub fn objects(&mut self, values: &[Value]) {
        self.typed_list("[object", values.len());
        values.iter().for_each(|value| self.value(value));
    }

    fn typed_list(&mut self, type_name: &str, length: usize) {
        self.out.push(b'V');
        self.text(type_name);
        self.integer(length as i64);
    }

    /// Encodes a map from strings to strings.
    pub fn text_map<'t>(&mut self, entries: impl IntoIterator<Item = (&'t str, &'t str)>) {
        self.out.push(b'H');
        for (key, value) in entries {
            self.text(key);
            self.text(value);
        }
        self.out.push(b'Z');
    }

    fn map(&mut self, members: &Map<String, Value>) {
        self.out.push(b'H');
        for (key, value) in members {
            self.text(key);
            self.value(value);
        }
        self.out.push(b'Z');
    }

    /// Encodes JSON. Arrays and objects become Java's `ArrayList` and `HashMap`.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.null(),
            Value::Bool(true) => self.out.push(b'T'),
            Value::Bool(false) => self.out.push(b'F'),
            Value::Number(number) => self.number(number),
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                match items.len() {
                    length @ 0..=7 => self.out.push(0x78 + length as u8),
                    length => {
                        self.out.push(b'X');
                        self.integer(length as i64);
                    }
                }
                items.iter().for_each(|item| self.value(item));
            }
            Value::Object(members) => self.map(members),
        }
    }
}
