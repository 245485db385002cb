//! Functions by documentation, signature and value alone.

/// Functions, each with its documentation, its signature (generic parameters in brackets) and its value, with
/// the attributes and the visibility given first. Those that are `unsafe` pass their caller's promise on.
macro_rules! define {
    ($kind:tt) => {};
    ($kind:tt $(#[$attribute:meta])* unsafe fn $name:ident $($rest:tt)*) => {
        define! { @one $kind [$(#[$attribute])*] [unsafe] $name $($rest)* }
    };
    ($kind:tt $(#[$attribute:meta])* fn $name:ident $($rest:tt)*) => {
        define! { @one $kind [$(#[$attribute])*] [] $name $($rest)* }
    };
    (
        @one ([$($common:tt)*] [$($visibility:tt)*]) [$($attribute:tt)*] [$($unsafe:tt)?] $name:ident
            $([$($generic:tt)*])? ($($argument:ident $(: $ty:ty)?),*) $(-> $result:ty)?
            $(where $bounded:ident: $bound:path)? = $value:expr;
        $($rest:tt)*
    ) => {
        $($attribute)*
        $($common)*
        $($visibility)* $($unsafe)? fn $name $(<$($generic)*>)? ($($argument $(: $ty)?),*) $(-> $result)?
        $(where $bounded: $bound)?
        {
            // SAFETY: the caller's promise.
            $($unsafe)? { present!($value) }
        }

        define! { ([$($common)*] [$($visibility)*]) $($rest)* }
    };
}

/// Public functions that call the backend.
macro_rules! device_functions {
    ($($function:tt)*) => {
        define! { ([#[track_caller] #[inline(always)]] [pub]) $($function)* }
    };
}

/// Those that cannot fail in the emulator.
macro_rules! plain_functions {
    ($($function:tt)*) => {
        define! { ([#[inline(always)]] [pub]) $($function)* }
    };
}

/// Functions of a backend that call other ones.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! backend_functions {
    ($($function:tt)*) => {
        define! { ([#[allow(unused_unsafe)] #[track_caller]] [pub(crate)]) $($function)* }
    };
}

/// Functions of a backend that call other ones.
#[cfg(target_arch = "nvptx64")]
macro_rules! backend_functions {
    ($($function:tt)*) => {
        define! { ([#[inline(always)]] [pub(crate)]) $($function)* }
    };
}

/// What a function does where there is a backend.
#[cfg(any(feature = "emulator", target_arch = "nvptx64"))]
macro_rules! present {
    ($value:expr) => {
        $value
    };
}

/// What it does where there is none.
#[cfg(not(any(feature = "emulator", target_arch = "nvptx64")))]
macro_rules! present {
    ($value:expr) => {
        $crate::backend::absent()
    };
}
