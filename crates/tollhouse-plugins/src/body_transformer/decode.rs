//! Bodies as documents: XML, JSON, forms and multipart forms.

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_model::body::multipart_fields;

use crate::shared::messages::request_document::{query_document, text};

/// Largest number of values in a document. A value takes up to a hundred times its bytes.
const VALUES_MAX: usize = 100_000;

/// Largest depth of an XML document.
const DEPTH_MAX: usize = 100;

/// Largest number of attributes of an element. The reader compares each with all others.
const ATTRIBUTES_MAX: usize = 1_000;

/// Key of the text of an element that has attributes or elements too.
const OWN_TEXT: &str = "1";

/// Format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InputFormat {
    /// XML; repeated elements become a list, and prefixes of names are dropped.
    Xml,
    Json,
    /// Form.
    Encoded,
    /// Arguments of the request; the body is not decoded.
    Args,
    /// Text, only available as `_body`.
    Plain,
    Multipart,
}

impl InputFormat {
    /// Returns the format that a `Content-Type` stands for.
    pub(super) fn named(content_type: &[u8]) -> Option<Self> {
        let kind = text(content_type).to_ascii_lowercase();
        [
            ("text/xml", Self::Xml),
            ("application/json", Self::Json),
            ("application/x-www-form-urlencoded", Self::Encoded),
            ("multipart/", Self::Multipart),
        ]
        .into_iter()
        .find_map(|(part, format)| kind.contains(part).then_some(format))
    }

    /// Decodes a body. `arguments` is the query of the request.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn decode(
        self,
        body: &[u8],
        content_type: &[u8],
        arguments: Option<&[u8]>,
    ) -> Result<Value, String> {
        match self {
            Self::Args => Ok(query_document(arguments)),
            Self::Plain => Ok(json!({})),
            Self::Encoded => Ok(query_document(Some(body))),
            Self::Json => decode_json(body),
            Self::Xml => decode_xml(body),
            Self::Multipart => decode_multipart(body, content_type),
        }
    }
}

fn decode_json(body: &[u8]) -> Result<Value, String> {
    if body.iter().filter(|byte| b",[{".contains(byte)).count() > VALUES_MAX {
        return Err(format!("more than {VALUES_MAX} values"));
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn decode_multipart(body: &[u8], content_type: &[u8]) -> Result<Value, String> {
    let mut document = Map::new();
    for (count, (name, value)) in multipart_fields(body, content_type).enumerate() {
        if count >= VALUES_MAX {
            return Err(format!("more than {VALUES_MAX} fields"));
        }
        insert(&mut document, text(name).into_owned(), text(value).into());
    }
    Ok(Value::Object(document))
}

/// Element whose end has not been read.
struct Open {
    name: String,
    children: Map<String, Value>,
    text: String,
}

impl Open {
    fn named(name: &str) -> Self {
        // The prefix is that of a namespace.
        let name = name.rsplit(':').next().unwrap_or(name).to_owned();
        Self { name, children: Map::new(), text: String::new() }
    }

    /// Returns the value of the complete element: a text unless it has attributes or elements.
    fn value(mut self) -> Value {
        let text = self.text.trim();
        if self.children.is_empty() {
            return text.into();
        }
        if !text.is_empty() {
            self.children.insert(OWN_TEXT.into(), text.into());
        }
        Value::Object(self.children)
    }
}

fn decode_xml(body: &[u8]) -> Result<Value, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("Error Parsing XML: {reason}");
    let body = std::str::from_utf8(body).map_err(|error| failed(&error))?;
    let mut reader = Reader::from_str(body);
    let mut open = vec![Open::named("")];
    let mut count = 0;
    loop {
        let event = reader.read_event().map_err(|error| failed(&error))?;
        count += 1;
        if count > VALUES_MAX || open.len() > DEPTH_MAX {
            return Err(failed(&"too many elements"));
        }
        let Some(top) = open.last_mut() else { return Err(failed(&"unbalanced elements")) };
        match event {
            Event::Start(tag) => open.push(element(&tag, &mut count).map_err(|reason| failed(&reason))?),
            Event::Empty(tag) => {
                let element = element(&tag, &mut count).map_err(|reason| failed(&reason))?;
                insert(&mut top.children, element.name.clone(), element.value());
            }
            Event::End(_) => {
                let element = open.pop().filter(|_| !open.is_empty());
                let element = element.ok_or_else(|| failed(&"unbalanced elements"))?;
                if let Some(top) = open.last_mut() {
                    insert(&mut top.children, element.name.clone(), element.value());
                }
            }
            Event::Text(text) => top.text.push_str(&text.xml_content(XmlVersion::Implicit1_0)),
            Event::CData(text) => top.text.push_str(&text.xml_content(XmlVersion::Implicit1_0)),
            Event::GeneralRef(entity) => match entity.resolve_char_ref() {
                Ok(Some(character)) => top.text.push(character),
                _ => {
                    let known = quick_xml::escape::resolve_predefined_entity(&entity);
                    top.text.push_str(known.ok_or_else(|| failed(&"unknown entity"))?);
                }
            },
            Event::Eof => break,
            _ => {}
        }
    }
    match (open.pop(), open.pop()) {
        (Some(root), None) if !root.children.is_empty() && root.text.trim().is_empty() => {
            Ok(Value::Object(root.children))
        }
        _ => Err(failed(&"no complete root element")),
    }
}

/// Decodes the tag of an element, and adds its attributes to the number of values.
fn element(tag: &BytesStart<'_>, count: &mut usize) -> Result<Open, String> {
    let mut element = Open::named(tag.name().into_inner());
    let mut attributes = Map::new();
    for attribute in tag.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        *count += 1;
        if *count > VALUES_MAX || attributes.len() >= ATTRIBUTES_MAX {
            return Err("too many attributes".into());
        }
        let value = attribute.normalized_value(XmlVersion::Implicit1_0);
        let value = value.map_err(|error| error.to_string())?;
        let name = attribute.key.into_inner();
        let name = name.rsplit(':').next().unwrap_or(name);
        attributes.insert(name.to_owned(), value.into_owned().into());
    }
    if !attributes.is_empty() {
        element.children.insert("_attr".into(), Value::Object(attributes));
    }
    Ok(element)
}

/// Adds a field; repeated ones become a list.
fn insert(fields: &mut Map<String, Value>, name: String, value: Value) {
    match fields.get_mut(&name) {
        None => drop(fields.insert(name, value)),
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}
