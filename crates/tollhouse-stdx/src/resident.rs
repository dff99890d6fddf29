//! Releases memory that the process holds but no longer needs: program text used only during
//! startup.
//!
//! Operates on pages, regardless of their content.

#![expect(unsafe_code, reason = "telling the kernel about pages is unsafe in general; see below")]

use rustix::mm::{Advice, madvise};

/// File in which the kernel describes each mapping.
const MAPPINGS: &str = "/proc/self/smaps";

/// Releases the pages of read-only mappings of the program's files. They stay in the page cache and
/// return with a minor fault if they are used again. Call once, after startup. Failures are
/// ignored.
pub fn release_file_pages() {
    let Ok(mappings) = std::fs::read_to_string(MAPPINGS) else { return };
    for (start, bytes) in clean_file_mappings(&mappings) {
        let start = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the range is a private mapping of a file without write permission, and no page
        // differs from the file: dropped pages are read back with the same bytes.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxDontNeed) };
    }
}

/// Returns the private, read-only file mappings without modified pages: text and constants, but not
/// data relocated by the loader.
fn clean_file_mappings(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in text.lines() {
        if let Some(mapping) = heading(line) {
            candidate = mapping;
        } else if let Some(rest) = line.strip_prefix("Anonymous:")
            && rest.split_whitespace().next() == Some("0")
        {
            found.extend(candidate.take());
        }
    }
    found
}

/// Parses the heading of a mapping; `None` for other lines. The inner value is the range if it may
/// be released.
fn heading(line: &str) -> Option<Option<(usize, usize)>> {
    let mut words = line.split_whitespace();
    let (range, access) = (words.next()?, words.next()?);
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    let is_read_only = matches!(access, "r--p" | "r-xp");
    let is_of_a_file = words.nth(2).is_some_and(|inode| inode != "0");
    Some((is_read_only && is_of_a_file).then_some((start, end - start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
1000-3000 r--p 00000000 08:01 77 /bin/program
Size: 8 kB
Anonymous: 0 kB
3000-5000 r-xp 00002000 08:01 77 /bin/program
Anonymous:             0 kB
5000-6000 r--p 00004000 08:01 77 /bin/program
Anonymous:             4 kB
6000-7000 rw-p 00005000 08:01 77 /bin/program
Anonymous:             0 kB
7000-8000 r--s 00000000 08:01 78 /data/store.db-shm
Anonymous:             0 kB
8000-9000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
";

    #[test]
    fn only_files_that_are_private_unwritten_and_unrelocated_are_let_go_of() {
        assert_eq!(clean_file_mappings(TEXT), [(0x1000, 0x2000), (0x3000, 0x2000)]);
    }

    #[test]
    fn the_program_runs_on_after_its_text_was_let_go_of() {
        release_file_pages();
        assert_eq!(format!("{:>5}", 12.5_f64), " 12.5");
    }
}
