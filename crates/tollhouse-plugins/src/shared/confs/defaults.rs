//! What fields of confs are where a conf does not say: serde asks for a function by its name.

/// Functions that give a field's value, a line each.
macro_rules! defaults {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[$doc])* fn $name() -> $type {
            $value
        })+
    };
}

pub(crate) use defaults;

/// For a switch that is on unless a conf says otherwise.
pub(crate) fn default_true() -> bool {
    true
}
