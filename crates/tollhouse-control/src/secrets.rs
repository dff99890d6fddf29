//! Secrets that the process generates at its first run and stores in the data folder: the Admin
//! API's key, the registry's secrets, and the keyring that encrypts secrets in the store.

pub mod sealed_store;
pub mod sealing_store;
pub mod shared_keyring;
pub mod shared_reseal;
pub mod shenyu_store;

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::Secret;
use tollhouse_model::encryption::{Form, Keyring};
use tollhouse_stdx::files::sync_parent;

/// Length of a generated secret in letters; equals APISIX's default Admin API key.
const GENERATED_LETTERS: usize = 32;

/// Returns the configured secret, else the one stored at `path`, else a new one, which is stored
/// there.
///
/// # Errors
/// If the file cannot be read or written.
pub fn open_or_make(configured: Option<&Secret>, path: &Path) -> anyhow::Result<Secret> {
    if let Some(secret) = known(configured, path)? {
        return Ok(secret);
    }
    let letters = random_letters()?;
    keep(path, &letters)?;
    Ok(Secret::new(letters))
}

/// Returns the configured secret, else the stored one.
fn known(configured: Option<&Secret>, path: &Path) -> anyhow::Result<Option<Secret>> {
    if let Some(secret) = configured {
        return Ok(Some(secret.clone()));
    }
    Ok(read(path)?.map(|text| Secret::new(text.trim())))
}

/// Returns the key of the Admin API, created if missing.
///
/// # Errors
/// For the reasons of [`open_or_make`].
pub fn admin_key(bootstrap: &Bootstrap) -> anyhow::Result<Secret> {
    open_or_make(bootstrap.admin.key.as_ref(), &admin_key_path(bootstrap))
}

/// Returns the file of the Admin API's key; `None` if `admin.key` sets the key, or if no key is
/// required.
pub fn admin_key_file(bootstrap: &Bootstrap) -> Option<PathBuf> {
    let is_kept = bootstrap.admin.key.is_none() && bootstrap.admin.key_required;
    is_kept.then(|| admin_key_path(bootstrap))
}

/// Generates and stores a new keyring. The caller must have checked that the store needs no
/// existing one ([`crate::secrets::sealed_store`]).
///
/// # Errors
/// If the data folder cannot be written.
pub fn new_keyring(bootstrap: &Bootstrap) -> anyhow::Result<Keyring> {
    Ok(make_keyring(&keyring_path(bootstrap))?.with_form(form(bootstrap)))
}

/// Generates a keyring and stores it in a file.
///
/// # Errors
/// If the file cannot be written.
pub fn make_keyring(path: &Path) -> anyhow::Result<Keyring> {
    let keyring = Keyring::generate().context("a keyring cannot be made")?;
    let lines: Vec<&str> = keyring.expose().collect();
    keep(path, &lines.join("\n"))?;
    Ok(keyring)
}

fn form(bootstrap: &Bootstrap) -> Form {
    if bootstrap.encryption.apisix_form { Form::Apisix } else { Form::Marked }
}

/// Returns the configured keyring, else the stored one.
///
/// # Errors
/// If the data folder cannot be read, or the keyring is invalid.
pub fn keyring_if_any(bootstrap: &Bootstrap) -> anyhow::Result<Option<Keyring>> {
    if let Some(keyring) = configured_keyring(bootstrap)? {
        return Ok(Some(keyring));
    }
    let keyring = open_keyring(&keyring_path(bootstrap))?;
    Ok(keyring.map(|keyring| keyring.with_form(form(bootstrap))))
}

/// Returns the keyring of `encryption.keyring`.
///
/// # Errors
/// If it is invalid.
pub fn configured_keyring(bootstrap: &Bootstrap) -> anyhow::Result<Option<Keyring>> {
    let configured = &bootstrap.encryption.keyring;
    if configured.is_empty() {
        return Ok(None);
    }
    let keys = configured.iter().map(|key| key.expose().to_owned());
    let keyring = Keyring::new(keys).context("encryption.keyring")?;
    Ok(Some(keyring.with_form(form(bootstrap))))
}

/// Returns the keyring in a file.
///
/// # Errors
/// If the file cannot be read, or is damaged.
pub fn open_keyring(path: &Path) -> anyhow::Result<Option<Keyring>> {
    let Some(text) = read(path)? else { return Ok(None) };
    let keys = text.lines().filter(|line| !line.is_empty()).map(str::to_owned);
    let keyring = Keyring::new(keys).with_context(|| {
        format!("{} is damaged; put a copy of it back, with one key on each line", path.display())
    })?;
    Ok(Some(keyring))
}

/// Returns the path of the stored keyring, used if none is configured.
pub fn keyring_path(bootstrap: &Bootstrap) -> PathBuf {
    bootstrap.data_dir.join("keyring")
}

/// Returns the configured key of the Admin API, else the stored one.
///
/// # Errors
/// If the data folder cannot be read.
pub fn admin_key_if_any(bootstrap: &Bootstrap) -> anyhow::Result<Option<Secret>> {
    known(bootstrap.admin.key.as_ref(), &admin_key_path(bootstrap))
}

fn admin_key_path(bootstrap: &Bootstrap) -> PathBuf {
    bootstrap.data_dir.join("admin.key")
}

fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// Writes a secret that only this user may read. The write is atomic, and survives a power failure
/// because file and folder are flushed.
pub fn keep(path: &Path, text: &str) -> anyhow::Result<()> {
    let draft = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&draft, path)?;
        sync_parent(path)
    };
    write().with_context(|| {
        format!("{} cannot be written; set data_dir to a writable folder", path.display())
    })
}

/// Creates the data folder if it is missing; returns whether it was created.
///
/// # Errors
/// If the data directory cannot be created.
pub fn make_data_dir(data_dir: &Path) -> anyhow::Result<bool> {
    if data_dir.is_dir() {
        return Ok(false);
    }
    // Accessible to this user only, because it holds keys and sockets.
    let mut folder = std::fs::DirBuilder::new();
    folder.recursive(true).mode(0o700).create(data_dir).with_context(|| {
        format!("data_dir {} cannot be made; set data_dir to a writable folder", data_dir.display())
    })?;
    Ok(true)
}

fn random_letters() -> anyhow::Result<String> {
    const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut key = String::with_capacity(GENERATED_LETTERS);
    while key.len() < GENERATED_LETTERS {
        let mut bytes = [0; GENERATED_LETTERS];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
            .context("the system's random number generator is unavailable")?;
        // Larger bytes would favour the first letters and are skipped.
        let fair = bytes.iter().filter(|byte| usize::from(**byte) < 4 * LETTERS.len());
        let letters = fair.map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]));
        key.extend(letters.take(GENERATED_LETTERS - key.len()));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_once_and_kept_for_this_user_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let bootstrap = Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() };
        let first = admin_key(&bootstrap).expect("a key");
        assert_eq!(first.expose().len(), GENERATED_LETTERS);
        assert_eq!(admin_key(&bootstrap).expect("a key"), first);
        let file = admin_key_file(&bootstrap).expect("a place to show");
        assert_eq!(std::fs::read_to_string(file).expect("the file").trim(), first.expose());
        let made = new_keyring(&bootstrap).expect("a keyring");
        assert_eq!(keyring_if_any(&bootstrap).expect("it is good"), Some(made));
        for name in ["admin.key", "keyring"] {
            let metadata = std::fs::metadata(folder.path().join(name)).expect("the file");
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn what_is_configured_is_not_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bootstrap =
            Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() };
        bootstrap.admin.key = Some(Secret::new("given"));
        bootstrap.encryption.keyring = vec![Secret::new("0123456789abcdef")];
        assert_eq!(admin_key(&bootstrap).expect("a key").expose(), "given");
        assert_eq!(admin_key_file(&bootstrap), None);
        keyring_if_any(&bootstrap).expect("it is good").expect("a keyring");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
