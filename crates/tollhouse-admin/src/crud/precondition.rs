//! Conditional writes. `If-Match`: the write happens only if the object is still the one that its
//! author has read, so that the second of two editors learns of the first. A tag is the object's
//! `modifiedIndex` in quotes. `If-None-Match: *`: the write creates an object and replaces none.
//!
//! Source: RFC 9110 §8.8.3 (tags), §13.1.1 (`If-Match`), §13.1.2 (`If-None-Match`), §13.2.2
//! (evaluation and responses).

use hyper::StatusCode;
use hyper::header::{ETAG, HeaderMap, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use serde_json::json;
use tollhouse_store::{Entry, Revision};

use super::read;
use super::request::Request;
use crate::context::Admin;
use crate::reply::Reply;

/// Condition of a call on the current state of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Precondition {
    Unconditional,
    Absent,
    Exists,
    /// The object must have one of these revisions. Weak and unparsable tags are omitted, because
    /// they match nothing.
    ModifiedAt(Vec<Revision>),
}

impl Precondition {
    /// Parses the headers of a call; several `If-Match` lines form one list.
    ///
    /// # Errors
    /// Returns 400 if a header is invalid, so that a write that was meant to be conditional is not
    /// made unconditionally.
    pub(super) fn parse(headers: &HeaderMap) -> Result<Self, Reply> {
        let mut lines = headers.get_all(IF_MATCH).into_iter().peekable();
        let mut others = headers.get_all(IF_NONE_MATCH).into_iter();
        if let Some(line) = others.next() {
            let is_any = line.to_str().is_ok_and(|text| text.trim() == "*");
            let is_alone = others.next().is_none() && lines.peek().is_none();
            return if is_any && is_alone { Ok(Self::Absent) } else { Err(only_any()) };
        }
        if lines.peek().is_none() {
            return Ok(Self::Unconditional);
        }
        let mut revisions = Vec::new();
        let mut has_tag = false;
        for line in lines {
            let text = line.to_str().map_err(|_| malformed())?.trim();
            if text == "*" {
                return Ok(Self::Exists);
            }
            for tag in text.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
                has_tag = true;
                revisions.extend(parse_tag(tag)?);
            }
        }
        if has_tag { Ok(Self::ModifiedAt(revisions)) } else { Err(malformed()) }
    }

    /// Whether the current object, or its absence, satisfies the condition.
    fn admits(&self, entry: Option<&Entry>) -> bool {
        match (self, entry) {
            (Self::Unconditional, _) | (Self::Exists, Some(_)) | (Self::Absent, None) => true,
            (Self::ModifiedAt(revisions), Some(entry)) => revisions.contains(&entry.mod_revision),
            (Self::Exists | Self::ModifiedAt(_), None) | (Self::Absent, Some(_)) => false,
        }
    }

    /// Checks the condition.
    ///
    /// # Errors
    /// Returns 412, with the current object.
    pub(super) fn check_entry(
        &self,
        admin: &Admin,
        request: &Request<'_>,
        entry: Option<&Entry>,
    ) -> Result<(), Reply> {
        match (self.admits(entry), self) {
            (true, _) => Ok(()),
            (false, Self::Absent) => Err(already_there(request)),
            (false, _) => Err(failed(admin, request, entry)),
        }
    }
}

/// Adds the object's tag (`ETag`) to a reply; `revision` is that of the object's last change.
pub(super) fn with_tag(reply: Reply, revision: Revision) -> Reply {
    match HeaderValue::from_str(&format!("\"{}\"", revision.0)) {
        Ok(tag) => reply.with(ETAG, tag),
        Err(_) => reply,
    }
}

/// Parses a tag as a revision; `None` if the tag is weak or not one of this API.
fn parse_tag(tag: &str) -> Result<Option<Revision>, Reply> {
    let (is_weak, opaque) = tag.strip_prefix("W/").map_or((false, tag), |opaque| (true, opaque));
    let quoted = opaque.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let text = quoted.filter(|text| !text.contains('"')).ok_or_else(malformed)?;
    let number = text.parse::<u64>().ok().filter(|number| number.to_string() == text);
    Ok(number.filter(|_| !is_weak).map(Revision))
}

fn only_any() -> Reply {
    Reply::bad("If-None-Match is for new objects, takes * alone, and goes without If-Match")
}

fn already_there(request: &Request<'_>) -> Reply {
    let kind = request.resource.kind;
    let text =
        format!("this id is taken by another {kind}; choose a free one, or change that object");
    Reply::refusal(StatusCode::PRECONDITION_FAILED, text)
}

fn malformed() -> Reply {
    Reply::bad(
        "If-Match is not a list of tags; send the object's modifiedIndex in quotes, as in If-Match: \"12\"",
    )
}

pub(super) fn failed(admin: &Admin, request: &Request<'_>, entry: Option<&Entry>) -> Reply {
    let status = StatusCode::PRECONDITION_FAILED;
    let Some(entry) = entry else {
        return Reply::refusal(status, "the object that If-Match asks for is not there");
    };
    let index = entry.mod_revision.0;
    let text = format!(
        "the object was changed since it was read; bring your change into the present one, and send its \
         modifiedIndex: If-Match: \"{index}\""
    );
    let current = read::present(admin, request, entry);
    with_tag(
        Reply::json(status, &json!({"error_msg": text, "current": current})),
        entry.mod_revision,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_revisions_in_quotes() {
        let at = |numbers: &[u64]| {
            Some(Precondition::ModifiedAt(numbers.iter().copied().map(Revision).collect()))
        };
        let table: [(&[&str], Option<Precondition>); 14] = [
            (&[], Some(Precondition::Unconditional)),
            (&["*"], Some(Precondition::Exists)),
            (&["\"12\""], at(&[12])),
            (&["\"1\", \"2\" ,\"3\""], at(&[1, 2, 3])),
            (&["\"1\"", "\"2\""], at(&[1, 2])),
            (&[",\"1\","], at(&[1])),
            (&["W/\"12\""], at(&[])),
            (&["\"012\""], at(&[])),
            (&["\"+1\""], at(&[])),
            (&["\"abc\", \"7\""], at(&[7])),
            (&["12"], None),
            (&[""], None),
            (&["\"1"], None),
            (&["\"1\" \"2\""], None),
        ];
        for (lines, expected) in table {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(IF_MATCH, line.parse().expect("it is a value"));
            }
            assert_eq!(Precondition::parse(&headers).ok(), expected, "{lines:?}");
        }
    }
}
