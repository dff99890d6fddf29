//! Fields of an `Authorization: Signature …` header.

/// Known fields of the header; absent ones are `None`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fields<'h> {
    /// Name of the signing key.
    pub key_id: Option<&'h [u8]>,
    pub algorithm: Option<&'h [u8]>,
    /// Signature, encoded in base64.
    pub signature: Option<&'h [u8]>,
    headers: Option<&'h [u8]>,
}

impl<'h> Fields<'h> {
    /// Parses a header; `None` if it has another scheme. Unknown fields are ignored. Of two fields
    /// with one name, the last counts.
    pub fn parse(header: &'h [u8]) -> Option<Self> {
        let rest = header.strip_prefix(b"Signature")?;
        let mut fields = Self::default();
        for (name, value) in rest.split(|&byte| byte == b',').filter_map(name_and_value) {
            match name {
                b"keyId" => fields.key_id = Some(value),
                b"algorithm" => fields.algorithm = Some(value),
                b"signature" => fields.signature = Some(value),
                b"headers" => fields.headers = Some(value),
                _ => {}
            }
        }
        Some(fields)
    }

    /// Returns the names of the signed headers, in order.
    pub fn headers(&self) -> impl Iterator<Item = &'h [u8]> {
        let names = self.headers.unwrap_or_default().split(|&byte| byte == b' ');
        names.filter(|name| !name.is_empty())
    }
}

/// Extracts `name="value"`; surrounding text is ignored.
fn name_and_value(field: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = field.windows(2).position(|window| window == b"=\"")?;
    let before = &field[..equals];
    let starts = before.iter().rposition(|byte| !byte.is_ascii_alphanumeric());
    let name = &before[starts.map_or(0, |at| at + 1)..];
    let value = &field[equals + 2..];
    let ends = value.iter().position(|&byte| byte == b'"')?;
    Some((name, &value[..ends]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed_text(header: &str) -> Option<String> {
        let fields = Fields::parse(header.as_bytes())?;
        let text =
            |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or(b"-")).into_owned();
        let headers: Vec<String> = fields.headers().map(|name| text(Some(name))).collect();
        let (key, algorithm) = (text(fields.key_id), text(fields.algorithm));
        Some(format!("{key} {algorithm} {} {}", text(fields.signature), headers.join("|")))
    }

    #[test]
    fn fields_are_found_in_any_order_and_with_any_spaces() {
        for (header, expected) in [
            (
                r#"Signature keyId="k",algorithm="a",headers="@request-target date",signature="s=""#,
                Some("k a s= @request-target|date"),
            ),
            (r#"Signature signature="s" , keyId="k", algorithm="a""#, Some("k a s ")),
            (r#"Signature  keyId="k",x="y",keyId="l""#, Some("l - - ")),
            (r#"Signature keyId=k,headers="a  b""#, Some("- - - a|b")),
            (r#"SignaturekeyId="k""#, Some("k - - ")),
            ("Signature", Some("- - - ")),
            (r#"Signature keyId="k"#, Some("- - - ")),
            (r#"signature keyId="k""#, None),
            ("Basic x", None),
            ("", None),
        ] {
            assert_eq!(parsed_text(header).as_deref(), expected, "{header}");
        }
    }
}
