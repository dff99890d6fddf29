//! The RPM package: lead, signature header, header, and a compressed cpio archive, as the format's
//! version 4 has them. Digests of header and payload let `rpm --checksig` find damage; the release
//! is signed as a whole by its checksums.

mod header;

use super::release::{Release, deployed, sha256};
use super::requirements::Requirements;
use super::tree::{Entry, Purpose, Tree};
use anyhow::Result;
use header::{Header, Value};

/// Release number of the packaging of a version.
const RELEASE: &str = "1";
const SUMMARY: &str = "API gateway, service registry and load generator in one program";
const DESCRIPTION: &str = "Speaks the Admin API of Apache APISIX and the protocols of Polaris.";

/// Scriptlets: the tag of the text, the tag of its interpreter, and the file in `deploy/packages`.
const SCRIPTS: [(u32, u32, &str); 3] =
    [(1024, 1086, "rpm-post"), (1025, 1087, "rpm-preun"), (1026, 1088, "rpm-postun")];

/// Flags of a relation: less, greater, equal.
const LESS: u32 = 2;
const EQUAL: u32 = 8;
/// A feature that the installing RPM must have.
const OF_RPM: u32 = 1 << 24;

/// Kind of a file: a configuration that is kept if changed, a document, a licence.
const CONFIGURATION: u32 = 1 | 1 << 4;
const DOCUMENT: u32 = 1 << 1;
const LICENSE: u32 = 1 << 7;

pub(super) fn file_name(release: &Release) -> String {
    format!("tollhouse-{}-{RELEASE}.{}.rpm", release.version, release.requirements.machine.name())
}

/// Returns the bytes of the package.
pub(super) fn build(release: &Release) -> Result<Vec<u8>> {
    let mut files = release.system_tree()?;
    let zsh = release.texts.zsh.as_bytes();
    files.put("usr/share/zsh/site-functions/_tollhouse", zsh, Purpose::Documentation);
    let archive = files.cpio(release.time)?;
    let payload = release.compress(&archive)?;
    let mut header = Header::default();
    describe(&mut header, release, &files)?;
    list_files(&mut header, release, &files)?;
    list_relations(&mut header, release);
    header.set(5092, Value::texts([sha256(&payload)?]));
    header.set(5093, Value::Long(vec![8]));
    let header = header.encode(63)?;
    let mut signature = Header::default();
    signature.set(1000, Value::Long(vec![u32::try_from(header.len() + payload.len())?]));
    signature.set(273, Value::Text(sha256(&header)?));
    signature.set(1007, Value::Long(vec![u32::try_from(archive.len())?]));
    let mut package = lead(release);
    package.extend(signature.encode(62)?);
    super::tree::pad(&mut package, 8);
    package.extend(header);
    package.extend(payload);
    Ok(package)
}

/// Returns the first 96 bytes, which RPM only reads to recognize the file.
fn lead(release: &Release) -> Vec<u8> {
    let mut lead = vec![0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, 1];
    lead.extend(format!("tollhouse-{}-{RELEASE}", release.version).bytes().take(65));
    lead.resize(76, 0);
    // Linux, and a signature in the form of a header.
    lead.extend([0, 1, 0, 5]);
    lead.resize(96, 0);
    lead
}

fn describe(header: &mut Header, release: &Release, files: &Tree) -> Result<()> {
    let text = |text: &str| Value::Text(text.to_owned());
    header.set(100, Value::texts(["C".to_owned()]));
    header.set(1000, text("tollhouse"));
    header.set(1001, text(release.version));
    header.set(1002, text(RELEASE));
    header.set(1004, Value::Translated(SUMMARY.to_owned()));
    header.set(1005, Value::Translated(DESCRIPTION.to_owned()));
    header.set(1006, Value::Long(vec![u32::try_from(release.time)?]));
    header.set(1007, text("reproducible"));
    header.set(1009, Value::Long(vec![u32::try_from(files.total_bytes())?]));
    header.set(1014, text("Apache-2.0"));
    header.set(1016, Value::Translated("System Environment/Daemons".to_owned()));
    header.set(1021, text("linux"));
    header.set(1022, text(release.requirements.machine.name()));
    // Its presence says that this is not a source package.
    header.set(1044, text(&format!("tollhouse-{}-{RELEASE}.src.rpm", release.version)));
    header.set(1064, text("4.14.0"));
    header.set(1124, text("cpio"));
    header.set(1125, text("gzip"));
    header.set(1126, text(&release.level.to_string()));
    for (script, interpreter, name) in SCRIPTS {
        header.set(script, Value::Text(deployed(name)?));
        header.set(interpreter, text("/bin/sh"));
    }
    Ok(())
}

fn list_files(header: &mut Header, release: &Release, files: &Tree) -> Result<()> {
    let entries: Vec<(&str, &Entry)> = files.files().collect();
    let mut folders: Vec<String> = Vec::new();
    let mut places = Vec::new();
    let mut names = Vec::new();
    for (path, _) in &entries {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = format!("/{folder}/");
        let known = folders.iter().position(|it| *it == folder);
        places.push(u32::try_from(known.unwrap_or(folders.len()))?);
        if known.is_none() {
            folders.push(folder);
        }
        names.push(name.to_owned());
    }
    let count = entries.len();
    let longs = |value: &dyn Fn(&Entry) -> u32| {
        Value::Long(entries.iter().map(|(_, entry)| value(entry)).collect())
    };
    let same = |text: &str| Value::texts(vec![text.to_owned(); count]);
    let time = u32::try_from(release.time)?;
    header.set(1028, longs(&|it| u32::try_from(it.bytes().len()).unwrap_or(u32::MAX)));
    let modes = entries.iter().map(|(_, it)| u16::try_from(it.full_mode()));
    header.set(1030, Value::Short(modes.collect::<Result<_, _>>()?));
    header.set(1033, Value::Short(vec![0; count]));
    header.set(1034, longs(&|_| time));
    let digests = entries.iter().map(|(_, entry)| sha256(entry.bytes()));
    header.set(1035, Value::texts(digests.collect::<Result<Vec<_>>>()?));
    header.set(1036, same(""));
    header.set(1037, longs(&flags));
    header.set(1039, same("root"));
    header.set(1040, same("root"));
    header.set(1045, longs(&|_| u32::MAX));
    header.set(1095, longs(&|_| 1));
    header.set(1096, Value::Long((1..=u32::try_from(count)?).collect()));
    header.set(1097, same(""));
    header.set(1116, Value::Long(places));
    header.set(1117, Value::texts(names));
    header.set(1118, Value::texts(folders));
    // SHA-256.
    header.set(5011, Value::Long(vec![8]));
    Ok(())
}

fn flags(entry: &Entry) -> u32 {
    match entry.purpose() {
        Some(Purpose::Configuration) => CONFIGURATION,
        Some(Purpose::Documentation) => DOCUMENT,
        Some(Purpose::License) => LICENSE,
        Some(Purpose::Program) | None => 0,
    }
}

/// A package or a feature with a version, as another is compared with it.
struct Relation {
    name: String,
    flags: u32,
    version: String,
}

impl Relation {
    fn name_only(name: String) -> Self {
        Self { name, flags: 0, version: String::new() }
    }
}

fn list_relations(header: &mut Header, release: &Release) {
    let full = format!("{}-{RELEASE}", release.version);
    header.set(1047, Value::texts(["tollhouse".to_owned()]));
    header.set(1112, Value::Long(vec![EQUAL]));
    header.set(1113, Value::texts([full]));
    let mut needed = libraries(&release.requirements);
    needed.push(Relation::name_only("/bin/sh".to_owned()));
    for (feature, version) in [
        ("CompressedFileNames", "3.0.4-1"),
        ("FileDigests", "4.6.0-1"),
        ("PayloadFilesHavePrefix", "4.0-1"),
    ] {
        let name = format!("rpmlib({feature})");
        needed.push(Relation { name, flags: LESS | EQUAL | OF_RPM, version: version.to_owned() });
    }
    needed.sort_by(|a, b| a.name.cmp(&b.name));
    header.set(1048, Value::Long(needed.iter().map(|it| it.flags).collect()));
    header.set(1049, Value::texts(needed.iter().map(|it| it.name.clone())));
    header.set(1050, Value::texts(needed.iter().map(|it| it.version.clone())));
}

/// Returns the libraries and versions of symbols in the words of distributions with RPM.
fn libraries(requirements: &Requirements) -> Vec<Relation> {
    let symbols = requirements.symbols.iter().map(|it| (&it.library, it.version.as_str()));
    let whole = requirements.libraries.iter().map(|library| (library, ""));
    whole
        .chain(symbols)
        .map(|(library, version)| Relation::name_only(format!("{library}({version})(64bit)")))
        .collect()
}
