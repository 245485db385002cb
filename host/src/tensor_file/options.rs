//! How parameters are found in a file, and what becomes of them.

use std::fmt;
use std::sync::Arc;

use crate::dtype::DType;

/// Options for loading parameters: under which names tensors are stored, which may be left, and the element
/// type of the values.
///
/// # Examples
/// ```
/// use convfuse::{DType, LoadOptions};
///
/// // The block `encoder.2` of a network whose norm is called `bn` there.
/// let options = LoadOptions::default()
///     .prefix("encoder.2.")
///     .rename("bn", "norm")
///     .strict(false)
///     .dtype(DType::F16);
/// ```
#[derive(Clone)]
#[must_use]
pub struct LoadOptions {
    pub(super) prefix: String,
    renames: Vec<Rename>,
    pub(crate) is_strict: bool,
    pub(crate) dtype: DType,
}

/// A rule for names.
#[derive(Clone)]
enum Rename {
    Part { from: String, to: String },
    By(Arc<RenameFn>),
}

/// A function of a tensor's name.
type RenameFn = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Rename {
    /// The new name, if the rule is for names as this one; nothing in it for a tensor that is ignored.
    fn apply(&self, name: &str) -> Option<Option<String>> {
        match self {
            Rename::By(rename) => Some(rename(name)),
            Rename::Part { from, to } => replaced(name, from, to).map(Some),
        }
    }

    /// The name of which the rule may make this one. A function does not tell.
    fn reverse(&self, name: &str) -> Option<String> {
        match self {
            Rename::By(_) => None,
            Rename::Part { from, to } => replaced(name, to, from),
        }
    }
}

/// The name with `to` in the place of the parts `from`, if it begins with these.
fn replaced(name: &str, from: &str, to: &str) -> Option<String> {
    let rest = name.strip_prefix(from)?;
    let (rest, is_whole) = match rest.strip_prefix('.') {
        _ if from.is_empty() => (rest, true),
        Some(rest) => (rest, true),
        None => (rest, rest.is_empty()),
    };
    let dot = if to.is_empty() || rest.is_empty() {
        ""
    } else {
        "."
    };
    is_whole.then(|| format!("{to}{dot}{rest}"))
}

impl Default for LoadOptions {
    /// All tensors of the file, under the parameters' names, as f32.
    fn default() -> LoadOptions {
        LoadOptions {
            prefix: String::new(),
            renames: Vec::new(),
            is_strict: true,
            dtype: DType::F32,
        }
    }
}

impl LoadOptions {
    /// The prefix of the parameters' names in the file, such as `decoder.blocks.2.`. Tensors without it are
    /// ignored.
    pub fn prefix(mut self, prefix: impl Into<String>) -> LoadOptions {
        self.prefix = prefix.into();
        self
    }

    /// Reads tensors whose name, without the prefix, is `from` or begins with `from` and a dot, as if it had
    /// `to` there. The first rule that fits a name is applied to it, and no other, so two names can change
    /// places.
    pub fn rename(mut self, from: impl Into<String>, to: impl Into<String>) -> LoadOptions {
        let part = |name: String| name.trim_end_matches('.').to_owned();
        self.renames.push(Rename::Part {
            from: part(from.into()),
            to: part(to.into()),
        });
        self
    }

    /// Reads a tensor as the parameter that `rename` makes of its name without the prefix, and ignores it
    /// where that is `None`. Rules that were added before come first.
    pub fn rename_with(
        mut self,
        rename: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> LoadOptions {
        self.renames.push(Rename::By(Arc::new(rename)));
        self
    }

    /// Whether tensors with the prefix that belong to no parameter are refused. Missing parameters are always
    /// refused, and so are tensors under the name of a layer that does not take them, such as the `conv.bias`
    /// of a convolution without a bias.
    pub fn strict(mut self, is_strict: bool) -> LoadOptions {
        self.is_strict = is_strict;
        self
    }

    /// The element type that values are rounded to, once, as they are read; f32 by default. A
    /// [model](crate::Model::load_with) stores its parameters in it.
    pub fn dtype(mut self, dtype: DType) -> LoadOptions {
        self.dtype = dtype;
        self
    }

    /// The name of the parameter that a tensor of this name is for.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let name = name.strip_prefix(self.prefix.as_str())?;
        let mut renamed = self.renames.iter().filter_map(|rule| rule.apply(name));
        renamed.next().unwrap_or_else(|| Some(name.to_owned()))
    }

    /// The name of a tensor that would be for this parameter, if it is another and known.
    pub(crate) fn sought(&self, parameter: &str) -> Option<String> {
        let reversed = self
            .renames
            .iter()
            .filter_map(|rule| rule.reverse(parameter));
        let names = reversed.chain([parameter.to_owned()]);
        let mut names = names.map(|name| format!("{}{name}", self.prefix));
        let sought = names.find(|name| self.parameter(name).as_deref() == Some(parameter));
        sought.filter(|name| name != parameter)
    }

    /// The name that a tensor is read under, if a rule has made it another than that without the prefix.
    pub(crate) fn renamed(&self, tensor: &str, parameter: &str) -> Option<String> {
        let is_renamed = tensor.strip_prefix(self.prefix.as_str()) != Some(parameter);
        is_renamed.then(|| parameter.to_owned())
    }
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.renames.iter().map(|rule| match rule {
            Rename::Part { from, to } => format!("{from} to {to}"),
            Rename::By(_) => "a function".to_owned(),
        });
        f.debug_struct("LoadOptions")
            .field("prefix", &self.prefix)
            .field("renames", &rules.collect::<Vec<_>>())
            .field("strict", &self.is_strict)
            .field("dtype", &self.dtype)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_changed_in_whole_parts_by_the_first_rule_that_fits() {
        let options = LoadOptions::default()
            .prefix("net.")
            .rename("a", "b")
            .rename("b.", "a.")
            .rename("deep.0", "")
            .rename_with(|name| {
                name.strip_suffix(".gamma")
                    .map(|rest| format!("{rest}.weight"))
            });
        let name = |name| options.parameter(name);
        for (from, to) in [
            ("net.a.weight", "b.weight"),
            ("net.b.weight", "a.weight"),
            ("net.a", "b"),
            ("net.deep.0.bias", "bias"),
            ("net.ab.gamma", "ab.weight"),
        ] {
            assert_eq!(name(from).as_deref(), Some(to));
        }
        assert_eq!(name("a.weight"), None);
        assert_eq!(name("net.ab.weight"), None);
        let wrapped = LoadOptions::default().rename("", "net");
        assert_eq!(
            wrapped.parameter("conv.bias").as_deref(),
            Some("net.conv.bias")
        );
    }
}
