//! Fields of a head or trailers, in two buffers reused for all messages of a connection.

/// Fields of the latest message, without pseudo-header fields; filled only if the exchange wants
/// them. The codec limits their size.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Fields {
    bytes: Vec<u8>,
    /// End of each name and value in `bytes`.
    ends: Vec<(usize, usize)>,
}

impl Fields {
    /// Returns the value of the first field with this lower-case name.
    pub(in crate::protocol) fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
    }

    /// Iterates over names and values in order.
    pub(in crate::protocol) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(name_end, value_end)| {
            let name = &self.bytes[start..name_end];
            start = value_end;
            (name, &self.bytes[name_end..value_end])
        })
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len()));
    }
}

#[cfg(test)]
pub(in crate::protocol) mod testing {
    use super::Fields;

    /// Fields as a message has them.
    pub(in crate::protocol) fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::testing::fields;

    #[test]
    fn fields_are_found_by_name_the_first_of_several() {
        let fields = fields(&[("a", "1"), ("empty", ""), ("a", "2")]);
        assert_eq!(fields.get("a"), Some(&b"1"[..]));
        assert_eq!(fields.get("empty"), Some(&b""[..]));
        assert_eq!(fields.get("b"), None);
        assert_eq!(fields.iter().count(), 3);
    }
}
