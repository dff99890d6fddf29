//! Secrets of the registry: password and token of its account, and the client token. Each is the
//! configured one, else the one stored by an earlier run, else a new one, which is stored.
//!
//! They differ from the Admin API's key, because registry clients, which carry them, must not be
//! able to configure the gateway.

use std::path::PathBuf;

use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::Secret;

use crate::secrets::open_or_make;

/// Secrets that clients and consoles of the registry present.
#[derive(Debug)]
pub struct RegistrySecrets {
    /// Password of the operator's account.
    pub password: Secret,
    /// Token of the operator's account.
    pub token: Secret,
    pub client_token: Secret,
}

impl RegistrySecrets {
    /// Reads the secrets, and creates missing ones.
    ///
    /// # Errors
    /// If the data folder cannot be read or written.
    pub fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let settings = &bootstrap.registry;
        let path = |name: &str| bootstrap.data_dir.join(name);
        Ok(Self {
            password: open_or_make(settings.password.as_ref(), &path("registry.password"))?,
            token: open_or_make(settings.token.as_ref(), &path("registry.token"))?,
            client_token: open_or_make(
                settings.client_token.as_ref(),
                &path("registry.client-token"),
            )?,
        })
    }
}

/// Returns the files of generated secrets that operators give to registry clients, each with a
/// label. The account's token is left out, because a login returns it.
pub fn files(bootstrap: &Bootstrap) -> Vec<(String, PathBuf)> {
    let settings = &bootstrap.registry;
    let password = format!("Registry password of {}", settings.user);
    let all = [
        (settings.console_auth && settings.password.is_none(), password, "registry.password"),
        (
            settings.client_auth && settings.client_token.is_none(),
            "Registry client token".to_owned(),
            "registry.client-token",
        ),
    ];
    let kept = all.into_iter().filter(|(is_kept, ..)| *is_kept);
    kept.map(|(_, name, file)| (name, bootstrap.data_dir.join(file))).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn each_is_made_once_for_this_user_alone_and_is_nobody_elses() {
        let folder = tempfile::tempdir().expect("a folder");
        let bootstrap = Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() };
        let admin = crate::secrets::admin_key(&bootstrap).expect("a key");
        let first = RegistrySecrets::open(&bootstrap).expect("made");
        let all = [&first.password, &first.token, &first.client_token];
        assert!(all.iter().all(|secret| **secret != admin));
        assert_ne!(first.token, first.client_token);
        assert_ne!(first.token, first.password);
        let again = RegistrySecrets::open(&bootstrap).expect("read");
        assert_eq!(again.token, first.token);
        assert_eq!((again.password, again.client_token), (first.password, first.client_token));
        for name in ["registry.password", "registry.token", "registry.client-token"] {
            let metadata = std::fs::metadata(folder.path().join(name)).expect("the file");
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn what_is_configured_is_not_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bootstrap =
            Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() };
        bootstrap.registry.token = Some(Secret::new("given"));
        let secrets = RegistrySecrets::open(&bootstrap).expect("made");
        assert_eq!(secrets.token.expose(), "given");
        let shown = files(&bootstrap).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(shown, ["Registry password of polaris"]);
        assert!(!folder.path().join("registry.token").exists());
    }
}
