//! Code and names in the documents: files are accepted, commands and settings exist. `readme.rs` runs the commands of
//! README.md and of the first guide; `tollhouse-plugins` compiles the guide to plugins.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tollhouse_testkit::program::{Ran, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tollhouse");

/// Folders with documents for users; pages of `docs/reference` are generated or have tests of their own.
const FOLDERS: [&str; 4] = ["docs/start", "docs/guides", "docs/concepts", "docs/operate"];

/// Values of the variables in bootstrap files.
const VARIABLES: [(&str, &str); 7] = [
    ("CONSUL_HTTP_TOKEN", "token of Consul"),
    ("ETCD_PASSWORD", "password of etcd"),
    ("KEYRING", "0123456789abcdef"),
    ("OIDC_SECRET", "secret of a client"),
    ("SHENYU_PASSWORD", "correct horse battery"),
    ("SHENYU_SYNC_TOKEN", "token of an admin"),
    (
        "SHENYU_LOCAL_KEY_SHA512",
        "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce\
         47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
    ),
];

/// Problems that only this machine has: files and variables of the reader's own.
const OF_THIS_MACHINE: [&str; 2] = ["(os error 2)", "nothing answers for $env://"];

/// Commands whose options are those of other tools.
const DIALECTS: [&str; 4] = ["wrk", "wrk2", "ab", "ghz"];

/// Names that look like settings and are fields of objects, files, or settings of other programs.
const NO_SETTINGS: [&str; 6] = [
    "tls.ca",
    "store.lock",
    "store.reserve",
    "registry.keyring",
    "shenyu.html",
    "shenyu.sync.http.enabled",
];

/// A Markdown document.
pub(crate) struct Document {
    name: String,
    blocks: Vec<Block>,
    /// Lines outside of code blocks.
    prose: String,
}

/// A fenced block of code, without the indentation of its fence.
struct Block {
    language: String,
    text: String,
}

impl Document {
    /// Text of the document with this path from the root.
    pub(crate) fn read(name: &str) -> String {
        fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let (mut blocks, mut prose) = (Vec::new(), String::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let fence = line.trim_start();
            let Some(language) = fence.strip_prefix("```") else {
                prose.push_str(line);
                prose.push('\n');
                continue;
            };
            let indent = line.len() - fence.len();
            let body = lines.by_ref().take_while(|line| line.trim_start() != "```");
            let text = body.map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n");
            blocks.push(Block { language: language.to_owned(), text: text.collect() });
        }
        Self { name: name.to_owned(), blocks, prose }
    }

    /// Code blocks of a language, in order.
    pub(crate) fn blocks<'d>(&'d self, language: &'d str) -> impl Iterator<Item = &'d str> {
        let wanted = self.blocks.iter().filter(move |block| block.language == language);
        wanted.map(|block| block.text.as_str())
    }

    /// Code spans in the prose.
    fn spans(&self) -> impl Iterator<Item = String> {
        self.prose.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " "))
    }

    /// Lines of the shell: those of code blocks, joined where they continue, and those in the prose.
    fn shell_lines(&self) -> Vec<String> {
        let blocks = self.blocks("sh").chain(self.blocks("bash"));
        let joined = blocks.map(|block| block.replace("\\\n", " "));
        let lines = joined.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.chain(self.spans()).collect()
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and the documents for users.
fn documents() -> Vec<Document> {
    let mut names = vec!["README.md".to_owned()];
    for folder in FOLDERS {
        let entries = fs::read_dir(root().join(folder)).expect("the folder exists");
        let entries = entries.map(|entry| entry.expect("an entry").file_name());
        let entries = entries.map(|name| format!("{folder}/{}", name.to_string_lossy()));
        names.extend(entries.filter(|name| name.ends_with(".md")));
    }
    names.sort();
    names.iter().map(|name| Document::parse(name, &Document::read(name))).collect()
}

/// The command that checks a block; `None` if the block is not a file of Tollhouse.
fn check_of(document: &Document, block: &Block) -> Option<&'static [&'static str]> {
    let is_yaml = block.language == "yaml";
    if is_yaml && block.text.contains("\n#END") {
        return Some(&["check"]);
    }
    if is_yaml && block.text.contains("\ncases:") {
        return Some(&["bench", "run", "--check"]);
    }
    if is_yaml {
        return Some(&["check", "--config"]);
    }
    if block.language != "json" {
        return None;
    }
    let value: Value = serde_json::from_str(&block.text)
        .unwrap_or_else(|error| panic!("{}: {error}: {}", document.name, block.text));
    let has_objects = ["routes", "consumers", "ssls"].iter().any(|kind| !value[*kind].is_null());
    if has_objects { Some(&["check"]) } else { None }
}

/// Problems that a reader would see on another machine too.
fn problems(ran: &Ran) -> Vec<&str> {
    let is_problem = |line: &&str| line.starts_with("error: ") || line.starts_with("warning: ");
    let lines = ran.text.lines().filter(is_problem);
    lines.filter(|line| !OF_THIS_MACHINE.iter().any(|text| line.contains(text))).collect()
}

#[test]
fn files_in_documents_are_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut checked = 0;
    for document in documents() {
        for block in &document.blocks {
            let Some(arguments) = check_of(&document, block) else { continue };
            let file = folder.path().join(format!("block.{}", block.language));
            fs::write(&file, &block.text).expect("the folder takes files");
            let mut command = Command::new(PROGRAM);
            command.args(arguments).arg(&file).current_dir(folder.path()).envs(VARIABLES);
            let ran = run(command.env_remove("TOLLHOUSE_ADMIN_KEY"));
            let is_understood =
                ran.status.success() || OF_THIS_MACHINE.iter().any(|text| ran.text.contains(text));
            let is_good = is_understood && problems(&ran).is_empty();
            assert!(is_good, "{}:\n{}\n{}", document.name, block.text, ran.text);
            checked += 1;
        }
    }
    assert!(checked > 30, "only {checked} files were found");
}

/// Each command with its text in the reference.
fn commands(reference: &str) -> BTreeMap<&str, &str> {
    let sections = reference.split("\n## ").filter_map(|section| section.split_once('\n'));
    sections.filter(|(command, _)| command.starts_with("tollhouse")).collect()
}

/// Words of each call of the program in a line of the shell.
fn calls(line: &str) -> impl Iterator<Item = Vec<&str>> {
    let parts = line.split(" && ").flat_map(|part| part.split(" | "));
    parts.filter_map(|part| {
        // Variables may come before the program.
        let has_variables = part.starts_with(|first: char| first.is_ascii_uppercase());
        let start = part.find("tollhouse ").filter(|at| *at == 0 || has_variables)?;
        let words = part[start..].split_whitespace();
        Some(words.take_while(|word| !["#", "&", ">"].contains(word)).collect())
    })
}

/// The fault of a call, if the reference does not know the command or an option of it.
fn fault(words: &[&str], commands: &BTreeMap<&str, &str>) -> Option<String> {
    let mut command = words[0].to_owned();
    let mut rest = &words[1..];
    while let Some((word, after)) = rest.split_first() {
        let longer = format!("{command} {word}");
        if !commands.contains_key(longer.as_str()) {
            break;
        }
        (command, rest) = (longer, after);
    }
    if command == "tollhouse" && rest.first().is_some_and(|word| !word.starts_with('-')) {
        return Some(format!("the command {}", rest[0]));
    }
    if DIALECTS.iter().any(|dialect| command.ends_with(&format!(" {dialect}"))) {
        return None;
    }
    let known: BTreeSet<&str> = commands[command.as_str()]
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-')
        .collect();
    let options = rest.iter().filter(|word| word.starts_with("--"));
    let mut names = options.map(|word| word.split(['=', ',']).next().unwrap_or_default());
    let unknown = names.find(|name| !known.contains(name))?;
    Some(format!("the option {unknown} of {command}"))
}

#[test]
fn commands_in_documents_exist() {
    let reference = Document::read("docs/reference/cli.md");
    let commands = commands(&reference);
    let mut checked = 0;
    for document in documents() {
        for line in document.shell_lines() {
            for words in calls(&line) {
                let fault = fault(&words, &commands);
                assert_eq!(fault, None, "{}: {line}", document.name);
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "only {checked} calls were found");
    let unknown = |line: &str| calls(line).next().and_then(|words| fault(&words, &commands));
    assert_eq!(unknown("tollhouse measure x"), Some("the command measure".to_owned()));
    assert!(unknown("A=b tollhouse run --no-such-option x").is_some());
}

#[test]
fn settings_in_documents_exist() {
    let reference = Document::read("docs/reference/config.md");
    let rows = reference.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let keys: BTreeSet<&str> = rows.collect();
    let sections: BTreeSet<&str> =
        keys.iter().filter_map(|key| Some(key.split_once('.')?.0)).collect();
    let is_known = |name: &str| {
        let below = format!("{name}.");
        keys.contains(name) || keys.iter().any(|key| key.starts_with(&below))
    };
    let mut checked = 0;
    for document in documents() {
        for span in document.spans() {
            let name = span.split(':').next().unwrap_or_default();
            let is_path =
                |letter: char| letter.is_ascii_lowercase() || "_.0123456789".contains(letter);
            let ending = name.rsplit('.').next().unwrap_or_default();
            let is_file = ["md", "yaml", "json", "key", "pem", "sock", "db"].contains(&ending);
            let section = name.split_once('.').map_or("", |(section, _)| section);
            if !sections.contains(section)
                || !name.chars().all(is_path)
                || NO_SETTINGS.contains(&name)
            {
                continue;
            }
            assert!(is_known(name) || is_file, "{}: there is no setting {name}", document.name);
            checked += 1;
        }
    }
    assert!(checked > 50, "only {checked} settings were found");
}

#[test]
fn rust_in_documents_is_compiled() {
    let documents = documents();
    let with_rust = documents.iter().filter(|document| document.blocks("rust").next().is_some());
    let names: Vec<&str> = with_rust.map(|document| document.name.as_str()).collect();
    assert_eq!(
        names,
        ["docs/guides/write-a-plugin.md"],
        "each needs a doc test, as this one in its crate"
    );
}
