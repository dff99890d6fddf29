//! The tar archive: the program in a folder of its own, for every system.

use super::release::{Release, root_file};
use super::tree::{Purpose, Tree};
use anyhow::Result;

/// Name of the archive without its ending, and of the folder in it.
pub(super) fn name(release: &Release) -> String {
    format!("tollhouse-{}-linux-{}", release.version, release.requirements.machine.name())
}

pub(super) fn file_name(release: &Release) -> String {
    format!("{}.tar.gz", name(release))
}

/// Returns the bytes of the compressed archive.
pub(super) fn build(release: &Release) -> Result<Vec<u8>> {
    let mut files = Tree::default();
    files.put("tollhouse", release.binary.clone(), Purpose::Program);
    for file in ["README.md", "LICENSE", "CHANGELOG.md"] {
        files.put_text(file, &root_file(file)?, Purpose::Documentation);
    }
    // The unit as it is: /usr/local belongs to those who install by hand.
    let unit = root_file("deploy/systemd/tollhouse.service")?;
    files.put_text("systemd/tollhouse.service", &unit, Purpose::Documentation);
    let texts = &release.texts;
    for (file, text) in [
        ("tollhouse.bash", &texts.bash),
        ("_tollhouse", &texts.zsh),
        ("tollhouse.fish", &texts.fish),
    ] {
        files.put_text(&format!("completions/{file}"), text, Purpose::Documentation);
    }
    for page in &texts.pages {
        files.put_text(&format!("man/man1/{}", page.name), &page.text, Purpose::Documentation);
    }
    let prefix = format!("{}/", name(release));
    release.compress(&files.tar(&prefix, release.time)?)
}
