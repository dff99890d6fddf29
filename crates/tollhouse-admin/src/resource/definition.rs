//! Definition of a resource: its properties, and two functions, one for checks that its schema
//! cannot express and one that prevents deletion. A new resource needs a module and an entry in
//! `resource`; routing, OpenAPI document and reference page follow.

use serde_json::Value;
use tollhouse_model::{Kind, schema};

use super::certificate_pair;
use crate::context::Parts;
use crate::index::Contents;
use crate::references::ReferenceKind;
use crate::reply::Reply;

/// A kind of objects in the Admin API.
pub(crate) struct Resource {
    /// Collection name, such as `routes`.
    pub name: &'static str,
    /// Singular name in messages, such as `route`.
    pub kind: &'static str,
    /// Description of the collection in the OpenAPI document.
    pub summary: &'static str,
    /// Name of the core schema of an object.
    pub schema: &'static str,
    /// Structure of the objects' paths, and origin of their ids.
    pub layout: Layout,
    /// Supported verbs besides GET, PUT and DELETE.
    pub further: &'static [Verb],
    /// Kind of the plugins in the objects; `None` if these have no plugins.
    pub plugins: Option<Owner>,
    /// Function that checks an object beyond its schema and plugins.
    pub check: fn(&Candidate<'_>) -> Result<(), Reply>,
    /// Function that returns the reason why the object at a path must not be deleted; `None` if it
    /// may be.
    pub guard: fn(&str, &Contents) -> Option<String>,
}

/// Kind of object that contains plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An object that requests are matched against.
    Route,
    /// A consumer or credential; its authentication plugins identify the consumer.
    Consumer,
    Stream,
}

/// Name of the resource whose objects contain the id of their parent, a service.
pub(super) const GRAPHQL_COST_DECORATIONS: &str = "graphql_cost_decorations";

/// Name of the field with the id of the parent service.
pub(super) const SERVICE: &str = "service_id";

/// Verbs that only some resources support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Creates an object with a generated id.
    Post,
    Patch,
}

/// Structure of an object's path, and origin of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `routes/1`; the object contains its id.
    Id,
    /// `consumers/jack`; the username is the id.
    Username,
    /// `plugin_metadata/cors`; the id is the name of a plugin, which determines the schema.
    PluginName,
    /// `secrets/vault/1`; the manager determines the schema.
    Manager,
    /// `consumers/jack/credentials/1`: a child of an object of the named resource.
    Child(&'static str),
}

/// Check that the objects which a candidate refers to exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReferenceCheck {
    On,
    /// References are not checked, because the candidate is part of a document or is only
    /// inspected.
    Off,
}

/// Object that is validated before it is written.
pub(crate) struct Candidate<'a> {
    /// Path of the object, such as `routes/1`; before POST has assigned an id, `routes/`.
    pub path: &'a str,
    pub value: &'a Value,
    /// Index of the other objects.
    pub contents: &'a Contents,
    pub parts: &'a Parts,
    pub references: ReferenceCheck,
}

impl Resource {
    /// Returns the kind of object in the model; `None` for resources that only the Admin API has.
    pub(crate) fn object_kind(&self) -> Option<Kind> {
        match self.layout {
            Layout::Child(_) => (self.name == "credentials").then_some(Kind::Credential),
            _ => Kind::from_list_name(self.name),
        }
    }

    pub(crate) fn has(&self, verb: Verb) -> bool {
        self.further.contains(&verb)
    }

    /// Whether objects of this collection contain credentials of consumers.
    pub(crate) fn holds_identities(&self) -> bool {
        self.plugins == Some(Owner::Consumer)
    }

    /// Returns the name of the field with the parent's id; `None` if the objects have no such
    /// field.
    pub(crate) fn parent_field(&self) -> Option<&'static str> {
        (self.name == GRAPHQL_COST_DECORATIONS).then_some(SERVICE)
    }

    pub(crate) fn has_id_field(&self) -> bool {
        !matches!(self.layout, Layout::Username | Layout::PluginName)
    }

    /// Whether stored objects contain timestamps; plugin metadata does not, as in APISIX.
    pub(crate) fn has_times(&self) -> bool {
        self.layout != Layout::PluginName
    }

    /// Whether objects of a collection have values that must be unique in it. The store cannot
    /// check that, so that writes are made one after the other.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.object_kind() == Some(Kind::GlobalRule) || self.name == GRAPHQL_COST_DECORATIONS
    }

    /// Whether one core schema describes all objects; other objects are checked by code.
    pub(crate) fn has_one_schema(&self) -> bool {
        let varies = matches!(self.layout, Layout::Manager | Layout::PluginName);
        !varies && schema::core(self.schema).is_some()
    }
}

/// Validates against a core schema, with the rules for that kind of object.
pub(crate) fn check_shape(name: &str, value: &Value) -> Result<(), Reply> {
    schema::check_core(name, value).map_err(Reply::bad)
}

pub(crate) fn no_check(_: &Candidate<'_>) -> Result<(), Reply> {
    Ok(())
}

pub(crate) fn no_guard(_: &str, _: &Contents) -> Option<String> {
    None
}

impl Candidate<'_> {
    /// Refuses a reference to a missing object.
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
        if self.contents.exists(&format!("{collection}/{id}")) {
            return Ok(());
        }
        Err(missing(noun, &id))
    }

    /// Refuses an upstream whose client certificate does not exist, is not for clients, or does not
    /// match its private key.
    pub(crate) fn check_upstream_tls(&self, upstream: Option<&Value>) -> Result<(), Reply> {
        let Some(tls) = upstream.and_then(|upstream| upstream.get("tls")) else { return Ok(()) };
        if let Some(id) = crate::object::id_of(tls, "client_cert_id")
            && self.references == ReferenceCheck::On
        {
            let path = format!("ssls/{id}");
            let facts = self.contents.facts(&path).ok_or_else(|| missing("ssl", &id))?;
            if !facts.is_client_certificate {
                return Err(Reply::bad(format!(
                    "failed to fetch ssl info by ssl id [{id}], wrong ssl type"
                )));
            }
        }
        certificate_pair::check_pair_of(tls, "client_cert", "client_key")
    }
}

fn missing(noun: &str, id: &str) -> Reply {
    Reply::bad(format!("failed to fetch {noun} info by {noun} id [{id}], response code: 404"))
}

/// Returns the name of a referring object in error texts: `route [1]`, or `plugin in route [1]`.
pub(crate) fn user_text(place: ReferenceKind, user: &str) -> String {
    let (collection, id) = user.split_once('/').unwrap_or((user, ""));
    // APISIX uses the plural for global rules only.
    let singular = collection.strip_suffix('s').filter(|_| collection != "global_rules");
    let noun = singular.unwrap_or(collection);
    match place {
        ReferenceKind::Field => format!("{noun} [{id}]"),
        ReferenceKind::Plugin => format!("plugin in {noun} [{id}]"),
    }
}
