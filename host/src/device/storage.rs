//! The memory behind a tensor, on each kind of device.

use super::emulator::EmulatedBuffer;
use super::gpu::GpuBuffer;
use crate::dtype::{DType, Element, as_bytes, as_bytes_mut, bf16, f16};
use crate::error::{Error, Result};

/// A tensor's elements.
pub(crate) enum Storage {
    Host(HostBuffer),
    Emulated(EmulatedBuffer),
    Gpu(GpuBuffer),
}

impl Storage {
    /// Overwrites all bytes, and returns when `source` has been read.
    pub(crate) fn write(&mut self, source: &[u8]) -> Result<()> {
        match self {
            Storage::Host(host) => host.bytes_mut().copy_from_slice(source),
            Storage::Emulated(buffer) => buffer.write(source)?,
            Storage::Gpu(buffer) => buffer.write(source)?,
        }
        Ok(())
    }
}

/// Elements in the CPU backend's memory.
pub(crate) enum HostBuffer {
    F32(Vec<f32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
}

impl HostBuffer {
    /// Zeros. Memory that the system refuses, or does not have, is an error, not an abort.
    pub(crate) fn zeros(dtype: DType, len: usize) -> Result<HostBuffer> {
        fn zeros<T: Element>(len: usize) -> Result<Vec<T>> {
            let requested = (len as u64).saturating_mul(size_of::<T>() as u64);
            let refused = |available| Error::OutOfMemory {
                device: "cpu".to_owned(),
                requested,
                available,
            };
            // A system that overcommits grants any request, and kills the process when it writes.
            if let Some(total) = system_memory().filter(|&total| requested > total) {
                return Err(refused(format!("the machine has {total} bytes")));
            }
            let mut values = Vec::new();
            values
                .try_reserve_exact(len)
                .map_err(|_| refused("the system refused".to_owned()))?;
            values.resize(len, T::default());
            Ok(values)
        }
        Ok(match dtype {
            DType::F32 => HostBuffer::F32(zeros(len)?),
            DType::F16 => HostBuffer::F16(zeros(len)?),
            DType::BF16 => HostBuffer::BF16(zeros(len)?),
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            HostBuffer::F32(values) => as_bytes(values),
            HostBuffer::F16(values) => as_bytes(values),
            HostBuffer::BF16(values) => as_bytes(values),
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            HostBuffer::F32(values) => as_bytes_mut(values),
            HostBuffer::F16(values) => as_bytes_mut(values),
            HostBuffer::BF16(values) => as_bytes_mut(values),
        }
    }
}

/// Bytes of memory and swap, where `/proc/meminfo` tells.
fn system_memory() -> Option<u64> {
    let report = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |name| {
        let line = report.lines().find(|line| line.starts_with(name))?;
        line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some((kib("MemTotal:")? + kib("SwapTotal:").unwrap_or(0)) << 10)
}
