//! Streams: work in order, launches, timing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cuda_std::{Instance, KernelArgs};
use launch_config::LaunchShape;

use super::counters::{Counters, Counts};
use super::emulator::EmulatedBuffer;
use super::gpu::{GpuBuffer, GpuEvent, GpuGraph, GpuStream};
use super::kind::{Device, Kind};
use super::raw::{DeviceAllocator, RawStream};
use super::storage::{HostBuffer, Storage};
use crate::contract::KernelFacts;
use crate::dtype::DType;
use crate::error::Result;

/// A stream of work for a device, which runs in order. Cloning gives the same stream.
///
/// On a GPU calls return as soon as the work is queued; [`synchronize`](Stream::synchronize) waits for
/// it. On the CPU and in the emulator work is done when the call returns.
///
/// Two streams of one GPU run side by side. A tensor made on one may be read on the other: the library
/// makes the reader wait (on the device) for the writer, and the memory's reuse wait for the reader.
///
/// # Examples
/// ```
/// use convfuse::{DType, Device, Tensor};
///
/// let device = Device::best();
/// let (copies, kernels) = (device.stream()?, device.stream()?);
/// let x = Tensor::zeros(&copies, &[2, 3], DType::F32)?;
/// let y = x.on(&kernels)?; // the same memory, for the work of another stream
/// kernels.synchronize()?;
/// assert_eq!(y.stream(), &kernels);
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    device: Device,
    id: u64,
    gpu: Option<Arc<GpuStream>>,
    counters: Arc<Counters>,
    allocator: Option<Arc<dyn DeviceAllocator>>,
}

impl Device {
    /// A new stream on this device.
    ///
    /// # Errors
    /// On a GPU, errors of the driver.
    pub fn stream(&self) -> Result<Stream> {
        let gpu = match self.kind() {
            Kind::Gpu(gpu) => Some(Arc::new(GpuStream::new(gpu)?)),
            Kind::Cpu(_) | Kind::Emulator(_) => None,
        };
        Ok(Stream::with(self, gpu))
    }
}

impl Stream {
    fn with(device: &Device, gpu: Option<Arc<GpuStream>>) -> Stream {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Stream(Arc::new(Inner {
            device: device.clone(),
            id,
            gpu,
            counters: Arc::default(),
            allocator: None,
        }))
    }

    /// Wraps a stream of another library, such as PyTorch's current one, or one of the default streams. Work
    /// is queued there, and its owner destroys it. Only the thread itself can use its per-thread default
    /// stream. A stream in capture counts as a new stream, because the driver does not identify it.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if `device` is not a GPU; errors of the driver.
    ///
    /// # Safety
    /// `raw` is a stream of the device's primary context and outlives the result and every tensor, plan,
    /// graph and model made on it. Tensors of other streams that it read may live longer. No capture begins
    /// or ends on it while another thread calls convfuse with that stream, or drops objects made on it.
    pub unsafe fn from_raw(device: &Device, raw: RawStream) -> Result<Stream> {
        let Kind::Gpu(gpu) = device.kind() else {
            return Err(device.without("streams of others"));
        };
        // SAFETY: the caller's promise.
        let stream = unsafe { GpuStream::from_raw(gpu, raw.cast())? };
        Ok(Stream::with(device, Some(Arc::new(stream))))
    }

    /// Returns the same stream with `allocator` for new tensors and workspaces. Existing ones do not change.
    /// No effect on the CPU and in the emulator.
    #[must_use]
    pub fn with_allocator(&self, allocator: Arc<dyn DeviceAllocator>) -> Stream {
        Stream(Arc::new(Inner {
            allocator: Some(allocator),
            ..(*self.0).clone()
        }))
    }

    /// A new stream of the device with the same allocator and the same counters.
    pub(crate) fn sibling(&self) -> Result<Stream> {
        let new = self.0.device.stream()?;
        Ok(Stream(Arc::new(Inner {
            id: new.0.id,
            gpu: new.0.gpu.clone(),
            ..(*self.0).clone()
        })))
    }

    /// Returns the driver's handle on a GPU, which is valid as long as the stream. The legacy default stream
    /// is 1, even if it was made from null.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) if the device is not a GPU;
    /// [`OtherThread`](crate::Error::OtherThread).
    pub fn as_raw(&self) -> Result<RawStream> {
        Ok(self.on_gpu("streams of the driver")?.raw()?.cast())
    }

    /// Captures a graph of the work that `work` queues on the stream passed to it. The graph is launched on
    /// this stream.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the device is not a GPU; the errors of `work`.
    pub(crate) fn capture(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<GpuGraph> {
        let stream = self.on_gpu("CUDA graphs; execute the plan instead")?;
        let device = &self.0.device;
        GpuGraph::capture(stream, |recorder| {
            work(&Stream::with(device, Some(recorder)))
        })
    }

    /// Returns the stream of a GPU, or an error that names the feature `what`, which other devices lack.
    fn on_gpu(&self, what: &'static str) -> Result<&Arc<GpuStream>> {
        let gpu = self.0.gpu.as_ref();
        gpu.ok_or_else(|| self.0.device.without(what))
    }

    /// The stream's device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Refuses a stream that the driver no longer serves. Call this before calls that may not reach the
    /// driver.
    ///
    /// # Errors
    /// [`Error::Forked`](crate::Error::Forked); fatal errors of the device.
    pub(crate) fn must_serve(&self) -> Result<()> {
        self.is_capturing().map(drop)
    }

    /// Returns whether the stream is in capture for a CUDA graph, by this library or another. Only GPU
    /// streams can be in capture.
    ///
    /// # Errors
    /// [`OtherThread`](crate::Error::OtherThread), [`Forked`](crate::Error::Forked); fatal errors of the
    /// device.
    pub fn is_capturing(&self) -> Result<bool> {
        let gpu = self.0.gpu.as_ref();
        gpu.map_or(Ok(false), |stream| stream.is_capturing())
    }

    /// Refuses an operation that a graph cannot contain, if the stream is in capture.
    pub(crate) fn must_not_capture(&self, what: &'static str) -> Result<()> {
        let gpu = self.0.gpu.as_ref();
        gpu.map_or(Ok(()), |stream| stream.must_not_capture(what))
    }

    /// Waits until all work given to the stream so far is complete, and reports its errors.
    ///
    /// # Errors
    /// Errors of that work; [`OtherThread`](crate::Error::OtherThread); the driver's error for a stream in
    /// capture.
    pub fn synchronize(&self) -> Result<()> {
        let gpu = self.0.gpu.as_ref();
        gpu.map_or(Ok(()), |stream| stream.synchronize())
    }

    /// Records an event at this point of the stream's work, for timing, or as a point that other streams wait
    /// for.
    ///
    /// # Errors
    /// [`Error::OtherThread`](crate::Error::OtherThread); on a GPU, errors of the driver.
    pub fn record(&self) -> Result<Event> {
        Ok(Event(match &self.0.gpu {
            Some(stream) => Mark::Gpu(stream.record(true)?),
            None => Mark::Host(Instant::now()),
        }))
    }

    /// Records an event that only other streams wait for.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub(crate) fn mark(&self) -> Result<Event> {
        Ok(Event(match &self.0.gpu {
            Some(stream) => Mark::Gpu(stream.record(false)?),
            None => Mark::Host(Instant::now()),
        }))
    }

    /// Makes later work of this stream wait for `event`. The host waits only if the event belongs to a GPU
    /// and this stream does not.
    ///
    /// # Errors
    /// As [`record`](Self::record); if the host waits, the errors of [`Event::synchronize`].
    pub fn wait(&self, event: &Event) -> Result<()> {
        match (&self.0.gpu, &event.0) {
            (_, Mark::Host(_)) => Ok(()),
            (Some(stream), Mark::Gpu(event)) => stream.wait(event),
            (None, Mark::Gpu(event)) => event.synchronize(),
        }
    }

    /// Returns the counts of work since the last call or since the stream's creation, and resets them.
    pub fn take_counts(&self) -> Counts {
        self.0.counters.take()
    }

    /// Launches a kernel after checking the launch contract: block size against what the kernel was
    /// compiled for, extents and shared memory against what the device allows.
    ///
    /// The CPU device's operators never call this.
    ///
    /// # Errors
    /// [`Error::Launch`](crate::Error::Launch) if the contract is broken (nothing ran then); on a GPU also
    /// errors of the driver at the launch, in the emulator also faults of the kernel.
    ///
    /// # Safety
    /// The arguments meet the kernel's *Safety* section. Pointers among them belong to tensors that this
    /// stream may access, and that stay alive until their home stream frees them.
    pub(crate) unsafe fn launch<A: KernelArgs>(
        &self,
        kernel: &Instance<A>,
        shape: LaunchShape,
        arguments: A,
    ) -> Result<()> {
        self.trace(kernel.name(), &shape);
        match (self.0.device.kind(), &self.0.gpu) {
            (Kind::Gpu(gpu), Some(stream)) => {
                let facts = KernelFacts::of(kernel);
                // SAFETY: the array is made from the tuple of the kernel's parameter types, so it has one
                // entry per parameter. The stream is alive and belongs to this GPU; the caller promises the
                // rest.
                arguments.with_params(|parameters| unsafe {
                    gpu.launch(stream, facts, &shape, parameters)
                })?;
            }
            (Kind::Emulator(emulator), _) => {
                // SAFETY: the caller's promise.
                unsafe { emulator.launch(kernel, &shape, arguments)? };
            }
            _ => unreachable!("operators on the CPU device call the CPU backend, not kernels"),
        }
        self.0.counters.launched();
        Ok(())
    }

    fn trace(&self, kernel: &'static str, shape: &LaunchShape) {
        // A launch costs the host microseconds. Without a subscriber this is one load.
        tracing::trace!(
            target: "convfuse::launch",
            kernel,
            grid = ?shape.grid,
            block = ?shape.block,
            shared_bytes = shape.shared_bytes,
            stream = self.0.id,
            "a kernel is launched"
        );
    }

    /// Loads `kernel` for launches of this shape ahead of the first launch.
    ///
    /// # Errors
    /// [`Error::Launch`](crate::Error::Launch) for a launch that the contract refuses; on a GPU also
    /// errors of the driver.
    pub(crate) fn load<A: KernelArgs>(
        &self,
        kernel: &Instance<A>,
        shape: &LaunchShape,
    ) -> Result<()> {
        match self.0.device.kind() {
            Kind::Gpu(gpu) => gpu.load(KernelFacts::of(kernel), shape),
            Kind::Cpu(_) | Kind::Emulator(_) => Ok(()),
        }
    }

    /// Adds to the count of bytes that launches move.
    pub(crate) fn moved(&self, bytes: u64) {
        self.0.counters.moved(bytes);
    }

    /// Allocates uninitialised memory for a tensor.
    pub(crate) fn allocate(&self, shape: &[usize], dtype: DType) -> Result<Storage> {
        let bytes = self.0.device.bytes_of(shape, dtype)?;
        tracing::trace!(target: "convfuse::memory", bytes, stream = self.0.id, "memory is allocated");
        Ok(match (self.0.device.kind(), &self.0.gpu) {
            (Kind::Emulator(emulator), _) => {
                Storage::Emulated(EmulatedBuffer::allocate(emulator, &self.0.counters, bytes)?)
            }
            (_, Some(stream)) => {
                let allocator = self.0.allocator.as_ref();
                let counters = &self.0.counters;
                Storage::Gpu(GpuBuffer::allocate(stream, counters, allocator, bytes)?)
            }
            (_, None) => Storage::Host(HostBuffer::zeros(dtype, bytes / dtype.size())?),
        })
    }

    pub(crate) fn gpu(&self) -> Option<&Arc<GpuStream>> {
        self.0.gpu.as_ref()
    }
}

impl PartialEq for Stream {
    /// Whether the two are the same stream.
    fn eq(&self, other: &Stream) -> bool {
        match (&self.0.gpu, &other.0.gpu) {
            (Some(one), Some(two)) => one.is(two),
            _ => self.0.id == other.0.id,
        }
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} on {})", self.0.id, self.0.device)
    }
}

/// A point in a stream's work.
///
/// # Examples
/// ```
/// use convfuse::Device;
///
/// let stream = Device::best().stream()?;
/// let start = stream.record()?;
/// // The work to be timed comes here.
/// let end = stream.record()?;
/// end.synchronize()?;
/// println!("{:?}", end.since(&start)?);
/// # Ok::<(), convfuse::Error>(())
/// ```
pub struct Event(Mark);

enum Mark {
    Gpu(GpuEvent),
    Host(Instant),
}

impl Event {
    /// Waits until the work before the event is complete.
    ///
    /// # Errors
    /// Errors of that work.
    pub fn synchronize(&self) -> Result<()> {
        match &self.0 {
            Mark::Gpu(event) => event.synchronize(),
            Mark::Host(_) => Ok(()),
        }
    }

    /// Time that passed on the device since `start`; waits for both. Zero if the two are of different
    /// kinds of device, which have no clock in common.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize); the driver's error for events of two GPUs.
    pub fn since(&self, start: &Event) -> Result<Duration> {
        match (&self.0, &start.0) {
            (Mark::Gpu(end), Mark::Gpu(start)) => end.since(start),
            (Mark::Host(end), Mark::Host(start)) => Ok(end.saturating_duration_since(*start)),
            _ => Ok(Duration::ZERO),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Mark::Gpu(_) => "Event(gpu)",
            Mark::Host(_) => "Event(host)",
        })
    }
}
