//! The image: a tar archive of an OCI layout, which `podman load`, `docker load` and `skopeo` read.
//!
//! It has one layer: the program, its configuration, the libraries that its loader asks for, and
//! Mozilla's certificate authorities from the lock file, because the list of a machine may have
//! private ones.

use super::release::{Release, root_file, sha256};
use super::tree::{Content, Entry, Purpose, Tree};
use crate::shell;
use anyhow::{Context, Result};
use base64::Engine as _;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// User and group of the program, as in `deploy/Containerfile` and in the chart.
const USER: u32 = 10001;

/// Libraries that the C library opens by name to resolve host names, before its version 2.34.
const RESOLVERS: [&str; 3] = ["libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2"];

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

pub(super) fn file_name(release: &Release) -> String {
    format!("tollhouse-{}-image-{}.tar", release.version, release.requirements.machine.name())
}

/// Returns the bytes of the archive.
pub(super) fn build(release: &Release) -> Result<Vec<u8>> {
    let mut layout = Layout::default();
    let plain = layer(release)?.tar("", release.time)?;
    let difference = format!("sha256:{}", sha256(&plain)?);
    let layer = layout.put(LAYER, release.compress(&plain)?)?;
    let configuration = json!({
        "created": created(release)?,
        "architecture": release.requirements.machine.debian_name(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": {"9080/tcp": {}, "9443/tcp": {}},
            "Env": ["PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
            "Entrypoint": ["/usr/bin/tollhouse"],
            "Cmd": ["run", "--config", "/etc/tollhouse/tollhouse.yaml"],
            "Volumes": {"/var/lib/tollhouse": {}},
            "WorkingDir": "/var/lib/tollhouse",
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "tollhouse",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [difference]},
        "history": [{"created": created(release)?, "created_by": "cargo x dist"}],
    });
    let configuration = layout.put(CONFIGURATION, configuration.to_string().into_bytes())?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": configuration.json,
        "layers": [layer.json],
    });
    let mut manifest = layout.put(MANIFEST, manifest.to_string().into_bytes())?.json;
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": release.version});
    manifest["platform"] = json!({
        "architecture": release.requirements.machine.debian_name(),
        "os": "linux",
    });
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    let documentation = Purpose::Documentation;
    layout.files.put_text("index.json", &index.to_string(), documentation);
    layout.files.put_text("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#, documentation);
    // What `docker load` reads where it does not know OCI layouts.
    let docker = json!([{
        "Config": configuration.path,
        "RepoTags": [format!("tollhouse:{}", release.version)],
        "Layers": [layer.path],
    }]);
    layout.files.put_text("manifest.json", &docker.to_string(), documentation);
    layout.files.tar("", release.time)
}

/// Content by its digest, as a manifest names it.
struct Blob {
    path: String,
    json: serde_json::Value,
}

#[derive(Default)]
struct Layout {
    files: Tree,
}

impl Layout {
    fn put(&mut self, media_type: &str, bytes: Vec<u8>) -> Result<Blob> {
        let digest = sha256(&bytes)?;
        let path = format!("blobs/sha256/{digest}");
        let json = json!({
            "mediaType": media_type,
            "digest": format!("sha256:{digest}"),
            "size": bytes.len(),
        });
        self.files.put(&path, bytes, Purpose::Documentation);
        Ok(Blob { path, json })
    }
}

/// Returns the files of the image.
fn layer(release: &Release) -> Result<Tree> {
    let mut files = Tree::default();
    files.put("usr/bin/tollhouse", release.binary.clone(), Purpose::Program);
    for library in libraries(release)? {
        let path = library.to_string_lossy().trim_start_matches('/').to_owned();
        files.copy(&library, &path, Purpose::Program)?;
    }
    for (path, text) in [
        ("etc/passwd", format!("tollhouse:x:{USER}:{USER}::/var/lib/tollhouse:/sbin/nologin\n")),
        ("etc/group", format!("tollhouse:x:{USER}:\n")),
        ("etc/nsswitch.conf", "hosts: files dns\n".to_owned()),
        ("etc/ssl/certs/ca-certificates.crt", authorities()),
        ("etc/tollhouse/tollhouse.yaml", root_file("deploy/container.yaml")?),
        ("usr/share/doc/tollhouse/copyright", root_file("LICENSE")?),
    ] {
        files.put_text(path, &text, Purpose::Documentation);
    }
    let folder = |mode, owner| Entry { mode, owner, content: Content::Folder };
    files.add("tmp", folder(0o1777, 0));
    files.add("var/lib/tollhouse", folder(0o700, USER));
    Ok(files)
}

/// Returns the loader and the libraries of this machine that the program is linked to.
fn libraries(release: &Release) -> Result<Vec<PathBuf>> {
    if release.requirements.libraries.is_empty() {
        return Ok(Vec::new());
    }
    let printed = shell::capture(Command::new("ldd").arg(&release.path))?;
    // "libm.so.6 => /lib/libm.so.6 (0x…)", or "/lib64/ld-linux-x86-64.so.2 (0x…)".
    let words =
        printed.lines().filter_map(|line| line.split_whitespace().find(|it| it.starts_with('/')));
    let mut found: Vec<PathBuf> = words.map(PathBuf::from).collect();
    let c_library = found.iter().find(|it| it.ends_with("libc.so.6"));
    let folder = c_library.and_then(|it| it.parent()).context("ldd names no C library")?.to_owned();
    found.extend(RESOLVERS.map(|name| folder.join(name)).into_iter().filter(|it| it.is_file()));
    // The licences of Debian's packages with these libraries.
    let notices =
        ["libc6", "libgcc-s1"].map(|it| Path::new("/usr/share/doc").join(it).join("copyright"));
    found.extend(notices.into_iter().filter(|it| it.is_file()));
    Ok(found)
}

fn authorities() -> String {
    let mut bundle = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        let text = base64::engine::general_purpose::STANDARD.encode(certificate);
        bundle.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in text.as_bytes().chunks(64) {
            bundle.extend(line.iter().map(|byte| char::from(*byte)));
            bundle.push('\n');
        }
        bundle.push_str("-----END CERTIFICATE-----\n");
    }
    bundle
}

/// Returns the time of the commit as images have it.
pub(super) fn created(release: &Release) -> Result<String> {
    let seconds = format!("@{}", release.time);
    let mut command = Command::new("date");
    let printed =
        shell::capture(command.args(["--utc", "--date", &seconds, "+%Y-%m-%dT%H:%M:%SZ"]))?;
    Ok(printed.trim().to_owned())
}
