//! A device that is lost, and a process that was forked off: all that hangs on the device says so, and goes
//! without a word.

use std::fmt::Debug;

use convfuse::graph::{Chain, Layer};
use convfuse::model::Captured;
use convfuse::spec::{ClampSpec, PointwiseSpec};
use convfuse::{
    DType, Device, Error, Event, Model, Options, PinnedArray, Plan, Replicas, Result, Stream,
    Tensor, data, ops,
};
use ndarray::{Array4, ArrayD, IxDyn};

use crate::driver::{Script, Work, scripted};

/// Samples of so many bytes that arrays of them go in chunks.
const SHAPE: [usize; 4] = [21, 2, 100, 110];

/// Everything that can be had of a device, and an array.
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
        let clamp = Layer::Pointwise(PointwiseSpec::Clamp(ClampSpec::new(-0.5, 0.5)));
        let model = Model::init(&stream, Chain::new(2, [clamp]).expect("a chain"), 1)?;
        let array = data::fill(1, IxDyn(&SHAPE));
        let tensor = Tensor::from_array(&stream, &array)?;
        let mut plan = model.plan(&stream, &SHAPE, &Options::default())?;
        let mut output = plan.output()?;
        plan.execute(&tensor, &mut output)?;
        let input = Tensor::from_array(&stream, &array)?;
        let options = Options::default();
        let mut captured = model.plan(&stream, &SHAPE, &options)?.capture(input)?;
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

    /// What each of them says, once it can only say that the device is lost.
    fn say(&mut self, expect: impl Fn(&str, Option<Error>)) {
        fn error<T>(result: Result<T>) -> Option<Error> {
            result.err()
        }
        let Things { stream, tensor, .. } = self;
        let (options, clamp) = (Options::default(), ClampSpec::new(0.0, 1.0));
        expect("a stream", error(self.device.stream()));
        expect("trim_memory", error(self.device.trim_memory()));
        expect("synchronize", error(stream.synchronize()));
        expect("record", error(stream.record()));
        expect("wait", error(stream.wait(&self.event)));
        expect("an event", error(self.event.synchronize()));
        expect("zeros", error(Tensor::zeros(stream, &[3], DType::F32)));
        expect("from_array", error(Tensor::from_array(stream, &self.array)));
        expect("to_array", error(tensor.to_array::<f32>()));
        expect("an operator", error(ops::clamp(tensor, &clamp)));
        expect("to_dtype", error(tensor.to_dtype(DType::F16)));
        let elsewhere = self.replicas.models()[1].stream();
        expect("to", error(tensor.to(elsewhere)));
        expect(
            "pinning",
            error(PinnedArray::<f32>::zeros(&self.device, &[3])),
        );
        expect(
            "from_pinned",
            error(Tensor::from_pinned(stream, &self.pinned)),
        );
        expect("to_pinned", error(tensor.copy_to_pinned(&mut self.pinned)));
        expect("forward", error(self.model.forward(&*tensor)));
        expect(
            "forward_array",
            error(self.model.forward_array(&self.array)),
        );
        let replicas = self.replicas.forward_array(&self.array);
        expect("replicas", error(replicas));
        expect("plan", error(self.model.plan(stream, &SHAPE, &options)));
        expect(
            "execute",
            error(self.plan.execute(&*tensor, &mut self.output)),
        );
        expect("write", error(self.captured.write(&self.array)));
        expect("replay", error(self.captured.replay()));
    }
}

fn clamped(array: &ArrayD<f32>) -> ArrayD<f32> {
    array.mapv(|value| value.clamp(-0.5, 0.5))
}

#[test]
fn all_that_hangs_on_a_lost_device_says_so() {
    let Some(script) = scripted("lost::all_that_hangs_on_a_lost_device_says_so") else {
        return;
    };
    script.begin(Work::AtOnce);
    let mut things = Things::of(0, 4).unwrap();
    let whole = Things::of(8, 12).unwrap();
    let before = script.counts();
    let synchronized = before
        .iter()
        .find(|(name, _)| name == "cuStreamSynchronize");
    script.fail(
        "cuStreamSynchronize",
        synchronized.map_or(0, |count| count.1) + 1,
        700,
    );
    let first = things.stream.synchronize().unwrap_err();
    assert!(first.is_fatal() && first.to_string().contains("is lost to this process"));
    things.say(|what, error| {
        let error = error.unwrap_or_else(|| panic!("{what}: no error"));
        assert!(error.is_fatal(), "{what}: {error}");
    });
    // Opening it again is the same device.
    let again = Device::gpu(0).unwrap();
    assert!(again.stream().unwrap_err().is_fatal());
    drop((things, again));
    // Another device is none the worse.
    let results = whole.model.forward_array(&whole.array).unwrap();
    assert_eq!(results, clamped(&whole.array));
    assert_eq!(whole.captured.output().to_array::<f32>().unwrap(), results);
}

/// Does something in a child of this process, which ends without running anything else; whether it did not
/// panic.
fn in_fork(work: impl FnOnce()) -> bool {
    // SAFETY: the child runs on copies of what this thread alone uses, and ends by `_exit`. If it hangs, an
    // alarm ends it.
    unsafe {
        match libc::fork() {
            0 => {
                libc::alarm(20);
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                libc::_exit(i32::from(caught.is_err()));
            }
            child => {
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
            }
        }
    }
}

fn counts(script: &Script) -> impl Debug + PartialEq {
    script.counts()
}

#[test]
fn a_forked_process_is_refused_with_words() {
    let Some(script) = scripted("lost::a_forked_process_is_refused_with_words") else {
        return;
    };
    script.begin(Work::AtOnce);
    let things = Things::of(0, 4).unwrap();
    let mut things = Some(things);
    let before = counts(&script);
    let refused = in_fork(|| {
        let mut things = things.take().unwrap();
        let is_forked = |what: &str, error: Option<Error>| {
            let error = error.unwrap_or_else(|| panic!("{what}: no error"));
            assert!(matches!(error, Error::Forked), "{what}: {error}");
            assert!(error.to_string().contains("fork"), "{error}");
        };
        things.say(is_forked);
        is_forked("gpu", Device::gpu(0).err());
        is_forked("gpu_count", Device::gpu_count().err());
        let best = Device::best();
        assert!(
            matches!(best.fallback_reason(), Some(Error::Forked)),
            "{best}"
        );
        drop(things);
        // Not one call of the driver.
        assert_eq!(counts(&script), before);
    });
    assert!(refused);
    // The parent is none the worse.
    let things = things.unwrap();
    let results = things.model.forward_array(&things.array).unwrap();
    assert_eq!(results, clamped(&things.array));
    script.expect_no_violations();
}

/// A process that used no GPU may fork, and its child use one.
#[test]
fn a_process_may_fork_before_it_uses_a_device() {
    let Some(script) = scripted("lost::a_process_may_fork_before_it_uses_a_device") else {
        return;
    };
    let worked = in_fork(|| {
        script.begin(Work::AtOnce);
        let stream = Device::gpu(0).unwrap().stream().unwrap();
        let x: Array4<f32> = data::fill(1, [1, 2, 3, 4]);
        let x = Tensor::from_array(&stream, &x).unwrap();
        let y = ops::clamp(&x, &ClampSpec::new(-0.5, 0.5)).unwrap();
        let y = y.to_array::<f32>().unwrap();
        assert_eq!(y, clamped(&x.to_array().unwrap()));
    });
    assert!(worked);
}
