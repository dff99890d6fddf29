//! A definition of services: the text of a `.proto` file, or a descriptor set in base64, compiled.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use prost_types::FileDescriptorSet;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

/// Under which name the text is compiled: what messages about it call it.
const FILE_NAME: &str = "content";

/// Deepest nesting of brackets in a text. Definitions of people stay below ten; the compiler descends
/// once for each.
const NESTING_MAX: usize = 200;

/// Services and messages, ready to use. Clones share it.
#[derive(Debug, Clone)]
pub struct Definition {
    pool: DescriptorPool,
}

/// Why a content defines nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// It is neither a definition nor base64; says what is wrong with it as a definition.
    #[error("{0}")]
    Text(String),
    /// It is base64, of something else than a descriptor set that is complete.
    #[error("no descriptor set that is complete: {0}; write it with protoc --include_imports")]
    Set(String),
}

/// A method of a service.
#[derive(Debug, Clone)]
pub struct Method {
    /// What calls ask for: `/package.Service/Method`.
    pub path: String,
    /// What a request is.
    pub input: MessageDescriptor,
    /// What an answer is.
    pub output: MessageDescriptor,
    /// Whether a call sends any number of messages.
    pub streams_in: bool,
    /// Whether a call is answered by any number of messages.
    pub streams_out: bool,
}

impl Definition {
    /// Compiles `content`: the text of a `.proto` file, which may import the well-known ones of
    /// protobuf, or a `FileDescriptorSet` in base64.
    ///
    /// # Errors
    /// It is neither.
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

    /// The method `name` of the service that is called `service` with its package.
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

    /// The message that is called `name` with its package.
    pub fn message(&self, name: &str) -> Option<MessageDescriptor> {
        self.pool.get_message_by_name(name)
    }
}

/// The one text there is.
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

/// A set, completed by the well-known files that it imports and may leave out.
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
