//! The tests of specifications and graphs, in one binary.

/// Asserts that each result is an error with exactly this message.
macro_rules! refused {
    ($($result:expr => $words:expr;)+) => {
        $(assert_eq!($result.unwrap_err().to_string(), $words);)+
    };
}

/// Asserts that each result is an error whose message contains these words.
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
mod guide_table;
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
