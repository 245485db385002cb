//! Checks that the modules of a folder import only from lower layers.
//!
//! The order is written in the head of the folder's `mod.rs`, from the bottom up, as lines ``//! 3. `one`,
//! `another`: what the layer knows``. A module may import from earlier lines. A path through `mod.rs` itself,
//! to a re-export or a glob, counts as an upward import, because `mod.rs` is above all modules.
//!
//! Paths are found among the tokens: all paths that begin with `super`, `self` or `crate`, in `use` and
//! elsewhere, except in tests. Code that macros generate is not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// The modules of a folder, and their order.
pub(crate) struct Folder {
    /// The folder's module path, as segments.
    path: Vec<String>,
    /// The line number of each module in the order.
    layers: BTreeMap<String, usize>,
    /// All files except `mod.rs`, by their paths in the folder.
    files: BTreeMap<String, String>,
}

impl Folder {
    /// Reads a folder on disk, whose module is `path`.
    pub(crate) fn read(folder: &Path, path: &str) -> io::Result<Self> {
        let mut files = Vec::new();
        collect(folder, "", &mut files)?;
        let files: Vec<_> = (files.iter())
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        Ok(Self::new(&files, path))
    }

    /// Makes a folder of these files, named by their paths in it.
    pub(crate) fn new(files: &[(&str, &str)], path: &str) -> Self {
        let text = |name| files.iter().find(|file| file.0 == name).map(|file| file.1);
        let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
        Self {
            path: path.split("::").map(str::to_owned).collect(),
            layers: order(text("mod.rs").unwrap_or_default()),
            files: (files.iter().filter(|file| file.0 != "mod.rs"))
                .map(owned)
                .collect(),
        }
    }

    /// Returns the first segments of the folder's imports from the rest of its crate.
    pub(crate) fn outside(&self) -> BTreeSet<String> {
        let prefix = self.path.join("::") + "::";
        let mut outside = BTreeSet::new();
        for (file, text) in &self.files {
            for import in imports(text, &self.module(file)) {
                if !import.starts_with(&prefix) {
                    outside.extend(import.split("::").nth(1).map(str::to_owned));
                }
            }
        }
        outside
    }

    /// Returns the module path of a file.
    fn module<'a>(&'a self, file: &'a str) -> Vec<&'a str> {
        let folder = self.path.iter().map(String::as_str);
        folder.chain(module_path(file)).collect()
    }

    /// Returns the violations, a line each.
    pub(crate) fn violations(&self) -> Vec<String> {
        let modules: BTreeSet<_> = self.files.keys().map(|file| module_path(file)[0]).collect();
        let mut wrong = Vec::new();
        for module in self.layers.keys() {
            if !modules.contains(module.as_str()) {
                wrong.push(format!("{module}: in the order, but no module"));
            }
        }
        for module in modules {
            if !self.layers.contains_key(module) {
                wrong.push(format!("{module}: a module without a place in the order"));
            }
        }
        for (file, text) in &self.files {
            let inside = module_path(file)[0];
            let Some(own) = self.layers.get(inside) else {
                continue;
            };
            let prefix = self.path.join("::") + "::";
            for import in imports(text, &self.module(file)) {
                let Some(rest) = import.strip_prefix(&prefix) else {
                    continue;
                };
                let target = rest.split("::").next().unwrap_or_default();
                if target == inside {
                    continue;
                }
                match self.layers.get(target) {
                    Some(layer) if layer < own => {}
                    Some(_) => wrong.push(format!("{file}: {import} is not below")),
                    None => wrong.push(format!("{file}: {import} is a path through mod.rs")),
                }
            }
        }
        wrong
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<(String, String)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            collect(&path, &format!("{prefix}{name}/"), files)?;
        } else if name.ends_with(".rs") {
            files.push((format!("{prefix}{name}"), fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

/// Parses the lines ``//! 3. `one`, `another`: ...``.
fn order(head: &str) -> BTreeMap<String, usize> {
    let mut layers = BTreeMap::new();
    for line in head.lines() {
        let Some((number, rest)) = line.strip_prefix("//! ").and_then(|l| l.split_once(". `"))
        else {
            continue;
        };
        if let (Ok(number), Some((names, _))) = (number.parse(), rest.split_once("`:")) {
            for name in names.split("`, `") {
                layers.insert(name.to_owned(), number);
            }
        }
    }
    layers
}

/// Splits `a/b.rs` into segments, at least one.
fn module_path(file: &str) -> Vec<&str> {
    let file = file.trim_end_matches(".rs").trim_end_matches("/mod");
    file.split('/').collect()
}

/// Returns all paths in the source of module `path` that begin with `super`, `self` or `crate`, made
/// absolute.
pub(crate) fn imports(source: &str, path: &[&str]) -> Vec<String> {
    let tokens = tokens(source.parse().expect("a module is made of tokens"));
    let mut found = Vec::new();
    let mut path: Vec<String> = path.iter().map(|&segment| segment.to_owned()).collect();
    // The depths of braces in which inline modules began.
    let mut inline = Vec::new();
    let (mut depth, mut i) = (0, 0);
    while i < tokens.len() {
        let rest: Vec<&str> = tokens[i..].iter().take(7).map(String::as_str).collect();
        match rest[..] {
            ["#", "[", "cfg", "(", "test", ")", "]"] => i = end_of_item(&tokens, i + 7),
            ["mod", name, "{", ..] => {
                path.push(name.to_owned());
                inline.push(depth);
                (depth, i) = (depth + 1, i + 3);
            }
            ["{", ..] => (depth, i) = (depth + 1, i + 1),
            ["}", ..] => {
                (depth, i) = (depth - 1, i + 1);
                if inline.last() == Some(&depth) {
                    inline.pop();
                    path.pop();
                }
            }
            ["super" | "self" | "crate", "::", ..] => {
                let mut paths = Vec::new();
                i = tree(&tokens, i, &mut Vec::new(), &mut paths);
                found.extend(paths.iter().map(|segments| absolute(&path, segments)));
            }
            _ => i += 1,
        }
    }
    found
}

fn end_of_item(tokens: &[String], start: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(start) {
        match token.as_str() {
            "{" => depth += 1,
            "}" if depth == 1 => return i + 1,
            "}" => depth -= 1,
            ";" if depth == 0 => return i + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Expands the path, or tree of paths, that begins at `i`. Returns the index after it.
fn tree(
    tokens: &[String],
    mut i: usize,
    prefix: &mut Vec<String>,
    paths: &mut Vec<Vec<String>>,
) -> usize {
    let length = prefix.len();
    loop {
        if tokens[i] == "{" {
            i += 1;
            while tokens[i] != "}" {
                i = tree(tokens, i, prefix, paths);
                while tokens[i] != "," && tokens[i] != "}" {
                    i += 1; // as another_name
                }
                i += usize::from(tokens[i] == ",");
            }
            i += 1;
            break;
        }
        prefix.push(tokens[i].clone());
        i += 1;
        let goes_on = |token: &String| token == "{" || token == "*" || is_name(token);
        if tokens.get(i).is_some_and(|token| token == "::")
            && tokens.get(i + 1).is_some_and(goes_on)
        {
            i += 1;
        } else {
            paths.push(prefix.clone());
            break;
        }
    }
    prefix.truncate(length);
    i
}

fn absolute(module: &[String], segments: &[String]) -> String {
    let mut path = module.to_vec();
    for segment in segments {
        match segment.as_str() {
            "crate" => path = vec!["crate".to_owned()],
            "super" => drop(path.pop()),
            "self" => {}
            _ => path.push(segment.clone()),
        }
    }
    path.join("::")
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns names, `::`, and other characters one by one, without comments and literals.
fn tokens(source: TokenStream) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut is_joint = false;
    for tree in source {
        let was_joint = std::mem::replace(&mut is_joint, false);
        match tree {
            TokenTree::Group(group) => {
                let [open, close] = match group.delimiter() {
                    Delimiter::Brace => ["{", "}"],
                    Delimiter::Bracket => ["[", "]"],
                    Delimiter::Parenthesis => ["(", ")"],
                    Delimiter::None => ["", ""],
                };
                tokens.push(open.to_owned());
                tokens.extend(self::tokens(group.stream()));
                tokens.push(close.to_owned());
            }
            TokenTree::Punct(punct) => {
                is_joint = punct.spacing() == Spacing::Joint;
                match tokens.last_mut() {
                    Some(last) if was_joint && last == ":" => last.push(punct.as_char()),
                    _ => tokens.push(punct.to_string()),
                }
            }
            TokenTree::Ident(name) => tokens.push(name.to_string()),
            TokenTree::Literal(_) => {}
        }
    }
    tokens
}
