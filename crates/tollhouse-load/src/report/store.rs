//! Report files: written atomically; read with or without gzip compression; errors name the
//! problem.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::{Report, SCHEMA};
use crate::error::BenchError;

/// Size limit of a report file in bytes, above a day of one-second intervals for a hundred cases.
const REPORT_BYTES_MAX: u64 = 1 << 30;

/// Reads a report.
///
/// # Errors
/// If the file does not exist, or is not a report of this version.
pub fn load(path: &Path) -> Result<Report, BenchError> {
    let bytes = crate::file::read_bytes(path, REPORT_BYTES_MAX)?;
    let report = inflated(bytes).and_then(|bytes| parse(&bytes));
    report.map_err(|why| BenchError::File { path: path.to_owned(), why })
}

/// First bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Decompresses the bytes if they are gzip; returns them unchanged otherwise.
fn inflated(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if !bytes.starts_with(&GZIP_MAGIC) {
        return Ok(bytes);
    }
    let mut inflated = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..])
        .take(REPORT_BYTES_MAX)
        .read_to_end(&mut inflated)
        .map_err(|cause| format!("is not a whole gzip file: {cause}"))?;
    Ok(inflated)
}

/// Part of a report that identifies its version.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

fn parse(bytes: &[u8]) -> Result<Report, String> {
    let hint = "name a file that `tollhouse bench … --json FILE` wrote";
    let head: Head = serde_json::from_slice(bytes)
        .map_err(|cause| format!("is not a report ({cause}); {hint}"))?;
    match head.schema.as_deref() {
        Some(SCHEMA) => {}
        Some(other) => {
            return Err(format!("is of the schema `{other}`; this version reads `{SCHEMA}`"));
        }
        None => return Err(format!("is not a report: it has no `schema`; {hint}")),
    }
    serde_json::from_slice(bytes).map_err(|cause| format!("is not a whole report: {cause}"))
}

/// Writes a report to a temporary file and renames it, so that readers never see a partial report,
/// even if the process is killed.
///
/// # Errors
/// If the file cannot be written.
pub fn save(report: &Report, path: &Path) -> Result<(), BenchError> {
    let error = |why: String| BenchError::File { path: path.to_owned(), why };
    let mut text =
        serde_json::to_vec(report).map_err(|cause| error(format!("cannot be made: {cause}")))?;
    text.push(b'\n');
    // Pipes and devices are written directly, because they cannot be replaced by renaming.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(path, &text)
            .map_err(|cause| error(format!("cannot be written: {cause}")));
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    fs::write(&beside, &text).map_err(|cause| error(format!("cannot be written: {cause}")))?;
    fs::rename(&beside, path).map_err(|cause| error(format!("cannot be written: {cause}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("result.json");
        let report = Report { title: "a".into(), ..Report::default() };
        save(&report, &path).expect("the folder can be written");
        assert_eq!(load(&path).expect("it is a report"), report);
    }

    #[test]
    fn a_packed_report_is_read_and_half_of_one_is_named() {
        let text = serde_json::to_vec(&Report::default()).expect("it can be written");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &text).expect("memory takes it");
        let packed = packed.finish().expect("memory takes it");
        let half = packed[..packed.len() / 2].to_vec();
        assert_eq!(parse(&inflated(packed).expect("whole")).expect("a report"), Report::default());
        let error = inflated(half).expect_err("the rest is missing");
        assert!(error.contains("not a whole gzip file"), "{error}");
    }

    #[test]
    fn what_is_no_report_is_named() {
        for (text, part) in [
            ("", "is not a report"),
            ("{}", "no `schema`"),
            (r#"{"schema":"tollhouse.bench/9"}"#, "this version reads"),
            (r#"{"schema":"tollhouse.bench/1","results":[1]}"#, "not a whole report"),
        ] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        let missing = load(Path::new("missing.json")).expect_err("it is not there").to_string();
        assert!(missing.starts_with("missing.json: cannot be opened"), "{missing}");
    }
}
