//! Plugin `keyAuth`: admits requests with a key in a header or query parameter.

use std::fmt;

use tollhouse_plugin::Identity;

use crate::plugin::prelude::*;
use crate::shared::form;
use crate::shared::secret::equal;

/// Key that requests must present in a header or query parameter.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyAuthRule {
    /// Name of the header and of the query parameter.
    #[serde(deserialize_with = "lenient::or_default")]
    pub key_name: String,
    #[serde(deserialize_with = "lenient::or_default")]
    key: String,
}

impl fmt::Debug for KeyAuthRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "KeyAuthRule({}, ***)", self.key_name)
    }
}

impl KeyAuthRule {
    /// Reads a rule's handle.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        handle::read(handle)
    }

    /// Checks the values of a request's header and query parameter [`Self::key_name`]: either must
    /// equal the key.
    pub fn check(&self, header: Option<&str>, query: Option<&str>) -> Result<(), Answer> {
        if self.key_name.trim().is_empty() || self.key.trim().is_empty() {
            return Err(Answer::KeyAuthUnconfigured);
        }
        let (header, query) = (header.unwrap_or_default(), query.unwrap_or_default());
        // Both are compared, so that the duration does not reveal which one matched.
        match equal(header, &self.key) | equal(query, &self.key) {
            true => Ok(()),
            false => Err(Answer::KeyIncorrect),
        }
    }
}

impl ShenyuPlugin for KeyAuthRule {
    const ROW: Row = Row::protecting("keyAuth", 150).with(Seed::new("40", "Authentication"));

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self::read(place.handle())?.into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(Self::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        let header = run.cx.header(&self.key_name);
        let header = header.as_ref().map(|value| String::from_utf8_lossy(value));
        let parameters = run.turn.query().map(form::parameters).unwrap_or_default();
        let query = parameters.iter().find(|(name, _)| *name == self.key_name);
        let is_missing = header.is_none() && query.is_none();
        let checked = self.check(header.as_deref(), query.map(|(_, value)| &**value));
        if checked.is_ok() {
            // A rule has a single key, so all clients with the key share one identity.
            let name = self.key_name.as_bytes();
            run.cx.note_identity(Identity { by: "keyAuth", name, grant: b"" });
        }
        match checked {
            Err(Answer::KeyIncorrect) if is_missing => {
                Verdict::Unauthenticated(Answer::KeyIncorrect)
            }
            checked => checked.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_in_the_header_and_in_the_query() {
        let rule =
            KeyAuthRule::read(Some(r#"{"keyName":"apiKey","key":"k1"}"#)).unwrap_or_default();
        assert_eq!(rule.key_name, "apiKey");
        let cases = [
            (Some("k1"), None, Ok(())),
            (None, Some("k1"), Ok(())),
            (Some(" "), Some("k1"), Ok(())),
            (Some("k2"), Some("k1"), Ok(())),
            (Some("k2"), Some("k2"), Err(Answer::KeyIncorrect)),
            (None, Some("k11"), Err(Answer::KeyIncorrect)),
            (None, None, Err(Answer::KeyIncorrect)),
        ];
        for (header, query, expected) in cases {
            assert_eq!(rule.check(header, query), expected, "{header:?} {query:?}");
        }
        for handle in [None, Some("{}"), Some(r#"{"keyName":"apiKey","key":""}"#)] {
            let checked = KeyAuthRule::read(handle).map(|rule| rule.check(Some(""), Some("")));
            assert_eq!(checked, Ok(Err(Answer::KeyAuthUnconfigured)));
        }
        assert!(KeyAuthRule::read(Some(r#"["apiKey","k1"]"#)).is_err());
    }
}
