//! Text tables: first column aligned left, the others right.

/// Formats rows of cells as lines, with each column as wide as its widest cell and `indent` leading
/// spaces. Each character counts as one terminal column.
pub fn columns(rows: &[Vec<String>], indent: usize) -> Vec<String> {
    let width_of = |cell: &String| cell.chars().count();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count)
        .map(|column| {
            rows.iter().filter_map(|row| row.get(column)).map(width_of).max().unwrap_or(0)
        })
        .collect();
    rows.iter()
        .map(|row| {
            let mut line = " ".repeat(indent);
            for (column, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[column] - width_of(cell));
                if column == 0 {
                    line.push_str(cell);
                    line.push_str(&padding);
                } else {
                    line.push_str("  ");
                    line.push_str(&padding);
                    line.push_str(cell);
                }
            }
            line.trim_end().to_owned()
        })
        .collect()
}

/// Wraps a text between words into lines of at most `width` characters.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let is_full = line.chars().count() + 1 + word.chars().count() > width;
        if !line.is_empty() && is_full {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["", "a", "long"]), row(["first", "19.37 ms", "–"])];
        assert_eq!(columns(&rows, 2), ["                a  long", "  first  19.37 ms     –"]);
        assert!(columns(&[], 2).is_empty());
    }

    #[test]
    fn text_breaks_between_words() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a-word-that-is-too-long", 7), ["a-word-that-is-too-long"]);
    }
}
