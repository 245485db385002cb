//! The lists of functions through which an implicit GEMM stores its results.

use super::ImplicitGemm;
use crate::device::DType;
use launch_config::VECTOR_ELEMENTS;
use launch_config::implicit_gemm::sm90::MainloopConfig;
use launch_config::implicit_gemm::{OperandFormat, RoundedEpilogue};
use launch_config::pointwise::{Function, OperandList};
use op_spec::Layout;

impl ImplicitGemm {
    /// Whether the kernels can store results of a type through this list. Warp-specialized tiles support a
    /// residual in NCHW, if rows are whole vectors, and in 16-bit NHWC stores. They support kept values in
    /// NCHW, of 16-bit types only where warpgroups share a tile: no test runs the other stores with them. In
    /// f32 a value is kept behind the residual alone.
    pub(crate) fn can_store(&self, list: &OperandList, dtype: DType) -> bool {
        if self.stores_rounded(list, dtype) {
            return true;
        }
        let is_tested = |mainloop: &MainloopConfig| dtype == DType::F32 || mainloop.shares_tile();
        let keeps = !list.functions.keeps().is_present()
            || self.writes() == Layout::Nchw && self.mainloop.as_ref().is_none_or(is_tested);
        let adds = self.adds_vectors() && !(dtype == DType::F32 && keeps_before_residual(list));
        (!list.has_residual() || adds) && keeps
    }

    /// Whether an NCHW store can load a residual as vectors of four elements.
    fn adds_vectors(&self) -> bool {
        let g = &self.config.geometry;
        let are_vectors = match self.is_shuffled() {
            true => g.epilogue.is_shuffled_to_vectors(),
            false => g.neighbours().is_multiple_of(VECTOR_ELEMENTS as u32),
        };
        let stores_nchw = self.writes() == Layout::Nchw && self.reduced.is_none();
        stores_nchw && self.mainloop.is_some() && are_vectors
    }

    /// Whether the kernels [can](Self::can_store) store results through this list faster than a launch for
    /// it (`docs/tuning.md`). In the few warps of a warp-specialized tile, an exponential takes up to the
    /// time of that launch, unless it is coarse and the launch moves f32. Gain and shift save a second one.
    pub(crate) fn stores(&self, list: &OperandList, dtype: DType) -> bool {
        if self.stores_rounded(list, dtype) {
            return true;
        }
        let steps = &list.functions.steps()[..list.functions.len()];
        let exponentials = (steps.iter()).filter(|step| step.function.has_exponential());
        let affine = 2 * usize::from(list.is_affine());
        let is_quick = match &self.mainloop {
            Some(_) if self.reduced.is_some() => true,
            // Values of 16 bits move too little, unless gain and shift would need a further launch.
            Some(_) if list.has_residual() && dtype != DType::F32 => {
                self.is_shuffled() && affine > 0
            }
            Some(_) if self.config.format == OperandFormat::SCALED_F16 => true,
            Some(_) => exponentials.count() <= 1 + affine,
            None => true,
        };
        is_quick && self.can_store(list, dtype)
    }

    /// Whether the list is applied to rounded results as they are written.
    fn stores_rounded(&self, list: &OperandList, dtype: DType) -> bool {
        self.lists(list, dtype).1 != RoundedEpilogue::NONE
    }

    /// Splits a list into the part for accumulators, and the part for results as they are written.
    pub(super) fn lists(&self, list: &OperandList, dtype: DType) -> (OperandList, RoundedEpilogue) {
        let writes_halves = self.writes() == Layout::Nhwc && dtype != DType::F32;
        match RoundedEpilogue::of(list).filter(|_| writes_halves) {
            Some(rounded) => (OperandList::EMPTY, rounded),
            None => (*list, RoundedEpilogue::NONE),
        }
    }
}

/// Whether a list keeps a value before it adds its residual. In f32, the store keeps both in the same place
/// of the staged tile.
fn keeps_before_residual(list: &OperandList) -> bool {
    let mut before = list
        .functions
        .steps()
        .iter()
        .take(list.residual_at as usize);
    list.has_residual() && before.any(|step| step.function == Function::Keep)
}
