//! Cells over a scripted source, in virtual time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Gives its answers one after the other, the last one for ever.
struct Script {
    steps: Mutex<VecDeque<Result<Answer, ResolveError>>>,
    lookups: AtomicUsize,
}

impl Script {
    fn with_steps(steps: &[Result<Answer, ResolveError>]) -> Arc<Self> {
        let steps = Mutex::new(steps.iter().cloned().collect());
        Arc::new(Self { steps, lookups: AtomicUsize::new(0) })
    }

    fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }
}

impl Source for Script {
    fn lookup<'a>(&'a self, _question: &'a Question) -> Lookup<'a> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let mut steps = self.steps.lock().unwrap();
        let step = if steps.len() > 1 { steps.pop_front() } else { steps.front().cloned() };
        Box::pin(async move { step.unwrap() })
    }
}

fn answer(addresses: &[&str], seconds: u64) -> Result<Answer, ResolveError> {
    let records = addresses.iter().map(|a| Record::plain(a.parse().unwrap())).collect();
    Ok(Answer { records, time_to_live: Duration::from_secs(seconds) })
}

fn open(script: &Arc<Script>, settings: ResolverSettings) -> Arc<Resolver> {
    Resolver::with_source(Arc::clone(script) as Arc<dyn Source>, settings, Handle::current())
}

fn host(name: &str) -> Question {
    Question::Host(name.into())
}

fn text(name: &ResolvedName) -> String {
    match &**name.resolution() {
        Resolution::Pending => "pending".into(),
        Resolution::Failed => "failed".into(),
        Resolution::Known(records) => {
            records.iter().map(|r| r.address.to_string()).collect::<Vec<_>>().join(" ")
        }
    }
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_renewed_when_its_time_ends() {
    let script =
        Script::with_steps(&[answer(&["10.0.0.2", "10.0.0.1"], 10), answer(&["10.0.0.3"], 10)]);
    let resolver = open(&script, ResolverSettings::default());
    let name = resolver.watch(host("a.example"));
    assert_eq!(text(&name), "pending");
    name.ready().await;
    assert_eq!(text(&name), "10.0.0.1 10.0.0.2");
    pass(9.9).await;
    assert_eq!((text(&name), script.lookups()), ("10.0.0.1 10.0.0.2".into(), 1));
    pass(0.2).await;
    assert_eq!((text(&name), script.lookups()), ("10.0.0.3".into(), 2));
}

#[tokio::test(start_paused = true)]
async fn the_setting_replaces_the_time_to_live() {
    let script = Script::with_steps(&[answer(&["10.0.0.1"], 600)]);
    let valid = Some(Duration::from_secs(2));
    let resolver = open(&script, ResolverSettings { valid, ..ResolverSettings::default() });
    let _name = resolver.watch(host("a.example"));
    pass(5.0).await;
    assert_eq!(script.lookups(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_stale_answer_outlives_failures_and_a_lasting_denial_ends_it() {
    let down = || Err(ResolveError::Unreachable("down".into()));
    let script =
        Script::with_steps(&[answer(&["10.0.0.1"], 1), down(), down(), Err(ResolveError::Denied)]);
    let resolver = open(&script, ResolverSettings::default());
    let name = resolver.watch(host("a.example"));
    // Look-ups at 0, 1, 2, 4, 8, 16 s: the third denial comes with the sixth.
    pass(15.5).await;
    assert_eq!((text(&name), script.lookups()), ("10.0.0.1".into(), 5));
    pass(1.0).await;
    assert_eq!((text(&name), script.lookups()), ("failed".into(), 6));
}

#[tokio::test(start_paused = true)]
async fn a_failed_name_is_ready_and_comes_back() {
    let script = Script::with_steps(&[Err(ResolveError::Denied), answer(&["10.0.0.9"], 60)]);
    let resolver = open(&script, ResolverSettings::default());
    let name = resolver.watch(host("a.example"));
    name.ready().await;
    assert_eq!(text(&name), "failed");
    pass(1.1).await;
    assert_eq!(text(&name), "10.0.0.9");
}

#[tokio::test(start_paused = true)]
async fn names_are_shared_and_dropped_with_their_last_holder() {
    let script = Script::with_steps(&[answer(&["10.0.0.1"], 1)]);
    let resolver = open(&script, ResolverSettings::default());
    let first = resolver.watch(host("a.example"));
    let second = resolver.watch(host("a.example"));
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(resolver.names_in_use(), 1);
    pass(0.5).await;
    drop((first, second));
    assert_eq!(resolver.names_in_use(), 0);
    pass(10.0).await;
    assert_eq!(script.lookups(), 1);
}

struct Silent;

impl Source for Silent {
    fn lookup<'a>(&'a self, _question: &'a Question) -> Lookup<'a> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_source_fails_after_the_time_out() {
    let resolver =
        Resolver::with_source(Arc::new(Silent), ResolverSettings::default(), Handle::current());
    let name = resolver.watch(host("a.example"));
    pass(4.9).await;
    assert_eq!(text(&name), "pending");
    pass(0.2).await;
    assert_eq!(text(&name), "failed");
}

#[tokio::test(start_paused = true)]
async fn records_of_one_name_are_bounded() {
    let many: Vec<String> =
        (0..RECORDS_PER_NAME_MAX + 9).map(|i| format!("10.0.{}.{}", i / 200, i % 200)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let script = Script::with_steps(&[answer(&many, 60)]);
    let resolver = open(&script, ResolverSettings::default());
    let name = resolver.watch(host("a.example"));
    name.ready().await;
    assert_eq!(text(&name).split(' ').count(), RECORDS_PER_NAME_MAX);
}
