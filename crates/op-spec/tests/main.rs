//! The tests of specifications and graphs, as one program.

/// Wants each to be refused, in these words.
macro_rules! refused {
    ($($result:expr => $words:expr;)+) => {
        $(assert_eq!($result.unwrap_err().to_string(), $words);)+
    };
}

/// Wants each to be refused, with these words among others.
macro_rules! says {
    ($($result:expr => $($words:literal),+;)+) => {$(
        let text = $result.unwrap_err().to_string();
        $(assert!(text.contains($words), "{text}");)+
    )+};
}

mod builders;
mod chain;
mod classifiers;
mod graph;
mod guide;
mod inputs;
mod joins;
mod layers;
mod network;
mod paddings;
mod pool;
mod properties;
mod refusals;
mod reshapes;
mod shuffles;
mod upsample;
