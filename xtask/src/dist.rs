//! `cargo x dist`: builds the published files. They contain one binary, linked as a whole and
//! optimized with a profile of typical requests, in a tar archive and a Debian package, with
//! checksums.
//!
//! Paths of the machine are mapped to neutral ones. The profile of the binary is published beside
//! it, so that the same compiler can build from the same input with `--profile FILE`. The archives
//! are in `dist/package.rs`, the training is in `tollhouse-bench`.

mod package;

use crate::shell;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};

/// Arguments of `cargo x dist`.
#[derive(Args)]
pub(crate) struct DistArguments {
    /// Build without a profile: takes half the time, but requests need some 7 % more CPU time.
    #[arg(long, conflicts_with = "profile")]
    no_training: bool,
    /// Optimize the binary with this profile instead of training one.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// Profile of cargo for published programs.
const CARGO_PROFILE: &str = "dist";

pub(crate) fn run(arguments: &DistArguments) -> Result<()> {
    let build = Build::new()?;
    let profile = match &arguments.profile {
        Some(file) => Some(std::path::absolute(file)?),
        None if arguments.no_training => None,
        None => Some(train(&build)?),
    };
    let flags = match &profile {
        Some(file) => format!("-Cprofile-use={}", file.display()),
        None => String::new(),
    };
    println!("building the binary");
    let binary = build.run(&build.target.join("dist-build"), &flags)?;
    let release = package::Release { binary: &binary, profile: profile.as_deref() };
    for file in release.write(&build.target.join("dist"))? {
        println!("{}", file.display());
    }
    Ok(())
}

/// Builds an instrumented binary, sends it the training load, and merges its counts.
fn train(build: &Build) -> Result<PathBuf> {
    let merge = profile_merger()?;
    let counts = build.target.join("dist-counts");
    if counts.exists() {
        std::fs::remove_dir_all(&counts)?;
    }
    println!("building the binary that counts");
    let flags = format!("-Cprofile-generate={}", counts.display());
    let binary = build.run(&build.target.join("dist-train"), &flags)?;
    println!("training it");
    crate::bench::train(&binary)?;
    let profile = build.target.join("tollhouse.profdata");
    let mut command = std::process::Command::new(merge);
    shell::run(command.arg("merge").arg("-o").arg(&profile).arg(&counts))?;
    Ok(profile)
}

/// Target triple and folders for a build on this machine.
struct Build {
    /// The triple to build for. It is given even though it is the machine's own, because cargo then
    /// keeps the flags from build scripts and procedural macros.
    triple: String,
    target: PathBuf,
}

impl Build {
    fn new() -> Result<Self> {
        let version = shell::capture(&mut shell::command("rustc", &["-vV"]))?;
        let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
        let triple = triple.context("rustc does not name its host")?.to_owned();
        Ok(Self { triple, target: shell::target_directory()? })
    }

    fn run(&self, target: &Path, flags: &str) -> Result<PathBuf> {
        let target_text = target.display().to_string();
        let arguments = [
            "build",
            "--locked",
            "--profile",
            CARGO_PROFILE,
            "--package",
            "tollhouse",
            "--target",
            &self.triple,
            "--target-dir",
            &target_text,
        ];
        let rust_flags = format!("{} {flags}", map_paths("--remap-path-prefix"));
        let mut command = shell::cargo(&arguments);
        command.env("RUSTFLAGS", rust_flags.trim());
        // C libraries put the names of their files into messages.
        command.env("CFLAGS", map_paths("-ffile-prefix-map"));
        shell::run(&mut command)?;
        Ok(target.join(&self.triple).join(CARGO_PROFILE).join("tollhouse"))
    }
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
