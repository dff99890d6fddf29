//! Description of the machine and the programs, which is printed with the figures so that readers
//! can judge them.

use super::plan::Plan;
use crate::shell;
use serde_json::{Value, json};
use tollhouse_testbed::Environment;

/// Load generators, and the flag that prints their version.
const GENERATORS: [(&str, &str); 4] =
    [("wrk", "-v"), ("ab", "-V"), ("h2load", "--version"), ("ghz", "--version")];

/// Origin of the program under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinarySource {
    /// Built from the tree with the profile `release`.
    Tree,
    /// Given with `--binary`; the commit may be another one.
    Given,
}

impl BinarySource {
    fn text(self) -> &'static str {
        match self {
            Self::Tree => "built from the tree",
            Self::Given => "given with --binary",
        }
    }
}

/// Returns the facts that figures depend on: processor, kernel and versions.
pub(crate) fn describe(plan: &Plan, source: BinarySource) -> Value {
    let mut environment = Environment::collect();
    environment.versions.clear();
    let peers =
        plan.peers.iter().map(|peer| (peer.name(), peer.program(plan), peer.version_flag()));
    let generators = GENERATORS
        .into_iter()
        .filter_map(|(name, flag)| Some((name, shell::find_program(name)?, flag)));
    for (name, program, flag) in peers.chain(generators) {
        environment =
            environment.with_program_version(name, &[&program.display().to_string(), flag]);
    }
    json!({
        "cpu": environment.cpu,
        "cores": environment.cores,
        "kernel": environment.kernel,
        "commit": commit(),
        "binary": source.text(),
        "versions": environment.versions,
    })
}

fn commit() -> String {
    let mut command = shell::command("git");
    command.args(["describe", "--always", "--dirty"]).current_dir(shell::workspace_root());
    shell::output_of(&mut command).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}
