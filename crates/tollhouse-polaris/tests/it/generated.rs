//! What is generated from `proto/` stands in the tree, so that whoever builds the program need not build a
//! compiler of protocol files first. `UPDATE_EXPECT=1` writes it anew.

use prost::Message;
use std::error::Error;
use std::path::Path;

/// The files that lead to all others: the protocol's, and those of gRPC's own services.
const ROOTS: [&str; 5] = [
    "polaris/services.proto",
    "polaris/limiter.proto",
    "grpc/health.proto",
    "grpc/reflection.proto",
    "grpc/reflection_v1alpha.proto",
];

/// What the crate includes. The alpha of reflection has the same messages as the final version.
const INCLUDED: [&str; 5] =
    ["v1.rs", "polaris.metric.v2.rs", "grpc.health.v1.rs", "grpc.reflection.v1.rs", "polaris.bin"];

#[test]
fn the_generated_messages_are_those_of_the_protocol_files() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir()?;
    generate(&root.join("proto"), out.path())?;
    for name in INCLUDED {
        let generated = std::fs::read(out.path().join(name))?;
        let kept = root.join("generated").join(name);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&kept, generated)?;
            continue;
        }
        assert!(
            std::fs::read(&kept)? == generated,
            "{} is stale; write it anew with UPDATE_EXPECT=1",
            kept.display()
        );
    }
    Ok(())
}

/// Types of all messages, and the descriptor set that JSON and reflection work from.
fn generate(protocol: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let mut compiler = protox::Compiler::new([protocol])?;
    compiler.include_source_info(true).include_imports(true).open_files(ROOTS)?;
    let mut files = compiler.file_descriptor_set();
    prost_build::Config::new().out_dir(out).compile_fds(files.clone())?;
    // Comments are for the Rust types; the program carries only what it reads at run time.
    for file in &mut files.file {
        file.source_code_info = None;
    }
    std::fs::write(out.join("polaris.bin"), files.encode_to_vec())?;
    Ok(())
}
