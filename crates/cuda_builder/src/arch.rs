//! Device architectures.

use std::fmt;
use std::str::FromStr;

use crate::Error;

macro_rules! architectures {
    ($($(#[$doc:meta])* $variant:ident = $name:literal in $ptx:literal;)*) => {
        /// A device architecture.
        ///
        /// PTX for a plain architecture (`Sm80`) runs there and on all newer ones. PTX for an architecture
        /// with the suffix `a` may use its specific features, and runs there alone.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        pub enum Arch {
            $($(#[$doc])* $variant,)*
        }

        impl Arch {
            /// All architectures, oldest first.
            pub const ALL: &[Arch] = &[$(Arch::$variant),*];

            /// The name that compilers and `ptxas` use, such as `sm_90a`.
            pub const fn name(self) -> &'static str {
                match self { $(Arch::$variant => $name),* }
            }

            /// The compiler's feature name for the PTX version of modules for this architecture.
            pub(crate) const fn ptx_feature(self) -> &'static str {
                match self { $(Arch::$variant => $ptx),* }
            }
        }
    };
}

// The drivers of CUDA 12.0 read PTX 8.0. Hopper alone has 8.1, because stores to other blocks of a cluster
// (`st.async`) came with CUDA 12.1. A newer architecture has the first version that knows it.
architectures! {
    /// Volta.
    Sm70 = "sm_70" in "ptx80";
    /// Turing.
    Sm75 = "sm_75" in "ptx80";
    /// Ampere in the data centre (A100).
    Sm80 = "sm_80" in "ptx80";
    /// Ampere on the desktop.
    Sm86 = "sm_86" in "ptx80";
    /// Orin.
    Sm87 = "sm_87" in "ptx80";
    /// Ada.
    Sm89 = "sm_89" in "ptx80";
    /// Hopper, without its architecture-specific features.
    Sm90 = "sm_90" in "ptx80";
    /// Hopper (H100, H200), `wgmma` included.
    Sm90a = "sm_90a" in "ptx81";
    /// Blackwell in the data centre, without its architecture-specific features.
    Sm100 = "sm_100" in "ptx86";
    /// Blackwell in the data centre (B200).
    Sm100a = "sm_100a" in "ptx86";
    /// Blackwell on the desktop, without its architecture-specific features.
    Sm120 = "sm_120" in "ptx87";
    /// Blackwell on the desktop.
    Sm120a = "sm_120a" in "ptx87";
}

impl Arch {
    /// The compute capability times ten: 90 for `sm_90a`.
    pub fn compute_capability(self) -> u32 {
        let digits = self.name().trim_start_matches("sm_").trim_end_matches('a');
        digits.parse().expect("names are sm_ and a number")
    }

    /// Whether modules for this architecture run on it alone.
    pub fn is_specific(self) -> bool {
        self.name().ends_with('a')
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arch {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Arch::ALL.iter().find(|arch| arch.name() == name);
        found
            .copied()
            .ok_or_else(|| Error::UnknownArch(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for &arch in Arch::ALL {
            assert_eq!(arch.name().parse::<Arch>().unwrap(), arch);
        }
        let error = "sm_1".parse::<Arch>().unwrap_err().to_string();
        assert!(
            error.contains("sm_1") && error.contains("sm_90a"),
            "{error}"
        );
    }

    #[test]
    fn only_names_with_an_a_are_specific() {
        assert_eq!(Arch::Sm90a.compute_capability(), 90);
        assert!(Arch::Sm90a.is_specific());
        assert_eq!(Arch::Sm120.compute_capability(), 120);
        assert!(!Arch::Sm120.is_specific());
    }
}
