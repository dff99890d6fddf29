//! When a connection wakes: a client in memory, on virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use tokio::io::{DuplexStream, ReadBuf, duplex};
use tollhouse_h2::{EndStream, RequestLine};
use tollhouse_stdx::MemoryBudget;

use super::*;
use crate::behaviour::{Behaviour, Body};
use crate::worker::Shared;

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A mock's side of a connection and a client's.
struct Pair<'a> {
    serving: Serving<'a, DuplexStream>,
    client: DuplexStream,
    codec: Connection,
    wakes: Arc<Wakes>,
}

impl Pair<'_> {
    /// Polls the mock until it rests.
    fn serve(&mut self, mut tick: Pin<&mut Sleep>) {
        let waker = Waker::from(Arc::clone(&self.wakes));
        loop {
            let before = self.wakes.0.load(Ordering::Relaxed);

            let mut context = Context::from_waker(&waker);
            assert!(self.serving.poll(&mut context, tick.as_mut()).is_pending());
            if self.wakes.0.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    /// Hands the client's bytes over and takes the mock's, until neither has any.
    async fn exchange(&mut self, mut tick: Pin<&mut Sleep>) {
        loop {
            let output = self.codec.output().to_vec();
            self.codec.written(output.len());
            self.client.write_all(&output).await.expect("it fits");
            self.serve(tick.as_mut());
            let mut bytes = [0; 4096];
            let mut room = ReadBuf::new(&mut bytes);
            let read = poll_fn(|context| {
                let read = Pin::new(&mut self.client).poll_read(context, &mut room);
                Poll::Ready(read.is_ready())
            });
            if !read.await {
                return;
            }
            let mut input = room.filled();
            while let Some(event) = self.codec.receive(&mut input, 0, &mut ()).expect("no fault") {
                if let Event::Data { stream, ends: true, .. } = event {
                    self.codec.release(stream);
                }
            }
        }
    }

    /// How often the mock is woken in ten seconds.
    async fn wakes_in_ten_seconds(&mut self, mut tick: Pin<&mut Sleep>) -> usize {
        let before = self.wakes.0.load(Ordering::Relaxed);
        for _ in 0..10 {
            tokio::time::advance(TICK + Duration::from_millis(1)).await;
            self.serve(tick.as_mut());
        }
        self.wakes.0.load(Ordering::Relaxed) - before
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_at_rest_is_not_woken() {
    let behaviour = Behaviour { body: Body::Echo, ..Behaviour::default() };
    let worker = Rc::new(Worker::new(Arc::new(Shared::new(&behaviour, 1, None)), 0).expect("one"));
    let (stream, client) = duplex(64 * 1024);
    let serving = Serving::new(&worker, stream);
    let codec = Connection::client(Limits::default(), &MemoryBudget::new(0), 0);
    let wakes = Arc::default();
    let mut pair = Pair { serving, client, codec, wakes };
    let mut tick = pin!(sleep(TICK));

    // Until the settings have gone both ways there is a deadline.
    pair.serve(tick.as_mut());
    assert_eq!(pair.wakes_in_ten_seconds(tick.as_mut()).await, 10);
    pair.exchange(tick.as_mut()).await;
    pair.wakes_in_ten_seconds(tick.as_mut()).await;
    assert_eq!(pair.wakes_in_ten_seconds(tick.as_mut()).await, 0);

    // So it is while a stream is open.
    let line = RequestLine {
        method: b"POST",
        scheme: b"http",
        authority: b"a.example",
        path: b"/",
        protocol: b"",
    };
    let opened = pair.codec.open(&line, [], EndStream::No).expect("streams are free");
    pair.exchange(tick.as_mut()).await;
    assert_eq!(pair.wakes_in_ten_seconds(tick.as_mut()).await, 10);
    pair.codec.send_data(opened, b"end", EndStream::Yes).expect("it is open");
    pair.exchange(tick.as_mut()).await;
    assert_eq!(pair.codec.open_streams(), 0);
    pair.wakes_in_ten_seconds(tick.as_mut()).await;
    assert_eq!(pair.wakes_in_ten_seconds(tick.as_mut()).await, 0);
}
