//! Concurrent waiting for several futures, so that their writes share a commit.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Runs all futures concurrently. They start in order, and their outputs have the same order.
pub(super) async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut waiting: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    poll_fn(move |cx| {
        // At most 100 futures: polling all at each wake-up is cheaper than separate wakers.
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
