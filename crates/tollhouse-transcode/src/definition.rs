//! Compiled definition of services, from the text of a `.proto` file or a base64-encoded descriptor
//! set.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use prost_types::FileDescriptorSet;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

/// File name of the text in error messages.
const FILE_NAME: &str = "content";

/// Maximum nesting depth of brackets in a text. Definitions written by people stay below ten, and
/// the compiler recurses for each level.
const NESTING_MAX: usize = 200;

/// Compiled services and messages. Clones share the data.
#[derive(Debug, Clone)]
pub struct Definition {
    pool: DescriptorPool,
}

/// Reason why the content is not a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// The content is neither a definition nor base64; holds the error of parsing it as a
    /// definition.
    #[error("{0}")]
    Text(String),
    /// The content is base64, but not a complete descriptor set.
    #[error("not a complete descriptor set: {0}; write it with protoc --include_imports")]
    Set(String),
}

/// Method of a gRPC service, with its message types.
#[derive(Debug, Clone)]
pub struct Method {
    /// Path of the method's requests: `/package.Service/Method`.
    pub path: String,
    pub input: MessageDescriptor,
    pub output: MessageDescriptor,
    pub streams_in: bool,
    pub streams_out: bool,
}

impl Definition {
    /// Compiles `content`: the text of a `.proto` file, which may import the well-known ones of
    /// protobuf, or a `FileDescriptorSet` in base64.
    ///
    /// # Errors
    /// If `content` is neither.
    pub fn compile(content: &str) -> Result<Self, DefinitionError> {
        let error = match compile_text(content) {
            Ok(pool) => return Ok(Self { pool }),
            Err(error) => error,
        };
        let packed: Vec<u8> = content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        match STANDARD.decode(packed) {
            Ok(bytes) => Ok(Self { pool: decode_set(&bytes)? }),
            Err(_) => Err(error),
        }
    }

    /// Returns the method `name` of a service, given by its full name with package.
    pub fn method(&self, service: &str, name: &str) -> Option<Method> {
        let service = self.pool.get_service_by_name(service)?;
        let method = service.methods().find(|method| method.name() == name)?;
        Some(Method {
            path: format!("/{}/{}", service.full_name(), name),
            input: method.input(),
            output: method.output(),
            streams_in: method.is_client_streaming(),
            streams_out: method.is_server_streaming(),
        })
    }

    /// Returns a message type by its full name with package.
    pub fn message(&self, name: &str) -> Option<MessageDescriptor> {
        self.pool.get_message_by_name(name)
    }
}

/// Resolver that knows only the text being compiled, besides the well-known files.
struct Content(String);

impl FileResolver for Content {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        (path == Path::new(FILE_NAME)).then(|| FILE_NAME.to_owned())
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == FILE_NAME {
            File::from_source(name, &self.0)
        } else {
            Err(protox::Error::file_not_found(name))
        }
    }
}

fn compile_text(text: &str) -> Result<DescriptorPool, DefinitionError> {
    check_nesting(text)?;
    let mut resolver = ChainFileResolver::new();
    resolver.add(Content(text.to_owned()));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true);
    compiler.open_file(Path::new(FILE_NAME)).map_err(|error| {
        // The long form begins with file, line and column.
        let first = format!("{error:?}").lines().next().unwrap_or_default().to_owned();
        DefinitionError::Text(first)
    })?;
    Ok(compiler.descriptor_pool())
}

fn check_nesting(text: &str) -> Result<(), DefinitionError> {
    let mut depth = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' | b'<' => depth += 1,
            b'}' | b']' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING_MAX {
            let text = format!("brackets are nested deeper than {NESTING_MAX}");
            return Err(DefinitionError::Text(text));
        }
    }
    Ok(())
}

/// Decodes a descriptor set and adds missing well-known files that it imports.
fn decode_set(bytes: &[u8]) -> Result<DescriptorPool, DefinitionError> {
    let incomplete = |error: &dyn std::fmt::Display| DefinitionError::Set(error.to_string());
    let mut set = FileDescriptorSet::decode(bytes).map_err(|error| incomplete(&error))?;
    if set.file.is_empty() {
        return Err(DefinitionError::Set("it is empty".to_owned()));
    }
    let known = DescriptorPool::global();
    let mut at = 0;
    while at < set.file.len() {
        for name in set.file[at].dependency.clone() {
            let is_there = set.file.iter().any(|file| file.name() == name);
            let found = known.get_file_by_name(&name).filter(|_| !is_there);
            set.file.extend(found.map(|file| file.file_descriptor_proto().clone()));
        }
        at += 1;
    }
    DescriptorPool::from_file_descriptor_set(set).map_err(|error| incomplete(&error))
}
