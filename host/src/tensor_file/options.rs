//! Options for finding parameters in a file and converting their values.

use std::fmt;
use std::sync::Arc;

use crate::dtype::DType;

/// Options for loading parameters: the names of tensors in the file, whether to allow surplus tensors, and
/// the element type of the values.
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

/// A rule that renames tensors.
#[derive(Clone)]
enum Rename {
    Part { from: String, to: String },
    By(Arc<RenameFn>),
}

/// A function of a tensor's name.
type RenameFn = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Rename {
    /// Returns the new name if the rule applies to this name. An inner `None` means that the tensor is
    /// ignored.
    fn apply(&self, name: &str) -> Option<Option<String>> {
        match self {
            Rename::By(rename) => Some(rename(name)),
            Rename::Part { from, to } => replaced(name, from, to).map(Some),
        }
    }

    /// Returns the name that the rule would rename to this one. A function cannot be reversed.
    fn reverse(&self, name: &str) -> Option<String> {
        match self {
            Rename::By(_) => None,
            Rename::Part { from, to } => replaced(name, to, from),
        }
    }
}

/// Replaces the leading parts `from` of a name with `to`; `None` if the name does not begin with `from`.
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
    /// Loads all tensors of the file, under the parameters' names, as f32.
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
    /// Sets the prefix of the parameters' names in the file, such as `decoder.blocks.2.`. Tensors without it
    /// are ignored.
    pub fn prefix(mut self, prefix: impl Into<String>) -> LoadOptions {
        self.prefix = prefix.into();
        self
    }

    /// Replaces `from` with `to` in tensor names. The rule applies to a name (without the prefix) that is
    /// `from` or begins with `from` and a dot. Only the first rule that fits a name is applied, so two names
    /// can change places.
    pub fn rename(mut self, from: impl Into<String>, to: impl Into<String>) -> LoadOptions {
        let part = |name: String| name.trim_end_matches('.').to_owned();
        self.renames.push(Rename::Part {
            from: part(from.into()),
            to: part(to.into()),
        });
        self
    }

    /// Renames tensors by a function, which gets the name without the prefix. It returns the parameter's
    /// name, or `None` to ignore the tensor. Rules that were added before take precedence.
    pub fn rename_with(
        mut self,
        rename: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> LoadOptions {
        self.renames.push(Rename::By(Arc::new(rename)));
        self
    }

    /// Sets whether tensors with the prefix that match no parameter are refused. Two cases are always
    /// refused: missing parameters, and tensors under the name of a layer that does not take them, such as
    /// the `conv.bias` of a convolution without a bias.
    pub fn strict(mut self, is_strict: bool) -> LoadOptions {
        self.is_strict = is_strict;
        self
    }

    /// Sets the element type to which values are rounded once while they are read; f32 by default. A
    /// [model](crate::Model::load_with) stores its parameters in this type.
    pub fn dtype(mut self, dtype: DType) -> LoadOptions {
        self.dtype = dtype;
        self
    }

    /// Returns the name of the parameter that a tensor of this name provides.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let name = name.strip_prefix(self.prefix.as_str())?;
        let mut renamed = self.renames.iter().filter_map(|rule| rule.apply(name));
        renamed.next().unwrap_or_else(|| Some(name.to_owned()))
    }

    /// Returns the tensor name that would provide this parameter, if it is known and differs from the
    /// parameter's.
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

    /// Returns the parameter's name if a rule changed it, so that it differs from the tensor's name without
    /// prefix.
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
