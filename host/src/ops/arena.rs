//! Where operators get their outputs and workspaces from.

use crate::device::{DType, Stream, Tensor, Watch};
use crate::error::Result;

/// The source of an operator's tensors: fresh memory, or the memory of a plan.
///
/// A plan runs the same operators on the same shapes again and again. Its first run is *recorded*: each tensor is fresh,
/// and the arena notes between which requests it lives. [`settle`](Arena::settle) then packs all of them into one
/// allocation, where tensors that never live at the same time share bytes, and later runs are handed the same places
/// in the same order. They are free of allocation without a second version of any operator, and take as little memory
/// as the first run did at its peak. All of it happens on one stream, so a run never overwrites what an earlier one,
/// or an earlier operator, still reads.
///
/// The one tensor that differs from run to run is the output: the caller brings it.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    source: Source,
}

#[derive(Debug, Default)]
enum Source {
    /// Fresh memory for every tensor.
    #[default]
    Fresh,
    /// The same, with notes.
    Recording(Vec<Request>),
    /// The memory of a plan.
    Settled(Settled),
}

/// A tensor that was asked for.
#[derive(Debug)]
struct Request {
    shape: Box<[usize]>,
    dtype: DType,
    bytes: u64,
    watch: Watch,
    /// The first request that was made after its last handle was dropped.
    gone_by: Option<usize>,
}

#[derive(Debug)]
struct Settled {
    /// All intermediate tensors and workspaces.
    memory: Tensor,
    /// Tensors in the order of their requests; `None` where the caller's output goes.
    places: Vec<Option<Tensor>>,
    next: usize,
    output: Option<Tensor>,
}

impl Arena {
    /// Fresh memory for every tensor.
    pub(crate) fn fresh() -> Arena {
        Arena::default()
    }

    /// Fresh memory for the first of many runs.
    pub(crate) fn recording() -> Arena {
        Arena {
            source: Source::Recording(Vec::new()),
        }
    }

    /// Ends the recorded run, whose result was `output`, and allocates what later runs need on its stream.
    pub(crate) fn settle(self, output: &Tensor) -> Result<Arena> {
        let Source::Recording(mut requests) = self.source else {
            return Ok(self);
        };
        note_gone(&mut requests);
        let (stream, end) = (output.stream(), requests.len());
        let lives: Vec<Life> = requests
            .iter()
            .enumerate()
            .map(|(index, request)| Life {
                // The caller brings the output.
                bytes: if request.watch.is_of(output) {
                    0
                } else {
                    request.bytes
                },
                born: index,
                gone_by: request.gone_by.unwrap_or(end),
            })
            .collect();
        let (offsets, bytes) = pack(&lives);
        let words = bytes.div_ceil(DType::F32.size() as u64) as usize;
        let memory = Tensor::uninit(stream, &[words], DType::F32)?;
        let place = |(request, offset): (&Request, u64)| {
            let own = !request.watch.is_of(output);
            own.then(|| memory.part(offset, &request.shape, request.dtype))
        };
        Ok(Arena {
            source: Source::Settled(Settled {
                places: requests.iter().zip(offsets).map(place).collect(),
                memory,
                next: 0,
                output: None,
            }),
        })
    }

    /// Starts the next run, which writes to `output`.
    pub(crate) fn rewind(&mut self, output: &Tensor) {
        if let Source::Settled(settled) = &mut self.source {
            (settled.next, settled.output) = (0, Some(output.clone()));
        }
    }

    /// Ends a run: the output is the caller's alone again.
    pub(crate) fn take_back(&mut self) {
        if let Source::Settled(settled) = &mut self.source {
            settled.output = None;
        }
    }

    /// Bytes that are kept between runs.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.source {
            Source::Settled(settled) => settled.memory.bytes(),
            Source::Fresh | Source::Recording(_) => 0,
        }
    }

    /// A tensor of unspecified content.
    pub(crate) fn tensor(
        &mut self,
        stream: &Stream,
        shape: &[usize],
        dtype: DType,
    ) -> Result<Tensor> {
        match &mut self.source {
            Source::Fresh => Tensor::uninit(stream, shape, dtype),
            Source::Recording(requests) => {
                note_gone(requests);
                let tensor = Tensor::uninit(stream, shape, dtype)?;
                requests.push(Request {
                    shape: shape.into(),
                    dtype,
                    bytes: tensor.bytes(),
                    watch: tensor.watch(),
                    gone_by: None,
                });
                Ok(tensor)
            }
            Source::Settled(settled) => {
                let place = settled.places.get(settled.next).and_then(Option::as_ref);
                let tensor = place
                    .or(settled.output.as_ref())
                    .expect("a run is given its output")
                    .clone();
                // Shapes alone decide what operators ask for, and a plan's shapes are fixed.
                assert_eq!(
                    (tensor.shape(), tensor.dtype()),
                    (shape, dtype),
                    "a run repeats the first one"
                );
                settled.next += 1;
                Ok(tensor)
            }
        }
    }
}

/// Notes which tensors are gone by the request that comes next.
fn note_gone(requests: &mut [Request]) {
    let now = requests.len();
    for request in requests {
        if request.gone_by.is_none() && request.watch.is_gone() {
            request.gone_by = Some(now);
        }
    }
}

/// What a tensor takes, and between which requests it must not be touched: from `born` to before `gone_by`.
#[derive(Debug, Clone, Copy)]
struct Life {
    bytes: u64,
    born: usize,
    gone_by: usize,
}

/// What allocations start on, as those of a device do.
const ALIGNMENT: u64 = 256;

/// Offsets at which no two tensors that live at the same time overlap, and the end of the last of them.
///
/// The largest tensor first, each at the lowest place that is free for as long as it lives.
fn pack(lives: &[Life]) -> (Vec<u64>, u64) {
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
            .map(|&other| [offsets[other], offsets[other] + lives[other].bytes])
            .collect();
        taken.sort_unstable();
        let mut offset = 0u64;
        for [start, stop] in taken {
            if offset + life.bytes <= start {
                break;
            }
            offset = offset.max(stop.next_multiple_of(ALIGNMENT));
        }
        offsets[index] = offset;
        placed.push(index);
        end = end.max(offset + life.bytes);
    }
    (offsets, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;

    /// The most bytes that live at one time: no packing can take less.
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
        // An output, its workspace, and a chain of ever smaller outputs.
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
