//! Files of a release: a tar archive, a Debian package, the profile, and checksums.
//!
//! All files in both archives have one time and owner, so that equal programs result in equal
//! bytes.

use crate::shell;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files from which a release is packed.
pub(super) struct Release<'a> {
    pub(super) binary: &'a Path,
    /// Profile that the binary was optimized with.
    pub(super) profile: Option<&'a Path>,
}

/// Returns the unit that the Debian package installs. It is neither enabled nor started, because
/// the configuration has to be written first.
fn unit() -> Result<String> {
    let path = shell::workspace_root().join("deploy/systemd/tollhouse.service");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    // Packages install below /usr; /usr/local belongs to the administrator.
    Ok(text.replace("/usr/local/bin/", "/usr/bin/"))
}

/// Configuration that the Debian package installs.
const CONFIGURATION: &str = "\
# Every key and its default: `tollhouse check --show`, docs/reference/config.md.
data_dir: /var/lib/tollhouse
listen:
  http: 127.0.0.1:9080       # 0.0.0.0:9080 serves other machines too
  https: 127.0.0.1:9443
";

impl Release<'_> {
    /// Empties `folder`, writes all files into it, and returns their paths.
    pub(super) fn write(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder)?;
        let version = env!("CARGO_PKG_VERSION");
        let machine = std::env::consts::ARCH;
        let name = format!("tollhouse-{version}-linux-{machine}");
        let mut files =
            vec![self.write_archive(folder, &name)?, self.write_debian(folder, version)?];
        if let Some(profile) = self.profile {
            let copy = folder.join(format!("{name}.profdata"));
            std::fs::copy(profile, &copy)?;
            files.push(copy);
        }
        files.push(write_checksums(folder, &files)?);
        Ok(files)
    }

    fn write_archive(&self, folder: &Path, name: &str) -> Result<PathBuf> {
        let tree = tempfile::tempdir()?;
        let top = tree.path().join(name);
        put(self.binary, &top.join("tollhouse"))?;
        for file in ["README.md", "LICENSE", "CHANGELOG.md"] {
            put(&shell::workspace_root().join(file), &top.join(file))?;
        }
        let archive = folder.join(format!("{name}.tar.gz"));
        let mut command = Command::new("tar");
        command
            .args([
                "--sort=name",
                "--owner=0",
                "--group=0",
                "--numeric-owner",
                "--use-compress-program",
            ])
            .args(["gzip --no-name --best", &format!("--mtime=@{}", commit_time()?), "--create"])
            .arg("--file")
            .arg(&archive)
            .arg("--directory")
            .arg(tree.path())
            .arg(name);
        shell::run(&mut command)?;
        Ok(archive)
    }

    fn write_debian(&self, folder: &Path, version: &str) -> Result<PathBuf> {
        let machine = debian_machine()?;
        let tree = tempfile::tempdir()?;
        let root = tree.path();
        put(self.binary, &root.join("usr/bin/tollhouse"))?;
        for file in ["README.md", "CHANGELOG.md"] {
            put(
                &shell::workspace_root().join(file),
                &root.join("usr/share/doc/tollhouse").join(file),
            )?;
        }
        put(
            &shell::workspace_root().join("LICENSE"),
            &root.join("usr/share/doc/tollhouse/copyright"),
        )?;
        put_text(&root.join("usr/lib/systemd/system/tollhouse.service"), &unit()?)?;
        put_text(&root.join("etc/tollhouse/tollhouse.yaml"), CONFIGURATION)?;
        put_text(&root.join("DEBIAN/conffiles"), "/etc/tollhouse/tollhouse.yaml\n")?;
        let size_kib = std::fs::metadata(self.binary)?.len() / 1024;
        put_text(
            &root.join("DEBIAN/control"),
            &format!(
                "Package: tollhouse\nVersion: {version}\nArchitecture: {machine}\n\
                 Maintainer: The Tollhouse maintainers\nInstalled-Size: {size_kib}\n\
                 Depends: libc6 (>= {}), libgcc-s1\nSection: net\nPriority: optional\n\
                 Description: API gateway, service registry and load generator in one program\n \
                 Speaks the Admin API of Apache APISIX and the protocols of Polaris.\n",
                libc_version()?
            ),
        )?;
        let package = folder.join(format!("tollhouse_{version}_{machine}.deb"));
        // The time of the commit, so that two builds of it have the same bytes.
        let mut command = Command::new("dpkg-deb");
        command
            .env("SOURCE_DATE_EPOCH", commit_time()?)
            .args(["--root-owner-group", "--build"])
            .arg(root)
            .arg(&package);
        shell::run(&mut command).context("the Debian package; dpkg-deb makes it")?;
        Ok(package)
    }
}

fn write_checksums(folder: &Path, files: &[PathBuf]) -> Result<PathBuf> {
    let mut command = Command::new("sha256sum");
    command.current_dir(folder).args(files.iter().filter_map(|file| file.file_name()));
    let sums = folder.join("SHA256SUMS");
    std::fs::write(&sums, shell::capture(&mut command)?)?;
    Ok(sums)
}

/// Returns the time of the commit in seconds since 1970, which is the time of every file in the
/// archives.
fn commit_time() -> Result<String> {
    let text = shell::capture(&mut shell::command("git", &["log", "-1", "--format=%ct"]))?;
    Ok(text.trim().to_owned())
}

fn debian_machine() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no Debian name is known for the machine {other}"),
    }
}

/// Returns the version of the C library used for the build, the oldest one that is known to work.
fn libc_version() -> Result<String> {
    let text = shell::capture(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let version = text.trim().rsplit(' ').next().context("getconf names no version")?;
    Ok(version.to_owned())
}

fn put(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    Ok(())
}

fn put_text(to: &Path, text: &str) -> Result<()> {
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    Ok(std::fs::write(to, text)?)
}
