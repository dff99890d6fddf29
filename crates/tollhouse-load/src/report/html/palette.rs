//! The colours of subjects: the same one everywhere on the page, in the order in which they appear.

/// The classes that the style sheet knows. They stay apart for the colour-blind, on white and on black.
const CLASSES: [&str; 8] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];

/// Which subject has which colour.
#[derive(Debug)]
pub(super) struct Palette<'a> {
    subjects: Vec<&'a str>,
}

impl<'a> Palette<'a> {
    /// Colours for subjects, each named once.
    pub(super) fn new(subjects: impl IntoIterator<Item = &'a str>) -> Self {
        Self { subjects: subjects.into_iter().collect() }
    }

    /// The number of a subject's colour; beyond the last colour they come again.
    pub(super) fn index_of(&self, subject: &str) -> usize {
        let place = self.subjects.iter().position(|known| *known == subject);
        place.unwrap_or(self.subjects.len()) % CLASSES.len()
    }

    /// The class of a subject's colour.
    pub(super) fn class_of(&self, subject: &str) -> &'static str {
        CLASSES[self.index_of(subject)]
    }
}
