//! Mistakes that somebody wrote down, in place of drawn ones: what people get wrong a machine does not draw.
//!
//! A file of them is a JSON array:
//!
//! ```json
//! [{
//!     "what": "the second half of the tile has the moments of the first",
//!     "file": "kernels-gpu/src/conv/direct.rs",
//!     "edits": [
//!         { "find": "first + half", "replace": "first" },
//!         { "find": "sync();", "nth": 2, "replace": "", "statement": true }
//!     ]
//! }]
//! ```
//!
//! `find` is a whole expression, or whole statements, at its `nth` occurrence in the file (the first, if
//! nothing is said); an edit may have a `file` of its own. All edits of a mistake are done at once. Its
//! number is its place in the file, from 1 on.

use std::error::Error;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::kinds::Kind;
use super::rewrite::{Mutant, apart};
use super::sites::Site;

/// The mistakes of a file, each edit a mutant of its own with the mistake's number.
///
/// # Errors
/// A file that is no such list, an edit of a text that is not there, or one whose place overlaps that of
/// another.
pub(crate) fn read<'a>(
    path: &Path,
    source: impl Fn(&str) -> &'a str,
) -> Result<Vec<Mutant>, Box<dyn Error>> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    let list: Value = serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
    let list = list
        .as_array()
        .ok_or_else(|| format!("{shown}: is no array"))?;
    let mut mutants = Vec::new();
    for (number, mistake) in (1..).zip(list) {
        let edits = mistake["edits"].as_array();
        let edits = edits.ok_or_else(|| format!("{shown}: mistake {number} has no edits"))?;
        for edit in edits {
            let file = edit["file"].as_str().or(mistake["file"].as_str());
            let file = file.ok_or_else(|| format!("{shown}: mistake {number} has no file"))?;
            let site = site(source(file), edit)
                .map_err(|error| format!("{shown}: mistake {number}, {file}: {error}"))?;
            mutants.push(Mutant {
                number,
                file: file.to_owned(),
                site,
            });
        }
    }
    let places = mutants.len();
    let mutants = apart(mutants.into_iter());
    if mutants.len() < places {
        return Err(format!("{shown}: places of two edits overlap").into());
    }
    Ok(mutants)
}

/// The place of an edit in its source.
fn site(source: &str, edit: &Value) -> Result<Site, String> {
    let [find, replacement] = ["find", "replace"].map(|name| edit[name].as_str());
    let find = find
        .filter(|find| !find.is_empty())
        .ok_or("nothing to find")?;
    let replacement = replacement.ok_or("no \"replace\"")?;
    let nth = edit["nth"].as_u64().unwrap_or(1).max(1) as usize;
    let found = source.match_indices(find).nth(nth - 1);
    let (start, _) = found.ok_or_else(|| format!("{find:?} is not there {nth} times"))?;
    Ok(Site {
        kind: Kind::Given,
        range: start..start + find.len(),
        line: 1 + source[..start].matches('\n').count(),
        replacement: replacement.to_owned(),
        is_statement: edit["statement"] == true,
        is_const: false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SOURCE: &str = "fn f() {\n    g(a);\n    g(a);\n}";

    #[test]
    fn an_edit_is_found_at_its_occurrence() {
        let edit = json!({ "find": "g(a);", "nth": 2, "replace": "", "statement": true });
        let site = site(SOURCE, &edit).unwrap();
        assert_eq!((site.range, site.line), (23..28, 3));
        assert!(site.is_statement);
    }

    #[test]
    fn an_edit_of_what_is_not_there_is_refused() {
        let refused = |edit: Value| site(SOURCE, &edit).unwrap_err();
        let error = refused(json!({ "find": "g(a)", "nth": 3, "replace": "h(a)" }));
        assert_eq!(error, "\"g(a)\" is not there 3 times");
        assert_eq!(refused(json!({ "replace": "h(a)" })), "nothing to find");
        assert_eq!(refused(json!({ "find": "g(a)" })), "no \"replace\"");
    }

    #[test]
    fn a_mistake_of_several_edits_has_one_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("given.json");
        let list = json!([
            { "file": "a.rs", "edits": [{ "find": "g(a)", "replace": "g(b)" }] },
            { "file": "a.rs", "edits": [
                { "find": "g(a)", "nth": 2, "replace": "g(c)" },
                { "file": "b.rs", "find": "f()", "replace": "h()" },
            ] },
        ]);
        fs::write(&path, list.to_string()).unwrap();
        let mutants = read(&path, |_| SOURCE).unwrap();
        let named: Vec<_> = mutants
            .iter()
            .map(|mutant| (mutant.number, mutant.file.as_str()))
            .collect();
        assert_eq!(named, [(1, "a.rs"), (2, "a.rs"), (2, "b.rs")]);
        let overlapping = json!([{ "file": "a.rs", "edits": [
            { "find": "f() {\n    g", "replace": "h" },
            { "find": "g(a)", "replace": "g(b)" },
        ] }]);
        fs::write(&path, overlapping.to_string()).unwrap();
        let error = read(&path, |_| SOURCE).unwrap_err().to_string();
        assert!(error.ends_with("places of two edits overlap"), "{error}");
        fs::write(&path, "[{}]").unwrap();
        let error = read(&path, |_| SOURCE).unwrap_err().to_string();
        assert!(error.ends_with("mistake 1 has no edits"), "{error}");
    }
}
