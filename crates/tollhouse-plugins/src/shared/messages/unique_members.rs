//! JSON whose objects have no member twice.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Parses any JSON value and keeps nothing of it.
///
/// # Errors
/// If an object has a member twice.
pub(crate) struct UniqueMembers;

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Members)
    }
}

struct Members;

macro_rules! scalars {
    ($($visit:ident $kind:ty),*) => {$(
        fn $visit<E: Error>(self, _: $kind) -> Result<UniqueMembers, E> {
            Ok(UniqueMembers)
        }
    )*};
}

impl<'de> Visitor<'de> for Members {
    type Value = UniqueMembers;

    scalars!(visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64, visit_str &str);

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<UniqueMembers, E> {
        Ok(UniqueMembers)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<UniqueMembers, A::Error> {
        while items.next_element::<UniqueMembers>()?.is_some() {}
        Ok(UniqueMembers)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<UniqueMembers, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            members.next_value::<UniqueMembers>()?;
            if let Some(name) = names.replace(name) {
                return Err(A::Error::custom(format!("member \"{name}\" is repeated")));
            }
        }
        Ok(UniqueMembers)
    }
}
