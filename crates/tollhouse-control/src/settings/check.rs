//! Checks of the bootstrap file that need the parts that use its settings. Only the files that it
//! names are opened.

use tollhouse_config::Bootstrap;
use tollhouse_model::{Problem, Problems};

use super::{access_log_layout, server_terms};
use crate::introspection::listeners;
use crate::plugins;

/// Checks everything that would prevent a gateway with this configuration from starting.
///
/// # Errors
/// Returns all problems found.
pub fn check(bootstrap: &Bootstrap) -> Result<(), Problems> {
    let mut problems = Problems::new();
    if let Err(problem) = plugins::enabled(bootstrap) {
        problems.push(problem);
    }
    if let Err(problem) = access_log_layout(&bootstrap.access_log) {
        problems.push(problem);
    }
    for (name, tls) in [
        ("admin.tls", &bootstrap.admin.tls),
        ("control.tls", &bootstrap.control.tls),
        ("metrics.tls", &bootstrap.metrics.tls),
        ("status.tls", &bootstrap.status.tls),
        ("registry.tls", &bootstrap.registry.tls),
    ] {
        if let Err(error) = listeners::tls(name, tls) {
            let hint = "name a certificate and its key, both PEM, that this user may read";
            problems.push(Problem::error(name, format!("{error:#}")).with_hint(hint));
        }
    }
    if let Err(error) = server_terms(bootstrap) {
        problems.push(Problem::error("tls.ciphers", error.to_string()));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parts_cannot_use_is_found_before_anything_is_tried() {
        let table = [
            (&[][..], ""),
            (&[("plugins", "key-auht")], "plugins: no plugin is called \"key-auht\""),
            (&[("access_log.format", "$requets")], "access_log.format: unknown variable"),
            (
                &[("access_log.format", "json"), ("access_log.fields", "statsu")],
                "access_log.fields: no field is called \"statsu\"",
            ),
            (
                &[("admin.tls.cert", "/nowhere/at/all"), ("admin.tls.key", "/nowhere/at/all")],
                "admin.tls: /nowhere/at/all cannot be read",
            ),
            (
                &[("metrics.tls.cert", "/nowhere/at/all"), ("metrics.tls.key", "/nowhere/at/all")],
                "metrics.tls: /nowhere/at/all cannot be read",
            ),
            (
                &[("status.tls.cert", "/nowhere/at/all"), ("status.tls.key", "/nowhere/at/all")],
                "status.tls: /nowhere/at/all cannot be read",
            ),
            (
                &[
                    ("registry.tls.cert", "/nowhere/at/all"),
                    ("registry.tls.key", "/nowhere/at/all"),
                ],
                "registry.tls: /nowhere/at/all cannot be read",
            ),
            (&[("tls.ciphers", "RC4-MD5")], "tls.ciphers: no cipher suite is called \"RC4-MD5\""),
            (&[("tls.ciphers", "ECDHE-RSA-CHACHA20-POLY1305, TLS_AES_128_GCM_SHA256")], ""),
        ];
        for (overrides, expected) in table {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            let overrides: Vec<_> = overrides.iter().map(owned).collect();
            let loaded = Bootstrap::parse(None, &|_| None, &overrides).expect("good keys");
            let found = check(&loaded.bootstrap).err().map_or(String::new(), |it| it.to_string());
            assert!(found.contains(expected), "{expected}: {found}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{found}");
        }
    }
}
