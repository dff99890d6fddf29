//! Lists of regular expressions, one of which must match.

use tollhouse_model::expr::pattern::{Case, Exhausted, Pattern};
use tollhouse_plugin::ConfError;

/// Regular expressions; a match of one is a match of the list.
#[derive(Debug)]
pub(crate) struct Patterns {
    /// A single joined pattern if it is not too large, otherwise all patterns separately.
    any: Box<[Pattern]>,
}

impl Patterns {
    pub(crate) fn compile(texts: &[String], case: Case) -> Result<Self, ConfError> {
        let each: Result<Vec<Pattern>, ConfError> =
            texts.iter().map(|text| compile(text, case)).collect();
        let each = each?;
        // Joining renumbers the groups, which matters only for patterns with backreferences.
        let may_join = each.iter().all(|pattern| matches!(pattern, Pattern::Linear(_)));
        if each.len() > 1 && may_join {
            let joined = texts.iter().map(|text| format!("(?:{text})")).collect::<Vec<_>>();
            if let Ok(joined) = Pattern::compile(&joined.join("|"), case) {
                return Ok(Self { any: Box::new([joined]) });
            }
        }
        Ok(Self { any: each.into() })
    }

    /// Whether a pattern occurs in the value.
    ///
    /// # Errors
    /// If no pattern matches and a search was aborted.
    pub(crate) fn is_match(&self, value: &[u8]) -> Result<bool, Exhausted> {
        let mut verdict = Ok(false);
        for pattern in &self.any {
            match pattern.is_match(value) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => verdict = Err(error),
            }
        }
        verdict
    }
}

/// Compiles a regular expression. Errors use the words of PCRE2, which users know.
pub(crate) fn compile(text: &str, case: Case) -> Result<Pattern, ConfError> {
    Pattern::compile(text, case).map_err(|error| {
        let reason = match error.reason() {
            "unclosed group" => "missing closing parenthesis",
            "unopened group" => "unmatched closing parenthesis",
            "unclosed character class" => "missing terminating ] for character class",
            "repetition operator missing expression" => {
                "quantifier does not follow a repeatable item"
            }
            other => other,
        };
        format!("pcre2_compile() failed: {reason} in \"{text}\"").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Result<Patterns, ConfError> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Patterns::compile(&texts, Case::Sensitive)
    }

    #[test]
    fn any_of_them_may_match() {
        let patterns = patterns(&["^a", "b$|c", r"(?<!x)d(.)\1"]).unwrap();
        for value in ["a--", "--b", "-c-", "-dee"] {
            assert_eq!(patterns.is_match(value.as_bytes()), Ok(true), "{value}");
        }
        for value in ["", "-a", "b-", "-def", "xdee"] {
            assert_eq!(patterns.is_match(value.as_bytes()), Ok(false), "{value}");
        }
    }

    #[test]
    fn one_that_gives_up_is_no_miss_unless_another_matches() {
        let patterns = patterns(&[r"(?:(?!pub)\w+/?)+\.php$", "^/b"]).unwrap();
        let doom = [&[b'a'; 40][..], b"!/evil.php"].concat();
        assert_eq!(patterns.is_match(&doom), Err(Exhausted));
        assert_eq!(patterns.is_match(&[&b"/b"[..], &doom].concat()), Ok(true));
        assert_eq!(patterns.is_match(b"/c"), Ok(false));
    }

    #[test]
    fn a_bad_one_is_quoted_with_its_fault() {
        let cases = [
            (".+(", "missing closing parenthesis"),
            ("a)", "unmatched closing parenthesis"),
            ("[a", "missing terminating ] for character class"),
            ("*a", "quantifier does not follow a repeatable item"),
        ];
        for (text, reason) in cases {
            let expected = format!("pcre2_compile() failed: {reason} in \"{text}\"");
            assert_eq!(patterns(&["a", text]).unwrap_err().text(), expected);
        }
    }
}
