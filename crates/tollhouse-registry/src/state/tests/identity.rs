//! Users, groups, roles and policies: who is allowed what, what goes with a deleted object, and
//! what a restart and a transfer keep.

use super::*;
use crate::identity::{
    AccessRole, AccessToken, Attempt, IdentityCommand, IdentityHead, IdentityKind, IdentityObject,
    IdentityWrite, Policy, PolicyAction, Principal, Resource, ResourceKind, ResourceLabel,
    ResourcePattern, User, UserGroup, Verdict,
};
use crate::limits::{IDENTITIES_MAX, POLICY_MEMBERS_MAX};
use crate::refusal::Noun;
use crate::transfer::{Effect, Object};

fn head(id: &str) -> IdentityHead {
    IdentityHead { id: id.into(), name: format!("name of {id}").into(), ..Default::default() }
}

fn user(id: &str) -> User {
    let token = AccessToken { text: format!("token of {id}").into(), is_enabled: true };
    User { head: head(id), token, ..User::default() }
}

fn group(id: &str, users: &[&str]) -> UserGroup {
    let users = users.iter().map(|id| Arc::from(*id)).collect();
    UserGroup { head: head(id), users, ..UserGroup::default() }
}

fn role(id: &str, users: &[&str], groups: &[&str]) -> AccessRole {
    let ids = |ids: &[&str]| ids.iter().map(|id| Arc::from(*id)).collect();
    AccessRole { head: head(id), users: ids(users), groups: ids(groups) }
}

/// A policy with the functions and resources given as `kind:text`.
fn policy(id: &str, of: Principal, action: PolicyAction, what: (&[&str], &[&str])) -> Policy {
    let (functions, resources) = what;
    let resources = resources.iter().map(|text| {
        let (kind, text) = text.split_once(':').expect("a kind and a text");
        let kind = match kind {
            "namespace" => ResourceKind::Namespace,
            "service" => ResourceKind::Service,
            other => panic!("{other}"),
        };
        ResourcePattern { kind, text: text.into() }
    });
    Policy {
        head: head(id),
        action,
        principals: [of].into(),
        resources: resources.collect(),
        functions: functions.iter().map(|it| (*it).into()).collect(),
        ..Policy::default()
    }
}

impl Bench {
    fn create(&mut self, object: impl Into<IdentityObject>) -> Result<Outcome, Refusal> {
        let write = IdentityWrite::Create(object.into());
        self.apply(Command::Identity(Box::new(IdentityCommand::Write(vec![write]))))
    }

    fn delete(&mut self, kind: IdentityKind, id: &str) {
        let command = IdentityCommand::Delete(kind, id.into());
        self.apply(Command::Identity(Box::new(command))).expect("deleted");
    }
}

fn service<'a>(id: &'a str, namespace: &'a str, name: &'a str) -> Resource<'a> {
    Resource { kind: ResourceKind::Service, id, namespace, name, labels: None }
}

fn verdict(state: &State, id: &str, function: &str, resources: &[Resource<'_>]) -> Verdict {
    state.decide(&Principal::user(id), &Attempt { function, resources })
}

#[test]
fn policies_decide_by_function_and_resource() {
    use Verdict::{Allowed, Denied, NotAllowed};
    let mut bench = Bench::new();
    bench.create(user("a")).expect("created");
    let what: (&[&str], &[&str]) = (
        &["Update*", "*Token", "Exact"],
        &["service:id1", "service:prod/pay", "service:dev/*", "service:shop/cart-*", "namespace:n"],
    );
    bench.create(policy("p", Principal::user("a"), PolicyAction::Allow, what)).expect("created");
    let what: (&[&str], &[&str]) = (&["*"], &["service:dev/secret"]);
    bench.create(policy("d", Principal::user("a"), PolicyAction::Deny, what)).expect("created");
    let cases: [(&str, &[Resource<'_>], Verdict); 17] = [
        ("UpdateServices", &[service("id1", "x", "y")], Allowed),
        ("UpdateServices", &[service("id2", "x", "y")], NotAllowed),
        ("UpdateServices", &[service("", "x", "y")], NotAllowed),
        ("DeleteServices", &[service("id1", "x", "y")], NotAllowed),
        ("ResetUserToken", &[service("id1", "x", "y")], Allowed),
        ("Exact", &[service("id1", "x", "y")], Allowed),
        ("Exactly", &[service("id1", "x", "y")], NotAllowed),
        ("Exact", &[service("9", "prod", "pay")], Allowed),
        ("Exact", &[service("9", "prod", "payroll")], NotAllowed),
        ("Exact", &[service("9", "dev", "any")], Allowed),
        ("Exact", &[service("9", "development", "any")], NotAllowed),
        ("Exact", &[service("9", "shop", "cart-1")], Allowed),
        ("Exact", &[service("9", "dev", "secret")], Denied),
        ("Exact", &[Resource::namespace("n")], Allowed),
        ("Exact", &[Resource::namespace("nn")], NotAllowed),
        // Every resource must be allowed, and one that is denied denies all.
        ("Exact", &[service("id1", "x", "y"), service("id2", "x", "y")], NotAllowed),
        ("Exact", &[service("id1", "x", "y"), service("9", "dev", "secret")], Denied),
    ];
    for (function, resources, expected) in cases {
        assert_eq!(
            verdict(&bench.state, "a", function, resources),
            expected,
            "{function} {resources:?}"
        );
    }
    let what: (&[&str], &[&str]) = (&["Exact"], &["service:*"]);
    bench.create(user("b")).expect("created");
    bench.create(policy("all", Principal::user("b"), PolicyAction::Allow, what)).expect("created");
    assert_eq!(verdict(&bench.state, "b", "Exact", &[service("9", "x", "y")]), Allowed);
    assert_eq!(verdict(&bench.state, "b", "Exact", &[service("", "x", "y")]), NotAllowed, "new");
    assert_eq!(verdict(&bench.state, "unknown", "Exact", &[]), NotAllowed);
    let many = vec![service("id1", "x", "y"); 65];
    assert_eq!(verdict(&bench.state, "a", "Exact", &many), Allowed);
    let many = [many, vec![service("id2", "x", "y")]].concat();
    assert_eq!(verdict(&bench.state, "a", "Exact", &many), NotAllowed);
}

#[test]
fn actions_without_functions_are_those_of_older_consoles() {
    use Verdict::{Allowed, Denied, NotAllowed};
    for (action, read, write) in [
        (PolicyAction::ReadOnly, Allowed, NotAllowed),
        (PolicyAction::ReadWrite, Allowed, Allowed),
        (PolicyAction::Allow, NotAllowed, NotAllowed),
        (PolicyAction::Deny, Denied, Denied),
    ] {
        let mut bench = Bench::new();
        bench.create(user("a")).expect("created");
        let what: (&[&str], &[&str]) = (&[], &["service:*"]);
        bench.create(policy("p", Principal::user("a"), action, what)).expect("created");
        let touched = [service("1", "x", "y")];
        assert_eq!(verdict(&bench.state, "a", "DescribeServices", &touched), read, "{action:?}");
        assert_eq!(verdict(&bench.state, "a", "UpdateServices", &touched), write, "{action:?}");
    }
}

#[test]
fn groups_and_roles_bring_their_policies_and_take_them_away() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c"] {
        bench.create(user(id)).expect("created");
    }
    bench.create(group("g", &["a", "b"])).expect("created");
    bench.create(role("direct", &["c"], &[])).expect("created");
    bench.create(role("by-group", &[], &["g"])).expect("created");
    for (id, of) in [
        ("1", Principal::group("g")),
        ("2", Principal::role("direct")),
        ("3", Principal::role("by-group")),
    ] {
        let function = format!("Call{id}");
        let what: (&[&str], &[&str]) = (&[&function], &[]);
        bench.create(policy(id, of, PolicyAction::Allow, what)).expect("created");
    }
    let allowed = |state: &State, id: &str| {
        ["Call1", "Call2", "Call3"].map(|call| verdict(state, id, call, &[]) == Verdict::Allowed)
    };
    assert_eq!(allowed(&bench.state, "a"), [true, false, true]);
    assert_eq!(allowed(&bench.state, "c"), [false, true, false]);
    assert_eq!(allowed(&bench.restarted(), "a"), [true, false, true]);

    bench.delete(IdentityKind::Role, "by-group");
    assert_eq!(allowed(&bench.state, "a"), [true, false, false]);
    bench.delete(IdentityKind::User, "b");
    let members = &bench.state.user_group("g").expect("it stays").users;
    assert_eq!(members.iter().map(|id| &**id).collect::<Vec<_>>(), ["a"]);
    bench.delete(IdentityKind::Group, "g");
    assert_eq!(allowed(&bench.state, "a"), [false, false, false]);
    assert!(bench.state.policy("1").expect("it stays").principals.is_empty());
    assert_eq!(allowed(&bench.restarted(), "c"), [false, true, false]);
}

#[test]
fn labels_match_resources_of_any_kind() {
    let mut bench = Bench::new();
    bench.create(user("a")).expect("created");
    let label = |compare: &str| ResourceLabel {
        key: "team".into(),
        value: "red".into(),
        compare: compare.into(),
    };
    let what: (&[&str], &[&str]) = (&["*"], &[]);
    let by_label = policy("p", Principal::user("a"), PolicyAction::Allow, what);
    let unknown = Policy { labels: vec![label("like")], ..by_label.clone() };
    assert_eq!(bench.create(unknown).err(), Some(Refusal::Parameter("resource_labels")));
    let by_label = Policy { labels: vec![label("for_any_value:string_equal")], ..by_label };
    bench.create(by_label).expect("created");
    for (value, expected) in [("red", Verdict::Allowed), ("blue", Verdict::NotAllowed)] {
        let labels = [("team".into(), value.into())].into();
        let resource = Resource { labels: Some(&labels), ..service("1", "x", "y") };
        assert_eq!(verdict(&bench.state, "a", "Any", &[resource]), expected, "{value}");
    }
    assert_eq!(verdict(&bench.state, "a", "Any", &[service("1", "x", "y")]), Verdict::NotAllowed);
}

#[test]
fn a_token_names_its_owner_until_it_is_replaced() {
    let mut bench = Bench::new();
    bench.create(user("a")).expect("created");
    let owner = |state: &State, token: &str| {
        state.token_owner(token).map(|owner| owner.head().id.to_string())
    };
    assert_eq!(owner(&bench.state, "token of a").as_deref(), Some("a"));
    assert_eq!((owner(&bench.state, "token of b"), owner(&bench.state, "")), (None, None));
    let mut other = user("b");
    other.token.text = "token of a".into();
    assert_eq!(bench.create(other).err(), Some(Refusal::Exists), "a token has one owner");

    let mut changed = User::clone(bench.state.user("a").expect("known"));
    changed.token.text = "new".into();
    let replace = |user: &User| {
        let write = IdentityWrite::Replace(user.clone().into());
        Command::Identity(Box::new(IdentityCommand::Write(vec![write])))
    };
    bench.apply(replace(&changed)).expect("replaced");
    assert_eq!(owner(&bench.state, "new").as_deref(), Some("a"));
    assert_eq!(owner(&bench.state, "token of a"), None);
    assert_eq!(bench.apply(replace(&changed)).err(), Some(Refusal::Conflict), "an old basis");
}

#[test]
fn references_and_names_are_checked() {
    let mut bench = Bench::new();
    bench.create(user("a")).expect("created");
    let named = User { head: IdentityHead { id: "z".into(), ..head("a") }, ..User::default() };
    assert_eq!(bench.create(named).err(), Some(Refusal::Exists));
    let absent = Refusal::NotFound(Noun::Identity(IdentityKind::User));
    assert_eq!(bench.create(group("g", &["a", "x"])).err(), Some(absent.clone()));
    let what: (&[&str], &[&str]) = (&["*"], &[]);
    let of_none = policy("p", Principal::user("x"), PolicyAction::Allow, what);
    assert_eq!(bench.create(of_none).err(), Some(absent));
    let many: Vec<String> = (0..=POLICY_MEMBERS_MAX).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(|id| &**id).collect();
    assert!(matches!(bench.create(group("g", &many)).err(), Some(Refusal::Parameter(_))));
    const { assert!(IDENTITIES_MAX > POLICY_MEMBERS_MAX) };
}

#[test]
fn a_default_policy_grows_with_what_its_owner_makes_and_goes_with_it() {
    let mut bench = Bench::new();
    let what: (&[&str], &[&str]) = (&["*"], &[]);
    let own =
        Policy { is_default: true, ..policy("p", Principal::user("a"), PolicyAction::Allow, what) };
    let writes = vec![IdentityWrite::Create(user("a").into()), IdentityWrite::Create(own.into())];
    let create = Command::Identity(Box::new(IdentityCommand::Write(writes)));
    bench.apply(create).expect("both at once");
    bench.apply(Command::CreateNamespace("n".into(), Default::default())).expect("created");
    let resource = ResourcePattern { kind: ResourceKind::Namespace, text: "n".into() };
    let grant = IdentityCommand::Grant {
        principals: vec![Principal::user("a"), Principal::user("unknown")],
        resources: vec![resource],
    };
    bench.apply(Command::Identity(Box::new(grant))).expect("granted");
    let touched = [Resource::namespace("n")];
    assert_eq!(verdict(&bench.state, "a", "Any", &touched), Verdict::Allowed);
    bench.apply(Command::DeleteNamespace("n".into())).expect("deleted");
    assert_eq!(verdict(&bench.state, "a", "Any", &touched), Verdict::NotAllowed);
    bench.delete(IdentityKind::User, "a");
    assert_eq!(bench.state.identity_count(), 0);
    assert_eq!(bench.restarted().identity_count(), 0);
}

#[test]
fn a_transfer_keeps_ids_tokens_and_references() {
    let mut bench = Bench::new();
    bench.create(user("a")).expect("created");
    bench.create(group("g", &["a"])).expect("created");
    let mut other = Bench::new();
    for (key, value) in bench.durable.clone() {
        let Ok(object) = Object::from_entry(&key, &value) else { continue };
        let put = Command::Put(object.clone());
        if matches!(object, Object::Identity(_)) {
            let outcome = other.apply(put.clone()).expect("stored");
            assert!(matches!(outcome, Outcome::Put(Effect::Created)), "{outcome:?}");
            assert_eq!(other.apply(put).err(), Some(Refusal::NoChange), "{key}");
        }
    }
    assert_eq!(other.state.identity_count(), 2);
    assert!(other.state.token_owner("token of a").is_some());
    assert_eq!(other.state.memberships_of(&Principal::user("a")), [Principal::group("g")]);
}
