//! The instances of a kernel as values, so that a host chooses one at run time.

use std::fmt;
#[cfg(not(feature = "emulator"))]
use std::marker::PhantomData;

use crate::{Kernel, KernelArgs, Label, LaunchBounds};

/// All instances of one kernel. [`#[kernel]`](macro@crate::kernel) makes a static with the kernel's name in
/// capitals.
///
/// ```
/// use cuda_std::prelude::*;
/// use cuda_std::Label;
///
/// #[kernel(instances(WIDTH: [1, 4], T: [f32, f16]), max_threads = 256)]
/// pub unsafe fn fill<T: Storage, const WIDTH: u32>(y: *mut T, len: u32) { /* .. */ }
///
/// # fn main() -> Result<(), cuda_std::NoInstance> {
/// let chosen = FILL.instance(&[Label::from(4), Label::from("f16")])?;
/// assert_eq!(chosen.name(), "fill_width4_f16");
/// assert_eq!(chosen.bounds().max_threads, Some(256));
/// # Ok(())
/// # }
/// ```
pub struct Family<A: KernelArgs> {
    name: &'static str,
    instances: &'static [Instance<A>],
}

impl<A: KernelArgs> Family<A> {
    /// Makes the family of the kernel called `name`.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(name: &'static str, instances: &'static [Instance<A>]) -> Self {
        Self { name, instances }
    }

    /// Returns the kernel's name, which is the prefix of all instances' symbols.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns all instances.
    #[must_use]
    pub const fn instances(&self) -> &'static [Instance<A>] {
        self.instances
    }

    /// Finds the instance with these labels, in the order of the kernel's lists.
    ///
    /// # Errors
    /// [`NoInstance`] if no instance has these labels.
    pub fn instance(&self, labels: &[Label]) -> Result<&'static Instance<A>, NoInstance> {
        let mut instances = self.instances.iter();
        instances
            .find(|instance| instance.labels == labels)
            .ok_or_else(|| NoInstance {
                family: self.name,
                labels: labels.to_vec(),
            })
    }
}

impl<A: KernelArgs> fmt::Debug for Family<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.instances.iter().map(|instance| instance.name);
        write!(f, "Family({}) ", self.name)?;
        f.debug_list().entries(names).finish()
    }
}

/// A kernel that can be launched, with parameters `A`. Pointers to elements whose type depends on the
/// instance are pointers to `c_void`.
pub struct Instance<A> {
    name: &'static str,
    labels: &'static [Label],
    bounds: LaunchBounds,
    #[cfg(feature = "emulator")]
    call: unsafe fn(A),
    #[cfg(not(feature = "emulator"))]
    arguments: PhantomData<fn(A)>,
}

impl<A: KernelArgs> Instance<A> {
    /// Makes the instance for the kernel type `K`.
    #[must_use]
    pub const fn of<K: Kernel<Args = A>>() -> Self {
        Self {
            name: K::NAME,
            labels: K::LABELS,
            bounds: K::BOUNDS,
            #[cfg(feature = "emulator")]
            call: K::call,
            #[cfg(not(feature = "emulator"))]
            arguments: PhantomData,
        }
    }

    /// Returns the PTX symbol.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the labels that identify the instance in its family.
    #[must_use]
    pub const fn labels(&self) -> &'static [Label] {
        self.labels
    }

    /// Returns the declared launch bounds.
    #[must_use]
    pub const fn bounds(&self) -> LaunchBounds {
        self.bounds
    }

    /// Returns the function by which the emulator runs one thread of the kernel.
    #[cfg(feature = "emulator")]
    pub(crate) const fn call(&self) -> unsafe fn(A) {
        self.call
    }
}

impl<A> fmt::Debug for Instance<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instance({})", self.name)
    }
}

/// The error for a kernel that has no instance with the requested labels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{family}: no instance has the labels {}", joined(.labels))]
#[non_exhaustive]
pub struct NoInstance {
    /// The kernel's name.
    pub family: &'static str,
    /// The requested labels.
    pub labels: Vec<Label>,
}

fn joined(labels: &[Label]) -> String {
    let texts: Vec<_> = labels.iter().map(Label::to_string).collect();
    texts.join(", ")
}
