//! Parameters that a program renews.

use super::ProgramBuilder;
use crate::program::Value;

impl ProgramBuilder {
    /// Notes that a parameter is renewed: `new` is to take its place.
    pub(crate) fn renew(&mut self, parameter: Value, new: Value) {
        self.renewed.push([parameter, new]);
    }

    /// What takes a parameter's place by now, if it was renewed.
    pub(crate) fn renewed(&self, parameter: Value) -> Option<Value> {
        let mut renewed = self.renewed.iter().rev();
        renewed.find_map(|&[of, new]| (of == parameter).then_some(new))
    }
}
