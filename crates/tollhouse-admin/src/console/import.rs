//! `POST /console/v1/import`: imports a document into the store, as one commit that can be undone.
//! With `dry_run=true` it only returns the plan and its revision. With that revision in `If-Match`,
//! the import is carried out only if no object has changed since. The module `transfer` makes the
//! plan, as for `tollhouse import`.

use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use hyper::header::IF_MATCH;
use serde_json::{Value, json};
use tollhouse_config::{Document, declarative};
use tollhouse_model::encryption::Keyring;
use tollhouse_model::problem::Severity;
use tollhouse_model::{Kind, Problem, Problems, TIME_FIELDS};
use tollhouse_store::{Entry, Revision};

use super::{differences, validation};
use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::crud::many::{self, NewObject, Step};
use crate::crud::undo::place_of;
use crate::encrypt::{self, Author};
use crate::foreseen;
use crate::index::Contents;
use crate::limits::OBJECTS_PER_TURN;
use crate::problems;
use crate::reply::Reply;
use crate::transfer::{self, Change, Plan, PrivateKeys, Prune};
use crate::yaml;

/// Maximum size of a document in bytes: some thousand objects, so that one commit has room for the
/// new and the previous objects.
pub(super) const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum number of changes that the plan lists, and of differences per change. The plan also
/// contains the total number of changes.
const CHANGES_TOLD_MAX: usize = 500;
const DIFFERENCES_MAX: usize = 100;

/// Maximum number of problems in an answer.
const PROBLEMS_TOLD_MAX: usize = 200;

/// Import whose document has been validated and compared with the store.
struct Import {
    /// Revision of the stored objects that were compared.
    revision: Revision,
    plan: Plan,
    steps: Vec<Step>,
    problems: Vec<Value>,
    problem_count: usize,
    /// Problems that the data plane would report about the imported objects.
    warnings: Vec<Value>,
    is_refused: bool,
}

/// Returns the plan of the import, or carries out the import.
pub(super) async fn answer(admin: &Admin, call: &Call, body: &[u8]) -> Result<Reply, Reply> {
    auth::check_key(&admin.parts.options, call)?;
    if admin.document.is_some() {
        return Err(Reply::bad(
            "this gateway has one document; PUT /apisix/admin/configs replaces it",
        ));
    }
    let is_dry = call.arguments.is("dry_run", "true");
    if !is_dry {
        admin.parts.options.mode.check_writable()?;
    }
    let prune = if call.arguments.is("prune", "true") { Prune::Absent } else { Prune::Nothing };
    let document = read(body)?;
    admin.index.catch_up().await?;
    let seen = expected(call)?;
    let import = compare(admin, call, document, prune).await?;
    if is_dry {
        return Ok(Reply::json(StatusCode::OK, &plan_view(admin, call, &import)?));
    }
    let changed_at = admin.index.contents().objects_revision();
    if seen.is_some_and(|seen| seen < changed_at) {
        let text = format!(
            "nothing was written: objects were changed at revision {}, after the plan was made; make a new plan",
            changed_at.0
        );
        return Err(Reply::refusal(StatusCode::PRECONDITION_FAILED, text));
    }
    if import.is_refused {
        let body = json!({
            "error_msg": "nothing was written: the document has faults",
            "problems": import.problems,
        });
        return Err(Reply::json(StatusCode::BAD_REQUEST, &body));
    }
    carry_out(admin, call, &import).await
}

async fn carry_out(admin: &Admin, call: &Call, import: &Import) -> Result<Reply, Reply> {
    let mut value = counts(&import.plan);
    if !import.steps.is_empty() {
        let row = many::row(admin, call, &import.steps, None);
        let transaction = many::transaction(admin, call, &import.steps, &row)?;
        value["revision"] = many::commit(admin, transaction).await?.0.into();
    }
    let reply = Reply::json(StatusCode::OK, &value);
    Ok(problems::with_problems(reply, import.warnings.clone()))
}

/// Returns the revision in the header `If-Match`, if there is one.
fn expected(call: &Call) -> Result<Option<Revision>, Reply> {
    let Some(tag) = call.headers.get(IF_MATCH) else { return Ok(None) };
    let number = tag.to_str().ok().and_then(|tag| tag.trim().trim_matches('"').parse().ok());
    let number = number.ok_or_else(|| {
        Reply::bad("If-Match is the revision that the plan named, in quotes: If-Match: \"12\"")
    })?;
    Ok(Some(Revision(number)))
}

/// Parses a document. References to environment variables are not resolved, because the caller must
/// not read the process's environment.
fn read(body: &[u8]) -> Result<Document, Reply> {
    let text = std::str::from_utf8(body).map_err(|_| Reply::bad("the document is not text"))?;
    if text.trim().is_empty() {
        return Err(Reply::bad("the document is empty; a document without objects is `{}`"));
    }
    let parsed = match text.trim_start().starts_with('{') {
        true => declarative::parse_literal(text),
        false => {
            let value = yaml::parse(text)
                .map_err(|error| Reply::bad(format!("the document is not valid YAML: {error}")))?;
            let value = if value.is_null() { json!({}) } else { value };
            declarative::parse_literal(&value.to_string())
        }
    };
    parsed.map_err(|problems| Reply::bad(format!("the document cannot be read: {problems}")))
}

/// Returns the problems of sealed values that no key opens, and of masked values that the caller's
/// role may not use. The rules are those for writing a single object.
async fn refused_values(
    admin: &Admin,
    call: &Call,
    document: &Document,
) -> Result<Vec<Problem>, Reply> {
    let mut problems = Vec::new();
    for item in &document.items {
        // Items that cannot be parsed are reported by the later checks.
        let Ok(mut value) = item.value() else { continue };
        let path = transfer::path_of(item.kind, &item.id);
        let before = admin.parts.store.get(&admin.key_of(&path)).await?;
        let author = Author::new(admin, call, before.as_ref());
        let opened = encrypt::open_written(&path, &mut value, &author, &admin.parts);
        let refused = opened.err().map(|refusal| refusal.error_text());
        problems.extend(refused.map(|text| Problem::error(item.path.as_str(), text)));
    }
    Ok(problems)
}

async fn compare(
    admin: &Admin,
    call: &Call,
    mut document: Document,
    prune: Prune,
) -> Result<Import, Reply> {
    let parts = &admin.parts;
    let (catalogue, keyring) = (&parts.catalogue, &parts.keyring);
    let refused = refused_values(admin, call, &document).await?;
    transfer::open_document(&mut document, catalogue, keyring);
    let mut problems: Vec<Problem> = document.problems.iter().cloned().chain(refused).collect();
    if document.shenyu.as_ref().is_some_and(|items| !items.is_empty()) {
        let problem = Problem::warning("shenyu", "ShenYu's objects are not imported here");
        problems.push(problem.with_hint("use `tollhouse import shenyu`"));
    }
    for withheld in &document.withheld {
        let path = format!("{}/{}", withheld.kind, withheld.id);
        problems.push(Problem::error(path, "cannot be told, so that nothing can be said of it"));
    }
    let wanted = transfer::from_document(&document).map_err(|it| Reply::bad(it.to_string()))?;
    let prefix = parts.options.key_prefix.as_str();
    let listing = parts.store.list(&format!("{prefix}/")).await?;
    let (mut there, _) = transfer::from_listing(&listing, prefix);
    for (at, ((kind, _), object)) in there.iter_mut().enumerate() {
        object.unseal(*kind, catalogue, Some(keyring));
        if at % OBJECTS_PER_TURN == OBJECTS_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
    let places = places(&document);
    let plan = Plan::make(there, wanted, prune, PrivateKeys::Seen);
    let entries: HashMap<Box<str>, Entry> =
        listing.entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
    let steps: Vec<Step> =
        plan.changes.iter().filter_map(|change| step(admin, change, &entries)).collect();
    let prospect = many::prospect(admin, &steps).await;
    let mut import = Import {
        revision: listing.revision,
        plan,
        steps,
        problems: Vec::new(),
        problem_count: 0,
        warnings: Vec::new(),
        is_refused: false,
    };
    for problem in &problems {
        import.add_problem(&problem.path, "", problem);
    }
    check_objects(admin, &mut import, &prospect, &places).await;
    if !import.is_refused {
        foresee(admin, &mut import, document, &places).await?;
    }
    Ok(import)
}

/// Compiles the objects as the data plane would, and adds the problems as warnings. A warning does
/// not prevent the import.
async fn foresee(
    admin: &Admin,
    import: &mut Import,
    mut document: Document,
    places: &HashMap<String, String>,
) -> Result<(), Reply> {
    // The problems of the document itself have been reported already.
    document.problems = Problems::new();
    let gone = import.steps.iter().filter(|step| step.after.is_none());
    let gone: HashSet<String> = gone.map(|step| step.path.clone()).collect();
    import.warnings = foreseen::problems(admin, document, |path| !gone.contains(path)).await?;
    let owners: HashMap<&str, &str> =
        places.iter().map(|(path, place)| (place.as_str(), path.as_str())).collect();
    for warning in import.warnings.clone() {
        let text = |name: &str| warning[name].as_str().unwrap_or_default();
        let place = text("path");
        let item = place.find(']').map_or(place, |end| &place[..=end]);
        let place = match owners.get(item) {
            Some(path) => format!("{path} ({place})"),
            None => place.to_owned(),
        };
        let problem = Problem::warning("", text("reason")).with_hint(text("hint"));
        import.add_problem(&place, "", &problem);
    }
    Ok(())
}

/// Returns the position of each object in the document, such as `routes[0]`, by its path in the
/// store.
fn places(document: &Document) -> HashMap<String, String> {
    document.items.iter().map(|it| (transfer::path_of(it.kind, &it.id), it.path.clone())).collect()
}

fn step(admin: &Admin, change: &Change, entries: &HashMap<Box<str>, Entry>) -> Option<Step> {
    let path = transfer::path_of(change.kind, &change.id);
    place_of(&path)?;
    let before = entries.get(admin.key_of(&path).as_str()).cloned();
    let after = change.new.as_ref().map(|new| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut stored = new.to_store(change.kind, &change.id, now.as_secs());
        let mut plain = stored.clone();
        if let Value::Object(fields) = &mut plain {
            for time in TIME_FIELDS {
                fields.shift_remove(time);
            }
            if change.kind == Kind::PluginMetadata {
                // The path already contains the plugin's name.
                fields.shift_remove("id");
            }
        }
        let old = before.as_ref().and_then(|entry| serde_json::from_slice(&entry.value).ok());
        encrypt::seal_over(&path, &mut stored, old, &admin.parts);
        NewObject { plain, stored: stored.to_string() }
    });
    Step::new(&path, before, after)
}

impl Import {
    fn add_problem(&mut self, place: &str, pointer: &str, problem: &Problem) {
        self.problem_count += 1;
        let is_error = problem.severity == Severity::Error;
        self.is_refused |= is_error;
        if self.problems.len() < PROBLEMS_TOLD_MAX {
            self.problems.push(json!({
                "place": place,
                "pointer": pointer,
                "text": problem.reason,
                "hint": problem.hint,
                "severity": if is_error { "error" } else { "warning" },
            }));
        }
    }
}

/// Checks all objects as individual writes would. Yields regularly to other tasks.
async fn check_objects(
    admin: &Admin,
    import: &mut Import,
    prospect: &Contents,
    places: &HashMap<String, String>,
) {
    let mut problems = Vec::new();
    for (at, step) in import.steps.iter().enumerate() {
        let place = match places.get(&step.path) {
            Some(place) => format!("{} ({place})", step.path),
            None => step.path.clone(),
        };
        if let Some(reason) = many::kept_by(step, prospect) {
            problems.push((place.clone(), String::new(), Problem::error("", reason)));
        }
        if let Some(written) = &step.after {
            let candidate = many::candidate(admin, prospect, &step.path, &written.plain);
            let faults = validation::faults(step.resource, &candidate).into_iter();
            problems.extend(faults.map(|fault| {
                let problem = Problem {
                    hint: fault.hint.unwrap_or_default(),
                    ..Problem::error("", fault.text)
                };
                (place.clone(), fault.pointer, problem)
            }));
            if let Some(owner) = step.path.split_once("/credentials/").map(|(owner, _)| owner)
                && !prospect.exists(owner)
            {
                let text = format!("there is no {owner} whose credential it could be");
                problems.push((place, String::new(), Problem::error("", text)));
            }
        }
        if at % OBJECTS_PER_TURN == OBJECTS_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
    for (place, pointer, problem) in problems {
        import.add_problem(&place, &pointer, &problem);
    }
}

fn counts(plan: &Plan) -> Value {
    let count = |old: bool, new: bool| {
        let changes = plan.changes.iter();
        changes.filter(|it| it.old.is_some() == old && it.new.is_some() == new).count()
    };
    json!({
        "created": count(false, true),
        "replaced": count(true, true),
        "deleted": count(true, false),
        "unchanged": plan.unchanged,
        "left": plan.left,
    })
}

/// Returns the plan for display. Secrets are masked in old and new values.
fn plan_view(admin: &Admin, call: &Call, import: &Import) -> Result<Value, Reply> {
    // Masking encrypts with a random key: every value that this changes is a secret.
    let keyring = Keyring::generate().map_err(|error| Reply::unavailable(error.to_string()))?;
    let changes = import.plan.changes.iter().take(CHANGES_TOLD_MAX);
    let changes = changes.map(|change| change_view(admin, change, &keyring));
    let row = many::row(admin, call, &import.steps, None);
    let size = many::transaction(admin, call, &import.steps, &row);
    let mut value = counts(&import.plan);
    value["revision"] = import.revision.0.into();
    value["changes"] = changes.collect();
    value["more"] = import.plan.changes.len().saturating_sub(CHANGES_TOLD_MAX).into();
    value["problems"] = import.problems.clone().into();
    value["problem_count"] = import.problem_count.into();
    value["valid"] = (!import.is_refused && size.is_ok()).into();
    // The plan already reports that the import is too large for one commit, so that the user does
    // not learn it only from the import.
    value["too_large"] = size.err().map(|refusal| refusal.error_text()).into();
    value["can_be_undone"] = (!row.is_cut && !row.was_to_end).into();
    Ok(value)
}

fn change_view(admin: &Admin, change: &Change, keyring: &Keyring) -> Value {
    let side = |object: &Option<transfer::Object>| {
        object.as_ref().map_or(Value::Null, |object| {
            transfer::masked(change.kind, &object.value, &admin.parts.catalogue, keyring)
        })
    };
    let (before, after) = (side(&change.old), side(&change.new));
    let deed = match (&change.old, &change.new) {
        (None, _) => "create",
        (_, None) => "delete",
        _ => "replace",
    };
    let mut view = json!({
        "kind": if change.kind == Kind::Credential { "consumers" } else { change.kind.plural() },
        "id": change.id.as_str(),
        "deed": deed,
    });
    if deed == "replace" {
        let mut places = differences::between(&before, &after, DIFFERENCES_MAX);
        places.extend(hidden_changes(change, &places));
        view["differences"] = places.into();
    }
    view["before"] = before;
    view["after"] = after;
    view
}

/// Returns the differences in secrets, which the comparison of masked values does not show.
fn hidden_changes(change: &Change, shown: &[Value]) -> Vec<Value> {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return Vec::new() };
    let all = differences::between(&old.value, &new.value, DIFFERENCES_MAX);
    let is_shown = |place: &Value| shown.iter().any(|it| it["pointer"] == place["pointer"]);
    let hidden = all.into_iter().filter(|it| !is_shown(it));
    hidden.map(|it| json!({"pointer": it["pointer"], "before": "***", "after": "***"})).collect()
}
