//! `listen.unix`: Unix sockets of the data plane, and how they are written.

use serde_json::{Map, Value, json};
use tollhouse_stdx::UnixPath;

use super::shape::{Read, Shape, collect, refuse};

/// Unix socket on which the gateway listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixListen {
    pub path: UnixPath,
    /// Rights of its file: clients need the right to write.
    pub mode: u32,
}

const FIELDS: [&str; 2] = ["address", "mode"];

/// Default mode of a socket's file: owner and group may connect.
const MODE: u32 = 0o660;

/// Syntax of `listen.unix`: a list of tables or addresses. In an environment variable or flag it is
/// JSON text; a list of addresses alone may be separated by commas.
pub(crate) struct UnixListeners;

impl Shape for UnixListeners {
    type Value = Vec<UnixListen>;
    fn takes() -> String {
        "list of addresses such as unix:/run/tollhouse.sock, or of tables such as {address: \
         unix:/run/tollhouse.sock, mode: \"0660\"}, as JSON in a variable or flag"
            .to_owned()
    }
    fn read(value: &Value) -> Read<Vec<UnixListen>> {
        match value {
            Value::Array(items) => collect(items.iter().map(read_one)),
            Value::String(text) if text.trim().is_empty() => Ok(Vec::new()),
            Value::String(text) if text.trim_start().starts_with('[') => {
                match serde_json::from_str::<Value>(text) {
                    Ok(Value::Array(items)) => collect(items.iter().map(read_one)),
                    _ => no_list(),
                }
            }
            Value::String(text) => {
                collect(text.split(',').map(|text| read_one(&text.trim().into())))
            }
            _ => no_list(),
        }
    }
    fn show(value: &Vec<UnixListen>) -> String {
        let items = value.iter().map(|listener| {
            json!({
                "address": listener.path.to_string(),
                "mode": format!("{:04o}", listener.mode),
            })
        });
        Value::Array(items.collect()).to_string()
    }
}

fn no_list<T>() -> Read<T> {
    refuse("expected a list of Unix sockets", "write such as [\"unix:/run/tollhouse.sock\"]")
}

/// Parses one listener: a table, or only an address.
fn read_one(value: &Value) -> Read<UnixListen> {
    let alone = Map::from_iter([("address".to_owned(), value.clone())]);
    let fields = match value {
        Value::Object(fields) => fields,
        Value::String(_) => &alone,
        _ => return no_list(),
    };
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        let hint = format!("its fields are {}", FIELDS.join(" and "));
        return refuse(format!("unknown field \"{name}\" of a Unix socket"), hint);
    }
    let address = fields.get("address").and_then(Value::as_str).unwrap_or_default();
    let path = UnixPath::parse(address);
    let hint = "write unix: and an absolute path, such as unix:/run/tollhouse.sock";
    let path =
        path.or_else(|error| refuse(format!("invalid address {address:?}: {error}"), hint))?;
    let mode = match fields.get("mode") {
        None | Some(Value::Null) => MODE,
        Some(Value::String(text)) => read_mode(text)?,
        // YAML reads 0660 and 660 alike as numbers, of different bases by version.
        Some(other) => return refuse(format!("invalid mode {other}"), MODE_HINT),
    };
    Ok(UnixListen { path, mode })
}

const MODE_HINT: &str = "write rights in octal, as text: \"0660\"";

fn read_mode(text: &str) -> Read<u32> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => refuse(format!("invalid mode {text:?}"), MODE_HINT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_read_in_all_forms_and_shown_in_one() {
        for (written, expected) in [
            (json!([]), "[]"),
            (json!(""), "[]"),
            (json!("unix:/a"), r#"[{"address":"unix:/a","mode":"0660"}]"#),
            (json!(["unix:/a"]), r#"[{"address":"unix:/a","mode":"0660"}]"#),
            (
                json!("unix:/a, unix:/b"),
                r#"[{"address":"unix:/a","mode":"0660"},{"address":"unix:/b","mode":"0660"}]"#,
            ),
            (
                json!([{"address": "unix:/a", "mode": "600"}]),
                r#"[{"address":"unix:/a","mode":"0600"}]"#,
            ),
            (
                json!(r#"[{"address": "unix:/a", "mode": "0666"}]"#),
                r#"[{"address":"unix:/a","mode":"0666"}]"#,
            ),
        ] {
            let read = UnixListeners::read(&written).ok().map(|it| UnixListeners::show(&it));
            assert_eq!(read.as_deref(), Some(expected), "{written}");
        }
    }

    #[test]
    fn what_is_not_a_socket_is_refused() {
        for written in [
            json!(["/run/a.sock"]),
            json!(["unix:a.sock"]),
            json!([{"address": "unix:/a", "mode": 660}]),
            json!([{"address": "unix:/a", "mode": "0888"}]),
            json!([{"address": "unix:/a", "mode": "1777"}]),
            json!([{"address": "unix:/a", "rights": "0660"}]),
            json!([{"mode": "0660"}]),
            json!(7),
        ] {
            assert!(UnixListeners::read(&written).is_err(), "{written}");
        }
    }
}
