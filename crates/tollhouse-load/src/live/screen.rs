//! Block of lines redrawn in place with plain ANSI sequences. Without the alternate screen, earlier
//! and later output stays visible.

use std::io::Write;

/// Terminal whose last lines are redrawn in place.
pub(super) struct Screen<W> {
    out: W,
    /// Number of lines of the block now displayed above the cursor.
    shown: usize,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, shown: 0 }
    }

    /// Replaces the displayed block, in one write to avoid flicker.
    pub(super) fn draw(&mut self, lines: &[String]) {
        let mut text = self.to_top();
        for line in lines {
            text.push_str("\x1b[2K");
            text.push_str(line);
            text.push_str("\r\n");
        }
        // Clears the rest of a longer previous block.
        text.push_str("\x1b[J");
        self.shown = lines.len();
        self.write(&text);
    }

    /// Removes the redrawn lines.
    pub(super) fn clear(&mut self) {
        if self.shown > 0 {
            let mut text = self.to_top();
            text.push_str("\x1b[J");
            self.shown = 0;
            self.write(&text);
        }
    }

    /// Prints a line that stays above the redrawn ones.
    pub(super) fn print(&mut self, line: &str) {
        self.clear();
        self.write(&format!("{line}\n"));
    }

    fn to_top(&self) -> String {
        if self.shown == 0 { String::new() } else { format!("\x1b[{}A\r", self.shown) }
    }

    fn write(&mut self, text: &str) {
        // Ignored, because a closed terminal must not stop a measurement.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}
