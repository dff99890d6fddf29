//! Failures of requests to etcd, and what they say about the outcome.

use std::error::Error as _;
use std::io;
use tollhouse_store::StoreError;
use tonic::{Code, Status};

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The request was not sent, so any request may be sent to another member.
    Unsent(String),
    /// The request may have been executed.
    Unanswered(String),
    Declined {
        code: Code,
        /// Message of etcd for people.
        reason: String,
    },
}

impl Failure {
    pub(crate) fn timed_out() -> Self {
        Self::Unanswered("no answer in time".to_owned())
    }

    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Unsent(reason) | Self::Unanswered(reason) | Self::Declined { reason, .. } => {
                reason
            }
        }
    }

    /// Whether the requested revision was compacted.
    pub(crate) fn is_compacted(&self) -> bool {
        matches!(self, Self::Declined { code: Code::OutOfRange, reason } if reason.contains("compacted"))
    }

    /// Whether the response exceeded the limit on messages.
    pub(crate) fn is_too_large(&self) -> bool {
        let Self::Declined { code, reason } = self else { return false };
        match *code {
            Code::OutOfRange => !reason.contains("revision"),
            Code::ResourceExhausted => reason.contains("larger than max"),
            _ => false,
        }
    }

    /// Whether the lease does not exist.
    pub(crate) fn is_lease_gone(&self) -> bool {
        matches!(self, Self::Declined { code: Code::NotFound, reason } if reason.contains("lease"))
    }

    /// Converts the failure of a read, which changed nothing.
    pub(crate) fn into_read_error(self, place: &str) -> StoreError {
        let place = place.into();
        match self {
            Self::Unsent(reason) | Self::Unanswered(reason) => {
                StoreError::Unreachable { place, reason }
            }
            Self::Declined { reason, .. } if reason.contains(NO_SPACE) => {
                StoreError::OutOfRoom { place, reason, remedy: REMEDY_SPACE }
            }
            Self::Declined { code, reason } => {
                StoreError::Declined { place, remedy: remedy(code), reason }
            }
        }
    }

    /// Converts the failure of a change.
    pub(crate) fn into_write_error(self, place: &str) -> StoreError {
        match self {
            Self::Unanswered(reason) => StoreError::Unanswered { place: place.into(), reason },
            failure @ (Self::Unsent(_) | Self::Declined { .. }) => failure.into_read_error(place),
        }
    }
}

/// Message of etcd when its quota is exhausted.
const NO_SPACE: &str = "database space exceeded";

const REMEDY_SPACE: &str = "its quota is exhausted: compact and defragment it, then disarm the alarm (etcdctl alarm \
                            disarm). Deletions are accepted meanwhile";

/// Returns the advice for the operator about a refusal.
fn remedy(code: Code) -> &'static str {
    match code {
        Code::PermissionDenied => {
            "give the user of store.etcd a role that may read and write all keys under the prefix"
        }
        Code::Unauthenticated | Code::InvalidArgument => {
            "look at store.etcd.user and store.etcd.password"
        }
        _ => "look at the log of etcd",
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let reason = status.message().to_owned();
        match status.code() {
            code @ (Code::InvalidArgument
            | Code::NotFound
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated) => Self::Declined { code, reason },
            _ => match refused_connection(&status) {
                Some(error) => Self::Unsent(error),
                None => Self::Unanswered(reason),
            },
        }
    }
}

/// Returns the error of a connection attempt that failed, if that is the cause.
fn refused_connection(status: &Status) -> Option<String> {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkUnreachable
                    | io::ErrorKind::AddrNotAvailable
            )
        {
            return Some(error.to_string());
        }
        cause = error.source();
    }
    None
}
