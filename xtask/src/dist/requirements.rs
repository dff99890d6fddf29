//! Requirements of a binary on the system that starts it, read from its ELF headers: machine,
//! libraries, and the versions of their symbols.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;

/// Machine that a binary is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    /// Name in file names and RPM packages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Name in Debian packages and images.
    pub(super) fn debian_name(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }
}

/// Version of a library, such as 2.28; versions compare by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(Vec<u32>);

impl std::str::FromStr for Version {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers = text.split('.').map(str::parse).collect::<Result<_, _>>();
        numbers.map(Self).with_context(|| format!("invalid version \"{text}\", expected 2.28"))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        formatter.write_str(&numbers.join("."))
    }
}

/// Version of a symbol, as `(libc.so.6, GLIBC_2.28)`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SymbolVersion {
    pub(super) library: String,
    pub(super) version: String,
}

/// Requirements of a binary; a static one has no libraries.
#[derive(Debug)]
pub(super) struct Requirements {
    pub(super) machine: Machine,
    pub(super) libraries: Vec<String>,
    pub(super) symbols: BTreeSet<SymbolVersion>,
}

impl Requirements {
    pub(super) fn read(file: &Path) -> Result<Self> {
        let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
        Self::parse(&bytes).with_context(|| file.display().to_string())
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            bail!("not a 64-bit little-endian ELF file");
        }
        let image = Image { bytes };
        let machine = match image.number(18, 2)? {
            62 => Machine::X86_64,
            183 => Machine::Aarch64,
            other => bail!("no package is made for ELF machine {other}"),
        };
        let mut found = Self { machine, libraries: Vec::new(), symbols: BTreeSet::new() };
        let Some(dynamic) = image.segments(DYNAMIC)?.pop() else { return Ok(found) };
        let entries = image.dynamic_entries(&dynamic)?;
        let value = |wanted: u64| entries.iter().find(|entry| entry.tag == wanted).map(|e| e.value);
        let Some(strings) = value(STRING_TABLE) else { return Ok(found) };
        let strings = image.offset_of(strings)?;
        for entry in entries.iter().filter(|entry| entry.tag == NEEDED) {
            found.libraries.push(image.text(strings + entry.value)?);
        }
        if let (Some(address), Some(count)) = (value(VERSIONS_NEEDED), value(VERSIONS_NEEDED_COUNT))
        {
            found.symbols = image.symbol_versions(image.offset_of(address)?, count, strings)?;
        }
        Ok(found)
    }

    /// Returns the lowest version of the C library that has all symbols, `None` for a static binary.
    pub(super) fn c_library(&self) -> Option<Version> {
        let versions = self.symbols.iter().filter_map(|it| it.version.strip_prefix("GLIBC_"));
        versions.filter_map(|version| version.parse().ok()).max()
    }

    /// Refuses a binary that needs a newer C library than this one.
    pub(super) fn check_c_library(&self, newest: &Version) -> Result<()> {
        let Some(needed) = self.c_library().filter(|needed| needed > newest) else { return Ok(()) };
        let library = format!("GLIBC_{needed}");
        let symbols = self.symbols.iter().filter(|it| it.version == library);
        let libraries: Vec<&str> = symbols.map(|it| it.library.as_str()).collect();
        bail!(
            "the binary needs glibc {needed} ({} of {}), and would not start on systems with glibc \
             {newest}; build it without --binary, which links against an older glibc, or allow it \
             with --glibc {needed}",
            library,
            libraries.join(", ")
        );
    }
}

/// Type of the program header that locates the dynamic section.
const DYNAMIC: u64 = 2;
/// Type of program headers of parts that are loaded.
const LOAD: u64 = 1;
const NEEDED: u64 = 1;
const STRING_TABLE: u64 = 5;
const VERSIONS_NEEDED: u64 = 0x6fff_fffe;
const VERSIONS_NEEDED_COUNT: u64 = 0x6fff_ffff;
/// Bytes of a text at most; names in ELF files are shorter.
const TEXT_BYTES_MAX: usize = 4096;
/// Entries of one table at most, so that a damaged file ends the reading.
const ENTRIES_MAX: u64 = 4096;

struct Segment {
    offset: u64,
    address: u64,
    bytes: u64,
}

struct DynamicEntry {
    tag: u64,
    value: u64,
}

/// Bytes of an ELF file.
struct Image<'a> {
    bytes: &'a [u8],
}

impl Image<'_> {
    /// Returns the number of `width` bytes at this offset.
    fn number(&self, offset: u64, width: usize) -> Result<u64> {
        let start = usize::try_from(offset)?;
        let end = start.checked_add(width).context("an offset overflows")?;
        let bytes = self.bytes.get(start..end).context("the file ends early")?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn text(&self, offset: u64) -> Result<String> {
        let rest = self.bytes.get(usize::try_from(offset)?..).context("the file ends early")?;
        let rest = &rest[..rest.len().min(TEXT_BYTES_MAX)];
        let end = rest.iter().position(|byte| *byte == 0).context("a text does not end")?;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    /// Returns the segments of a type by the program headers.
    fn segments(&self, kind: u64) -> Result<Vec<Segment>> {
        let (table, size, count) = (self.number(32, 8)?, self.number(54, 2)?, self.number(56, 2)?);
        let mut found = Vec::new();
        for index in 0..count {
            let at = table + index * size;
            if self.number(at, 4)? == kind {
                found.push(Segment {
                    offset: self.number(at + 8, 8)?,
                    address: self.number(at + 16, 8)?,
                    bytes: self.number(at + 32, 8)?,
                });
            }
        }
        Ok(found)
    }

    fn dynamic_entries(&self, segment: &Segment) -> Result<Vec<DynamicEntry>> {
        let count = (segment.bytes / 16).min(ENTRIES_MAX);
        let entry = |index: u64| {
            let at = segment.offset + index * 16;
            Ok(DynamicEntry { tag: self.number(at, 8)?, value: self.number(at + 8, 8)? })
        };
        (0..count).map(entry).collect()
    }

    /// Returns the place in the file of an address in memory.
    fn offset_of(&self, address: u64) -> Result<u64> {
        let segments = self.segments(LOAD)?;
        let holds = |it: &&Segment| address >= it.address && address - it.address < it.bytes;
        let segment = segments.iter().find(holds).context("an address is in no segment")?;
        Ok(address - segment.address + segment.offset)
    }

    /// Reads the table of needed versions: a list of libraries, each with a list of versions.
    fn symbol_versions(
        &self,
        table: u64,
        libraries: u64,
        strings: u64,
    ) -> Result<BTreeSet<SymbolVersion>> {
        let mut found = BTreeSet::new();
        let mut at = table;
        for _ in 0..libraries.min(ENTRIES_MAX) {
            let library = self.text(strings + self.number(at + 4, 4)?)?;
            let mut version_at = at + self.number(at + 8, 4)?;
            for _ in 0..self.number(at + 2, 2)? {
                let version = self.text(strings + self.number(version_at + 8, 4)?)?;
                found.insert(SymbolVersion { library: library.clone(), version });
                version_at += self.number(version_at + 12, 4)?;
            }
            at += self.number(at + 12, 4)?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_this_program() -> Requirements {
        Requirements::read(&std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn versions_compare_by_their_numbers() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("2.4") < version("2.28") && version("2.28") < version("2.28.1"));
        assert_eq!(version("2.28").to_string(), "2.28");
        assert!("2.x".parse::<Version>().is_err());
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn a_dynamic_binary_names_its_libraries_and_versions() {
        let found = of_this_program();
        assert!(found.libraries.iter().any(|it| it == "libc.so.6"), "{:?}", found.libraries);
        assert!(
            found
                .symbols
                .iter()
                .any(|it| it.version == "GLIBC_2.2.5" || it.version == "GLIBC_2.17")
        );
        assert_eq!(found.machine.name(), std::env::consts::ARCH);
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn a_binary_that_needs_a_newer_library_is_refused_with_cause_and_remedy() {
        let found = of_this_program();
        let needed = found.c_library().unwrap();
        found.check_c_library(&needed).unwrap();
        let refusal = found.check_c_library(&"2.1".parse().unwrap()).unwrap_err().to_string();
        for part in [format!("needs glibc {needed}"), format!("--glibc {needed}")] {
            assert!(refusal.contains(&part), "{refusal}");
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(Requirements::parse(b"#!/bin/sh\n").is_err());
        for length in [6, 20, 64, 300] {
            assert!(Requirements::parse(&whole[..length]).is_err(), "{length}");
        }
    }
}
