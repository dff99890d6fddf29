//! Writing HTML so that what a result says can never become markup: tags, attribute names and raw
//! pieces are literals of this program, everything else is escaped on its way out.

use std::fmt::{self, Display, Write};

/// An attribute: its name, and a value that is escaped.
pub(super) type Attribute<'a> = (&'static str, &'a str);

/// A document, or a piece of one, being written.
#[derive(Debug, Default)]
pub(super) struct Html {
    out: String,
}

impl Html {
    /// Markup of this program, as it is.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.out.push_str(markup);
        self
    }

    /// Text, escaped.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.display(Escaped(text))
    }

    /// An opening tag.
    pub(super) fn open(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) -> &mut Self {
        self.out.push('<');
        self.out.push_str(tag);
        for (name, value) in attributes {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            self.display(Escaped(value));
            self.out.push('"');
        }
        self.out.push('>');
        self
    }

    /// A closing tag.
    pub(super) fn close(&mut self, tag: &'static str) -> &mut Self {
        self.out.push_str("</");
        self.out.push_str(tag);
        self.out.push('>');
        self
    }

    /// A whole element with text in it.
    pub(super) fn element(
        &mut self,
        tag: &'static str,
        attributes: &[Attribute<'_>],
        text: &str,
    ) -> &mut Self {
        self.open(tag, attributes).text(text).close(tag)
    }

    /// A heading, a new line before it so that the page's source can be read.
    pub(super) fn heading(&mut self, tag: &'static str, id: &str, text: &str) -> &mut Self {
        self.out.push('\n');
        self.element(tag, &[("id", id)], text)
    }

    /// Data for the page's script. JSON may hold `<` only within strings, where an escape is the same.
    pub(super) fn json(&mut self, id: &str, json: &str) -> &mut Self {
        self.out.push('\n');
        self.open("script", &[("type", "application/json"), ("id", id)]);
        self.out.push_str(&json.replace('<', "\\u003c"));
        self.close("script")
    }

    /// What was written.
    pub(super) fn into_string(self) -> String {
        self.out
    }

    fn display(&mut self, value: impl Display) -> &mut Self {
        // Writing to a string does not fail.
        let _ = write!(self.out, "{value}");
        self
    }
}

/// Text as HTML has to have it, in elements and in quoted attributes alike.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                // Not allowed in HTML, and some change the direction of the text around them.
                '\u{0}'..='\u{8}'
                | '\u{b}'..='\u{1f}'
                | '\u{7f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}' => out.write_char('\u{fffd}')?,
                _ => out.write_char(character)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_cannot_become_markup() {
        let mut html = Html::default();
        html.element("a", &[("title", "\" onclick='x'")], "<script>&\u{202e}\0");
        assert_eq!(
            html.into_string(),
            "<a title=\"&quot; onclick=&#39;x&#39;\">&lt;script&gt;&amp;\u{fffd}\u{fffd}</a>"
        );
    }

    #[test]
    fn data_cannot_end_its_script() {
        let mut html = Html::default();
        html.json("data", r#"{"name":"</script><!--"}"#);
        let written = html.into_string();
        assert_eq!(written.matches("</script>").count(), 1, "{written}");
        let inner = written.trim().trim_end_matches("</script>").split_once('>').expect("opened").1;
        let value: serde_json::Value = serde_json::from_str(inner).expect("still JSON");
        assert_eq!(value["name"], "</script><!--");
    }
}
