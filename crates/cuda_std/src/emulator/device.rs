//! Emulated devices, their memory, and launches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fault::{Fault, FaultKind};
use super::region::{Name, Region};
use super::{launch, stamp, worker};
use crate::{Instance, Kernel, KernelArgs};

/// An emulated device. Clones are the same device.
///
/// Launches and transfers of one device wait for each other; different devices run at the same time
/// on different OS threads.
#[derive(Debug, Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

/// An allocation of an emulated device, uninitialised at first, freed when dropped.
#[derive(Debug)]
pub struct Buffer {
    device: Device,
    address: usize,
    bytes: usize,
}

/// The shape of a launch, and how to run it.
///
/// ```
/// # use cuda_std::emulator::Launch;
/// let launch = Launch { grid: [4, 1, 1], block: [256, 1, 1], ..Launch::default() };
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Shuffles the order in which blocks (or clusters), their threads, and the threads that a
    /// barrier wakes run. `None` is the order of indices.
    pub seed: Option<u64>,
    /// The most steps that the launch may take; a step is a call into this crate.
    pub step_limit: u64,
    /// The most processor time that may pass without about 4096 steps. It ends loops that never
    /// call into this crate.
    pub progress_limit: Duration,
}

impl Default for Launch {
    /// One thread, no shared memory, natural order, 2⁴⁰ steps, 10 seconds.
    fn default() -> Self {
        Self {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            seed: None,
            step_limit: 1 << 40,
            progress_limit: Duration::from_secs(10),
        }
    }
}

/// What a launch did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls into this crate that count as steps.
    pub steps: u64,
    /// Blocks that ran.
    pub blocks: u64,
    /// Threads that ran.
    pub threads: u64,
    /// Bytes read from global memory, other than atomically. The source of a `cp.async` counts.
    pub global_load_bytes: u64,
    /// Bytes written to global memory, other than atomically.
    pub global_store_bytes: u64,
    /// Bytes read from shared memory, other than atomically.
    pub shared_load_bytes: u64,
    /// Bytes written to shared memory, other than atomically.
    pub shared_store_bytes: u64,
    /// Atomic accesses.
    pub atomics: u64,
    /// Barriers that opened: of a block, named, of a cluster, or phases of transaction barriers.
    pub barriers: u64,
    /// Warp operations, each counted once for all its lanes.
    pub warp_operations: u64,
    /// Fences, counted per thread.
    pub fences: u64,
    /// `cp.async` and bulk copies and `st.async` stores, counted per thread.
    pub async_copies: u64,
    /// Bytes of shared memory that a block had, static and dynamic.
    pub shared_bytes: u64,
}

#[derive(Debug)]
struct Inner {
    slot: Mutex<Slot>,
}

#[derive(Debug)]
struct Slot {
    /// Lent to the worker during a launch; gone for good if the launch could not be stopped.
    memory: Option<Box<Memory>>,
    worker: Option<worker::Worker>,
}

/// The allocations of a device, and its clock.
#[derive(Debug)]
pub(crate) struct Memory {
    regions: BTreeMap<usize, Box<Region>>,
    allocated: u64,
    used: u64,
    limit: u64,
    /// See `stamp`.
    pub(crate) now: u64,
}

impl Memory {
    /// The allocation that contains `address`, or ends there.
    pub(crate) fn find(&self, address: usize) -> Option<&Region> {
        let (_, region) = self.regions.range(..=address).next_back()?;
        (address <= region.base + region.len()).then_some(region)
    }

    /// Lets the clock start again before its stamps run out.
    pub(crate) fn wind_clock(&mut self) {
        const ENOUGH: u64 = 1 << 32;
        if self.now < ENOUGH {
            return;
        }
        self.regions
            .values()
            .for_each(|region| region.restart_clock());
        self.now = stamp::time(stamp::HOST);
    }
}

impl Default for Device {
    fn default() -> Self {
        Self::new()
    }
}

impl Device {
    /// Bytes that [`Self::new`] gives a device: 2 GiB. The shadow memory takes up to six times what
    /// is used.
    pub const DEFAULT_MEMORY: u64 = 2 << 30;

    /// A device with [`Self::DEFAULT_MEMORY`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_memory(Self::DEFAULT_MEMORY)
    }

    /// A device with `bytes` bytes of global memory.
    #[must_use]
    pub fn with_memory(bytes: u64) -> Self {
        let now = stamp::time(stamp::HOST);
        let memory = Memory {
            regions: BTreeMap::new(),
            allocated: 0,
            used: 0,
            limit: bytes,
            now,
        };
        let slot = Slot {
            memory: Some(Box::new(memory)),
            worker: None,
        };
        Self {
            inner: Arc::new(Inner {
                slot: Mutex::new(slot),
            }),
        }
    }

    /// Allocates `bytes` uninitialised bytes, aligned to 256.
    ///
    /// # Errors
    /// [`FaultKind::OutOfMemory`], [`FaultKind::DeviceLost`].
    pub fn alloc(&self, bytes: usize) -> Result<Buffer, Fault> {
        let mut slot = self.lock();
        let memory = slot.memory.as_mut().ok_or_else(lost)?;
        let too_much = || {
            let (used, limit) = (memory.used, memory.limit);
            Fault::on_host(FaultKind::OutOfMemory {
                bytes: bytes as u64,
                used,
                limit,
            })
        };
        if memory
            .used
            .checked_add(bytes as u64)
            .is_none_or(|sum| sum > memory.limit)
        {
            return Err(too_much());
        }
        let region =
            Region::new(Name::Allocation(memory.allocated), bytes, None).ok_or_else(too_much)?;
        memory.allocated += 1;
        memory.used += bytes as u64;
        let address = region.base;
        memory.regions.insert(address, Box::new(region));
        Ok(Buffer {
            device: self.clone(),
            address,
            bytes,
        })
    }

    /// [`Self::launch_instance`] of the kernel that `K` is.
    ///
    /// # Errors
    /// As there.
    pub fn launch<K: Kernel>(&self, launch: &Launch, arguments: K::Args) -> Result<Stats, Fault> {
        self.launch_instance(&Instance::of::<K>(), launch, arguments)
    }

    /// Runs a kernel to its end.
    ///
    /// The same launch with the same seed and memory gives the same result, and the same fault.
    ///
    /// # Errors
    /// The first fault. What the kernel wrote before it stays written; the device can be used
    /// again, unless the fault is [`FaultKind::DeviceLost`].
    pub fn launch_instance<A: KernelArgs>(
        &self,
        kernel: &Instance<A>,
        launch: &Launch,
        arguments: A,
    ) -> Result<Stats, Fault> {
        launch::validate(kernel, launch)?;
        let slot = &mut *self.lock();
        let memory = slot.memory.take().ok_or_else(lost)?;
        let job = launch::job(kernel, launch.clone(), arguments);
        let outcome = worker::run(&mut slot.worker, memory, job, launch.progress_limit);
        match outcome {
            Ok((memory, result)) => {
                slot.memory = Some(memory);
                result
            }
            Err(kind) => Err(Fault {
                kernel: Some(kernel.name()),
                ..Fault::on_host(kind)
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        // The slot is whole at every point where a panic could happen while it is locked.
        self.inner
            .slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost() -> Fault {
    Fault::on_host(FaultKind::DeviceLost)
}

impl Buffer {
    /// The address of the first byte, as a kernel gets it.
    #[must_use]
    pub fn ptr<T>(&self) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies `bytes` to the allocation, from byte `offset` on.
    ///
    /// # Errors
    /// [`FaultKind::OutsideAllocation`], [`FaultKind::DeviceLost`].
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Fault> {
        self.with_region("host write", offset, bytes.len(), |region| {
            // SAFETY: offset + len <= region.len(), and nobody else has the region while the device
            // is locked.
            unsafe {
                region
                    .data()
                    .add(offset)
                    .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
            };
            region.host_wrote(offset, bytes.len());
            Ok(())
        })
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// [`FaultKind::DeviceLost`].
    pub fn fill(&self, byte: u8) -> Result<(), Fault> {
        self.with_region("host write", 0, self.bytes, |region| {
            // SAFETY: the region has this many bytes, and nobody else has it while the device is
            // locked.
            unsafe { region.data().write_bytes(byte, self.bytes) };
            region.host_wrote(0, self.bytes);
            Ok(())
        })
    }

    /// Copies bytes from the allocation, from byte `offset` on.
    ///
    /// # Errors
    /// [`FaultKind::OutsideAllocation`]; [`FaultKind::Uninitialized`] if one of the bytes was never
    /// written: a kernel that leaves out a part of its output is found here;
    /// [`FaultKind::DeviceLost`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Fault> {
        self.with_region("host read", offset, bytes.len(), |region| {
            if let Some(byte) = region.first_uninitialised(offset, bytes.len()) {
                let object = super::exec::describe(region);
                let kind = FaultKind::Uninitialized {
                    what: "host read",
                    object,
                    offset: byte as u64,
                };
                return Err(Fault::on_host(kind));
            }
            // SAFETY: offset + len <= region.len(), and nobody else has the region while the device
            // is locked.
            unsafe {
                region
                    .data()
                    .add(offset)
                    .copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len())
            };
            Ok(())
        })
    }

    fn with_region(
        &self,
        what: &'static str,
        offset: usize,
        len: usize,
        f: impl FnOnce(&Region) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let slot = self.device.lock();
        let memory = slot.memory.as_ref().ok_or_else(lost)?;
        let region = memory.regions.get(&self.address).ok_or_else(lost)?;
        if offset.checked_add(len).is_none_or(|end| end > self.bytes) {
            let object = super::exec::describe(region);
            let (start, end) = (offset as i64, (offset as i64).saturating_add(len as i64));
            let kind = FaultKind::OutsideAllocation {
                what,
                object,
                start,
                end,
            };
            return Err(Fault::on_host(kind));
        }
        f(region)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut slot = self.device.lock();
        if let Some(memory) = &mut slot.memory
            && memory.regions.remove(&self.address).is_some()
        {
            memory.used -= self.bytes as u64;
        }
    }
}
