//! Documents of GraphQL: parsing, and the depth of their selections.

use std::collections::{HashMap, HashSet};

pub(crate) mod cost;
pub(crate) mod schema;

use graphql_parser::query::{Definition, Document, OperationDefinition, Selection, SelectionSet};

/// Parsed document that belongs to its text.
pub(crate) struct Query<'t>(Document<'t, &'t str>);

/// Why a document has no depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoDepth {
    /// The document has no operation.
    Empty,
    /// Fragments contain each other.
    Cycle,
}

impl<'t> Query<'t> {
    /// Parses a document. Selections within more than 50 others are refused.
    ///
    /// # Errors
    /// The reason, with line and column.
    pub(crate) fn parse(text: &'t str) -> Result<Self, String> {
        let parsed = graphql_parser::parse_query::<&str>(text);
        parsed.map(Self).map_err(|error| error.to_string().trim().replace('\n', ", "))
    }

    /// Returns the number of operations and fragments.
    pub(crate) fn definitions(&self) -> usize {
        self.0.definitions.len()
    }

    /// Whether all operations are queries.
    pub(crate) fn only_queries(&self) -> bool {
        self.0.definitions.iter().all(|definition| match definition {
            Definition::Fragment(_) => true,
            Definition::Operation(operation) => match operation {
                OperationDefinition::SelectionSet(_) | OperationDefinition::Query(_) => true,
                OperationDefinition::Mutation(_) | OperationDefinition::Subscription(_) => false,
            },
        })
    }

    /// Returns the largest number of selections within each other: of the operation with this name,
    /// or of all operations if no operation has it. Fragments count where they are used.
    pub(crate) fn depth(&self, operation_name: Option<&str>) -> Result<u64, NoDepth> {
        let mut operations = Vec::new();
        let mut fragments = HashMap::new();
        for definition in &self.0.definitions {
            match definition {
                Definition::Operation(operation) => operations.push(named(operation)),
                Definition::Fragment(fragment) => {
                    fragments.insert(fragment.name, &fragment.selection_set);
                }
            }
        }
        if operations.is_empty() {
            return Err(NoDepth::Empty);
        }
        let chosen = operations
            .iter()
            .find(|(name, _)| operations.len() > 1 && name.is_some() && *name == operation_name);
        let chosen: Vec<_> = match chosen {
            Some(operation) => vec![*operation],
            None => operations,
        };
        let mut depths = Depths { fragments, path: HashSet::new(), known: HashMap::new() };
        let mut depth = 1;
        for (_, selections) in chosen {
            depth = depth.max(1 + depths.depth_below(selections)?);
        }
        Ok(depth)
    }
}

fn named<'d, 't>(
    operation: &'d OperationDefinition<'t, &'t str>,
) -> (Option<&'t str>, &'d SelectionSet<'t, &'t str>) {
    match operation {
        OperationDefinition::SelectionSet(selections) => (None, selections),
        OperationDefinition::Query(query) => (query.name, &query.selection_set),
        OperationDefinition::Mutation(mutation) => (mutation.name, &mutation.selection_set),
        OperationDefinition::Subscription(it) => (it.name, &it.selection_set),
    }
}

/// Depths of fragments; each is computed once, so that the work is linear.
struct Depths<'d, 't> {
    fragments: HashMap<&'t str, &'d SelectionSet<'t, &'t str>>,
    /// Fragments that are being entered.
    path: HashSet<&'t str>,
    known: HashMap<&'t str, u64>,
}

/// Selection set that is being measured.
struct Level<'d, 't> {
    rest: std::slice::Iter<'d, Selection<'t, &'t str>>,
    /// Largest depth found so far.
    depth: u64,
    /// Depth that the set adds to the one around it.
    added: u64,
    /// Name, if the set belongs to a fragment.
    fragment: Option<&'t str>,
}

impl<'d, 't> Level<'d, 't> {
    fn new(
        selections: &'d SelectionSet<'t, &'t str>,
        added: u64,
        fragment: Option<&'t str>,
    ) -> Self {
        Self { rest: selections.items.iter(), depth: 0, added, fragment }
    }
}

impl<'d, 't> Depths<'d, 't> {
    /// Returns the depth below the fields of a selection. The levels are a list and no recursion,
    /// because a client chooses how many fragments contain each other.
    fn depth_below(&mut self, selections: &'d SelectionSet<'t, &'t str>) -> Result<u64, NoDepth> {
        let mut levels = vec![Level::new(selections, 0, None)];
        loop {
            let level = levels.last_mut().expect("the first level returns");
            if let Some(selection) = level.rest.next() {
                match selection {
                    Selection::Field(field) if field.selection_set.items.is_empty() => {}
                    Selection::Field(field) => {
                        levels.push(Level::new(&field.selection_set, 1, None));
                    }
                    Selection::InlineFragment(fragment) => {
                        levels.push(Level::new(&fragment.selection_set, 0, None));
                    }
                    Selection::FragmentSpread(spread) => {
                        let name = spread.fragment_name;
                        if let Some(depth) = self.known.get(name) {
                            level.depth = level.depth.max(*depth);
                        } else if let Some(selections) = self.fragments.get(name).copied() {
                            if !self.path.insert(name) {
                                return Err(NoDepth::Cycle);
                            }
                            levels.push(Level::new(selections, 0, Some(name)));
                        }
                    }
                }
                continue;
            }
            let (depth, added, fragment) = (level.depth, level.added, level.fragment);
            levels.pop();
            if let Some(name) = fragment {
                self.path.remove(name);
                self.known.insert(name, depth);
            }
            match levels.last_mut() {
                Some(around) => around.depth = around.depth.max(depth + added),
                None => return Ok(depth),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_selections_within_each_other() {
        for (text, name, expected) in [
            ("{a}", None, Ok(1)),
            ("query { a { b { c } d } }", None, Ok(3)),
            ("{ a { ...f } } fragment f on T { b { c } }", None, Ok(3)),
            ("{ a { ... on T { b } } }", None, Ok(2)),
            ("query A { a } query B { a { b } }", None, Ok(2)),
            ("query A { a } query B { a { b } }", Some("A"), Ok(1)),
            ("query A { a { b } }", Some("X"), Ok(2)),
            (
                "{ ...f } fragment f on T { ...g } fragment g on T { ...f }",
                None,
                Err(NoDepth::Cycle),
            ),
            ("fragment f on T { a }", None, Err(NoDepth::Empty)),
            ("{ a(x: {y: {z: 1}}) }", None, Ok(1)),
        ] {
            assert_eq!(Query::parse(text).unwrap().depth(name), expected, "{text}");
        }
        assert!(Query::parse("query {").is_err());
        let deep = format!("{}a{}", "{a".repeat(2_000), "}".repeat(2_000));
        assert!(Query::parse(&deep).is_err());
    }

    #[test]
    fn fragments_that_double_each_other_are_measured_once() {
        let mut text = String::from("{ ...f0 }");
        for number in 0..2_000 {
            let next = number + 1;
            text.push_str(&format!(
                "fragment f{number} on T {{ ...f{next} x {{ y }} ...f{next} }}"
            ));
        }
        text.push_str("fragment f2000 on T { z }");
        assert_eq!(Query::parse(&text).unwrap().depth(None), Ok(2));
    }

    #[test]
    fn a_long_chain_of_deep_fragments_is_measured_without_a_deep_stack() {
        const FRAGMENTS: u64 = 3_000;
        let mut text = String::from("{ ...f0 }");
        for number in 0..FRAGMENTS {
            let next = format!("...f{}", number + 1);
            let (open, close) = ("{a".repeat(45), "}".repeat(45));
            text.push_str(&format!("fragment f{number} on T {open}{{ {next} }}{close}"));
        }
        text.push_str(&format!("fragment f{FRAGMENTS} on T {{ z }}"));
        let measured = std::thread::Builder::new()
            .stack_size(2 << 20)
            .spawn(move || Query::parse(&text).unwrap().depth(None));
        let depth = measured.expect("a thread").join().expect("no overflow");
        assert_eq!(depth, Ok(1 + 45 * FRAGMENTS));
    }
}
