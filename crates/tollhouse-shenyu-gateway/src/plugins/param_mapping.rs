//! Plugin `paramMapping`: changes members of a JSON body, or parameters of a form.

use tollhouse_plugin::RequestContext;

use crate::plugin::prelude::*;
use crate::shared::edits::{BodyEdit, BodyEdits, EDITED_BODY_BYTES_MAX};
use crate::shared::form;

/// Changes of the request body.
#[derive(Debug)]
pub(crate) struct ParamMapping(BodyEdits);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MappingHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    add_parameter_keys: Vec<BodyEdit>,
    #[serde(deserialize_with = "lenient::or_default")]
    replace_parameter_keys: Vec<BodyEdit>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_parameter_keys: Vec<String>,
}

impl ParamMapping {
    /// Reads a rule's handle.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or a path is invalid.
    fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: MappingHandle = handle::read(handle)?;
        let edits = BodyEdits::new(
            handle.add_parameter_keys,
            handle.replace_parameter_keys,
            &handle.remove_parameter_keys,
        );
        Ok(Self(edits?))
    }
}

impl ShenyuPlugin for ParamMapping {
    const ROW: Row = Row::harmless("paramMapping", 70).with(Seed::new("22", "HttpProcess"));
    const EFFECT: Effect = Effect::Edits;

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self::read(place.handle())?.into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(Self::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        edit_body(self, run.cx).await.into()
    }
}

/// Edits a JSON or form body. Other bodies, and bodies that are too long, pass unchanged.
///
/// # Errors
/// The answer to a request that declares JSON and has no body.
async fn edit_body(mapping: &Arc<ParamMapping>, cx: &mut RequestContext<'_>) -> Result<(), Answer> {
    let kind = cx.header("content-type").map(|kind| kind.to_ascii_lowercase()).unwrap_or_default();
    let is_form = kind.starts_with(b"application/x-www-form-urlencoded");
    let is_json = kind.starts_with(b"application/json");
    if !is_json && !is_form {
        return Ok(());
    }
    if cx.read_body(EDITED_BODY_BYTES_MAX as u64).await.is_err() {
        return Ok(());
    }
    if cx.body().is_empty() {
        return if is_json { Err(Answer::JsonBodyMissing) } else { Ok(()) };
    }
    let mapping = Arc::clone(mapping);
    let edited = cx.examine_body(move |body| match is_form {
        // Only the type changes then.
        true if mapping.0.is_empty() => Some(body.to_vec()),
        true => Some(edit_form(&mapping.0, body)),
        false => mapping.0.apply_to_text(body),
    });
    if let Ok(Some(body)) = edited.await {
        cx.edits().body = Some(body);
        if is_form && !kind.contains(&b';') {
            cx.set_header("Content-Type", b"application/x-www-form-urlencoded;charset=UTF-8");
        }
    }
    Ok(())
}

fn edit_form(edits: &BodyEdits, body: &[u8]) -> Vec<u8> {
    let members = form::parameters(body).into_iter();
    let mut form: serde_json::Value = members
        .map(|(name, value)| (name.into_owned(), serde_json::Value::from(value.into_owned())))
        .collect::<serde_json::Map<_, _>>()
        .into();
    edits.apply(&mut form);
    let members = form.as_object().into_iter().flatten();
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let pairs: Vec<_> = members.map(|(name, value)| (name, text(value))).collect();
    form::encode(&pairs).into_bytes()
}
