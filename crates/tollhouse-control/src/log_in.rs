//! Log-in of people at an identity provider, from the bootstrap file.

use std::time::Duration;

use anyhow::Context;
use tollhouse_admin::{AccountRules, ProviderLogIn};
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::{OpenIdConnect, Secret};
use tollhouse_plugins::code_flow::{CodeFlow, CodeFlowSettings, REPLY_BYTES_MAX};
use tollhouse_web::Client;
use tollhouse_web::client::Limits;

/// Timeout for an answer of the provider. A person waits for it.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum size of the file with the client's secret, in bytes.
const SECRET_BYTES_MAX: usize = 4096;

/// Returns the log-in; `None` without an issuer.
///
/// # Errors
/// If the file with the secret cannot be read, or the provider's CA certificates are unusable.
pub(crate) fn from_bootstrap(bootstrap: &Bootstrap) -> anyhow::Result<Option<ProviderLogIn>> {
    let settings = &bootstrap.admin.openid_connect;
    let (Some(issuer), Some(client_id)) = (&settings.issuer, &settings.client_id) else {
        return Ok(None);
    };
    let secret = client_secret(settings)?;
    let rules = rules(bootstrap);
    let needs_groups =
        !(rules.groups.is_empty() && rules.roles.is_empty() && rules.allowed_groups.is_empty());
    let flow = CodeFlowSettings {
        issuer,
        client_id,
        client_secret: secret.as_deref(),
        scopes: &settings.scopes,
        groups_claim: needs_groups.then_some(settings.groups_claim.as_str()),
    };
    let limits = Limits { time_max: TIME_MAX, body_bytes_max: REPLY_BYTES_MAX };
    let client = match (&settings.ca, issuer.starts_with("https://")) {
        // A machine without certificate authorities can have a provider of its own, without TLS.
        (None, false) => Client::new(limits),
        (ca, _) => Client::new(limits)
            .trusting(ca.as_deref())
            .context("admin.openid_connect: the provider's certificate cannot be checked")?,
    };
    let log_in = ProviderLogIn::new(settings.name.clone(), CodeFlow::new(&flow, client), rules);
    Ok(Some(log_in.reached_at(settings.public_url.clone())))
}

fn rules(bootstrap: &Bootstrap) -> AccountRules {
    let (admin, registry) = (&bootstrap.admin, &bootstrap.registry);
    let settings = &admin.openid_connect;
    let mut reserved_names = vec!["admin".to_owned(), "viewer".to_owned(), registry.user.clone()];
    reserved_names.extend(admin.keys.iter().map(|key| key.name.clone()));
    AccountRules {
        groups_claim: settings.groups_claim.clone(),
        groups: settings.groups.clone(),
        roles: settings.roles.clone(),
        allowed_groups: settings.allowed_groups.clone(),
        allowed_domains: settings.allowed_domains.clone(),
        owner: registry.user.clone(),
        reserved_names,
    }
}

/// Returns the secret of the client, which a file may have with a line feed at the end.
fn client_secret(settings: &OpenIdConnect) -> anyhow::Result<Option<String>> {
    let Some(path) = &settings.client_secret_file else {
        return Ok(settings.client_secret.as_ref().map(Secret::expose).map(str::to_owned));
    };
    let name = || format!("admin.openid_connect.client_secret_file: {}", path.display());
    let text = std::fs::read_to_string(path).with_context(name)?;
    let secret = text.trim();
    if secret.is_empty() || secret.len() > SECRET_BYTES_MAX {
        anyhow::bail!("{}: expected a secret of 1 to {SECRET_BYTES_MAX} bytes", name());
    }
    Ok(Some(secret.to_owned()))
}
