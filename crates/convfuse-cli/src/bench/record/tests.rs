use serde_json::{Value, json};

use super::*;

fn run(strategy: &str, hash: &str, median: f64) -> Value {
    json!({"strategy": strategy, "math_mode": "accurate", "output_hash": hash, "time": {"median": median, "repeats": 5},
           "complaint": null, "launches": 1})
}

fn problem(results: &[Value]) -> Value {
    json!({"number": 85, "title": null, "input": [2, 8, 20, 20], "dtype": "f32", "seed": 0,
           "attributes": {"eps": 1e-5, "clamp": [0.0, 1.0]}, "results": results})
}

fn json(problems: &[Value]) -> String {
    json!({"date": "now", "device": {"name": "CPU backend", "processors": 2}, "problems": problems})
        .to_string()
}

fn record(results: &[Value]) -> Record {
    Record::from_json(&json(&[problem(results)])).unwrap()
}

fn compare(old: &[Value], new: &[Value]) -> Comparison {
    Comparison::new(&record(old), &record(new), |strategy, _| {
        strategy != "unfused"
    })
}

#[test]
fn equal_hashes_within_the_time_limit_are_right() {
    let runs = |hash, seconds| [run("fused", hash, seconds), run("unfused", "aa", 2.0)];
    let old = runs("aa", 1.0);
    let same = compare(&old, &old);
    assert_eq!(same.count(Finding::Equal), 2);
    assert_eq!(same.ratios(), Some((1.0, 1.0)));
    assert!(same.is_right(None) && same.is_right(Some(0.0)));
    let other_bits = compare(&old, &runs("ab", 1.0));
    assert_eq!(other_bits.count(Finding::Different), 1);
    assert_eq!(other_bits.count(Finding::Equal), 1);
    assert!(!other_bits.is_right(None));
    let slower = compare(&old, &runs("aa", 1.25));
    assert_eq!(slower.ratios(), Some((1.125, 1.25)));
    assert_eq!((slower.slower(25.0), slower.slower(24.0)), (0, 1));
    assert!(slower.is_right(Some(25.0)) && !slower.is_right(Some(24.0)));
}

#[test]
fn runs_that_are_missing_in_the_old_record_are_told_but_right() {
    let (fused, unfused) = (run("fused", "aa", 1.0), run("unfused", "aa", 2.0));
    let comparison = compare(std::slice::from_ref(&fused), &[fused.clone(), unfused]);
    assert_eq!(comparison.count(Finding::MissingInOld), 1);
    assert!(comparison.is_right(None));
    // But not if all of them are missing: that problem did not run.
    let mut other = problem(&[fused]);
    other["seed"] = 1.into();
    let old = Record::from_json(&json(&[other])).unwrap();
    let comparison = Comparison::new(&old, &record(&[run("fused", "aa", 1.0)]), |_, _| true);
    assert_eq!(comparison.count(Finding::MissingInOld), 1);
    assert!(!comparison.is_right(None));
}

#[test]
fn runs_that_are_missing_in_the_new_record_are_wrong_if_they_were_asked_for() {
    let runs = ["fused", "unfused", "folded-scale"].map(|name| run(name, "aa", 1.0));
    let comparison = compare(&runs, &runs[..1]);
    let missing: Vec<_> = comparison
        .runs
        .iter()
        .filter(|run| run.finding == Finding::MissingInNew)
        .map(|run| run.strategy.as_str())
        .collect();
    assert_eq!(missing, ["folded-scale"]);
    assert!(!comparison.is_right(None));
    // A problem that did not run was not requested.
    let mut other = problem(&runs);
    other["title"] = "another".into();
    let old = Record::from_json(&json(&[problem(&runs[..1]), other])).unwrap();
    assert!(Comparison::new(&old, &record(&runs[..1]), |_, _| true).is_right(None));
}

#[test]
fn runs_that_went_wrong_are_not_compared() {
    let mut wrong = run("fused", "aa", 1.0);
    wrong["complaint"] = "off".into();
    let right = [run("fused", "aa", 1.0), run("unfused", "aa", 1.0)];
    let comparison = compare(&right, &[wrong.clone(), right[1].clone()]);
    assert_eq!(comparison.runs[0].finding, Finding::Wrong);
    assert!(!comparison.is_right(None));
    let comparison = compare(&[wrong, right[1].clone()], &right);
    assert_eq!(comparison.runs[0].finding, Finding::MissingInOld);
    assert!(comparison.is_right(None));
}

#[test]
fn files_that_cannot_be_compared_with_are_refused() {
    let flaw =
        |text: &str| Record::of_text(Path::new("old.json"), text).map_err(|error| error.flaw);
    let fused = run("fused", "aa", 1.0);
    assert!(flaw(&json(&[problem(std::slice::from_ref(&fused))])).is_ok());
    let mut unhashed = fused.clone();
    unhashed.as_object_mut().unwrap().remove("output_hash");
    let unhashed = json(&[problem(&[unhashed])]);
    let error = Record::of_text(Path::new("old.json"), &unhashed).unwrap_err();
    let words = "old.json: 85 f32 [2, 8, 20, 20] fused accurate has no output_hash";
    assert!(error.to_string().starts_with(words), "{error}");
    let two = problem(&[fused.clone(), fused.clone()]);
    let one = problem(&[fused]);
    for twice in [&[two][..], &[one.clone(), one]] {
        assert!(matches!(flaw(&json(twice)), Err(RecordFlaw::Twice(_))));
    }
    assert!(matches!(flaw(&json(&[])), Err(RecordFlaw::NoRuns)));
    assert!(matches!(flaw("{}"), Err(RecordFlaw::Format(_))));
}

#[test]
fn older_records_name_the_math_mode_otherwise() {
    let now = json(&[problem(&[run("fused", "aa", 1.0)])]);
    let before = now.replace("math_mode", "products");
    assert_ne!(now, before);
    let read = |text: &str| Record::from_json(text).unwrap();
    assert_eq!(read(&before), read(&now));
}
