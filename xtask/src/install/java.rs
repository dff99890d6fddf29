//! Programs in Java, built by Maven: a service with an unmodified client of ShenYu's, in several versions of it, and
//! gRPC's interoperability suite. Each is a folder of classes and libraries, and a script that starts it.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Versions of ShenYu's client for Spring MVC: the two newest that Maven's registry has with a different
/// way to log in and register.
const SHENYU_VERSIONS: [&str; 2] = ["2.5.0", "2.6.1"];

/// A program, and what it is made of.
pub(super) struct Program {
    /// What it is called among the programs.
    pub name: String,
    /// The folder of its source.
    pub source: &'static str,
    /// What lies there.
    files: [&'static str; 2],
    /// Its class.
    class: &'static str,
    /// What Maven is told beside.
    property: Option<String>,
    reason: &'static str,
}

/// All of them.
pub(super) fn programs() -> Vec<Program> {
    let clients = SHENYU_VERSIONS.map(|version| Program {
        name: format!("shenyu-springmvc-{version}"),
        source: "shenyu-springmvc",
        files: ["pom.xml", "src/main/java/interop/Orders.java"],
        class: "interop.Orders",
        property: Some(format!("-Dshenyu.version={version}")),
        reason: "a service with this version of ShenYu's client for Spring MVC",
    });
    let suite = Program {
        name: "grpc-java".to_owned(),
        source: "grpc-java",
        files: ["pom.xml", "src/main/java/interop/Suite.java"],
        class: "interop.Suite",
        property: None,
        reason: "gRPC's interoperability suite, which goes through the gateway",
    };
    clients.into_iter().chain([suite]).collect()
}

/// Builds a program unless it is there as the source has it.
pub(super) fn build(program: &Program, source: &Path, root: &Path, folder: &Path) -> Result<()> {
    let Program { name, files, class, property, reason, .. } = program;
    let stamp = root.join(format!("{name}.source"));
    let texts = files.map(|file| std::fs::read_to_string(source.join(file)));
    let text: String = texts.into_iter().collect::<std::io::Result<_>>()?;
    let program = folder.join(name);
    if program.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|found| found == text) {
        return Ok(());
    }
    for needed in ["java", "mvn"] {
        if shell::find_program(needed).is_none() {
            bail!("{needed} is not installed");
        }
    }
    println!("{name}: building {reason}");
    let copy = root.join("source").join(name);
    for file in files {
        let to = copy.join(file);
        let folder = to.parent().context("a file lies in a folder")?;
        std::fs::create_dir_all(folder)?;
        std::fs::copy(source.join(file), to).with_context(|| file.to_owned())?;
    }
    let mut words = vec![
        "--quiet".to_owned(),
        "--batch-mode".to_owned(),
        format!("-Dmaven.repo.local={}", root.join("maven").display()),
    ];
    words.extend(property.clone());
    words.extend(["compile", "dependency:copy-dependencies"].map(str::to_owned));
    shell::capture(shell::command("mvn", &words).current_dir(&copy))?;
    write_script(&program, &copy.join("target"), class)?;
    std::fs::write(stamp, text)?;
    Ok(())
}

/// A script that becomes the program.
fn write_script(program: &Path, built: &Path, class: &str) -> Result<()> {
    let built = built.to_str().context("the target folder is not UTF-8")?;
    let text = script(built, class)?;
    std::fs::write(program, text)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn script(built: &str, class: &str) -> Result<String> {
    if built.contains('\'') {
        bail!("the target folder has a quote in its name");
    }
    Ok(format!("#!/bin/sh\nexec java -cp '{built}/classes:{built}/libraries/*' {class} \"$@\"\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_becomes_the_program() {
        let text = script("/a b", "interop.Orders").unwrap();
        assert!(
            text.ends_with("exec java -cp '/a b/classes:/a b/libraries/*' interop.Orders \"$@\"\n")
        );
        assert!(script("/it's", "interop.Orders").is_err());
    }
}
