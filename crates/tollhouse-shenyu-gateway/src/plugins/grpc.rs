//! Plugin `grpc`: converts a request to a call of the method registered for its path, and the
//! response back to JSON.

pub(crate) mod method;

use tollhouse_plugin::{RequestContext, Piece};
use tollhouse_plugin::response::{BodyFilter, Effect as BodyEffect, ResponseContext};
use tollhouse_shenyu::answer::Statuses;
use tollhouse_shenyu::matching::RpcType;
use tollhouse_shenyu::model::Metadata;

use self::method::{GrpcMethod, frames_of_body, json_of_message};
use crate::plugin::prelude::*;
use crate::shared::forward;
use crate::shared::nodes::DivideRule;

/// Longest silence of a node in milliseconds. The call itself ends with the timeout of its method,
/// which may be as long.
const CALL_TIMEOUT_MS: u32 = 3_600_000;

/// Largest request body, and largest message of a response: the default limit of gRPC servers.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Length in bytes of a frame's head: its flags and its size.
const FRAME_HEAD_BYTES: usize = 5;

/// Rule of the plugin, which only chooses the nodes.
#[derive(Debug)]
pub(crate) struct Grpc;

impl ShenyuPlugin for Grpc {
    const ROW: Row = Row::harmless("grpc", 310).at(Stage::Proxy(RpcType::Grpc)).with(
        Seed::new("15", "Proxy").config(r#"{"multiSelectorHandle":"1","multiRuleHandle":"0"}"#),
    );

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        let rule = read(place.handle())?;
        Ok(forward::compile(place, RpcType::Grpc, rule, resources)?.map(|_| Self))
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        let metadata = run.turn.metadata(run.engine);
        if let Err(answer) = call(metadata, run.cx).await {
            return Verdict::Refused(answer);
        }
        run.turn.is_call = true;
        let edit: Arc<Self> = Arc::clone(self);
        run.turn.aftermath.answer_edits.push(edit);
        Verdict::Node
    }

    fn explain(&self, preview: &mut Preview<'_>) -> Prediction {
        match preview.turn.metadata(preview.engine).and_then(GrpcMethod::read) {
            Some(method) => Prediction::Node(Some(method.path.into_bytes())),
            None => Prediction::Refused(Answer::MetadataError),
        }
    }
}

impl ResponseEdit for Grpc {
    fn edit(self: Arc<Self>, statuses: Statuses, cx: &mut ResponseContext<'_>) {
        answer(Answer::RpcFailed.status(statuses), cx);
    }
}

/// Reads a rule's handle. Calls are not retried, and their timeout is that of the method.
///
/// # Errors
///
/// For the reasons of [`DivideRule::read`].
fn read(handle: Option<&str>) -> Result<DivideRule, HandleError> {
    Ok(DivideRule { retries: 0, timeout_ms: CALL_TIMEOUT_MS, ..DivideRule::read(handle)? })
}

/// Converts a request to the gRPC call of its method.
///
/// # Errors
///
/// The answer to a request that is not a valid call.
async fn call(metadata: Option<&Metadata>, cx: &mut RequestContext<'_>) -> Result<(), Answer> {
    let method = metadata.and_then(GrpcMethod::read).ok_or(Answer::MetadataError)?;
    let body = cx.read_body(MESSAGE_BYTES_MAX as u64).await;
    if body.map_err(|_| Answer::RequestTooLarge)?.trim_ascii().is_empty() {
        return Err(Answer::GrpcBodyMissing);
    }
    let messages_max = method.messages_max;
    let frames = cx.examine_body(move |body| frames_of_body(body, messages_max)).await;
    let frames = frames.map_err(|_| Answer::RequestTooLarge)?;
    let frames = frames.ok_or(Answer::ParameterError)?;
    let edits = cx.edits();
    edits.method = Some("POST");
    edits.set_upstream_uri(method.path.as_bytes());
    edits.body = Some(frames);
    edits.time_max = Some(method.timeout);
    edits.headers.set("Content-Type", b"application/grpc");
    edits.headers.set("grpc-timeout", format!("{}m", method.timeout.as_millis()).as_bytes());
    // Removes headers that describe the original body or ask for an encoded response.
    for name in ["Content-Encoding", "grpc-encoding", "grpc-accept-encoding", "Accept-Encoding"] {
        edits.headers.remove(name);
    }
    Ok(())
}

/// Converts the response to a JSON list, as ShenYu does for every kind of method.
fn answer(failed_status: u16, cx: &mut ResponseContext<'_>) {
    let is_called = cx.status() == 200
        && cx.header("content-type").is_some_and(|kind| kind.starts_with(b"application/grpc"));
    let has_failed = cx.header("grpc-status").is_some_and(|status| status != b"0");
    for name in
        ["content-length", "content-encoding", "grpc-encoding", "grpc-status", "grpc-message"]
    {
        cx.remove_header(name);
    }
    cx.set_header("Content-Type", b"application/json");
    let is_good = is_called && !has_failed;
    if !is_good {
        cx.set_status(failed_status);
    }
    let transcoding =
        Transcoding { held: Vec::new(), messages: 0, has_failed: !is_good, has_ended: false };
    cx.filter_body(BodyEffect::Rewrites, Box::new(transcoding));
}

/// Body filter that converts messages to JSON as they arrive.
struct Transcoding {
    held: Vec<u8>,
    messages: usize,
    /// Whether conversion has failed; the rest of the body is discarded.
    has_failed: bool,
    has_ended: bool,
}

impl Transcoding {
    /// Converts the complete messages; `None` if one is invalid.
    fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<()> {
        self.held.extend_from_slice(input);
        let mut read = 0;
        while let Some(([flags, a, b, c, d], rest)) =
            self.held[read..].split_first_chunk::<FRAME_HEAD_BYTES>()
        {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            if *flags != 0 || length > MESSAGE_BYTES_MAX {
                return None;
            }
            let Some(message) = rest.get(..length) else { break };
            let text = json_of_message(message)?;
            out.push(if self.messages > 0 { b',' } else { b'[' });
            out.extend_from_slice(text.as_bytes());
            self.messages += 1;
            read += FRAME_HEAD_BYTES + length;
        }
        self.held.drain(..read);
        Some(())
    }
}

impl BodyFilter for Transcoding {
    fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        if !self.has_failed && self.take(input, out).is_none() {
            self.has_failed = true;
        }
        if !piece.is_last() || std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let is_whole = !self.has_failed && self.held.is_empty();
        match (is_whole, self.messages) {
            (true, 0) => out.extend_from_slice(b"[]"),
            (true, _) => out.push(b']'),
            // Part of the list may have been sent already, so it is left unterminated to reveal the
            // failure.
            (false, 0) => out.extend_from_slice(Answer::InvocationFailed.body(None).as_bytes()),
            (false, _) => {}
        }
    }

    fn work_bytes(&self, input_bytes: usize, _piece: Piece) -> usize {
        let held = self.held.len() + input_bytes;
        let is_whole = self.held.first_chunk().is_some_and(|[_, a, b, c, d]| {
            held >= FRAME_HEAD_BYTES + u32::from_be_bytes([*a, *b, *c, *d]) as usize
        });
        if is_whole && !self.has_failed { held } else { 0 }
    }

    fn trailers(&mut self, section: &mut Vec<u8>) {
        let failed = section.split(|byte| *byte == b'\n').any(|line| {
            let Some(at) = line.iter().position(|byte| *byte == b':') else { return false };
            let (name, value) = (&line[..at], line[at + 1..].trim_ascii());
            name.eq_ignore_ascii_case(b"grpc-status") && value != b"0"
        });
        self.has_failed |= failed;
        // The trailers belong to gRPC; clients of JSON do not expect them.
        section.clear();
    }
}
