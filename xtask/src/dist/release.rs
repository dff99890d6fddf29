//! Files of a release, made from one binary: packages, the image, the list of components, the
//! profile, checksums and their signature.

use super::requirements::Requirements;
use super::texts::Texts;
use super::tree::{Purpose, Tree};
use super::{archive, debian, image, rpm, sbom};
use crate::shell;
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

/// A kind of file that contains the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Archive,
    Deb,
    Rpm,
    Image,
}

/// Input of all files.
pub(super) struct Release {
    pub(super) version: &'static str,
    /// Time of the commit in seconds since 1970: the time of every file in every package.
    pub(super) time: u64,
    pub(super) path: PathBuf,
    pub(super) binary: Rc<[u8]>,
    pub(super) requirements: Requirements,
    pub(super) texts: Texts,
    /// Compression level of gzip.
    pub(super) level: u8,
}

/// Files that describe the binary beside the packages.
pub(super) struct Beside<'a> {
    /// Profile that the binary was optimized with.
    pub(super) profile: Option<&'a Path>,
    /// Secret key of minisign.
    pub(super) key: Option<&'a Path>,
}

impl Release {
    pub(super) fn new(binary: &Path, requirements: Requirements, level: u8) -> Result<Self> {
        let bytes = std::fs::read(binary).with_context(|| binary.display().to_string())?;
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            time: commit_time()?,
            path: binary.to_owned(),
            binary: bytes.into(),
            requirements,
            texts: Texts::from_binary(binary)?,
            level,
        })
    }

    /// Empties `folder`, writes the files into it, and returns their paths.
    pub(super) fn write(
        &self,
        folder: &Path,
        forms: &[Form],
        beside: &Beside<'_>,
    ) -> Result<Vec<PathBuf>> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder)?;
        let mut files = Vec::new();
        let mut write = |name: String, bytes: &[u8]| {
            let file = folder.join(name);
            std::fs::write(&file, bytes).with_context(|| file.display().to_string())?;
            files.push(file);
            anyhow::Ok(())
        };
        for form in forms {
            match form {
                Form::Archive => write(archive::file_name(self), &archive::build(self)?)?,
                Form::Deb => write(debian::file_name(self), &debian::build(self)?)?,
                Form::Rpm => write(rpm::file_name(self), &rpm::build(self)?)?,
                Form::Image => write(image::file_name(self), &image::build(self)?)?,
            }
        }
        let name = archive::name(self);
        write(format!("{name}.cdx.json"), sbom::document(self)?.as_bytes())?;
        if let Some(profile) = beside.profile {
            write(format!("{name}.profdata"), &std::fs::read(profile)?)?;
        }
        let sums = write_checksums(folder, &files)?;
        if let Some(key) = beside.key {
            files.push(self.sign(key, &sums)?);
        }
        files.push(sums);
        Ok(files)
    }

    /// Returns the files that both kinds of packages install.
    pub(super) fn system_tree(&self) -> Result<Tree> {
        let mut files = Tree::default();
        files.put("usr/bin/tollhouse", self.binary.clone(), Purpose::Program);
        let documents = "usr/share/doc/tollhouse";
        for (from, to) in [
            ("README.md", "README.md"),
            ("CHANGELOG.md", "CHANGELOG.md"),
            ("docs/reference/config.md", "config.md"),
        ] {
            files.put_text(&format!("{documents}/{to}"), &root_file(from)?, Purpose::Documentation);
        }
        files.put_text(&format!("{documents}/copyright"), &root_file("LICENSE")?, Purpose::License);
        // Packages install below /usr; /usr/local belongs to the administrator.
        let unit =
            root_file("deploy/systemd/tollhouse.service")?.replace("/usr/local/bin/", "/usr/bin/");
        files.put_text("usr/lib/systemd/system/tollhouse.service", &unit, Purpose::Documentation);
        let configuration = deployed("tollhouse.yaml")?;
        files.put_text("etc/tollhouse/tollhouse.yaml", &configuration, Purpose::Configuration);
        for (path, text) in [
            ("bash-completion/completions/tollhouse", &self.texts.bash),
            ("fish/vendor_completions.d/tollhouse.fish", &self.texts.fish),
        ] {
            files.put_text(&format!("usr/share/{path}"), text, Purpose::Documentation);
        }
        for page in &self.texts.pages {
            let path = format!("usr/share/man/man1/{}.gz", page.name);
            files.put(&path, self.compress(page.text.as_bytes())?, Purpose::Documentation);
        }
        Ok(files)
    }

    pub(super) fn compress(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let level = format!("-{}", self.level);
        shell::filter(Command::new("gzip").args(["--no-name", &level]), bytes)
    }

    /// Signs the checksums, and with them all files.
    fn sign(&self, key: &Path, sums: &Path) -> Result<PathBuf> {
        let mut command = Command::new("minisign");
        let comment = format!("tollhouse {}", self.version);
        command.args(["-S", "-t", &comment, "-s"]).arg(key).arg("-m").arg(sums);
        shell::run(&mut command).context("signing, which the program minisign does")?;
        Ok(sums.with_file_name("SHA256SUMS.minisig"))
    }
}

/// Returns the SHA-256 in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> Result<String> {
    let printed = String::from_utf8(shell::filter(&mut Command::new("sha256sum"), bytes)?)?;
    Ok(printed.chars().take_while(char::is_ascii_hexdigit).collect())
}

/// Returns the text of a file of the tree.
pub(super) fn root_file(path: &str) -> Result<String> {
    let path = shell::workspace_root().join(path);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// Returns the text of a file in `deploy/packages`.
pub(super) fn deployed(name: &str) -> Result<String> {
    root_file(&format!("deploy/packages/{name}"))
}

fn write_checksums(folder: &Path, files: &[PathBuf]) -> Result<PathBuf> {
    let mut command = Command::new("sha256sum");
    command.current_dir(folder).args(files.iter().filter_map(|file| file.file_name()));
    let sums = folder.join("SHA256SUMS");
    std::fs::write(&sums, shell::capture(&mut command)?)?;
    Ok(sums)
}

/// Returns `SOURCE_DATE_EPOCH`, which sources without a repository need, or the time of the commit.
fn commit_time() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => shell::capture(&mut shell::command("git", &["log", "-1", "--format=%ct"]))?,
    };
    text.trim().parse().with_context(|| format!("invalid time \"{}\"", text.trim()))
}
