//! What a resource is: a table of facts and two functions, which make its objects good beyond their
//! schema, and keep one from being deleted. Adding one means a file beside this and a line in the list
//! of `resource`; dispatch, the OpenAPI document and the reference page follow.

use serde_json::Value;
use tollhouse_model::{Kind, schema};

use super::certificate_pair;
use crate::context::Parts;
use crate::index::Known;
use crate::references::Place;
use crate::reply::Reply;

/// A kind of objects, as the Admin API has it.
pub(crate) struct Resource {
    /// Its collection: `routes`.
    pub name: &'static str,
    /// What messages call one of them: `route`.
    pub kind: &'static str,
    /// For the reader of the OpenAPI document.
    pub summary: &'static str,
    /// The core schema of one of them.
    pub schema: &'static str,
    /// How objects get their ids, and where they lie.
    pub layout: Layout,
    /// Verbs beside GET, PUT and DELETE.
    pub further: &'static [Verb],
    /// What the plugins in it are for, if there may be any.
    pub plugins: Option<Owner>,
    /// What makes an object good beyond its schema and plugins.
    pub check: fn(&Candidate<'_>) -> Result<(), Reply>,
    /// What keeps an object from being deleted: the path, what is known.
    pub guard: fn(&str, &Known) -> Option<String>,
}

/// Whose plugins stand in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An object that requests match.
    Route,
    /// A consumer or credential: auth plugins say who that is.
    Consumer,
    /// A stream route.
    Stream,
}

/// The resource whose objects say what they lie below.
pub(super) const GRAPHQL_COST_DECORATIONS: &str = "graphql_cost_decorations";

/// The field in which they do.
pub(super) const SERVICE: &str = "service_id";

/// Verbs that not all resources have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Creates an object under an id of the store's choice.
    Post,
    /// Changes parts of an object.
    Patch,
}

/// How objects get their ids, and where they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `routes/1`; the id stands in the object too.
    Id,
    /// `consumers/jack`; the username is the id.
    Username,
    /// `plugin_metadata/cors`; the id is a plugin's name, and the object is the plugin's.
    PluginName,
    /// `secrets/vault/1`; the first part chooses the schema.
    Manager,
    /// `consumers/jack/credentials/1`: below an object of another resource, named here.
    Child(&'static str),
}

/// Whether the objects that a candidate names must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReferenceCheck {
    /// They must.
    On,
    /// Nobody knows here: the candidate is part of a document, or is only looked at.
    Off,
}

/// An object that wants to be written.
pub(crate) struct Candidate<'a> {
    /// Its path: `routes/1`; what is written by POST has `routes/` yet.
    pub path: &'a str,
    /// The object.
    pub value: &'a Value,
    /// What is known of others.
    pub known: &'a Known,
    /// The parts of the Admin API.
    pub parts: &'a Parts,
    /// Whether others must exist.
    pub references: ReferenceCheck,
}

impl Resource {
    /// What the model calls one of its objects; none for what only the Admin API knows.
    pub(crate) fn object_kind(&self) -> Option<Kind> {
        match self.layout {
            Layout::Child(_) => (self.name == "credentials").then_some(Kind::Credential),
            _ => Kind::from_list_name(self.name),
        }
    }

    /// Whether the verb is served.
    pub(crate) fn has(&self, verb: Verb) -> bool {
        self.further.contains(&verb)
    }

    /// Whether its objects say who somebody is.
    pub(crate) fn holds_identities(&self) -> bool {
        self.plugins == Some(Owner::Consumer)
    }

    /// The field in which an object says what it lies below, where it says so.
    pub(crate) fn parent_field(&self) -> Option<&'static str> {
        (self.name == GRAPHQL_COST_DECORATIONS).then_some(SERVICE)
    }

    /// Whether objects carry their id.
    pub(crate) fn has_id_field(&self) -> bool {
        !matches!(self.layout, Layout::Username | Layout::PluginName)
    }

    /// Whether stored objects tell when they were created and changed; metadata does not, as in APISIX.
    pub(crate) fn has_times(&self) -> bool {
        self.layout != Layout::PluginName
    }

    /// Whether no two objects below one path may hold the same, though the store does not know what they hold.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.object_kind() == Some(Kind::GlobalRule) || self.name == GRAPHQL_COST_DECORATIONS
    }

    /// Whether a core schema describes its objects; others are described where they are checked.
    pub(crate) fn has_one_schema(&self) -> bool {
        let varies = matches!(self.layout, Layout::Manager | Layout::PluginName);
        !varies && schema::core(self.schema).is_some()
    }
}

/// Validates by a core schema and the rules of the noun.
pub(crate) fn check_shape(name: &str, value: &Value) -> Result<(), Reply> {
    schema::check_core(name, value).map_err(Reply::bad)
}

/// No further rules.
pub(crate) fn no_check(_: &Candidate<'_>) -> Result<(), Reply> {
    Ok(())
}

/// Nothing keeps it.
pub(crate) fn no_guard(_: &str, _: &Known) -> Option<String> {
    None
}

impl Candidate<'_> {
    /// Refuses a field that names an object which does not exist.
    pub(crate) fn check_reference(
        &self,
        field: &str,
        collection: &str,
        noun: &str,
    ) -> Result<(), Reply> {
        let id = crate::object::id_of(self.value, field);
        let Some(id) = id.filter(|_| self.references == ReferenceCheck::On) else {
            return Ok(());
        };
        if self.known.exists(&format!("{collection}/{id}")) {
            return Ok(());
        }
        Err(missing(noun, &id))
    }

    /// Refuses an upstream, the object itself or the one in it, that names a certificate which
    /// does not exist or is not for clients, or carries one that does not go with its key.
    pub(crate) fn check_upstream_tls(&self, upstream: Option<&Value>) -> Result<(), Reply> {
        let Some(tls) = upstream.and_then(|upstream| upstream.get("tls")) else { return Ok(()) };
        if let Some(id) = crate::object::id_of(tls, "client_cert_id")
            && self.references == ReferenceCheck::On
        {
            let path = format!("ssls/{id}");
            let facts = self.known.facts(&path).ok_or_else(|| missing("ssl", &id))?;
            if !facts.is_client_certificate {
                return Err(Reply::bad(format!(
                    "failed to fetch ssl info by ssl id [{id}], wrong ssl type"
                )));
            }
        }
        certificate_pair::check_pair_of(tls, ("client_cert", "client_key"))
    }
}

fn missing(noun: &str, id: &str) -> Reply {
    Reply::bad(format!("failed to fetch {noun} info by {noun} id [{id}], response code: 404"))
}

/// `route [1]`, or `plugin in route [1]`: who uses an object, in the words of refusals.
pub(crate) fn user_text(place: Place, user: &str) -> String {
    let (collection, id) = user.split_once('/').unwrap_or((user, ""));
    // Global rules are the one collection whose plural these refusals use.
    let singular = collection.strip_suffix('s').filter(|_| collection != "global_rules");
    let noun = singular.unwrap_or(collection);
    match place {
        Place::Field => format!("{noun} [{id}]"),
        Place::Plugin => format!("plugin in {noun} [{id}]"),
    }
}
