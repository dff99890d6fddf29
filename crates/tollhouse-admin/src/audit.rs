//! Audit events: one for each write, sign-in, sign-out, export and refused key, with the caller but
//! without written values. Events are passed to an [`AuditSink`], such as a log file, and not
//! stored with the objects, so that a caller who writes many objects cannot displace older events.
//!
//! Every answer passes through [`note`].

use std::net::IpAddr;

use hyper::{Method, StatusCode};

use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::options::KeyCheck;
use crate::prefix;
use crate::reply::Reply;
use crate::served;

/// Maximum length in bytes of the path in an audit event; a longer path is truncated.
const PATH_BYTES_MAX: usize = 512;

/// Kind of an audited call; its name is written to the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditDeed {
    /// A call that changes objects, the registry, or the process.
    Write,
    SignIn,
    SignOut,
    /// An export that includes sealed secrets.
    Export,
    /// An export with secrets in plain text.
    Reveal,
    /// A call or sign-in with a wrong key.
    RefusedKey,
}

impl AuditDeed {
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// Kind of the call, even if the call was refused.
    pub deed: AuditDeed,
    /// Name of the caller's key; `None` if no key is required or the key is wrong.
    pub actor: Option<String>,
    pub peer: IpAddr,
    pub method: String,
    /// Path without query, truncated to `PATH_BYTES_MAX`.
    pub path: String,
    /// HTTP status of the answer. Below 400, the action was carried out.
    pub status: u16,
    /// Revision of the commit, if the answer contains one.
    pub revision: Option<u64>,
}

pub trait AuditSink: Send + Sync {
    /// Stores an event. Must not block.
    fn keep(&self, event: &AuditEvent);
}

/// Sends an event to the sink if the call is of an audited kind.
pub(crate) fn note(admin: &Admin, call: &Call, reply: &Reply) {
    let Some(sink) = &admin.parts.audit else { return };
    let Some(deed) = deed_of(admin, call, reply) else { return };
    let options = &admin.parts.options;
    let named = || reply.value()?.get("name")?.as_str().map(str::to_owned);
    let actor = match deed {
        AuditDeed::SignIn | AuditDeed::SignOut => named(),
        AuditDeed::RefusedKey => None,
        _ => auth::holder_name(options, call),
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
                [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS]
                    .contains(&reply.status());
            is_wrong.then_some(AuditDeed::RefusedKey)
        }
        (["login"], &Method::DELETE) => Some(AuditDeed::SignOut),
        // A log-in that has only begun.
        (["login", ..], _) => None,
        (["export"], &Method::GET) => {
            let reveals = call.arguments.is("reveal_secrets", "true");
            Some(if reveals { AuditDeed::Reveal } else { AuditDeed::Export })
        }
        // These calls change nothing, although their method is POST.
        (["validate" | "explain", ..] | ["certificates", _, "check"], _) => None,
        (["import"], _) if call.arguments.is("dry_run", "true") => None,
        _ if is_read => None,
        // Calls without any key are counted in the metrics, but cause no event.
        _ if options.key_check == KeyCheck::Required
            && auth::holder_name(options, call).is_none() =>
        {
            None
        }
        _ => Some(AuditDeed::Write),
    }
}
