//! The imports between the source files of a crate.
//!
//! A file imports another file if a path in it leads to an item of the other one. Re-exports are followed to
//! the item. Paths are found among the tokens of all items but unit tests. Methods, globs and code that
//! macros generate are not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Expr, Item, ItemMod, Lit, Meta, UseTree, Visibility};

/// Maps a file and a file that it imports to the line and the path of an import.
pub(super) type Imports = BTreeMap<(String, String), (usize, String)>;

/// A crate's modules, of which the first is the root.
struct Crate<'a> {
    repository: &'a Path,
    modules: Vec<Module>,
    /// The files of exported macros.
    macros: BTreeMap<String, String>,
}

/// A module, which is a file or a part of one.
#[derive(Default)]
struct Module {
    parent: usize,
    file: String,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    /// Maps the names that `use` brings in to their paths.
    names: BTreeMap<String, Vec<String>>,
    /// The paths in the module and their lines.
    paths: Vec<(usize, Vec<String>)>,
    /// The modules in the module, until they are read.
    inner: Vec<ItemMod>,
    exported: Vec<String>,
}

/// Adds the imports between files of the crate with this root file.
pub(super) fn collect(repository: &Path, root: &Path, imports: &mut Imports) -> Result<()> {
    let mut all = Crate {
        repository,
        modules: Vec::new(),
        macros: BTreeMap::new(),
    };
    let folder = root.parent().context("a root without a folder")?;
    all.read_file(root, folder, 0)?;
    for (index, module) in all.modules.iter().enumerate() {
        for (line, path) in &module.paths {
            if let Some(target) = all.file_of(index, path, 0)
                && target != module.file
            {
                let edge = (module.file.clone(), target.to_owned());
                let example = (*line, path.join("::"));
                imports.entry(edge).or_insert(example);
            }
        }
    }
    Ok(())
}

impl Crate<'_> {
    /// Reads a file as a module, whose own modules are in `folder`.
    fn read_file(&mut self, file: &Path, folder: &Path, parent: usize) -> Result<usize> {
        let shown = file.strip_prefix(self.repository).unwrap_or(file);
        let shown = shown.to_string_lossy().replace('\\', "/");
        let text = fs::read_to_string(file).with_context(|| shown.clone())?;
        let source = syn::parse_file(&text).with_context(|| shown.clone())?;
        self.read_items(&shown, &source.items, folder, parent)
    }

    fn read_items(
        &mut self,
        file: &str,
        items: &[Item],
        folder: &Path,
        parent: usize,
    ) -> Result<usize> {
        let mut module = Module {
            parent,
            file: file.to_owned(),
            ..Module::default()
        };
        for item in items {
            module.add(item);
        }
        let inner = std::mem::take(&mut module.inner);
        let exported = module.exported.drain(..);
        self.macros
            .extend(exported.map(|name| (name, file.to_owned())));
        let own = self.modules.len();
        self.modules.push(module);
        for module in inner {
            let name = module.ident.to_string();
            let below = folder.join(&name);
            let child = match module.content {
                Some((_, items)) => self.read_items(file, &items, &below, own)?,
                None => {
                    let found = self.find(file, folder, &name, &module.attrs);
                    let found = found.with_context(|| format!("{file}: mod {name} has no file"))?;
                    let is_folder =
                        found.ends_with("mod.rs") || explicit_path(&module.attrs).is_some();
                    let folder = match found.parent() {
                        Some(parent) if is_folder => parent.to_owned(),
                        _ => below,
                    };
                    self.read_file(&found, &folder, own)?
                }
            };
            // Of alternatives under conditions, the first is the module.
            self.modules[own].children.entry(name).or_insert(child);
        }
        Ok(own)
    }

    /// Finds the file of a module that `file` declares.
    fn find(&self, file: &str, folder: &Path, name: &str, attrs: &[Attribute]) -> Option<PathBuf> {
        let candidates = match explicit_path(attrs) {
            Some(path) => vec![self.repository.join(file).parent()?.join(path)],
            None => vec![
                folder.join(name).with_extension("rs"),
                folder.join(name).join("mod.rs"),
            ],
        };
        candidates.into_iter().find(|file| file.is_file())
    }

    /// Returns the file of the item at this path in a module.
    fn file_of(&self, from: usize, path: &[String], depth: usize) -> Option<&str> {
        let (first, rest) = path.split_first()?;
        let module = self.modules.get(from).filter(|_| depth < 32)?;
        let next = match first.as_str() {
            "crate" => Some(0),
            "self" => Some(from),
            "super" => Some(module.parent),
            name => module.children.get(name).copied(),
        };
        if let Some(next) = next
            && !rest.is_empty()
        {
            return self.file_of(next, rest, depth + 1);
        }
        if module.items.contains(first) {
            return Some(&module.file);
        }
        if let Some(path) = module.names.get(first) {
            return self.file_of(from, &[path, rest].concat(), depth + 1);
        }
        let exported = self.macros.get(first).filter(|_| from == 0);
        exported.map(String::as_str)
    }
}

/// The path of `#[path = ".."]`.
fn explicit_path(attributes: &[Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                Expr::Lit(literal) => match &literal.lit {
                    Lit::Str(path) => Some(path.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
}

/// Whether an attribute is `#[cfg(test)]`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|name| name == "test")
    })
}

impl Module {
    /// Records an item and all paths in it.
    fn add(&mut self, item: &Item) {
        let (name, attributes) = match item {
            Item::Const(item) => (Some(&item.ident), &item.attrs),
            Item::Enum(item) => (Some(&item.ident), &item.attrs),
            Item::Fn(item) => (Some(&item.sig.ident), &item.attrs),
            Item::Macro(item) => (item.ident.as_ref(), &item.attrs),
            Item::Static(item) => (Some(&item.ident), &item.attrs),
            Item::Struct(item) => (Some(&item.ident), &item.attrs),
            Item::Trait(item) => (Some(&item.ident), &item.attrs),
            Item::Type(item) => (Some(&item.ident), &item.attrs),
            Item::Union(item) => (Some(&item.ident), &item.attrs),
            Item::Impl(item) => (None, &item.attrs),
            Item::Mod(item) => (None, &item.attrs),
            Item::Use(item) => (None, &item.attrs),
            _ => return,
        };
        if is_test(attributes) {
            return;
        }
        let name = name.map(ToString::to_string);
        let mut attributes = attributes.iter();
        if attributes.any(|attribute| attribute.path().is_ident("macro_export")) {
            self.exported.extend(name.clone());
        }
        self.items.extend(name);
        match item {
            Item::Mod(item) => self.inner.push(item.clone()),
            Item::Use(item) => {
                self.add_names(&item.tree, &mut Vec::new());
                // What is only re-exported is imported by those that use it.
                if matches!(item.vis, Visibility::Inherited) {
                    self.add_paths(item.tree.to_token_stream(), &[]);
                }
            }
            _ => self.add_paths(item.to_token_stream(), &[]),
        }
    }

    /// Records the names that a `use` brings in.
    fn add_names(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        let (ident, name) = match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add_names(&part.tree, path);
                path.pop();
                return;
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_names(tree, path);
                }
                return;
            }
            UseTree::Glob(_) => return,
            UseTree::Name(name) => (&name.ident, &name.ident),
            UseTree::Rename(name) => (&name.ident, &name.rename),
        };
        let whole = path.iter().cloned();
        let itself = (ident != "self").then(|| ident.to_string());
        let whole: Vec<String> = whole.chain(itself).collect();
        let name = match name == "self" {
            true => whole.last().cloned().unwrap_or_default(),
            false => name.to_string(),
        };
        self.names.insert(name, whole);
    }

    /// Records the paths among tokens, behind a prefix.
    fn add_paths(&mut self, tokens: TokenStream, prefix: &[String]) {
        let mut path = prefix.to_vec();
        let (mut line, mut colons) = (0, 0);
        for tree in tokens {
            let goes_on = colons == 2;
            colons = match &tree {
                TokenTree::Punct(punct) if punct.as_char() == ':' && colons < 2 => colons + 1,
                _ => 0,
            };
            if colons > 0 {
                continue;
            }
            if !goes_on {
                self.paths
                    .push((line, std::mem::replace(&mut path, prefix.to_vec())));
            }
            match tree {
                TokenTree::Ident(name) => {
                    line = name.span().start().line;
                    path.push(name.to_string());
                }
                TokenTree::Group(group) => {
                    self.add_paths(group.stream(), if goes_on { &path } else { &[] });
                }
                _ => {}
            }
        }
        self.paths.push((line, path));
    }
}
