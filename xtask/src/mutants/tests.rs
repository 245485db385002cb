//! Of a few lines of source: which mutants there are, and what the copy looks like.

use std::cell::RefCell;

use super::kinds::Kind;
use super::names::Types;
use super::rewrite::{Mutant, blamed, rewritten};
use super::sites::{Site, sites};

fn sites_of(source: &str) -> Vec<Site> {
    sites(source, &Types::of([source]).unwrap()).unwrap()
}

/// Line, kind, what is replaced and by what, of the kinds up to this one.
fn listed_to(last: Kind, source: &str) -> Vec<String> {
    let line = |site: &Site| {
        let is = &source[site.range.clone()];
        format!(
            "{} {}: {is} -> {}",
            site.line,
            site.kind.name(),
            site.replacement
        )
    };
    let sites = sites_of(source);
    let sites = sites.iter().filter(|site| site.kind <= last);
    sites.map(line).collect()
}

fn listed(source: &str) -> Vec<String> {
    listed_to(Kind::Condition, source)
}

/// Of one kind: what is replaced and by what.
fn of_kind(kind: Kind, source: &str) -> Vec<String> {
    let sites = sites_of(source)
        .into_iter()
        .filter(|site| site.kind == kind);
    let line = |site: Site| format!("{} -> {}", &source[site.range], site.replacement);
    sites.map(line).collect()
}

/// Mutants of the same kinds.
fn mutants(source: &str) -> Vec<Mutant> {
    let sites = sites_of(source).into_iter();
    let sites = sites.filter(|site| site.kind <= Kind::Condition);
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
    assert_eq!(listed_to(Kind::Conversion, source), [""; 0]);
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
    let kinds = RefCell::new(Vec::new());
    let of = |sample: usize, skip: usize, only: &[u32]| {
        let only = only.to_vec();
        let json = "report.json".into();
        let arguments = super::Arguments {
            sample,
            skip,
            seed: 3,
            kinds: kinds.borrow().clone(),
            only,
            given: None,
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

    // Of one kind, and one of another that is asked for.
    kinds.borrow_mut().push(Kind::Synchronisation);
    let one = |kind: Kind| {
        all()
            .into_iter()
            .find(|one| one.site.kind == kind)
            .unwrap()
            .number
    };
    let [sync, bound] = [Kind::Synchronisation, Kind::Bound].map(one);
    assert_eq!(of(9, 0, &[]), (vec![sync], 9));
    assert_eq!(of(1, 0, &[sync]).0, [sync]);
    let mut both = of(2, 0, &[bound]).0;
    both.sort_unstable();
    assert_eq!(both, [bound.min(sync), bound.max(sync)]);
}

#[test]
fn a_name_becomes_one_beside_it_that_likely_has_its_type() {
    let source = "struct G { rows: u32, all: u64, tiles: u32, eps: f32 }
        fn f(g: &G, first: u32, x: f32, at: u64, last: u32) {
            let (row, big) = (g.rows + first, last as u64);
            for i in 0..last { h(row, x, i); }
            { let inner = g.tiles; }
            h(inner, at, g.eps);
        }";
    assert_eq!(
        of_kind(Kind::Variable, source),
        [
            // Fields that the function reads as well, of one type.
            "g.rows -> g.tiles",
            "first -> last",
            "last -> first",
            // `row` has a type that no text tells, `i` that of the range's end.
            "last -> first",
            "i -> last",
            "g.tiles -> g.rows",
        ]
    );
}

#[test]
fn names_have_the_types_of_what_they_are_made_of() {
    let source = "const N: u32 = 4;
        fn pair(a: u32) -> (u32, u64) { (a, 0) }
        fn f(a: u32, n: usize, t: [f32; 3]) {
            let (b, c) = pair(a);
            let d = N.min(5) * 2;
            let e = t[0];
            g(b, c, d, e, n);
            unroll!(3, |i| { let s = i as u32; g(s, s.load(n as u64)); });
        }";
    // Of `a` there is no other before `b`, and of a tuple's other parts and of `n` none at all.
    assert_eq!(
        of_kind(Kind::Variable, source),
        ["b -> a", "b -> d", "d -> b", "s -> d"]
    );
}

#[test]
fn parts_are_left_out() {
    assert_eq!(
        of_kind(
            Kind::Term,
            "fn f() { a * b - e; x += 1; m & n && o; p + 1; q.wrapping_add(r); fma(s, t, u); max_nan(v, w) }"
        ),
        [
            "a * b -> (a)",
            "a * b -> (b)",
            "a * b - e -> (a * b)",
            "x += 1 -> x = 1",
            "m & n -> (m)",
            "m & n -> (n)",
            "m & n && o -> (m & n)",
            "m & n && o -> (o)",
            "q.wrapping_add(r) -> (q)",
            "fma(s, t, u) -> (s) * (t)",
            "fma(s, t, u) -> (u)",
            "max_nan(v, w) -> (v)",
            "max_nan(v, w) -> (w)",
        ]
    );
    // What an `if let` binds has no other value.
    assert_eq!(
        of_kind(Kind::Term, "fn f() { if let Some(a) = b && a { } }"),
        [""; 0]
    );
}

#[test]
fn statements_are_left_out_and_exchanged() {
    let source = "fn f() { a += 1; if c { continue; } g(a); h.put(a); sync(); b = a; x = b; k(); s.a[i] = x; s.b = x; s.b += s.a[j]; }";
    assert_eq!(
        of_kind(Kind::Statement, source),
        [
            "a += 1; -> ",
            "if c { continue; } -> ",
            "continue; -> ",
            "g(a); -> ",
            "k(); -> ",
            "s.b += s.a[j]; -> "
        ]
    );
    // Each statement in one pair; `if` stays where it is.
    assert_eq!(
        of_kind(Kind::Order, source),
        [
            "h.put(a); sync(); -> sync(); h.put(a);",
            "b = a; x = b; -> x = b; b = a;",
            "s.b = x; s.b += s.a[j]; -> s.b += s.a[j]; s.b = x;"
        ]
    );
    let all: Vec<Mutant> = (1..)
        .zip(sites_of(source))
        .map(|(number, site)| Mutant {
            number,
            file: "a.rs".into(),
            site,
        })
        .collect();
    let text = rewritten(source, &all.iter().collect::<Vec<_>>());
    syn::parse_file(&text).unwrap();
}

#[test]
fn loops_end_early() {
    let source = "fn f() { for i in 0..4 { g(i); } while a { b(); } }";
    assert_eq!(of_kind(Kind::Loop, source), [" -> break;"; 2]);
    let all: Vec<Mutant> = (1..)
        .zip(
            sites_of(source)
                .into_iter()
                .filter(|site| site.kind == Kind::Loop),
        )
        .map(|(number, site)| Mutant {
            number,
            file: "a.rs".into(),
            site,
        })
        .collect();
    let text = rewritten(source, &all.iter().collect::<Vec<_>>());
    let first = "{ g(i); /*[1*/if ::mutants::active(1) { /*<1*/break;/*1>*/ } else {  }/*1]*/}";
    assert!(text.contains(first), "{text}");
}

#[test]
fn numbers_become_short() {
    let source =
        "fn f(a: u32, b: u64) { g(a as u64, b as usize, a as u64 * e as u64, 1 as u64, b as f32) }";
    assert_eq!(
        of_kind(Kind::Conversion, source),
        [
            "b as usize -> (b) as u32 as usize",
            "a as u64 * e as u64 -> (a).wrapping_mul(e) as u64",
            "e as u64 -> (e) as u32 as u64",
        ]
    );
}

#[test]
fn kinds_are_asked_for_by_their_names() {
    for kind in Kind::ALL {
        assert_eq!(Kind::of(kind.name()), Ok(kind));
    }
    assert!(Kind::of("variables").is_err_and(|error| error.contains("condition, variable, term")));
}

#[test]
fn places_that_overlap_are_in_no_copy_together() {
    let all = mutants("fn f() { g(a, b, c); }");
    let is = |one: &Mutant| one.site.kind == Kind::Argument;
    assert_eq!(all.iter().filter(|one| is(one)).count(), 2);
    let apart = super::rewrite::apart(all.into_iter());
    assert_eq!(apart.iter().filter(|one| is(one)).count(), 1);
    // Within each other, and side by side.
    let all = mutants("fn f() { a + b + c; d + e; }");
    assert_eq!(
        super::rewrite::apart(all.clone().into_iter()).len(),
        all.len()
    );
}
