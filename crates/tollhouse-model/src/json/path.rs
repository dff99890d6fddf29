//! Paths into documents, such as `messages[*].content[0].type`: the subset of JSONPath supported
//! for `post_arg.` variables.
//!
//! Supported are names after dots or quoted in brackets, indices (negative ones count from the
//! end), slices, `*`, `..`, unions in brackets, and filters `?(@.a == 'x' && @.b)`.

use std::ops::ControlFlow;

use super::outline::Document;
use super::piece::{Kind, Piece};
use parse::Parser;

mod parse;

/// Maximum length of a result in bytes. Variables are used in headers, keys and conditions, where
/// longer values are of no use.
const FOUND_BYTES_MAX: usize = 1 << 20;

/// Maximum number of values visited for one path. Only paths with several `..` come near this
/// limit.
const STEPS_MAX: usize = 50_000_000;

/// JSONPath expression, parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    segments: Vec<Segment>,
}

/// Step of a path: selectors, applied to a value or to all values below it.
#[derive(Debug, Clone, PartialEq)]
struct Segment {
    /// Whether the step matches at any depth (`..`).
    descends: bool,
    selectors: Vec<Selector>,
}

#[derive(Debug, Clone, PartialEq)]
enum Selector {
    Name(String),
    Place(i64),
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        step: usize,
    },
    Any,
    /// Passes if all tests of at least one group hold.
    Filter(Vec<Vec<Test>>),
}

/// Filter condition on an item.
#[derive(Debug, Clone, PartialEq)]
struct Test {
    path: Path,
    /// Comparison with a literal; `None` if the path only has to exist.
    comparison: Option<(Comparison, Literal)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Below,
    AtMost,
    Above,
    AtLeast,
}

#[derive(Debug, Clone, PartialEq)]
enum Literal {
    Text(String),
    Number(f64),
    Boolean(bool),
    Null,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A character that is not allowed at its position.
    #[error("unexpected '{letter}' at character {at}")]
    Unexpected {
        letter: char,
        /// Position of the character, counted from 1.
        at: usize,
    },
    #[error("unexpected end")]
    EndsEarly,
    #[error("unterminated quote")]
    OpenQuote,
    /// The step of a slice is zero or negative.
    #[error("the step of a slice must be above zero")]
    Step,
}

/// Decision to continue or to stop a walk.
type Going = ControlFlow<()>;
type Visit<'v, 'd> = &'v mut dyn FnMut(Piece<'d>) -> Going;

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    /// If the path has a syntax error; most errors include the position.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        Parser::new(text).path()
    }

    /// Returns `true` or `false` if the path names a single place and the value there is a boolean.
    pub fn find_boolean(&self, document: &Document<'_>) -> Option<Vec<u8>> {
        let piece = self.first(document).filter(|_| self.is_definite())?;
        (piece.kind() == Kind::Boolean).then(|| piece.raw().as_bytes().to_vec())
    }

    fn first<'d>(&self, document: &'d Document<'d>) -> Option<Piece<'d>> {
        let mut found = None;
        let _ = self.visit(document.root(), &mut |piece| {
            found = Some(piece);
            ControlFlow::Break(())
        });
        found
    }

    /// Finds the value in a document. A path to a single place yields the value itself; any other
    /// path yields a list of the values. `None` if nothing is found, if the value is `null`, or if
    /// the result exceeds `FOUND_BYTES_MAX`.
    pub fn find(&self, document: &Document<'_>) -> Option<Vec<u8>> {
        if self.is_definite() {
            return value_of(self.first(document)?);
        }
        let mut list = vec![b'['];
        let going = self.visit(document.root(), &mut |piece| {
            let raw = piece.raw();
            // The size is checked before copying, because a path with `*` may match the whole
            // document many times.
            if list.len() + raw.len() > FOUND_BYTES_MAX {
                return ControlFlow::Break(());
            }
            if list.len() > 1 {
                list.push(b',');
            }
            list.extend_from_slice(raw.as_bytes());
            ControlFlow::Continue(())
        });
        if going.is_break() || list.len() == 1 {
            return None;
        }
        list.push(b']');
        Some(list)
    }

    /// Returns all values that the path finds, as JSON; no further ones beyond `FOUND_BYTES_MAX`.
    pub fn find_each(&self, document: &Document<'_>) -> Vec<String> {
        let (mut found, mut bytes_left) = (Vec::new(), FOUND_BYTES_MAX);
        let _ = self.visit(document.root(), &mut |piece| {
            let raw = piece.raw();
            match bytes_left.checked_sub(raw.len()) {
                Some(rest) => bytes_left = rest,
                None => return ControlFlow::Break(()),
            }
            found.push(raw.to_owned());
            ControlFlow::Continue(())
        });
        found
    }

    /// Whether the path names at most one place.
    fn is_definite(&self) -> bool {
        self.segments.iter().all(|segment| {
            !segment.descends
                && matches!(&segment.selectors[..], [Selector::Name(_) | Selector::Place(_)])
        })
    }

    /// Returns the name, if the path is a single name. Only such paths can name the field of a
    /// form.
    pub fn as_name(&self) -> Option<&str> {
        match &self.segments[..] {
            [Segment { descends: false, selectors }] => match &selectors[..] {
                [Selector::Name(name)] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    fn visit<'d>(&self, root: Piece<'d>, visit: Visit<'_, 'd>) -> Going {
        walk(&self.segments, root, &mut STEPS_MAX.clone(), visit)
    }
}

/// Walks down the segments from a value. Recursion is as deep as the path is long.
fn walk<'d>(
    segments: &[Segment],
    piece: Piece<'d>,
    steps_left: &mut usize,
    visit: Visit<'_, 'd>,
) -> Going {
    let Some((segment, rest)) = segments.split_first() else { return visit(piece) };
    // Values to search; more than one only if the segment descends.
    let mut waiting = vec![piece];
    while let Some(piece) = waiting.pop() {
        for selector in &segment.selectors {
            select(selector, piece, &mut |part| {
                if *steps_left == 0 {
                    return ControlFlow::Break(());
                }
                *steps_left -= 1;
                walk(rest, part, steps_left, visit)
            })?;
        }
        if segment.descends {
            let first_new = waiting.len();
            let is_deep = |piece: &Piece<'_>| matches!(piece.kind(), Kind::List | Kind::Object);
            waiting.extend(piece.items().filter(is_deep));
            waiting.extend(piece.members().map(|(_, value)| value).filter(is_deep));
            waiting[first_new..].reverse();
        }
    }
    ControlFlow::Continue(())
}

fn select<'d>(selector: &Selector, piece: Piece<'d>, visit: Visit<'_, 'd>) -> Going {
    match selector {
        Selector::Name(name) => piece.member(name).map_or(ControlFlow::Continue(()), visit),
        Selector::Place(place) => {
            let index = place_of(*place, piece).and_then(|index| piece.item(index));
            index.map_or(ControlFlow::Continue(()), visit)
        }
        Selector::Slice { from, to, step } => {
            let bound = |bound: Option<i64>, default: usize| match bound {
                Some(place) if place < 0 => place_of(place, piece).unwrap_or(0),
                Some(place) => usize::try_from(place).unwrap_or(usize::MAX),
                None => default,
            };
            let (from, to) = (bound(*from, 0), bound(*to, usize::MAX));
            let items = piece.items().skip(from).take(to.saturating_sub(from));
            items.step_by(*step).try_for_each(visit)
        }
        // Items before members: a value has only one of the two, and the other visits nothing.
        Selector::Any => {
            piece.items().try_for_each(&mut *visit)?;
            piece.members().map(|(_, value)| value).try_for_each(visit)
        }
        Selector::Filter(groups) => {
            let passes = |piece: &Piece<'d>| {
                groups.iter().any(|group| group.iter().all(|test| test.holds(*piece)))
            };
            piece.items().filter(passes).try_for_each(&mut *visit)?;
            piece.members().map(|(_, value)| value).filter(passes).try_for_each(visit)
        }
    }
}

/// Converts an index, where negative ones count from the end.
fn place_of(place: i64, piece: Piece<'_>) -> Option<usize> {
    match usize::try_from(place) {
        Ok(index) => Some(index),
        Err(_) => {
            let back = usize::try_from(place.unsigned_abs()).ok()?;
            piece.items().count().checked_sub(back)
        }
    }
}

impl Test {
    fn holds(&self, piece: Piece<'_>) -> bool {
        let mut found = None;
        let _ = self.path.visit(piece, &mut |piece| {
            found = Some(piece);
            ControlFlow::Break(())
        });
        match (&self.comparison, found) {
            (None, found) => found.is_some(),
            (Some((Comparison::NotEqual, _)), None) => true,
            (Some(_), None) => false,
            (Some((comparison, literal)), Some(found)) => comparison.holds(found, literal),
        }
    }
}

impl Comparison {
    fn holds(self, piece: Piece<'_>, literal: &Literal) -> bool {
        use std::cmp::Ordering;
        let ordering = match literal {
            Literal::Text(text) => piece.text().map(|own| (*own).cmp(text.as_str())),
            Literal::Number(number) => piece.number().and_then(|own| own.partial_cmp(number)),
            Literal::Boolean(boolean) => {
                (piece.kind() == Kind::Boolean).then(|| (piece.raw() == "true").cmp(boolean))
            }
            Literal::Null => (piece.kind() == Kind::Null).then_some(Ordering::Equal),
        };
        match (self, ordering) {
            (Comparison::NotEqual, ordering) => ordering != Some(Ordering::Equal),
            (_, None) => false,
            (Comparison::Equal, Some(ordering)) => ordering.is_eq(),
            (Comparison::Below, Some(ordering)) => ordering.is_lt(),
            (Comparison::AtMost, Some(ordering)) => ordering.is_le(),
            (Comparison::Above, Some(ordering)) => ordering.is_gt(),
            (Comparison::AtLeast, Some(ordering)) => ordering.is_ge(),
        }
    }
}

/// Returns a value as a variable holds it: texts are unquoted and unescaped; `null` counts as
/// absent.
fn value_of(piece: Piece<'_>) -> Option<Vec<u8>> {
    let value = match piece.kind() {
        Kind::Null => return None,
        Kind::Text => piece.text()?.into_owned().into_bytes(),
        _ => piece.raw().as_bytes().to_vec(),
    };
    (value.len() <= FOUND_BYTES_MAX).then_some(value)
}
