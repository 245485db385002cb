//! Random pools, like the convolutions of `draws`: the axes of an image or a volume differ in all attributes.

use cuda_std::Storage;

use super::draws::Draw;
use super::{Outcome, Run, max_pool2d, pool};

/// The padding of an axis, at most half of the window, and its extent, up to `most` more than a window
/// reaches.
fn axis(draw: &mut Draw, taps: usize, dilation: usize, most: usize) -> [usize; 2] {
    let padding = draw.from(0, taps / 2);
    let reach = dilation * (taps - 1) + 1;
    let extent = draw.from(reach.saturating_sub(2 * padding).max(1), reach + most);
    [padding, extent]
}

/// Checks images: pools alone, with a clamp and a scale, and after a norm. Half of them have rows that suit
/// stacks of windows.
pub(crate) fn images<T: Storage>(run: &Run) -> Outcome {
    let mut draw = Draw::new(17);
    for n in 0..32 {
        let is_like_stacks = n % 2 == 0;
        let [taps, stride, dilation] = match is_like_stacks {
            true => [
                [3, draw.from(1, 5)],
                [2, draw.from(1, 3)],
                [1, draw.of(&[1, 1, 2])],
            ],
            false => [(1, 5), (1, 4), (1, 3)]
                .map(|(least, most)| [draw.from(least, most), draw.from(least, most)]),
        };
        let [h, w] = [0, 1].map(|i| axis(&mut draw, taps[i], dilation[i], 30));
        let groups = draw.from(1, 3);
        let channels = groups * draw.from(1, 3);
        let shape = [draw.from(1, 3), channels, h[1], w[1]];
        let row = (shape, taps, stride, [h[0], w[0]], dilation, n % 3 == 0);
        max_pool2d::check_row::<T>(run, &row)?;
        if n % 4 < 2 {
            max_pool2d::check_normed::<T>(run, &row, groups)?;
        }
    }
    Ok(())
}

/// Checks volumes.
pub(crate) fn volumes<T: Storage>(run: &Run) -> Outcome {
    let mut draw = Draw::new(19);
    for n in 0..16 {
        let taps = draw.apart([1, 2, 3]).map(|taps| taps + n % 3);
        let stride = draw.apart([1, 2, 3]);
        let [d, h, w] = [0, 1, 2].map(|i| axis(&mut draw, taps[i], 1, 9));
        let shape = [draw.from(1, 2), draw.of(&[1, 3, 4]), d[1], h[1], w[1]];
        let row = (shape, taps, stride, [d[0], h[0], w[0]], n % 2 == 0);
        pool::check_row::<T>(run, &row)?;
    }
    Ok(())
}

/// Checks rows, of few columns: windows are shorter than a row, as long, or longer.
pub(crate) fn rows<T: Storage>(run: &Run) -> Outcome {
    let mut draw = Draw::new(31);
    for n in 0..32 {
        let taps = draw.of(&[2, 3, 4, 8, 16, 17]);
        let padding = draw.from(0, taps / 2);
        let columns = (taps + draw.from(0, 4)).saturating_sub(2 * padding).max(1);
        let stride = draw.from(1, 3);
        let rows = [draw.from(1, 2), draw.from(1, 3)];
        let shape = [1, draw.of(&[1, 3, 4]), rows[0], rows[1], columns];
        let row = (
            shape,
            [1, 1, taps],
            [1, 1, stride],
            [0, 0, padding],
            n % 2 == 0,
        );
        pool::check_row::<T>(run, &row)?;
    }
    Ok(())
}
