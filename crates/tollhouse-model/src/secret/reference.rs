//! References to secrets, which a plugin configuration may contain in place of a value.
//!
//! `$secret://<manager>/<id>/<key>` refers to a value in a secret manager, `$ENV://<name>` to an
//! environment variable, and `$ENV://<name>/<json key>` to a field of an environment variable that
//! holds a JSON object. `$config://<namespace>/<group>/<file>` refers to the released content of a
//! file of the configuration centre, and with `#<key>` to a value in it.

use std::fmt;

const KEEPER_PREFIX: &str = "$secret://";

/// Prefix of references to environment variables, in any case: `$env://` is accepted too.
const ENVIRONMENT_PREFIX: &str = "$ENV://";

const FILE_PREFIX: &str = "$config://";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Manager {
    Vault,
    Aws,
    Gcp,
}

impl Manager {
    pub const ALL: [Manager; 3] = [Manager::Vault, Manager::Aws, Manager::Gcp];

    /// Returns the name used in keys and references: `vault`, `aws`, `gcp`.
    pub fn name(self) -> &'static str {
        match self {
            Manager::Vault => "vault",
            Manager::Aws => "aws",
            Manager::Gcp => "gcp",
        }
    }

    pub fn from_name(name: &str) -> Option<Manager> {
        Self::ALL.into_iter().find(|manager| manager.name() == name)
    }
}

/// A parsed reference to a secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SecretRef {
    /// Reference to a value in a secret manager.
    Keeper {
        manager: Manager,
        /// Id of the secret object of that kind.
        id: String,
        /// Key in the terms of the manager: a path with a field, a name, ….
        key: String,
    },
    Environment {
        name: String,
        /// Field of the JSON object in the variable; `None` means the whole text.
        json_key: Option<String>,
    },
    /// Reference to a file of the configuration centre.
    File {
        namespace: String,
        group: String,
        /// Name of the file, which may contain slashes.
        file: String,
        /// Key of a value in the file; `None` means the whole content.
        key: Option<String>,
    },
}

impl SecretRef {
    /// Parses a reference; `None` for any other text, and for a reference with a missing part.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix(KEEPER_PREFIX) {
            let (manager, rest) = rest.split_once('/')?;
            let (id, key) = rest.split_once('/')?;
            let manager = Manager::from_name(manager)?;
            let whole = !id.is_empty() && !key.is_empty();
            let found = || Self::Keeper { manager, id: id.to_owned(), key: key.to_owned() };
            return whole.then(found);
        }
        if let Some(rest) = text.strip_prefix(FILE_PREFIX) {
            return Self::parse_file(rest);
        }
        let rest = after_environment_prefix(text)?;
        let (name, json_key) = match rest.split_once('/') {
            Some((name, key)) => (name, Some(key).filter(|key| !key.is_empty())),
            None => (rest, None),
        };
        let found =
            || Self::Environment { name: name.to_owned(), json_key: json_key.map(str::to_owned) };
        (!name.is_empty()).then(found)
    }

    fn parse_file(text: &str) -> Option<Self> {
        let (file, key) = match text.rsplit_once('#') {
            Some((file, key)) => (file, Some(key)),
            None => (text, None),
        };
        let mut parts = file.splitn(3, '/').map(str::to_owned);
        let (namespace, group, file) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = ![&namespace, &group, &file].iter().any(|part| part.is_empty());
        let key = key.map(str::to_owned);
        (is_whole && key.as_deref() != Some("")).then_some(Self::File {
            namespace,
            group,
            file,
            key,
        })
    }
}

/// Formats the reference as written in documents, with `ENV` in capitals.
impl fmt::Display for SecretRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keeper { manager, id, key } => {
                write!(out, "{KEEPER_PREFIX}{}/{id}/{key}", manager.name())
            }
            Self::File { namespace, group, file, key } => {
                write!(out, "{FILE_PREFIX}{namespace}/{group}/{file}")?;
                key.as_ref().map_or(Ok(()), |key| write!(out, "#{key}"))
            }
            Self::Environment { name, json_key: None } => write!(out, "{ENVIRONMENT_PREFIX}{name}"),
            Self::Environment { name, json_key: Some(key) } => {
                write!(out, "{ENVIRONMENT_PREFIX}{name}/{key}")
            }
        }
    }
}

/// Whether a text begins like a reference, complete or not. Such a text is exempt from the checks
/// of the value it replaces.
pub fn is_reference(text: &str) -> bool {
    text.starts_with(KEEPER_PREFIX)
        || text.starts_with(FILE_PREFIX)
        || after_environment_prefix(text).is_some()
}

fn after_environment_prefix(text: &str) -> Option<&str> {
    let prefix = text.get(..ENVIRONMENT_PREFIX.len())?;
    prefix.eq_ignore_ascii_case(ENVIRONMENT_PREFIX).then(|| &text[ENVIRONMENT_PREFIX.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper(manager: Manager, id: &str, key: &str) -> Option<SecretRef> {
        Some(SecretRef::Keeper { manager, id: id.to_owned(), key: key.to_owned() })
    }

    fn variable(name: &str, json_key: Option<&str>) -> Option<SecretRef> {
        let json_key = json_key.map(str::to_owned);
        Some(SecretRef::Environment { name: name.to_owned(), json_key })
    }

    #[test]
    fn files_are_named_by_namespace_group_and_name() {
        let table = [
            ("ns/g/app.yaml", Some(("app.yaml", None))),
            ("ns/g/a/b.yaml#server.port", Some(("a/b.yaml", Some("server.port")))),
            ("ns/g/a#b#c", Some(("a#b", Some("c")))),
            ("ns/g", None),
            ("ns//f", None),
            ("/g/f", None),
            ("ns/g/", None),
            ("ns/g/f#", None),
            ("ns/g/#key", None),
        ];
        for (text, expected) in table {
            let text = format!("$config://{text}");
            let file = |reference| match reference {
                SecretRef::File { file, key, .. } => Some((file, key)),
                _ => None,
            };
            let found = SecretRef::parse(&text).and_then(file);
            let expected = expected.map(|(file, key)| (file.to_owned(), key.map(str::to_owned)));
            assert_eq!(found, expected, "{text}");
            assert!(is_reference(&text), "{text}");
        }
    }

    #[test]
    fn references_are_told_from_texts() {
        let table = [
            ("$secret://vault/1/jack/auth-key", keeper(Manager::Vault, "1", "jack/auth-key")),
            ("$secret://aws/a-b/name/key", keeper(Manager::Aws, "a-b", "name/key")),
            ("$secret://gcp/1/name", keeper(Manager::Gcp, "1", "name")),
            ("$ENV://NAME", variable("NAME", None)),
            ("$env://NAME", variable("NAME", None)),
            ("$ENV://NAME/json-key", variable("NAME", Some("json-key"))),
            ("$env://NAME/a/b", variable("NAME", Some("a/b"))),
            ("$env://NAME/", variable("NAME", None)),
            ("$secret://vault", None),
            ("$secret://vault/1", None),
            ("$secret://vault/1/", None),
            ("$secret://vault//key", None),
            ("$secret://keychain/1/key", None),
            ("$SECRET://vault/1/key", None),
            ("$ENV://", None),
            ("$ENV:///key", None),
            ("ENV://NAME", None),
            (" $ENV://NAME", None),
            ("$ENV", None),
            ("$ENV:/é", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(SecretRef::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_meant_as_a_reference_is_one() {
        for text in ["$secret://", "$secret://x", "$ENV://", "$env://A", "$Env://A"] {
            assert!(is_reference(text), "{text}");
        }
        for text in ["", "$", "$secret:/", "secret://vault/1/a", "$SECRET://vault/1/a", "$ENVS://"]
        {
            assert!(!is_reference(text), "{text}");
        }
    }

    #[test]
    fn a_reference_shows_as_it_is_written() {
        for text in [
            "$secret://vault/1/jack/auth-key",
            "$ENV://NAME",
            "$ENV://NAME/key",
            "$config://ns/group/dir/file.yaml",
            "$config://ns/group/file.yaml#a.b",
        ] {
            let reference = SecretRef::parse(text).expect("it is a reference");
            assert_eq!(reference.to_string(), text);
        }
    }
}
