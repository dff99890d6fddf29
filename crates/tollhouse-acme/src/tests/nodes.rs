//! Clusters of nodes, and nodes that are killed.

use super::directory::Fault;
use super::{World, pass_s};
use crate::listing::State;

const HOST: &str = "a.example";

#[tokio::test(start_paused = true)]
async fn of_two_nodes_one_orders_and_both_answer() {
    let world = World::new(&[HOST]);
    let nodes = [world.node("one"), world.node("two")];
    // The authority is notified once all nodes know the challenge. Until it responds, all nodes
    // give the same answer.
    world.directory.fail("/chall/", Fault::Silent);
    for _ in 0..60 {
        pass_s(1).await;
        if !world.directory.asked_s("/chall/").is_empty() {
            break;
        }
    }
    let pending = nodes.each_ref().map(|node| node.answered.pending());
    assert_eq!(pending[0].len(), 1);
    assert_eq!(pending[0], pending[1]);
    let [one, two] = nodes;
    one.kill().await;
    two.stop().await;
    assert_eq!(world.directory.orders(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_process_has_begun_is_gone_on_with() {
    for path in ["/authz/", "/chall/", "/order/", "/finalize/", "/cert/"] {
        let world = World::new(&[HOST]);
        world.directory.fail(path, Fault::Silent);
        let node = world.node("one");
        for _ in 0..60 {
            pass_s(1).await;
            if !world.directory.asked_s(path).is_empty() {
                break;
            }
        }
        node.kill().await;
        let node = world.node("one");
        node.until(|view| view.state == State::Valid).await;
        assert_eq!(world.directory.orders(), 1, "{path}");
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lets_go_is_followed_by_another() {
    let world = World::new(&[HOST]);
    let one = world.node("one");
    one.until(|view| view.state == State::Valid).await;
    let two = world.node("two");
    pass_s(20).await;
    one.stop().await;
    pass_s(5 * 86_400).await;
    assert_eq!(world.directory.orders(), 2, "the second one renews");
    two.stop().await;
}
