//! Java programs for the tests, built with Maven. Each consists of a folder of classes and
//! libraries, and a script that starts it.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell;

pub(super) struct JavaProgram {
    /// Name of the program and of its script.
    pub(super) name: &'static str,
    /// Folder of the source in the tree.
    source: &'static str,
    /// Classes of the source, in addition to `pom.xml`; the first one is started.
    classes: &'static [&'static str],
    /// Property that Maven gets instead of the value in the source; may be empty.
    property: &'static str,
    /// Options for Java in addition to those for a short life.
    options: &'static str,
    reason: &'static str,
}

/// Services with ShenYu's client for Spring MVC, in the two newest versions in Maven's registry
/// that differ in how they log in and register; servers for comparisons and calls; and a suite of
/// calls.
pub(super) const PROGRAMS: [JavaProgram; 7] = [
    JavaProgram {
        name: "shenyu-springmvc-2.5.0",
        source: CLIENT,
        classes: &["Orders", "Kinds"],
        property: "-Dshenyu.version=2.5.0",
        options: "",
        reason: "a service with ShenYu's client for Spring MVC",
    },
    JavaProgram {
        name: "shenyu-springmvc-2.6.1",
        source: CLIENT,
        classes: &["Orders", "Kinds"],
        property: "-Dshenyu.version=2.6.1",
        options: "",
        reason: "the same with a later version of the client",
    },
    JavaProgram {
        name: "shenyu-gateway-2.4.3",
        source: "crates/tollhouse-load/src/suite/shenyu_gateway",
        classes: &["Gateway"],
        property: "-Dshenyu.version=2.4.3",
        // This gateway accesses packages that newer Java versions have closed.
        options: "--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED",
        reason: "ShenYu's own gateway, to compare answers with",
    },
    JavaProgram {
        name: "dubbo-server-3.2.16",
        source: "crates/tollhouse/tests/interop/dubbo-server",
        classes: &["Server"],
        property: "-Ddubbo.version=3.2.16",
        options: "",
        reason: "Dubbo's own server, to be called",
    },
    JavaProgram {
        name: "kafka-broker-4.1.1",
        source: "crates/tollhouse/tests/interop/kafka-broker",
        classes: &["Broker"],
        property: "-Dkafka.version=4.1.1",
        options: "",
        reason: "Kafka's own broker, to write records to",
    },
    JavaProgram {
        name: "eureka-server-2025.0.0",
        source: "crates/tollhouse/tests/interop/eureka-server",
        classes: &["Registry"],
        property: "-Dcloud.version=2025.0.0",
        options: "",
        reason: "Eureka's own server, to read instances from",
    },
    JavaProgram {
        name: "grpc-java",
        source: "crates/tollhouse/tests/interop/grpc-java",
        classes: &["Suite"],
        property: "",
        options: "",
        reason: "gRPC's interoperability suite, which goes through the gateway",
    },
];

/// Options for programs that live for seconds: code that runs often is compiled once and quickly.
/// Measurements override them with `JAVA_OPTIONS`.
const SHORT_LIFE: &str = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m";

/// Maven goal that copies a program's libraries into its folder.
const COPY_LIBRARIES: &str = "dependency:copy-dependencies";

/// Folder with the sources of the Java services.
const CLIENT: &str = "crates/tollhouse/tests/interop/shenyu-springmvc";

/// Builds a program unless it is up to date with its source.
pub(super) fn build(program: &JavaProgram, root: &Path, scripts: &Path) -> Result<()> {
    let JavaProgram { name, source, classes, property, options, reason } = program;
    let source = shell::workspace_root().join(source);
    let class_files = classes.iter().map(|class| format!("src/main/java/interop/{class}.java"));
    let files: Vec<String> = std::iter::once("pom.xml".to_owned()).chain(class_files).collect();
    let stamp = root.join(format!("{name}.source"));
    let texts = files.iter().map(|file| std::fs::read_to_string(source.join(file)));
    let text: String = texts.collect::<std::io::Result<_>>()?;
    let copy = root.join("source").join(name);
    let script = script(&copy.join("target"), classes[0], options)?;
    let text = text + &script;
    let program = scripts.join(name);
    if program.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|found| found == text) {
        return Ok(());
    }
    for needed in ["java", "mvn"] {
        if shell::find_program(needed).is_none() {
            bail!("{needed} is not installed");
        }
    }
    println!("{name}: building; {reason}");
    for file in &files {
        let to = copy.join(file);
        let folder = to.parent().context("a file lies in a folder")?;
        std::fs::create_dir_all(folder)?;
        std::fs::copy(source.join(file), to).with_context(|| file.clone())?;
    }
    let repository = format!("-Dmaven.repo.local={}", root.join("maven").display());
    let words = ["--quiet", "--batch-mode", &*repository, property, "compile", COPY_LIBRARIES];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    shell::capture(shell::command("mvn", &words).current_dir(&copy))?;
    write_script(&program, &script)?;
    std::fs::write(stamp, text)?;
    Ok(())
}

fn write_script(program: &Path, text: &str) -> Result<()> {
    std::fs::write(program, text)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Returns a shell script that starts the program with `exec`.
fn script(built: &Path, class: &str, options: &str) -> Result<String> {
    let built = built.to_str().context("the target folder is not UTF-8")?;
    if built.contains('\'') {
        bail!("the target folder has a quote in its name");
    }
    Ok(format!(
        "#!/bin/sh\nexec java ${{JAVA_OPTIONS:-{SHORT_LIFE}}} {options} -cp '{built}/classes:{built}/libraries/*' \
         interop.{class} \"$@\"\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_becomes_the_program() {
        let text = script(Path::new("/a b"), "Orders", "-Da=b").unwrap();
        let wanted = " -Da=b -cp '/a b/classes:/a b/libraries/*' interop.Orders \"$@\"\n";
        assert!(text.ends_with(wanted), "{text}");
        assert!(text.starts_with("#!/bin/sh\nexec java ${JAVA_OPTIONS:-"), "{text}");
        assert!(script(Path::new("/it's"), "Orders", "").is_err());
    }

    #[test]
    fn sources_are_in_the_tree_and_programs_named_after_their_versions() {
        for program in PROGRAMS {
            let pom = shell::workspace_root().join(program.source).join("pom.xml");
            let text = std::fs::read_to_string(&pom).unwrap();
            if program.property.is_empty() {
                continue;
            }
            let (property, version) =
                program.property.trim_start_matches("-D").split_once('=').unwrap();
            assert!(text.contains(&format!("<{property}>")), "{}", pom.display());
            assert!(program.name.ends_with(version), "{}", program.name);
        }
    }
}
