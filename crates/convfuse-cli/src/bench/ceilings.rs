//! The peak rates of a device.

use std::time::Duration;

use convfuse::{DType, Stream, Tensor};
use launch_config::peak::COPY_BLOCK_ELEMENTS;
use serde::Serialize;

use super::math_mode::MathMode;
use super::peak::{self, CeilingsError, Unit};

type Result<T, E = CeilingsError> = std::result::Result<T, E>;

/// The measured peak rate of each unit of a GPU on its own.
///
/// The measuring kernels are compiled like all other kernels. The rates are thus an upper bound for a
/// kernel, some percent below the vendor's data sheet. The fastest of several launches counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Ceilings {
    /// A copy in device memory: bytes read and bytes written, per second.
    pub copy_bytes_per_s: f64,
    /// FMA in f32, two operations each.
    pub fma_flop_per_s: f64,
    /// `mma.sync` on tf32, sums in f32.
    pub mma_tf32_flop_per_s: f64,
    /// `mma.sync` on f16, sums in f32.
    pub mma_f16_flop_per_s: f64,
    /// `wgmma` on f16 from shared memory, sums in f32; on Hopper alone.
    pub wgmma_f16_flop_per_s: Option<f64>,
}

/// The amount of work of each measurement.
struct Effort {
    copy_elements: usize,
    steps: fn(Unit) -> u32,
    launches: usize,
}

/// About a quarter of a millisecond or more on current devices, to make the few microseconds of a launch
/// negligible.
const FULL: Effort = Effort {
    copy_elements: 1 << 27,
    steps: |unit| match unit {
        Unit::Fma => 1000,
        Unit::MmaTf32 | Unit::MmaF16 => 2000,
        Unit::WgmmaF16 => 500,
    },
    launches: 12,
};

/// The least work that shows whether the kernels compute correct values.
const TRIAL: Effort = Effort {
    copy_elements: COPY_BLOCK_ELEMENTS + 1,
    steps: |_| 1,
    launches: 2,
};

impl Ceilings {
    /// Measures the stream's device. Returns `None` for other devices than a GPU, whose times say nothing
    /// about one.
    ///
    /// # Errors
    /// [`CeilingsError::WrongPeak`] if a kernel stored a wrong value; [`CeilingsError::Library`] if memory
    /// runs out or the device fails.
    pub fn measure(stream: &Stream) -> Result<Option<Ceilings>> {
        if !stream.device().is_gpu() {
            return Ok(None);
        }
        measure_with(stream, &FULL).map(Some)
    }

    /// Launches every measuring kernel of the stream's device with little work, and checks the stored
    /// values. For tests on a GPU or in the emulator.
    ///
    /// # Errors
    /// As [`measure`](Ceilings::measure).
    pub fn check(stream: &Stream) -> Result<()> {
        measure_with(stream, &TRIAL).map(drop)
    }

    /// Returns the peak operations per second of a convolution in this math mode, counting each
    /// multiplication and addition of its definition once.
    ///
    /// The accurate mode uses FMA units, or three f16 products for each product. The fast mode has 11
    /// significant bits, as both tf32 and scaled f16 have.
    #[must_use]
    pub fn flop_per_s(&self, math_mode: MathMode) -> f64 {
        match math_mode {
            MathMode::Accurate => self.fma_flop_per_s.max(self.f16_flop_per_s() / 3.0),
            MathMode::Fast => self.mma_tf32_flop_per_s.max(self.f16_flop_per_s()),
            MathMode::Half => self.f16_flop_per_s(),
        }
    }

    /// Returns the higher of the `mma.sync` and `wgmma` rates for f16.
    fn f16_flop_per_s(&self) -> f64 {
        let wgmma = self.wgmma_f16_flop_per_s.unwrap_or(0.0);
        self.mma_f16_flop_per_s.max(wgmma)
    }

    /// Returns the names and rates of the arithmetic units that the device has.
    pub fn arithmetic(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [
            ("FMA f32", Some(self.fma_flop_per_s)),
            ("mma.sync tf32", Some(self.mma_tf32_flop_per_s)),
            ("mma.sync f16", Some(self.mma_f16_flop_per_s)),
            ("wgmma f16", self.wgmma_f16_flop_per_s),
        ];
        let known = |(name, speed): (_, Option<f64>)| speed.map(|speed| (name, speed));
        all.into_iter().filter_map(known)
    }

    /// Returns the least time for work that moves `bytes` bytes and does `flop` operations.
    #[must_use]
    pub fn floor_s(&self, bytes: u64, flop: u64, math_mode: MathMode) -> f64 {
        let memory = bytes as f64 / self.copy_bytes_per_s;
        let arithmetic = flop as f64 / self.flop_per_s(math_mode);
        memory.max(arithmetic)
    }
}

fn measure_with(stream: &Stream, effort: &Effort) -> Result<Ceilings> {
    let speed = |unit| arithmetic(stream, unit, effort);
    let has_wgmma = Unit::WgmmaF16.is_on(stream.device());
    Ok(Ceilings {
        copy_bytes_per_s: bandwidth(stream, effort.copy_elements, effort.launches)?,
        fma_flop_per_s: speed(Unit::Fma)?,
        mma_tf32_flop_per_s: speed(Unit::MmaTf32)?,
        mma_f16_flop_per_s: speed(Unit::MmaF16)?,
        wgmma_f16_flop_per_s: has_wgmma.then(|| speed(Unit::WgmmaF16)).transpose()?,
    })
}

fn bandwidth(stream: &Stream, elements: usize, launches: usize) -> Result<f64> {
    let elements = elements.next_multiple_of(COPY_BLOCK_ELEMENTS);
    let source = peak::counting(stream, elements)?;
    let mut target = Tensor::zeros(stream, &[elements], DType::F32)?;
    let time = fastest(stream, launches, || {
        peak::copy(stream, &source, &mut target)
    })?;
    let (expected, stored) = (source.to_array::<f32>()?, target.to_array::<f32>()?);
    let pairs = stored.iter().zip(&expected);
    for (index, (&actual, &expected)) in pairs.enumerate() {
        if actual != expected {
            return Err(CeilingsError::WrongPeak {
                kernel: "peak_copy_f32",
                index,
                actual,
                expected: f64::from(expected),
            });
        }
    }
    Ok((source.bytes() + target.bytes()) as f64 / time.as_secs_f64())
}

fn arithmetic(stream: &Stream, unit: Unit, effort: &Effort) -> Result<f64> {
    let shape = unit.shape(stream.device().info().processors)?;
    let steps = (effort.steps)(unit);
    debug_assert!(steps <= unit.most_steps());
    let mut y = Tensor::zeros(stream, &[unit.outputs(&shape) as usize], DType::F32)?;
    let time = fastest(stream, effort.launches, || {
        unit.launch(stream, &shape, steps, &mut y)
    })?;
    unit.check(steps, &y.to_array::<f32>()?)?;
    Ok(unit.flop(&shape, steps) as f64 / time.as_secs_f64())
}

/// Returns the time of the fastest of several launches. The first ones run at a low device clock.
fn fastest(
    stream: &Stream,
    launches: usize,
    mut launch: impl FnMut() -> convfuse::Result<()>,
) -> convfuse::Result<Duration> {
    let mut fastest = Duration::MAX;
    for _ in 0..launches.max(1) {
        let start = stream.record()?;
        launch()?;
        fastest = fastest.min(stream.record()?.since(&start)?);
    }
    // A clock without progress must not cause a division by zero.
    Ok(fastest.max(Duration::from_nanos(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use convfuse::Device;

    const ROUND: Ceilings = Ceilings {
        copy_bytes_per_s: 4e12,
        fma_flop_per_s: 60e12,
        mma_tf32_flop_per_s: 300e12,
        mma_f16_flop_per_s: 600e12,
        wgmma_f16_flop_per_s: None,
    };

    #[test]
    fn the_emulator_runs_every_measurement() {
        let stream = Device::emulator().stream().unwrap();
        let ceilings = measure_with(&stream, &TRIAL).unwrap();
        assert!(ceilings.copy_bytes_per_s > 0.0);
        assert_eq!(ceilings.arithmetic().count(), Unit::ALL.len());
        assert!(ceilings.arithmetic().all(|(_, speed)| speed > 0.0));
    }

    #[test]
    fn only_a_gpu_has_ceilings() {
        for device in [Device::cpu(), Device::emulator()] {
            let stream = device.stream().unwrap();
            assert_eq!(Ceilings::measure(&stream).unwrap(), None);
        }
    }

    #[test]
    fn full_effort_stays_exact() {
        for unit in Unit::ALL {
            assert!((FULL.steps)(unit) <= unit.most_steps(), "{unit:?}");
        }
    }

    #[test]
    fn the_slower_of_memory_and_arithmetic_is_the_floor() {
        assert_eq!(ROUND.floor_s(4_000_000, 1, MathMode::Half), 1e-6);
        assert_eq!(ROUND.floor_s(1, 600_000_000, MathMode::Half), 1e-6);
        assert_eq!(ROUND.flop_per_s(MathMode::Accurate), 200e12);
        assert_eq!(ROUND.flop_per_s(MathMode::Fast), 600e12);
        let hopper = Ceilings {
            wgmma_f16_flop_per_s: Some(900e12),
            ..ROUND
        };
        assert_eq!(hopper.flop_per_s(MathMode::Half), 900e12);
        assert_eq!(hopper.flop_per_s(MathMode::Accurate), 300e12);
    }
}
