//! Certificates are renewed before they expire, and the old one is served until the new one is
//! ready.

use super::directory::Fault;
use super::{BEGIN_S, World, pass_s};
use crate::listing::State;

const HOST: &str = "a.example";
const DAY_S: u64 = 86_400;

#[tokio::test(start_paused = true)]
async fn without_a_word_of_the_authority_two_thirds_of_the_life_go_by() {
    let world = World::new(&[HOST]);
    let node = world.node("one");
    node.until(|view| view.state == State::Valid).await;
    pass_s(7 * DAY_S / 2).await;
    assert_eq!(world.directory.orders(), 1);
    pass_s(DAY_S).await;
    assert_eq!(world.directory.orders(), 2);
    let view = node.view().await;
    assert!(view.not_after.is_some_and(|at_s| at_s > BEGIN_S + 9 * DAY_S), "{view:?}");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_window_that_moves_to_the_past_renews_now_and_once() {
    let world = World::new(&[HOST]);
    let later = (BEGIN_S + 4 * DAY_S, BEGIN_S + 5 * DAY_S, 3600);
    world.directory.behave(|it| it.window_s = Some(later));
    let node = world.node("one");
    node.until(|view| view.state == State::Valid).await;
    let view = node.until(|view| view.suggested_window.is_some()).await;
    assert!(view.next_attempt.is_some_and(|at_s| (later.0..=later.1).contains(&at_s)), "{view:?}");
    pass_s(2 * DAY_S).await;
    assert_eq!(world.directory.orders(), 1);
    let past = (BEGIN_S + DAY_S, BEGIN_S + 2 * DAY_S, 3600);
    world.directory.behave(|it| it.window_s = Some(past));
    for _ in 0..240 {
        pass_s(30).await;
        if world.directory.orders() == 2 {
            break;
        }
    }
    // The new certificate has another renewal window.
    let later = (BEGIN_S + 6 * DAY_S, BEGIN_S + 7 * DAY_S, 3600);
    world.directory.behave(|it| it.window_s = Some(later));
    pass_s(DAY_S).await;
    assert_eq!(world.directory.orders(), 2);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn windows_that_nobody_can_read_leave_it_to_the_life() {
    let world = World::new(&[HOST]);
    world.directory.behave(|it| it.window_s = Some((BEGIN_S + DAY_S, BEGIN_S, 6 * 3600)));
    for _ in 0..3 {
        world.directory.fail("/ari", Fault::Truncated);
    }
    let node = world.node("one");
    node.until(|view| view.state == State::Valid).await;
    pass_s(7 * DAY_S / 2).await;
    assert_eq!((world.directory.orders(), node.view().await.last_error), (1, None));
    pass_s(DAY_S).await;
    assert_eq!(world.directory.orders(), 2);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_old_certificate_stays_until_the_new_one_is_for_the_name() {
    let world = World::new(&[HOST]);
    let node = world.node("one");
    node.until(|view| view.state == State::Valid).await;
    let before = world.certificate(HOST).await;
    world.directory.behave(|it| it.wrong_name = Some("b.example"));
    pass_s(17 * DAY_S / 4).await;
    let view = node.view().await;
    assert_eq!(view.state, State::RenewalFailing);
    let error = view.last_error.expect("it says why");
    assert_eq!(error.code, "acme_certificate_unusable");
    assert!(error.detail.contains("b.example"), "{error:?}");
    assert_eq!(world.certificate(HOST).await, before);
    world.directory.behave(|it| it.wrong_name = None);
    node.until(|view| view.state == State::Valid).await;
    assert_ne!(world.certificate(HOST).await, before);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_limited_leaves_the_old_certificate_where_it_is() {
    let world = World::new(&[HOST]);
    let node = world.node("one");
    node.until(|view| view.state == State::Valid).await;
    let before = world.certificate(HOST).await;
    world.directory.fail("/new-order", Fault::Later(429, Some(3600)));
    let view = node.until(|view| view.state == State::RenewalFailing).await;
    assert_eq!(view.last_error.expect("why").code, "acme_rate_limited");
    assert_eq!(world.certificate(HOST).await, before);
    node.until(|view| view.state == State::Valid).await;
    let asked_s = world.directory.asked_s("/new-order");
    assert!(asked_s[2] - asked_s[1] >= 3600, "{asked_s:?}");
    node.stop().await;
}
