//! Generates a table of the committed assets, with a hash of all their bytes. Runs no other
//! program, so that a clone builds without Node and without a network.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Parameters of the 64-bit FNV-1a hash, which only distinguishes builds and gives no security.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("assets");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    collect(&folder, &mut files)?;
    files.sort();
    let mut hash = FNV_BASIS;
    let mut table = format!("static ASSETS: [Asset; {}] = [\n", files.len());
    for file in &files {
        let name = file.strip_prefix(&folder)?.to_str().ok_or("a file name is not UTF-8")?;
        for byte in name.bytes().chain(fs::read(file)?) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        writeln!(
            table,
            "    Asset::new({name:?}, include_bytes!({:?})),",
            file.display().to_string()
        )?;
    }
    writeln!(table, "];\n\nconst BUILD_ID: &str = \"{hash:016x}\";")?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("assets.rs"), table)?;
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
