//! Processes to watch and their roles, as given on a command line or in a plan file.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A process, or group of processes, watched during a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watched {
    /// Role in the case: `generator`, `target`, `upstream`. Required.
    pub role: String,
    /// Selection of processes, required.
    pub what: Selector,
}

/// Selection of processes. Descendants are included; this process only if selected by ID or by
/// [`Selector::Own`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Selector {
    /// Process with this id.
    Pid(u32),
    /// Processes with these ids.
    Pids(Vec<u32>),
    /// TCP port; selects all processes that listen on it.
    Port(u16),
    /// Processes that listen on one of these TCP ports.
    Ports(Vec<u16>),
    /// Name of the program, or else a part of its command line.
    Command(String),
    /// The load generator itself.
    Own,
}

impl Watched {
    pub fn new(role: impl Into<String>, what: Selector) -> Self {
        Self { role: role.into(), what }
    }

    /// Creates the group of this process, with the role `generator`.
    pub fn own() -> Self {
        Self::new("generator", Selector::Own)
    }
}

/// Parses `role=pid:12`, `role=port:9080` or `role=command:nginx`.
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
