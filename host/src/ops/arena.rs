//! Where operators get their outputs and workspaces from.

use crate::device::{DType, Stream, Tensor};
use crate::error::Result;

/// The source of an operator's tensors: fresh memory, or the memory of the run before.
///
/// A plan runs the same operators on the same shapes again and again. Keeping the tensors of its first run and handing
/// the same ones out, in the same order, in every later run makes those runs free of allocation without a second version
/// of any operator. All of it happens on one stream, so a run never overwrites what an earlier one still reads.
///
/// The one tensor that differs from run to run is the output: the caller brings it.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    kept: Option<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Tensors in the order of their allocation; `None` where the caller's output goes.
    tensors: Vec<Option<Tensor>>,
    next: usize,
    output: Option<Tensor>,
}

impl Arena {
    /// Fresh memory for every tensor.
    pub(crate) fn fresh() -> Arena {
        Arena { kept: None }
    }

    /// Memory that is kept for the next run.
    pub(crate) fn kept() -> Arena {
        Arena {
            kept: Some(Kept::default()),
        }
    }

    /// Lets go of the first run's output; from now on the caller brings that tensor.
    pub(crate) fn give_away(&mut self, output: &Tensor) {
        for tensor in self.kept.iter_mut().flat_map(|kept| &mut kept.tensors) {
            tensor.take_if(|tensor| tensor.shares_memory(output));
        }
    }

    /// Starts the next run, which writes to `output`.
    pub(crate) fn rewind(&mut self, output: &Tensor) {
        if let Some(kept) = &mut self.kept {
            (kept.next, kept.output) = (0, Some(output.clone()));
        }
    }

    /// Ends a run: the output is the caller's alone again.
    pub(crate) fn take_back(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.output = None;
        }
    }

    /// Bytes that are kept between runs.
    pub(crate) fn bytes(&self) -> u64 {
        self.kept
            .iter()
            .flat_map(|kept| &kept.tensors)
            .flatten()
            .map(Tensor::bytes)
            .sum()
    }

    /// A tensor of unspecified content.
    pub(crate) fn tensor(
        &mut self,
        stream: &Stream,
        shape: &[usize],
        dtype: DType,
    ) -> Result<Tensor> {
        let Some(kept) = &mut self.kept else {
            return Tensor::uninit(stream, shape, dtype);
        };
        if kept.next == kept.tensors.len() {
            kept.tensors
                .push(Some(Tensor::uninit(stream, shape, dtype)?));
        }
        let slot = kept.tensors[kept.next].as_ref().or(kept.output.as_ref());
        let tensor = slot
            .expect("a run with an empty slot was given its output")
            .clone();
        // Shapes alone decide what operators allocate, and a plan's shapes are fixed.
        assert_eq!(
            (tensor.shape(), tensor.dtype()),
            (shape, dtype),
            "a run repeats the first one"
        );
        kept.next += 1;
        Ok(tensor)
    }
}
