//! Parameters that a program renews.

use super::ProgramBuilder;
use crate::program::Value;

impl ProgramBuilder {
    /// Records that the value `new` replaces a parameter.
    pub(crate) fn renew(&mut self, parameter: Value, new: Value) {
        self.renewed.push([parameter, new]);
    }

    /// Returns the latest replacement of a parameter, if it was renewed.
    pub(crate) fn renewed(&self, parameter: Value) -> Option<Value> {
        let mut renewed = self.renewed.iter().rev();
        renewed.find_map(|&[of, new]| (of == parameter).then_some(new))
    }
}
