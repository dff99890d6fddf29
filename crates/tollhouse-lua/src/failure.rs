//! Failures of scripts, and the texts of Lua's errors.

/// Why a function has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the script ran too long without a wait; the limit is 4 ms of processor time")]
    Limit,
    #[error("the script has used up the memory of its core (scripting.memory)")]
    Memory,
    #[error("{0}")]
    Error(String),
}

/// Classifies an error of Lua; one of memory may be only a text, if a script passed it on.
pub(crate) fn failure_of(error: &mlua::Error) -> Failure {
    match error {
        mlua::Error::MemoryError(_) => Failure::Memory,
        mlua::Error::CallbackError { cause, .. } => failure_of(cause),
        other => {
            let text = text_of(other);
            if text.ends_with("not enough memory") { Failure::Memory } else { Failure::Error(text) }
        }
    }
}

/// Returns the first line of an error, without the name of its kind.
pub(crate) fn text_of(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return text_of(cause),
        mlua::Error::RuntimeError(text) | mlua::Error::MemoryError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}
