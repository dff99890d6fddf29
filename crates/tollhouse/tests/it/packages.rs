//! The files of `cargo x dist`, made from the program under test: each is unpacked or installed, its
//! program started, and asked.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{Ran, Running, find, run, run_well, run_within};
use tollhouse_testkit::{ClosedPort, RawClient};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tollhouse");

/// Time to compile the developer tasks and to pack a program without optimization.
const PACKING_TIME: Duration = Duration::from_secs(300);

/// Files of a release, in a folder that lasts as long as this.
struct Release {
    folder: tempfile::TempDir,
}

impl Release {
    /// Makes the files of these forms. `None`, with a message, if this machine cannot.
    fn make(forms: &str) -> Option<Self> {
        Self::make_with(forms, &[])
    }

    fn make_with(forms: &str, arguments: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("tollhouse");
        // Tables for debuggers are most of the file.
        run_well(Command::new(find("strip")?).arg("-o").arg(&program).arg(PROGRAM));
        let output = folder.path().join("files");
        let ran =
            dist(&program, &output, &[&["--only", forms, "--glibc", "99"], arguments].concat());
        assert!(ran.status.success(), "{}", ran.text);
        Some(Self { folder })
    }

    fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    /// The file with this ending.
    fn file(&self, ending: &str) -> PathBuf {
        let files = fs::read_dir(self.files()).expect("the files are there");
        let mut paths = files.map(|file| file.expect("it can be read").path());
        let found = paths.find(|path| path.to_string_lossy().ends_with(ending));
        found.unwrap_or_else(|| panic!("no file ends with {ending}"))
    }

    fn empty_folder(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join(name);
        fs::create_dir(&folder).expect("it is new");
        folder
    }
}

fn dist(program: &Path, output: &Path, arguments: &[&str]) -> Ran {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root)
        .args(["run", "--quiet", "--package", "xtask", "--", "dist", "--level", "1", "--binary"])
        .arg(program)
        .arg("--output")
        .arg(output)
        .args(arguments)
        // Sources without a repository have no commit whose time could be taken.
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .env_remove("TOLLHOUSE_SIGNING_KEY");
    run_within(&mut command, PACKING_TIME)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A gateway that runs from an unpacked package.
struct Service {
    running: Running,
    address: std::net::SocketAddr,
}

/// Variables that move a gateway's listeners and its data.
fn variables(address: std::net::SocketAddr, data: &Path) -> Vec<(String, String)> {
    let mut variables = vec![
        ("TOLLHOUSE_LISTEN_HTTP".to_owned(), address.to_string()),
        ("TOLLHOUSE_DATA_DIR".to_owned(), data.display().to_string()),
        ("TOLLHOUSE_WORKERS".to_owned(), "1".to_owned()),
    ];
    for other in ["HTTPS", "ADMIN", "CONTROL", "METRICS", "REGISTRY_GRPC", "REGISTRY_HTTP"] {
        variables.push((format!("TOLLHOUSE_LISTEN_{other}"), "127.0.0.1:0".to_owned()));
    }
    variables
}

fn start(program: &Path, configuration: &Path, data: &Path) -> Service {
    let address = ClosedPort::new().address();
    let mut command = Command::new(program);
    command.args(["run", "--config"]).arg(configuration).envs(variables(address, data));
    let running = Running::start(command.env_remove("TOLLHOUSE_ADMIN_KEY"));
    running.output().wait_line("the end of the start-up text", |line| {
        line.contains("reaches the data plane").then_some(())
    });
    Service { running, address }
}

/// Starts the program of an unpacked package, and asks it for the demonstration.
fn assert_serves(root: &Path, data: &Path) {
    let program = root.join("usr/bin/tollhouse");
    let service = start(&program, &root.join("etc/tollhouse/tollhouse.yaml"), data);
    assert_eq!(RawClient::connect(service.address).get("/demo").status(), 200);
    service.running.terminate();
}

/// Checks what both kinds of packages install beside the program.
fn assert_is_complete(root: &Path) {
    let unit = read(&root.join("usr/lib/systemd/system/tollhouse.service"));
    let shipped =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/tollhouse.service");
    assert_eq!(unit, read(&shipped).replace("/usr/local/bin/", "/usr/bin/"), "there is one unit");
    let configuration = root.join("etc/tollhouse/tollhouse.yaml");
    let ran = run(Command::new(PROGRAM).args(["check", "--config"]).arg(&configuration));
    assert!(ran.status.success() && ran.text.contains("0 errors, 0 warnings"), "{}", ran.text);
    let comment = read(&configuration);
    let page = comment
        .split([' ', ',', '\n'])
        .map(|word| word.trim_end_matches('.'))
        .find(|word| word.ends_with(".md"))
        .expect("a page");
    assert!(read(&root.join(page.trim_start_matches('/'))).contains("data_dir"), "{page}");
    for file in [
        "usr/share/bash-completion/completions/tollhouse",
        "usr/share/fish/vendor_completions.d/tollhouse.fish",
        "usr/share/man/man1/tollhouse-explain.1.gz",
        "usr/share/doc/tollhouse/copyright",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
}

#[test]
fn the_archive_holds_a_program_that_serves_and_the_sums_and_components_fit() {
    let Some(release) = Release::make("archive") else { return };
    let root = release.empty_folder("root");
    let archive = release.file(".tar.gz");
    run_well(
        Command::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .arg("-C")
            .arg(&root)
            .arg("--strip-components=1"),
    );
    let configuration = root.join("tollhouse.yaml");
    fs::write(&configuration, "workers: 1\n").expect("the folder takes files");
    let service = start(&root.join("tollhouse"), &configuration, &release.empty_folder("data"));
    assert_eq!(RawClient::connect(service.address).get("/demo").status(), 200);
    for file in ["completions/_tollhouse", "man/man1/tollhouse.1", "systemd/tollhouse.service"] {
        assert!(root.join(file).is_file(), "{file}");
    }
    let mut check = Command::new("sha256sum");
    run_well(check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(release.files()));
    let components: Value = serde_json::from_str(&read(&release.file(".cdx.json"))).expect("JSON");
    let names: Vec<&str> = components["components"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert!(names.contains(&"rustls") && names.contains(&"tollhouse-proxy"), "{names:?}");
    assert!(!names.contains(&"tollhouse-testkit") && !names.contains(&"prost-build"), "{names:?}");
}

#[test]
fn equal_programs_result_in_equal_files() {
    let forms = "archive,deb,rpm,image";
    let (Some(one), Some(two)) = (Release::make(forms), Release::make(forms)) else { return };
    assert_eq!(read(&one.file("SHA256SUMS")), read(&two.file("SHA256SUMS")));
    assert_eq!(read(&one.file("SHA256SUMS")).lines().count(), 5, "four forms and the components");
}

#[test]
fn the_checksums_are_signed_with_the_key_of_the_release() {
    let Some(minisign) = find("minisign") else { return };
    let keys = tempfile::tempdir().expect("a folder");
    let (public, secret) = (keys.path().join("public"), keys.path().join("secret"));
    run_well(Command::new(&minisign).args(["-G", "-W", "-p"]).arg(&public).arg("-s").arg(&secret));
    let key = secret.to_str().expect("text");
    let Some(release) = Release::make_with("archive", &["--sign", key]) else { return };
    let mut verify = Command::new(minisign);
    run_well(verify.arg("-V").arg("-p").arg(&public).arg("-m").arg(release.file("SHA256SUMS")));
}

#[test]
fn a_program_for_a_newer_c_library_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = dist(Path::new(PROGRAM), &folder.path().join("files"), &["--glibc", "2.2"]);
    assert!(!ran.status.success());
    assert!(
        ran.text.contains("the binary needs glibc 2.") && ran.text.contains("--glibc 2."),
        "{}",
        ran.text
    );
}

#[test]
fn the_rpm_package_is_whole_needs_what_the_program_needs_and_serves() {
    let (Some(rpm), Some(to_archive)) = (find("rpm"), find("rpm2archive")) else { return };
    let Some(release) = Release::make("rpm") else { return };
    let package = release.file(".rpm");
    let database = release.empty_folder("database");
    let ask = |words: &[&str]| {
        run_well(Command::new(&rpm).arg("--dbpath").arg(&database).args(words).arg(&package))
    };
    assert!(ask(&["--checksig"]).contains("digests OK"), "{}", ask(&["--checksig"]));
    let described = ask(&["-qp", "--queryformat", "%{NAME} %{VERSION} %{LICENSE} %{ARCH}"]);
    let expected =
        format!("tollhouse {} Apache-2.0 {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    assert_eq!(described.trim(), expected);
    let needed = ask(&["-qp", "--requires"]);
    assert!(needed.contains("libc.so.6(GLIBC_2.") && needed.contains("/bin/sh"), "{needed}");
    assert_eq!(ask(&["-qp", "--configfiles"]).trim(), "/etc/tollhouse/tollhouse.yaml");
    assert!(ask(&["-qp", "--scripts"]).contains("systemctl reload tollhouse.service"));
    let root = release.empty_folder("root");
    let mut unpack = Command::new("sh");
    let line = "\"$0\" -n - < \"$1\" | tar -x -C \"$2\"";
    run_well(unpack.args(["-c", line]).arg(to_archive).arg(&package).arg(&root));
    assert_is_complete(&root);
    assert_serves(&root, &release.empty_folder("data"));
}

#[test]
fn the_image_is_read_by_foreign_programs_and_its_program_serves_with_its_own_libraries() {
    let Some(release) = Release::make("image") else { return };
    let image = release.file(".tar");
    let layout = release.empty_folder("layout");
    run_well(Command::new("tar").arg("-xf").arg(&image).arg("-C").arg(&layout));
    let version = env!("CARGO_PKG_VERSION");
    let named = format!("{}:{version}", layout.display());
    if let Some(skopeo) = find("skopeo") {
        for place in [
            format!("oci:{named}"),
            format!("oci-archive:{}", image.display()),
            format!("docker-archive:{}", image.display()),
        ] {
            let said = run_well(Command::new(&skopeo).args(["inspect", "--config", &place]));
            let said: Value = serde_json::from_str(&said).expect("JSON");
            assert_eq!(said["config"]["User"], "10001:10001", "{place}");
            assert_eq!(said["config"]["Entrypoint"], serde_json::json!(["/usr/bin/tollhouse"]));
        }
    }
    let Some(umoci) = find("umoci") else { return };
    let bundle = release.folder.path().join("bundle");
    run_well(Command::new(umoci).args(["unpack", "--rootless", "--image", &named]).arg(&bundle));
    let root = bundle.join("rootfs");
    let mode = fs::metadata(root.join("var/lib/tollhouse")).expect("a folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(
        read(&root.join("etc/ssl/certs/ca-certificates.crt")).matches("BEGIN CERT").count() > 50
    );
    // In a root of its own, if this machine allows it, there is no library but those of the image.
    let mut isolated = Command::new("unshare");
    isolated
        .args(["--user", "--map-root-user", "--root"])
        .arg(&root)
        .args(["/usr/bin/tollhouse", "--version"]);
    let ran = run(&mut isolated);
    if ran.text.contains("unshare failed") || ran.text.contains("not permitted") {
        println!("skipped: no user namespaces");
    } else {
        assert_eq!(ran.text.trim(), format!("tollhouse {version}"), "{}", ran.status);
    }
    assert_serves(&root, &release.empty_folder("data"));
}

/// A root that dpkg installs into, and a `systemctl` that runs the commands of the installed unit.
struct Machine<'a> {
    root: PathBuf,
    tools: PathBuf,
    release: &'a Release,
    address: std::net::SocketAddr,
}

/// Does what the scripts of the package ask of systemd, with the commands of the installed unit.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >> "$STATE/calls"
commands() {
    sed -n "s|^$1=||p" "$ROOT/usr/lib/systemd/system/tollhouse.service" |
        sed "s|/usr/bin/|$ROOT/usr/bin/|; s|/etc/|$ROOT/etc/|"
}
processes() { pgrep -f "^$ROOT/usr/bin/tollhouse run"; }
case "$*" in
*is-active*) processes > /dev/null ;;
*is-enabled*) test -e "$STATE/enabled" ;;
*enable*) touch "$STATE/enabled" ;;
*stop*) kill $(processes) ;;
start*)
    sh -c "exec $(commands ExecStart)" > "$STATE/log" 2>&1 < /dev/null &
    echo $! > "$STATE/first"
    ;;
reload*)
    commands ExecReload > "$STATE/commands"
    while read -r line; do
        sh -c "$line" >> "$STATE/log" 2>&1 < /dev/null || exit 1
    done < "$STATE/commands"
    ;;
esac
"#;

impl<'a> Machine<'a> {
    fn new(release: &'a Release) -> Self {
        let root = release.empty_folder("root");
        let tools = release.empty_folder("tools");
        for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "run/systemd/system", "tmp"] {
            fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        fs::write(root.join("var/lib/dpkg/status"), "").expect("taken");
        let systemctl = tools.join("systemctl");
        fs::write(&systemctl, SYSTEMCTL).expect("taken");
        fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).expect("it is ours");
        Self { root, tools, release, address: ClosedPort::new().address() }
    }

    fn dpkg(&self, words: &[&str]) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("dpkg");
        command.arg("--root").arg(&self.root).args([
            "--force-not-root",
            "--force-script-chrootless",
            "--force-depends",
            "--force-bad-path",
        ]);
        command.args(words).env("PATH", format!("{}:{path}:/usr/sbin:/sbin", self.tools.display()));
        command.env("STATE", &self.tools).env("ROOT", &self.root);
        let data = self.root.join("var/lib/tollhouse");
        run_well(command.envs(variables(self.address, &data)).env_remove("TOLLHOUSE_ADMIN_KEY"))
    }

    fn state(&self, name: &str) -> String {
        fs::read_to_string(self.tools.join(name)).unwrap_or_default()
    }

    fn install(&self) {
        let package = self.release.file(".deb");
        self.dpkg(&["--install", package.to_str().expect("text")]);
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        // A service outlives the command that started it.
        let pattern = format!("^{}/usr/bin/tollhouse run", self.root.display());
        let _ = Command::new("pkill").args(["-KILL", "-f", &pattern]).status();
    }
}

/// Whether a process has ended; its entry may stay until its parent asks.
fn has_ended(process: &str) -> bool {
    fs::read_link(format!("/proc/{}/exe", process.trim())).is_err()
}

#[test]
fn the_debian_package_starts_upgrades_under_traffic_and_is_removed() {
    if ["dpkg", "pgrep", "pkill"].iter().any(|program| find(program).is_none()) {
        return;
    }
    let Some(release) = Release::make("deb") else { return };
    let machine = Machine::new(&release);
    machine.install();
    assert_is_complete(&machine.root);
    let calls = machine.state("calls");
    assert!(calls.contains("enable tollhouse.service\n") && calls.contains("start"), "{calls}");
    wait_for("the gateway listens", || TcpStream::connect(machine.address).ok());

    let first = machine.state("first");
    let is_over = AtomicBool::new(false);
    let answered = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut answered = 0;
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(RawClient::connect(machine.address).get("/demo").status(), 200);
                answered += 1;
            }
            answered
        });
        machine.install();
        wait_for("the first process gives way", || has_ended(&first).then_some(()));
        is_over.store(true, Ordering::Relaxed);
        client.join().expect("every request is answered")
    });
    let calls = machine.state("calls");
    assert!(calls.contains("\nreload tollhouse.service\n"), "{calls}");
    assert!(answered > 0, "traffic flowed");
    assert_eq!(RawClient::connect(machine.address).get("/demo").status(), 200);

    machine.dpkg(&["--remove", "tollhouse"]);
    wait_for("the service stops", || TcpStream::connect(machine.address).err());
    let kept = |name: &str| machine.root.join(name).exists();
    assert!(!kept("usr/bin/tollhouse") && kept("etc/tollhouse/tollhouse.yaml"));
    assert!(kept("var/lib/tollhouse/admin.key"), "removal keeps the data");
    machine.dpkg(&["--purge", "tollhouse"]);
    assert!(!kept("etc/tollhouse") && !kept("var/lib/tollhouse"), "purging removes the rest");
}

#[test]
fn the_scripts_of_the_packages_are_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/packages");
    for name in ["deb-postinst", "deb-prerm", "deb-postrm", "rpm-post", "rpm-preun", "rpm-postun"] {
        run_well(Command::new("sh").arg("-n").arg(folder.join(name)));
    }
}
