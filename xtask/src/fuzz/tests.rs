use std::collections::BTreeSet;

use super::damage::{Damage, Format};
use super::judge::{Verdict, judge};
use super::*;

#[test]
fn a_case_follows_from_seed_and_number() {
    let file = br#"{"a": [1, 22], "b": "c"}"#;
    let damaged = |seed, number| Damage::of_case(seed, number).of(Format::Text, file, file);
    let mut all = BTreeSet::new();
    for number in 0..200 {
        assert_eq!(damaged(1, number), damaged(1, number));
        all.insert(damaged(1, number));
    }
    assert!(all.len() > 150, "{}", all.len());
    assert_ne!(damaged(1, 0), damaged(2, 0));
}

/// Otherwise nothing behind the head's count would ever be reached.
#[test]
fn most_heads_are_as_long_as_they_say() {
    let root = crate::root();
    let file = fs::read(root.join("tests/corpus/parameters.safetensors")).unwrap();
    let is_right = |number| {
        let damaged = Damage::of_case(0, number).of(Format::Safetensors, &file, &file);
        let count = damaged
            .first_chunk::<8>()
            .map(|count| u64::from_le_bytes(*count));
        let head = count.and_then(|count| damaged.get(8..8 + usize::try_from(count).ok()?));
        damaged != file
            && head.is_some_and(|head| serde_json::from_slice::<serde_json::Value>(head).is_ok())
    };
    let right = (0..400).filter(|&number| is_right(number)).count();
    assert!(right > 80, "{right} of 400");
}

#[test]
fn targets_have_files_and_commands() {
    for target in targets::all(crate::root()).unwrap() {
        assert!(!target.commands.is_empty());
        assert!(
            target
                .commands
                .iter()
                .all(|command| command.contains("FILE") || command.contains("golden "))
        );
    }
}

/// Scripts in the program's place.
#[test]
fn what_may_not_be_is_judged_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let verdict = |script: &str| {
        fs::write(folder.path().join("script"), script).unwrap();
        judge(Path::new("/bin/sh"), "script", folder.path()).unwrap()
    };
    assert_eq!(verdict("exit 0"), Verdict::Taken);
    assert_eq!(verdict("echo wrong >&2; exit 2"), Verdict::Refused);
    let wrong = [
        ("exit 2", "exit status 2, and says nothing"),
        ("echo wrong >&2; exit 101", "exit status 101"),
        (
            "echo \"thread 'main' panicked at\" >&2; exit 2",
            "thread 'main' panicked at",
        ),
        (
            "printf '\\033[2J' >&2; exit 2",
            "prints the control character '\\u{1b}'",
        ),
        (
            "touch y.partial; echo wrong >&2; exit 2",
            "leaves y.partial",
        ),
        ("kill -SEGV $$", "ended by signal: 11"),
    ];
    for (script, why) in wrong {
        let _ = fs::remove_file(folder.path().join("y.partial"));
        let Verdict::Wrong(said) = verdict(script) else {
            panic!("{script} is not wrong");
        };
        assert!(said.starts_with(why), "{said}");
    }
}
