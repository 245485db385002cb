//! PyTorch's stable C interface, found in the libraries that the process has loaded.
//!
//! The functions are those of `torch/csrc/stable/c/shim.h` and `torch/csrc/inductor/aoti_torch/c/shim.h`,
//! which PyTorch keeps stable between releases. They return 0 on success; otherwise PyTorch has logged the
//! error.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

/// A tensor: a reference that its owner releases.
#[repr(C)]
pub(crate) struct TensorOpaque(*const c_void);
pub(crate) type TensorHandle = *mut TensorOpaque;

/// An argument or result of a boxed function: a number, or a handle.
pub(crate) type Value = u64;

/// A boxed function: arguments and results are on the same stack. It may throw a C++ exception.
pub(crate) type Boxed = unsafe extern "C-unwind" fn(*mut Value, u64, u64);

/// The oldest PyTorch version with this interface, in PyTorch's encoding: 2.10.
const BUILT_FOR: u64 = (2 << 56) | (10 << 48);

macro_rules! functions {
    ($(#[$about:meta])* $Name:ident { $($field:ident: $symbol:literal as fn($($argument:ty),*) $(-> $result:ty)?,)+ }) => {
        $(#[$about])*
        pub(crate) struct $Name {
            $(pub(crate) $field: unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?,)+
        }

        impl $Name {
            fn find(library: &Library) -> Result<Self, String> {
                Ok(Self {
                    $($field: {
                        let symbol = library.symbol($symbol)?;
                        // SAFETY: PyTorch exports the function of this name with this signature.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?,
                            >(symbol)
                        }
                    },)+
                })
            }
        }
    };
}

functions! {
    /// The functions of `libtorch_cpu.so`.
    Shim {
        library_def_new: c"aoti_torch_library_init_def" as fn(*const c_char, *const c_char, u32, *mut *mut c_void) -> c_int,
        library_impl_new: c"aoti_torch_library_init_impl" as fn(*const c_char, *const c_char, *const c_char, u32, *mut *mut c_void) -> c_int,
        library_def: c"aoti_torch_library_def" as fn(*mut c_void, *const c_char) -> c_int,
        library_impl: c"torch_library_impl" as fn(*mut c_void, *const c_char, Boxed, u64) -> c_int,
        check: c"aoti_torch_check" as fn(bool, *const c_char, *const c_char, u32, *const c_char),
        dtype_f32: c"aoti_torch_dtype_float32" as fn() -> i32,
        dtype_f16: c"aoti_torch_dtype_float16" as fn() -> i32,
        dtype_bf16: c"aoti_torch_dtype_bfloat16" as fn() -> i32,
        dtype_u8: c"aoti_torch_dtype_uint8" as fn() -> i32,
        device_cpu: c"aoti_torch_device_type_cpu" as fn() -> i32,
        device_cuda: c"aoti_torch_device_type_cuda" as fn() -> i32,
        data_ptr: c"torch_get_const_data_ptr" as fn(TensorHandle, *mut *const c_void) -> c_int,
        data_ptr_mut: c"torch_get_mutable_data_ptr" as fn(TensorHandle, *mut *mut c_void) -> c_int,
        dim: c"aoti_torch_get_dim" as fn(TensorHandle, *mut i64) -> c_int,
        sizes: c"aoti_torch_get_sizes" as fn(TensorHandle, *mut *mut i64) -> c_int,
        strides: c"aoti_torch_get_strides" as fn(TensorHandle, *mut *mut i64) -> c_int,
        dtype: c"aoti_torch_get_dtype" as fn(TensorHandle, *mut i32) -> c_int,
        device_type: c"aoti_torch_get_device_type" as fn(TensorHandle, *mut i32) -> c_int,
        device_index: c"aoti_torch_get_device_index" as fn(TensorHandle, *mut i32) -> c_int,
        empty_strided: c"aoti_torch_empty_strided" as fn(i64, *const i64, *const i64, i32, i32, i32, *mut TensorHandle) -> c_int,
        delete_tensor: c"aoti_torch_delete_tensor_object" as fn(TensorHandle) -> c_int,
        list_size: c"torch_list_size" as fn(*mut c_void, *mut usize) -> c_int,
        list_item: c"torch_list_get_item" as fn(*mut c_void, usize, *mut Value) -> c_int,
        new_list: c"torch_new_list_reserve_size" as fn(usize, *mut *mut c_void) -> c_int,
        list_push: c"torch_list_push_back" as fn(*mut c_void, Value) -> c_int,
        delete_list: c"torch_delete_list" as fn(*mut c_void) -> c_int,
        string_length: c"torch_string_length" as fn(*mut c_void, *mut usize) -> c_int,
        string_data: c"torch_string_c_str" as fn(*mut c_void, *mut *const c_char) -> c_int,
        delete_string: c"torch_delete_string" as fn(*mut c_void) -> c_int,
    }
}

functions! {
    /// The profiler functions of `libtorch_cpu.so`. The first is not part of the stable interface. Without
    /// it, regions have no names in profiles.
    Profiler {
        has_callbacks: c"_ZN2at12hasCallbacksEv" as fn() -> bool,
        start: c"aoti_record_function_start" as fn(*const c_char, *mut c_void, *const *mut c_void, u64, *mut *mut c_void) -> c_int,
        end: c"aoti_record_function_end" as fn(*mut c_void) -> c_int,
    }
}

functions! {
    /// The functions of `libtorch_cuda.so`.
    CudaStreams {
        current_stream: c"aoti_torch_get_current_cuda_stream" as fn(i32, *mut *mut c_void) -> c_int,
    }
}

functions! {
    /// The allocator of GPU tensors, for the current device and its current stream.
    RawAllocator {
        current_device: c"aoti_torch_get_current_device_index" as fn(*mut i32) -> c_int,
        alloc: c"aoti_torch_cuda_caching_allocator_raw_alloc" as fn(u64, *mut *mut c_void) -> c_int,
        delete: c"aoti_torch_cuda_caching_allocator_raw_delete" as fn(*mut c_void) -> c_int,
    }
}

/// The functions of `libtorch_cuda.so`, some of which are optional.
pub(crate) struct CudaShim {
    pub(crate) streams: CudaStreams,
    pub(crate) raw: Option<RawAllocator>,
}

/// Constants that PyTorch's functions return.
#[derive(Clone, Copy)]
pub(crate) struct Names {
    pub(crate) f32: i32,
    pub(crate) f16: i32,
    pub(crate) bf16: i32,
    pub(crate) u8: i32,
    pub(crate) cpu: i32,
    pub(crate) cuda: i32,
}

/// A library that the process has already loaded.
struct Library {
    handle: *mut c_void,
    name: &'static CStr,
}

impl Library {
    fn loaded(name: &'static CStr) -> Option<Library> {
        // SAFETY: the name ends in 0; nothing is loaded, so no foreign code runs.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Library { handle, name })
    }

    fn find(&self, symbol: &CStr) -> *mut c_void {
        // SAFETY: the handle is never closed.
        unsafe { libc::dlsym(self.handle, symbol.as_ptr()) }
    }

    fn symbol(&self, symbol: &CStr) -> Result<*mut c_void, String> {
        let found = self.find(symbol);
        match found.is_null() {
            false => Ok(found),
            true => Err(format!(
                "convfuse: {} has no {}, which PyTorch has from 2.10 on",
                self.name.to_string_lossy(),
                symbol.to_string_lossy()
            )),
        }
    }
}

/// PyTorch's functions, once they are found.
pub(crate) struct Torch {
    pub(crate) shim: Shim,
    pub(crate) cuda: Option<CudaShim>,
    pub(crate) profiler: Option<Profiler>,
    pub(crate) names: Names,
}

static TORCH: OnceLock<Torch> = OnceLock::new();

/// Returns PyTorch's functions.
///
/// # Errors
/// A message: PyTorch is not loaded, or too old.
pub(crate) fn torch() -> Result<&'static Torch, String> {
    if let Some(torch) = TORCH.get() {
        return Ok(torch);
    }
    let cpu = Library::loaded(c"libtorch_cpu.so")
        .ok_or("convfuse: PyTorch is not loaded in this process; import torch first")?;
    let shim = Shim::find(&cpu)?;
    let cuda = match Library::loaded(c"libtorch_cuda.so") {
        Some(library) => Some(CudaShim {
            streams: CudaStreams::find(&library)?,
            raw: RawAllocator::find(&library).ok(),
        }),
        None => None,
    };
    // SAFETY: these take nothing and return a constant.
    let names = unsafe {
        Names {
            f32: (shim.dtype_f32)(),
            f16: (shim.dtype_f16)(),
            bf16: (shim.dtype_bf16)(),
            u8: (shim.dtype_u8)(),
            cpu: (shim.device_cpu)(),
            cuda: (shim.device_cuda)(),
        }
    };
    let profiler = Profiler::find(&cpu).ok();
    let torch = Torch {
        shim,
        cuda,
        profiler,
        names,
    };
    Ok(TORCH.get_or_init(|| torch))
}

/// Converts a return code to an error that names the function.
pub(crate) fn done(code: c_int, call: &str) -> Result<(), String> {
    match code {
        0 => Ok(()),
        _ => Err(format!("convfuse: PyTorch's {call} failed")),
    }
}

/// A named range in a profile, until it is dropped.
struct Record<'a> {
    profiler: &'a Profiler,
    record: *mut c_void,
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        // SAFETY: the record was started, and ends once.
        unsafe { (self.profiler.end)(self.record) };
    }
}

impl Torch {
    /// Runs `work` as a named range, if a profiler is active.
    pub(crate) fn profiled<T>(&self, name: impl FnOnce() -> String, work: impl FnOnce() -> T) -> T {
        let profiler = self.profiler.as_ref();
        // SAFETY: it takes nothing.
        let Some(profiler) = profiler.filter(|profiler| unsafe { (profiler.has_callbacks)() })
        else {
            return work();
        };
        let (name, mut record) = (CString::new(name()).unwrap_or_default(), ptr::null_mut());
        // SAFETY: the name ends in 0 and is copied; there are no inputs; `record` is a place for one handle.
        let code = unsafe {
            (profiler.start)(name.as_ptr(), ptr::null_mut(), ptr::null(), 0, &mut record)
        };
        let _record = (code == 0).then_some(Record { profiler, record });
        work()
    }

    /// Declares operators of `torch.ops.convfuse`, and registers a function of each for each dispatch key.
    /// They stay for the life of the process.
    ///
    /// # Errors
    /// PyTorch's refusal, as a message.
    pub(crate) fn register(
        &self,
        operators: &[(&CStr, &CStr, Boxed)],
        keys: &[&CStr],
    ) -> Result<(), String> {
        let (namespace, file) = (c"convfuse", c"convfuse/python/src/torch/shim.rs");
        let mut library = std::ptr::null_mut();
        // SAFETY: all strings end in 0; the library object is never deleted, so what it registers stays.
        unsafe {
            let made =
                (self.shim.library_def_new)(namespace.as_ptr(), file.as_ptr(), 1, &mut library);
            done(made, "aoti_torch_library_init_def")?;
            for (_, schema, _) in operators {
                done(
                    (self.shim.library_def)(library, schema.as_ptr()),
                    "aoti_torch_library_def",
                )?;
            }
        }
        for key in keys {
            // SAFETY: as above; the functions have the signature of boxed ones, and stay, because this
            // library is never unloaded.
            unsafe {
                let made = (self.shim.library_impl_new)(
                    namespace.as_ptr(),
                    key.as_ptr(),
                    file.as_ptr(),
                    1,
                    &mut library,
                );
                done(made, "aoti_torch_library_init_impl")?;
                for (name, _, function) in operators {
                    let given =
                        (self.shim.library_impl)(library, name.as_ptr(), *function, BUILT_FOR);
                    done(given, "torch_library_impl")?;
                }
            }
        }
        Ok(())
    }
}

/// Throws a C++ exception, which becomes a `RuntimeError` in Python. The frame has nothing to drop, as the
/// exception unwinds through it.
///
/// # Safety
/// The message ends in 0 and stays valid during the call.
pub(crate) unsafe fn raise(message: *const c_char) {
    if let Some(torch) = TORCH.get() {
        let (function, file) = (c"run".as_ptr(), c"convfuse".as_ptr());
        // SAFETY: all strings end in 0; the exception copies them.
        unsafe { (torch.shim.check)(false, function, file, 0, message) };
    }
}
