//! Span of a call to the control side, such as a write to the Admin API or a call of the registry.

use std::sync::Arc;

use tollhouse_stdx::clock::unix_ns;
use tollhouse_stdx::random::Random;

use crate::core_tracer::Tracer;
use crate::request::TraceStart;
use crate::span::{SpanBlock, SpanHead, SpanKind, SpanStatus, SpanWriter};

/// A call in progress that is recorded. Dropping it records nothing.
#[derive(Debug)]
pub struct CallSpan {
    tracer: Arc<Tracer>,
    start: TraceStart,
    name: String,
    started_ns: u64,
}

impl CallSpan {
    /// Begins the span of a call, or returns `None` if the call is not recorded. `header` returns
    /// the value of a header that occurs once.
    pub fn begin<'h>(
        tracer: &Arc<Tracer>,
        name: impl FnOnce() -> String,
        header: &impl Fn(&str) -> Option<&'h [u8]>,
    ) -> Option<Self> {
        let mut random = Random::from_process_entropy();
        let incoming = tracer.propagators.extract(header);
        let start = tracer.start(incoming, &mut || random.next_u64());
        start.context.is_sampled.then(|| Self {
            tracer: Arc::clone(tracer),
            start,
            name: name(),
            started_ns: unix_ns(),
        })
    }

    /// Hands over the span with the attributes that `write` adds.
    pub fn end(self, status: SpanStatus<'_>, write: impl FnOnce(&mut SpanWriter<'_>)) {
        let Self { tracer, start, name, started_ns } = self;
        let mut block = SpanBlock::default();
        let mut writer = block.add(&SpanHead {
            context: start.context,
            parent: start.parent,
            is_parent_remote: start.parent.is_some(),
            kind: SpanKind::Server,
            name: name.as_bytes(),
            start_ns: started_ns,
            end_ns: unix_ns(),
            status,
            trace_state: b"",
        });
        write(&mut writer);
        drop(writer);
        tracer.sink.take(block);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::key::Key;
    use crate::propagation::Propagators;
    use crate::sampler::Sampler;
    use crate::span::SpanSink;

    #[derive(Debug, Default)]
    struct Blocks(Mutex<Vec<SpanBlock>>);

    impl SpanSink for Blocks {
        fn take(&self, block: SpanBlock) {
            self.0.lock().expect("no test panicked here").push(block);
        }
    }

    #[test]
    fn a_call_continues_the_trace_of_its_caller() {
        let blocks = Arc::<Blocks>::default();
        let tracer = Arc::new(Tracer {
            sampler: Sampler::Never.after_parent(),
            propagators: Propagators::default(),
            has_inner_spans: false,
            sink: Arc::<Blocks>::clone(&blocks),
        });
        let begin = |value: Option<&'static str>| {
            CallSpan::begin(&tracer, || "PUT routes".to_owned(), &|_| value.map(str::as_bytes))
        };
        assert!(begin(None).is_none());
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let span = begin(Some(parent)).expect("it is recorded");
        span.end(SpanStatus::Unset, |writer| {
            writer.number(Key::HttpResponseStatusCode, 201);
        });
        let blocks = blocks.0.lock().expect("no test panicked here");
        assert_eq!(blocks[0].spans(), 1);
        blocks[0].each(|view| {
            assert_eq!((view.name, view.kind), (&b"PUT routes"[..], SpanKind::Server));
            assert_eq!(view.parent.map(|it| it.to_hex()).as_deref(), Some("00f067aa0ba902b7"));
            assert_eq!(view.attributes.len(), 1);
        });
    }
}
