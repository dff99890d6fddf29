//! A service in Java with an unmodified client of ShenYu's, built by Maven in several versions of it: each is
//! a folder of classes and libraries, and a script that starts it.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Versions of ShenYu's client for Spring MVC: the two newest that Maven's registry has with a different
/// way to log in and register.
pub(super) const SHENYU_VERSIONS: [&str; 2] = ["2.5.0", "2.6.1"];

/// The folder of its source.
pub(super) const CLIENT: &str = "shenyu-springmvc";

/// What the source is made of.
const FILES: [&str; 2] = ["pom.xml", "src/main/java/interop/Orders.java"];

/// Name of the service on one version of the client.
pub(super) fn client_name(version: &str) -> String {
    format!("{CLIENT}-{version}")
}

/// Builds the service unless it is there as the source has it.
pub(super) fn build_client(
    source: &Path,
    root: &Path,
    programs: &Path,
    version: &str,
) -> Result<()> {
    let name = client_name(version);
    let stamp = root.join(format!("{name}.source"));
    let texts = FILES.map(|file| std::fs::read_to_string(source.join(file)));
    let text: String = texts.into_iter().collect::<std::io::Result<_>>()?;
    let program = programs.join(&name);
    if program.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|found| found == text) {
        return Ok(());
    }
    for needed in ["java", "mvn"] {
        if shell::find_program(needed).is_none() {
            bail!("{needed} is not installed");
        }
    }
    println!("{name}: building a service with this version of ShenYu's client for Spring MVC");
    let copy = root.join("source").join(&name);
    for file in FILES {
        let to = copy.join(file);
        let folder = to.parent().context("a file lies in a folder")?;
        std::fs::create_dir_all(folder)?;
        std::fs::copy(source.join(file), to).with_context(|| file.to_owned())?;
    }
    let words = [
        "--quiet".to_owned(),
        "--batch-mode".to_owned(),
        format!("-Dmaven.repo.local={}", root.join("maven").display()),
        format!("-Dshenyu.version={version}"),
        "compile".to_owned(),
        "dependency:copy-dependencies".to_owned(),
    ];
    shell::capture(shell::command("mvn", &words).current_dir(&copy))?;
    write_script(&program, &copy.join("target"))?;
    std::fs::write(stamp, text)?;
    Ok(())
}

/// A script that becomes the service.
fn write_script(program: &Path, built: &Path) -> Result<()> {
    let built = built.to_str().context("the target folder is not UTF-8")?;
    let text = script(built)?;
    std::fs::write(program, text)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn script(built: &str) -> Result<String> {
    if built.contains('\'') {
        bail!("the target folder has a quote in its name");
    }
    Ok(format!(
        "#!/bin/sh\nexec java -cp '{built}/classes:{built}/libraries/*' interop.Orders \"$@\"\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_becomes_the_service() {
        let text = script("/a b").unwrap();
        assert!(
            text.ends_with("exec java -cp '/a b/classes:/a b/libraries/*' interop.Orders \"$@\"\n")
        );
        assert!(script("/it's").is_err());
    }
}
