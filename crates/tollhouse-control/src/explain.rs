//! Which route a request would take, and why: the question is put to the data plane's own parts, the codec and the
//! router, and nothing is sent. What people read of it is made by whoever asks.

mod answer;
mod decision;
mod question;
mod reason;

pub use answer::{ServedQuestions, candidates_listed_max};
pub use decision::{ByShenyu, Candidate, Decision, Destination, Winner, candidates, candidates_at};
pub use question::{Asked, BelowHttp, HeaderLine, Question, Refused, Url, head_text};
pub use reason::{hosts, loss, lossy, plugin_owner};
