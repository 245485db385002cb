//! Launches of the kernels that run one unit of the device at its peak, and checks of their results.

use convfuse::{DType, Device, Error, Result, Stream, Tensor, lab};
use kernels_gpu::peak::{PEAK_COPY_F32, PEAK_FMA_F32, PEAK_MMA, PEAK_WGMMA_F16};
use launch_config::peak::{
    self, BLOCK_THREADS, CHAINS, FMA_UNROLL, MMA_LANE_ELEMENTS, MMA_UNROLL, WGMMA_CHAINS,
    WGMMA_UNROLL, chain_start,
};
use launch_config::{LaunchShape, WARP_THREADS};
use ndarray::{ArrayD, IxDyn};

/// The reason why a measurement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CeilingsError {
    /// An error of the library.
    #[error(transparent)]
    Library(#[from] convfuse::Error),
    /// A measuring kernel stored a wrong value.
    #[error(
        "{kernel}: element {index} is {actual}, must be {expected}; the device or its driver is at fault"
    )]
    WrongPeak {
        /// The kernel's symbol.
        kernel: &'static str,
        /// The index of the element.
        index: usize,
        /// The stored value.
        actual: f32,
        /// The correct value.
        expected: f64,
    },
}

/// Copies all of `source` to `target`, which has the same length: a multiple of `COPY_BLOCK_ELEMENTS` in
/// f32.
pub(super) fn copy(stream: &Stream, source: &Tensor, target: &mut Tensor) -> Result<()> {
    const KERNEL: &str = "peak_copy_f32";
    assert_eq!(
        (source.dtype(), source.shape()),
        (DType::F32, target.shape())
    );
    assert!(source.len().is_multiple_of(peak::COPY_BLOCK_ELEMENTS));
    let elements = source.len() as u64;
    let shape = grid(KERNEL, peak::copy_shape(elements))?;
    let kernel = PEAK_COPY_F32.instance(&[])?;
    let arguments = |source: *const u8, target: *mut u8| (source.cast(), target.cast(), elements);
    // SAFETY: both have `elements` f32 elements, whole blocks; allocations start on 256 bytes and are apart.
    unsafe { lab::launch(stream, kernel, shape, Some(source), target, arguments) }
}

/// The arithmetic unit that a kernel saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// FMA in f32.
    Fma,
    /// Tensor cores on tf32.
    MmaTf32,
    /// Tensor cores on f16.
    MmaF16,
    /// Tensor cores on f16 from shared memory, a warpgroup at a time.
    WgmmaF16,
}

impl Unit {
    #[cfg(test)]
    pub(super) const ALL: [Unit; 4] = [Unit::Fma, Unit::MmaTf32, Unit::MmaF16, Unit::WgmmaF16];

    pub(super) const fn kernel(self) -> &'static str {
        match self {
            Unit::Fma => "peak_fma_f32",
            Unit::MmaTf32 => "peak_mma_tf32",
            Unit::MmaF16 => "peak_mma_f16",
            Unit::WgmmaF16 => "peak_wgmma_f16",
        }
    }

    /// Whether a device has the unit.
    pub(super) fn is_on(self, device: &Device) -> bool {
        self != Unit::WgmmaF16
            || device.is_emulator()
            || device.properties().arch.has_warpgroup_mma()
    }

    /// The length of the sum that one instruction computes (MMA K).
    const fn depth(self) -> u32 {
        match self {
            Unit::Fma => 1,
            Unit::MmaTf32 => 8,
            Unit::MmaF16 | Unit::WgmmaF16 => 16,
        }
    }

    /// The kernel's launch on a device with `processors` multiprocessors.
    pub(super) fn shape(self, processors: u32) -> Result<LaunchShape> {
        let shape = match self {
            Unit::Fma => peak::fma_shape(processors),
            Unit::MmaTf32 | Unit::MmaF16 => peak::mma_shape(processors),
            Unit::WgmmaF16 => peak::wgmma_shape(processors),
        };
        grid(self.kernel(), shape)
    }

    /// The number of values that this launch stores.
    pub(super) const fn outputs(self, shape: &LaunchShape) -> u64 {
        match self {
            Unit::Fma => peak::fma_outputs(shape),
            Unit::MmaTf32 | Unit::MmaF16 | Unit::WgmmaF16 => peak::mma_outputs(shape),
        }
    }

    /// The number of independent accumulator chains that one output sums up.
    const fn chains(self) -> usize {
        match self {
            Unit::Fma | Unit::MmaTf32 | Unit::MmaF16 => CHAINS,
            Unit::WgmmaF16 => WGMMA_CHAINS,
        }
    }

    /// The sum of the initial values of the chains.
    fn starts(self) -> f64 {
        match self {
            Unit::WgmmaF16 => 0.0,
            _ => (0..self.chains()).map(|i| f64::from(chain_start(i))).sum(),
        }
    }

    /// The number of instructions in each chain after `steps` steps.
    fn links(self, steps: u32) -> u64 {
        let unroll = match self {
            Unit::Fma => FMA_UNROLL,
            Unit::MmaTf32 | Unit::MmaF16 => MMA_UNROLL,
            Unit::WgmmaF16 => WGMMA_UNROLL,
        };
        u64::from(steps) * u64::from(unroll)
    }

    /// Multiplications and additions of one launch.
    pub(super) fn flop(self, shape: &LaunchShape, steps: u32) -> u64 {
        2 * self.outputs(shape) * self.chains() as u64 * self.links(steps) * u64::from(self.depth())
    }

    /// Launches the kernel. `y` has `outputs(shape)` f32 elements.
    pub(super) fn launch(
        self,
        stream: &Stream,
        shape: &LaunchShape,
        steps: u32,
        y: &mut Tensor,
    ) -> Result<()> {
        assert_eq!(
            (y.dtype(), y.len() as u64),
            (DType::F32, self.outputs(shape))
        );
        let shape = *shape;
        let of_steps = |_: *const u8, y: *mut u8| (y.cast(), steps);
        let kernel = match self {
            Unit::Fma => {
                let kernel = PEAK_FMA_F32.instance(&[])?;
                let arguments = |_: *const u8, y: *mut u8| (y.cast(), steps, 1.0, 1.0);
                // SAFETY: `y` has one element for each thread.
                return unsafe { lab::launch(stream, kernel, shape, None, y, arguments) };
            }
            Unit::MmaTf32 => PEAK_MMA.instance(&["tf32".into()])?,
            Unit::MmaF16 => PEAK_MMA.instance(&["f16".into()])?,
            Unit::WgmmaF16 => PEAK_WGMMA_F16.instance(&[])?,
        };
        // SAFETY: `y` has four elements for each thread.
        unsafe { lab::launch(stream, kernel, shape, None, y, of_steps) }
    }

    /// The most steps for which every sum is an integer that f32 represents exactly.
    pub(super) fn most_steps(self) -> u32 {
        let exact = 1u64 << f32::MANTISSA_DIGITS;
        let starts = self.starts() as u64;
        // The largest product of a row value and a column value.
        let gain = match self {
            Unit::Fma => 1,
            Unit::MmaTf32 | Unit::MmaF16 | Unit::WgmmaF16 => 4 * 2,
        };
        let per_step = self.chains() as u64 * self.links(1) * u64::from(self.depth()) * gain;
        ((exact - starts) / per_step) as u32
    }

    /// Checks every value that a launch stored.
    pub(super) fn check(self, steps: u32, stored: &ArrayD<f32>) -> Result<(), CeilingsError> {
        let links = self.links(steps) as f64;
        for (index, &actual) in stored.iter().enumerate() {
            let expected = self.starts() + self.chains() as f64 * links * self.gain(index);
            if f64::from(actual) != expected {
                return Err(CeilingsError::WrongPeak {
                    kernel: self.kernel(),
                    index,
                    actual,
                    expected,
                });
            }
        }
        Ok(())
    }

    /// The increment of element `index` for one instruction of one chain.
    fn gain(self, index: usize) -> f64 {
        if self == Unit::Fma {
            return 1.0;
        }
        let lane = (index / MMA_LANE_ELEMENTS) as u32 % WARP_THREADS;
        let i = (index % MMA_LANE_ELEMENTS) as u32;
        let (row, column) = (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2);
        let product = peak::mma_row_value(row) * peak::mma_column_value(column);
        f64::from(self.depth()) * f64::from(product)
    }
}

/// Creates an f32 tensor of `len` small integers.
pub(super) fn counting(stream: &Stream, len: usize) -> Result<Tensor> {
    // A prime period gives no two blocks of a copy the same values.
    const PERIOD: usize = 65_521;
    let values = ArrayD::from_shape_fn(IxDyn(&[len]), |index| (index[0] % PERIOD) as f32);
    Tensor::from_array(stream, &values)
}

fn grid(operator: &'static str, shape: Option<LaunchShape>) -> Result<LaunchShape> {
    debug_assert!(shape.is_none_or(|shape| shape.block[0] == BLOCK_THREADS));
    shape.ok_or(Error::TooManyBlocks { operator })
}

#[cfg(test)]
mod tests {
    use super::*;
    use convfuse::Device;

    #[test]
    fn chains_in_the_emulator_have_the_length_that_was_asked_for() {
        let stream = Device::emulator().stream().unwrap();
        for unit in Unit::ALL {
            let shape = LaunchShape::linear(1, BLOCK_THREADS).unwrap();
            let len = unit.outputs(&shape) as usize;
            let mut y = Tensor::zeros(&stream, &[len], DType::F32).unwrap();
            unit.launch(&stream, &shape, 1, &mut y).unwrap();
            let stored = y.to_array::<f32>().unwrap();
            unit.check(1, &stored).unwrap();
            assert!(unit.check(2, &stored).is_err(), "{unit:?}");
        }
    }

    #[test]
    fn the_work_of_a_launch_is_that_of_its_instructions() {
        let shape = LaunchShape::linear(3, BLOCK_THREADS).unwrap();
        // 8 warps a block, 8 chains of 4 links, 2 * 16 * 8 * 16 operations each.
        assert_eq!(Unit::MmaF16.flop(&shape, 5), 3 * 8 * 8 * 4 * 5 * 4096);
        // 2 warpgroups a block, 8 links, 2 * 64 * 256 * 16 operations each.
        assert_eq!(Unit::WgmmaF16.flop(&shape, 5), 3 * 2 * 8 * 5 * 524_288);
        assert_eq!(Unit::Fma.flop(&shape, 5), 3 * 256 * 8 * 32 * 5 * 2);
    }
}
