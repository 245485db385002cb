//! Runs a segmentation network over a volume that is larger than the network's input.
//!
//! Windows that overlap by half go through a U-Net in batches. Their class probabilities are added up with
//! the weights of a Gaussian around the middle of each window, so that no seams show.
//!
//! In Python `convfuse.export(model, example, "unet")` writes the network's two files:
//!
//! ```text
//! cargo run --release --example segmentation -- unet.json unet.safetensors 160,256,256 64,64,64
//! ```
//!
//! Without arguments it writes a small, untrained U-Net. The volume is made up.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs};

use convfuse::graph::{Graph, GraphError, Layer};
use convfuse::{Device, Model, Options, Parameters, Tensor, data};
use ndarray::{Array3, Array4, Array5, ArrayView4, Axis, Ix5, Slice, Zip, s};

/// The number of windows of a batch.
const BATCH: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [network, parameters, volume, window] => run(
            network.as_ref(),
            parameters.as_ref(),
            extents(volume)?,
            extents(window)?,
        ),
        [] => {
            let folder = env::temp_dir().join(format!("convfuse-unet-{}", std::process::id()));
            fs::create_dir(&folder)?;
            let ran = written(&folder).and_then(|[network, parameters]| {
                run(&network, &parameters, [12, 20, 28], [8, 16, 16])
            });
            fs::remove_dir_all(&folder)?;
            ran
        }
        _ => Err("expected a network, its parameters, and the extents of volume and windows, such as 160,256,256".into()),
    }
}

/// Parses depth, height and width.
fn extents(text: &str) -> Result<[usize; 3], Box<dyn Error>> {
    let extents: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
    Ok(extents?.try_into().map_err(|_| "expected three extents")?)
}

/// Segments a made-up volume.
fn run(
    network: &Path,
    parameters: &Path,
    volume: [usize; 3],
    window: [usize; 3],
) -> Result<(), Box<dyn Error>> {
    let graph: Graph = serde_json::from_str(&fs::read_to_string(network)?)?;
    let stream = Device::best().stream()?;
    let model = Model::load(&stream, &graph, parameters)?;
    let [d, h, w] = volume;
    let scan: Array4<f32> = data::fill(1, (graph.in_channels(), d, h, w));
    let start = Instant::now();
    let classes = segment(&model, scan.view(), window)?;
    let count = classes.iter().max().map_or(0, |&last| last + 1);
    println!(
        "{volume:?} in windows of {window:?} on {}, {:.2?}",
        stream.device(),
        start.elapsed()
    );
    for class in 0..count {
        let voxels = classes.iter().filter(|&&of| of == class).count();
        println!("class {class}: {voxels} voxels");
    }
    Ok(())
}

/// Returns the most probable class of each voxel.
fn segment(
    model: &Model,
    scan: ArrayView4<'_, f32>,
    window: [usize; 3],
) -> Result<Array3<usize>, Box<dyn Error>> {
    let (channels, d, h, w) = scan.dim();
    let volume = [d, h, w];
    if (0..3).any(|axis| window[axis] == 0 || window[axis] > volume[axis]) {
        return Err(format!("windows of {window:?} do not fit into {volume:?}").into());
    }
    let [wd, wh, ww] = window;
    let shape = [BATCH, channels, wd, wh, ww];
    let mut plan = model.plan(model.stream(), &shape, &Options::default())?;
    let mut y = plan.output()?;
    let &[_, classes, ..] = plan.output_shape() else {
        return Err("the network gives no classes".into());
    };
    if plan.output_shape()[2..] != window {
        return Err("the network gives other extents than it takes".into());
    }
    let weights = gaussian(window);
    let (mut sums, mut weight) = (
        Array4::<f32>::zeros((classes, d, h, w)),
        Array3::zeros(volume),
    );
    let all = places(volume, window);
    for (number, places) in all.chunks(BATCH).enumerate() {
        let mut batch = Array5::<f32>::zeros(shape);
        for (mut sample, place) in batch.outer_iter_mut().zip(places) {
            sample.assign(&at(scan, *place, window));
        }
        plan.execute(&Tensor::from_array(model.stream(), &batch)?, &mut y)?;
        let probabilities = y.to_array::<f32>()?.into_dimensionality::<Ix5>()?;
        for (sample, &[z, p, q]) in probabilities.outer_iter().zip(places) {
            let range = s![.., z..z + wd, p..p + wh, q..q + ww];
            for (mut sum, of_class) in sums
                .slice_mut(range)
                .outer_iter_mut()
                .zip(sample.outer_iter())
            {
                Zip::from(&mut sum)
                    .and(&of_class)
                    .and(&weights)
                    .for_each(|sum, value, weight| *sum += value * weight);
            }
            let range = s![z..z + wd, p..p + wh, q..q + ww];
            let mut own = weight.slice_mut(range);
            own += &weights;
        }
        eprintln!(
            "{} of {} windows",
            (number * BATCH + places.len()),
            all.len()
        );
    }
    // The sum of weights of a voxel is the same for all classes, so dividing by it does not change the
    // maximum.
    assert!(
        weight.iter().all(|&weight| weight > 0.0),
        "windows cover the volume"
    );
    let lanes = sums.lanes(Axis(0));
    let mut most = Array3::zeros(volume);
    Zip::from(&mut most).and(lanes).for_each(|most, lane| {
        let best = lane.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        *most = best.map_or(0, |(class, _)| class);
    });
    Ok(most)
}

/// Returns the part of the scan inside a window.
fn at(scan: ArrayView4<'_, f32>, place: [usize; 3], window: [usize; 3]) -> ArrayView4<'_, f32> {
    let mut part = scan;
    for axis in 0..3 {
        let range = Slice::from(place[axis]..place[axis] + window[axis]);
        part.slice_axis_inplace(Axis(1 + axis), range);
    }
    part
}

/// Returns the first voxels of windows that overlap by at least half and cover the volume.
fn places(volume: [usize; 3], window: [usize; 3]) -> Vec<[usize; 3]> {
    let along = |axis: usize| {
        let last = volume[axis] - window[axis];
        let starts = (0..last).step_by(window[axis].div_ceil(2));
        starts.chain([last]).collect::<Vec<_>>()
    };
    let [slices, rows, columns] = [along(0), along(1), along(2)];
    let mut all = Vec::new();
    for &z in &slices {
        for &p in &rows {
            all.extend(columns.iter().map(|&q| [z, p, q]));
        }
    }
    all
}

/// Returns the weights of a window's voxels. The standard deviation is an eighth of each extent.
fn gaussian(window: [usize; 3]) -> Array3<f32> {
    Array3::from_shape_fn(window, |(z, p, q)| {
        let distance = |axis: usize, at: usize| {
            let middle = (window[axis] as f32 - 1.0) / 2.0;
            (at as f32 - middle) / (window[axis] as f32 / 8.0)
        };
        let square = [z, p, q].into_iter().enumerate();
        let square: f32 = square.map(|(axis, at)| distance(axis, at).powi(2)).sum();
        (-0.5 * square).exp().max(1e-6)
    })
}

/// Writes a small U-Net and its initial (untrained) parameters.
fn written(folder: &Path) -> Result<[PathBuf; 2], Box<dyn Error>> {
    let files = ["unet.json", "unet.safetensors"].map(|name| folder.join(name));
    let graph = unet()?;
    fs::write(&files[0], serde_json::to_string(&graph)?)?;
    Parameters::init(&graph, 7)?.save(&files[1])?;
    Ok(files)
}

/// Builds a U-Net of two levels, with a skip connection that is concatenated to the upsampled tensor.
fn unet() -> Result<Graph, GraphError> {
    let conv = |name: &str, channels| Layer::conv3d(name, channels, 3).padding(1).bias(false);
    let norm = |name: &str| Layer::instance_norm(name).affine(true);
    Graph::builder("scan", 1)
        .layer("down.conv", "scan", conv("down.conv", 8))
        .layer("down.norm", "down.conv", norm("down.norm"))
        .layer("skip", "down.norm", Layer::leaky_relu(0.01))
        .layer("small", "skip", Layer::max_pool3d(2))
        .layer("deep.conv", "small", conv("deep.conv", 16))
        .layer("deep.norm", "deep.conv", norm("deep.norm"))
        .layer("deep", "deep.norm", Layer::leaky_relu(0.01))
        .layer(
            "large",
            "deep",
            Layer::conv_transpose3d("large", 8, 2).stride(2),
        )
        .layer("both", "skip", Layer::cat(["large"], 1))
        .layer("up.conv", "both", conv("up.conv", 8))
        .layer("up.norm", "up.conv", norm("up.norm"))
        .layer("up", "up.norm", Layer::leaky_relu(0.01))
        .layer("head", "up", Layer::conv3d("head", 3, 1))
        .layer("classes", "head", Layer::softmax(&[1]))
        .build("classes")
}
