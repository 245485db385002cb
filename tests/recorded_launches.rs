//! The launches of recorded problems, with all arguments. `cargo xtask mutants` searches for problems, such
//! that each mistake in an expression of a launch configuration changes the launches of at least one.

use convfuse_cli::campaign::Recorded;
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};

pub(crate) fn trials() -> Vec<Trial> {
    vec![Backend::Cpu.trial("recorded_launches", "are_as_recorded", |_| as_recorded())]
}

fn as_recorded() -> Outcome {
    let all = Recorded::parse(include_str!("launches.jsonl"))?;
    assert!(!all.is_empty(), "no problem is recorded");
    let mut changed = String::new();
    for recorded in all {
        let launches = recorded.problem.launches()?;
        let now = Recorded::new(recorded.problem, &launches);
        if (&now.hash, &now.kernels) != (&recorded.hash, &recorded.kernels) {
            let (line, launches) = (now.line(), launches.join("\n"));
            changed += &format!("{line}\nwas {:?}, is\n{launches}\n", recorded.kernels);
        }
    }
    match changed.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "launches changed; if they should, `cargo xtask mutants` renews the record\n{changed}"
        )
        .into()),
    }
}
