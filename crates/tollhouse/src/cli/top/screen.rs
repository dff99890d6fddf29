//! Terminal as a full screen: the alternate screen, keys one by one, and the former state when it is
//! dropped.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, sync_channel};

use rustix::termios::{self, LocalModes, OptionalActions, Termios};

/// Alternate screen, cursor hidden; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Number of keys that wait to be handled; further ones wait in the terminal.
const KEYS_MAX: usize = 64;

/// Size of a terminal that does not tell its own.
const SIZE_DEFAULT: Size = Size { columns: 100, rows: 30 };

/// Size in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Key with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    /// To the next table.
    Next,
    /// Sort by the next column.
    Sort,
    /// Sort in the other direction.
    Reverse,
    Up,
    Down,
}

/// Full screen. Dropping it gives the terminal back as it was.
pub(super) struct Screen {
    before: Termios,
    keys: Receiver<Key>,
}

impl Screen {
    /// Takes the terminal of standard input and output.
    ///
    /// # Errors
    /// If standard input is not a terminal.
    pub(super) fn open() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        // Ctrl-C arrives as a key, so that the terminal is given back before the end.
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
        let (sender, keys) = sync_channel(KEYS_MAX);
        // The thread ends with the process: reading from a terminal cannot be interrupted.
        std::thread::spawn(move || {
            let bytes = io::stdin().lock().bytes().map_while(Result::ok);
            let mut parser = KeyParser::default();
            for key in bytes.filter_map(|byte| parser.push(byte)) {
                if sender.send(key).is_err() {
                    break;
                }
            }
        });
        let screen = Self { before, keys };
        screen.write(ENTER)?;
        Ok(screen)
    }

    /// Returns the next key that was pressed, if any.
    pub(super) fn key(&self) -> Option<Key> {
        self.keys.try_recv().ok()
    }

    pub(super) fn size(&self) -> Size {
        match termios::tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            _ => SIZE_DEFAULT,
        }
    }

    /// Draws lines from the top, in one write to avoid flicker.
    ///
    /// # Errors
    /// If the terminal is closed.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let mut text = String::from("\x1b[H");
        for (place, line) in lines.iter().enumerate() {
            if place > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        self.write(&text)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A closed terminal has nothing to be given back to.
        let _ = self.write(LEAVE);
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Parser of keys: letters, Tab, Ctrl-C, and the arrows as ANSI sequences.
#[derive(Debug, Default)]
struct KeyParser {
    sequence: Sequence,
}

/// Position within an ANSI sequence.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Sequence {
    #[default]
    None,
    Escape,
    Bracket,
}

impl KeyParser {
    fn push(&mut self, byte: u8) -> Option<Key> {
        let before = std::mem::take(&mut self.sequence);
        match (before, byte) {
            (_, 0x1b) => self.sequence = Sequence::Escape,
            (Sequence::Escape, b'[' | b'O') => self.sequence = Sequence::Bracket,
            (Sequence::Bracket, b'A') => return Some(Key::Up),
            (Sequence::Bracket, b'B') => return Some(Key::Down),
            (Sequence::Escape | Sequence::Bracket, _) => {}
            (Sequence::None, b'q' | 0x03) => return Some(Key::Quit),
            (Sequence::None, b'\t') => return Some(Key::Next),
            (Sequence::None, b's') => return Some(Key::Sort),
            (Sequence::None, b'r') => return Some(Key::Reverse),
            (Sequence::None, b'k') => return Some(Key::Up),
            (Sequence::None, b'j') => return Some(Key::Down),
            (Sequence::None, _) => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_letters_and_sequences() {
        let keys = |bytes: &[u8]| -> Vec<Key> {
            let mut parser = KeyParser::default();
            bytes.iter().filter_map(|byte| parser.push(*byte)).collect()
        };
        assert_eq!(
            keys(b"\ts\x1b[B\x1bOAr"),
            [Key::Next, Key::Sort, Key::Down, Key::Up, Key::Reverse]
        );
        assert_eq!(keys(b"\x1b[Cq\x03x"), [Key::Quit, Key::Quit]);
    }
}
