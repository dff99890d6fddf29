//! ShenYu's admin over the configuration store: its REST interface for operators and scripts, the
//! registration of services, and configuration for ShenYu's own gateways over WebSocket and long
//! polling.
//!
//! [`ShenyuAdmin`] answers requests, [`serve`] puts it behind a listener, and [`follow`] mirrors a
//! remote ShenYu admin into the store. The data plane reads the store on its own; this crate does
//! not depend on it.

#![forbid(unsafe_code)]

mod admin;
mod aes;
mod answer;
mod api;
mod archive;
mod call;
mod clock;
mod conditions;
mod covered;
mod draft;
mod follow;
mod instances;
mod limits;
mod local;
mod local_discovery;
mod logins;
mod menus;
mod operator;
mod page;
mod password;
mod probe;
mod query;
mod records;
mod register;
mod resource;
mod rights;
mod row;
mod seed;
mod serve;
mod sync;
mod table;
mod tables;
mod token;
mod transfer;
mod warnings;
mod writer;

pub use admin::{Beginning, OpenError, Options, Probing, ShenyuAdmin};
pub use aes::{Aes, AesError};
pub use follow::{AddressError, Following, check_address, follow};
pub use local::LocalRequest;
pub use operator::{ChangeRecord, Operator, OperatorRequest};
pub use probe::PROBES_AT_ONCE;
pub use serve::{hold, serve};
pub use transfer::{Part, Report, Source, TransferError, export_archive, plan_import};
pub use warnings::ProblemSource;

#[cfg(test)]
mod tests;
