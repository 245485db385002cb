//! Sets of parameters: models made of them, as long as they are what they were.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use convfuse::graph::{Chain, Parameter};
use convfuse::raw::Owner;
use convfuse::{DType, Model, Stream, Tensor};

use super::call::{Call, lock, said};
use super::plans::Plans;
use crate::torch::tensor::{Place, TorchTensor};

/// Sets that are kept for a module: one for each device and element type that it runs on, and for each of
/// some modules that are called by one number.
const KEPT_SETS: usize = 16;

/// A parameter as it was when it was read.
struct Known {
    /// Held so that no other tensor comes to be where this one is.
    tensor: TorchTensor,
    identity: usize,
    data: usize,
    /// `None` for a tensor of which writes are not counted.
    version: Option<i64>,
}

impl Known {
    fn of(tensor: &TorchTensor) -> Result<Known, String> {
        let version = match tensor.is_counted()? {
            // SAFETY: just asked.
            true => Some(unsafe { tensor.version() }?),
            false => None,
        };
        Ok(Known {
            tensor: tensor.share()?,
            identity: tensor.identity(),
            data: tensor.data()?.addr(),
            version,
        })
    }

    /// Whether the tensor, which this is of, is where it was, and as it was.
    fn is_current(&self) -> Result<bool, String> {
        if self.tensor.data()?.addr() != self.data {
            return Ok(false);
        }
        match self.version {
            // SAFETY: writes to it are counted, which never changes for a tensor.
            Some(version) => Ok(unsafe { self.tensor.version() }? == version),
            None => Ok(true),
        }
    }
}

/// A model that was made of parameters, and its plans.
pub(super) struct Set {
    place: Place,
    dtype: DType,
    parameters: Vec<Known>,
    pub(super) model: Model,
    pub(super) plans: Mutex<Plans>,
    /// Whether a graph was captured of one of its runs.
    pub(super) is_captured: AtomicBool,
}

impl Set {
    fn is_of(&self, call: &Call<'_>, place: Place, dtype: DType) -> bool {
        let known = self.parameters.iter().map(|known| known.identity);
        (self.place, self.dtype) == (place, dtype)
            && known.eq(call.parameters.iter().map(TorchTensor::identity))
    }

    fn is_current(&self) -> Result<bool, String> {
        for known in &self.parameters {
            if !known.is_current()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The sets of a module.
#[derive(Default)]
pub(super) struct Sets {
    /// The last ones used last.
    current: Vec<Arc<Set>>,
    /// Those that are over, of which graphs were captured.
    captured: Vec<Arc<Set>>,
}

impl Sets {
    /// The set for a call, whose model `make` makes of tensors over its parameters.
    pub(super) fn get(
        &mut self,
        call: &Call<'_>,
        place: Place,
        dtype: DType,
        make: impl FnOnce() -> Result<Model, String>,
    ) -> Result<Arc<Set>, String> {
        let found = self.current.iter();
        let found = found.rev().position(|set| set.is_of(call, place, dtype));
        if let Some(from_end) = found {
            let index = self.current.len() - 1 - from_end;
            if self.current[index].is_current()? {
                self.current[index..].rotate_left(1);
                return Ok(Arc::clone(&self.current[self.current.len() - 1]));
            }
            self.retire(index);
        }
        // Read before the parameters are: what is written in between is noticed by the next call.
        let parameters = call.parameters.iter().map(Known::of);
        let parameters = parameters.collect::<Result<_, _>>()?;
        let made = Arc::new(Set {
            place,
            dtype,
            parameters,
            model: make()?,
            plans: Mutex::default(),
            is_captured: AtomicBool::new(false),
        });
        if self.current.len() == KEPT_SETS {
            self.retire(0);
        }
        self.current.push(Arc::clone(&made));
        Ok(made)
    }

    fn retire(&mut self, index: usize) {
        let gone = self.current.remove(index);
        if gone.is_captured.load(Ordering::Relaxed) {
            self.captured.push(gone);
        }
    }

    /// Keeps nothing but what graphs were captured of.
    pub(super) fn release(&mut self) -> Vec<Arc<Set>> {
        let is_captured = |set: &Arc<Set>| set.is_captured.load(Ordering::Relaxed);
        let all = std::mem::take(&mut self.current).into_iter();
        let (captured, gone): (Vec<_>, Vec<_>) = all.partition(is_captured);
        self.captured.extend(captured);
        gone
    }

    pub(super) fn len(&self) -> usize {
        self.current.len() + self.captured.len()
    }

    pub(super) fn plans(&self) -> usize {
        let sets = self.current.iter().chain(&self.captured);
        sets.map(|set| lock(&set.plans).len()).sum()
    }
}

/// A tensor over the memory of one of PyTorch's, which `owner` keeps, or the caller.
///
/// # Safety
/// As for `Tensor::from_raw_parts`.
pub(super) unsafe fn over(
    stream: &Stream,
    data: *mut std::ffi::c_void,
    shape: &[i64],
    strides: &[i64],
    dtype: DType,
    owner: Owner,
) -> Result<Tensor, String> {
    let shape: Vec<usize> = shape.iter().map(|&extent| extent as usize).collect();
    let strides: Vec<isize> = strides.iter().map(|&stride| stride as isize).collect();
    // SAFETY: the caller's promise.
    let tensor =
        unsafe { Tensor::from_raw_parts(stream, data, &shape, Some(&strides), dtype, owner) };
    tensor.map_err(said)
}

/// The parameters of a call as tensors in `dtype`, in the shapes of the chain's table. On a GPU they are
/// copies, so that a captured graph keeps the values of its capture. Kernels read some of them in a layout
/// of their own, and others in place.
///
/// # Safety
/// `stream` is the current stream of the parameters' device. On the CPU their memory stays until nothing uses
/// what is returned.
pub(super) unsafe fn parameters(
    call: &Call<'_>,
    chain: &Chain,
    stream: &Stream,
    place: Place,
    dtype: DType,
) -> Result<Vec<Tensor>, String> {
    let table = chain.parameters();
    if table.len() != call.parameters.len() {
        let names: Vec<&str> = table.iter().map(|parameter| &*parameter.name).collect();
        return Err(format!(
            "convfuse: there are {} parameters, the model has {}: {}",
            call.parameters.len(),
            table.len(),
            names.join(", ")
        ));
    }
    let one = |(parameter, tensor): (&Parameter, &TorchTensor)| {
        let name = &parameter.name;
        if tensor.place()? != place {
            return Err(format!(
                "convfuse: {name} is on another device than the input; move the module there"
            ));
        }
        let stored = tensor.dtype(name)?;
        // Rounding makes a copy, too.
        let copy = match place.is_cuda && stored == dtype {
            true => Some(tensor.copied()?),
            false => None,
        };
        let tensor = copy.as_ref().unwrap_or(tensor);
        let (shape, strides) = tensor.layout()?;
        let expected: Vec<i64> = parameter
            .shape
            .iter()
            .map(|&extent| extent as i64)
            .collect();
        // A factor of another shape, such as (c) or (1, c, 1, 1), has the same elements in the same order.
        if squeezed(&expected) != squeezed(shape) {
            return Err(format!(
                "convfuse: {name}: shape is {shape:?}, expected {expected:?}"
            ));
        }
        let strides = match expected == shape {
            true => strides.to_vec(),
            false => restrided(&expected, shape, strides),
        };
        let data = tensor.data()?;
        // SAFETY: the caller's promise; a copy is the tensor's own.
        let tensor = unsafe { over(stream, data, &expected, &strides, stored, Box::new(copy))? };
        tensor.to_dtype(dtype).map_err(said)
    };
    table.iter().zip(call.parameters).map(one).collect()
}

/// The extents that are not 1.
fn squeezed(shape: &[i64]) -> Vec<i64> {
    shape
        .iter()
        .copied()
        .filter(|&extent| extent != 1)
        .collect()
}

/// The strides under a shape that differs by extents of 1 alone.
fn restrided(expected: &[i64], shape: &[i64], strides: &[i64]) -> Vec<i64> {
    let mut known = shape
        .iter()
        .zip(strides)
        .filter(|(extent, _)| **extent != 1);
    let of = |&extent: &i64| match extent {
        1 => 1,
        _ => known.next().map_or(1, |(_, stride)| *stride),
    };
    expected.iter().map(of).collect()
}
