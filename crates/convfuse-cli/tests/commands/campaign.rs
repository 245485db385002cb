//! Campaigns of a few cases, on the CPU backend.

use serde_json::Value;

use crate::program::{Program, Ran};

fn campaign(options: &str) -> Ran {
    Program::new().run(&format!("campaign --device cpu --cost 20000 {options}"))
}

/// The results of the families, from a run with `--json`.
#[track_caller]
fn families(record: &Value) -> &serde_json::Map<String, Value> {
    record["families"].as_object().expect("families by name")
}

#[track_caller]
fn sum(record: &Value, what: &str) -> u64 {
    let counts = families(record).values().map(|line| line[what].as_u64());
    counts.map(|count| count.expect("a count")).sum()
}

#[test]
fn so_many_cases_are_done_and_are_right() {
    let ran = campaign("--cases 60 --seed 5 --first 7 --threads 2 --json").right();
    let record = ran.json();
    assert_eq!(record["kind"], "campaign");
    assert_eq!(record["status"], 0);
    assert_eq!(record["error"], Value::Null);
    assert_eq!(sum(&record, "cases") + sum(&record, "too_costly"), 60);
    assert!(sum(&record, "runs") >= 20, "{record}");
    assert_eq!(sum(&record, "wrong") + sum(&record, "failed"), 0);
    assert_eq!(record["complaints"], Value::Array(Vec::new()));
    assert_eq!(record["next"], 67);
    let idle = record["nothing_ran"].as_array().expect("a list");
    assert!(idle.contains(&"one_launch_85".into()), "{record}");
}

#[test]
fn the_same_seed_gives_the_same_results() {
    let record = || {
        let ran = campaign("--cases 40 --seed 9 --json").right();
        families(&ran.json()).clone()
    };
    assert_eq!(record(), record());
}

#[test]
fn a_family_is_drawn_of_alone() {
    let ran = campaign("--family clamp --cases 12 --json").right();
    let record = ran.json();
    let names: Vec<_> = families(&record).keys().collect();
    assert_eq!(names, ["clamp"]);
    assert_eq!(sum(&record, "cases"), 12);
    let refused = campaign("--family clomp");
    assert_eq!(
        (refused.code, &refused.out[..]),
        (Some(2), ""),
        "{refused:?}"
    );
    assert!(
        refused.err.contains("must be one of conv1d, "),
        "{refused:?}"
    );
}

#[test]
fn so_many_cases_of_each_of_several_families_are_done() {
    let ran = campaign("--family tails --family scale --family tails --of-each 5 --json").right();
    let record = ran.json();
    let counts = families(&record).iter();
    let counts: Vec<_> = counts
        .map(|(name, line)| {
            let done = line["cases"].as_u64().zip(line["too_costly"].as_u64());
            (name.as_str(), done.map(|(cases, costly)| cases + costly))
        })
        .collect();
    assert_eq!(counts, [("scale", Some(5)), ("tails", Some(5))]);
    assert_eq!(record["next"], 10);

    let ran = campaign("--family operators --of-each 1").right();
    let mut rows = ran.out.lines().map(|line| line.split_whitespace());
    let all = rows.find_map(|mut words| (words.next() == Some("all")).then(|| words.next()));
    assert_eq!(all.flatten(), Some("51"), "{ran:?}");
    assert!(!ran.out.contains("one_launch_85"), "{ran:?}");

    for (options, words) in [
        ("--cases 5 --of-each 5", "cannot be used with"),
        (
            "--family chains --choices 1,2",
            "--choices are of one --family",
        ),
        (
            "--first 18446744073709551615 --cases 2",
            "more than 2^64 - 1",
        ),
        (
            "--of-each 18446744073709551615 --family operators",
            "more than 2^64 - 1",
        ),
    ] {
        let refused = campaign(options);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(words), "{refused:?}");
    }
}

#[test]
fn choices_repeat_a_case() {
    let choices = "0,0,1,2,4,4,4,1,1";
    let text = || {
        let ran = campaign(&format!("--family conv2d --choices {choices}")).right();
        let is_case = |line: &&str| line.contains("Conv2d");
        let case = ran.out.lines().find(is_case).map(str::to_owned);
        (case.expect("the case is told"), ran.out)
    };
    let (case, whole) = text();
    assert_eq!(text(), (case.clone(), whole));
    let other = campaign("--family conv2d --choices 0,0,1,2,4");
    assert!(!other.out.contains(&case), "{other:?}");
}

#[test]
fn a_campaign_in_which_nothing_ran_is_told_by_its_status() {
    // The family's cases are too large.
    let ran = campaign("--family one_launch_85 --cases 3 --json");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let record = ran.json();
    assert_eq!(record["status"], 2);
    assert_eq!(sum(&record, "too_costly"), 3);
    assert_eq!(record["nothing_ran"], serde_json::json!(["one_launch_85"]));
    let words = "nothing ran: 0 cases are refused, 3 cost more than --cost 20000, and the simplest of one_launch_85 costs ";
    ran.complains(words);
    assert_eq!(
        record["error"].as_str(),
        ran.complaint().strip_prefix("convfuse: ")
    );

    // A group of a single value has no deviation.
    for options in ["--family group_norm --choices", "--cases 0"] {
        let ran = campaign(options);
        assert_eq!(ran.code, Some(2), "{options}: {ran:?}");
        ran.complains("nothing ran: ");
    }

    // If other families ran, the table lists this family, too.
    let ran = campaign("--cases 76 --seed 2").right();
    let mut lines = ran.out.lines();
    let starts = |words| move |line: &str| line.starts_with(words);
    assert!(lines.any(starts(
        "one_launch_85 is left out: its simplest case costs "
    )));
    assert!(
        lines.any(|line| starts("one_launch_85")(line.trim()) && line.ends_with("NOTHING RAN")),
        "{ran:?}"
    );
}
