//! What the columns of a database can hold: longer texts and larger numbers are refused beforehand, by name.
//! Asking the database for them is the caller's.

use super::record::Cell;

/// What a column can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Limit {
    /// Nothing is known of it.
    #[default]
    Unknown,
    Text {
        chars: u64,
        bytes: u64,
    },
    /// Numbers from zero to this one.
    Number(i64),
}

impl Limit {
    /// The limit of a column with this type, and as many characters and bytes.
    pub(super) fn from_type(data_type: &str, chars: Option<u64>, bytes: Option<u64>) -> Self {
        match (data_type, chars, bytes) {
            ("tinyint", ..) => Self::Number(i8::MAX.into()),
            ("smallint", ..) => Self::Number(i16::MAX.into()),
            ("int", ..) => Self::Number(i32::MAX.into()),
            (_, Some(chars), Some(bytes)) => Self::Text { chars, bytes },
            _ => Self::Unknown,
        }
    }

    /// What a cell is too much for.
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
