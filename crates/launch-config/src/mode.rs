//! Modes that kernels take by value.

/// Defines a mode of a kernel: a 32-bit code of its own type, with a constant for each value.
///
/// A mode is not an enum, for two reasons. The device compiler would order branches by the range of an enum's
/// codes, and this changes register use. With plain codes, no value that a kernel receives is undefined
/// behaviour. A `match` on a mode treats unknown codes like one of the known ones, and therefore never
/// panics.
macro_rules! mode {
    ($(
        $(#[$about:meta])*
        pub $Mode:ident { $($(#[$doc:meta])* $VALUE:ident = $code:literal,)+ }
    )+) => {$(
        $(#[$about])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $Mode(u32);

        impl $Mode {
            $($(#[$doc])* pub const $VALUE: Self = Self($code);)+

            /// The code that kernels receive.
            #[must_use]
            #[inline(always)]
            pub const fn code(self) -> u32 {
                self.0
            }
        }

        impl core::fmt::Debug for $Mode {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match *self {
                    $(Self::$VALUE => f.write_str(stringify!($VALUE)),)+
                    Self(code) => code.fmt(f),
                }
            }
        }
    )+};
}

pub(crate) use mode;

mode! {
    /// Whether a kernel has an optional operand, such as a bias. The pointer of an absent one is null.
    pub Presence {
        /// The operand is absent.
        ABSENT = 0,
        /// The operand is present.
        PRESENT = 1,
    }
}

mode! {
    /// The element type of a norm's weight and bias.
    pub AffineType {
        /// The element type of the normalised tensor.
        TENSOR = 0,
        /// f32.
        F32 = 1,
    }
}

mode! {
    /// The element type of a kernel's results.
    pub ElementType {
        /// f32.
        F32 = 0,
        /// f16.
        F16 = 1,
        /// bf16.
        BF16 = 2,
    }
}

impl AffineType {
    /// Returns [`F32`](Self::F32) if `is_f32`, and [`TENSOR`](Self::TENSOR) otherwise.
    #[must_use]
    pub const fn of(is_f32: bool) -> Self {
        if is_f32 { Self::F32 } else { Self::TENSOR }
    }

    /// Whether weight and bias are f32, independent of the tensor's type.
    #[must_use]
    #[inline(always)]
    pub const fn is_f32(self) -> bool {
        self.0 != Self::TENSOR.0
    }
}

impl Presence {
    /// Returns [`PRESENT`](Self::PRESENT) if `is_present`, and [`ABSENT`](Self::ABSENT) otherwise.
    #[must_use]
    pub const fn of(is_present: bool) -> Self {
        if is_present {
            Self::PRESENT
        } else {
            Self::ABSENT
        }
    }

    /// Whether the operand is present.
    #[must_use]
    #[inline(always)]
    pub const fn is_present(self) -> bool {
        self.0 != Self::ABSENT.0
    }
}
