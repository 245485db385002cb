//! Common methods of the views of global and of shared memory.

/// Defines a view from the backend's view and the element type.
macro_rules! view {
    ($(#[$doc:meta])* $view:ident of $backend:ident, $pointer:ty, $visibility:vis) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $view<T> {
            pub(crate) view: $backend,
            element: PhantomData<$pointer>,
        }

        impl<T> Clone for $view<T> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $view<T> {}

        impl<T: Element> $view<T> {
            #[doc(hidden)]
            #[inline(always)]
            $visibility fn from_view(view: $backend) -> Self {
                Self { view, element: PhantomData }
            }
        }
    };
}

/// Defines the methods that read. `$index` is the type of indices, and `$space` the PTX name of the memory.
macro_rules! reading {
    ($view:ident, $index:ty, $space:literal) => {
        impl<T: Element> $view<T> {
            plain_functions! {
                /// Returns the number of elements.
                #[must_use]
                fn len(self) -> $index = self.view.len();

                /// Returns whether there are no elements.
                #[must_use]
                fn is_empty(self) -> bool = self.len() == 0;
            }

            device_functions! {
                /// Returns the view of elements `start .. start + len`.
                ///
                /// Emulator: reports a slice that leaves the view.
                #[must_use]
                fn slice(self, start: $index, len: $index) -> Self = Self::from_view(self.view.slice::<T>(start, len));

                #[doc = concat!("Element `i`. `ld.", $space, "`.")]
                ///
                /// # Safety
                /// `i < self.len()`, the element is initialised, and no other thread writes it unordered
                /// with this read.
                #[must_use]
                unsafe fn load(self, i: $index) -> T = self.view.load::<T>(i);

                #[doc = concat!("The `N` elements from `i` on, in one instruction. `ld.", $space, ".v2` or `.v4` for")]
                /// 32-bit elements, one wide load for narrower ones.
                ///
                /// `N * size_of::<T>()` is 4, 8 or 16, which is checked at compile time.
                ///
                /// # Safety
                /// `i + N <= self.len()`, the address of element `i` is a multiple of `N * size_of::<T>()`,
                /// and for each element as for [`Self::load`].
                #[must_use]
                unsafe fn load_vec[const N: usize](self, i: $index) -> [T; N] = {
                    const { assert_vector::<T>(N) };
                    self.view.load_vec::<T, N>(i)
                };
            }
        }
    };
}

/// Defines the methods that write. `$scope` is the PTX scope of the atomics.
macro_rules! writing {
    ($view:ident, $index:ty, $space:literal, $scope:literal) => {
        impl<T: Element> $view<T> {
            device_functions! {
                #[doc = concat!("Writes element `i`. `st.", $space, "`.")]
                ///
                /// # Safety
                /// `i < self.len()`, and no other thread accesses the element unordered with this write.
                unsafe fn store(self, i: $index, value: T) = self.view.store::<T>(i, value);

                #[doc = concat!("Writes the `N` elements from `i` on in one instruction. `st.", $space, ".v2` or `.v4`.")]
                ///
                /// `N * size_of::<T>()` is 4, 8 or 16, which is checked at compile time.
                ///
                /// # Safety
                /// `i + N <= self.len()`, the address of element `i` is a multiple of `N * size_of::<T>()`,
                /// and for each element as for [`Self::store`].
                unsafe fn store_vec[const N: usize](self, i: $index, values: [T; N]) = {
                    const { assert_vector::<T>(N) };
                    self.view.store_vec::<T, N>(i, values)
                };

                /// Atomically adds `value` to element `i` and returns the previous value; integers wrap.
                #[doc = concat!("`atom.relaxed.", $scope, ".", $space, ".add`.")]
                ///
                /// Atomics on one element never race with each other. They order other accesses only
                /// together with fences (see [`crate::thread::device_fence`]). The order of float additions
                /// is not fixed, so their sum may differ from run to run.
                ///
                /// # Safety
                /// `i < self.len()`, the element is initialised, and all unordered accesses of other
                /// threads to it are atomic.
                unsafe fn atomic_add(self, i: $index, value: T) -> T where T: AtomicAdd = self.view.atomic_add::<T>(i, value);
            }
        }

        impl<T: AtomicInteger> $view<T> {
            device_functions! {
                /// Atomically writes `value` to element `i` and returns the previous value.
                #[doc = concat!("`atom.relaxed.", $scope, ".", $space, ".exch`.")]
                ///
                /// # Safety
                /// As for [`Self::atomic_add`].
                unsafe fn atomic_exchange(self, i: $index, value: T) -> T = self.view.atomic_exchange::<T>(i, value);

                /// Reads element `i` as one atomic access.
                #[doc = concat!("`ld.relaxed.", $scope, ".", $space, "`.")]
                ///
                /// # Safety
                /// As for [`Self::atomic_add`].
                unsafe fn atomic_load(self, i: $index) -> T = self.view.atomic_load::<T>(i);

                /// Writes element `i` as one atomic access, and returns `value`.
                #[doc = concat!("`st.relaxed.", $scope, ".", $space, "`.")]
                ///
                /// # Safety
                /// As for [`Self::atomic_add`].
                unsafe fn atomic_store(self, i: $index, value: T) -> T = self.view.atomic_store::<T>(i, value);
            }
        }
    };
}

pub(crate) use {reading, view, writing};

/// Refuses vector widths that have no instruction.
pub(crate) const fn assert_vector<T>(n: usize) {
    let bytes = n * size_of::<T>();
    assert!(
        bytes == 4 || bytes == 8 || bytes == 16,
        "a vector access is 4, 8 or 16 bytes wide"
    );
}
