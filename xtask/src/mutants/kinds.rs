//! What is changed, by kind.

/// The kinds of mutants. A sample has as many of each, as long as there are some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// `+ - * / %`, `-x`, and the methods that wrap or saturate.
    Arithmetic,
    /// `& | ^ << >>`.
    Bits,
    /// `< <= > >= == !=`.
    Comparison,
    /// The end of a range, what an order is compared with, and what `min` or `max` limit: one more, one less,
    /// no limit.
    Bound,
    /// Where something is loaded from or stored to: one further.
    Index,
    /// The smaller for the larger.
    MinMax,
    /// What becomes of NaN and infinities.
    Nan,
    /// Axes and attributes exchanged: `h` and `w`, `stride` and `dilation`, `[0]` and `[1]`.
    Axis,
    /// Two arguments exchanged that stand side by side.
    Argument,
    /// Numbers and named constants: one more or less; `true` and `false`.
    Constant,
    /// A barrier, fence, wait, arrival or commit left out.
    Synchronisation,
    /// A wait that leaves one more under way.
    Wait,
    /// A parity inverted.
    Parity,
    /// A variable that keeps what it had.
    Reset,
    /// A store left out.
    Store,
    /// Whole numbers rounded the other way; a product and a sum rounded twice.
    Rounding,
    /// `&&` and `||`, `!` left out.
    Logic,
    /// The condition of an `if` or a `while` negated.
    Condition,
    /// Another variable of the function, or another field that it reads of the same value, which likely has
    /// the same type.
    Variable,
    /// A term, a factor, a part of a condition left out; a sum that becomes its last term.
    Term,
    /// Other statements left out: `+=`, calls, an `if` with what it does, `break` and `continue`.
    Statement,
    /// Two statements exchanged, of which one assigns what the other has, or synchronises.
    Order,
    /// A loop that ends behind its first round.
    Loop,
    /// Numbers that go through a shorter type, or are multiplied in one.
    Conversion,
    /// A mistake that somebody wrote down, of which none are drawn.
    Given,
}

impl Kind {
    /// All that are drawn.
    pub(crate) const ALL: [Self; 24] = [
        Self::Arithmetic,
        Self::Bits,
        Self::Comparison,
        Self::Bound,
        Self::Index,
        Self::MinMax,
        Self::Nan,
        Self::Axis,
        Self::Argument,
        Self::Constant,
        Self::Synchronisation,
        Self::Wait,
        Self::Parity,
        Self::Reset,
        Self::Store,
        Self::Rounding,
        Self::Logic,
        Self::Condition,
        Self::Variable,
        Self::Term,
        Self::Statement,
        Self::Order,
        Self::Loop,
        Self::Conversion,
    ];

    /// The kind that reports call so.
    pub(crate) fn of(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("no kind of mutants; there are {names}")
        })
    }

    /// Whether the order in which threads run may decide if such a mutant shows.
    pub(crate) fn is_of_order(self) -> bool {
        matches!(
            self,
            Self::Synchronisation
                | Self::Wait
                | Self::Parity
                | Self::Reset
                | Self::Store
                | Self::Order
                | Self::Given
        )
    }

    /// What reports call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Bits => "bits",
            Self::Comparison => "comparison",
            Self::Bound => "bound",
            Self::Index => "index",
            Self::MinMax => "min-max",
            Self::Nan => "nan",
            Self::Axis => "axis",
            Self::Argument => "argument",
            Self::Constant => "constant",
            Self::Synchronisation => "synchronisation",
            Self::Wait => "wait",
            Self::Parity => "parity",
            Self::Reset => "reset",
            Self::Store => "store",
            Self::Rounding => "rounding",
            Self::Logic => "logic",
            Self::Condition => "condition",
            Self::Variable => "variable",
            Self::Term => "term",
            Self::Statement => "statement",
            Self::Order => "order",
            Self::Loop => "loop",
            Self::Conversion => "conversion",
            Self::Given => "given",
        }
    }
}

/// What stands for a binary operator, and of which kind that is.
pub(crate) fn other_operator(operator: &str) -> Option<(Kind, &'static str)> {
    Some(match operator {
        "+" => (Kind::Arithmetic, "-"),
        "-" => (Kind::Arithmetic, "+"),
        "*" => (Kind::Arithmetic, "+"),
        "/" => (Kind::Arithmetic, "*"),
        "%" => (Kind::Arithmetic, "/"),
        "+=" => (Kind::Arithmetic, "-="),
        "-=" => (Kind::Arithmetic, "+="),
        "*=" => (Kind::Arithmetic, "+="),
        "/=" => (Kind::Arithmetic, "*="),
        "&" => (Kind::Bits, "|"),
        "|" => (Kind::Bits, "&"),
        "^" => (Kind::Bits, "|"),
        "<<" => (Kind::Bits, ">>"),
        ">>" => (Kind::Bits, "<<"),
        "<" => (Kind::Comparison, "<="),
        "<=" => (Kind::Comparison, "<"),
        ">" => (Kind::Comparison, ">="),
        ">=" => (Kind::Comparison, ">"),
        "==" => (Kind::Comparison, "!="),
        "!=" => (Kind::Comparison, "=="),
        "&&" => (Kind::Logic, "||"),
        "||" => (Kind::Logic, "&&"),
        _ => return None,
    })
}

/// What stands for a function or method of this name that takes the same arguments.
pub(crate) fn other_function(name: &str) -> Option<(Kind, &'static str)> {
    Some(match name {
        "min" => (Kind::MinMax, "max"),
        "max" => (Kind::MinMax, "min"),
        "min_nan" => (Kind::MinMax, "max_nan"),
        "max_nan" => (Kind::MinMax, "min_nan"),
        "wrapping_add" => (Kind::Arithmetic, "wrapping_sub"),
        "wrapping_sub" => (Kind::Arithmetic, "wrapping_add"),
        "saturating_add" => (Kind::Arithmetic, "saturating_sub"),
        "saturating_sub" => (Kind::Arithmetic, "saturating_add"),
        "larger" => (Kind::MinMax, "smaller"),
        "smaller" => (Kind::MinMax, "larger"),
        _ => return None,
    })
}

/// The names that a name of an axis or of an attribute is confused with.
pub(crate) fn other_axes(name: &str) -> Vec<String> {
    const AXES: [[&str; 2]; 12] = [
        ["h", "w"],
        ["w", "h"],
        ["d", "h"],
        ["p", "q"],
        ["q", "p"],
        ["z", "p"],
        ["r", "s"],
        ["s", "r"],
        ["t", "r"],
        ["c", "k"],
        ["k", "c"],
        ["n", "c"],
    ];
    const ATTRIBUTES: [[&str; 2]; 12] = [
        ["stride", "dilation"],
        ["dilation", "stride"],
        ["padding", "stride"],
        ["stride", "padding"],
        ["tile", "tiles"],
        ["tiles", "tile"],
        ["rows", "columns"],
        ["columns", "rows"],
        ["group", "groups"],
        ["first", "end"],
        ["start", "end"],
        ["input", "output"],
    ];
    // The axis is the last word of a name, an attribute any.
    let words: Vec<&str> = name.split('_').collect();
    let with = |at: usize, word: &str| {
        let mut words = words.clone();
        words[at] = word;
        words.join("_")
    };
    let mut others = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is_last = at + 1 == words.len();
        let axes = AXES.iter().filter(|[from, _]| is_last && from == word);
        let attributes = ATTRIBUTES.iter().filter(|[from, _]| from == word);
        others.extend(axes.chain(attributes).map(|[_, to]| with(at, to)));
    }
    others
}

/// Whether a call of this name is there for order alone.
pub(crate) fn is_synchronisation(path: &str) -> bool {
    const WORDS: [&str; 7] = [
        "sync",
        "wait",
        "arrive",
        "fence",
        "commit",
        "expect",
        "invalidate",
    ];
    let name = path.rsplit("::").next().unwrap_or(path);
    name.split('_').any(|word| WORDS.contains(&word)) || path.starts_with("barrier::")
}

/// Whether a call of this name leaves something in memory.
pub(crate) fn is_store(name: &str) -> bool {
    let words = [
        "store", "copy", "copy4", "copy8", "copy16", "write", "init", "put",
    ];
    name.split('_').any(|word| words.contains(&word))
}

/// Whether the first argument of a method of this name is an element's index.
pub(crate) fn takes_index(name: &str) -> bool {
    ["load", "store", "addr"].contains(&name.split('_').next().unwrap_or(name))
}

/// Whether a function gives the same for its first two arguments exchanged.
pub(crate) fn commutes(name: &str) -> bool {
    ["min", "max", "min_nan", "max_nan", "fma", "add", "mul"].contains(&name)
}
