//! Facts about the user of a request, which a plugin or a script shares with later ones
//! (`RequestContext::share`).

use serde_json::{Map, Value};

/// Claims of a user who is known without a consumer, such as the user information of a login
/// service.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalUser(pub Value);

/// Payload of a verified JSON Web Token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenPayload(pub Map<String, Value>);
