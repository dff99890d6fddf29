//! Tables for terminals: columns as wide as their widest cell, long cells truncated, numbers
//! right-aligned.

use tollhouse_control::terminal::steers;

/// Maximum number of characters of a cell; longer cells would make the table wider than a screen.
const CELL_CHARS_MAX: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

pub struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these columns.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let heading = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Self { aligns: columns.iter().map(|(_, align)| *align).collect(), rows: vec![heading] }
    }

    /// Adds a row; an empty cell is shown as a dash.
    pub fn push<const CELLS: usize>(&mut self, cells: [String; CELLS]) {
        let shown = |cell: String| if cell.is_empty() { "-".to_owned() } else { cut(cell) };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    pub fn render(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.aligns.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), align) in row.iter().zip(&widths).zip(&self.aligns) {
                match align {
                    Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                    Align::Right => line.push_str(&format!("{cell:>width$}  ")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Truncates a cell, and replaces control characters, which must not reach a terminal.
fn cut(cell: String) -> String {
    let printable = |c: char| if steers(c) { '?' } else { c };
    if cell.chars().count() <= CELL_CHARS_MAX {
        return cell.chars().map(printable).collect();
    }
    let mut short: String = cell.chars().take(CELL_CHARS_MAX - 1).map(printable).collect();
    short.push('…');
    short
}

/// Formats the age of an event, in its largest unit.
pub fn ago(now_ms: u64, then_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(then_ms) / 1_000;
    match seconds {
        0..120 => format!("{seconds}s ago"),
        120..7_200 => format!("{}m ago", seconds / 60),
        7_200..172_800 => format!("{}h ago", seconds / 3_600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("NAME", Align::Left), ("N", Align::Right)]);
        table.push(["a/longer".into(), "7".into()]);
        table.push(["b\u{1b}[2J".into(), String::new()]);
        table.push(["c".repeat(60), "100".into()]);
        let text = table.render();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("NAME ") && lines[0].ends_with("  N"), "{text}");
        assert!(lines[2].starts_with("b?[2J ") && lines[2].ends_with("  -"), "{text}");
        assert_eq!(lines[3], format!("{}…  100", "c".repeat(47)));
        assert!(lines.iter().all(|line| line.chars().count() == 53), "{text}");
    }

    #[test]
    fn times_are_told_in_one_unit() {
        let table = [
            (0, "0s ago"),
            (119_999, "119s ago"),
            (120_000, "2m ago"),
            (7_200_000, "2h ago"),
            (172_800_000, "2d ago"),
        ];
        for (passed_ms, expected) in table {
            assert_eq!(ago(1_000_000 + passed_ms, 1_000_000), expected);
        }
        assert_eq!(ago(0, 5), "0s ago");
    }
}
