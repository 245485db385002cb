//! Chains and networks on arrays of other libraries, through DLPack.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use convfuse::dlpack::dlpark::ManagedBox;
use convfuse::dlpack::dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use convfuse::dlpack::{Form, Legacy};
use convfuse::{DType, Device, Inputs, Model, Stream, Tensor};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::chains::{graph, options};
use crate::runner::must_not_be_forked;

/// DLPack's capsule names of its two versions, before and after the capsule's tensor is taken.
const LEGACY: [&CStr; 2] = [c"dltensor", c"used_dltensor"];
const VERSIONED: [&CStr; 2] = [c"dltensor_versioned", c"used_dltensor_versioned"];

/// DLPack's device type numbers.
const CPU: i32 = 1;
const CUDA: i32 = 2;

fn failed(error: convfuse::Error) -> PyErr {
    PyRuntimeError::new_err(format!("convfuse: {error}"))
}

/// Takes the tensor out of a capsule, which is empty afterwards.
fn taken(stream: &Stream, capsule: &Bound<'_, PyCapsule>) -> PyResult<Tensor> {
    let name = capsule.name()?;
    let name = match &name {
        // SAFETY: the name is that of the capsule, which is held.
        Some(name) => unsafe { name.as_cstr() },
        None => c"",
    };
    if name == VERSIONED[0] {
        return lent::<DLManagedTensorVersioned>(stream, capsule, VERSIONED);
    }
    if name == LEGACY[0] {
        return lent::<DLManagedTensor>(stream, capsule, LEGACY);
    }
    Err(PyBufferError::new_err(
        "convfuse: a capsule is none of DLPack, or was taken already",
    ))
}

fn lent<M: Form>(
    stream: &Stream,
    capsule: &Bound<'_, PyCapsule>,
    [fresh, used]: [&'static CStr; 2],
) -> PyResult<Tensor> {
    let pointer: NonNull<c_void> = capsule.pointer_checked(Some(fresh))?;
    // SAFETY: the capsule has a DLPack name, and holds a tensor of that version. Under its new name nobody
    // takes the tensor again, and the capsule does not free it.
    let tensor = unsafe {
        let renamed = pyo3::ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr());
        if renamed != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        let lent = ManagedBox::<M>::new_unchecked(pointer.as_ptr().cast());
        Tensor::from_dlpack(stream, lent)
    };
    tensor.map_err(failed)
}

/// A chain or a network with parameters on a device, for running on arrays.
#[pyclass(frozen, module = "convfuse._native")]
struct ArrayModel {
    model: Model,
    stream: Stream,
}

#[pymethods]
impl ArrayModel {
    /// Loads the model. `ordinal` names a GPU; `None` is the CPU.
    #[new]
    fn new(
        text: &str,
        dtype: &str,
        ordinal: Option<u32>,
        parameters: Vec<Bound<'_, PyCapsule>>,
    ) -> PyResult<Self> {
        let graph = graph(text).map_err(PyValueError::new_err)?;
        let dtype = match dtype {
            "float32" => DType::F32,
            "float16" => DType::F16,
            "bfloat16" => DType::BF16,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "convfuse: dtype is {dtype}, must be float32, float16 or bfloat16"
                )));
            }
        };
        let stream = stream(ordinal)?;
        let tensors = parameters.iter().map(|capsule| taken(&stream, capsule));
        let tensors: Vec<Tensor> = tensors.collect::<PyResult<_>>()?;
        let made = Model::from_tensors(&stream, &graph, tensors, dtype);
        Ok(ArrayModel {
            model: made.map_err(failed)?,
            stream,
        })
    }

    /// Computes the outputs for the capsules of the first input and the further ones.
    fn run(
        &self,
        py: Python<'_>,
        inputs: Vec<Bound<'_, PyCapsule>>,
        fast: bool,
    ) -> PyResult<Vec<Array>> {
        if self.stream.device().is_cpu() {
            must_not_be_forked().map_err(PyRuntimeError::new_err)?;
        }
        let tensors = inputs.iter().map(|capsule| taken(&self.stream, capsule));
        let tensors: Vec<Tensor> = tensors.collect::<PyResult<_>>()?;
        let names = self.model.graph().inputs();
        if tensors.len() != 1 + names.len() {
            return Err(PyValueError::new_err(format!(
                "convfuse: there are {} inputs, the model has the first one and {names:?}",
                tensors.len()
            )));
        }
        let further = names.iter().zip(&tensors[1..]);
        let inputs = further.fold(Inputs::new(&tensors[0]), |inputs, (name, tensor)| {
            inputs.with(name, tensor)
        });
        let outputs = py.detach(|| self.model.forward_all(inputs, &options(fast, true)));
        Ok(outputs.map_err(failed)?.into_iter().map(Array).collect())
    }
}

/// Returns the shared stream of all models on a device.
fn stream(ordinal: Option<u32>) -> PyResult<Stream> {
    use std::sync::{Mutex, PoisonError};
    static STREAMS: Mutex<Vec<(Option<u32>, Stream)>> = Mutex::new(Vec::new());
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, stream)) = streams.iter().find(|(known, _)| *known == ordinal) {
        return Ok(stream.clone());
    }
    let made = || match ordinal {
        Some(ordinal) => Device::gpu(ordinal)?.stream(),
        None => Device::cpu().stream(),
    };
    let stream = made().map_err(failed)?;
    streams.push((ordinal, stream.clone()));
    Ok(stream)
}

/// Returns the handle of the stream that runs the models of a GPU, for DLPack producers.
#[pyfunction]
fn array_stream(ordinal: u32) -> PyResult<usize> {
    let raw = stream(Some(ordinal))?.as_raw();
    Ok(raw.map_err(failed)?.addr())
}

/// An output of a model, for import through DLPack. Its elements must not be written to.
#[pyclass(frozen, module = "convfuse._native")]
struct Array(Tensor);

#[pymethods]
impl Array {
    /// Returns DLPack's device type and device number.
    fn __dlpack_device__(&self) -> (i32, i32) {
        match self.0.device().ordinal() {
            Some(ordinal) => (CUDA, ordinal as i32),
            None => (CPU, 0),
        }
    }

    /// Returns a DLPack capsule for use on `stream`, which waits for the elements.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<isize>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // All consumers support the unversioned form.
        let _ = max_version;
        if copy == Some(true) || dl_device.is_some_and(|device| device != self.__dlpack_device__())
        {
            return Err(PyBufferError::new_err(
                "convfuse: an array is given where it is, uncopied",
            ));
        }
        let tensor = self.for_stream(stream).map_err(failed)?;
        let lent: Legacy = tensor.to_dlpack().map_err(failed)?;
        let raw: *mut DLManagedTensor = lent.into_raw();
        // SAFETY: the capsule has DLPack's name for this form. A consumer that takes the tensor renames it;
        // otherwise its destructor frees the tensor.
        unsafe {
            let capsule = pyo3::ffi::PyCapsule_New(raw.cast(), LEGACY[0].as_ptr(), Some(give_back));
            Bound::from_owned_ptr_or_err(py, capsule)
        }
    }

    /// The shape of the array.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.0.shape().to_vec()
    }
}

impl Array {
    /// Returns the tensor, with its computation ordered before the consumer's stream.
    fn for_stream(&self, stream: Option<isize>) -> convfuse::Result<Tensor> {
        /// DLPack's number of the legacy default stream.
        const LEGACY_STREAM: isize = 1;
        let device = self.0.device();
        match stream.unwrap_or(LEGACY_STREAM) {
            _ if !device.is_gpu() => Ok(self.0.clone()),
            // The consumer handles the ordering itself.
            -1 => Ok(self.0.clone()),
            raw => {
                let raw = std::ptr::without_provenance_mut(raw.cast_unsigned());
                // SAFETY: the consumer names a stream of the device, which it keeps while it uses the array.
                let theirs = unsafe { Stream::from_raw(device, raw)? };
                theirs.wait(&self.0.stream().record()?)?;
                self.0.on(&theirs)
            }
        }
    }
}

/// Frees a tensor that nobody took out of its capsule.
unsafe extern "C" fn give_back(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: a capsule under its first name still owns its tensor.
    unsafe {
        if pyo3::ffi::PyCapsule_IsValid(capsule, LEGACY[0].as_ptr()) == 1 {
            let raw = pyo3::ffi::PyCapsule_GetPointer(capsule, LEGACY[0].as_ptr());
            drop(Legacy::new(raw.cast()));
        }
    }
}

/// Adds classes and functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ArrayModel>()?;
    module.add_class::<Array>()?;
    module.add_function(wrap_pyfunction!(array_stream, module)?)
}
