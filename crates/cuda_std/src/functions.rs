//! Macros that define functions from their documentation, signature and value.

/// Defines functions. Each is given by its documentation, its signature (generic parameters in brackets)
/// and its value. The attributes and the visibility of all come first. An `unsafe` function passes its
/// caller's promise on to its value.
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

/// Public functions that call the backend and cannot fail in the emulator.
macro_rules! plain_functions {
    ($($function:tt)*) => {
        define! { ([#[inline(always)]] [pub]) $($function)* }
    };
}

/// Functions of a backend that call other functions of it.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! backend_functions {
    ($($function:tt)*) => {
        define! { ([#[allow(unused_unsafe)] #[track_caller]] [pub(crate)]) $($function)* }
    };
}

/// Functions of a backend that call other functions of it.
#[cfg(target_arch = "nvptx64")]
macro_rules! backend_functions {
    ($($function:tt)*) => {
        define! { ([#[inline(always)]] [pub(crate)]) $($function)* }
    };
}

/// The body of a function if there is a backend.
#[cfg(any(feature = "emulator", target_arch = "nvptx64"))]
macro_rules! present {
    ($value:expr) => {
        $value
    };
}

/// The body of a function if there is no backend.
#[cfg(not(any(feature = "emulator", target_arch = "nvptx64")))]
macro_rules! present {
    ($value:expr) => {
        $crate::backend::absent()
    };
}
