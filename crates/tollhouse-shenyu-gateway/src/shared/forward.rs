//! Rule of a proxy that sends requests to nodes as they are: of `divide`, `websocket` and
//! `springCloud`.

use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::matching::RpcType;

use crate::error::BuildError;
use crate::place::Place;
use crate::plugin::{Compiled, Prediction, Preview, Run, Verdict};
use crate::resources::Resources;
use crate::shared::nodes::DivideRule;
use crate::target::Nodes;

/// Compiles a rule, and creates its target for the nodes of its selector. Without nodes, requests
/// are refused.
pub(crate) fn compile(
    place: &Place<'_>,
    carries: RpcType,
    rule: DivideRule,
    resources: &mut Resources<'_>,
) -> Result<Compiled<DivideRule>, BuildError> {
    let nodes = place.nodes()?;
    if nodes.is_empty() {
        return Ok(Compiled::Refuse(Answer::NoHealthyUpstream));
    }
    resources.add_target(place, carries, &rule, &Nodes::Listed(nodes))?;
    Ok(rule.into())
}

/// Sends a request to a node, if its size is within the limits.
pub(crate) fn forward<'o>(rule: &DivideRule, run: &mut Run<'_, '_>) -> Verdict<'o> {
    rule.limit_size(run.cx).map_or(Verdict::Node, Verdict::Refused)
}

/// Predicts the outcome of [`forward`].
pub(crate) fn explain(rule: &DivideRule, preview: &Preview<'_>) -> Prediction {
    match rule.refuse_size(preview.exchange) {
        Some(answer) => Prediction::Refused(answer),
        None => Prediction::Node(preview.turn.node_uri()),
    }
}
