//! What a device has no more of: memory that work still uses comes back, and shared memory is granted before
//! it is named.

use convfuse::graph::{Chain, Layer};
use convfuse::{DType, Error, Model, Tensor, data};
use ndarray::IxDyn;

use crate::drawn::Draw;
use crate::ordering::{WITH_POOLS, late};

/// What the driver's allocations are multiples of.
const ALIGNMENT: usize = 512;

/// Allocations of several sizes on several streams, on a device that has little. What was dropped is there
/// again for every stream, once its work is done, however late that is: what is refused is what does not fit
/// beside what is held.
#[test]
fn what_fits_beside_what_is_held_is_allocated() {
    let test = "limits::what_fits_beside_what_is_held_is_allocated";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
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
    script.expect_no_violations();
}

/// One kernel whose launches name as much shared memory as a row takes, the larger ones behind smaller ones.
#[test]
fn launches_of_one_kernel_may_name_more_shared_memory_each_time() {
    let test = "limits::launches_of_one_kernel_may_name_more_shared_memory_each_time";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let stream = device.stream().unwrap();
    let layers = [Layer::group_norm("norm", 8), Layer::scale("scale")];
    let model = Model::init(&stream, Chain::new(64, layers).unwrap(), 1).unwrap();
    let mut named = Vec::new();
    for columns in [4_300, 5_000, 4_600, 6_500, 5_500] {
        let x = Tensor::from_array(&stream, &data::fill(1, IxDyn(&[32, 64, columns]))).unwrap();
        let explanation = model.explain(x.shape(), &convfuse::Options::default());
        named.extend(
            explanation
                .unwrap()
                .launches
                .iter()
                .map(|one| one.shared_bytes),
        );
        model.forward(&x).unwrap();
    }
    let beyond = named.iter().filter(|&&bytes| bytes > 48 << 10).count();
    assert!(beyond == 5, "{named:?}");
    script.expect_no_violations();
}
