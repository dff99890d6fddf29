//! Values of a finished request as a list, for lines that are rare or lack most values. They need not
//! compute values on demand.

use super::variable::{Source, Value, Variable};

/// Values of one line. Variables outside the list are written as absent, except the time.
#[derive(Debug, Clone, Copy)]
pub struct ListedValues<'a> {
    /// End of the request, in milliseconds since 1970.
    pub unix_ms: u64,
    pub values: &'a [(Variable, Value<'a>)],
}

impl Source for ListedValues<'_> {
    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn value(&self, variable: Variable) -> Value<'_> {
        match variable {
            Variable::TimeLocal => Value::TimeLocal,
            Variable::TimeIso8601 => Value::TimeIso8601,
            Variable::Msec => Value::Seconds(self.unix_ms),
            _ => {
                let listed = self.values.iter().find(|(known, _)| *known == variable);
                listed.map_or(Value::Nothing, |(_, value)| *value)
            }
        }
    }
}
