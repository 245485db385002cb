//! Damage to files: bytes anywhere, and what the formats' readers look at.

use fastrand::Rng;

/// How a file is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Text, JSON here.
    Text,
    /// A count of eight bytes, a head of JSON of that length, data.
    Safetensors,
    /// `\x93NUMPY`, a version, a count of two bytes, a head of that length, data.
    Numpy,
}

/// Bytes before the head of a safetensors file, and of a NumPy file.
const COUNT: usize = 8;
const NUMPY_COUNT: std::ops::Range<usize> = 8..10;

/// Numbers at which arithmetic goes wrong.
const NUMBERS: [&str; 24] = [
    "0",
    "-1",
    "1",
    "2",
    "7",
    "255",
    "256",
    "65535",
    "65536",
    "100000",
    "1000000000",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "-1e-308",
    "0.5",
    "1e999",
    "123456789012345678901234567890123456789012345678901234567890",
];

/// Pieces that readers take for something.
const PIECES: [&str; 22] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "true",
    "false",
    "{}",
    "[]",
    "\"\"",
    "\\u0000",
    "\u{1b}[2J",
    "\u{202e}",
    "\r",
    "\t",
    "NaN",
    "\"__metadata__\":{}",
    "\"F64\"",
    "\u{0}",
];

/// How deep brackets are nested.
const DEPTH: usize = 200_000;

/// A source of damage, which a case's number determines.
pub(super) struct Damage {
    random: Rng,
}

impl Damage {
    pub(super) fn of_case(seed: u64, number: u64) -> Damage {
        // Neighbouring seeds of this generator are no neighbours in what it gives.
        let mut first = Rng::with_seed(seed);
        let random = Rng::with_seed(first.u64(..) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Damage { random }
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.random.usize(..end)
    }

    /// A damaged copy of a file, in which there may be something of another one.
    pub(super) fn of(&mut self, format: Format, file: &[u8], other: &[u8]) -> Vec<u8> {
        let mut file = file.to_vec();
        // Mostly once: the more there is, the earlier a reader gives up.
        for _ in 0..[1, 1, 1, 2, 4][self.below(5)] {
            match format {
                Format::Text => self.text(&mut file, other),
                Format::Safetensors | Format::Numpy if self.below(3) == 0 => {
                    self.bytes(&mut file, other)
                }
                Format::Safetensors => self.head(&mut file, COUNT, 0..COUNT, other),
                Format::Numpy => self.head(&mut file, NUMPY_COUNT.end, NUMPY_COUNT, other),
            }
        }
        file
    }

    /// Damages a head of text, and makes its count right again or not.
    fn head(
        &mut self,
        file: &mut Vec<u8>,
        start: usize,
        count: std::ops::Range<usize>,
        other: &[u8],
    ) {
        let Some(bytes) = file.get(count.clone()) else {
            return self.bytes(file, other);
        };
        let len = bytes
            .iter()
            .rev()
            .fold(0_u64, |len, &byte| len << 8 | u64::from(byte));
        let end = usize::try_from(len)
            .ok()
            .and_then(|len| len.checked_add(start));
        let Some(end) = end.filter(|&end| end <= file.len()) else {
            return self.bytes(file, other);
        };
        let mut head = file[start..end].to_vec();
        self.text(&mut head, other);
        let is_right = self.below(8) > 0;
        let len = (head.len() as u64).to_le_bytes();
        file.splice(start..end, head);
        if is_right {
            let width = count.len();
            file[count].copy_from_slice(&len[..width]);
        }
    }

    /// Damages text as its readers see it: numbers, words, brackets.
    fn text(&mut self, text: &mut Vec<u8>, other: &[u8]) {
        match self.below(10) {
            0..4 => self.number(text),
            4 => self.word(text),
            5 => {
                let piece = PIECES[self.below(PIECES.len())];
                let at = self.below(text.len() + 1);
                text.splice(at..at, piece.bytes());
            }
            6 => self.cut(text, b",{}[]"),
            7 => self.again(text, b",{}[]"),
            8 if self.below(20) == 0 => {
                let at = self.below(text.len() + 1);
                let bracket = [b'[', b'{'][self.below(2)];
                text.splice(at..at, vec![bracket; DEPTH]);
            }
            _ => self.bytes(text, other),
        }
    }

    /// Puts another number in the place of one.
    fn number(&mut self, text: &mut Vec<u8>) {
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let starts = (0..text.len())
            .filter(|&at| is_digit(&text[at]) && (at == 0 || !is_digit(&text[at - 1])));
        let starts: Vec<usize> = starts.collect();
        if starts.is_empty() {
            return;
        }
        let start = starts[self.below(starts.len())];
        let len = text[start..]
            .iter()
            .take_while(|byte| is_digit(byte))
            .count();
        let number = NUMBERS[self.below(NUMBERS.len())];
        text.splice(start..start + len, number.bytes());
    }

    /// Puts a quoted word of the text in the place of another.
    fn word(&mut self, text: &mut Vec<u8>) {
        let quotes: Vec<usize> = (0..text.len()).filter(|&at| text[at] == b'"').collect();
        let words = quotes.len() / 2;
        if words == 0 {
            return;
        }
        let [from, to] = [self.below(words), self.below(words)]
            .map(|word| quotes[2 * word]..quotes[2 * word + 1]);
        let word = text[from].to_vec();
        text.splice(to, word);
    }

    /// Takes out what lies between two of these bytes.
    fn cut(&mut self, text: &mut Vec<u8>, at: &[u8]) {
        let range = self.between(text, at);
        text.drain(range);
    }

    /// Repeats what lies between two of these bytes.
    fn again(&mut self, text: &mut Vec<u8>, at: &[u8]) {
        let range = self.between(text, at);
        let (end, repeated) = (range.end, text[range].to_vec());
        text.splice(end..end, repeated);
    }

    fn between(&mut self, text: &[u8], at: &[u8]) -> std::ops::Range<usize> {
        let places: Vec<usize> = (0..text.len())
            .filter(|&place| at.contains(&text[place]))
            .collect();
        if places.is_empty() {
            return 0..0;
        }
        let [a, b] = [0; 2].map(|_| places[self.below(places.len())]);
        a.min(b)..a.max(b)
    }

    /// Damages bytes, whatever they mean.
    fn bytes(&mut self, file: &mut Vec<u8>, other: &[u8]) {
        if file.is_empty() {
            file.extend(other);
            return;
        }
        let len = file.len();
        let (a, b) = (self.below(len), self.below(len));
        let range = a.min(b)..a.max(b);
        match self.below(6) {
            0 => file[a] ^= 1 << self.below(8),
            1 => file[a] = [0, 1, 0x7f, 0x80, 0xff, b'0'][self.below(6)],
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
