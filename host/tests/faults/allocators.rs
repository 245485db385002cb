//! A caller's allocator: all memory of its streams comes from it, returns to it, and is counted while it is
//! held.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::ptr::with_exposed_provenance_mut;
use std::sync::{Arc, Mutex};

use convfuse::raw::{DeviceAllocator, RawPointer, RawStream};
use convfuse::{DType, Device, Error, Model, Options, PinnedArray, Replicas, Stream, Tensor, data};
use ndarray::IxDyn;

use crate::ordering::read_then_overwritten;
use crate::things::*;

/// An allocator that takes memory from the driver synchronously and counts the held bytes. Returned memory is
/// reused at once.
struct Own {
    device: Device,
    /// The result of the next allocation instead, used once.
    instead: Mutex<Option<Result<usize, &'static str>>>,
    held: Mutex<HashMap<usize, usize>>,
    spare: Mutex<HashMap<usize, Vec<usize>>>,
}

impl Own {
    fn of(device: &Device) -> Arc<Own> {
        Arc::new(Own {
            device: device.clone(),
            instead: Mutex::default(),
            held: Mutex::default(),
            spare: Mutex::default(),
        })
    }

    fn held(&self) -> usize {
        self.held.lock().unwrap().values().sum()
    }
}

// SAFETY: each address is of memory that nobody else uses and that stays valid, or is meant to be refused.
unsafe impl DeviceAllocator for Own {
    fn allocate(
        &self,
        bytes: usize,
        _stream: RawStream,
    ) -> Result<RawPointer, Box<dyn StdError + Send + Sync>> {
        let pointer = match self.instead.lock().unwrap().take() {
            Some(address) => with_exposed_provenance_mut(address?),
            None => match self
                .spare
                .lock()
                .unwrap()
                .get_mut(&bytes)
                .and_then(Vec::pop)
            {
                Some(address) => with_exposed_provenance_mut(address),
                None => allocate(&self.device, bytes),
            },
        };
        self.held.lock().unwrap().insert(pointer.addr(), bytes);
        Ok(pointer)
    }

    fn free(&self, pointer: RawPointer, bytes: usize, _stream: RawStream) {
        let was = self.held.lock().unwrap().remove(&pointer.addr());
        assert_eq!(was, Some(bytes), "it goes back once, and as it came");
        let mut spare = self.spare.lock().unwrap();
        spare.entry(bytes).or_default().push(pointer.addr());
    }
}

/// A shape that is large enough for arrays to go in chunks.
const SHAPE: [usize; 5] = [16, 3, 18, 40, 40];

/// Runs a model in one way.
type Way = fn(&Model, &Stream);

/// All ways to run a model that allocate.
const WAYS: [(&str, Way); 6] = [
    ("forward", |model, stream| {
        model.forward(&input(stream, &SHAPE)).unwrap();
    }),
    ("plan", |model, stream| {
        let (mut plan, x, mut y) = planned(model, stream, &SHAPE);
        plan.execute(&x, &mut y).unwrap();
    }),
    ("capture", |model, stream| {
        let (plan, x, _) = planned(model, stream, &SHAPE);
        plan.capture(x).unwrap().replay().unwrap();
    }),
    ("array", |model, _| {
        let x = data::fill(1, IxDyn(&SHAPE));
        model.forward_array(&x).unwrap();
        model.trim_memory();
    }),
    ("pinned", |model, _| {
        let pinned = |shape: &[usize]| PinnedArray::zeros(model.stream().device(), shape).unwrap();
        let mut y = pinned(&model.output_shape(&SHAPE).unwrap());
        let x: PinnedArray<f32> = pinned(&SHAPE);
        let options = Options::default();
        model.forward_pinned(&x, &mut y, &options).unwrap();
        model.trim_memory();
    }),
    ("replicas", |model, _| {
        let devices = [model.stream().device().clone()];
        let replicas = Replicas::new(model, &devices).unwrap();
        let mut plans = replicas.plan(&SHAPE, &Options::default()).unwrap();
        let x = input(plans.plans()[0].stream(), &SHAPE);
        let mut ys = plans.outputs().unwrap();
        plans.execute(&[x], &mut ys).unwrap();
        plans.synchronize().unwrap();
    }),
];

#[test]
fn all_memory_of_a_stream_is_from_its_allocator_and_goes_back() {
    late(|script, device, [stream, _]| {
        let own = Own::of(&device);
        let stream = stream.with_allocator(own.clone());
        let model = model_79(&stream);
        for (name, way) in WAYS {
            // After the first run, the memory that is kept between runs exists.
            way(&model, &stream);
            stream.synchronize().unwrap();
            let before = own.held();
            stream.take_counts();
            let peaks = [1, 3].map(|runs| {
                (0..runs).for_each(|_| way(&model, &stream));
                stream.take_counts().peak_bytes
            });
            assert!(peaks[0] > 0 && peaks[0] == peaks[1], "{name}: {peaks:?}");
            assert_eq!(own.held(), before, "{name}");
            assert_eq!(script.count("cuMemAllocFromPoolAsync"), 0, "{name}");
        }
        drop((model, stream));
        assert_eq!(own.held(), 0);
    });
}

#[test]
fn what_a_callers_allocator_gave_goes_back_after_its_last_reader() {
    late(|_, device, [home, _]| {
        let home = home.with_allocator(Own::of(&device));
        assert!(read_then_overwritten(&home, 1));
    });
}

/// Adding an allocator does not change a stream's identity: tensors of either handle work with the other, on
/// every kind of device.
#[test]
fn a_stream_stays_what_it_is_with_an_allocator() {
    late(|_, device, [stream, _]| {
        for plain in [stream, Device::cpu().stream().unwrap()] {
            let with = plain.with_allocator(Own::of(&device));
            assert!(with == plain && with != plain.device().stream().unwrap());
            let (mut plan, _, _) = planned(&model_79(&plain), &with, &SHAPE_79);
            let mut y = Tensor::zeros(&plain, plan.output_shape(), plan.dtype()).unwrap();
            plan.execute(&input(&plain, &SHAPE_79), &mut y).unwrap();
        }
    });
}

#[test]
fn what_an_allocator_must_not_give_is_refused() {
    late(|_, device, [stream, _]| {
        let own = Own::of(&device);
        let stream = stream.with_allocator(own.clone());
        let refused = |given| {
            *own.instead.lock().unwrap() = Some(given);
            Tensor::zeros(&stream, &[LEN], DType::F32).unwrap_err()
        };
        for (given, says) in [(Ok(0), "returned null"), (Err("none today"), "none today")] {
            let error = refused(given);
            assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
            assert!(error.to_string().contains(says), "{error}");
        }
        // A null address is not returned to the allocator; any other is.
        assert_eq!(own.held(), LEN * 4);
        own.held.lock().unwrap().clear();
        assert_eq!(
            refused(Ok(0x1010)).to_string(),
            "the allocator in use: address 0x1010 is no multiple of 256"
        );
        assert_eq!(own.held(), 0);
    });
}
