//! Check of texts when an object is written.

use std::sync::Arc;

use mlua::{Table, Value};

use crate::failure::Failure;
use crate::look::{MODULE, uses};
use crate::program::{Code, Loaded, Program};
use crate::state::Core;
use crate::world::World;

/// Length of one text, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Checks a program in a state of its own, and returns what `read` finds in it.
///
/// # Errors
/// If a text is invalid, or uses names or modules that scripts do not have.
pub(crate) fn check<T>(
    world: &Arc<World>,
    program: &Program,
    read: impl FnOnce(&Core, &Loaded) -> T,
) -> Result<T, Failure> {
    let core = Core::trial(world)?;
    let texts: Vec<&str> = match &program.code {
        Code::Functions { texts, .. } | Code::Chunks(texts) => {
            texts.iter().map(String::as_str).collect()
        }
        Code::Script(text) | Code::Expression(text) => vec![text],
        Code::Module(name) => {
            world.settings.sources.get(name).map(String::as_str).into_iter().collect()
        }
    };
    if texts.iter().any(|text| text.len() > TEXT_BYTES_MAX) {
        return Err(Failure::Error(format!("the text is longer than {TEXT_BYTES_MAX} bytes")));
    }
    for text in &texts {
        if text.as_bytes().first() == Some(&0x1b) {
            return Err(Failure::Error("bytecode cannot be loaded".to_owned()));
        }
        let source = match program.code {
            Code::Expression(_) => format!("return {text}"),
            _ => (*text).to_owned(),
        };
        // The syntax comes first, because its errors are Lua's own.
        core.load(&source, "").map_err(|failure| match (&program.code, failure) {
            (Code::Functions { .. }, Failure::Error(text)) => {
                Failure::Error(format!("failed to loadstring: {text}"))
            }
            (_, failure) => failure,
        })?;
        check_names(&core, world, &source)?;
    }
    let loaded = program.load(&core)?;
    Ok(read(&core, &loaded))
}

/// Refuses names and modules that scripts do not have.
pub(crate) fn check_names(core: &Core, world: &World, text: &str) -> Result<(), Failure> {
    let uses = uses(text);
    for module in &uses.modules {
        let own = module.strip_prefix("apisix.").unwrap_or(module);
        let is_known =
            core.modules.raw_get::<Value>(module.as_str()).is_ok_and(|it| it != Value::Nil)
                || world.settings.sources.contains_key(own);
        if !is_known {
            return Err(Failure::Error(format!(
                "module \"{module}\" is not available: docs/guides/lua.md lists the modules, and \
                 scripting.folder may hold modules of your own"
            )));
        }
    }
    for path in &uses.paths {
        if let Some(name) = missing(core, path) {
            return Err(Failure::Error(format!(
                "\"{name}\" is not available: docs/guides/lua.md lists what scripts have"
            )));
        }
    }
    Ok(())
}

/// Returns the part of a path that scripts do not have.
fn missing(core: &Core, path: &[String]) -> Option<String> {
    let get = |table: &Table, name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    let (mut node, start) = match path {
        [first, module, ..] if first == MODULE => match get(&core.modules, module) {
            Value::Nil => return None,
            found => (found, 2),
        },
        [first, ..] if first == "_G" => return None,
        [first, ..] => match get(&core.base, first) {
            Value::Nil => return Some(first.clone()),
            found => (found, 1),
        },
        [] => return None,
    };
    for (index, name) in path.iter().enumerate().skip(start) {
        let Value::Table(_) = &node else { return None };
        let Ok(Value::Table(contents)) = core.libraries.raw_get::<Value>(node) else { return None };
        node = get(&contents, name);
        if node == Value::Nil {
            let is_of_request = path[0] == "ngx" && matches!(name.as_str(), "status" | "ctx");
            let shown = if path[0] == MODULE { &path[1..=index] } else { &path[..=index] };
            return (!is_of_request).then(|| shown.join("."));
        }
    }
    None
}
