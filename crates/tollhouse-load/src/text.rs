//! Serde modules for durations in plans and results. Configured durations are texts; measured times
//! are integers of nanoseconds.

/// A `Duration` as text such as `30s`, for `#[serde(with = "…")]`.
pub(crate) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&tollhouse_stdx::fine_duration::format(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        tollhouse_stdx::fine_duration::parse(&text).map_err(D::Error::custom)
    }
}

/// Serde functions for an optional duration as text.
pub(crate) mod optional_duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::duration::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| tollhouse_stdx::fine_duration::parse(&text).map_err(D::Error::custom))
            .transpose()
    }
}
