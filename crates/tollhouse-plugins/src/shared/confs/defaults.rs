//! Default values of configuration fields. Serde takes each as the name of a function.

/// Defines functions that return a default value, one per line.
macro_rules! defaults {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[$doc])* fn $name() -> $type {
            $value
        })+
    };
}

pub(crate) use defaults;

/// Returns `true`, the default of switches that are on.
pub(crate) fn default_true() -> bool {
    true
}
