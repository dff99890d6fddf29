//! Colour on terminals that want it. Never the only carrier of a meaning: whatever is painted says the
//! same in words.

use std::fmt::Display;

/// Whether text is painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paint {
    /// As it is.
    #[default]
    Plain,
    /// With ANSI sequences.
    Colour,
}

impl Paint {
    /// For a stream: only a terminal is painted, and none of a user who set `NO_COLOR` to anything, or
    /// whose terminal is `dumb`.
    pub fn for_stream(
        stream: &impl std::io::IsTerminal,
        no_color: Option<&str>,
        term: Option<&str>,
    ) -> Self {
        let unwanted = no_color.is_some_and(|value| !value.is_empty()) || term == Some("dumb");
        if stream.is_terminal() && !unwanted { Paint::Colour } else { Paint::Plain }
    }

    /// What matters most.
    pub fn strong(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    /// What may be overlooked.
    pub fn faint(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    /// What went wrong.
    pub fn bad(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    /// What needs a second look.
    pub fn doubtful(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    /// What is as it should be.
    pub fn good(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    /// A bar or a line of a picture.
    pub fn drawn(self, text: impl Display) -> String {
        self.wrap("36", text)
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        match self {
            Paint::Plain => text.to_string(),
            Paint::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}
