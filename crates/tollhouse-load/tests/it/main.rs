//! The load generator from its public side: whole runs against mock upstreams on loopback.

mod engine;
mod protocols;
mod report_html;
