//! Packing of intermediate values into a program's workspace.

/// The bytes of a value and its live range: from step `born` to before step `gone_by`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Life {
    pub(super) bytes: u64,
    pub(super) born: usize,
    pub(super) gone_by: usize,
}

/// The alignment of values, equal to that of device allocations.
const ALIGNMENT: u64 = 256;

/// Returns an offset for each value such that no two values that live at the same time overlap, and the size
/// of the workspace. Sums saturate at 2^64, which exceeds any device.
///
/// Values are placed from the largest to the smallest, each at the lowest offset that is free during its live
/// range.
pub(super) fn pack(lives: &[Life]) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lives[index].bytes));
    let mut offsets = vec![0; lives.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut end = 0;
    for index in order {
        let life = lives[index];
        if life.bytes == 0 {
            continue;
        }
        let mut taken: Vec<[u64; 2]> = placed
            .iter()
            .filter(|&&other| {
                let other = lives[other];
                life.born < other.gone_by && other.born < life.gone_by
            })
            .map(|&other| {
                let start: u64 = offsets[other];
                [start, start.saturating_add(lives[other].bytes)]
            })
            .collect();
        taken.sort_unstable();
        let mut offset = 0u64;
        for [start, stop] in taken {
            if offset.saturating_add(life.bytes) <= start {
                break;
            }
            offset = offset.max(stop.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX));
        }
        offsets[index] = offset;
        placed.push(index);
        end = end.max(offset.saturating_add(life.bytes));
    }
    (offsets, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use op_spec::data;

    /// The largest number of bytes alive at one time: a lower bound for any packing.
    fn least(lives: &[Life]) -> u64 {
        let at = |now: usize| {
            let live = lives
                .iter()
                .filter(|life| life.born <= now && now < life.gone_by);
            live.map(|life| life.bytes).sum()
        };
        (0..lives.len()).map(at).max().unwrap_or(0)
    }

    #[test]
    fn a_chain_takes_what_its_largest_step_takes() {
        let life = |bytes, born, gone_by| Life {
            bytes: bytes * ALIGNMENT,
            born,
            gone_by,
        };
        // An output, its workspace, and a chain of outputs of decreasing size.
        let lives = [
            life(8, 0, 3),
            life(100, 1, 2),
            life(8, 2, 5),
            life(1, 3, 4),
            life(8, 4, 6),
            life(2, 5, 7),
        ];
        let (offsets, bytes) = pack(&lives);
        assert_eq!(bytes, 108 * ALIGNMENT);
        assert_eq!(bytes, least(&lives));
        assert!(offsets.iter().all(|offset| offset % ALIGNMENT == 0));
    }

    #[test]
    fn no_two_that_live_together_overlap() {
        for seed in 0..50 {
            let number = |index: u64, below: u64| data::splitmix64(seed * 1000 + index) % below;
            let lives: Vec<Life> = (0..12)
                .map(|born| Life {
                    bytes: number(2 * born, 5000),
                    born: born as usize,
                    gone_by: (born + 1 + number(2 * born + 1, 4)) as usize,
                })
                .collect();
            let (offsets, bytes) = pack(&lives);
            assert!(bytes >= least(&lives));
            for (i, one) in lives.iter().enumerate() {
                assert!(one.bytes == 0 || offsets[i] + one.bytes <= bytes);
                for (j, two) in lives.iter().enumerate().take(i) {
                    let together = one.born < two.gone_by && two.born < one.gone_by;
                    let apart = offsets[i] + one.bytes <= offsets[j]
                        || offsets[j] + two.bytes <= offsets[i];
                    assert!(
                        !together || apart || one.bytes * two.bytes == 0,
                        "{i} and {j}"
                    );
                }
            }
        }
    }
}
