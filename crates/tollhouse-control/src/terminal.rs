//! Output of untrusted text on a terminal.

/// Whether a character could control a terminal or change the order of the text after it: control
/// characters, Unicode line and paragraph separators, and bidirectional controls (Unicode UAX #9
/// §2).
pub fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}' | '\u{2029}'
                | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
        )
}

/// Returns the text with a question mark in place of each character for which [`steers`] is true.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if steers(letter) { '?' } else { letter }).collect()
}

/// Like [`printable`], but keeps line feeds.
pub fn printable_lines(text: &str) -> String {
    let shown = |letter| if steers(letter) && letter != '\n' { '?' } else { letter };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_or_turns_text_round_is_not_shown() {
        let table = [
            ("plain, with ümlauts, עברית and 漢字", "plain, with ümlauts, עברית and 漢字"),
            ("\u{1b}[2J\r\u{9b}\u{7f}", "?[2J???"),
            ("a\u{202e}gpj.exe\u{202c}", "a?gpj.exe?"),
            ("\u{2066}\u{2067}\u{2068}\u{2069}", "????"),
            ("\u{200e}\u{200f}\u{61c}\u{2028}\u{2029}", "?????"),
        ];
        for (text, expected) in table {
            assert_eq!(printable(text), expected);
        }
        assert_eq!(printable("a\nb"), "a?b");
        assert_eq!(printable_lines("a\nb\u{202e}\t"), "a\nb??");
    }
}
