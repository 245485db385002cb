//! Device architectures and PTX versions.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The version of the PTX language that a module is written in. A driver reads versions up to its
/// own: 8.0 came with CUDA 12.0.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct PtxVersion {
    /// The part before the point.
    pub major: u8,
    /// The part after the point.
    pub minor: u8,
}

impl PtxVersion {
    /// Version `major.minor`.
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }

    /// The name of the compiler's feature that selects this version.
    pub(crate) fn feature(self) -> String {
        format!("ptx{}{}", self.major, self.minor)
    }
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

macro_rules! architectures {
    ($($(#[$doc:meta])* $variant:ident = $name:literal since ($major:literal, $minor:literal);)*) => {
        /// A device architecture.
        ///
        /// PTX for a plain one (`Sm80`) runs there and on everything newer. PTX for one that ends in
        /// `a` may use what only that architecture has, and runs there alone.
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

            /// The first PTX version that knows this architecture.
            pub const fn first_ptx_version(self) -> PtxVersion {
                match self { $(Arch::$variant => PtxVersion::new($major, $minor)),* }
            }
        }
    };
}

architectures! {
    /// Volta.
    Sm70 = "sm_70" since (6, 0);
    /// Turing.
    Sm75 = "sm_75" since (6, 3);
    /// Ampere in the data centre (A100).
    Sm80 = "sm_80" since (7, 0);
    /// Ampere on the desktop.
    Sm86 = "sm_86" since (7, 1);
    /// Orin.
    Sm87 = "sm_87" since (7, 4);
    /// Ada.
    Sm89 = "sm_89" since (7, 8);
    /// Hopper, without what is Hopper's alone.
    Sm90 = "sm_90" since (7, 8);
    /// Hopper (H100, H200), `wgmma` included.
    Sm90a = "sm_90a" since (8, 0);
    /// Blackwell in the data centre, without what is its alone.
    Sm100 = "sm_100" since (8, 6);
    /// Blackwell in the data centre (B200).
    Sm100a = "sm_100a" since (8, 6);
    /// Blackwell on the desktop, without what is its alone.
    Sm120 = "sm_120" since (8, 7);
    /// Blackwell on the desktop.
    Sm120a = "sm_120a" since (8, 7);
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
