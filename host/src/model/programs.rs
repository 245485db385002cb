//! Programs of graphs, and the cache of a model's programs.

use std::sync::Arc;

use op_spec::graph::{Graph, Layer};

use super::Options;
use crate::device::{DType, Order};
use crate::error::Result;
use crate::program::Program;
use crate::sync::{Mutex, lock};

/// Returns the element types in which kernels for tensors of `dtype` read parameters of the types `stored`,
/// in the order of the graph's table.
///
/// Norms compute in f32 and read f32 parameters directly, even with 16-bit tensors. All other parameters are
/// rounded to the tensors' type.
pub(super) fn kernel_dtypes(graph: &Graph, stored: &[DType], dtype: DType) -> Vec<DType> {
    let mut dtypes = vec![dtype; stored.len()];
    for (index, layer) in graph.layers().iter().enumerate() {
        let is_norm = matches!(
            layer,
            Layer::BatchNorm(_)
                | Layer::GroupNorm(_)
                | Layer::InstanceNorm(_)
                | Layer::LayerNorm(_)
        );
        let slots = graph.parameters_of(index);
        if is_norm && slots.iter().any(|&slot| stored[slot] != dtype) {
            for &slot in slots {
                dtypes[slot] = DType::F32;
            }
        }
    }
    dtypes
}

/// The number of programs that a model keeps, in order of last use. Plans keep theirs themselves. A program
/// takes some kilobytes on the host. On the device it holds prepared parameters, which programs share if
/// their tiles are the same. So the number of prepared forms depends on the number of tiles, not of shapes.
const KEPT_PROGRAMS: usize = 64;

/// The programs of a model, found by input shape, orders and options. The model's element type and device are
/// the same for all.
#[derive(Default)]
pub(super) struct Programs(Mutex<Vec<Entry>>);

struct Entry {
    input: Box<[usize]>,
    /// The orders of all inputs, the first input's first.
    orders: Box<[Order]>,
    options: Options,
    place: Arc<Place>,
}

/// A program, behind the lock that a thread holds while it builds the program.
type Place = Mutex<Option<Arc<Program>>>;

impl Programs {
    /// Returns the program for a first input of this shape and inputs of these orders. A missing program is
    /// built by `make`. Threads that ask for the same program wait until the first of them has built it;
    /// threads that ask for different programs do not wait for each other.
    pub(super) fn get(
        &self,
        input: &[usize],
        orders: &[Order],
        options: &Options,
        make: impl FnOnce() -> Result<Program>,
    ) -> Result<Arc<Program>> {
        let place = self.place(input, orders, options);
        let mut program = lock(&place);
        if let Some(program) = &*program {
            return Ok(Arc::clone(program));
        }
        match make() {
            Ok(made) => Ok(Arc::clone(program.insert(Arc::new(made)))),
            Err(error) => {
                // A waiting thread builds the program again and gets its own error.
                lock(&self.0).retain(|entry| !Arc::ptr_eq(&entry.place, &place));
                Err(error)
            }
        }
    }

    /// Returns the cache entry of this program; a new one if there is none.
    fn place(&self, input: &[usize], orders: &[Order], options: &Options) -> Arc<Place> {
        let is_it = |entry: &Entry| {
            *entry.input == *input && *entry.orders == *orders && entry.options == *options
        };
        let mut kept = lock(&self.0);
        if let Some(index) = kept.iter().rposition(is_it) {
            // The most recently used entry moves to the end; the first entry is evicted.
            kept[index..].rotate_left(1);
            return Arc::clone(&kept[kept.len() - 1].place);
        }
        if kept.len() == KEPT_PROGRAMS {
            kept.remove(0);
        }
        let place = Arc::default();
        kept.push(Entry {
            input: input.into(),
            orders: orders.into(),
            options: options.clone(),
            place: Arc::clone(&place),
        });
        place
    }
}

#[cfg(test)]
mod sequences;

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use op_spec::Layout;
    use op_spec::graph::{Chain, Partition};

    use super::*;
    use crate::device::Device;
    use crate::error::Error;
    use crate::operators::Precision;
    use crate::program::ProgramBuilder;

    fn empty() -> Program {
        ProgramBuilder::new(&Device::cpu()).finish(&[])
    }

    #[test]
    fn those_used_last_are_kept() {
        let programs = Programs::default();
        let mut made = Vec::new();
        let mut get = |n: usize| {
            let make = || {
                made.push(n);
                Ok(empty())
            };
            programs
                .get(&[n], &[Order::Dense], &Options::default(), make)
                .map(drop)
        };
        // Program 0 is used again, so program 1 is evicted when there is one too many.
        for n in (0..KEPT_PROGRAMS).chain([0, KEPT_PROGRAMS, 0, 1]) {
            get(n).unwrap();
        }
        let wanted: Vec<usize> = (0..=KEPT_PROGRAMS).chain([1]).collect();
        assert_eq!(made, wanted);
    }

    /// Each part of a key, and each option, makes another program.
    #[test]
    fn programs_differ_in_each_part_of_their_keys() {
        let shape = [2, 8, 4, 5];
        let layout = |layout| Order::of_layout(&shape, layout).unwrap();
        let (nchw, nhwc) = (layout(Layout::Nchw), layout(Layout::Nhwc));
        let chain = Chain::new(8, (Layer::conv2d("conv", 8, 1), Layer::relu())).unwrap();
        let partition = Partition::parse(&chain, "conv2d | relu").unwrap();
        let default = Options::default();
        // An option that is not in this pattern has no key below.
        let Options {
            partition: None,
            precision,
            batch_invariant: true,
            output_layout: None,
        } = default
        else {
            panic!("other defaults");
        };
        let other = Precision::ALL.into_iter().find(|&of| of != precision);
        let keys = [
            (shape, [nchw; 2], default.clone()),
            ([1, 8, 4, 5], [nchw; 2], default.clone()),
            ([2, 8, 5, 4], [nchw; 2], default.clone()),
            (shape, [nhwc, nchw], default.clone()),
            (shape, [nchw, nhwc], default.clone()),
            (shape, [nchw; 2], default.clone().partition(partition)),
            (shape, [nchw; 2], default.clone().precision(other.unwrap())),
            (shape, [nchw; 2], default.clone().batch_invariant(false)),
            (
                shape,
                [nchw; 2],
                default.clone().output_layout(Layout::Nchw),
            ),
            (
                shape,
                [nchw; 2],
                default.clone().output_layout(Layout::Nhwc),
            ),
        ];
        let (programs, made) = (Programs::default(), AtomicUsize::new(0));
        for (input, orders, options) in keys.iter().chain(&keys) {
            let make = || {
                made.fetch_add(1, Ordering::Relaxed);
                Ok(empty())
            };
            programs.get(input, orders, options, make).unwrap();
        }
        assert_eq!(made.into_inner(), keys.len());
    }

    /// All threads ask for one program while another is being built, which takes until they have it.
    #[test]
    fn what_several_ask_for_at_a_time_is_made_once_and_nobody_waits_for_others() {
        const THREADS: usize = 4;
        let programs = Programs::default();
        let (made, have_it) = (AtomicUsize::new(0), Barrier::new(THREADS + 1));
        let (begun, all_ask) = (Barrier::new(THREADS + 1), Barrier::new(THREADS));
        thread::scope(|scope| {
            scope.spawn(|| {
                let make = || {
                    begun.wait();
                    have_it.wait();
                    Ok(empty())
                };
                programs
                    .get(&[1], &[Order::Dense], &Options::default(), make)
                    .unwrap();
            });
            for _ in 0..THREADS {
                scope.spawn(|| {
                    begun.wait();
                    all_ask.wait();
                    let make = || {
                        made.fetch_add(1, Ordering::Relaxed);
                        // The pause is long enough for the other threads to find that the program is missing.
                        thread::sleep(std::time::Duration::from_millis(50));
                        Ok(empty())
                    };
                    programs
                        .get(&[2], &[Order::Dense], &Options::default(), make)
                        .unwrap();
                    have_it.wait();
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn what_could_not_be_made_is_not_kept() {
        let programs = Programs::default();
        let refuse = || Err(Error::TooManyBlocks { operator: "test" });
        let options = Options::default();
        assert!(
            programs
                .get(&[1], &[Order::Dense], &options, refuse)
                .is_err()
        );
        assert!(lock(&programs.0).is_empty());
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            programs.get(&[1], &[Order::Dense], &options, || panic!("on purpose"))
        }));
        assert!(caught.is_err());
        assert!(
            programs
                .get(&[1], &[Order::Dense], &options, || Ok(empty()))
                .is_ok()
        );
    }
}
