//! Loads and converts the input: from global memory to planes in shared memory.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{cp_async, math, thread};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    BLOCK_THREADS, COPY_BYTES, OneLaunch3dGeometry, PEEK_ROWS, PLANE_WORDS, RECIPROCAL_SHIFT,
    ROW_PITCH, STAGING_ROWS, WIDTH,
};

use super::common;
use super::format::{Format, halves};
use crate::parts::unroll::unroll;

/// Words of a copy in one channel.
const COPY_WORDS: u32 = COPY_BYTES / 4;

/// Word of a plane where the peek (the sample's first rows) is stored until it is converted. It follows the
/// converted rows (a row takes at most 38 words if a depth has at least 3 rows), and two peeks fit before the
/// plane's end.
const PEEK_WORD: u32 = 6144;
const PEEK_WORDS: u32 = PEEK_ROWS * WIDTH;
const _: () = assert!(PEEK_ROWS * 38 <= PEEK_WORD && PEEK_WORD + 2 * PEEK_WORDS <= PLANE_WORDS);

/// The conversion of f32 values before rounding: `x * scale + offset[c]`, with offsets of about minus the
/// means. A constant added to an input channel adds a constant to the convolution, which the norm removes, as
/// it removes a factor. So neither changes the result. The offset keeps a large mean from taking the bits of
/// the deviation, and the scale keeps values inside f16's range.
#[derive(Clone, Copy)]
pub(super) struct Centre {
    /// A power of two.
    pub(super) scale: f32,
    /// The offset of each channel.
    pub(super) offset: [f32; 3],
}

impl Centre {
    /// The conversion with `scale` that subtracts `means`.
    #[inline(always)]
    pub(super) fn new(scale: f32, means: [f32; 3]) -> Self {
        Self {
            scale,
            offset: [-means[0] * scale, -means[1] * scale, -means[2] * scale],
        }
    }

    /// Stores the conversion. Other threads may load it after the next barrier.
    #[inline(always)]
    pub(super) unsafe fn store(self, common: Shared<f32>) {
        let [a, b, c] = self.offset;
        common.store_vec(common::CENTRE, [self.scale, a, b, c]);
    }

    /// Loads the stored conversion.
    #[inline(always)]
    pub(super) unsafe fn load(common: Shared<f32>) -> Self {
        let [scale, a, b, c] = common.load_vec::<4>(common::CENTRE);
        Self {
            scale,
            offset: [a, b, c],
        }
    }
}

/// The loader of the block's sample.
#[derive(Clone, Copy)]
pub(super) struct Filler<'a, F: Format> {
    /// The sample.
    pub(super) x: Global<F::Stored>,
    /// The planes.
    pub(super) planes: Shared<u32>,
    /// The staging area of rows that arrive during a round.
    pub(super) staging: Shared<u32>,
    /// The geometry.
    pub(super) g: &'a OneLaunch3dGeometry,
}

/// Pixels of a copy.
const fn copy_pixels<F: Format>() -> u32 {
    COPY_BYTES / size_of::<F::Stored>() as u32
}

/// Copies of a row.
pub(super) const fn row_copies<F: Format>() -> u32 {
    WIDTH / copy_pixels::<F>()
}

impl<F: Format> Filler<'_, F> {
    /// Copies of the sample's rows up to `rows`.
    #[inline(always)]
    fn copies(&self, rows: u32) -> u32 {
        rows.min(self.g.rows) * row_copies::<F>()
    }

    /// The peek's channel `c`.
    #[inline(always)]
    fn peek(&self, c: u32) -> Shared<u32> {
        let at = match c {
            0 => PEEK_WORD,
            1 => PEEK_WORD + PEEK_WORDS,
            _ => PLANE_WORDS + PEEK_WORD,
        };
        self.planes.slice(at, PEEK_WORDS)
    }

    /// Starts to copy the first [`PEEK_ROWS`] rows, 16 bytes at a time.
    ///
    /// The copies bypass L1, which is too small beside this much shared memory to keep them all in flight.
    #[inline(always)]
    pub(super) unsafe fn start_peek(&self) {
        let chunks = self.copies(PEEK_ROWS) / 2;
        let channel = self.g.channel_elements();
        let mut c = 0;
        while c < 3 {
            let peek = self.peek(c);
            let mut chunk = thread::thread_idx_x();
            while chunk < chunks {
                let from = c as usize * channel + (chunk * 2 * copy_pixels::<F>()) as usize;
                cp_async::copy16(peek.addr(chunk * 4), self.x, from);
                chunk += BLOCK_THREADS;
            }
            c += 1;
        }
    }

    #[inline(always)]
    unsafe fn load_peek(&self, copy: u32) -> [[u32; 2]; 3] {
        let at = copy * COPY_WORDS;
        [
            self.peek(0).load_vec(at),
            self.peek(1).load_vec(at),
            self.peek(2).load_vec(at),
        ]
    }

    /// The largest magnitude of this thread's copies of the peek (NaN if one is NaN), their sum for each
    /// channel, and the number of their pixels.
    #[inline(always)]
    pub(super) unsafe fn survey_peek(&self) -> (f32, [f32; 3], u32) {
        let (mut largest, mut sums, mut pixels) = (0.0, [0.0; 3], 0);
        let mut copy = thread::thread_idx_x();
        while copy < self.copies(PEEK_ROWS) {
            let raw = self.load_peek(copy);
            unroll!(3, |c| {
                let x = values::<F>(raw[c]);
                unroll!(4, |i| {
                    if (i as u32) < copy_pixels::<F>() {
                        sums[c] += x[i];
                        largest = math::max_nan(largest, math::abs(x[i]));
                    }
                });
            });
            pixels += copy_pixels::<F>();
            copy += BLOCK_THREADS;
        }
        (largest, sums, pixels)
    }

    /// Converts the peek.
    #[inline(always)]
    pub(super) unsafe fn convert_peek(&self, centre: Centre) {
        // Not used: `survey_peek` has already found the largest magnitude.
        let mut largest = 0.0;
        let copies = self.copies(PEEK_ROWS);
        let mut copy = thread::thread_idx_x();
        while copy < copies {
            // Four loads in flight.
            let load = |copy: u32| self.load_peek(copy.min(copies - 1));
            let raw = [
                load(copy),
                load(copy + BLOCK_THREADS),
                load(copy + 2 * BLOCK_THREADS),
                load(copy + 3 * BLOCK_THREADS),
            ];
            unroll!(4, |i| {
                if copy + i as u32 * BLOCK_THREADS < copies {
                    self.convert(
                        copy + i as u32 * BLOCK_THREADS,
                        raw[i],
                        centre,
                        &mut largest,
                    );
                }
            });
            copy += 4 * BLOCK_THREADS;
        }
    }

    /// Starts to copy [`STAGING_ROWS`] rows from row `first` on.
    #[inline(always)]
    pub(super) unsafe fn start_staging(&self, first: u32) {
        let channel = self.g.channel_elements();
        let staging_copies = STAGING_ROWS * row_copies::<F>();
        let start = first * row_copies::<F>();
        let mut copy = thread::thread_idx_x();
        while copy < staging_copies && start + copy < self.copies(self.g.rows) {
            let from = ((start + copy) * copy_pixels::<F>()) as usize;
            let to = self.staging.addr(copy * COPY_WORDS);
            let step = staging_copies * COPY_BYTES;
            cp_async::copy8(to, self.x, from);
            cp_async::copy8(to.offset(step), self.x, from + channel);
            cp_async::copy8(to.offset(2 * step), self.x, from + 2 * channel);
            copy += BLOCK_THREADS;
        }
    }

    /// Waits for the copies of [`Self::start_staging`] and converts them. Each thread converts its own
    /// copies, so no barrier is needed in between. Returns their largest magnitude.
    #[inline(always)]
    pub(super) unsafe fn finish_staging(&self, first: u32, centre: Centre) -> f32 {
        let mut largest = 0.0;
        cp_async::wait_all();
        let staging_copies = STAGING_ROWS * row_copies::<F>();
        let start = first * row_copies::<F>();
        let mut copy = thread::thread_idx_x();
        while copy < staging_copies && start + copy < self.copies(self.g.rows) {
            let at = copy * COPY_WORDS;
            let step = staging_copies * COPY_WORDS;
            let raw = [
                self.staging.load_vec(at),
                self.staging.load_vec(at + step),
                self.staging.load_vec(at + 2 * step),
            ];
            self.convert(start + copy, raw, centre, &mut largest);
            copy += BLOCK_THREADS;
        }
        largest
    }

    /// Converts the rows from `first` to `end`, directly from `words`, the sample in words. Returns their
    /// largest magnitude.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    pub(super) unsafe fn convert_rows(
        &self,
        words: Global<u32>,
        first: u32,
        end: u32,
        centre: Centre,
    ) -> f32 {
        let end = end * row_copies::<F>();
        let channel = self.g.channel_elements() * size_of::<F::Stored>() / 4;
        let load = |copy: u32| {
            let at = (copy.min(end - 1) * COPY_WORDS) as usize;
            [
                words.load_vec_readonly(at),
                words.load_vec_readonly(at + channel),
                words.load_vec_readonly(at + 2 * channel),
            ]
        };
        let mut largest = 0.0;
        let mut copy = first * row_copies::<F>() + thread::thread_idx_x();
        while copy < end {
            // Four loads in flight.
            let raw = [
                load(copy),
                load(copy + BLOCK_THREADS),
                load(copy + 2 * BLOCK_THREADS),
                load(copy + 3 * BLOCK_THREADS),
            ];
            unroll!(4, |i| {
                if copy + i as u32 * BLOCK_THREADS < end {
                    self.convert(
                        copy + i as u32 * BLOCK_THREADS,
                        raw[i],
                        centre,
                        &mut largest,
                    );
                }
            });
            copy += 4 * BLOCK_THREADS;
        }
        largest
    }

    /// Stores the words of copy `copy`, and keeps track of the largest magnitude.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    unsafe fn convert(&self, copy: u32, raw: [[u32; 2]; 3], centre: Centre, largest: &mut f32) {
        let g = self.g;
        let row = copy / row_copies::<F>();
        let column = copy % row_copies::<F>() * copy_pixels::<F>();
        let d = (row * g.height_reciprocal) >> RECIPROCAL_SHIFT;
        let at = d * g.slice_words + (row - d * g.height) * ROW_PITCH + column;
        unroll!(4, |i| {
            if (i as u32) < copy_pixels::<F>() {
                let at = at + i as u32;
                if F::CENTRED {
                    let bits = [raw[0][i % 2], raw[1][i % 2], raw[2][i % 2]];
                    self.store_centred(at, d, bits.map(f32::from_bits), centre, largest);
                } else {
                    let half = |c: usize| (raw[c][i / 2] >> (16 * (i % 2))) & 0xffff;
                    self.planes.store(at, half(0) | half(1) << 16);
                    self.store_third(at, d, half(2) as u16);
                }
            }
        });
    }

    #[inline(always)]
    unsafe fn store_centred(
        &self,
        at: u32,
        d: u32,
        x: [f32; 3],
        centre: Centre,
        largest: &mut f32,
    ) {
        let larger = math::max_nan(math::abs(x[0]), math::abs(x[1]));
        *largest = math::max_nan(math::max_nan(*largest, larger), math::abs(x[2]));
        let v = [
            math::fma(x[0], centre.scale, centre.offset[0]),
            math::fma(x[1], centre.scale, centre.offset[1]),
            math::fma(x[2], centre.scale, centre.offset[2]),
        ];
        let planes = self.planes;
        let high = F::pack(v[0], v[1]);
        planes.store(at, high);
        let third = F::pack(v[2], 0.0);
        if F::F16X2 {
            let [h0, h1] = halves::<F>(high);
            planes.store(at + PLANE_WORDS, F::pack(v[0] - h0, v[1] - h1));
            let [h2, _] = halves::<F>(third);
            planes.store(at + 2 * PLANE_WORDS, F::pack(v[2], v[2] - h2));
        } else {
            self.store_third(at, d, third as u16);
        }
    }

    /// Stores channel 2 of a pixel in the low half of its own word of plane 1, and in the high half of the
    /// word one depth before.
    #[inline(always)]
    unsafe fn store_third(&self, at: u32, d: u32, third: u16) {
        let halves = self.planes.cast::<u16>();
        let half = (at + PLANE_WORDS) * 2;
        halves.store(half, third);
        if d > 0 {
            halves.store(half - slice_halves(self.g) + 1, third);
        }
    }
}

/// Halves from one depth of a plane to the next.
#[inline(always)]
fn slice_halves(g: &OneLaunch3dGeometry) -> u32 {
    g.slice_words * 2
}

/// The values of a copy in one channel: two f32, or four of 16 bits.
#[inline(always)]
fn values<F: Format>(raw: [u32; 2]) -> [f32; 4] {
    if size_of::<F::Stored>() == 4 {
        [f32::from_bits(raw[0]), f32::from_bits(raw[1]), 0.0, 0.0]
    } else {
        let ([a, b], [c, d]) = (halves::<F>(raw[0]), halves::<F>(raw[1]));
        [a, b, c, d]
    }
}
