//! HTML writer that prevents injection: tags, attribute names and raw markup are literals of this
//! program; everything else is escaped.

use std::fmt::{self, Display, Write};

/// Attribute: name and value; the value is escaped.
pub(super) type Attribute<'a> = (&'static str, &'a str);

/// HTML document or fragment under construction.
#[derive(Debug, Default)]
pub(super) struct Html {
    out: String,
}

impl Html {
    /// Appends markup without escaping; only literals, so that no input is markup.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.out.push_str(markup);
        self
    }

    /// Appends text with `<`, `>`, `&` and quotes escaped.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.display(Escaped(text))
    }

    /// Appends an opening tag with escaped attribute values.
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

    pub(super) fn close(&mut self, tag: &'static str) -> &mut Self {
        self.out.push_str("</");
        self.out.push_str(tag);
        self.out.push('>');
        self
    }

    /// Appends an element that contains only text, escaped.
    pub(super) fn element(
        &mut self,
        tag: &'static str,
        attributes: &[Attribute<'_>],
        text: &str,
    ) -> &mut Self {
        self.open(tag, attributes).text(text).close(tag)
    }

    /// Appends a heading on a new line, for a readable page source.
    pub(super) fn heading(&mut self, tag: &'static str, id: &str, text: &str) -> &mut Self {
        self.out.push('\n');
        self.element(tag, &[("id", id)], text)
    }

    /// Opens a section that is folded behind its heading; [`end_fold`](Self::end_fold) closes it.
    pub(super) fn fold(&mut self, id: &str, text: &str) -> &mut Self {
        self.raw("\n").open("details", &[("class", "fold")]).open("summary", &[]);
        self.element("h2", &[("id", id)], text).close("summary");
        self.open("section", &[("aria-labelledby", id)])
    }

    pub(super) fn end_fold(&mut self) -> &mut Self {
        self.close("section").close("details")
    }

    /// Appends JSON data for the page's script. In JSON, `<` occurs only within strings, so that it
    /// can be escaped.
    pub(super) fn json(&mut self, id: &str, json: &str) -> &mut Self {
        self.out.push('\n');
        self.open("script", &[("type", "application/json"), ("id", id)]);
        self.out.push_str(&json.replace('<', "\\u003c"));
        self.close("script")
    }

    pub(super) fn into_string(self) -> String {
        self.out
    }

    fn display(&mut self, value: impl Display) -> &mut Self {
        // Writing to a string does not fail.
        let _ = write!(self.out, "{value}");
        self
    }
}

/// Text escaped for HTML elements and quoted attributes.
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
                // Characters that HTML forbids, or that change the direction of surrounding text.
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
