//! Setters for the attributes of specifications and layers, and their argument types.

/// A number for all axes, or one for each: the argument of `stride`, `dilation` and similar setters.
///
/// ```
/// # mod convfuse { pub mod spec { pub use op_spec::*; } }
/// use convfuse::spec::MaxPool2dSpec;
///
/// assert_eq!(MaxPool2dSpec::new(3).stride(2), MaxPool2dSpec::new([3, 3]).stride([2, 2]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PerAxis<const D: usize>(pub(crate) [usize; D]);

impl<const D: usize> From<usize> for PerAxis<D> {
    fn from(all: usize) -> Self {
        Self([all; D])
    }
}

impl<const D: usize> From<[usize; D]> for PerAxis<D> {
    fn from(each: [usize; D]) -> Self {
        Self(each)
    }
}

/// Defines methods that set a field, or a part of one, and return the changed value.
macro_rules! setters {
    ([$($generics:tt)*] $Type:ty {
        $($(#[$doc:meta])* $name:ident($value:ident: $argument:ty) |$this:ident| $set:expr;)+
    }) => {
        impl<$($generics)*> $Type {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(self, $value: $argument) -> Self {
                let mut $this = self;
                $set;
                $this
            }
        )+}
    };
}

/// Defines the attributes of a norm whose only number is `eps`.
macro_rules! eps_alone {
    ($(#[$doc:meta])* $Spec:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $Spec {
            /// Number added to the variance.
            pub eps: f64,
        }

        impl Default for $Spec {
            /// PyTorch's `eps` of 1e-5.
            fn default() -> Self {
                Self { eps: 1e-5 }
            }
        }

        $crate::setters::setters! {
            [] $Spec {
                /// Sets the number added to the variance.
                eps(eps: f64) |spec| spec.eps = eps;
            }
        }
    };
}

pub(crate) use {eps_alone, setters};
