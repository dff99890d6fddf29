//! Limits of database columns, so that texts and numbers that do not fit are refused before
//! writing, with the name of the column. The caller queries the database for the limits.

use super::record::Cell;

/// Maximum that a column's type imposes on its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Limit {
    #[default]
    Unknown,
    Text {
        chars: u64,
        bytes: u64,
    },
    /// Numbers from zero to this maximum.
    Number(i64),
}

impl Limit {
    /// Returns the limit of a column of this type; `chars` and `bytes` are the maximum lengths of a
    /// text.
    pub(super) fn from_type(data_type: &str, chars: Option<u64>, bytes: Option<u64>) -> Self {
        match (data_type, chars, bytes) {
            ("tinyint", ..) => Self::Number(i8::MAX.into()),
            ("smallint", ..) => Self::Number(i16::MAX.into()),
            ("int", ..) => Self::Number(i32::MAX.into()),
            (_, Some(chars), Some(bytes)) => Self::Text { chars, bytes },
            _ => Self::Unknown,
        }
    }

    /// Returns why a cell exceeds the limit; `None` if it fits.
    pub(super) fn misfit(self, name: &str, cell: &Cell) -> Option<String> {
        match (self, cell) {
            (Self::Text { chars, bytes }, Cell::Text(text)) => {
                let is_longer = text.chars().count() as u64 > chars || text.len() as u64 > bytes;
                is_longer.then(|| {
                    format!(
                        "its {name} is longer than the {chars} characters that the database takes"
                    )
                })
            }
            (Self::Number(max), Cell::Number(number)) if *number > max => {
                Some(format!("its {name} is {number}, and the database takes {max} at most"))
            }
            _ => None,
        }
    }
}
