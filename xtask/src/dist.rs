//! `cargo x dist`: builds the published files. They contain one binary, in a tar archive, packages
//! for Debian and for RPM, and an image, with checksums and a list of components.
//!
//! How the binary is built is in `dist/build.rs`, the files are in `dist/release.rs`, the training
//! is in `tollhouse-bench`.

mod archive;
mod build;
mod debian;
mod image;
mod release;
mod requirements;
mod rpm;
mod sbom;
mod texts;
mod tree;

use crate::shell;
use anyhow::Result;
use build::Built;
use clap::Args;
use release::{Beside, Form, Release};
use requirements::{Requirements, Version};
use std::path::PathBuf;

/// Arguments of `cargo x dist`.
#[derive(Args)]
pub(crate) struct DistArguments {
    /// Build without a profile: takes half the time, but a request takes a fifth more.
    #[arg(long, conflicts_with = "profile")]
    no_training: bool,
    /// Optimize the binary with this profile instead of training one.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Make the files from this binary instead of building one. It must run on this machine.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_training", "profile", "target"])]
    binary: Option<PathBuf>,
    /// Build for this target instead of this machine's, such as x86_64-unknown-linux-musl.
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Oldest C library on which the binary must start.
    #[arg(long, value_name = "VERSION", default_value = "2.28")]
    glibc: Version,
    /// Files to make.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "archive,deb,rpm,image")]
    only: Vec<Form>,
    /// Folder for the files, which is emptied first [default: dist in the target folder].
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Sign the checksums with this secret key of minisign.
    #[arg(long, value_name = "FILE", env = "TOLLHOUSE_SIGNING_KEY")]
    sign: Option<PathBuf>,
    /// Compression level of gzip.
    #[arg(long, default_value = "9", value_parser = clap::value_parser!(u8).range(1..=9))]
    level: u8,
}

pub(crate) fn run(arguments: &DistArguments) -> Result<()> {
    let built = match &arguments.binary {
        Some(file) => Built { binary: std::path::absolute(file)?, profile: None },
        None => build::build(arguments)?,
    };
    let requirements = Requirements::read(&built.binary)?;
    requirements.check_c_library(&arguments.glibc)?;
    let release = Release::new(&built.binary, requirements, arguments.level)?;
    let folder = match &arguments.output {
        Some(folder) => std::path::absolute(folder)?,
        None => shell::target_directory()?.join("dist"),
    };
    let beside = Beside { profile: built.profile.as_deref(), key: arguments.sign.as_deref() };
    for file in release.write(&folder, &arguments.only, &beside)? {
        println!("{}", file.display());
    }
    Ok(())
}
