//! The load generator from its public side: whole runs against mock upstreams on loopback.

mod engine;
mod mock;
mod protocols;
mod report_html;
