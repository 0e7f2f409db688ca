//! Shared texts: popular as asked for, the same whenever they come, and never promised to be unique.

use std::collections::BTreeMap;

use foretoken_des_kernel::RngStreams;
use foretoken_workload::{ContentId, Request, Segment, Workload, WorkloadSpec};

use crate::mixes::{drain, load};
use crate::statistics::assert_shares;

const GROUPS: &str = r#", "system-prompt-tokens": 7, "prefix": {"groups": {
    "groups": 20, "tokens": {"uniform": {"min": 50, "max": 500}},
    "popularity": {"zipf": {"exponent": 1.1}}}}"#;
const TREE: &str = r#", "prefix": {"tree": {"levels": [
    {"branches": 3, "tokens": {"uniform": {"min": 50, "max": 500}},
     "popularity": {"weights": {"weights": [1, 2, 3]}}},
    {"branches": 4, "tokens": {"exponential": {"mean": 100}},
     "popularity": {"zipf": {"exponent": 1}}},
    {"branches": 2, "tokens": {"constant": {"tokens": 30}}}]}}"#;

fn documents(more: &str) -> String {
    format!(
        r#", "prefix": {{"documents": {{"documents": 12, "per-request": 4,
            "tokens": {{"uniform": {{"min": 50, "max": 500}}}} {more}}}}}"#
    )
}

/// The shared texts of a request, in order.
fn shared(request: &Request) -> &[Segment] {
    let segments = request.prompt.segments();
    &segments[..segments.len() - 1]
}

/// How often each text is the one that `pick` picks, in the order of their numbers.
fn counts(requests: &[Request], pick: impl Fn(&[Segment]) -> Segment) -> Vec<u64> {
    let mut counts = BTreeMap::<ContentId, u64>::new();
    for request in requests {
        *counts.entry(pick(shared(request)).content).or_default() += 1;
    }
    counts.into_values().collect()
}

#[test]
fn groups_have_their_popularity() {
    let requests = drain(&load(20_000, GROUPS));
    let weights: Vec<_> = (1..=20).map(|k| libm::pow(f64::from(k), -1.1)).collect();
    assert!(requests.iter().all(|r| shared(r)[0].len == 7));
    assert_shares("groups", &counts(&requests, |texts| texts[1]), &weights);
}

#[test]
fn paths_of_a_tree_have_the_products_of_their_popularities() {
    let requests = drain(&load(20_000, TREE));
    let mut weights = Vec::new();
    for first in 1..=3 {
        for second in 1..=4 {
            weights.extend([f64::from(first) / f64::from(second); 2]);
        }
    }
    assert_shares("leaves", &counts(&requests, |texts| texts[2]), &weights);
    let mut parents = BTreeMap::new();
    for request in &requests {
        for pair in shared(request).windows(2) {
            let parent = parents.entry(pair[1].content).or_insert(pair[0].content);
            assert_eq!(*parent, pair[0].content, "a text has one place in a tree");
        }
    }
    assert_eq!(parents.len(), 3 * 4 + 3 * 4 * 2);
}

#[test]
fn documents_are_different_and_come_in_their_order() {
    let zipf = r#", "popularity": {"zipf": {"exponent": 1}}"#;
    let requests = drain(&load(5_000, &documents(zipf)));
    for request in &requests {
        assert_eq!(shared(request).len(), 4);
        assert!(shared(request).is_sorted_by(|a, b| a.content < b.content));
    }
    let random = format!(r#"{zipf}, "order": "random""#);
    let requests = drain(&load(20_000, &documents(&random)));
    let ups = |request: &Request| {
        let pairs = shared(request).windows(2);
        pairs
            .filter(|pair| pair[0].content < pair[1].content)
            .count()
    };
    let mut rises = [0; 4];
    for request in &requests {
        rises[ups(request)] += 1;
    }
    // Permutations of four by their rises: Euler's numbers.
    assert_shares("orders", &rises, &[1.0, 11.0, 11.0, 1.0]);
}

#[test]
fn documents_are_drawn_by_popularity_without_repetition() {
    let all_alike = drain(&load(12_000, &documents(r#", "order": "random""#)));
    let first = counts(&all_alike, |texts| texts[0]);
    assert_shares("first documents", &first, &[1.0; 12]);
    // Two of three with weights a, b, c without repetition: c is left out with probability
    // a/(1-a) · b + b/(1-b) · a, and so on.
    let two = r#", "prefix": {"documents": {"documents": 3, "per-request": 2,
        "tokens": {"constant": {"tokens": 5}},
        "popularity": {"weights": {"weights": [0.6, 0.3, 0.1]}}}}"#;
    let requests = drain(&load(12_000, two));
    let left_out = |request: &Request| {
        let numbers: Vec<_> = shared(request)
            .iter()
            .map(|s| s.content.get() & 3)
            .collect();
        (0..3)
            .find(|number| !numbers.contains(number))
            .expect("one of three")
    };
    let mut seen = [0; 3];
    for request in &requests {
        seen[usize::try_from(left_out(request)).expect("small")] += 1;
    }
    let pair = |a: f64, b: f64| a * b / (1.0 - a) + b * a / (1.0 - b);
    assert_shares(
        "left out",
        &seen,
        &[pair(0.3, 0.1), pair(0.6, 0.1), pair(0.6, 0.3)],
    );
}

#[test]
fn all_documents_can_be_asked_for_however_unpopular() {
    let all = r#", "prefix": {"documents": {"documents": 50, "per-request": 50,
        "tokens": {"constant": {"tokens": 5}}, "popularity": {"zipf": {"exponent": 9}}}}"#;
    assert!(drain(&load(3, all)).iter().all(|r| shared(r).len() == 50));
}

#[test]
fn a_text_is_as_long_whenever_it_comes() {
    for more in [GROUPS, TREE, &documents("")] {
        let mut lengths = BTreeMap::new();
        for request in drain(&load(2_000, more)) {
            for text in shared(&request) {
                assert_eq!(*lengths.entry(text.content).or_insert(text.len), text.len);
            }
        }
        let varied: std::collections::BTreeSet<_> = lengths.values().collect();
        assert!(varied.len() > 5, "{more}");
    }
}

/// Tokens that two requests of different texts have in common from the first on.
fn common(left: &Request, right: &Request) -> u32 {
    let pairs = left.prompt.segments().iter().zip(right.prompt.segments());
    let mut tokens = 0;
    for (a, b) in pairs {
        if a.content != b.content {
            break;
        }
        tokens += a.len.min(b.len);
        if a.len != b.len {
            break;
        }
    }
    tokens
}

#[test]
fn nothing_is_repeated_that_was_promised_not_to_be() {
    let part = |more: &str| WorkloadSpec::from(load(100, more));
    let clients = r#"{"clients": {"rates": {"zipf": {"clients": 9, "total-rate-rps": 10,
        "exponent": 1}}, "requests": 100, "system-prompt-tokens": {"exponential": {"mean": 90}},
        "prompt-tokens": {"exponential": {"mean": 90}},
        "output-tokens": {"exponential": {"mean": 90}}}}"#;
    let clients: WorkloadSpec = serde_json::from_str(clients).expect("clients");
    let random = documents(r#", "order": "random""#);
    let parts = vec![
        part(GROUPS),
        part(TREE),
        part(&random),
        clients.clone(),
        clients,
    ];
    let mix = WorkloadSpec::Mix(parts);
    let mut load = mix.build(&RngStreams::new(1, 0)).expect("a valid mix");
    let requests: Vec<_> = core::iter::from_fn(|| load.next()).collect();
    let mut shared = 0;
    for request in &requests {
        assert!(request.repeatable_tokens() < request.prompt.tokens());
        for other in requests.iter().filter(|other| other.id != request.id) {
            let common = common(request, other);
            assert!(common <= request.repeatable_tokens());
            shared += u32::from(common > 0 && common == request.repeatable_tokens());
        }
    }
    assert!(shared > 1_000, "much is shared: {shared}");
}

#[test]
fn a_document_without_weight_never_comes() {
    // The fourth is so rare that it is not drawn, and taken since two are wanted.
    let more = r#", "prefix": {"documents": {"documents": 4, "per-request": 2,
        "tokens": {"constant": {"tokens": 5}},
        "popularity": {"weights": {"weights": [0, 0, 1, 1e-9]}}}}"#;
    let texts = |request: &Request| shared(request).to_vec();
    let all = drain(&load(50, &more.replace("[0, 0, 1, 1e-9]", "[1, 1, 1, 1]")));
    let mut known: Vec<_> = all.iter().flat_map(texts).map(|it| it.content).collect();
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), 4);
    for request in &drain(&load(50, more)) {
        let seen: Vec<_> = texts(request).iter().map(|it| it.content).collect();
        assert_eq!(seen, known[2..]);
    }
}

#[test]
fn wrong_prefixes_are_refused_by_the_path_to_the_field() {
    for (more, message) in [
        (
            r#"{"groups": {"groups": 0, "tokens": {"constant": {"tokens": 5}}}}"#,
            "prefix.groups.groups is 0",
        ),
        (
            r#"{"groups": {"groups": 2, "tokens": {"constant": {"tokens": 0}}}}"#,
            "prefix.groups.tokens.tokens is 0",
        ),
        (
            r#"{"tree": {"levels": []}}"#,
            "prefix.tree.levels is missing",
        ),
        (
            r#"{"tree": {"levels": [{"branches": 4000000000, "tokens": {"constant": {"tokens": 5}}},
                {"branches": 4000000000, "tokens": {"constant": {"tokens": 5}}}]}}"#,
            "prefix.tree.levels is 16000000004000000000: allowed is at most 2^38",
        ),
        (
            r#"{"documents": {"documents": 3, "per-request": 4, "tokens": {"constant": {"tokens": 5}}}}"#,
            "prefix.documents.per-request is 4",
        ),
        (
            r#"{"documents": {"documents": 3, "per-request": 2, "tokens": {"constant": {"tokens": 5}},
                "popularity": {"weights": {"weights": [1, 0, 0]}}}}"#,
            "prefix.documents.per-request is 2",
        ),
    ] {
        let spec = load(1, &format!(r#", "prefix": {more}"#));
        let error = spec
            .build(&RngStreams::new(1, 0))
            .expect_err(more)
            .to_string();
        assert!(error.contains(message), "{error}");
    }
}
