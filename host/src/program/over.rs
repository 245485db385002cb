//! Runs over memory that the caller passes by address.

use super::concurrent::{Access, launch_side_by_side};
use super::{Place, Program, Step, ValueFacts};
use crate::device::Stream;
use crate::device::raw::RawPointer;
use crate::error::Result;

impl Program {
    /// Queues the launches over raw addresses. `further` are the inputs after the first `inputs`. With
    /// [other streams](other_streams), launches that do not depend on each other are concurrent; `stream` is
    /// in capture then.
    ///
    /// # Safety
    /// There is an address for each input and for the one output. Inputs have the layouts of the program. The
    /// output is dense in the layout of its value, aligned to 16 bytes, with its shape and element type. The
    /// workspace has `workspace_bytes`, aligned to 256 bytes. All memory is on the stream's device, and no
    /// two parts overlap. Inputs and parameters were written in the stream's order, and the parameters live
    /// until the launches are complete.
    pub(crate) unsafe fn launch_over(
        &self,
        stream: &Stream,
        others: &[Stream],
        [inputs, further]: [&[RawPointer]; 2],
        outputs: &[RawPointer],
        workspace: RawPointer,
    ) -> Result<()> {
        let input = |index: usize| match inputs.get(index) {
            Some(input) => *input,
            None => further[index - inputs.len()],
        };
        let address = |facts: &ValueFacts| match facts.place {
            _ if facts.bytes == 0 || facts.life.is_none() => std::ptr::null_mut(),
            Place::Input(index) => input(index).cast(),
            Place::Parameter(index) => self.parameters[index].reading().pointer::<u8>().cast_mut(),
            Place::Output(index) => outputs[index].cast(),
            Place::Workspace(offset) => workspace.cast::<u8>().wrapping_add(offset as usize),
        };
        let addresses: Vec<*mut u8> = self.values.iter().map(address).collect();
        let launch = |step: &Step, stream: &Stream| {
            // SAFETY: the caller's promise; `pack` gave each value of the workspace its bytes, and the
            // builder checked that an earlier step writes everything else before it is read.
            unsafe { step.launch.launch(stream, step.shape, &addresses)? };
            stream.moved(step.bytes_moved);
            Ok(())
        };
        if others.is_empty() {
            return self.steps.iter().try_for_each(|step| launch(step, stream));
        }
        launch_side_by_side(
            stream,
            others,
            &self.accesses(&addresses),
            |index, stream| launch(&self.steps[index], stream),
        )
    }

    /// Returns the memory that each launch accesses, if the values have these addresses.
    pub(super) fn accesses(&self, addresses: &[*mut u8]) -> Vec<Vec<Access>> {
        let of_step = |step: &Step| {
            let each = step.uses.iter().map(|&(value, is_written)| {
                let start = addresses[value.0].addr();
                let bytes = start..start + self.values[value.0].bytes as usize;
                Access { bytes, is_written }
            });
            each.collect()
        };
        self.steps.iter().map(of_step).collect()
    }
}
