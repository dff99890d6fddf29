//! Cost of a decision: from the token of a call to the verdict, with the policies of a large
//! company.
//!
//! `cargo run --release -p tollhouse-registry --example decision_cost`

use std::hint::black_box;
use std::time::Instant;

use tollhouse_registry::identity::{
    AccessToken, Attempt, IdentityCommand, IdentityHead, IdentityWrite, Policy, PolicyAction,
    Principal, Resource, ResourceKind, ResourcePattern, User, UserGroup, Verdict,
};
use tollhouse_registry::{Command, Keeper, Options, Registry};

const USERS: usize = 5_000;
const GROUPS: usize = 50;
/// Policies of each group; a user is in three groups.
const POLICIES: usize = 4;
const RESOURCES: usize = 10;
const CALLS: u32 = 1_000_000;

fn head(id: String) -> IdentityHead {
    IdentityHead { name: id.as_str().into(), id: id.into(), ..IdentityHead::default() }
}

async fn write(registry: &Registry, writes: Vec<IdentityWrite>) {
    let command = Command::Identity(Box::new(IdentityCommand::Write(writes)));
    registry.submit(command).await.expect("written");
}

async fn fill(registry: &Registry) {
    for number in 0..USERS {
        let token = AccessToken { text: format!("token-{number}").into(), is_enabled: true };
        let user = User { head: head(format!("user-{number}")), token, ..User::default() };
        write(registry, vec![IdentityWrite::Create(user.into())]).await;
    }
    for number in 0..GROUPS {
        let members = (0..USERS).filter(|user| (0..3).any(|it| (user + it * 7) % GROUPS == number));
        let users = members.map(|user| format!("user-{user}").into()).collect();
        let group =
            UserGroup { head: head(format!("group-{number}")), users, ..Default::default() };
        let mut writes = vec![IdentityWrite::Create(group.into())];
        for policy in 0..POLICIES {
            let resources = (0..RESOURCES).map(|resource| ResourcePattern {
                kind: ResourceKind::Service,
                text: format!("team-{number}/service-{policy}-{resource}-*").into(),
            });
            let policy = Policy {
                head: head(format!("policy-{number}-{policy}")),
                action: PolicyAction::Allow,
                principals: [Principal::group(&format!("group-{number}"))].into(),
                resources: resources.collect(),
                functions: ["Describe*", "Discover*", "RegisterInstance"].map(Into::into).into(),
                ..Policy::default()
            };
            writes.push(IdentityWrite::Create(policy.into()));
        }
        write(registry, writes).await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let store = tollhouse_store::open(&tollhouse_store::Location::Memory).expect("memory opens");
    let (keeper, registry) = Keeper::open(store, Options::default()).await.expect("it is empty");
    tokio::spawn(keeper.run(std::future::pending()));
    fill(&registry).await;
    let state = registry.state_full();
    for (case, namespace, function, expected) in [
        ("allowed by the last policy", "team-1", "RegisterInstance", Verdict::Allowed),
        ("refused after all policies", "team-40", "RegisterInstance", Verdict::NotAllowed),
    ] {
        let name = "service-3-9-web";
        let resource =
            Resource { kind: ResourceKind::Service, id: "0123", namespace, name, labels: None };
        let started = Instant::now();
        for _ in 0..CALLS {
            let owner = state.token_owner(black_box("token-1")).expect("known");
            let principal = owner.head().id.clone();
            let attempt = Attempt { function, resources: &[resource] };
            let verdict = state.decide(&Principal::user(&principal), &attempt);
            assert_eq!(black_box(verdict), expected, "{case}");
        }
        let cost = started.elapsed() / CALLS;
        println!("{case}: {cost:?} a call, {USERS} users in {GROUPS} groups");
    }
}
