//! Emulated devices and their buffers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fault::{Fault, FaultKind};
use super::launch::{Launch, Stats};
use super::memory::Memory;
use super::region::{Contents, Region};
use super::run::Call;
use super::worker;
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

#[derive(Debug)]
struct Inner {
    slot: Mutex<Slot>,
}

#[derive(Debug)]
struct Slot {
    /// Lent to the worker during a launch; lost if the launch could not be stopped.
    memory: Option<Box<Memory>>,
    worker: Option<worker::Worker>,
}

impl Default for Device {
    fn default() -> Self {
        Self::new()
    }
}

impl Device {
    /// Bytes of global memory of a device from [`Self::new`]: 2 GiB. Shadow memory takes up to six times the
    /// bytes in use.
    pub const DEFAULT_MEMORY: u64 = 2 << 30;

    /// A device with [`Self::DEFAULT_MEMORY`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_memory(Self::DEFAULT_MEMORY)
    }

    /// A device with `bytes` bytes of global memory.
    #[must_use]
    pub fn with_memory(bytes: u64) -> Self {
        let slot = Slot {
            memory: Some(Box::new(Memory::new(bytes))),
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
        self.make(bytes, |memory| memory.alloc(bytes))
    }

    /// Allocates `bytes` uninitialised bytes. They take host memory only where they are touched, and do not
    /// count towards the device's limit. A kernel can thus get tensors that exceed the host's memory and
    /// run some of its blocks ([`Launch::only`]), which finds index types that are too narrow. Accesses
    /// must have at least `element_bytes` bytes.
    ///
    /// # Errors
    /// [`FaultKind::OutOfMemory`] if the system does not reserve the addresses, as on systems without
    /// overcommit, or other than Linux and macOS; [`FaultKind::DeviceLost`].
    pub fn alloc_sparse(&self, bytes: usize, element_bytes: usize) -> Result<Buffer, Fault> {
        self.make(bytes, |memory| {
            memory.alloc_sparse(bytes, element_bytes, None)
        })
    }

    /// Allocates as [`Self::alloc_sparse`], with initialised bytes. `contents` computes the bytes of at
    /// most one element when they are first read, from the offset of the first byte. It must give the same
    /// bytes each time.
    ///
    /// # Errors
    /// As for [`Self::alloc_sparse`].
    pub fn alloc_computed(
        &self,
        bytes: usize,
        element_bytes: usize,
        contents: impl Fn(usize, &mut [u8]) + Send + Sync + 'static,
    ) -> Result<Buffer, Fault> {
        let contents = Some(Contents(Arc::new(contents)));
        self.make(bytes, |memory| {
            memory.alloc_sparse(bytes, element_bytes, contents)
        })
    }

    /// The allocation that `alloc` makes.
    fn make(
        &self,
        bytes: usize,
        alloc: impl FnOnce(&mut Memory) -> Result<usize, Fault>,
    ) -> Result<Buffer, Fault> {
        let mut slot = self.lock();
        let address = alloc(slot.memory.as_mut().ok_or_else(lost)?)?;
        Ok(Buffer {
            device: self.clone(),
            address,
            bytes,
        })
    }

    /// Runs kernel `K` with [`Self::launch_instance`].
    ///
    /// # Errors
    /// As for [`Self::launch_instance`].
    ///
    /// # Safety
    /// As for [`Self::launch_instance`].
    pub unsafe fn launch<K: Kernel>(
        &self,
        launch: &Launch,
        arguments: K::Args,
    ) -> Result<Stats, Fault> {
        // SAFETY: the caller's to grant.
        unsafe { self.launch_instance(&Instance::of::<K>(), launch, arguments) }
    }

    /// Runs a kernel to its end.
    ///
    /// The same launch with the same seed and memory gives the same result, and the same fault.
    ///
    /// # Errors
    /// The first fault. Earlier writes of the kernel remain. The device can be used again, unless the fault
    /// is [`FaultKind::DeviceLost`].
    ///
    /// # Safety
    /// The kernel's code runs in this process. The emulator checks accesses through this crate: a view's
    /// pointer and length against the device's live allocations, and each access against the view, against
    /// earlier writes, and for races. A failed check ends the launch in a fault before memory is touched. So
    /// arguments may be wrong in these ways, if the kernel makes views of them before it uses them. In all
    /// else the caller must keep the kernel's *Safety* section:
    /// - accesses of the kernel by its own pointers, references or slices, or by code outside of this crate,
    ///   are sound with these arguments in this launch;
    /// - no host thread accesses memory that the kernel accesses, except by [`Buffer`]'s functions, which
    ///   wait for the launch;
    /// - stack frames of the kernel may be dropped without unwinding, at a fault.
    ///
    /// With [`Launch::catch_signals`], some unsound accesses become faults. Nothing may rely on that.
    pub unsafe fn launch_instance<A: KernelArgs>(
        &self,
        kernel: &Instance<A>,
        launch: &Launch,
        arguments: A,
    ) -> Result<Stats, Fault> {
        // SAFETY: the caller's to grant.
        self.run(unsafe { Call::new(kernel, arguments) }, launch)
    }

    fn run(&self, call: Call, launch: &Launch) -> Result<Stats, Fault> {
        let kernel = call.kernel;
        let job = call.job(launch)?;
        let slot = &mut *self.lock();
        let memory = slot.memory.take().ok_or_else(lost)?;
        let outcome = worker::run(&mut slot.worker, memory, job, launch.progress_limit);
        match outcome {
            Ok((memory, result)) => {
                slot.memory = Some(memory);
                result
            }
            Err(kind) => Err(Fault::of_launch(kernel, kind)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        // The state is consistent at every point where a panic could happen while it is locked.
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
    /// The address of the first byte, for kernel arguments.
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
    /// [`FaultKind::HostMemory`] for sparse memory; [`FaultKind::DeviceLost`].
    pub fn fill(&self, byte: u8) -> Result<(), Fault> {
        self.with_region("host write", 0, self.bytes, |region| {
            if region.is_sparse() {
                let object = region.describe();
                return Err(Fault::on_host(FaultKind::HostMemory { object }));
            }
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
    /// [`FaultKind::OutsideAllocation`]; [`FaultKind::Uninitialized`] if one of the bytes was never written,
    /// which finds kernels that leave out a part of their output; [`FaultKind::DeviceLost`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Fault> {
        self.with_region("host read", offset, bytes.len(), |region| {
            if let Some(byte) = region.first_uninitialised(offset, bytes.len()) {
                return Err(Fault::on_host(region.uninitialised("host read", byte)));
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
        let region = memory.get(self.address).ok_or_else(lost)?;
        if offset.checked_add(len).is_none_or(|end| end > self.bytes) {
            let (start, end) = (offset as i64, (offset as i64).saturating_add(len as i64));
            return Err(Fault::on_host(region.outside(what, start, end)));
        }
        f(region)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut slot = self.device.lock();
        if let Some(memory) = &mut slot.memory {
            memory.free(self.address);
        }
    }
}
