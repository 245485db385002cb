//! Of a few lines of source: which mutants there are, and what the copy looks like.

use super::rewrite::{Mutant, blamed, rewritten};
use super::sites::sites;

/// Line, kind, what is replaced and by what.
fn listed(source: &str) -> Vec<String> {
    let sites = sites(source).unwrap();
    let line = |site: &super::sites::Site| {
        let is = &source[site.range.clone()];
        format!(
            "{} {}: {is} -> {}",
            site.line,
            site.kind.name(),
            site.replacement
        )
    };
    sites.iter().map(line).collect()
}

fn mutants(source: &str) -> Vec<Mutant> {
    let sites = sites(source).unwrap().into_iter();
    let mutant = |(number, site)| Mutant {
        number,
        file: "a.rs".into(),
        site,
    };
    (1..).zip(sites).map(mutant).collect()
}

#[test]
fn an_operator_and_a_bound_are_changed() {
    assert_eq!(
        listed("fn f(a: u32, b: u32) -> bool {\n    a + b < 8\n}"),
        [
            "2 arithmetic: a + b -> (a) - (b)",
            "2 comparison: a + b < 8 -> (a + b) <= (8)",
            "2 bound: 8 -> (8) + 1",
            "2 bound: 8 -> (8) - 1",
            "2 constant: 8 -> (8 + 1)",
            "2 constant: 8 -> (8 - 1)",
        ]
    );
}

#[test]
fn synchronisation_stores_and_resets_are_dropped() {
    let source = "fn f() {\n    thread::sync_threads();\n    ring.wait::<1>();\n    y.store(at, x);\n    sum = none;\n    let z = f();\n}";
    let listed = listed(source);
    for expected in [
        "2 synchronisation: thread::sync_threads(); -> ",
        "3 synchronisation: ring.wait::<1>(); -> ",
        "3 wait: ring.wait::<1>() -> ring.wait::<2>()",
        "4 store: y.store(at, x); -> ",
        "4 argument: at, x -> x, at",
        "4 index: at -> (at) + 1",
        "5 reset: sum = none; -> ",
    ] {
        assert!(
            listed.iter().any(|site| site == expected),
            "{expected}: {listed:#?}"
        );
    }
    assert!(!listed.iter().any(|site| site.starts_with('6')));
}

#[test]
fn axes_and_parities_are_exchanged() {
    let listed = listed("fn f() { g(conv.stride_h, x[0], turn.parity ^ 1) }");
    for expected in [
        "1 axis: conv.stride_h -> conv.stride_w",
        "1 axis: conv.stride_h -> conv.dilation_h",
        "1 axis: x[0] -> x[1]",
        "1 parity: turn.parity ^ 1 -> (turn.parity)",
    ] {
        assert!(
            listed.iter().any(|site| site == expected),
            "{expected}: {listed:#?}"
        );
    }
}

#[test]
fn what_is_known_when_it_is_compiled_and_what_only_devices_have_is_left_alone() {
    let source = "const A: u32 = 1 + 2; static B: [u32; 3] = [1; 3];
        #[cfg(test)] mod tests { fn f() -> u32 { 1 + 2 } }
        #[cfg(target_arch = \"nvptx64\")] fn f() -> u32 { 1 + 2 }
        fn g() { let x: [u32; 4] = h::<{ 2 + 2 }>(); const { 1 + 1 }; assert!(x < 5); match x { 3 => {} _ => {} } }";
    assert_eq!(listed(source), [""; 0]);
}

#[test]
fn macros_are_read_where_they_are_given_sources_and_where_they_become_some() {
    let source = "macro_rules! m {\n    ($($T:ident, $n:literal;)*) => {$(\n        impl A for $T { fn f() -> u32 { g::<$n>(x - y) } }\n    )*};\n}\nfn f() { unroll!(4, |i| { h(a[i] * b); }); }";
    assert_eq!(
        listed(source),
        [
            "3 arithmetic: x - y -> (x) + (y)",
            "6 arithmetic: a[i] * b -> (a[i]) + (b)"
        ]
    );
}

#[test]
fn the_copy_has_the_parts_of_what_is_right_changed_as_well() {
    let source = "fn f() { a + b - e }";
    let mutants = mutants(source);
    let text = rewritten(source, &mutants.iter().collect::<Vec<_>>());
    let marked = "fn f() { (/*[2*/if ::mutants::active(2) { /*<2*/(a + b) + (e)/*2>*/ } else { \
         (/*[1*/if ::mutants::active(1) { /*<1*/(a) - (b)/*1>*/ } else { a + b })/*1]*/ - e })/*2]*/ }";
    assert_eq!(text, marked);
    // As the compiler would name them: a place in the first one's text, and one in what is right.
    let of = |what: &str| {
        let start = text.find(what).unwrap();
        std::iter::once(start..start + what.len()).collect::<Vec<_>>()
    };
    let all: Vec<&Mutant> = mutants.iter().collect();
    assert_eq!(blamed(&text, &all, &of("(a) - (b)")), [1]);
    assert_eq!(blamed(&text, &all, &of("- e")), [2]);
    assert!(blamed(&text, &all, &of("fn f")).is_empty());
}

#[test]
fn a_statement_is_dropped_where_its_mutant_is_active() {
    let source = "fn f() { sync(); }";
    let mutants = mutants(source);
    let text = rewritten(source, &mutants.iter().collect::<Vec<_>>());
    assert_eq!(
        text,
        "fn f() { /*[1*/if ::mutants::active(1) { /*<1*//*1>*/ } else { sync(); }/*1]*/ }"
    );
}

#[test]
fn a_sample_is_the_beginning_of_a_larger_one_and_has_all_kinds() {
    let source = "fn f() { a + b + c + d + e < g; sync(); }";
    let drawn = |seed| -> Vec<u32> {
        let drawn = super::sample::drawn(mutants(source), seed);
        drawn.iter().map(|mutant| mutant.number).collect()
    };
    let kinds = super::sample::drawn(mutants(source), 5);
    let first: std::collections::BTreeSet<_> =
        kinds.iter().take(4).map(|one| one.site.kind).collect();
    assert_eq!(first.len(), 4);
    assert_eq!(drawn(5), drawn(5));
    assert!((0..20).any(|seed| drawn(seed) != drawn(5)));
    let mut sorted = drawn(5);
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        (1..=mutants(source).len() as u32).collect::<Vec<_>>()
    );
}

#[test]
fn those_that_are_asked_for_are_built_with_the_sample() {
    let all = || mutants("fn f() { a + b + e + f; g < i; sync(); }");
    let of = |sample: usize, skip: usize, only: &[u32]| {
        let only = only.to_vec();
        let json = "report.json".into();
        let arguments = super::Arguments {
            sample,
            skip,
            seed: 3,
            only,
            list: false,
            pack: None,
            packed: None,
            jobs: None,
            json,
        };
        let (candidates, wanted) = super::candidates(all(), &arguments);
        let numbers: Vec<u32> = candidates.iter().map(|one| one.number).collect();
        (numbers, wanted)
    };
    let drawn: Vec<u32> = super::sample::drawn(all(), 3)
        .iter()
        .map(|one| one.number)
        .collect();
    assert_eq!(of(2, 0, &[]), (drawn.clone(), 2));
    assert_eq!(of(4, 1, &[]), (drawn[1..].to_vec(), 3));
    // In the sample already, behind it, and before what is left out.
    assert_eq!(of(2, 0, &drawn[..1]), (drawn.clone(), 2));
    let mut last_first = vec![drawn[3]];
    last_first.extend(drawn.iter().filter(|number| **number != drawn[3]));
    assert_eq!(of(2, 0, &drawn[3..4]), (last_first, 3));
    assert_eq!(of(2, 1, &drawn[..1]).0[0], drawn[0]);
}
