//! The reference page of all keys, generated from their table.

use std::fmt::Write;

use super::Bootstrap;
use super::keys::KEYS;

const OPENING: &str = "# Bootstrap configuration

What the process is told once, at its start. Routes and upstreams are not here: they come from
`resources`.

A value is looked for in this order, and the first one found counts: a flag, an environment
variable, the file, the default. The variable of a key is `TOLLHOUSE_` and the key in capitals, with
`_` for the dot: `TOLLHOUSE_LISTEN_HTTP` for `listen.http`. Lists are written with commas there.

- Unknown keys are refused. A key that is null counts as absent.
- Durations are written `500ms`, `60s` or `1m30s`; a plain number is seconds.
- Sizes are written `8KiB` or `1MiB`; a plain number is bytes.
- `${{VAR}}` and `${{VAR:=default}}` in the file stand for environment variables.
- `tollhouse check` prints every key with its value and where that comes from.

| Key | Default | Takes | Meaning |
|---|---|---|---|
";

/// Renders the manual page of all keys in Markdown.
pub fn reference_markdown() -> String {
    let defaults = Bootstrap::default();
    let mut page = String::from(OPENING);
    for key in KEYS {
        let default = (key.show)(&defaults);
        writeln!(page, "| `{}` | `{default}` | {} | {} |", key.name, (key.takes)(), key.doc)
            .expect("writing to a string cannot fail");
    }
    page
}
