//! Costs of queries by weights of fields, with the strategies of APISIX's `graphql-limit-count`.
//!
//! A weight belongs to a path in the schema: a type, or a type and a chain of fields from it. The walk
//! through a query therefore knows the type of each selection, and the paths that are still open.

use std::collections::{HashMap, HashSet};

use graphql_parser::query::{
    Definition, Field, OperationDefinition, Selection, SelectionSet, TypeCondition,
    Value as Literal, VariableDefinition,
};
use serde_json::{Map, Value};

use super::Query;
use super::schema::{Schema, SchemaField};

/// Selections of one query, with fragments expanded. Real queries have some hundreds; fragments that
/// double each other would reach any number.
const SELECTIONS_MAX: u32 = 100_000;

/// Selections and fragments within each other. The parser allows fifty fields; the rest is for
/// fragments.
const LEVELS_MAX: u32 = 256;

/// Largest cost and factor. Without it, products could reach infinity, and infinity times zero is not a
/// number, which would cost nothing.
const COST_MAX: f64 = 1e15;

/// Weights of the fields at a path. The cost of a field is that of its selections, times `mul`, plus
/// `add`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Weight {
    pub add: Option<f64>,
    pub mul: Option<f64>,
    /// Arguments whose values are added to `add`.
    pub add_arguments: Option<Vec<String>>,
    /// Arguments whose values are multiplied with `mul`.
    pub mul_arguments: Option<Vec<String>>,
}

/// Weights by their paths, as a tree of names; indexes refer to its nodes.
#[derive(Debug)]
pub(crate) struct Weights(Vec<Node>);

#[derive(Debug, Default)]
struct Node {
    children: HashMap<String, usize>,
    weight: Option<Weight>,
    depth: usize,
}

impl Weights {
    /// Returns the tree of paths such as `Query.products.nodes`. Of equal paths, the last counts.
    pub(crate) fn new<'p>(weights: impl IntoIterator<Item = (&'p str, Weight)>) -> Self {
        let mut nodes = vec![Node::default()];
        for (path, weight) in weights {
            let mut at = 0;
            for (index, name) in path.split('.').filter(|name| !name.is_empty()).enumerate() {
                at = match nodes[at].children.get(name) {
                    Some(child) => *child,
                    None => {
                        let child = nodes.len();
                        nodes.push(Node { depth: index + 1, ..Node::default() });
                        nodes[at].children.insert(name.to_owned(), child);
                        child
                    }
                };
            }
            if at > 0 {
                nodes[at].weight = Some(weight);
            }
        }
        Self(nodes)
    }

    fn child(&self, node: usize, name: &str) -> Option<usize> {
        self.0[node].children.get(name).copied()
    }

    /// Returns the open paths within a field: those that its name continues, and those that begin at
    /// its type.
    fn advance(&self, open: &[usize], result: Option<&str>, name: &str) -> Vec<usize> {
        let continued = open.iter().filter_map(|node| self.child(*node, name));
        continued.chain(result.and_then(|result| self.child(0, result))).collect()
    }

    /// Returns the weight at the open paths. Where several have one, the longest path decides each
    /// value.
    fn weight(&self, open: &[usize]) -> Option<Weight> {
        let mut found: Vec<&Node> = open.iter().map(|node| &self.0[*node]).collect();
        found.sort_by_key(|node| node.depth);
        found.into_iter().filter_map(|node| node.weight.clone()).reduce(|short, long| Weight {
            add: long.add.or(short.add),
            mul: long.mul.or(short.mul),
            add_arguments: long.add_arguments.or(short.add_arguments),
            mul_arguments: long.mul_arguments.or(short.mul_arguments),
        })
    }
}

/// Calculation of costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Each field costs its weight and, multiplied, its selections.
    Complexity,
    /// Only fields with a multiplying argument cost, each as often as it is resolved.
    NodeQuantifier,
}

/// Terms of a calculation besides the text of the query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'t> {
    pub strategy: Strategy,
    pub weights: Option<&'t Weights>,
    pub schema: Option<&'t Schema>,
    /// Values of variables; `None` if they do not count.
    pub variables: Option<&'t Map<String, Value>>,
    /// Whether defaults of variables and arguments count.
    pub has_defaults: bool,
}

/// A query has too many selections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

type Selections<'t> = SelectionSet<'t, &'t str>;

impl<'t> Query<'t> {
    /// Returns the cost of the operation with this name, or of the most expensive one if no
    /// operation has it; `None` if the document has no operation.
    ///
    /// # Errors
    /// If fragments expand the query too far.
    pub(crate) fn cost(
        &self,
        operation_name: Option<&str>,
        terms: Terms<'_>,
    ) -> Result<Option<f64>, TooLarge> {
        let definitions = &self.0.definitions;
        let fragments = definitions.iter().filter_map(|definition| match definition {
            Definition::Fragment(fragment) => Some((
                fragment.name,
                (type_name(Some(&fragment.type_condition)), &fragment.selection_set),
            )),
            Definition::Operation(_) => None,
        });
        let mut walk = Walk {
            terms,
            fragments: fragments.collect(),
            visiting: HashSet::new(),
            defaults: HashMap::new(),
            selections_left: SELECTIONS_MAX,
            levels_left: LEVELS_MAX,
        };
        let mut cost: Option<f64> = None;
        for operation in self.chosen(operation_name) {
            let of_one = walk.operation(operation)?;
            cost = Some(cost.map_or(of_one, |cost| cost.max(of_one)));
        }
        Ok(cost)
    }

    fn chosen(&self, operation_name: Option<&str>) -> Vec<&OperationDefinition<'t, &'t str>> {
        let operations = self.0.definitions.iter().filter_map(|definition| match definition {
            Definition::Operation(operation) => Some(operation),
            Definition::Fragment(_) => None,
        });
        let operations: Vec<_> = operations.collect();
        let named = operations.iter().find(|operation| {
            let (name, _) = super::named(operation);
            name.is_some() && name == operation_name
        });
        named.map_or_else(|| operations.clone(), |operation| vec![*operation])
    }
}

/// Walk through the selections of a document.
struct Walk<'d, 't, 'w> {
    terms: Terms<'w>,
    /// Fragments with their types.
    fragments: HashMap<&'t str, (Option<&'t str>, &'d Selections<'t>)>,
    /// Fragments that are being entered; one within itself costs nothing.
    visiting: HashSet<&'t str>,
    /// Defaults of the operation's variables.
    defaults: HashMap<&'t str, &'d Literal<'t, &'t str>>,
    selections_left: u32,
    levels_left: u32,
}

/// Place of a selection set.
#[derive(Clone, Copy)]
struct Place<'p> {
    /// Type whose fields are selected, if the schema is known.
    of_type: Option<&'p str>,
    /// Paths of weights that are open here.
    open: &'p [usize],
    /// Number of times that the set is resolved.
    times: f64,
}

impl<'d, 't> Walk<'d, 't, '_> {
    fn operation(
        &mut self,
        operation: &'d OperationDefinition<'t, &'t str>,
    ) -> Result<f64, TooLarge> {
        let (is_mutation, variables): (_, &'d [VariableDefinition<'t, &'t str>]) = match operation {
            OperationDefinition::SelectionSet(_) => (false, &[]),
            OperationDefinition::Query(query) => (false, &query.variable_definitions),
            OperationDefinition::Mutation(mutation) => (true, &mutation.variable_definitions),
            OperationDefinition::Subscription(it) => (false, &it.variable_definitions),
        };
        let defaults = variables.iter().filter(|_| self.terms.has_defaults);
        let defaults = defaults.filter_map(|it| Some((it.name, it.default_value.as_ref()?)));
        self.defaults = defaults.collect();
        let schema = self.terms.schema;
        let of_type = schema
            .map(|schema| if is_mutation { &*schema.mutation_type } else { &*schema.query_type });
        let open = self.terms.weights.map(|weights| weights.advance(&[], of_type, ""));
        let open = open.unwrap_or_default();
        let weight = self.terms.weights.and_then(|weights| weights.weight(&open));
        let (_, selections) = super::named(operation);
        let inner = self.selections(selections, Place { of_type, open: &open, times: 1.0 })?;
        let weight = weight.unwrap_or_default();
        Ok(match self.terms.strategy {
            Strategy::Complexity => {
                bounded(inner * weight.mul.unwrap_or(1.0) + weight.add.unwrap_or(1.0))
            }
            Strategy::NodeQuantifier => inner,
        })
    }

    /// Returns the costs of all fields of a selection set.
    fn selections(
        &mut self,
        selections: &'d Selections<'t>,
        place: Place<'_>,
    ) -> Result<f64, TooLarge> {
        self.levels_left = self.levels_left.checked_sub(1).ok_or(TooLarge)?;
        let mut cost: f64 = 0.0;
        for selection in &selections.items {
            self.selections_left = self.selections_left.checked_sub(1).ok_or(TooLarge)?;
            cost += match selection {
                Selection::Field(field) => self.field(field, place)?,
                Selection::InlineFragment(fragment) => {
                    let condition = type_name(fragment.type_condition.as_ref());
                    self.fragment(condition, &fragment.selection_set, place)?
                }
                Selection::FragmentSpread(spread) => {
                    let name = spread.fragment_name;
                    match self.fragments.get(name).copied() {
                        Some((condition, selections)) if self.visiting.insert(name) => {
                            let cost = self.fragment(condition, selections, place)?;
                            self.visiting.remove(name);
                            cost
                        }
                        _ => 0.0,
                    }
                }
            };
        }
        self.levels_left += 1;
        Ok(bounded(cost))
    }

    /// Returns the costs of the fields of a fragment, which belong to its type if the schema has it.
    fn fragment(
        &mut self,
        condition: Option<&'t str>,
        selections: &'d Selections<'t>,
        place: Place<'_>,
    ) -> Result<f64, TooLarge> {
        let known = condition.filter(|name| self.terms.schema.is_some_and(|it| it.has_type(name)));
        let Some(of_type) = known.filter(|name| Some(*name) != place.of_type) else {
            return self.selections(selections, place);
        };
        let seed = self.terms.weights.and_then(|weights| weights.child(0, of_type));
        let open: Vec<usize> = seed.into_iter().chain(place.open.iter().copied()).collect();
        self.selections(selections, Place { of_type: Some(of_type), open: &open, ..place })
    }

    fn field(&mut self, field: &'d Field<'t, &'t str>, place: Place<'_>) -> Result<f64, TooLarge> {
        let Terms { strategy, weights, schema, .. } = self.terms;
        let known =
            schema.zip(place.of_type).and_then(|(it, of_type)| it.field(of_type, field.name));
        let of_type = known.and_then(|known| known.result.as_deref());
        let open = weights.filter(|_| place.of_type.is_some());
        let open = open.map(|weights| weights.advance(place.open, of_type, field.name));
        let open = open.unwrap_or_default();
        let weight = weights.and_then(|weights| weights.weight(&open)).unwrap_or_default();
        let quantity = |name: &String| self.quantity(field, name, known);
        let added = weight.add_arguments.iter().flatten().filter_map(quantity).sum::<f64>();
        let add = bounded(weight.add.unwrap_or(1.0) + added);
        let factors: Vec<f64> =
            weight.mul_arguments.iter().flatten().filter_map(quantity).collect();
        let mul = weight.mul.unwrap_or(1.0);
        let mul = factors.iter().fold(bounded(mul), |mul, factor| bounded(mul * factor));
        let counts = strategy == Strategy::NodeQuantifier && !factors.is_empty();
        let times = if counts { bounded(place.times * mul) } else { place.times };
        let within = Place { of_type, open: &open, times };
        let inner = self.selections(&field.selection_set, within)?;
        Ok(match strategy {
            Strategy::Complexity => bounded(inner * mul + add),
            Strategy::NodeQuantifier if counts => bounded(place.times * add + inner),
            Strategy::NodeQuantifier => inner,
        })
    }

    /// Returns the value of an argument, if it can be a quantity: a finite number that is not
    /// negative. A negative one would be a discount.
    fn quantity(
        &self,
        field: &Field<'t, &'t str>,
        name: &str,
        known: Option<&SchemaField>,
    ) -> Option<f64> {
        let given = field.arguments.iter().find(|(other, _)| *other == name);
        let given = match given.map(|(_, literal)| literal) {
            Some(Literal::Variable(variable)) => self.variable(variable),
            Some(literal) => number(literal),
            None => None,
        };
        let default = || {
            let known = known.filter(|_| self.terms.has_defaults)?;
            Some(number_in(known.defaults.get(name)?))
        };
        let quantity = given.or_else(default)?;
        quantity.filter(|number| number.is_finite() && *number >= 0.0).map(bounded)
    }

    /// Returns the value of a variable: `None` if it has none, `Some(None)` if it is not a number.
    fn variable(&self, name: &str) -> Option<Option<f64>> {
        if let Some(value) = self.terms.variables.and_then(|variables| variables.get(name)) {
            return Some(match value {
                Value::Number(number) => number.as_f64(),
                Value::String(text) => number_in(text),
                _ => None,
            });
        }
        self.defaults.get(name).and_then(|literal| number(literal))
    }
}

fn bounded(cost: f64) -> f64 {
    cost.min(COST_MAX)
}

/// Returns the number of a literal: `None` for lists and objects, which count as missing, and
/// `Some(None)` for texts and names that are not numbers.
fn number<'t>(literal: &Literal<'t, &'t str>) -> Option<Option<f64>> {
    match literal {
        Literal::Int(number) => Some(number.as_i64().map(|number| number as f64)),
        Literal::Float(number) => Some(Some(*number)),
        Literal::String(text) => Some(number_in(text)),
        Literal::Boolean(_) | Literal::Enum(_) => Some(None),
        Literal::Null | Literal::Variable(_) | Literal::List(_) | Literal::Object(_) => None,
    }
}

fn number_in(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

fn type_name<'t>(condition: Option<&TypeCondition<'t, &'t str>>) -> Option<&'t str> {
    condition.map(|TypeCondition::On(name)| *name)
}

#[cfg(test)]
mod tests;
