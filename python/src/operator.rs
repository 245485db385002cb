//! The operators of `torch.ops.convfuse`. `run` runs a chain, or a network with one output, on PyTorch
//! tensors; `run_` also updates running statistics in place. `run_network` and `run_network_` return all
//! outputs of a network.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

use crate::runner::{self, Call};
use crate::torch::shim::{Torch, Value, done, raise, torch};
use crate::torch::tensor::TorchTensor;

/// `chain` is a chain or a network in JSON. `inputs` are the first input and the further ones in its order;
/// `parameters` are in the order of its table. `fast` selects the tf32-class math mode for f32.
/// `batch_invariant` requests the same bits of a sample in any batch, `channels_last` a channels-last output
/// even if the first input is not.
const SCHEMA: &CStr =
    c"run(Tensor[] inputs, Tensor[] parameters, str chain, bool fast, bool batch_invariant=False, bool channels_last=False) -> Tensor";

/// The same operator, which also writes to the running statistics.
const RENEWING: &CStr =
    c"run_(Tensor[] inputs, Tensor(a!)[] parameters, str chain, bool fast, bool batch_invariant=False, bool channels_last=False) -> Tensor";

/// The same operator for the outputs of a network, in its order.
const NETWORK: &CStr =
    c"run_network(Tensor[] inputs, Tensor[] parameters, str network, bool fast, bool batch_invariant=False, bool channels_last=False) -> Tensor[]";

/// The same operator, which also writes to the running statistics.
const RENEWING_NETWORK: &CStr =
    c"run_network_(Tensor[] inputs, Tensor(a!)[] parameters, str network, bool fast, bool batch_invariant=False, bool channels_last=False) -> Tensor[]";

/// A list passed to the call, which owns it, or a new one.
struct List<'a> {
    torch: &'a Torch,
    handle: *mut c_void,
}

impl<'a> List<'a> {
    /// Makes a list of these tensors.
    fn of(torch: &'a Torch, tensors: Vec<TorchTensor>) -> Result<List<'a>, String> {
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is a place for one handle.
        let code = unsafe { (torch.shim.new_list)(tensors.len(), &mut handle) };
        done(code, "torch_new_list_reserve_size")?;
        let list = List { torch, handle };
        for tensor in tensors {
            // SAFETY: the list is alive, and takes the reference.
            let code = unsafe { (torch.shim.list_push)(list.handle, tensor.into_value()) };
            done(code, "torch_list_push_back")?;
        }
        Ok(list)
    }

    /// Converts the list to a value of a boxed call, which takes ownership.
    fn into_value(self) -> Value {
        let handle = self.handle;
        std::mem::forget(self);
        handle.addr() as Value
    }

    /// Takes the tensors of the list.
    fn tensors(&self, torch: &'static Torch) -> Result<Vec<TorchTensor>, String> {
        let mut length = 0;
        // SAFETY: the handle is alive; `length` is a place for one number.
        let code = unsafe { (self.torch.shim.list_size)(self.handle, &mut length) };
        done(code, "torch_list_size")?;
        let item = |index| {
            let mut value = 0;
            // SAFETY: as above.
            let code = unsafe { (self.torch.shim.list_item)(self.handle, index, &mut value) };
            done(code, "torch_list_get_item")?;
            // SAFETY: the list has one reference for each tensor, which only we release.
            Ok(unsafe { TorchTensor::owning(torch, pointer(value).cast()) })
        };
        (0..length).map(item).collect()
    }
}

impl Drop for List<'_> {
    fn drop(&mut self) {
        // SAFETY: the list is ours; deleting it does not release its elements.
        unsafe { (self.torch.shim.delete_list)(self.handle) };
    }
}

/// A string passed to the call, which owns it.
struct Text<'a> {
    torch: &'a Torch,
    handle: *mut c_void,
}

impl Text<'_> {
    fn bytes(&self) -> Result<&[u8], String> {
        let (mut length, mut data) = (0, ptr::null());
        // SAFETY: the handle is alive, each pointer is to a value of the written type, and the string has
        // that many bytes until it is deleted.
        unsafe {
            done(
                (self.torch.shim.string_length)(self.handle, &mut length),
                "torch_string_length",
            )?;
            done(
                (self.torch.shim.string_data)(self.handle, &mut data),
                "torch_string_c_str",
            )?;
            Ok(std::slice::from_raw_parts(data.cast::<u8>(), length))
        }
    }
}

impl Drop for Text<'_> {
    fn drop(&mut self) {
        // SAFETY: the string is ours.
        unsafe { (self.torch.shim.delete_string)(self.handle) };
    }
}

/// Returns the handle in a value.
fn pointer(value: Value) -> *mut c_void {
    ptr::with_exposed_provenance_mut(value as usize)
}

/// Runs one call: takes ownership of all arguments, and returns the output, or the list of outputs.
///
/// # Safety
/// The arguments are those of `SCHEMA`.
unsafe fn call(torch: &'static Torch, arguments: [Value; 6], kind: Kind) -> Result<Value, String> {
    let [
        inputs,
        parameters,
        graph,
        fast,
        batch_invariant,
        channels_last,
    ] = arguments;
    let is_true = |value: Value| value & 0xff != 0;
    let list = |value| List {
        torch,
        handle: pointer(value),
    };
    let (inputs, parameters) = (list(inputs), list(parameters));
    let graph = Text {
        torch,
        handle: pointer(graph),
    };
    // If a part fails, the tensors read from the lists are released anyway.
    let (inputs, parameters) = (inputs.tensors(torch), parameters.tensors(torch));
    let (inputs, parameters) = (inputs?, parameters?);
    let text = str::from_utf8(graph.bytes()?).map_err(|_| "convfuse: a chain is no text")?;
    let call = Call {
        torch,
        inputs: &inputs,
        parameters: &parameters,
        graph: text,
        is_fast: is_true(fast),
        is_batch_invariant: is_true(batch_invariant),
        is_channels_last: is_true(channels_last),
        is_renewing: kind.is_renewing,
    };
    let mut outputs = runner::run(&call)?;
    match outputs.pop() {
        Some(output) if !kind.is_network && outputs.is_empty() => Ok(output.into_value()),
        last if kind.is_network => {
            outputs.extend(last);
            List::of(torch, outputs).map(List::into_value)
        }
        _ => {
            Err("convfuse: run: the network has several outputs, which run_network returns".into())
        }
    }
}

/// What an operator does besides running a chain.
#[derive(Clone, Copy)]
struct Kind {
    /// Whether it may write to running statistics.
    is_renewing: bool,
    /// Whether it returns a list.
    is_network: bool,
}

/// The function that PyTorch calls.
///
/// A C++ exception unwinds through this frame, so the frame must not own anything to drop. All owning code
/// is in other, non-inlined functions: the unwinder linked into this library may differ from the
/// exception's.
unsafe extern "C-unwind" fn run<const IS_RENEWING: bool, const IS_NETWORK: bool>(
    stack: *mut Value,
    inputs: u64,
    _outputs: u64,
) {
    let kind = Kind {
        is_renewing: IS_RENEWING,
        is_network: IS_NETWORK,
    };
    // SAFETY: the stack has this number of values, which PyTorch made by the schema.
    let message = unsafe { outcome(stack, inputs, kind) };
    if !message.is_null() {
        // SAFETY: the message is the thread's, and stays until its next call.
        unsafe { raise(message) };
    }
}

/// Runs the call, and puts its result on the stack. Returns null, or an error message, which stays valid
/// until the thread's next call.
///
/// # Safety
/// The stack has `inputs` values that PyTorch made by `SCHEMA`.
#[inline(never)]
unsafe fn outcome(stack: *mut Value, inputs: u64, kind: Kind) -> *const c_char {
    thread_local! {
        static MESSAGE: RefCell<CString> = RefCell::default();
    }
    let called = || match inputs {
        // SAFETY: the caller's promise.
        6 => unsafe { call(torch()?, stack.cast::<[Value; 6]>().read(), kind) },
        _ => Err(format!("convfuse: run has {inputs} arguments, must have 6")),
    };
    let called = catch_unwind(AssertUnwindSafe(called));
    match called.unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(output) => {
            // SAFETY: results replace the arguments from the first one on.
            unsafe { *stack = output };
            ptr::null()
        }
        Err(message) => MESSAGE.with_borrow_mut(|kept| {
            *kept = CString::new(message.replace('\0', " ")).unwrap_or_default();
            kept.as_ptr()
        }),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
    format!(
        "convfuse: a fault of the library: {}",
        words.unwrap_or("it says nothing")
    )
}

/// Registers the operators of `torch.ops.convfuse` with the loaded PyTorch, once per process. Later calls do
/// nothing.
#[pyfunction]
fn register() -> PyResult<()> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    let registered = REGISTERED.get_or_init(|| {
        let operators = [
            (c"run", SCHEMA, run::<false, false> as _),
            (c"run_", RENEWING, run::<true, false> as _),
            (c"run_network", NETWORK, run::<false, true> as _),
            (c"run_network_", RENEWING_NETWORK, run::<true, true> as _),
        ];
        torch()?.register(&operators, &[c"CPU", c"CUDA"])
    });
    registered.clone().map_err(PyImportError::new_err)
}

/// Returns the number of cached plans.
#[pyfunction]
fn kept_plans() -> usize {
    runner::kept()
}

/// Drops the cached plans. They are created again on demand.
#[pyfunction]
fn clear(py: Python<'_>) {
    py.detach(runner::clear);
}

/// Adds the functions to the module.
pub(super) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(register, module)?)?;
    module.add_function(wrap_pyfunction!(kept_plans, module)?)?;
    module.add_function(wrap_pyfunction!(clear, module)?)
}
