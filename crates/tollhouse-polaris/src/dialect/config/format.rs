//! Check of a content against the format that its file declares, before it is published.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use tollhouse_stdx::yaml::{self, Bounds};

use crate::code::Code;
use crate::failure::Failure;

/// Limits of a YAML document, far above those of files that people write. Aliases may not multiply
/// a document, because its readers have bounds too.
pub(super) const YAML_BOUNDS: Bounds =
    Bounds { parts_max: 500_000, depth_max: 128, aliases_max: 10_000, aliased_parts_max: 500_000 };

/// Treatment of a content that does not parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormatCheck {
    Refuse,
    /// The caller publishes the content all the same.
    Forced,
}

impl FormatCheck {
    /// Refuses a content that its readers could not parse. Formats that are not known here, and
    /// those in which any text is valid, accept everything.
    pub(super) fn check(self, format: &str, content: &str) -> Result<(), Failure> {
        let reason = match (self, format.to_ascii_lowercase().as_str()) {
            (Self::Forced, _) => None,
            (Self::Refuse, "json") => invalid_json(content),
            (Self::Refuse, "yaml" | "yml") => invalid_yaml(content),
            (Self::Refuse, "xml") => invalid_xml(content),
            (Self::Refuse, _) => None,
        };
        match reason {
            Some(reason) => {
                let text =
                    format!("the content is not {format}: {reason}; force=true publishes it");
                Err(Failure::with(Code::InvalidConfigFileFormat, text))
            }
            None => Ok(()),
        }
    }
}

fn invalid_json(content: &str) -> Option<String> {
    if content.trim().is_empty() {
        return None;
    }
    serde_json::from_str::<serde::de::IgnoredAny>(content).err().map(|error| error.to_string())
}

/// Checks that elements are closed in their order, that there is one root, and that attributes are
/// written as pairs. A DTD is passed over; nothing is expanded.
fn invalid_xml(content: &str) -> Option<String> {
    if content.trim().is_empty() {
        return None;
    }
    let mut reader = Reader::from_str(content);
    let (mut depth, mut roots) = (0_usize, 0_usize);
    loop {
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(error) => return Some(format!("{error} at byte {}", reader.error_position())),
        };
        if let Event::Start(tag) | Event::Empty(tag) = &event
            && let Some(error) = invalid_attribute(tag)
        {
            return Some(format!("{error} before byte {}", reader.buffer_position()));
        }
        match event {
            Event::Start(_) => {
                roots += usize::from(depth == 0);
                depth += 1;
            }
            Event::Empty(_) => roots += usize::from(depth == 0),
            Event::End(_) => depth -= 1,
            Event::Text(text) if depth == 0 && !text.trim_ascii().is_empty() => {
                return Some("text outside of the root element".to_owned());
            }
            Event::Eof if depth > 0 => return Some("an element is not closed".to_owned()),
            Event::Eof if roots != 1 => return Some(format!("{roots} root elements")),
            Event::Eof => return None,
            _ => {}
        }
    }
}

fn invalid_attribute(tag: &BytesStart<'_>) -> Option<String> {
    tag.attributes().find_map(|attribute| attribute.err().map(|error| error.to_string()))
}

/// A file of Spring may hold several documents, each with its profile.
fn invalid_yaml(content: &str) -> Option<String> {
    documents(content).find_map(|(line, document)| {
        let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if document.lines().all(is_empty) {
            return None;
        }
        // Empty lines in the place of the earlier documents, so that the error names the line of
        // the file.
        let document = "\n".repeat(line) + document;
        let parsed = yaml::parse_yaml_1_1::<serde::de::IgnoredAny>(&document, YAML_BOUNDS);
        parsed.err().map(|error| error.to_string())
    })
}

/// Splits a stream at the lines that begin a document; each has the number of lines before it. A line of three dashes within a block of
/// text would be one as well to YAML, unless it is indented.
fn documents(content: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_start = |line: &str| line.trim_end() == "---" || line.starts_with("--- ");
    let mut starts = vec![(0, 0)];
    let mut place = 0;
    for (number, line) in content.split_inclusive('\n').enumerate() {
        if is_start(line) {
            starts.push((number, place));
        }
        place += line.len();
    }
    starts.push((0, content.len()));
    (1..starts.len()).map(move |end| {
        let (line, start) = starts[end - 1];
        (line, &content[start..starts[end].1])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_line_of_the_file() {
        for (format, content, line) in [
            ("yaml", "a: 1\n---\nb: 2\nc: [\n", "line 4"),
            ("yaml", "a: 1\nb: c: d\n", "line 2"),
            ("json", "{\n\"a\": 1,\n}", "line 3"),
        ] {
            let refused = FormatCheck::Refuse.check(format, content).expect_err("it is invalid");
            let text = refused.detail.unwrap_or_default();
            assert!(text.contains(line), "{content:?}: {text}");
        }
    }

    #[test]
    fn contents_are_checked_by_their_format() {
        for (format, content, is_valid) in [
            ("json", "{\"a\": [1, 2]}", true),
            ("json", "{a: 1}", false),
            ("JSON", "{", false),
            ("json", " ", true),
            ("yaml", "a: {b: [1, 2]}\n", true),
            ("yaml", "a: [1, 2\n", false),
            ("yml", "a: b: c\n", false),
            ("yaml", "", true),
            ("yaml", "# nothing yet\n", true),
            ("yaml", "a: 1\n---\nb: 2\n", true),
            ("yaml", "a: 1\n---\nb: [\n", false),
            ("yaml", "---\na: 1\n", true),
            ("yaml", "a: 1\na: 2\n", false),
            ("properties", "a=1", true),
            ("text", "{", true),
            ("xml", "<?xml version=\"1.0\"?>\n<!-- c --><a b='1'><c/>text</a>\n", true),
            ("xml", "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", true),
            ("xml", "", true),
            ("xml", "<a>", false),
            ("xml", "<a></b>", false),
            ("xml", "</a>", false),
            ("xml", "<a/><b/>", false),
            ("xml", "<a b=1/>", false),
            ("xml", "<a b='1' b='2'/>", false),
            ("xml", "text", false),
            ("", "{", true),
        ] {
            let refused = FormatCheck::Refuse.check(format, content);
            assert_eq!(refused.is_ok(), is_valid, "{format} {content:?}: {refused:?}");
            assert_eq!(FormatCheck::Forced.check(format, content), Ok(()));
        }
        let refused = FormatCheck::Refuse.check("json", "{").map_err(|failure| failure.code);
        assert_eq!(refused, Err(Code::InvalidConfigFileFormat));
    }
}
