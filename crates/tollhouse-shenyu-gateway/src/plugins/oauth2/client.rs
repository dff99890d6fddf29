//! Configuration of an OAuth client.
//!
//! ShenYu configures the OAuth client in the gateway's own file. Here the plugin's configuration
//! contains it, with the member names of ShenYu's documentation.

use std::fmt;

use serde::Deserialize;
use tollhouse_shenyu::lenient;

use crate::handle::{self, HandleError};

/// Default path of the redirect back from the provider: Spring's name for a client called `shenyu`.
const CALLBACK: &str = "/login/oauth2/code/shenyu";

/// Least length of the session secret.
const SESSION_SECRET_CHARS_MIN: usize = 16;

/// OAuth client of the gateway, and its provider.
#[derive(Clone, PartialEq, Eq)]
pub struct OAuth2Client {
    pub client_id: String,
    pub client_secret: String,
    /// Secret that encrypts session cookies.
    pub session_secret: String,
    /// Scopes that a login requests.
    pub scope: String,
    /// URI that the provider redirects browsers back to.
    pub redirect_uri: String,
    /// Path that ends the session; empty for none.
    pub logout_path: String,
    pub provider: OAuth2Provider,
}

/// Endpoints of the OAuth provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OAuth2Provider {
    /// The endpoints are discovered from the metadata document of this issuer.
    Issuer(String),
    /// The endpoints are addresses in the configuration.
    Addresses {
        authorization_url: String,
        token_url: String,
        user_info_url: Option<String>,
        /// URL of the keys (JWK set) that sign ID tokens.
        jwk_set_url: Option<String>,
    },
}

impl fmt::Debug for OAuth2Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "OAuth2Client({}, {:?}, ***)", self.client_id, self.provider)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Config {
    #[serde(deserialize_with = "lenient::or_default")]
    client_id: String,
    #[serde(deserialize_with = "lenient::or_default")]
    client_secret: String,
    #[serde(deserialize_with = "lenient::or_default")]
    session_secret: String,
    #[serde(deserialize_with = "lenient::or_default")]
    issuer: String,
    #[serde(deserialize_with = "lenient::or_default")]
    authorization_url: String,
    #[serde(deserialize_with = "lenient::or_default")]
    token_url: String,
    #[serde(deserialize_with = "lenient::or_default")]
    user_info_url: String,
    #[serde(deserialize_with = "lenient::or_default")]
    jwk_set_url: String,
    #[serde(deserialize_with = "lenient::or_default")]
    scope: String,
    #[serde(deserialize_with = "lenient::or_default")]
    redirect_uri: String,
    #[serde(deserialize_with = "lenient::or_default")]
    logout_path: String,
}

impl OAuth2Client {
    /// Reads the plugin's configuration.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or lacks a member that logins need.
    pub fn read(config: Option<&str>) -> Result<Self, HandleError> {
        let wrong = |reason: &str| HandleError::Malformed(reason.to_owned());
        let config: Config = handle::read(config)?;
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let needed = |text: &str, name: &str| {
            given(text).ok_or_else(|| wrong(&format!("`{name}` of the plugin is missing")))
        };
        let session_secret = given(&config.session_secret)
            .filter(|secret| secret.len() >= SESSION_SECRET_CHARS_MIN)
            .ok_or_else(|| wrong("`session_secret` of the plugin has fewer than 16 characters"))?;
        let provider = match given(&config.issuer) {
            Some(issuer) => OAuth2Provider::Issuer(issuer.trim_end_matches('/').to_owned()),
            None => OAuth2Provider::Addresses {
                authorization_url: needed(&config.authorization_url, "authorization_url")?,
                token_url: needed(&config.token_url, "token_url")?,
                user_info_url: given(&config.user_info_url),
                jwk_set_url: given(&config.jwk_set_url),
            },
        };
        let by_default = match provider {
            OAuth2Provider::Issuer(_) => "openid",
            OAuth2Provider::Addresses { .. } => "",
        };
        let scope = given(&config.scope).unwrap_or_else(|| by_default.to_owned());
        let is_openid = scope.split_ascii_whitespace().any(|word| word == "openid");
        if let OAuth2Provider::Addresses { jwk_set_url: None, .. } = &provider
            && is_openid
        {
            return Err(wrong("the scope `openid` needs `issuer` or `jwk_set_url` of the plugin"));
        }
        Ok(Self {
            client_id: needed(&config.client_id, "client_id")?,
            client_secret: needed(&config.client_secret, "client_secret")?,
            session_secret,
            scope,
            redirect_uri: given(&config.redirect_uri).unwrap_or_else(|| CALLBACK.to_owned()),
            logout_path: given(&config.logout_path).unwrap_or_default(),
            provider,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(more: &Value) -> Result<OAuth2Client, String> {
        let mut config = json!({"client_id": "shop", "client_secret": "s3",
            "session_secret": "a secret of sixteen letters"});
        let more = more.as_object().expect("members").clone();
        config.as_object_mut().expect("members").extend(more);
        OAuth2Client::read(Some(&config.to_string())).map_err(|error| error.to_string())
    }

    #[test]
    fn a_client_needs_a_provider_and_a_secret_for_sessions() {
        let client = read(&json!({"issuer": "https://id.test/realm/"})).expect("it is good");
        assert_eq!(client.provider, OAuth2Provider::Issuer("https://id.test/realm".to_owned()));
        assert_eq!((&*client.scope, &*client.redirect_uri), ("openid", CALLBACK));
        assert!(!format!("{client:?}").contains("s3"));
        let urls = json!({"authorization_url": "https://a/", "token_url": "https://a/t"});
        assert_eq!(read(&urls).expect("it is good").scope, "");
        for (more, reason) in [
            (json!({}), "`authorization_url`"),
            (json!({"authorization_url": "https://a/"}), "`token_url`"),
            (json!({"issuer": "i", "client_id": " "}), "`client_id`"),
            (json!({"issuer": "i", "client_secret": ""}), "`client_secret`"),
            (json!({"issuer": "i", "session_secret": "short"}), "`session_secret`"),
            (
                json!({"authorization_url": "a", "token_url": "b", "scope": "a openid"}),
                "`jwk_set_url`",
            ),
        ] {
            let error = read(&more).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
    }
}
