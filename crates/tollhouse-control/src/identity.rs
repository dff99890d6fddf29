//! Identity of this gateway among others: a persistent id, the host name, and the start time.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;

use crate::secrets;

/// File name of the id in the data folder.
const FILE: &str = "node.id";

/// Maximum length of an accepted id in bytes; a longer one was written by another program.
const ID_BYTES_MAX: usize = 256;

/// Id and host name of a gateway process, which the control API reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// A random UUID, or the id that an operator wrote into the file.
    pub id: String,
    pub hostname: String,
    /// Start of the process, in seconds of Unix time.
    pub boot_time_s: u64,
}

impl Identity {
    /// Reads the id from the data folder, or creates and saves a new one.
    ///
    /// # Errors
    /// If the folder cannot be read or written.
    pub fn in_folder(data_dir: &Path) -> anyhow::Result<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { id: kept_id(data_dir)?, hostname: hostname(), boot_time_s: since.as_secs() })
    }
}

/// Returns the host name from the kernel; `unknown` if it cannot be read.
pub fn hostname() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match text.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

fn kept_id(data_dir: &Path) -> anyhow::Result<String> {
    let path = data_dir.join(FILE);
    if let Ok(text) = std::fs::read_to_string(&path) {
        let id = text.trim();
        let is_id = !id.is_empty() && id.len() <= ID_BYTES_MAX && id.chars().all(is_plain);
        if is_id {
            return Ok(id.to_owned());
        }
    }
    let id = new_id()?;
    secrets::keep(&path, &id)?;
    Ok(id)
}

/// Whether a character needs no escaping wherever the id is shown.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.".contains(letter)
}

/// Returns a random UUID (RFC 9562, version 4).
fn new_id() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("the system's random number generator is unavailable")?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let groups = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(groups.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_made_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Identity::in_folder(folder.path()).expect("an identity");
        let again = Identity::in_folder(folder.path()).expect("an identity");
        assert_eq!(first.id, again.id);
        let groups: Vec<usize> = first.id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12], "{}", first.id);
        assert_eq!(first.id.as_bytes()[14], b'4');
        assert!(!first.hostname.is_empty() && first.boot_time_s > 0);
    }

    #[test]
    fn an_id_of_ones_own_is_kept_and_nonsense_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        for (text, is_kept) in [("gateway-7\n", true), ("\n", false), ("a \"b\"", false)] {
            std::fs::write(&path, text).expect("a file");
            let id = kept_id(folder.path()).expect("an id");
            assert_eq!(id == text.trim(), is_kept, "{text:?}");
        }
    }
}
