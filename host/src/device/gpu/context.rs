//! A [`Gpu`]: one per ordinal and process, made at first use and kept to its end.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cust::device::Device as CudaDevice;
use cust::sys;

use super::driver::{Current, cu, wrapped};
use super::module::{self, Module};
use super::pool::Pool;
use super::{fork, ptx};
use crate::contract::Limits;
use crate::device::info::DeviceInfo;
use crate::error::{DriverError, Error, Result};

/// A GPU with its primary context and its compiled kernels.
///
/// There is one per ordinal: the registry in [`Gpu::open`] keeps it for the life of the process, so
/// that a context or a function handle, once seen, never dangles.
pub(crate) struct Gpu {
    pub(crate) ordinal: u32,
    pub(crate) info: DeviceInfo,
    pub(crate) limits: Limits,
    context: cust::context::Context,
    pub(super) module: Module,
    /// Where its memory comes from.
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

/// How many GPUs the driver sees, or why it cannot be asked.
pub(crate) fn count() -> Result<u32> {
    if fork::has_forked() {
        return Err(Error::Forked);
    }
    if let Err(error) = cuda_loader::driver() {
        return Err(Error::NoDriver {
            reason: error.to_string(),
        });
    }
    let started = wrapped("cuInit", cust::init(cust::CudaFlags::empty()));
    if started.is_ok() {
        fork::watch();
    }
    let asked = started.and_then(|()| wrapped("cuDeviceGetCount", CudaDevice::num_devices()));
    match asked {
        Ok(count) => Ok(count),
        Err(DriverError { code, .. }) if code == sys::CUresult::CUDA_ERROR_NO_DEVICE as u32 => {
            Ok(0)
        }
        Err(error) => Err(Error::NoDriver {
            reason: error.to_string(),
        }),
    }
}

impl Gpu {
    /// The GPU with this ordinal. The first call for it compiles the kernels; the driver caches the result
    /// on disk, so that a later process finds it there.
    pub(crate) fn open(ordinal: u32) -> Result<Arc<Gpu>> {
        static OPEN: OnceLock<Mutex<HashMap<u32, Arc<Gpu>>>> = OnceLock::new();
        let count = count()?;
        if ordinal >= count {
            return Err(Error::NoSuchDevice { ordinal, count });
        }
        // The lock is held while kernels compile: a second thread waits for the one compilation. A panic
        // under it leaves the map as it was, so a poisoned lock is as good as a clean one.
        let mut open = OPEN
            .get_or_init(Mutex::default)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = open.get(&ordinal) {
            return Ok(Arc::clone(gpu));
        }
        let gpu = Arc::new(Gpu::new(ordinal)?);
        open.insert(ordinal, Arc::clone(&gpu));
        Ok(gpu)
    }

    fn new(ordinal: u32) -> Result<Gpu> {
        let device = wrapped("cuDeviceGet", CudaDevice::get_device(ordinal))?;
        let limits = limits(device)?;
        let mut info = describe(device, &limits)?;
        let capability = info.compute_capability.unwrap_or_default();
        let Some(ptx) = ptx::choose(capability, module::MODULES) else {
            return Err(Error::TooOld {
                name: info.name,
                actual: capability,
                required: ptx::lowest(module::MODULES),
            });
        };
        info.module = Some(ptx.arch);
        let context = retain(device)?;
        let _current = Current::new(context.as_raw())?;
        let module = Module::load(ptx)?;
        let has_pools = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        let pool = Pool::new(ordinal, attribute(device, has_pools)? != 0)?;
        Ok(Gpu {
            ordinal,
            info,
            limits,
            context,
            module,
            pool,
        })
    }

    /// The primary context.
    pub(crate) fn context(&self) -> sys::CUcontext {
        self.context.as_raw()
    }

    /// Makes this GPU's context the thread's current one for as long as the guard lives.
    pub(crate) fn make_current(&self) -> Result<Current> {
        Current::new(self.context.as_raw())
    }

    /// Gives back to the driver what no buffer holds.
    pub(crate) fn trim_memory(&self) -> Result<()> {
        let _current = self.make_current()?;
        Ok(self.pool.trim()?)
    }

    /// The most bytes that buffers may hold together from now on.
    pub(crate) fn limit_memory(&self, bytes: u64) {
        self.pool.set_limit(bytes);
    }

    /// Bytes that buffers hold.
    pub(crate) fn memory_in_use(&self) -> u64 {
        self.pool.live()
    }

    pub(crate) fn to_name(&self) -> String {
        format!("gpu {} ({})", self.ordinal, self.info.name)
    }
}

/// Retains the device's primary context, the one that CUDA's runtime API uses as well.
fn retain(device: CudaDevice) -> Result<cust::context::Context, DriverError> {
    let mut before = std::ptr::null_mut();
    // SAFETY: `before` is a valid place for one handle. Retaining makes the context current as a side
    // effect; setting the former one again (or none) undoes that, and it is the thread's own, so alive.
    unsafe {
        cu!(cuCtxGetCurrent(&mut before))?;
        let context = wrapped(
            "cuDevicePrimaryCtxRetain",
            cust::context::Context::new(device),
        );
        cu!(cuCtxSetCurrent(before))?;
        context
    }
}

fn attribute(device: CudaDevice, attribute: sys::CUdevice_attribute) -> Result<u32, DriverError> {
    let mut value = 0;
    // SAFETY: `value` is a valid place for the one integer that the call writes.
    unsafe { cu!(cuDeviceGetAttribute(&mut value, attribute, device.as_raw()))? };
    Ok(value.max(0) as u32)
}

/// What the device is, as long as no module was chosen for it.
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
        ptx_origin: module::ORIGIN,
    })
}

fn limits(device: CudaDevice) -> Result<Limits, DriverError> {
    use sys::CUdevice_attribute::*;
    let get = |which| attribute(device, which);
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
        shared_bytes: get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    })
}
