//! A block of lines on a terminal that is written over in place, with plain ANSI sequences: no
//! alternate screen, so that what was printed before and after stays.

use std::io::Write;

/// Where the block is.
pub(super) struct Screen<W> {
    out: W,
    /// Lines of the block on the terminal now, above the cursor.
    shown: usize,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, shown: 0 }
    }

    /// Puts these lines in the place of those shown before, in one write so that nothing flickers.
    pub(super) fn draw(&mut self, lines: &[String]) {
        let mut text = self.to_top();
        for line in lines {
            text.push_str("\x1b[2K");
            text.push_str(line);
            text.push_str("\r\n");
        }
        // What a longer block before has left below.
        text.push_str("\x1b[J");
        self.shown = lines.len();
        self.write(&text);
    }

    /// Takes the block away.
    pub(super) fn clear(&mut self) {
        if self.shown > 0 {
            let mut text = self.to_top();
            text.push_str("\x1b[J");
            self.shown = 0;
            self.write(&text);
        }
    }

    /// Prints a line that stays.
    pub(super) fn print(&mut self, line: &str) {
        self.clear();
        self.write(&format!("{line}\n"));
    }

    fn to_top(&self) -> String {
        if self.shown == 0 { String::new() } else { format!("\x1b[{}A\r", self.shown) }
    }

    fn write(&mut self, text: &str) {
        // Nobody is kept from measuring because a terminal went away.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}
