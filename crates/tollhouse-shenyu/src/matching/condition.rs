//! Compiled conditions: the parameter of a request and the test for its value.

use std::borrow::Cow;

use regex::Regex;

use super::request::{CivilTime, Request};
use crate::expression::{self, ExpressionError};
use crate::model;
use crate::model::MatchMode;
use crate::pattern::{Anchor, AntPattern, PathPattern, PatternError};

/// Result of a condition. Ordered, so that the minimum of several results combines them by "and",
/// and the maximum by "or".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holds {
    No,
    /// The condition cannot be evaluated, because it did not compile or the value is malformed.
    Unknown,
    Yes,
}

/// Why a condition cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// The parameter type does not exist, or no release of ShenYu implements it.
    #[error("unknown parameter type `{0}`")]
    ParameterType(String),
    /// The operator does not exist, or no release of ShenYu implements it.
    #[error("unknown operator `{0}`")]
    Operator(String),
    /// The expression language was removed from ShenYu.
    #[error("`{0}` conditions were removed in ShenYu 2.5; write them with other operators")]
    Removed(String),
    /// The parameter type, such as `header`, requires a name, which is missing.
    #[error("`paramName` is missing: `{0}` needs a name")]
    Name(String),
    /// The value to compare with is missing.
    #[error("`paramValue` is missing")]
    Value,
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error("the regular expression cannot be compiled: {0}")]
    Expression(#[from] ExpressionError),
    #[error("invalid time `{0}`: expected `yyyy-MM-dd HH:mm:ss`")]
    Time(String),
}

/// Compiled conditions of an object, with their combination.
#[derive(Debug)]
pub(super) struct Conditions {
    mode: MatchMode,
    list: Box<[Result<Condition, ConditionError>]>,
}

#[derive(Debug)]
struct Condition {
    parameter: Parameter,
    test: Test,
}

#[derive(Debug)]
enum Parameter {
    Uri,
    Header(Box<str>),
    Query(Box<str>),
    Cookie(Box<str>),
    Host,
    Ip,
    Domain,
    Method,
    Context(Box<str>),
}

#[derive(Debug)]
enum Test {
    Ant(AntPattern),
    NotAnt(AntPattern),
    Path(PathPattern),
    Equals(Box<str>),
    Expression(Regex),
    Contains(Box<str>),
    ContainsNot(Box<str>),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Time { order: TimeOrder, of_request: bool, limit: CivilTime },
    Blank,
}

#[derive(Debug, Clone, Copy)]
enum TimeOrder {
    Before,
    After,
}

/// Treatment of repeated slashes when an anchor is compared with a path. Ant patterns ignore empty
/// segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slashes {
    Counted,
    Collapsed,
}

impl Conditions {
    pub(super) fn compile(mode: MatchMode, list: &[model::Condition]) -> Self {
        Self { mode, list: list.iter().map(Condition::compile).collect() }
    }

    /// Lists the errors of conditions that did not compile, with their indices.
    pub(super) fn errors(&self) -> impl Iterator<Item = (usize, &ConditionError)> {
        let numbered = self.list.iter().enumerate();
        numbered.filter_map(|(at, condition)| Some((at, condition.as_ref().err()?)))
    }

    /// Returns the priority among matching objects: the highest wins.
    pub(super) fn score(&self) -> usize {
        match self.mode {
            MatchMode::And => self.list.len(),
            MatchMode::Or => 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn hold(&self, request: &dyn Request) -> Holds {
        let (mut all, decided) = match self.mode {
            MatchMode::And => (Holds::Yes, Holds::No),
            MatchMode::Or => (Holds::No, Holds::Yes),
        };
        for condition in &self.list {
            let holds = holds(condition, request);
            all = match self.mode {
                MatchMode::And => all.min(holds),
                MatchMode::Or => all.max(holds),
            };
            if all == decided {
                break;
            }
        }
        all
    }

    /// Returns the index of the first condition that does not hold.
    pub(super) fn first_failure(&self, request: &dyn Request) -> Option<usize> {
        self.list.iter().position(|condition| holds(condition, request) != Holds::Yes)
    }

    /// Whether the index alone decides: the only condition tests the path and is identical to its
    /// anchor.
    pub(super) fn are_decided_by_index(&self) -> bool {
        matches!(
            &*self.list,
            [Ok(Condition { parameter: Parameter::Uri, test: Test::Equals(text) | Test::StartsWith(text) })]
                if !is_blank(text)
        )
    }

    /// Returns the anchors (necessary starts of matching paths) under which the index lists the
    /// object; `None` if its conditions do not restrict the path.
    pub(super) fn anchors(&self) -> Option<Vec<(Anchor, Slashes)>> {
        let mut anchors =
            self.list.iter().map(|condition| condition.as_ref().ok().and_then(Condition::anchor));
        match self.mode {
            MatchMode::And => {
                let weight = |anchor: &(Anchor, Slashes)| match &anchor.0 {
                    Anchor::Exact(_) => usize::MAX,
                    Anchor::Prefix(text) => text.len(),
                };
                anchors.flatten().max_by_key(weight).map(|anchor| vec![anchor])
            }
            // Each of these conditions may match alone, so each needs an anchor.
            MatchMode::Or => anchors.by_ref().collect(),
        }
    }
}

fn holds(condition: &Result<Condition, ConditionError>, request: &dyn Request) -> Holds {
    condition.as_ref().map_or(Holds::Unknown, |condition| condition.holds(request))
}

/// Whether a text is empty or white space; stops at the first other character.
fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

impl Condition {
    fn compile(source: &model::Condition) -> Result<Self, ConditionError> {
        let parameter = Parameter::compile(source)?;
        let test = Test::compile(source, &parameter)?;
        Ok(Self { parameter, test })
    }

    fn holds(&self, request: &dyn Request) -> Holds {
        let value = self.parameter.value(request);
        let value = value.as_deref().filter(|value| !is_blank(value));
        match (value, &self.test) {
            (None, Test::Blank) => Holds::Yes,
            (None, _) | (Some(_), Test::Blank) => Holds::No,
            (Some(value), test) => test.holds(value, request),
        }
    }

    fn anchor(&self) -> Option<(Anchor, Slashes)> {
        if !matches!(self.parameter, Parameter::Uri) {
            return None;
        }
        match &self.test {
            Test::Ant(pattern) => Some((pattern.anchor()?, Slashes::Collapsed)),
            Test::Path(pattern) => Some((pattern.anchor()?, Slashes::Counted)),
            Test::Equals(text) => Some((Anchor::Exact(text.to_string()), Slashes::Counted)),
            Test::StartsWith(text) if !text.is_empty() => {
                Some((Anchor::Prefix(text.to_string()), Slashes::Counted))
            }
            Test::StartsWith(_)
            | Test::NotAnt(_)
            | Test::Expression(_)
            | Test::Contains(_)
            | Test::ContainsNot(_)
            | Test::EndsWith(_)
            | Test::Time { .. }
            | Test::Blank => None,
        }
    }
}

impl Parameter {
    fn compile(source: &model::Condition) -> Result<Self, ConditionError> {
        let name = || match source.param_name.as_deref().map(str::trim) {
            None | Some("") => Err(ConditionError::Name(source.param_type.clone())),
            Some(name) => Ok(Box::from(name)),
        };
        Ok(match source.param_type.as_str() {
            "uri" => Self::Uri,
            "header" => Self::Header(name()?),
            "query" => Self::Query(name()?),
            "cookie" => Self::Cookie(name()?),
            "host" => Self::Host,
            "ip" => Self::Ip,
            "domain" => Self::Domain,
            "req_method" => Self::Method,
            "post" => Self::Context(name()?),
            unknown => return Err(ConditionError::ParameterType(unknown.to_owned())),
        })
    }

    fn value<'a>(&self, request: &'a dyn Request) -> Option<Cow<'a, str>> {
        match self {
            Self::Uri => Some(Cow::Borrowed(request.path())),
            Self::Header(name) => request.header(name),
            Self::Query(name) => request.query(name),
            Self::Cookie(name) => request.cookie(name),
            Self::Host | Self::Ip => Some(Cow::Borrowed(request.client_ip())),
            Self::Domain => Some(Cow::Borrowed(request.domain())),
            Self::Method => Some(Cow::Borrowed(request.method())),
            Self::Context(field) => request.context(field),
        }
    }
}

impl Test {
    fn compile(source: &model::Condition, parameter: &Parameter) -> Result<Self, ConditionError> {
        let is_path = matches!(parameter, Parameter::Uri);
        let value = source.param_value.as_deref().map(str::trim).ok_or(ConditionError::Value);
        let text = || value.clone().map(Box::from);
        let time = |order| {
            let text = value.clone()?;
            let limit =
                CivilTime::parse(text).ok_or_else(|| ConditionError::Time(text.to_owned()))?;
            let of_request = source.param_name.as_deref().is_some_and(|name| !name.is_empty());
            Ok(Self::Time { order, of_request, limit })
        };
        Ok(match source.operator.as_str() {
            "match" if is_path => Self::Ant(AntPattern::compile(value?)?),
            "exclude" if is_path => Self::NotAnt(AntPattern::compile(value?)?),
            "pathPattern" if is_path => Self::Path(PathPattern::compile(value?)?),
            // For parameters other than the path, ShenYu's path operators mean only this.
            "match" | "pathPattern" | "contains" => Self::Contains(text()?),
            "exclude" => Self::ContainsNot(text()?),
            "=" => Self::Equals(text()?),
            "regex" => Self::Expression(expression::compile_whole(value?)?),
            "startsWith" => Self::StartsWith(text()?),
            "endsWith" => Self::EndsWith(text()?),
            "TimeBefore" => return time(TimeOrder::Before),
            "TimeAfter" => return time(TimeOrder::After),
            "isBlank" => Self::Blank,
            removed @ ("SpEL" | "Groovy") => {
                return Err(ConditionError::Removed(removed.to_owned()));
            }
            unknown => return Err(ConditionError::Operator(unknown.to_owned())),
        })
    }

    /// Tests a value that is not blank.
    fn holds(&self, value: &str, request: &dyn Request) -> Holds {
        let holds = match self {
            Self::Ant(pattern) => pattern.matches(value),
            Self::NotAnt(pattern) => !pattern.matches(value),
            Self::Path(pattern) => pattern.matches(value),
            Self::Equals(text) => &**text == value,
            Self::Expression(regex) => regex.is_match(value),
            Self::Contains(text) => value.contains(&**text),
            Self::ContainsNot(text) => !value.contains(&**text),
            Self::StartsWith(text) => value.starts_with(&**text),
            Self::EndsWith(text) => value.ends_with(&**text),
            Self::Time { order, of_request, limit } => {
                let time = match of_request {
                    true => CivilTime::parse(value.trim()),
                    false => Some(request.local_time()),
                };
                let Some(time) = time else { return Holds::Unknown };
                match order {
                    TimeOrder::Before => time < *limit,
                    TimeOrder::After => time > *limit,
                }
            }
            Self::Blank => false,
        };
        if holds { Holds::Yes } else { Holds::No }
    }
}
