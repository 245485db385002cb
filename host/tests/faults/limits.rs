//! Limits of a device: memory that work still uses becomes available later, and shared memory is granted
//! before a launch requests it.

use convfuse::graph::{Chain, Layer};
use convfuse::{DType, Error, Model, Options, Tensor};

use crate::drawn::Draw;
use crate::things::*;

/// The driver's allocations are multiples of this number of bytes.
const ALIGNMENT: usize = 512;

/// Allocates several sizes on several streams of a device with little memory. Dropped memory is available to
/// every stream once its work is complete, however late. A request is refused only if it does not fit beside
/// the held memory.
#[test]
fn what_fits_beside_what_is_held_is_allocated() {
    late(|script, device, _| {
        const ROOM: usize = 16 * ALIGNMENT;
        script.room(device.ordinal().unwrap(), ROOM);
        let streams = [(); 3].map(|()| device.stream().unwrap());
        let mut draw = Draw::new(1);
        let mut held: Vec<Tensor> = Vec::new();
        let mut refusals = 0;
        for call in 0..400 {
            let bytes = ALIGNMENT * (1 + draw.below(6));
            let stream = &streams[draw.below(3)];
            if !held.is_empty() && draw.below(5) < 2 {
                held.swap_remove(draw.below(held.len()));
                continue;
            }
            let used: usize = held.iter().map(|tensor| tensor.bytes() as usize).sum();
            match Tensor::zeros(stream, &[bytes / 4], DType::F32) {
                Ok(tensor) => held.push(tensor),
                Err(Error::OutOfMemory { .. }) if used + bytes > ROOM => refusals += 1,
                Err(error) => panic!("call {call}, {bytes} bytes beside {used}: {error}"),
            }
        }
        assert!(refusals > 20, "{refusals}");
        drop(held);
    });
}

/// The launches of one kernel request as much shared memory as a row takes, larger ones after smaller ones.
#[test]
fn launches_of_one_kernel_may_name_more_shared_memory_each_time() {
    late(|script, _, [stream, _]| {
        let layers = [
            Layer::from(Layer::group_norm("norm", 8)),
            Layer::from(Layer::scale("scale")),
        ];
        let model = Model::init(&stream, Chain::new(64, layers).unwrap(), 1).unwrap();
        let mut named = Vec::new();
        for columns in [4_300, 5_000, 4_600, 6_500, 5_500] {
            let x = input(&stream, &[32, 64, columns]);
            let explained = model.explain(x.shape(), &Options::default()).unwrap();
            named.extend(explained.launches.iter().map(|one| one.shared_bytes));
            model.forward(&x).unwrap();
        }
        let beyond = named.iter().filter(|&&bytes| bytes > 48 << 10).count();
        assert!(beyond == 5, "{named:?}");
        // The first of them asks for all that a launch may name.
        assert_eq!(script.count("cuFuncSetAttribute"), 1);
    });
}

#[test]
fn a_device_accounts_for_what_is_held_and_nothing_else() {
    late(|script, device, [stream, _]| {
        const BYTES: u64 = 4 * LEN as u64;
        let zeros = || Tensor::zeros(&stream, &[LEN], DType::F32);
        // An allocation of exactly the limit is allowed.
        device.limit_memory(2 * BYTES);
        let (one, two) = (zeros().unwrap(), zeros().unwrap());
        assert!(matches!(zeros(), Err(Error::OutOfMemory { .. })));
        assert_eq!(device.memory_in_use(), 2 * BYTES);
        drop(two);
        // An allocation that the driver refuses does not count.
        script.fail_next("cuMemAllocFromPoolAsync", 304);
        assert!(matches!(zeros(), Err(Error::Driver(_))));
        assert_eq!(device.memory_in_use(), BYTES);
        let two = zeros().unwrap();
        assert_eq!(device.memory_in_use(), 2 * BYTES);
        drop((one, two));
        assert_eq!(device.memory_in_use(), 0);
    });
}
