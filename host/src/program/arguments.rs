//! Arguments of launches: plain numbers, and handles of values, which become addresses when a program runs.
//!
//! The type of a kernel's parameter determines its use of a value. Through a `*const T` the kernel reads the
//! elements; a null pointer is an absent `Option`. Through a `*mut T` it writes all of them, and may read
//! them afterwards.

use std::ffi::c_void;
use std::fmt;

use cuda_std::tensor_map::{MapMode, TensorMap};

use super::Value;
use crate::device::DType;
use crate::dtype::Element;
use crate::error::Result;

/// Element types of kernel parameters.
pub(crate) trait Stored: 'static {
    /// The required element type of the value; `None` for any.
    const DTYPE: Option<DType>;
}

/// Elements of any type, for kernels that are instantiated by element type.
impl Stored for c_void {
    const DTYPE: Option<DType> = None;
}

impl<T: Element> Stored for T {
    const DTYPE: Option<DType> = Some(T::DTYPE);
}

/// Opaque words of kernels, which are stored in tensors of f32.
impl Stored for u32 {
    const DTYPE: Option<DType> = Some(DType::F32);
}

/// A launch's use of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    pub(super) value: Value,
    /// The required element type; `None` for any.
    pub(super) dtype: Option<DType>,
    pub(super) is_written: bool,
}

impl Value {
    /// The use of the value by a kernel that accesses the elements as `T`.
    fn used<T: Stored>(self, is_written: bool) -> Use {
        Use {
            value: self,
            dtype: T::DTYPE,
            is_written,
        }
    }
}

/// The addresses of values when a program runs.
pub(crate) trait Places {
    /// The address of a value for this use.
    fn address(&mut self, used: Use) -> *mut u8;

    /// The tensor map of a tensor at this address.
    fn tensor_map(&mut self, mode: &MapMode, address: *const u8) -> Result<TensorMap>;
}

/// An argument that becomes a kernel's parameter of type `T` when the program runs.
pub(crate) trait Argument<T>: Copy + fmt::Debug + Send + Sync + 'static {
    /// Returns the parameter. `places` records the use of each value behind it, and returns the value's
    /// address.
    ///
    /// # Errors
    /// The driver's error for a tensor map.
    fn resolve(self, places: &mut dyn Places) -> Result<T>;
}

impl<T: Copy + fmt::Debug + Send + Sync + 'static> Argument<T> for T {
    fn resolve(self, _: &mut dyn Places) -> Result<T> {
        Ok(self)
    }
}

impl<T: Stored> Argument<*const T> for Value {
    fn resolve(self, places: &mut dyn Places) -> Result<*const T> {
        Ok(places.address(self.used::<T>(false)).cast_const().cast())
    }
}

impl<T: Stored> Argument<*const T> for Option<Value> {
    fn resolve(self, places: &mut dyn Places) -> Result<*const T> {
        self.map_or(Ok(std::ptr::null()), |value| value.resolve(places))
    }
}

impl<T: Stored> Argument<*mut T> for Option<Value> {
    fn resolve(self, places: &mut dyn Places) -> Result<*mut T> {
        self.map_or(Ok(std::ptr::null_mut()), |value| value.resolve(places))
    }
}

impl<T: Stored> Argument<*mut T> for Value {
    fn resolve(self, places: &mut dyn Places) -> Result<*mut T> {
        Ok(places.address(self.used::<T>(true)).cast())
    }
}

/// A value that a kernel reads or writes through a tensor map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MapOf {
    value: Value,
    /// The byte of the value at which the map's tensor starts.
    start: usize,
    mode: MapMode,
    is_written: bool,
}

impl MapOf {
    /// The map of a value that is read.
    pub(crate) fn read(value: Value, mode: impl Into<MapMode>) -> Self {
        Self {
            value,
            start: 0,
            mode: mode.into(),
            is_written: false,
        }
    }

    /// The map of a value that is written.
    pub(crate) fn written(value: Value, mode: impl Into<MapMode>) -> Self {
        Self {
            value,
            start: 0,
            mode: mode.into(),
            is_written: true,
        }
    }

    /// The map of a part of the value, from a byte on.
    pub(crate) fn starting_at(self, start: usize) -> Self {
        Self { start, ..self }
    }
}

impl Argument<TensorMap> for Option<MapOf> {
    fn resolve(self, places: &mut dyn Places) -> Result<TensorMap> {
        let Some(MapOf {
            value,
            start,
            mode,
            is_written,
        }) = self
        else {
            return Ok(TensorMap::NONE);
        };
        let address = places.address(value.used::<c_void>(is_written));
        places.tensor_map(&mode, address.wrapping_add(start))
    }
}

/// Records the uses of values, without addresses.
#[derive(Default)]
struct Uses(Vec<Use>);

impl Places for Uses {
    fn address(&mut self, used: Use) -> *mut u8 {
        self.0.push(used);
        std::ptr::null_mut()
    }

    fn tensor_map(&mut self, _: &MapMode, _: *const u8) -> Result<TensorMap> {
        Ok(TensorMap::NONE)
    }
}

impl Uses {
    fn reads_first(self) -> Vec<Use> {
        let Self(mut uses) = self;
        uses.sort_by_key(|used| used.is_written);
        uses
    }
}

/// All arguments of a kernel with parameters `P`: a tuple with one argument for each.
pub(crate) trait Arguments<P>: Copy + Send + Sync + 'static {
    /// Returns the parameters, each from [`Argument::resolve`].
    ///
    /// # Errors
    /// As [`Argument::resolve`].
    fn resolve(self, places: &mut dyn Places) -> Result<P>;

    /// Writes each argument with its `Debug`.
    #[cfg(any(test, feature = "lab"))]
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns the uses of all values: first reads, then writes.
    fn uses(self) -> Vec<Use> {
        let mut uses = Uses::default();
        // Recording cannot fail.
        let _ = self.resolve(&mut uses);
        uses.reads_first()
    }
}

macro_rules! arguments {
    ($($name:ident $Parameter:ident)*) => {
        impl<$($name: Argument<$Parameter>, $Parameter),*> Arguments<($($Parameter,)*)> for ($($name,)*) {
            #[allow(non_snake_case, reason = "a type's name is its argument's, too")]
            fn resolve(self, places: &mut dyn Places) -> Result<($($Parameter,)*)> {
                let ($($name,)*) = self;
                Ok(($($name.resolve(places)?,)*))
            }

            #[cfg(any(test, feature = "lab"))]
            #[allow(non_snake_case, reason = "a type's name is its argument's, too")]
            fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let ($($name,)*) = self;
                f.debug_list()$(.entry($name))*.finish()
            }
        }
    };
}

/// Implements [`Arguments`] for the pairs in brackets, then with one more pair at a time.
macro_rules! arguments_from {
    ([$($done:ident)*]) => { arguments!($($done)*); };
    ([$($done:ident)*] $name:ident $Parameter:ident $($rest:ident)*) => {
        arguments!($($done)*);
        arguments_from!([$($done)* $name $Parameter] $($rest)*);
    };
}

arguments_from!([A0 P0] A1 P1 A2 P2 A3 P3 A4 P4 A5 P5 A6 P6 A7 P7 A8 P8 A9 P9 A10 P10 A11 P11 A12 P12
    A13 P13 A14 P14 A15 P15 A16 P16 A17 P17 A18 P18 A19 P19 A20 P20 A21 P21 A22 P22);
