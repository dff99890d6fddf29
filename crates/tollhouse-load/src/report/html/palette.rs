//! Colours of subjects: one per subject on the whole page, assigned in order of appearance.

/// CSS classes of the style sheet. The colours are distinguishable for colour-blind readers, on
/// white and on black.
const CLASSES: [&str; 8] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];

/// Subjects in the order in which they get colours.
#[derive(Debug)]
pub(super) struct Palette<'a> {
    subjects: Vec<&'a str>,
}

impl<'a> Palette<'a> {
    /// Assigns colours to subjects, each named once.
    pub(super) fn new(subjects: impl IntoIterator<Item = &'a str>) -> Self {
        Self { subjects: subjects.into_iter().collect() }
    }

    /// Returns the colour number of a subject; colours repeat after the last one.
    pub(super) fn index_of(&self, subject: &str) -> usize {
        let place = self.subjects.iter().position(|known| *known == subject);
        place.unwrap_or(self.subjects.len()) % CLASSES.len()
    }

    /// Returns the CSS class of a subject's colour.
    pub(super) fn class_of(&self, subject: &str) -> &'static str {
        CLASSES[self.index_of(subject)]
    }
}
