//! Whether an optional operand of a kernel exists.

/// Whether a kernel has an optional operand, such as a bias. The pointer of an absent one is null.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The operand does not exist.
    Absent = 0,
    /// It exists.
    Present = 1,
}

impl Presence {
    /// Present if `is_present`.
    #[must_use]
    pub const fn of(is_present: bool) -> Self {
        if is_present {
            Self::Present
        } else {
            Self::Absent
        }
    }

    /// Whether the operand exists.
    #[must_use]
    #[inline(always)]
    pub const fn is_present(self) -> bool {
        self as u32 != Self::Absent as u32
    }
}
