//! A lost device, and a forked process: every object on the device returns the error, and is dropped
//! silently.

use convfuse::graph::Layer;
use convfuse::model::Captured;
use convfuse::spec::ClampSpec;
use convfuse::{
    DType, Device, Error, Event, Model, Options, PinnedArray, Plan, Replicas, Result, Stream,
    Tensor, data, ops,
};
use ndarray::{ArrayD, IxDyn};

use crate::driver::{Mode, scripted};
use crate::things::{model_of, planned};

/// The shape of a batch whose arrays go in chunks.
const SHAPE: [usize; 4] = [21, 2, 100, 110];

/// One object of each kind on a device, and an array.
struct Things {
    device: Device,
    stream: Stream,
    event: Event,
    tensor: Tensor,
    pinned: PinnedArray<f32>,
    model: Model,
    plan: Plan,
    output: Tensor,
    captured: Captured,
    replicas: Replicas,
    array: ArrayD<f32>,
}

impl Things {
    fn of(ordinal: u32, peer: u32) -> Result<Things> {
        let (device, peer) = (Device::gpu(ordinal)?, Device::gpu(peer)?);
        let stream = device.stream()?;
        let model = model_of(&stream, 2, Layer::clamp(-0.5, 0.5));
        let array = data::fill(1, IxDyn(&SHAPE));
        let (mut plan, tensor, mut output) = planned(&model, &stream, &SHAPE);
        plan.execute(&tensor, &mut output)?;
        let (captured, other, _) = planned(&model, &stream, &SHAPE);
        let mut captured = captured.capture(other)?;
        captured.replay()?;
        let replicas = Replicas::new(&model, &[device.clone(), peer])?;
        replicas.forward_array(&array)?;
        model.forward_array(&array)?;
        Ok(Things {
            event: stream.record()?,
            pinned: PinnedArray::zeros(&device, &SHAPE)?,
            device,
            stream,
            tensor,
            model,
            plan,
            output,
            captured,
            replicas,
            array,
        })
    }

    /// Returns each object's error after the device is lost.
    fn say(&mut self) -> Vec<(&'static str, Option<Error>)> {
        macro_rules! said {
            ($($what:literal: $said:expr,)*) => { vec![$(($what, $said.err())),*] };
        }
        let Things { stream, tensor, .. } = self;
        let (options, clamp) = (Options::default(), ClampSpec::new(0.0, 1.0));
        let elsewhere = self.replicas.models()[1].stream();
        said! {
            "a stream": self.device.stream(),
            "trim_memory": self.device.trim_memory(),
            "synchronize": stream.synchronize(),
            "record": stream.record(),
            "wait": stream.wait(&self.event),
            "an event": self.event.synchronize(),
            "zeros": Tensor::zeros(stream, &[3], DType::F32),
            "from_array": Tensor::from_array(stream, &self.array),
            "to_array": tensor.to_array::<f32>(),
            "an operator": ops::clamp(tensor, &clamp),
            "to_dtype": tensor.to_dtype(DType::F16),
            "to": tensor.to(elsewhere),
            "pinning": PinnedArray::<f32>::zeros(&self.device, &[3]),
            "from_pinned": Tensor::from_pinned(stream, &self.pinned),
            "to_pinned": tensor.copy_to_pinned(&mut self.pinned),
            "forward": self.model.forward(&*tensor),
            "forward_array": self.model.forward_array(&self.array),
            "replicas": self.replicas.forward_array(&self.array),
            "plan": self.model.plan(stream, &SHAPE, &options),
            "execute": self.plan.execute(&*tensor, &mut self.output),
            "write": self.captured.write(&self.array),
            "replay": self.captured.replay(),
        }
    }
}

fn clamped(array: &ArrayD<f32>) -> ArrayD<f32> {
    array.mapv(|value| value.clamp(-0.5, 0.5))
}

#[test]
fn all_that_hangs_on_a_lost_device_says_so() {
    scripted(|script| {
        script.begin(Mode::AtOnce);
        let mut things = Things::of(0, 4).unwrap();
        let whole = Things::of(8, 12).unwrap();
        script.fail_next("cuStreamSynchronize", 700);
        let first = things.stream.synchronize().unwrap_err();
        assert!(first.is_fatal() && first.to_string().contains("is lost to this process"));
        for (what, error) in things.say() {
            let error = error.unwrap_or_else(|| panic!("{what}: no error"));
            assert!(error.is_fatal(), "{what}: {error}");
        }
        // Opening the lost device again returns the same device.
        let again = Device::gpu(0).unwrap();
        assert!(again.stream().unwrap_err().is_fatal());
        drop((things, again));
        // Another device still works.
        let results = whole.model.forward_array(&whole.array).unwrap();
        assert_eq!(results, clamped(&whole.array));
        assert_eq!(whole.captured.output().to_array::<f32>().unwrap(), results);
    });
}

/// Runs `work` in a forked child, which ends without running anything else. An alarm ends a child that hangs.
pub(crate) fn fork(work: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child uses only copies of this thread's data, and ends with `_exit`.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(20);
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            libc::_exit(i32::from(caught.is_err()));
        }
        child
    }
}

/// Waits for the child, and returns whether it ended without a panic.
pub(crate) fn ended_well(child: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the child's status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn a_forked_process_is_refused_with_words() {
    scripted(|script| {
        script.begin(Mode::AtOnce);
        let mut things = Some(Things::of(0, 4).unwrap());
        let before = script.counts();
        let refused = fork(|| {
            let mut things = things.take().unwrap();
            let mut said = things.say();
            said.push(("gpu", Device::gpu(0).err()));
            said.push(("gpu_count", Device::gpu_count().err()));
            for (what, error) in said {
                let error = error.unwrap_or_else(|| panic!("{what}: no error"));
                assert!(matches!(error, Error::Forked), "{what}: {error}");
                assert!(error.to_string().contains("fork"), "{error}");
            }
            let best = Device::best();
            assert!(
                matches!(best.fallback_reason(), Some(Error::Forked)),
                "{best}"
            );
            drop(things);
            // The child has made no driver call.
            assert_eq!(script.counts(), before);
        });
        assert!(ended_well(refused));
        // The parent still works.
        let things = things.unwrap();
        let results = things.model.forward_array(&things.array).unwrap();
        assert_eq!(results, clamped(&things.array));
    });
}
