//! The binary of a release: linked as a whole against an old C library, and optimized with a
//! profile of typical requests.
//!
//! Paths of the machine are mapped to neutral ones. The profile is published beside the binary, so
//! that the same compiler can build from the same input with `--profile FILE`.

use super::DistArguments;
use crate::shell;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Profile of cargo for published programs.
const CARGO_PROFILE: &str = "dist";

/// Python packages with a C compiler and linker for any version of the C library, and the command
/// of cargo that uses them.
const TOOLS: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.15.2"];

/// Settings that cargo-zigbuild makes for cargo. Crates with build scripts have other names of
/// symbols without them.
const HOST_SETTINGS: [(&str, &str); 3] = [
    ("__CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS", "nightly"),
    ("CARGO_UNSTABLE_TARGET_APPLIES_TO_HOST", "true"),
    ("CARGO_TARGET_APPLIES_TO_HOST", "false"),
];

/// A binary, and the profile that it was optimized with.
pub(super) struct Built {
    pub(super) binary: PathBuf,
    pub(super) profile: Option<PathBuf>,
}

pub(super) fn build(arguments: &DistArguments) -> Result<Built> {
    let build = Build::new(arguments)?;
    let profile = match &arguments.profile {
        Some(file) => Some(std::path::absolute(file)?),
        None if arguments.no_training => None,
        None => Some(train(&build)?),
    };
    let flags = profile.as_deref().map(flags_with_profile).unwrap_or_default();
    println!("building the binary");
    let binary = build.release(&flags)?;
    Ok(Built { binary, profile })
}

/// Options of LLVM about the code that the profile shows as cold. A function is inlined there only
/// if the code gets smaller; the default allows 45 instructions more.
const COLD_CODE: &str = "-inline-cold-callsite-threshold=0 -inlinecold-threshold=0";

/// Returns the compiler's flags for a build with a profile.
fn flags_with_profile(profile: &Path) -> Vec<String> {
    vec![format!("-Cprofile-use={}", profile.display()), format!("-Cllvm-args={COLD_CODE}")]
}

/// Builds an instrumented binary, sends it the training load, and merges its counts.
fn train(build: &Build) -> Result<PathBuf> {
    if build.triple != host()? {
        bail!(
            "a profile can only be trained for the target of this machine; build for {} with \
             --no-training or --profile",
            build.triple
        );
    }
    let merge = profile_merger()?;
    let counts = build.target.join("dist-counts");
    if counts.exists() {
        std::fs::remove_dir_all(&counts)?;
    }
    println!("building the binary that counts");
    let flag = format!("-Cprofile-generate={}", counts.display());
    let binary = build.instrumented(&[flag])?;
    println!("training it");
    crate::bench::train(&binary)?;
    let profile = build.target.join("tollhouse.profdata");
    let mut command = Command::new(merge);
    shell::run(command.arg("merge").arg("-o").arg(&profile).arg(&counts))?;
    Ok(profile)
}

/// Target and folders of a build.
struct Build {
    /// Triple to build for. It is given even if it is the machine's own, because cargo then keeps
    /// the flags from build scripts and procedural macros.
    triple: String,
    /// Version of the C library to link to; a static C library has none.
    c_library: Option<String>,
    target: PathBuf,
}

impl Build {
    fn new(arguments: &DistArguments) -> Result<Self> {
        let triple = match &arguments.target {
            Some(triple) => triple.clone(),
            None => host()?,
        };
        let c_library = triple.ends_with("-gnu").then(|| arguments.glibc.to_string());
        let target = shell::target_directory()?;
        Ok(Self { triple, c_library, target })
    }

    /// Builds the binary that is published, linked to an old C library.
    fn release(&self, flags: &[String]) -> Result<PathBuf> {
        let tools = prepare_tools(&self.target)?;
        let program = tools.join("cargo-zigbuild");
        let mut command = shell::command(&program.to_string_lossy(), &["zigbuild"]);
        command.env("PATH", search_path(&tools)?);
        // LuaJIT's makefile also links a program, and zig adds no library that unwinds.
        command.env("TARGET_LIBS", "-lunwind");
        let triple = match &self.c_library {
            Some(version) => format!("{}.{version}", self.triple),
            None => self.triple.clone(),
        };
        self.run(command, &triple, Place { folder: "dist-build", flags })
    }

    /// Builds a binary that counts, linked as usual: zig takes no linker flags for counters.
    fn instrumented(&self, flags: &[String]) -> Result<PathBuf> {
        let mut command = shell::cargo(&["build"]);
        command.envs(HOST_SETTINGS);
        self.run(command, &self.triple, Place { folder: "dist-train", flags })
    }

    fn run(&self, mut command: Command, triple: &str, place: Place<'_>) -> Result<PathBuf> {
        let target = self.target.join(place.folder);
        // Cargo does not know of the flags, so that it would keep what another one has built.
        if target.exists() {
            std::fs::remove_dir_all(&target)?;
        }
        if !place.flags.is_empty() {
            command.env("RUSTC_WRAPPER", write_wrapper(&target, place.flags)?);
        }
        command
            .args(["--locked", "--profile", CARGO_PROFILE, "--package", "tollhouse", "--target"])
            .arg(triple)
            .arg("--target-dir")
            .arg(&target);
        command.env("RUSTFLAGS", map_paths("--remap-path-prefix"));
        // C libraries put the names of their files into messages.
        command.env("CFLAGS", map_paths("-ffile-prefix-map"));
        shell::run(&mut command)?;
        Ok(target.join(&self.triple).join(CARGO_PROFILE).join("tollhouse"))
    }
}

/// Folder below the target folder, and the compiler's flags about the profile.
struct Place<'a> {
    folder: &'static str,
    flags: &'a [String],
}

/// Writes a program that cargo calls in the place of the compiler, and that adds `flags` for crates
/// of the target.
///
/// Cargo hashes `RUSTFLAGS` into the names of symbols, and a profile knows functions by these
/// names: if the flags differed from those of the training, it would have no effect.
fn write_wrapper(folder: &Path, flags: &[String]) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let flags = format!("'{}'", flags.join("' '"));
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" --target \"*) set -- \"$@\" {flags} ;; esac\nexec \"$@\"\n"
    );
    let file = folder.join("compiler-with-profile");
    std::fs::create_dir_all(folder)?;
    std::fs::write(&file, script)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    Ok(file)
}

/// Returns the search path with the tools first: cargo-zigbuild finds zig by its Python.
fn search_path(tools: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools.to_owned()).chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(folders)?)
}

fn host() -> Result<String> {
    let version = shell::capture(&mut shell::command("rustc", &["-vV"]))?;
    let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(triple.context("rustc does not name its host")?.to_owned())
}

/// Installs the tools into a virtual environment below the target folder unless they are there, and
/// returns the folder of their programs.
fn prepare_tools(target: &Path) -> Result<PathBuf> {
    let folder = target.join("dist-tools");
    let programs = folder.join("bin");
    let stamp = folder.join("installed");
    let wanted = TOOLS.join(" ");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(programs);
    }
    println!("installing {wanted} into the target folder");
    let place = folder.to_str().context("the target folder is not UTF-8")?;
    shell::capture(&mut shell::command("python3", &["-m", "venv", place]))?;
    let mut command = shell::command(&programs.join("python").to_string_lossy(), &["-m", "pip"]);
    shell::capture(command.args(["install", "--quiet"]).args(TOOLS))?;
    std::fs::write(stamp, wanted)?;
    Ok(programs)
}

/// Returns flags that map the folders of this machine to neutral names, for a compiler whose option
/// is `option`.
fn map_paths(option: &str) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let root = shell::workspace_root();
    format!("{option}={}=/tollhouse {option}={}=/cargo", root.display(), cargo.display())
}

/// Returns the `llvm-profdata` of the compiler in use; another version cannot read its counts.
fn profile_merger() -> Result<PathBuf> {
    let root = shell::capture(&mut shell::command("rustc", &["--print", "target-libdir"]))?;
    let library = PathBuf::from(root.trim());
    let folder = library.parent().context("the compiler's library folder has no parent")?;
    let program = folder.join("bin").join("llvm-profdata");
    if !program.is_file() && shell::find_program("rustup").is_some() {
        shell::run(&mut shell::command("rustup", &["component", "add", "llvm-tools"]))?;
    }
    if !program.is_file() {
        bail!(
            "{} is missing; add the component `llvm-tools` of the compiler, or build with --no-training",
            program.display()
        );
    }
    Ok(program)
}
