//! Arguments of launches: handles of values, which become addresses when a program runs, and plain numbers.
//!
//! What a kernel does with a value is in the type of its parameter: through a `*const T` it reads the
//! elements, and a null pointer stands for an `Option` without a value; through a `*mut T` it writes all of
//! them, and may read what it has written.

use std::ffi::c_void;

use cuda_std::tensor_map::{Boxes, TensorMap};

use super::Value;
use crate::device::DType;
use crate::dtype::Element;
use crate::error::Result;

/// What kernels take the elements of a value as.
pub(crate) trait Stored: 'static {
    /// The element type that the value must have, if not any.
    const DTYPE: Option<DType>;
}

/// What the instances of a kernel take as what they are made for.
impl Stored for c_void {
    const DTYPE: Option<DType> = None;
}

impl<T: Element> Stored for T {
    const DTYPE: Option<DType> = Some(T::DTYPE);
}

/// Words that only kernels know the meaning of are kept in tensors of f32.
impl Stored for u32 {
    const DTYPE: Option<DType> = Some(DType::F32);
}

/// What a launch does with a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    pub(super) value: Value,
    /// The element type that it must have, if not any.
    pub(super) dtype: Option<DType>,
    pub(super) is_written: bool,
}

impl Value {
    /// What a kernel does with it that takes its elements as `T`.
    fn used<T: Stored>(self, is_written: bool) -> Use {
        Use {
            value: self,
            dtype: T::DTYPE,
            is_written,
        }
    }
}

/// Where values are when a program runs.
pub(crate) trait Places {
    /// Where a value is, of which this is done.
    fn address(&mut self, used: Use) -> *mut u8;

    /// The map of the boxes of a tensor that is there.
    fn tensor_map(&mut self, boxes: &Boxes, address: *const u8) -> Result<TensorMap>;
}

/// What gives a kernel's parameter of type `T` when the program runs.
pub(crate) trait Argument<T>: Copy + Send + Sync + 'static {
    /// The parameter. `places` is told what is done with each value behind it, and tells where the value is.
    ///
    /// # Errors
    /// What the driver says of a tensor map.
    fn resolve(self, places: &mut dyn Places) -> Result<T>;
}

impl<T: Copy + Send + Sync + 'static> Argument<T> for T {
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

/// A value of which a kernel reads boxes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoxesOf {
    pub(crate) value: Value,
    pub(crate) boxes: Boxes,
}

impl Argument<TensorMap> for Option<BoxesOf> {
    fn resolve(self, places: &mut dyn Places) -> Result<TensorMap> {
        let Some(BoxesOf { value, boxes }) = self else {
            return Ok(TensorMap::NONE);
        };
        let address = places.address(value.used::<c_void>(false));
        places.tensor_map(&boxes, address)
    }
}

/// Writes down what is done with values, which are nowhere.
#[derive(Default)]
struct Uses(Vec<Use>);

impl Places for Uses {
    fn address(&mut self, used: Use) -> *mut u8 {
        self.0.push(used);
        std::ptr::null_mut()
    }

    fn tensor_map(&mut self, _: &Boxes, _: *const u8) -> Result<TensorMap> {
        Ok(TensorMap::NONE)
    }
}

/// All arguments of a kernel whose parameters are `P`: a tuple with one for each.
pub(crate) trait Arguments<P>: Copy + Send + Sync + 'static {
    /// The parameters, as [`Argument::resolve`] gives each.
    ///
    /// # Errors
    /// As there.
    fn resolve(self, places: &mut dyn Places) -> Result<P>;

    /// What is done with the values behind them: first what is read, then what is written.
    fn uses(self) -> Vec<Use> {
        let mut uses = Uses::default();
        // Nothing fails where nothing is.
        let _ = self.resolve(&mut uses);
        let Uses(mut uses) = uses;
        uses.sort_by_key(|used| used.is_written);
        uses
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
        }
    };
}

/// Implements [`Arguments`] for the pairs in brackets, then for one pair more, to the end.
macro_rules! arguments_from {
    ([$($done:ident)*]) => { arguments!($($done)*); };
    ([$($done:ident)*] $name:ident $Parameter:ident $($rest:ident)*) => {
        arguments!($($done)*);
        arguments_from!([$($done)* $name $Parameter] $($rest)*);
    };
}

arguments_from!([A0 P0] A1 P1 A2 P2 A3 P3 A4 P4 A5 P5 A6 P6 A7 P7 A8 P8 A9 P9 A10 P10 A11 P11 A12 P12
    A13 P13 A14 P14 A15 P15 A16 P16);
