//! Tests of costs.

use serde_json::json;

use super::*;

/// Schema of people, vehicles and films: types with their fields, each `name:result`.
fn schema() -> Schema {
    let types = [
        ("Query", "allPeople:PeopleConnection node:Node"),
        ("PeopleConnection", "people:Person"),
        ("Person", "name:String vehicles:VehicleConnection"),
        ("VehicleConnection", "vehicles:Vehicle"),
        ("Vehicle", "id:ID name:String cargo:Float films:FilmConnection"),
        ("FilmConnection", "films:Film"),
        ("Film", "title:String characters:CharacterConnection"),
        ("CharacterConnection", "characters:Person"),
        ("Node", "id:ID"),
    ];
    let types = types.map(|(name, fields)| {
        let fields = fields.split(' ').map(|field| {
            let (name, result) = field.split_once(':').unwrap();
            json!({"name": name, "type": {"name": result},
                "args": [{"name": "first", "defaultValue": if name == "films" { json!("7") } else { Value::Null }}]})
        });
        json!({"name": name, "fields": fields.collect::<Vec<_>>()})
    });
    Schema::read(&json!({"data": {"__schema": {"types": types}}})).unwrap()
}

fn weight(of: &str) -> Weight {
    let mut weight = Weight::default();
    for part in of.split(' ').filter(|part| !part.is_empty()) {
        match part.split_once('=').unwrap() {
            ("add", value) => weight.add = value.parse().ok(),
            ("mul", value) => weight.mul = value.parse().ok(),
            ("add_by", name) => weight.add_arguments = Some(vec![name.to_owned()]),
            (_, name) => weight.mul_arguments = Some(vec![name.to_owned()]),
        }
    }
    weight
}

fn weights(list: &[(&str, &str)]) -> Weights {
    Weights::new(list.iter().map(|(path, of)| (*path, weight(of))))
}

fn cost(query: &str, strategy: Strategy, list: &[(&str, &str)], variables: Value) -> f64 {
    let (weights, schema) = (weights(list), schema());
    let terms = Terms {
        strategy,
        weights: Some(&weights),
        schema: Some(&schema),
        variables: variables.as_object(),
        has_defaults: true,
    };
    Query::parse(query).unwrap().cost(None, terms).unwrap().unwrap()
}

const PEOPLE: &str = "{ allPeople(first: 20) { people { name vehicles(first: 10) { vehicles { id name cargo } } } } }";

#[test]
fn complexity_multiplies_selections_and_adds_the_field() {
    let by_first: &[_] = &[("Query.allPeople", "by=first"), ("Person.vehicles", "by=first")];
    let heavy: &[_] = &[
        ("Query.allPeople", "by=first mul=2 add=2"),
        ("Person.vehicles", "by=first add=5"),
        ("Vehicle.name", "add=8"),
    ];
    for (list, expected) in [(by_first, 862.0), (heavy, 4683.0), (&[], 9.0)] {
        assert_eq!(cost(PEOPLE, Strategy::Complexity, list, json!({})), expected, "{list:?}");
    }
}

#[test]
fn quantifiers_multiply_along_the_way() {
    let query =
        "{ allPeople(first: 100) { people { vehicles(first: 10) { vehicles { films(first: 5) {
        films { characters(first: 50) { characters { name } } } } } } } } }";
    let list = |vehicles| {
        [
            ("Query.allPeople", "by=first"),
            ("Person.vehicles", vehicles),
            ("Vehicle.films", "by=first"),
            ("Film.characters", "by=first"),
        ]
    };
    for (vehicles, expected) in [("by=first", 6101.0), ("by=first add=42", 10201.0)] {
        let found = cost(query, Strategy::NodeQuantifier, &list(vehicles), json!({}));
        assert_eq!(found, expected);
    }
    assert_eq!(
        cost("{ allPeople { people { name } } }", Strategy::NodeQuantifier, &list(""), json!({})),
        0.0
    );
}

#[test]
fn fragments_cost_what_they_contain_and_know_their_type() {
    let list = [("Query.allPeople", "by=first"), ("Person.name", "add=5"), ("Vehicle.id", "add=9")];
    for (query, expected) in [
        ("{ allPeople(first: 2) { people { ...f } } } fragment f on Person { name }", 14.0),
        ("{ allPeople(first: 2) { people { ...f ...f } } } fragment f on Person { name }", 24.0),
        ("{ allPeople(first: 2) { people { ... on Person { name } } } }", 14.0),
        ("{ node { id } }", 3.0),
        ("{ node { ... on Vehicle { id } } }", 11.0),
        ("{ node { ... on Unknown { id } } }", 3.0),
        ("{ node { ...f } } fragment f on Node { id ...f }", 3.0),
    ] {
        assert_eq!(cost(query, Strategy::Complexity, &list, json!({})), expected, "{query}");
    }
}

#[test]
fn a_longer_path_decides_and_a_type_weighs_all_fields_that_return_it() {
    let query = "{ allPeople { people { name } } }";
    for (list, expected) in [
        (&[("Person", "add=10")][..], 13.0),
        (&[("Query", "add=10")], 13.0),
        (&[("Person.name", "add=10"), ("Query.allPeople.people.name", "add=20")], 23.0),
        (&[("Person.name", "add=10 mul=3"), ("Query.allPeople.people.name", "mul=2")], 13.0),
        (&[("allPeople.people", "add=10")], 4.0),
        (&[("", "add=10")], 4.0),
    ] {
        assert_eq!(cost(query, Strategy::Complexity, list, json!({})), expected, "{list:?}");
    }
}

#[test]
fn only_numbers_that_can_be_quantities_count() {
    let list = [("Query.allPeople", "by=first"), ("Vehicle.films", "by=first")];
    for (arguments, declared, variables, expected) in [
        ("(first: 5)", "", json!({}), 7.0),
        ("(first: \"5\")", "", json!({}), 7.0),
        ("(first: \"ten\")", "", json!({}), 3.0),
        ("(first: -5)", "", json!({}), 3.0),
        ("(first: [5])", "", json!({}), 3.0),
        ("(first: $n)", "($n: Float)", json!({"n": "1e999"}), 3.0),
        ("(first: $n)", "($n: Int)", json!({"n": 5}), 7.0),
        ("(first: $n)", "($n: Int)", json!({"n": "x"}), 3.0),
        ("(first: $n)", "($n: Int)", json!({}), 3.0),
        ("(first: $n)", "($n: Int = 5)", json!({}), 7.0),
        ("(first: $n)", "($n: Int = 5)", json!({"n": 2}), 4.0),
        ("(first: $n)", "($n: Int = 5)", json!({"n": null}), 3.0),
    ] {
        let query = format!("query Q{declared} {{ allPeople{arguments} {{ people }} }}");
        let found = cost(&query, Strategy::Complexity, &list, variables.clone());
        assert_eq!(found, expected, "{query} {variables}");
    }
    // The default of the schema.
    let query = "{ node { ... on Vehicle { films { films } } } }";
    assert_eq!(cost(query, Strategy::Complexity, &list, json!({})), 10.0);
}

#[test]
fn no_arguments_make_a_cost_that_is_not_a_number() {
    let list = [("Query.allPeople", "by=first"), ("Query.allPeople.people", "by=first")];
    for (query, expected) in [
        ("{ allPeople(first: 1e308) { people(first: 1e308) { name } } }", COST_MAX),
        ("{ allPeople(first: 0) { people(first: 1e308) { name } } }", 2.0),
        ("{ allPeople(first: 1e308) { people(first: 0) { name } } }", COST_MAX),
    ] {
        assert_eq!(cost(query, Strategy::Complexity, &list, json!({})), expected, "{query}");
        assert!(cost(query, Strategy::NodeQuantifier, &list, json!({})).is_finite(), "{query}");
    }
}

#[test]
fn the_named_or_the_most_expensive_operation_counts() {
    let query = Query::parse("query A { a } query B { a b c }").unwrap();
    let terms = Terms {
        strategy: Strategy::Complexity,
        weights: None,
        schema: None,
        variables: None,
        has_defaults: false,
    };
    for (name, expected) in [(None, 4.0), (Some("A"), 2.0), (Some("X"), 4.0)] {
        assert_eq!(query.cost(name, terms), Ok(Some(expected)));
    }
    let none = Query::parse("fragment f on T { a }").unwrap();
    assert_eq!(none.cost(None, terms), Ok(None));
}

#[test]
fn fragments_that_double_each_other_are_refused() {
    let doubled = |count: u32| {
        let each = (0..count).map(|n| format!("fragment f{n} on T {{ ...f{0} ...f{0} }}", n + 1));
        format!("{{ ...f0 }} {} fragment f{count} on T {{ z }}", each.collect::<String>())
    };
    let chained = |count: u32| {
        let each = (0..count).map(|n| format!("fragment f{n} on T {{ ...f{} }}", n + 1));
        format!("{{ ...f0 }} {} fragment f{count} on T {{ z }}", each.collect::<String>())
    };
    for (text, expected) in [
        (doubled(10), Ok(Some(1025.0))),
        (doubled(40), Err(TooLarge)),
        (chained(200), Ok(Some(2.0))),
        (chained(5_000), Err(TooLarge)),
    ] {
        let terms = Terms {
            strategy: Strategy::Complexity,
            weights: None,
            schema: None,
            variables: None,
            has_defaults: false,
        };
        assert_eq!(Query::parse(&text).unwrap().cost(None, terms), expected);
    }
}
