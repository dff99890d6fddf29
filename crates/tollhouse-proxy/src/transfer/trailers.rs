//! Trailer lines of a node's response, on their way to a client that asked for them.

use tollhouse_http::trailers::write_last_chunk;
use tollhouse_plugin::HeaderEdits;

/// A trailer section that is sent after the body.
#[derive(Debug, Default)]
pub(crate) struct TrailerLines {
    section: Vec<u8>,
    /// Names that plugins removed from the head; removed from the trailers too.
    hidden: Vec<Box<[u8]>>,
}

impl TrailerLines {
    /// Creates the section for a response whose head has these edits.
    pub(crate) fn new(edits: &HeaderEdits) -> Box<Self> {
        let hidden = edits.hidden_names().map(Box::from).collect();
        Box::new(Self { section: Vec::new(), hidden })
    }

    /// Appends a part of the section as the node sent it, including the final empty line.
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.section.extend_from_slice(part);
    }

    /// Returns the buffer of the trailer lines received so far.
    pub(crate) fn section(&mut self) -> &mut Vec<u8> {
        &mut self.section
    }

    /// Appends the last chunk with the trailers.
    pub(crate) fn write_last_chunk(&mut self, out: &mut Vec<u8>) {
        if !self.hidden.is_empty() {
            let section = std::mem::take(&mut self.section);
            for line in section.split_inclusive(|&byte| byte == b'\n') {
                let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
                if !self.hidden.iter().any(|hidden| hidden.eq_ignore_ascii_case(name)) {
                    self.section.extend_from_slice(line);
                }
            }
        }
        write_last_chunk(out, &self.section);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_plugins_hide_does_not_come_again_behind_the_body() {
        let mut edits = HeaderEdits::default();
        edits.remove("X-Secret");
        edits.set("x-set", b"1");
        let mut trailers = TrailerLines::new(&edits);
        trailers.add(b"grpc-status: 0\r\nx-secret: a\r\n");
        trailers.add(b"X-Set: 2\r\nx-other: b\r\n\r\n");
        let mut out = Vec::new();
        trailers.write_last_chunk(&mut out);
        assert_eq!(out, b"0\r\ngrpc-status: 0\r\nx-other: b\r\n\r\n");
    }
}
