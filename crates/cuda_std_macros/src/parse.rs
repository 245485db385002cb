//! The arguments in the parentheses of `#[kernel(..)]`.

use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, Result, Token};

use crate::conditions::cfgs;
use crate::instances::List;

/// Lists of instances, and launch bounds.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) lists: Vec<List>,
    pub(crate) max_threads: Option<Expr>,
    pub(crate) min_blocks: Option<Expr>,
    pub(crate) cluster_blocks: Option<Expr>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut arguments = Self::default();
        while !input.is_empty() {
            let cfgs = cfgs(input)?;
            let name: Ident = input.parse()?;
            if name == "instances" {
                arguments.lists.push(List::parse(cfgs, input)?);
            } else {
                if let Some(cfg) = cfgs.first() {
                    let message =
                        format!("kernel: `{name}` has a condition, which only instances can have");
                    return Err(Error::new(cfg.span(), message));
                }
                arguments.parse_bound(&name, input)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        arguments.check_bounds()?;
        Ok(arguments)
    }
}

impl Arguments {
    /// Parses the rest of `name = expression`.
    fn parse_bound(&mut self, name: &Ident, input: ParseStream) -> Result<()> {
        let slot = match name.to_string().as_str() {
            "max_threads" => &mut self.max_threads,
            "min_blocks" => &mut self.min_blocks,
            "cluster_blocks" => &mut self.cluster_blocks,
            other => {
                let message = format!(
                    "kernel: argument is `{other}`, which is none of `instances`, `max_threads`, `min_blocks`, \
                     `cluster_blocks`"
                );
                return Err(Error::new(name.span(), message));
            }
        };
        if slot.is_some() {
            let message = format!("kernel: `{name}` is given twice");
            return Err(Error::new(name.span(), message));
        }
        input.parse::<Token![=]>()?;
        *slot = Some(input.parse()?);
        Ok(())
    }

    fn check_bounds(&self) -> Result<()> {
        if self.max_threads.is_some() {
            return Ok(());
        }
        for (name, given) in [
            ("min_blocks", &self.min_blocks),
            ("cluster_blocks", &self.cluster_blocks),
        ] {
            if let Some(blocks) = given {
                let message = format!(
                    "kernel: `{name}` is given without `max_threads`, which it needs beside it"
                );
                return Err(Error::new(blocks.span(), message));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use syn::parse_str;

    #[test]
    fn bounds_are_optional_expressions() {
        let arguments: Arguments = parse_str("max_threads = 2 * 64, min_blocks = N").unwrap();
        assert!(arguments.max_threads.is_some() && arguments.min_blocks.is_some());
        let arguments: Arguments = parse_str("").unwrap();
        assert!(arguments.max_threads.is_none() && arguments.min_blocks.is_none());
    }

    #[test]
    fn lists_stand_in_any_number_among_the_bounds() {
        let text =
            "instances(T: [f32]), max_threads = 1, #[cfg(a)] instances(T: [f16, #[cfg(b)] bf16]),";
        let arguments: Arguments = parse_str(text).unwrap();
        assert_eq!(arguments.lists.len(), 2);
    }

    #[test]
    fn unknown_repeated_and_dangling_arguments_are_refused() {
        let refusal = |text| parse_str::<Arguments>(text).err().expect(text).to_string();
        assert!(refusal("threads = 1").contains("`threads`"));
        assert!(refusal("max_threads = 1, max_threads = 2").contains("twice"));
        assert!(refusal("min_blocks = 2").contains("without `max_threads`"));
        assert!(refusal("#[cfg(a)] max_threads = 2").contains("condition"));
        assert!(refusal("#[inline] instances(T: [f32])").contains("`cfg`"));
        refusal("max_threads");
    }
}
