//! What a launch says by attributes (its clusters, that it may start before the one before it is done) goes through a function of
//! the driver of its own.

use convfuse::chain::{Chain, ConvLayer, Layer};
use convfuse::{Device, Error, Model, Options, Result, Tensor, data};

use crate::driver::{Script, Work, scripted};

/// `CUDA_ERROR_INVALID_VALUE`, which passes.
const INVALID_VALUE: u32 = 1;

/// The kernels that a program was seen to launch, each with what it said.
type Launches = Vec<String>;

/// Launches a program whose product splits its sums over the blocks of clusters where there are any: by itself, and as a graph. The
/// script begins before each, by `begin`.
fn run(script: &Script, ordinal: u32, begin: impl Fn()) -> Result<[Launches; 2]> {
    let device = Device::gpu(ordinal)?;
    let stream = device.stream()?;
    let conv = Layer::conv2d(ConvLayer::new("conv", 256, [3, 3]));
    let chain = Chain::new(256, [conv, Layer::group_norm("norm", 32)]).expect("a chain");
    let model = Model::init(&stream, &chain, 1)?;
    let shape = [2, 256, 15, 21];
    let mut plan = model.plan(&stream, &shape, &Options::default())?;
    let x = Tensor::from_array(&stream, &data::fill(1, shape))?;
    let mut y = plan.output()?;
    stream.synchronize()?;
    let launches = |log: String| -> Launches {
        let is_launch = |line: &&str| !line.starts_with("copy ");
        log.lines().filter(is_launch).map(str::to_owned).collect()
    };
    begin();
    plan.execute(&x, &mut y)?;
    let plain = launches(script.log(ordinal));
    begin();
    let _graph = plan.capture(x)?;
    Ok([plain, launches(script.log(ordinal))])
}

fn is_early(launch: &str) -> bool {
    launch.contains(" early")
}

fn in_clusters(launch: &str) -> bool {
    launch.contains(" in clusters ")
}

#[test]
fn launches_behind_a_programs_first_start_early_where_kernels_wait() {
    let test = "attributes::launches_behind_a_programs_first_start_early_where_kernels_wait";
    let Some(script) = scripted(test) else {
        return;
    };
    let begin = || script.begin(Work::AtOnce);
    for launches in run(&script, 0, begin).unwrap() {
        let [first, others @ ..] = &launches[..] else {
            panic!("no launch");
        };
        assert!(!is_early(first), "{first}");
        assert!(
            others.len() >= 2 && others.iter().all(|launch| is_early(launch)),
            "{others:?}"
        );
        let both = |launch: &String| is_early(launch) && in_clusters(launch);
        assert!(others.iter().any(both), "{others:?}");
    }
    // No kernel for 8.0 waits.
    for launches in run(&script, 1, begin).unwrap() {
        assert!(launches.len() >= 3, "{launches:?}");
        assert!(
            !launches.iter().any(|launch| is_early(launch)),
            "{launches:?}"
        );
        assert!(
            !launches.iter().any(|launch| in_clusters(launch)),
            "{launches:?}"
        );
    }
    script.expect_no_violations();
}

#[test]
fn older_drivers_are_asked_for_no_early_start() {
    let test = "attributes::older_drivers_are_asked_for_no_early_start";
    let Some(script) = scripted(test) else {
        return;
    };
    script.set_driver_version(12020);
    let begin = || script.begin(Work::AtOnce);
    for launches in run(&script, 0, begin).unwrap() {
        assert!(
            launches.iter().any(|launch| in_clusters(launch)),
            "{launches:?}"
        );
        assert!(
            !launches.iter().any(|launch| is_early(launch)),
            "{launches:?}"
        );
    }
    script.expect_no_violations();
}

#[test]
fn a_launch_with_attributes_that_fails_is_told() {
    let Some(script) = scripted("attributes::a_launch_with_attributes_that_fails_is_told") else {
        return;
    };
    let begin = || {
        script.begin(Work::AtOnce);
        script.fail("cuLaunchKernelEx", 1, INVALID_VALUE);
    };
    let Err(Error::Driver(error)) = run(&script, 0, begin) else {
        panic!("a call that failed gave a result");
    };
    assert_eq!(error.call, "cuLaunchKernelEx");
    assert_eq!(error.code, INVALID_VALUE);
}
