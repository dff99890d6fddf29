//! Parser of paths.

use super::{Comparison, Literal, Path, PathError, Segment, Selector, Test};

/// Maximum nesting of filters.
const DEPTH_MAX: usize = 8;

/// Parser state over the text of a path.
pub(super) struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Parses the whole text as a path; the first step needs no dot.
    pub(super) fn path(mut self) -> Result<Path, PathError> {
        let mut segments = Vec::new();
        if !self.rest().starts_with(['.', '[']) {
            segments.push(Segment { descends: false, selectors: vec![self.name_or_any()?] });
        }
        self.further(&mut segments)?;
        match self.rest() {
            "" if !segments.is_empty() => Ok(Path { segments }),
            _ => Err(self.unexpected()),
        }
    }

    /// Parses the steps that begin with a dot or a bracket.
    fn further(&mut self, segments: &mut Vec<Segment>) -> Result<(), PathError> {
        loop {
            let (descends, selectors) = if self.takes("..[") {
                (true, self.bracket()?)
            } else if self.takes("..") {
                (true, vec![self.name_or_any()?])
            } else if self.takes(".[") || self.takes("[") {
                (false, self.bracket()?)
            } else if self.takes(".") {
                (false, vec![self.name_or_any()?])
            } else {
                return Ok(());
            };
            segments.push(Segment { descends, selectors });
        }
    }

    fn name_or_any(&mut self) -> Result<Selector, PathError> {
        let ends: &[char] = if self.depth > 0 {
            &['.', '[', ']', ' ', '=', '!', '<', '>', '&', '|', ')', '\'', '"']
        } else {
            &['.', '[', ']']
        };
        let name = &self.rest()[..self.rest().find(ends).unwrap_or(self.rest().len())];
        if name.is_empty() {
            return Err(self.unexpected());
        }
        self.at += name.len();
        Ok(if name == "*" { Selector::Any } else { Selector::Name(name.into()) })
    }

    /// Parses the content of brackets, after the opening one.
    fn bracket(&mut self) -> Result<Vec<Selector>, PathError> {
        let mut selectors = vec![self.selector()?];
        while self.takes(",") {
            selectors.push(self.selector()?);
        }
        if self.takes("]") { Ok(selectors) } else { Err(self.unexpected()) }
    }

    fn selector(&mut self) -> Result<Selector, PathError> {
        self.space();
        let selector = match self.rest().chars().next() {
            Some('*') => {
                self.at += 1;
                Selector::Any
            }
            Some('\'' | '"') => Selector::Name(self.quoted()?),
            Some('?') => self.filter()?,
            _ => self.place_or_slice()?,
        };
        self.space();
        Ok(selector)
    }

    fn place_or_slice(&mut self) -> Result<Selector, PathError> {
        let from = self.integer()?;
        self.space();
        if !self.takes(":") {
            return from.map(Selector::Place).ok_or_else(|| self.unexpected());
        }
        self.space();
        let to = self.integer()?;
        self.space();
        let step = if self.takes(":") { self.integer()?.unwrap_or(1) } else { 1 };
        let step = usize::try_from(step).ok().filter(|step| *step > 0);
        Ok(Selector::Slice { from, to, step: step.ok_or(PathError::Step)? })
    }

    fn integer(&mut self) -> Result<Option<i64>, PathError> {
        let is_part = |letter: char| letter.is_ascii_digit() || letter == '-';
        let rest = self.rest();
        let digits = &rest[..rest.find(|letter| !is_part(letter)).unwrap_or(rest.len())];
        if digits.is_empty() {
            return Ok(None);
        }
        let number = digits.parse().map_err(|_| self.unexpected())?;
        self.at += digits.len();
        Ok(Some(number))
    }

    fn quoted(&mut self) -> Result<String, PathError> {
        let quote = self.rest().chars().next().unwrap_or('"');
        let mut text = String::new();
        let mut letters = self.rest().char_indices().skip(1);
        while let Some((offset, letter)) = letters.next() {
            match letter {
                '\\' => text.extend(letters.next().map(|(_, escaped)| escaped)),
                _ if letter == quote => {
                    self.at += offset + 1;
                    return Ok(text);
                }
                _ => text.push(letter),
            }
        }
        Err(PathError::OpenQuote)
    }

    /// Parses `?(@.a == 1 && @.b || @.c)`; `&&` binds tighter than `||`.
    fn filter(&mut self) -> Result<Selector, PathError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX || !self.takes("?(") {
            return Err(self.unexpected());
        }
        let mut groups = vec![vec![self.test()?]];
        loop {
            self.space();
            if self.takes("&&") {
                let test = self.test()?;
                groups.last_mut().into_iter().for_each(|group| group.push(test.clone()));
            } else if self.takes("||") {
                groups.push(vec![self.test()?]);
            } else if self.takes(")") {
                self.depth -= 1;
                return Ok(Selector::Filter(groups));
            } else {
                return Err(self.unexpected());
            }
        }
    }

    fn test(&mut self) -> Result<Test, PathError> {
        self.space();
        if !self.takes("@") {
            return Err(self.unexpected());
        }
        let mut segments = Vec::new();
        self.further(&mut segments)?;
        self.space();
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::AtMost),
            ("<", Comparison::Below),
            (">=", Comparison::AtLeast),
            (">", Comparison::Above),
        ];
        let found = comparisons.iter().find(|(sign, _)| self.rest().starts_with(sign));
        let comparison = match found {
            Some((sign, comparison)) => {
                self.at += sign.len();
                Some((*comparison, self.literal()?))
            }
            None => None,
        };
        Ok(Test { path: Path { segments }, comparison })
    }

    fn literal(&mut self) -> Result<Literal, PathError> {
        self.space();
        if self.rest().starts_with(['\'', '"']) {
            return self.quoted().map(Literal::Text);
        }
        let rest = self.rest();
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
        let word = &rest[..rest.find(|letter| !is_part(letter)).unwrap_or(rest.len())];
        let literal = match word {
            "true" => Literal::Boolean(true),
            "false" => Literal::Boolean(false),
            "null" | "nil" => Literal::Null,
            number => Literal::Number(number.parse().map_err(|_| self.unexpected())?),
        };
        self.at += word.len();
        Ok(literal)
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn takes(&mut self, prefix: &str) -> bool {
        let takes = self.rest().starts_with(prefix);
        self.at += if takes { prefix.len() } else { 0 };
        takes
    }

    fn unexpected(&self) -> PathError {
        match self.rest().chars().next() {
            Some(letter) => PathError::Unexpected { letter, at: self.at + 1 },
            None => PathError::EndsEarly,
        }
    }
}
