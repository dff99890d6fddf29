//! Waits for several things at once, so that what they write is made durable in one go.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// What all of `futures` come to, in their order. They are begun in that order too.
pub(super) async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut waiting: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    poll_fn(move |cx| {
        // A list is short (100): asking all again at each wake-up is cheaper than more wakers.
        for (future, output) in waiting.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(cx)
            {
                *output = Some(ready);
            }
        }
        if outputs.iter().any(Option::is_none) {
            return Poll::Pending;
        }
        Poll::Ready(outputs.drain(..).flatten().collect())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn outputs_come_in_order_however_they_were_ready() {
        let (first_send, first) = oneshot::channel();
        let (second_send, second) = oneshot::channel();
        let waiter = tokio::spawn(all(vec![first, second]));
        second_send.send(2).expect("waited for");
        tokio::task::yield_now().await;
        first_send.send(1).expect("waited for");
        let outputs = waiter.await.expect("no panic");
        assert_eq!(outputs, [Ok(1), Ok(2)]);
        assert!(all(Vec::<std::future::Ready<()>>::new()).await.is_empty());
    }
}
