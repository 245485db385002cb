//! Damage to files: random bytes, and damage specific to the formats' readers.

use std::ops::Range;

use fastrand::Rng;

/// The structure of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Text, here JSON.
    Text,
    /// An eight-byte count, a JSON header of that length, data.
    Safetensors,
    /// `\x93NUMPY`, a version, a two-byte count, a header of that length, data.
    Numpy,
}

/// Numbers at the limits of arithmetic.
const NUMBERS: &str = "0 -1 1 2 7 255 256 65535 65536 100000 1000000000 2147483647 2147483648 \
    4294967295 4294967296 9223372036854775807 9223372036854775808 18446744073709551615 \
    18446744073709551616 1e308 -1e-308 0.5 1e999 \
    123456789012345678901234567890123456789012345678901234567890";

/// Texts with a meaning for readers.
const PIECES: &str = "{ } [ ] \" , : null true false {} [] \"\" \\u0000 \u{1b}[2J \u{202e} \r \t NaN \
    \"__metadata__\":{} \"F64\" \u{0}";

/// Separators of JSON elements.
const BETWEEN: &[u8] = b",{}[]";

/// The nesting depth of brackets.
const DEPTH: usize = 200_000;

/// A source of damage, determined by a case's number.
pub(super) struct Damage(Rng);

impl Damage {
    pub(super) fn of_case(seed: u64, number: u64) -> Damage {
        // Adjacent seeds of this generator give similar numbers.
        let mut first = Rng::with_seed(seed);
        Damage(Rng::with_seed(
            first.u64(..) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ))
    }

    /// A number below `end`, which must not be 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    /// Chooses one element.
    pub(super) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A damaged copy of a file, possibly with a part of another one.
    pub(super) fn of(&mut self, format: Format, file: &[u8], other: &[u8]) -> Vec<u8> {
        let mut file = file.to_vec();
        // Mostly a single damage: with more, a reader fails earlier.
        for _ in 0..*self.one(&[1, 1, 1, 2, 4]) {
            match format {
                Format::Text => self.text(&mut file, other),
                _ if self.below(3) == 0 => self.bytes(&mut file, other),
                Format::Safetensors => self.head(&mut file, 0..8, other),
                Format::Numpy => self.head(&mut file, 8..10, other),
            }
        }
        file
    }

    /// Damages a text header after its count. In most cases, corrects the count.
    fn head(&mut self, file: &mut Vec<u8>, count: Range<usize>, other: &[u8]) {
        let len = file.get(count.clone()).and_then(|bytes| {
            let digits = bytes.iter().rev();
            usize::try_from(digits.fold(0_u64, |len, &byte| len << 8 | u64::from(byte))).ok()
        });
        let end = len.and_then(|len| len.checked_add(count.end));
        let Some(end) = end.filter(|&end| end <= file.len()) else {
            return self.bytes(file, other);
        };
        let mut head = file[count.end..end].to_vec();
        self.text(&mut head, other);
        let is_right = self.below(8) > 0;
        let len = (head.len() as u64).to_le_bytes();
        file.splice(count.end..end, head);
        if is_right {
            let width = count.len();
            file[count].copy_from_slice(&len[..width]);
        }
    }

    /// Damages text in terms of its syntax: numbers, words, brackets.
    fn text(&mut self, text: &mut Vec<u8>, other: &[u8]) {
        match self.below(10) {
            0..4 => self.number(text),
            4 => self.word(text),
            5 => {
                let piece = *self.one(&Vec::from_iter(PIECES.split(' ')));
                let at = self.below(text.len() + 1);
                text.splice(at..at, piece.bytes());
            }
            6 => drop(text.drain(self.between(text))),
            7 => {
                let range = self.between(text);
                let (end, repeated) = (range.end, text[range].to_vec());
                text.splice(end..end, repeated);
            }
            8 if self.below(20) == 0 => {
                let at = self.below(text.len() + 1);
                let bracket = *self.one(b"[{");
                text.splice(at..at, vec![bracket; DEPTH]);
            }
            _ => self.bytes(text, other),
        }
    }

    /// Replaces a number.
    fn number(&mut self, text: &mut Vec<u8>) {
        let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
        let is_start = |&at: &usize| is_digit(at) && (at == 0 || !is_digit(at - 1));
        let starts: Vec<usize> = (0..text.len()).filter(is_start).collect();
        if !starts.is_empty() {
            let start = *self.one(&starts);
            let len = (start..).take_while(|&at| is_digit(at)).count();
            let number = *self.one(&Vec::from_iter(NUMBERS.split(' ')));
            text.splice(start..start + len, number.bytes());
        }
    }

    /// Replaces a quoted word with another one of the text.
    fn word(&mut self, text: &mut Vec<u8>) {
        let quotes: Vec<usize> = (0..text.len()).filter(|&at| text[at] == b'"').collect();
        let words: Vec<&[usize]> = quotes.chunks_exact(2).collect();
        if !words.is_empty() {
            let [from, to] = [0; 2]
                .map(|_| self.one(&words))
                .map(|word| word[0]..word[1]);
            let word = text[from].to_vec();
            text.splice(to, word);
        }
    }

    /// Chooses a range between two separators.
    fn between(&mut self, text: &[u8]) -> Range<usize> {
        let is_place = |&place: &usize| BETWEEN.contains(&text[place]);
        let places: Vec<usize> = (0..text.len()).filter(is_place).collect();
        if places.is_empty() {
            return 0..0;
        }
        let [a, b] = [0; 2].map(|_| *self.one(&places));
        a.min(b)..a.max(b)
    }

    /// Damages bytes regardless of their meaning.
    fn bytes(&mut self, file: &mut Vec<u8>, other: &[u8]) {
        if file.is_empty() {
            return file.extend(other);
        }
        let len = file.len();
        let (a, b) = (self.below(len), self.below(len));
        let range = a.min(b)..a.max(b);
        match self.below(6) {
            0 => file[a] ^= 1 << self.below(8),
            1 => file[a] = *self.one(&[0, 1, 0x7f, 0x80, 0xff, b'0']),
            2 => file.truncate(a),
            3 => drop(file.drain(range)),
            4 => {
                let repeated = file[range].to_vec();
                file.splice(b..b, repeated);
            }
            _ => {
                let start = self.below(other.len().max(1)).min(other.len());
                let end = start + self.below(other.len() - start + 1);
                file.splice(a..a, other[start..end].iter().copied());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_case_follows_from_seed_and_number() {
        let file = br#"{"a": [1, 22], "b": "c"}"#;
        let damaged = |seed, number| Damage::of_case(seed, number).of(Format::Text, file, file);
        assert!((0..200).all(|number| damaged(1, number) == damaged(1, number)));
        let all: BTreeSet<_> = (0..200).map(|number| damaged(1, number)).collect();
        assert!(all.len() > 150, "{}", all.len());
        assert_ne!(damaged(1, 0), damaged(2, 0));
    }

    /// Otherwise readers would never get past the header's count.
    #[test]
    fn most_heads_are_as_long_as_they_say() {
        let file = include_bytes!("../../../tests/corpus/parameters.safetensors");
        let is_right = |number: &u64| {
            let damaged = Damage::of_case(0, *number).of(Format::Safetensors, file, file);
            let count = damaged
                .first_chunk::<8>()
                .map(|count| u64::from_le_bytes(*count));
            let head = count.and_then(|count| damaged.get(8..8 + usize::try_from(count).ok()?));
            let is_json = |head| serde_json::from_slice::<serde_json::Value>(head).is_ok();
            damaged != file && head.is_some_and(is_json)
        };
        let right = (0..400).filter(is_right).count();
        assert!(right > 80, "{right} of 400");
    }
}
