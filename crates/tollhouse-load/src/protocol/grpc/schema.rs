//! Descriptors of a call, from a `.proto` file, a protoset, or files sent by a server
//! ([`super::reflection`]), and the lookup of service and method.

use std::collections::BTreeMap;
use std::path::Path;

use prost::Message as _;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use tollhouse_stdx::nearest;

use crate::case::GrpcCall;
use crate::error::BenchError;

/// Name of a method: `package.Service.Method` or `package.Service/Method`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallName<'a> {
    /// Full name of the service, with its package.
    pub service: &'a str,
    pub method: &'a str,
}

impl<'a> CallName<'a> {
    /// Parses the text.
    ///
    /// # Errors
    /// If it does not have that form.
    pub fn parse(call: &'a str) -> Result<Self, BenchError> {
        let text = call.strip_prefix('/').unwrap_or(call);
        let parts = text.rsplit_once('/').or_else(|| text.rsplit_once('.'));
        match parts {
            Some((service, method)) if !service.is_empty() && !method.is_empty() => {
                Ok(Self { service, method })
            }
            _ => Err(wrong_call(format!("`{call}` names no method; write package.Service/Method"))),
        }
    }
}

/// Reads the case's files; `None` if the case names neither kind, so that reflection is needed.
///
/// # Errors
/// If the file cannot be read or is invalid; the message holds file, line and column where known.
pub fn pool_of_files(call: &GrpcCall) -> Result<Option<DescriptorPool>, BenchError> {
    if let Some(path) = &call.protoset {
        return protoset(path).map(Some);
    }
    call.proto.as_deref().map(|path| proto(path, call)).transpose()
}

fn protoset(path: &Path) -> Result<DescriptorPool, BenchError> {
    let error = |why: String| BenchError::File { path: path.to_owned(), why };
    let bytes = std::fs::read(path).map_err(|io| error(io.to_string()))?;
    let set = FileDescriptorSet::decode(bytes.as_slice())
        .map_err(|wrong| error(format!("is not a protoset: {wrong}")))?;
    let files = set.file.into_iter().map(|file| (file.name().to_owned(), file)).collect();
    pool_of(files).map_err(|why| error(format!("{why}; make it with --include_imports")))
}

pub type Files = BTreeMap<String, FileDescriptorProto>;

/// Builds a pool from files; files of `google.protobuf` may be left out.
///
/// # Errors
/// If a file is missing or the files are inconsistent.
pub fn pool_of(mut files: Files) -> Result<DescriptorPool, String> {
    loop {
        let known = missing(&files).find_map(google_file);
        let Some(file) = known else { break };
        files.insert(file.name().to_owned(), file);
    }
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files.into_values())
        .map_err(|wrong| format!("the descriptors do not fit together: {wrong:?}"))?;
    Ok(pool)
}

/// Returns the imports that are missing.
pub fn missing(files: &Files) -> impl Iterator<Item = &str> {
    let imports = files.values().flat_map(|file| file.dependency.iter());
    imports.map(String::as_str).filter(|name| !files.contains_key(*name))
}

/// Returns a built-in file of `google.protobuf`.
fn google_file(name: &str) -> Option<FileDescriptorProto> {
    let known = DescriptorPool::global().get_file_by_name(name)?;
    name.starts_with("google/protobuf/").then(|| known.file_descriptor_proto().clone())
}

/// Compiles a `.proto` file. Imports are searched in the given folders, then in the file's folder,
/// then in `.`.
fn proto(path: &Path, call: &GrpcCall) -> Result<DescriptorPool, BenchError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut folders: Vec<&Path> = call.import_paths.iter().map(AsRef::as_ref).collect();
    for further in [folder, Path::new(".")] {
        if !folders.contains(&further) {
            folders.push(further);
        }
    }
    // The compiler's message does not list the searched folders.
    let error = |wrong: protox::Error| {
        let mut why = format!("{wrong:?}").replace('\n', " ");
        if wrong.is_file_not_found() && path.exists() {
            let shown: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
            why = format!("{why}; looked for imports in {}", shown.join(", "));
        }
        BenchError::File { path: path.to_owned(), why }
    };
    if let Err(io) = std::fs::metadata(path) {
        return Err(BenchError::File { path: path.to_owned(), why: io.to_string() });
    }
    let mut compiler = protox::Compiler::new(&folders).map_err(error)?;
    compiler.include_imports(true).open_file(path).map_err(error)?;
    Ok(compiler.descriptor_pool())
}

/// Looks up a method.
///
/// # Errors
/// If the service or method does not exist; the message lists the existing ones.
pub fn method(pool: &DescriptorPool, name: CallName<'_>) -> Result<MethodDescriptor, BenchError> {
    let services: Vec<_> = pool.services().collect();
    let Some(service) = services.iter().find(|service| service.full_name() == name.service) else {
        let known = services.iter().map(|service| service.full_name());
        return Err(wrong_call(unknown("service", name.service, known)));
    };
    let methods: Vec<_> = service.methods().collect();
    if let Some(found) = methods.iter().find(|method| method.name() == name.method) {
        return Ok(found.clone());
    }
    let known = methods.iter().map(|method| method.name());
    Err(wrong_call(unknown(&format!("method of {}", name.service), name.method, known)))
}

/// Maximum number of names in an error message.
const LISTED_MAX: usize = 12;

fn unknown<'a>(what: &str, word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let listed = match known.len() {
        0 => "none exists".to_owned(),
        1..=LISTED_MAX => format!("there is {}", known.join(", ")),
        count => format!("there are {count}, such as {}", known[..LISTED_MAX].join(", ")),
    };
    match nearest(word, known.iter().copied()) {
        Some(meant) => format!("no {what} is called `{word}`; did you mean `{meant}`?"),
        None => format!("no {what} is called `{word}`; {listed}"),
    }
}

fn wrong_call(why: String) -> BenchError {
    BenchError::Case { key: "grpc.call".into(), why }
}

#[cfg(test)]
mod tests;
