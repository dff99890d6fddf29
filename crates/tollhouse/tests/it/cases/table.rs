//! Tables of cases in files. A case begins with `# its name`, then comes its conf as JSON on lines
//! that begin with `$ `, then what is said (see `script`), or, in a table of refusals, the error.
//! Lines that begin with `//` are for readers.

use serde_json::Value;

/// One case of a table.
pub(super) struct Entry<'a> {
    /// Its name; in a table of refusals the plugin's.
    pub(super) name: &'a str,
    /// The plugins of its route; in a table of refusals the plugin's conf.
    pub(super) conf: Value,
    /// All that follows.
    pub(super) text: String,
}

/// Reads a table.
pub(super) fn read(table: &str) -> Vec<Entry<'_>> {
    let table = table.trim_start_matches("# ");
    table.split("\n# ").filter_map(entry).collect()
}

fn entry(text: &str) -> Option<Entry<'_>> {
    let (name, rest) = text.split_once('\n')?;
    if name.starts_with("//") {
        return None;
    }
    let (mut conf, mut said) = (String::new(), String::new());
    for line in rest.lines().filter(|line| !line.starts_with("//")) {
        match line.strip_prefix("$ ") {
            Some(more) => conf.push_str(more),
            None => {
                said.push_str(line);
                said.push('\n');
            }
        }
    }
    let conf = serde_json::from_str(&conf);
    let conf = conf.unwrap_or_else(|error| panic!("the conf of {name}: {error}"));
    Some(Entry { name, conf, text: said })
}
