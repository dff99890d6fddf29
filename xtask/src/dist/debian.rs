//! The Debian package: an `ar` archive of two compressed tar archives.

use super::release::Release;
use super::tree::{Purpose, Tree};
use crate::shell;
use anyhow::Result;
use std::fmt::Write as _;

/// Maintainer scripts, by their names in the package and in `deploy/packages`.
const SCRIPTS: [(&str, &str); 3] =
    [("postinst", "deb-postinst"), ("prerm", "deb-prerm"), ("postrm", "deb-postrm")];

pub(super) fn file_name(release: &Release) -> String {
    format!("tollhouse_{}_{}.deb", release.version, release.requirements.machine.debian_name())
}

/// Returns the bytes of the package.
pub(super) fn build(release: &Release) -> Result<Vec<u8>> {
    let mut files = release.system_tree()?;
    files.put(
        "usr/share/zsh/vendor-completions/_tollhouse",
        release.texts.zsh.as_bytes(),
        Purpose::Documentation,
    );
    let mut control = Tree::default();
    control.put_text("control", &control_file(release, &files)?, Purpose::Documentation);
    control.put_text("md5sums", &md5_sums(&files)?, Purpose::Documentation);
    let configuration: String = files
        .files()
        .filter(|(_, entry)| entry.purpose() == Some(Purpose::Configuration))
        .map(|(path, _)| format!("/{path}\n"))
        .collect();
    control.put_text("conffiles", &configuration, Purpose::Documentation);
    for (name, source) in SCRIPTS {
        control.put_text(name, &super::release::deployed(source)?, Purpose::Program);
    }
    let mut package = b"!<arch>\n".to_vec();
    let mut push = |name: &str, bytes: &[u8]| {
        let (time, size) = (release.time, bytes.len());
        package.extend(format!("{name:<16}{time:<12}0     0     100644  {size:<10}`\n").bytes());
        package.extend_from_slice(bytes);
        if !bytes.len().is_multiple_of(2) {
            package.push(b'\n');
        }
    };
    push("debian-binary", b"2.0\n");
    push("control.tar.gz", &release.compress(&control.tar("./", release.time)?)?);
    push("data.tar.gz", &release.compress(&files.tar("./", release.time)?)?);
    Ok(package)
}

fn control_file(release: &Release, files: &Tree) -> Result<String> {
    let mut text = format!(
        "Package: tollhouse\nVersion: {}\nArchitecture: {}\nMaintainer: The Tollhouse maintainers\n\
         Installed-Size: {}\n",
        release.version,
        release.requirements.machine.debian_name(),
        files.total_bytes().div_ceil(1024),
    );
    let mut needed = Vec::new();
    if let Some(version) = release.requirements.c_library() {
        needed.push(format!("libc6 (>= {version})"));
    }
    if release.requirements.libraries.iter().any(|it| it == "libgcc_s.so.1") {
        needed.push("libgcc-s1".to_owned());
    }
    if !needed.is_empty() {
        writeln!(text, "Depends: {}", needed.join(", "))?;
    }
    text.push_str(
        "Recommends: ca-certificates\nSection: net\nPriority: optional\n\
         Description: API gateway, service registry and load generator in one program\n \
         Speaks the Admin API of Apache APISIX and the protocols of Polaris.\n",
    );
    Ok(text)
}

/// Returns the sums with which `dpkg --verify` compares installed files.
fn md5_sums(files: &Tree) -> Result<String> {
    let mut sums = String::new();
    for (path, entry) in
        files.files().filter(|(_, it)| it.purpose() != Some(Purpose::Configuration))
    {
        let printed = shell::filter(&mut std::process::Command::new("md5sum"), entry.bytes())?;
        let printed = String::from_utf8(printed)?;
        writeln!(sums, "{}  {path}", printed.split(' ').next().unwrap_or_default())?;
    }
    Ok(sums)
}
