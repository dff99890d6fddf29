//! The registry's own secrets: the password and the token of its account, and the token of clients. Each is
//! the one that is configured, else the one of an earlier run, else a new one, which is kept.
//!
//! None of them is the key of the Admin API: what clients of the registry carry around must not open the
//! gateway.

use tollhouse_config::Bootstrap;

use crate::secrets::KeptSecret;

/// See the module.
#[derive(Debug)]
pub struct RegistrySecrets {
    /// The password of the account.
    pub password: KeptSecret,
    /// The token of the account.
    pub token: KeptSecret,
    /// The token of clients.
    pub client_token: KeptSecret,
}

impl RegistrySecrets {
    /// Reads them, and makes those that are missing.
    ///
    /// # Errors
    /// The data folder cannot be read or written.
    pub fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let settings = &bootstrap.registry;
        let path = |name: &str| bootstrap.data_dir.join(name);
        Ok(Self {
            password: KeptSecret::open(settings.password.as_ref(), &path("registry.password"))?,
            token: KeptSecret::open(settings.token.as_ref(), &path("registry.token"))?,
            client_token: KeptSecret::open(
                settings.client_token.as_ref(),
                &path("registry.client-token"),
            )?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tollhouse_config::bootstrap::Secret;

    use super::*;

    #[test]
    fn each_is_made_once_for_this_user_alone_and_is_nobody_elses() {
        let folder = tempfile::tempdir().expect("a folder");
        let bootstrap = Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() };
        let admin = crate::secrets::admin_key(&bootstrap).expect("a key").secret;
        let first = RegistrySecrets::open(&bootstrap).expect("made");
        let all = [&first.password, &first.token, &first.client_token];
        assert!(all.iter().all(|kept| kept.is_new && kept.secret != admin));
        assert_ne!(first.token.secret, first.client_token.secret);
        assert_ne!(first.token.secret, first.password.secret);
        let again = RegistrySecrets::open(&bootstrap).expect("read");
        assert_eq!(again.token.secret, first.token.secret);
        assert!(!again.token.is_new && !again.password.is_new && !again.client_token.is_new);
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
        assert_eq!(secrets.token.secret.expose(), "given");
        assert!(!secrets.token.is_new && secrets.password.is_new);
        assert!(!folder.path().join("registry.token").exists());
    }
}
