//! The audit: one event for each write, sign-in, sign-out, export and refused key, with its actor, and without any value
//! that was written. Events go to a sink outside of the store: a caller that writes objects can push rows out of the list of
//! changes, and not these.
//!
//! The one place is [`note`], through which every answer passes. Where events are kept is the sink's business.

use std::net::IpAddr;

use hyper::{Method, StatusCode};

use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::options::KeyCheck;
use crate::prefix;
use crate::reply::Reply;
use crate::served;

/// Longest path in an event, in bytes.
const PATH_BYTES_MAX: usize = 512;

/// Kind of an audited call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditDeed {
    /// A call that changes something: objects, the registry, or the process.
    Write,
    /// A browser was signed in.
    SignIn,
    /// A browser was signed out.
    SignOut,
    /// Objects were exported, secrets sealed.
    Export,
    /// Objects were exported with their secrets in the clear.
    Reveal,
    /// A wrong key was brought, or typed into the sign-in.
    RefusedKey,
}

impl AuditDeed {
    /// As in the audit's lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::SignIn => "sign_in",
            Self::SignOut => "sign_out",
            Self::Export => "export",
            Self::Reveal => "reveal",
            Self::RefusedKey => "refused_key",
        }
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// Kind of the call, also where it was refused.
    pub deed: AuditDeed,
    /// Name of the caller's key; none where no key is asked for, or it is wrong.
    pub actor: Option<String>,
    /// Address of the caller.
    pub peer: IpAddr,
    /// Method of HTTP.
    pub method: String,
    /// Path without its query, cut where it is long.
    pub path: String,
    /// Status of the answer; below 400 the deed was done.
    pub status: u16,
    /// Revision of the commit, where the answer names one.
    pub revision: Option<u64>,
}

/// Keeps events.
pub trait AuditSink: Send + Sync {
    /// Keeps one. Must not wait.
    fn keep(&self, event: &AuditEvent);
}

/// Tells the sink of an answer, if it is one to be told.
pub(crate) fn note(admin: &Admin, call: &Call, reply: &Reply) {
    let Some(sink) = &admin.parts.audit else { return };
    let Some(deed) = deed_of(admin, call, reply) else { return };
    let options = &admin.parts.options;
    let signed_in = || reply.value()?.get("name")?.as_str().map(str::to_owned);
    let actor = match deed {
        AuditDeed::SignIn => signed_in(),
        AuditDeed::RefusedKey => None,
        _ => auth::caller(options, call).map(|key| key.name.clone()),
    };
    let mut path = format!("/{}", call.whole_segments.join("/"));
    path.truncate(path.floor_char_boundary(PATH_BYTES_MAX));
    sink.keep(&AuditEvent {
        deed,
        actor,
        peer: call.peer.ip().to_canonical(),
        method: call.method.to_string(),
        path,
        status: reply.status().as_u16(),
        revision: served::revision_of(reply),
    });
}

fn deed_of(admin: &Admin, call: &Call, reply: &Reply) -> Option<AuditDeed> {
    let options = &admin.parts.options;
    if auth::shows_wrong_key(options, call) {
        return Some(AuditDeed::RefusedKey);
    }
    let is_read = matches!(call.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let console = call.segments_after(&prefix::CONSOLE).unwrap_or_default();
    let console: Vec<&str> = console.iter().map(String::as_str).collect();
    match (console.as_slice(), &call.method) {
        (["login"], &Method::POST) if reply.status() == StatusCode::OK => Some(AuditDeed::SignIn),
        (["login"], &Method::POST) => {
            let is_wrong =
                [StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS].contains(&reply.status());
            is_wrong.then_some(AuditDeed::RefusedKey)
        }
        (["login"], &Method::DELETE) => Some(AuditDeed::SignOut),
        (["export"], &Method::GET) => {
            let reveals = call.arguments.is("reveal_secrets", "true");
            Some(if reveals { AuditDeed::Reveal } else { AuditDeed::Export })
        }
        // Questions, though they are sent by POST.
        (["validate" | "explain", ..] | ["certificates", _, "check"], _) => None,
        (["import"], _) if call.arguments.is("dry_run", "true") => None,
        _ if is_read => None,
        // Strangers without a key are refused before anything, and are told by the metrics alone.
        _ if options.key_check == KeyCheck::Required && auth::caller(options, call).is_none() => {
            None
        }
        _ => Some(AuditDeed::Write),
    }
}
