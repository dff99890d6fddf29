//! Paths into documents, such as `messages[*].content[0].type`: what JSONPath and dots have in
//! common with the servers that users of `post_arg.` variables know.
//!
//! Names after dots or in brackets and quotes, places (from the end where negative), slices, `*`,
//! `..`, several of them between brackets, and filters `?(@.a == 'x' && @.b)`.

use std::ops::ControlFlow;

use super::outline::Document;
use super::piece::{Kind, Piece};
use parse::Parser;

mod parse;

/// Longest value that a path finds, in bytes: variables stand in headers, keys and conditions.
const FOUND_BYTES_MAX: usize = 1 << 20;

/// Most pieces looked at for one path; only paths with several `..` come near it.
const STEPS_MAX: usize = 50_000_000;

/// A path, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    segments: Vec<Segment>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
struct Segment {
    /// Whether it is looked for at any depth.
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
    /// One of these groups must hold, each of which is tests that must all hold.
    Filter(Vec<Vec<Test>>),
}

/// A condition on an item.
#[derive(Debug, Clone, PartialEq)]
struct Test {
    path: Path,
    /// How it compares; none where it is enough to be there.
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

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A character that nothing can begin with at its place, counted from 1.
    #[error("unexpected '{letter}' at character {at}")]
    Unexpected {
        /// The character.
        letter: char,
        /// Where it stands.
        at: usize,
    },
    /// More is to come where the text ends.
    #[error("it ends too early")]
    EndsEarly,
    /// A quote is not closed.
    #[error("a quote that does not end")]
    OpenQuote,
    /// A slice goes backwards, or not at all.
    #[error("a step that is not above zero")]
    Step,
}

/// Whether a walk over pieces goes on.
type Going = ControlFlow<()>;
/// What is done with a piece.
type Visit<'v, 'd> = &'v mut dyn FnMut(Piece<'d>) -> Going;

impl Path {
    /// Takes a path apart.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        Parser::new(text).path()
    }

    /// The value in a document where it is one boolean.
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

    /// The value in a document: of one place as it is, of several as a list. `None` where there is
    /// nothing, or `null`, or more than a variable holds.
    pub fn find(&self, document: &Document<'_>) -> Option<Vec<u8>> {
        if self.is_definite() {
            return value_of(self.first(document)?);
        }
        let mut list = vec![b'['];
        let going = self.visit(document.root(), &mut |piece| {
            let raw = piece.raw();
            // Counted before it is copied: paths with `*` may lead to the whole document many
            // times.
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

    /// Whether it names one place at most.
    fn is_definite(&self) -> bool {
        self.segments.iter().all(|segment| {
            !segment.descends
                && matches!(&segment.selectors[..], [Selector::Name(_) | Selector::Place(_)])
        })
    }

    /// Its only step, where that is a name: what a form can be asked for.
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

/// Walks down the segments from a piece. As deep as the path is long.
fn walk<'d>(
    segments: &[Segment],
    piece: Piece<'d>,
    steps_left: &mut usize,
    visit: Visit<'_, 'd>,
) -> Going {
    let Some((segment, rest)) = segments.split_first() else { return visit(piece) };
    // Pieces to look into; more than the one only where any depth will do.
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
        // Items before members: of the two a piece has one kind alone, and the other visits nothing.
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

/// A place counted from the begin, or from the end where it is negative.
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

/// A value as variables have it: texts without quotes, `null` as if it were not there.
fn value_of(piece: Piece<'_>) -> Option<Vec<u8>> {
    let value = match piece.kind() {
        Kind::Null => return None,
        Kind::Text => piece.text()?.into_owned().into_bytes(),
        _ => piece.raw().as_bytes().to_vec(),
    };
    (value.len() <= FOUND_BYTES_MAX).then_some(value)
}
