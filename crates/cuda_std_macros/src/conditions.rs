//! `cfg` conditions on arguments, instances and values.

use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Result};

/// Parses the `cfg` conditions before an argument or a value.
pub(crate) fn cfgs(input: ParseStream) -> Result<Vec<Attribute>> {
    let attributes = input.call(Attribute::parse_outer)?;
    match attributes
        .iter()
        .find(|attribute| !attribute.path().is_ident("cfg"))
    {
        Some(other) => Err(Error::new(
            other.span(),
            "kernel: the only attribute here is `cfg`",
        )),
        None => Ok(attributes),
    }
}
