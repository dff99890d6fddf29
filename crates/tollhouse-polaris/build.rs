//! Compiles the messages of `proto/` into Rust types and into the descriptor set that JSON and
//! reflection work from. Needs no program beside cargo.

use prost::Message;
use std::error::Error;
use std::path::PathBuf;

/// The files that lead to all others: the protocol's, and those of gRPC's own services.
const ROOTS: [&str; 4] = [
    "polaris/services.proto",
    "grpc/health.proto",
    "grpc/reflection.proto",
    "grpc/reflection_v1alpha.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true).open_files(ROOTS)?;
    let mut files = compiler.file_descriptor_set();

    prost_build::Config::new().compile_fds(files.clone())?;

    // Comments are for the Rust types; the program carries only what it reads at run time.
    for file in &mut files.file {
        file.source_code_info = None;
    }
    let out_dir = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(PathBuf::from(out_dir).join("polaris.bin"), files.encode_to_vec())?;
    Ok(())
}
