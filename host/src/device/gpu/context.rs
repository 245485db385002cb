//! A [`Gpu`]: one per ordinal and process, created at first use and kept to the end of the process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cust::device::Device as CudaDevice;
use cust::sys;
use launch_config::Arch;

use super::driver::{Current, Handle, cu, wrapped};
use super::kernels::Kernels;
use super::pool::Pool;
use super::{carried, fork};
use crate::contract::Limits;
use crate::device::info::DeviceInfo;
use crate::error::{DriverError, Error, Result};
use crate::sync::{LazyLock, Mutex, lock};

/// A GPU with its primary context and the kernels loaded so far.
///
/// There is one per ordinal. The registry in [`Gpu::open`] keeps it for the life of the process, so context
/// and function handles never dangle.
pub(crate) struct Gpu {
    pub(crate) ordinal: u32,
    info: DeviceInfo,
    pub(crate) limits: Limits,
    pub(crate) rates: Rates,
    context: PrimaryContext,
    pub(super) kernels: Kernels,
    /// Its memory pool.
    pub(super) pool: Pool,
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu")
            .field("ordinal", &self.ordinal)
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

/// The duration of the driver's initialisation, at its first call.
static INITIALISED: OnceLock<Duration> = OnceLock::new();

/// The number of GPUs that the driver sees.
pub(crate) fn count() -> Result<u32> {
    if fork::has_forked() {
        return Err(Error::Forked);
    }
    let no_driver = |reason| Error::NoDriver { reason };
    cuda_loader::driver().map_err(|error| no_driver(error.to_string()))?;
    let start = Instant::now();
    let started = wrapped("cuInit", cust::init(cust::CudaFlags::empty()));
    if started.is_ok() {
        INITIALISED.get_or_init(|| start.elapsed());
        fork::watch();
    }
    let asked = started.and_then(|()| wrapped("cuDeviceGetCount", CudaDevice::num_devices()));
    match asked {
        Ok(count) => Ok(count),
        Err(DriverError { code, .. }) if code == sys::CUresult::CUDA_ERROR_NO_DEVICE as u32 => {
            Ok(0)
        }
        Err(error) => Err(no_driver(error.to_string())),
    }
}

impl Gpu {
    /// The GPU with this ordinal. No kernel is loaded yet.
    pub(crate) fn open(ordinal: u32) -> Result<Arc<Gpu>> {
        static OPEN: LazyLock<Mutex<HashMap<u32, Arc<Gpu>>>> = LazyLock::new(Mutex::default);
        let count = count()?;
        if ordinal >= count {
            return Err(Error::NoSuchDevice { ordinal, count });
        }
        // The lock is held during the creation of the context, so a second thread waits for it.
        let mut open = lock(LazyLock::force(&OPEN));
        if let Some(gpu) = open.get(&ordinal) {
            return Ok(Arc::clone(gpu));
        }
        let gpu = Arc::new(Gpu::new(ordinal)?);
        open.insert(ordinal, Arc::clone(&gpu));
        Ok(gpu)
    }

    fn new(ordinal: u32) -> Result<Gpu> {
        let device = wrapped("cuDeviceGet", CudaDevice::get_device(ordinal))?;
        let (limits, rates) = (limits(device)?, rates(device)?);
        let mut info = describe(device, &limits)?;
        let capability = info.compute_capability.unwrap_or_default();
        let Some(carried) = carried::Kernels::of(capability) else {
            return Err(Error::TooOld {
                name: info.name,
                actual: capability,
                required: carried::Kernels::lowest(),
            });
        };
        info.module = Some(carried.arch());
        let (major, minor) = info.driver_version.unwrap_or_default();
        let kernels = Kernels::new(carried, 1000 * major + 10 * minor);
        let start = Instant::now();
        let context = PrimaryContext::retain(device)?;
        info.context_time = Some(start.elapsed());
        let _current = Current::new(context.handle.0)?;
        let has_pools = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        let pool = Pool::new(ordinal, attribute(device, has_pools)? != 0)?;
        Ok(Gpu {
            ordinal,
            info,
            limits,
            rates,
            context,
            kernels,
            pool,
        })
    }

    /// The primary context.
    pub(crate) fn context(&self) -> sys::CUcontext {
        self.context.handle.0
    }

    /// Makes this GPU's context the thread's current one while the guard lives.
    pub(crate) fn make_current(&self) -> Result<Current> {
        Current::new(self.context.handle.0)
    }

    /// [`make_current`](Gpu::make_current) for releasing resources, which cannot report errors: a failure is
    /// retried once.
    pub(super) fn make_current_to_give_back(&self) -> Option<Current> {
        self.make_current().or_else(|_| self.make_current()).ok()
    }

    /// Returns memory that no buffer holds to the driver.
    pub(crate) fn trim_memory(&self) -> Result<()> {
        let _current = self.make_current()?;
        Ok(self.pool.trim()?)
    }

    /// Sets the most bytes that buffers may hold together.
    pub(crate) fn limit_memory(&self, bytes: u64) {
        self.pool.set_limit(bytes);
    }

    /// Bytes that buffers hold.
    pub(crate) fn memory_in_use(&self) -> u64 {
        self.pool.live()
    }

    /// A description of the device, and the kernels that it has loaded so far.
    pub(crate) fn info(&self) -> DeviceInfo {
        let kernels = self.kernels.loads();
        DeviceInfo {
            kernels,
            ..self.info.clone()
        }
    }

    /// The constant part of [`info`](Gpu::info).
    pub(crate) fn facts(&self) -> &DeviceInfo {
        &self.info
    }

    pub(crate) fn to_name(&self) -> String {
        format!("gpu {} ({})", self.ordinal, self.info.name)
    }
}

/// A device's primary context, which CUDA's runtime API also uses.
struct PrimaryContext {
    device: sys::CUdevice,
    handle: Handle<sys::CUctx_st>,
}

impl PrimaryContext {
    /// Retains the context. No thread's current context changes.
    fn retain(device: CudaDevice) -> Result<PrimaryContext, DriverError> {
        let (device, mut handle) = (device.as_raw(), std::ptr::null_mut());
        // SAFETY: `handle` is a valid place for one handle, and the driver named the device.
        unsafe { cu!(cuDevicePrimaryCtxRetain(&mut handle, device))? };
        let handle = Handle(handle);
        Ok(PrimaryContext { device, handle })
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // SAFETY: `retain` retained the context, and everything made in it is gone, since an opened device is
        // never dropped.
        unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

fn attribute(device: CudaDevice, attribute: sys::CUdevice_attribute) -> Result<u32, DriverError> {
    let mut value = 0;
    // SAFETY: `value` is a valid place for the one integer that the call writes.
    unsafe { cu!(cuDeviceGetAttribute(&mut value, attribute, device.as_raw()))? };
    Ok(value.max(0) as u32)
}

/// A description of the device, without kernels.
fn describe(device: CudaDevice, limits: &Limits) -> Result<DeviceInfo, DriverError> {
    use sys::CUdevice_attribute::*;
    let get = |which| attribute(device, which);
    let version = wrapped("cuDriverGetVersion", cust::CudaApiVersion::get())?;
    Ok(DeviceInfo {
        name: wrapped("cuDeviceGetName", device.name())?,
        compute_capability: Some((
            get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        )),
        processors: get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        memory_bytes: Some(wrapped("cuDeviceTotalMem", device.total_memory())? as u64),
        l2_bytes: Some(u64::from(get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?)),
        shared_bytes_per_block: Some(limits.shared_bytes),
        driver_version: Some((version.major() as u32, version.minor() as u32)),
        module: None,
        ptx_origin: carried::ORIGIN,
        carried: carried::carried(),
        driver_time: INITIALISED.get().copied(),
        context_time: None,
        kernels: Vec::new(),
    })
}

/// Peak rates of a device from the driver's attributes, if it knows them.
#[derive(Clone, Copy)]
pub(crate) struct Rates {
    pub(crate) clock_hz: Option<u64>,
    pub(crate) memory_bytes_per_s: Option<u64>,
}

fn rates(device: CudaDevice) -> Result<Rates, DriverError> {
    use sys::CUdevice_attribute::*;
    let get = |which| attribute(device, which).map(u64::from);
    let memory_khz = get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
    let bus_bits = get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
    let known = |rate| (rate > 0).then_some(rate);
    Ok(Rates {
        clock_hz: known(1000 * get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?),
        // Two transfers a cycle.
        memory_bytes_per_s: known(2 * 1000 * memory_khz * bus_bits / 8),
    })
}

fn limits(device: CudaDevice) -> Result<Limits, DriverError> {
    use sys::CUdevice_attribute::*;
    let get = |which| attribute(device, which);
    let arch = Arch::of_capability(
        get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    Ok(Limits {
        threads: get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        block: [
            get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        grid: [
            get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        cluster: arch.map_or(1, Limits::cluster),
        shared_bytes: get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    })
}
