//! `tollhouse reload`: makes a running gateway read its resources again and reopen the access log,
//! as SIGHUP does, and prints the result.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tollhouse_stdx::plural::counted;

use super::console_client::ConsoleClient;
use super::gateway::Gateway;
use super::stdout;

/// Maximum number of times that the command asks for the result of the reload, with a pause of
/// [`LOOK_INTERVAL`] before each. A gateway reads and compiles its file in less than two seconds.
const LOOKS: u32 = 20;
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Arguments of `reload`.
#[derive(Debug, Args)]
pub struct ReloadArguments {
    #[command(flatten)]
    gateway: Gateway,
}

/// Makes the gateway reload. The exit code is 1 if the new configuration has problems.
///
/// # Errors
/// If the gateway cannot be reached, or refuses.
pub fn run(arguments: &ReloadArguments) -> anyhow::Result<ExitCode> {
    let mut client = match ConsoleClient::open(&arguments.gateway)? {
        Ok(client) => client,
        Err(code) => return Ok(code),
    };
    let before = client.get("overview", &[])?;
    client.post("reload")?;
    let mut after = before.clone();
    for _ in 0..LOOKS {
        client.wait(LOOK_INTERVAL);
        after = client.get("overview", &[])?;
        if after["revision"] != before["revision"] {
            break;
        }
    }
    let (text, code) = describe(&before, &after);
    stdout::print(&text)?;
    Ok(code)
}

fn describe(before: &Value, after: &Value) -> (String, ExitCode) {
    let source = after["source"].as_str().unwrap_or_default();
    let (old, new) = (&before["revision"], &after["revision"]);
    let mut text = if old == new {
        format!("{source}: nothing has changed, revision {new} serves\n")
    } else {
        format!("{source}: revision {new} serves, after {old}\n")
    };
    let problems = after["problem_count"].as_u64().unwrap_or_default();
    if problems == 0 {
        return (text, ExitCode::SUCCESS);
    }
    text.push_str(&format!("{}; see `tollhouse check`\n", counted(problems, "problem")));
    (text, ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_came_of_it_is_said() {
        let at = |revision: u64, problems: u64| json!({"source": "routes.yaml", "revision": revision, "problem_count": problems});
        assert_eq!(
            describe(&at(1, 0), &at(1, 0)).0,
            "routes.yaml: nothing has changed, revision 1 serves\n"
        );
        assert_eq!(describe(&at(1, 0), &at(2, 0)).0, "routes.yaml: revision 2 serves, after 1\n");
        for (problems, expected) in [(1, "\n1 problem; see"), (3, "\n3 problems; see")] {
            assert!(describe(&at(1, 0), &at(2, problems)).0.contains(expected), "{expected}");
        }
    }
}
