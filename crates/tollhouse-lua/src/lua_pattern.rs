//! Lua's patterns (Lua 5.1 manual, §5.4.1), searched with a bound on steps.
//!
//! The library's own functions backtrack without a limit and call no hook, so that a pattern such
//! as `.-.-.-.-x` would hold a core for minutes.

/// Captures of a pattern at most, as in Lua.
const CAPTURES_MAX: usize = 32;

/// Nesting of single matches, as in Lua.
const DEPTH_MAX: usize = 200;

/// Steps of one search. A step costs a few nanoseconds.
const STEPS_MAX: u64 = 400_000;

/// Part of a subject that a capture holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capture {
    Text {
        start: usize,
        end: usize,
    },
    /// Position, counted from one.
    Position(usize),
}

/// Why a search has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("malformed pattern (ends with '%')")]
    EndsWithEscape,
    #[error("malformed pattern (missing ']')")]
    MissingBracket,
    #[error("missing '[' after '%f' in pattern")]
    MissingFrontierSet,
    #[error("unbalanced pattern")]
    Unbalanced,
    #[error("invalid pattern capture")]
    InvalidCapture,
    #[error("invalid capture index")]
    InvalidIndex,
    #[error("too many captures")]
    TooManyCaptures,
    #[error("pattern too complex")]
    TooComplex,
    /// The search exceeds the limit of steps.
    #[error("the pattern needs too many steps for this text")]
    TooManySteps,
}

/// Match of a pattern: its range, and its captures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) captures: Vec<Capture>,
}

#[derive(Clone, Copy)]
enum Open {
    Unclosed(usize),
    Closed(usize, usize),
    Position(usize),
}

struct State<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Open>,
    steps: u64,
    depth: usize,
}

type Found = Result<Option<usize>, PatternError>;

/// Finds the first match at or after `from`. Returns it with the number of steps.
///
/// # Errors
/// If the pattern is invalid, or the search exceeds its limits.
pub(crate) fn find(
    subject: &[u8],
    pattern: &[u8],
    from: usize,
) -> Result<(Option<Match>, u64), PatternError> {
    let is_anchored = pattern.first() == Some(&b'^');
    let pattern = if is_anchored { &pattern[1..] } else { pattern };
    let mut state = State { subject, pattern, captures: Vec::new(), steps: 0, depth: 0 };
    let mut start = from;
    while start <= subject.len() {
        state.captures.clear();
        state.depth = 0;
        if let Some(end) = state.matches(start, 0)? {
            let captures = state.captured()?;
            return Ok((Some(Match { start, end, captures }), state.steps));
        }
        if is_anchored {
            break;
        }
        start += 1;
    }
    Ok((None, state.steps))
}

impl State<'_> {
    fn captured(&self) -> Result<Vec<Capture>, PatternError> {
        let each = self.captures.iter().map(|open| match *open {
            Open::Closed(start, end) => Ok(Capture::Text { start, end }),
            Open::Position(at) => Ok(Capture::Position(at + 1)),
            Open::Unclosed(_) => Err(PatternError::InvalidCapture),
        });
        each.collect()
    }

    fn step(&mut self) -> Result<(), PatternError> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(PatternError::TooManySteps) } else { Ok(()) }
    }

    /// Matches the rest of the pattern at `s`; returns the end of the match.
    fn matches(&mut self, s: usize, p: usize) -> Found {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(PatternError::TooComplex);
        }
        let found = self.matches_here(s, p);
        self.depth -= 1;
        found
    }

    fn matches_here(&mut self, mut s: usize, mut p: usize) -> Found {
        loop {
            self.step()?;
            let Some(&first) = self.pattern.get(p) else { return Ok(Some(s)) };
            match first {
                b'(' if self.pattern.get(p + 1) == Some(&b')') => {
                    return self.open(Open::Position(s), s, p + 2);
                }
                b'(' => return self.open(Open::Unclosed(s), s, p + 1),
                b')' => return self.close(s, p + 1),
                b'$' if p + 1 == self.pattern.len() => {
                    return Ok((s == self.subject.len()).then_some(s));
                }
                b'%' if self.pattern.get(p + 1) == Some(&b'b') => {
                    match self.balance(s, p + 2)? {
                        Some(next) => (s, p) = (next, p + 4),
                        None => return Ok(None),
                    }
                    continue;
                }
                b'%' if self.pattern.get(p + 1) == Some(&b'f') => {
                    p += 2;
                    if self.pattern.get(p) != Some(&b'[') {
                        return Err(PatternError::MissingFrontierSet);
                    }
                    let end = self.class_end(p)?;
                    let byte_at = |at: Option<&u8>| at.copied().unwrap_or(0);
                    let before =
                        byte_at(s.checked_sub(1).and_then(|before| self.subject.get(before)));
                    let here = byte_at(self.subject.get(s));
                    if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                    continue;
                }
                b'%' if self.pattern.get(p + 1).is_some_and(u8::is_ascii_digit) => {
                    match self.same_as_capture(s, self.pattern[p + 1])? {
                        Some(next) => (s, p) = (next, p + 2),
                        None => return Ok(None),
                    }
                    continue;
                }
                _ => {}
            }
            let end = self.class_end(p)?;
            let is_single = s < self.subject.len() && self.is_single(s, p, end);
            match self.pattern.get(end) {
                Some(b'?') => {
                    if is_single && let Some(found) = self.matches(s + 1, end + 1)? {
                        return Ok(Some(found));
                    }
                    p = end + 1;
                }
                Some(b'*') => return self.most(s, p, end),
                Some(b'+') => {
                    return if is_single { self.most(s + 1, p, end) } else { Ok(None) };
                }
                Some(b'-') => return self.least(s, p, end),
                _ if is_single => (s, p) = (s + 1, end),
                _ => return Ok(None),
            }
        }
    }

    fn most(&mut self, s: usize, p: usize, end: usize) -> Found {
        let mut count = 0;
        while s + count < self.subject.len() && self.is_single(s + count, p, end) {
            self.step()?;
            count += 1;
        }
        loop {
            if let Some(found) = self.matches(s + count, end + 1)? {
                return Ok(Some(found));
            }
            match count.checked_sub(1) {
                Some(less) => count = less,
                None => return Ok(None),
            }
        }
    }

    fn least(&mut self, mut s: usize, p: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.matches(s, end + 1)? {
                return Ok(Some(found));
            }
            self.step()?;
            if s < self.subject.len() && self.is_single(s, p, end) {
                s += 1;
            } else {
                return Ok(None);
            }
        }
    }

    fn open(&mut self, capture: Open, s: usize, p: usize) -> Found {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(PatternError::TooManyCaptures);
        }
        self.captures.push(capture);
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> Found {
        let is_open = |open: &Open| matches!(open, Open::Unclosed(_));
        let index = self.captures.iter().rposition(is_open);
        let index = index.ok_or(PatternError::InvalidCapture)?;
        let Open::Unclosed(start) = self.captures[index] else {
            return Err(PatternError::InvalidCapture);
        };
        self.captures[index] = Open::Closed(start, s);
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures[index] = Open::Unclosed(start);
        }
        Ok(found)
    }

    fn balance(&mut self, s: usize, p: usize) -> Found {
        let (Some(&begin), Some(&end)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(PatternError::Unbalanced);
        };
        if self.subject.get(s) != Some(&begin) {
            return Ok(None);
        }
        let mut open = 1_usize;
        for at in s + 1..self.subject.len() {
            self.step()?;
            let byte = self.subject[at];
            if byte == end {
                open -= 1;
                if open == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == begin {
                open += 1;
            }
        }
        Ok(None)
    }

    fn same_as_capture(&mut self, s: usize, digit: u8) -> Found {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let capture = index.and_then(|index| self.captures.get(index)).copied();
        let Some(Open::Closed(start, end)) = capture else {
            return Err(PatternError::InvalidIndex);
        };
        self.steps += (end - start) as u64 / 8;
        let len = end - start;
        let is_same =
            self.subject.get(s..s + len).is_some_and(|part| part == &self.subject[start..end]);
        Ok(is_same.then_some(s + len))
    }

    /// Returns the end of the class that begins at `p`.
    fn class_end(&self, p: usize) -> Result<usize, PatternError> {
        match self.pattern[p] {
            b'%' if p + 1 >= self.pattern.len() => Err(PatternError::EndsWithEscape),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // A bracket at the first place is a member.
                loop {
                    let byte = *self.pattern.get(at).ok_or(PatternError::MissingBracket)?;
                    at += if byte == b'%' { 2 } else { 1 };
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn is_single(&self, s: usize, p: usize, end: usize) -> bool {
        let byte = self.subject[s];
        match self.pattern[p] {
            b'.' => true,
            b'%' => is_in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            other => other == byte,
        }
    }

    /// Whether a byte is in the set from the bracket at `p` to the one at `last`.
    fn in_set(&self, byte: u8, p: usize, last: usize) -> bool {
        let mut at = p + 1;
        let is_negated = self.pattern[at] == b'^';
        if is_negated {
            at += 1;
        }
        let mut is_member = false;
        while at < last {
            if self.pattern[at] == b'%' {
                is_member |= is_in_class(byte, self.pattern[at + 1]);
                at += 2;
            } else if at + 2 < last && self.pattern[at + 1] == b'-' {
                is_member |= (self.pattern[at]..=self.pattern[at + 2]).contains(&byte);
                at += 3;
            } else {
                is_member |= self.pattern[at] == byte;
                at += 1;
            }
        }
        is_member != is_negated
    }
}

fn is_in_class(byte: u8, class: u8) -> bool {
    let is_member = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_member != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(subject: &str, pattern: &str) -> String {
        match find(subject.as_bytes(), pattern.as_bytes(), 0) {
            Ok((Some(found), _)) => {
                let captures = found.captures.iter().map(|capture| match *capture {
                    Capture::Text { start, end } => format!(" {}", &subject[start..end]),
                    Capture::Position(at) => format!(" @{at}"),
                });
                format!("{}-{}{}", found.start, found.end, captures.collect::<String>())
            }
            Ok((None, _)) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn patterns_match_as_in_lua() {
        for (subject, pattern, expected) in [
            ("hello world", "o", "4-5"),
            ("hello world", "(o)%s(w)", "4-7 o w"),
            ("key = value", "^(%w+)%s*=%s*(%w+)$", "0-11 key value"),
            ("abc", "^b", "none"),
            ("a]b", "[]]", "1-2"),
            ("a-b", "[a%-]+", "0-2"),
            ("f(a(b)c)d", "%b()", "1-8"),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", "0-3"),
            ("abcabc", "(abc)%1", "0-6 abc"),
            ("aaab", "a-b", "0-4"),
            ("aaab", "()a+()", "0-3 @1 @4"),
            ("x", "[^%d]", "0-1"),
            ("x", "%", "malformed pattern (ends with '%')"),
            ("x", "[a", "malformed pattern (missing ']')"),
            ("x", "(x", "invalid pattern capture"),
            ("x", "%f", "missing '[' after '%f' in pattern"),
            ("\u{0}", "%z", "0-1"),
        ] {
            assert_eq!(found(subject, pattern), expected, "{subject} {pattern}");
        }
    }

    #[test]
    fn a_search_that_backtracks_for_ever_ends() {
        let subject = "a".repeat(2_000);
        let error = PatternError::TooManySteps.to_string();
        assert_eq!(found(&subject, ".-.-.-.-.-b"), error);
        assert_eq!(found(&subject, "a*a*a*a*b"), error);
        assert_eq!(found(&"(".repeat(3_000), "%b()"), error);
    }
}
