//! Dry run of routing: which route a request would take, and why the other routes lose. The codec
//! and the router of the data plane decide, and nothing is sent.

mod answer;
mod decision;
mod question;
mod reason;
pub mod text;

pub use answer::{ServedQuestions, candidates_listed_max};
pub use decision::{ByShenyu, Candidate, Decision, Destination, Winner, candidates, candidates_at};
pub use question::{BelowHttp, ExplainRequest, HeaderLine, Question, Rejection, Url, head_text};
pub use reason::{hosts, loss, lossy, plugin_owner};
