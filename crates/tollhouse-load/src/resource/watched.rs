//! Which processes to watch, and under which name: as a command line or a plan file says it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A process, or a group of them, that is watched during a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watched {
    /// Its part in the case: `generator`, `target`, `upstream`.
    pub role: String,
    /// How it is found.
    pub what: Selector,
}

/// How a process is found. Its descendants belong to it; this process does only when its number is given
/// or by [`Selector::Own`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Selector {
    /// By its number.
    Pid(u32),
    /// Several, by their numbers.
    Pids(Vec<u32>),
    /// By the TCP port it listens on; all processes that do.
    Port(u16),
    /// By several ports; all processes that listen on one of them.
    Ports(Vec<u16>),
    /// By the name of its program, else by a part of its command line.
    Command(String),
    /// This process, alone.
    Own,
}

impl Watched {
    /// A group under a name.
    pub fn new(role: impl Into<String>, what: Selector) -> Self {
        Self { role: role.into(), what }
    }

    /// This process, as `generator`.
    pub fn own() -> Self {
        Self::new("generator", Selector::Own)
    }
}

/// Reads `role=pid:12`, `role=port:9080` or `role=command:nginx`.
impl FromStr for Watched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const SHAPE: &str = "write ROLE=pid:NUMBER, ROLE=port:NUMBER or ROLE=command:NAME";
        let wrong = |what: &str| format!("{text:?} {what}; {SHAPE}");
        let (role, selector) = text.split_once('=').ok_or_else(|| wrong("has no `=`"))?;
        let (kind, value) = selector.split_once(':').ok_or_else(|| wrong("has no `:`"))?;
        let what = match kind {
            "pid" => value.parse().ok().filter(|pid| *pid > 0).map(Selector::Pid),
            "port" => value.parse().ok().filter(|port| *port > 0).map(Selector::Port),
            "command" if !value.is_empty() => Some(Selector::Command(value.to_owned())),
            _ => None,
        };
        match what {
            Some(what) if !role.is_empty() => Ok(Self::new(role, what)),
            Some(_) => Err(wrong("has no role")),
            None => Err(wrong("names no process")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_process_is_read_from_text() {
        for (text, role, what) in [
            ("gateway=port:9080", "gateway", Selector::Port(9080)),
            ("upstream=pid:12", "upstream", Selector::Pid(12)),
            ("peer=command:nginx: master", "peer", Selector::Command("nginx: master".into())),
        ] {
            assert_eq!(text.parse(), Ok(Watched::new(role, what)), "{text}");
        }
    }

    #[test]
    fn a_text_that_names_no_process_is_refused_with_the_shape() {
        for text in ["", "nginx", "a=9080", "a=port:0", "a=port:70000", "a=command:", "=pid:1"] {
            let error = text.parse::<Watched>().expect_err(text);
            assert!(error.contains("ROLE=port:NUMBER"), "{error}");
        }
    }

    #[test]
    fn a_plan_file_names_it_as_a_map() {
        let read: Watched =
            serde_json::from_str(r#"{"role":"gateway","what":{"port":9080}}"#).expect("JSON");
        assert_eq!(read, Watched::new("gateway", Selector::Port(9080)));
    }
}
