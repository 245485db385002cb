//! Methods that set one attribute of a specification or a layer, and what they take.

/// A number for all axes, or one for each: what `stride`, `dilation` and the like take.
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

/// Methods that set a field, or a part of one, and give the changed value.
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

/// The attributes of a norm whose only number is `eps`.
macro_rules! eps_alone {
    ($(#[$doc:meta])* $Spec:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $Spec {
            /// Added to the variance.
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
                /// With this number added to the variance.
                eps(eps: f64) |spec| spec.eps = eps;
            }
        }
    };
}

pub(crate) use {eps_alone, setters};
