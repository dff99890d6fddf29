//! Colours for terminals. Colour is never the only carrier of meaning: the painted text states the
//! meaning in words.

use std::fmt::Display;

/// Use of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paint {
    /// Text without colours.
    #[default]
    Plain,
    /// Text with ANSI colour sequences.
    Colour,
}

impl Paint {
    /// Chooses the mode for a stream: colours only on a terminal, and not if `NO_COLOR` is nonempty
    /// or the terminal is `dumb`.
    pub fn for_stream(
        stream: &impl std::io::IsTerminal,
        no_color: Option<&str>,
        term: Option<&str>,
    ) -> Self {
        let unwanted = no_color.is_some_and(|value| !value.is_empty()) || term == Some("dumb");
        if stream.is_terminal() && !unwanted { Paint::Colour } else { Paint::Plain }
    }

    pub fn strong(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    pub fn faint(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    pub fn bad(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    pub fn doubtful(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    pub fn good(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    /// Colours a part of a chart.
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
