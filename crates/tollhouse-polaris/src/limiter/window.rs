//! Use of a quota within a window that slides by parts. With one part the window is fixed, and begins
//! at multiples of its length, as the windows of clients do.

/// Use by part of a window.
#[derive(Debug, Clone)]
pub(super) struct Window {
    part_ms: u64,
    parts: Box<[Part]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Number of the part since the Unix epoch.
    number: u64,
    used: u64,
}

impl Window {
    /// Creates an empty window; `parts` is at least 1.
    pub(super) fn new(duration_ms: u64, parts: u32) -> Self {
        let parts = parts.max(1);
        Self {
            part_ms: (duration_ms / u64::from(parts)).max(1),
            parts: vec![Part::default(); parts as usize].into(),
        }
    }

    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Adds a use; one before the window does not count, and one in the future counts as now.
    pub(super) fn add(&mut self, used: u32, at_ms: u64, now_ms: u64) {
        let (now, length) = (now_ms / self.part_ms, self.parts.len() as u64);
        let number = (at_ms / self.part_ms).min(now);
        if number + length <= now {
            return;
        }
        let part = &mut self.parts[(number % length) as usize];
        if part.number != number {
            *part = Part { number, used: 0 };
        }
        part.used += u64::from(used);
    }

    /// Returns the use within the window that ends now.
    pub(super) fn total(&self, now_ms: u64) -> u64 {
        let (now, length) = (now_ms / self.part_ms, self.parts.len() as u64);
        let is_current = |part: &&Part| part.number + length > now && part.number <= now;
        self.parts.iter().filter(is_current).map(|part| part.used).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_window_begins_at_multiples_of_its_length() {
        let mut window = Window::new(1_000, 1);
        window.add(3, 5_100, 5_200);
        window.add(4, 5_900, 5_999);
        assert_eq!((window.total(5_999), window.total(6_000)), (7, 0));
        window.add(9, 5_999, 6_000);
        window.add(2, 7_500, 6_100);
        assert_eq!(window.total(6_999), 2, "a late use is past, an early one counts as now");
    }

    #[test]
    fn a_sliding_window_forgets_part_by_part() {
        let mut window = Window::new(1_000, 4);
        for at_ms in [0, 250, 500, 750] {
            window.add(1, at_ms, at_ms);
        }
        let totals = [750, 1_000, 1_250, 1_500, 1_750].map(|now_ms| window.total(now_ms));
        assert_eq!(totals, [4, 3, 2, 1, 0]);
        window.add(1, 1_100, 1_500);
        assert_eq!(window.total(1_500), 1 + 1);
    }
}
