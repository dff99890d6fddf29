//! Headers that describe the user to nodes.

use serde_json::{Map, Value};
use tollhouse_plugin::{Carrier, RequestContext};

use super::config::Config;
use crate::oidc::User;
use crate::shared::auth::base64::encode_base64;

/// Maximum length of one of these headers' values, in bytes. Servers refuse longer heads, and the
/// provider controls the amount of user data.
const VALUE_BYTES_MAX: usize = 32 << 10;

/// Selection of headers, from the conf.
#[derive(Debug)]
pub(super) struct Headers {
    access_token: bool,
    in_authorization: bool,
    id_token: bool,
    raw_id_token: bool,
    userinfo: bool,
    refresh_token: bool,
}

/// Error of a header value longer than `VALUE_BYTES_MAX`.
#[derive(Debug)]
pub(super) struct TooLong;

impl Headers {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            access_token: config.set_access_token_header,
            in_authorization: config.access_token_in_authorization_header,
            id_token: config.set_id_token_header,
            raw_id_token: config.set_raw_id_token_header,
            userinfo: config.set_userinfo_header,
            refresh_token: config.set_refresh_token_header,
        }
    }

    /// Sets the headers on the request.
    ///
    /// # Errors
    /// If a value is too long.
    pub(super) fn add(&self, cx: &mut RequestContext<'_>, who: &User) -> Result<(), TooLong> {
        let encoded = |claims: &Map<String, Value>| {
            // Base64 turns any claims into one word.
            encode_base64(serde_json::to_string(claims).unwrap_or_default())
        };
        let access_token = who.access_token.as_ref().filter(|_| self.access_token);
        let (name, access_token) = match self.in_authorization {
            true => ("Authorization", access_token.map(|token| format!("Bearer {token}"))),
            false => ("X-Access-Token", access_token.cloned()),
        };
        let id_token = who.id_token.as_ref().filter(|_| self.id_token).map(&encoded);
        let userinfo = who.userinfo.as_ref().filter(|_| self.userinfo).map(|it| encoded(it));
        let lines = [
            (name, access_token),
            ("X-ID-Token", id_token),
            ("X-Userinfo", userinfo),
            ("X-Refresh-Token", who.refresh_token.clone().filter(|_| self.refresh_token)),
            ("X-Raw-ID-Token", who.raw_id_token.clone().filter(|_| self.raw_id_token)),
        ];
        for (name, value) in lines {
            let Some(value) = value else { continue };
            if value.len() > VALUE_BYTES_MAX {
                return Err(TooLong);
            }
            cx.set_header(name, value.as_bytes());
            if name == "Authorization" {
                cx.edits().identities.explain(Carrier::Authorization);
            }
        }
        Ok(())
    }
}
