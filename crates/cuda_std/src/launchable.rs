//! The interface of kernels to launches.

use core::ffi::c_void;
use core::fmt;

/// The label of a generic parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// A name, such as `f32`.
    Name(&'static str),
    /// A number, which is the value itself.
    Number(u32),
}

impl From<&'static str> for Label {
    fn from(name: &'static str) -> Self {
        Label::Name(name)
    }
}

impl From<u32> for Label {
    fn from(number: u32) -> Self {
        Label::Number(number)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Name(name) => f.pad(name),
            Label::Number(number) => number.fmt(f),
        }
    }
}

/// An instance of a kernel as a type. [`#[kernel]`](macro@crate::kernel) implements it.
pub trait Kernel {
    /// The symbol in PTX.
    const NAME: &'static str;
    /// The labels that identify the instance in its [`Family`](crate::Family).
    const LABELS: &'static [Label];
    /// The declared launch bounds.
    const BOUNDS: LaunchBounds;
    /// The parameters' types, the same for all instances of a family.
    type Args: KernelArgs;

    /// Runs one thread of the kernel.
    #[cfg(feature = "emulator")]
    ///
    /// # Safety
    /// The calling thread is a thread of an emulated launch, and the arguments satisfy the safety section
    /// of the kernel.
    unsafe fn call(arguments: Self::Args);
}

/// The launch bounds that a kernel declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchBounds {
    /// The most threads that a block may have, if declared.
    pub max_threads: Option<u32>,
    /// The number of blocks that one multiprocessor should hold, if declared.
    pub min_blocks: Option<u32>,
    /// The number of blocks of a cluster, if declared; the grid must be a multiple of it.
    pub cluster_blocks: Option<u32>,
}

/// The parameters of a kernel: a tuple of up to 32 plain values.
pub trait KernelArgs: Copy + 'static {
    /// Calls `f` with the array of pointers to the parameters, as `cuLaunchKernel` takes it.
    fn with_params<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R;
}

macro_rules! kernel_args {
    ($($name:ident)*) => {
        impl<$($name: Copy + 'static),*> KernelArgs for ($($name,)*) {
            #[allow(non_snake_case)]
            fn with_params<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
                let ($($name,)*) = self;
                f(&mut [$(core::ptr::from_ref($name).cast_mut().cast::<c_void>()),*])
            }
        }
    };
}

macro_rules! kernel_args_up_to {
    ($first:ident $($rest:ident)*) => {
        kernel_args!($first $($rest)*);
        kernel_args_up_to!($($rest)*);
    };
    () => {
        kernel_args!();
    };
}

kernel_args_up_to!(A0 A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14 A15 A16 A17 A18 A19 A20 A21
    A22 A23 A24 A25 A26 A27 A28 A29 A30 A31);
