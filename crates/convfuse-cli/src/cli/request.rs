//! Requests for problems: attributes or chains, from options or from a file.

use std::path::Path;
use std::str::FromStr;

use convfuse::DType;
use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::graph::{Chain, Graph};
use convfuse::spec::{
    ClampSpec, ConvSpec, GroupNormSpec, InstanceNormSpec, MaxPool2dSpec, Padding,
};
use convfuse_cli::bench::Description;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::failure::Failure;
use super::files;

/// An input shape, with the attributes of a problem or with layers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// A title for the report.
    pub(super) title: Option<String>,
    /// The input's shape. Without layers, its rank selects the problem.
    pub(super) input: Vec<usize>,
    #[serde(default)]
    pub(super) attributes: Attributes,
    /// The layers that replace those of a problem. A file has them as a chain.
    #[serde(default, rename = "chain", deserialize_with = "chain")]
    pub(super) layers: Option<Graph>,
}

fn chain<'de, D: Deserializer<'de>>(file: D) -> Result<Option<Graph>, D::Error> {
    Ok(Option::<Chain>::deserialize(file)?.map(Graph::from))
}

/// Parses a JSON file, such as a chain.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = files::text(path)?;
    serde_json::from_str(&text).map_err(|error| refused(path, &error))
}

/// Parses a JSON file with a list of at least one element. `what` names the elements in errors, which count
/// from 0.
pub(super) fn read_list<T: DeserializeOwned>(path: &Path, what: &str) -> Result<Vec<T>, Failure> {
    let all: Vec<serde_json::Value> = read(path)?;
    if all.is_empty() {
        return Err(
            Failure::from(format!("has no {what}s, must have at least one")).of(path.display()),
        );
    }
    let all = all.into_iter().enumerate();
    all.map(|(index, one)| {
        let one = serde_json::from_value(one);
        one.map_err(|error| {
            refused(
                format!("{}: {what} {index}", path.display()).as_ref(),
                &error,
            )
        })
    })
    .collect()
}

fn refused(place: &Path, error: &serde_json::Error) -> Failure {
    Failure::Refused(format!("{}: {error}", place.display()))
}

/// Creates the description of a request.
pub(super) fn describe(request: &Request, dtype: DType, seed: u64) -> Result<Description, Failure> {
    let Request {
        input,
        attributes,
        layers,
        ..
    } = request;
    Ok(match (layers, &input[..]) {
        (Some(_), _) if *attributes != Attributes::default() => {
            return Err("has attributes and layers, must have one of them".into());
        }
        (Some(graph), _) => Description::new(graph, input, dtype, seed)?,
        (None, &[_, channels, _, _]) => {
            let problem = attributes.problem_85(channels)?;
            Description::of_85(&problem, input, dtype, seed)?
        }
        (None, &[_, channels, _, _, _]) => {
            let problem = attributes.problem_79(channels)?;
            Description::of_79(&problem, input, dtype, seed)?
        }
        _ => {
            return Err(Failure::Refused(format!(
                "input {input:?} has {} extents, must have 4 (problem 85) or 5 (79)",
                input.len()
            )));
        }
    })
}

/// A shape as one argument.
#[derive(Clone)]
pub(super) struct Shape(pub(super) Vec<usize>);

pub(super) fn shape(text: &str) -> Result<Shape, String> {
    match numbers(text) {
        Some(extents) if extents.len() >= 2 => Ok(Shape(extents)),
        _ => Err("must be two extents or more, separated by commas".to_owned()),
    }
}

pub(super) fn dtype(text: &str) -> Result<DType, String> {
    let all = [DType::F32, DType::F16, DType::BF16];
    let found = all.into_iter().find(|dtype| dtype.to_string() == text);
    found.ok_or_else(|| "must be f32, f16 or bf16".to_owned())
}

/// Attributes under PyTorch's names; those that are absent are the benchmark problem's.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, clap::Args)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Attributes, by default those of the benchmark problem")]
pub(super) struct Attributes {
    /// Channels from the convolution on
    #[arg(long)]
    out_channels: Option<usize>,
    /// Extents of the filter: one for all axes, or one for each
    #[arg(long, value_name = "EXTENTS")]
    kernel_size: Option<Axes>,
    /// Step between the convolution's windows
    #[arg(long, value_name = "EXTENTS")]
    stride: Option<Axes>,
    /// Zeros around the convolution's input
    #[arg(long, value_name = "EXTENTS")]
    padding: Option<Axes>,
    /// Step between the elements of the convolution's window
    #[arg(long, value_name = "EXTENTS")]
    dilation: Option<Axes>,
    /// Groups of the convolution
    #[arg(long)]
    groups: Option<usize>,
    /// Whether the convolution adds a bias
    #[arg(long)]
    bias: Option<bool>,
    /// Whether the norm has a weight and a bias
    #[arg(long)]
    affine: Option<bool>,
    /// Groups of the norm (85)
    #[arg(long)]
    num_groups: Option<usize>,
    /// What the norm adds to the variance
    #[arg(long)]
    eps: Option<f64>,
    /// Extents of the pooling window (85)
    #[arg(long, value_name = "EXTENTS")]
    max_pool: Option<Axes>,
    /// Step between pooling windows (85) [default: the window]
    #[arg(long, value_name = "EXTENTS")]
    max_pool_stride: Option<Axes>,
    /// Border of the pooling's input (85)
    #[arg(long, value_name = "EXTENTS")]
    max_pool_padding: Option<Axes>,
    /// Step between the elements of a pooling window (85)
    #[arg(long, value_name = "EXTENTS")]
    max_pool_dilation: Option<Axes>,
    /// Whether a last pooling window may reach beyond the input (85)
    #[arg(long)]
    ceil_mode: Option<bool>,
    /// Bounds of the clamp
    #[arg(long, value_name = "MIN,MAX", allow_hyphen_values = true)]
    clamp: Option<Bounds>,
}

/// A number for all axes, or one for each.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number that is not negative, or one for each axis"
)]
enum Axes {
    All(usize),
    Each(Vec<usize>),
}

/// Parses comma-separated numbers.
fn numbers<T: FromStr>(text: &str) -> Option<Vec<T>> {
    let numbers = text.split(',').map(|part| part.trim().parse().ok());
    numbers.collect()
}

impl FromStr for Axes {
    type Err = String;

    fn from_str(text: &str) -> Result<Axes, String> {
        match numbers(text).as_deref() {
            Some(&[number]) => Ok(Axes::All(number)),
            Some(numbers) => Ok(Axes::Each(numbers.to_vec())),
            None => Err("must be whole numbers, separated by commas".to_owned()),
        }
    }
}

/// The two bounds of a clamp.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Bounds([f64; 2]);

impl FromStr for Bounds {
    type Err = String;

    fn from_str(text: &str) -> Result<Bounds, String> {
        match numbers(text).as_deref() {
            Some(&[min, max]) => Ok(Bounds([min, max])),
            _ => Err("must be two numbers, separated by a comma".to_owned()),
        }
    }
}

/// Returns the value for each of `D` axes, or the default if none was given.
fn axes<const D: usize>(
    name: &str,
    asked: &Option<Axes>,
    default: [usize; D],
) -> Result<[usize; D], String> {
    match asked {
        None => Ok(default),
        Some(Axes::All(number)) => Ok([*number; D]),
        Some(Axes::Each(numbers)) => numbers.as_slice().try_into().map_err(|_| {
            let actual = numbers.len();
            format!("{name} has {actual} numbers, must have 1 or {D}")
        }),
    }
}

impl Attributes {
    /// The attributes of problem 85 (images).
    fn problem_85(&self, in_channels: usize) -> Result<KernelBench85, String> {
        let default = KernelBench85::default();
        let norm = default.group_norm;
        let pool = default.max_pool;
        let window = axes("max_pool", &self.max_pool, pool.kernel_size)?;
        let stride = match &self.max_pool_stride {
            None => pool.stride.unwrap_or(window),
            stride => axes("max_pool_stride", stride, window)?,
        };
        Ok(KernelBench85 {
            in_channels,
            out_channels: self.out_channels.unwrap_or(default.out_channels),
            kernel_size: axes("kernel_size", &self.kernel_size, default.kernel_size)?,
            conv: self.conv(default.conv)?,
            bias: self.bias.unwrap_or(default.bias),
            group_norm: GroupNormSpec::new(self.num_groups.unwrap_or(norm.num_groups))
                .eps(self.eps.unwrap_or(norm.eps)),
            affine: self.affine.unwrap_or(default.affine),
            max_pool: MaxPool2dSpec::new(window)
                .stride(stride)
                .padding(axes(
                    "max_pool_padding",
                    &self.max_pool_padding,
                    pool.padding,
                )?)
                .dilation(axes(
                    "max_pool_dilation",
                    &self.max_pool_dilation,
                    pool.dilation,
                )?)
                .ceil_mode(self.ceil_mode.unwrap_or(pool.ceil_mode)),
            clamp: self.clamp(default.clamp),
        })
    }

    /// The attributes of problem 79 (volumes).
    fn problem_79(&self, in_channels: usize) -> Result<KernelBench79, String> {
        let of_85 = [
            ("num_groups", self.num_groups.is_some()),
            ("max_pool", self.max_pool.is_some()),
            ("max_pool_stride", self.max_pool_stride.is_some()),
            ("max_pool_padding", self.max_pool_padding.is_some()),
            ("max_pool_dilation", self.max_pool_dilation.is_some()),
            ("ceil_mode", self.ceil_mode.is_some()),
        ];
        if let Some((name, _)) = of_85.into_iter().find(|(_, given)| *given) {
            return Err(format!("pipeline 79 has no {name}; choose 85 by --model"));
        }
        let default = KernelBench79::default();
        Ok(KernelBench79 {
            in_channels,
            out_channels: self.out_channels.unwrap_or(default.out_channels),
            kernel_size: axes("kernel_size", &self.kernel_size, default.kernel_size)?,
            conv: self.conv(default.conv)?,
            bias: self.bias.unwrap_or(default.bias),
            instance_norm: InstanceNormSpec::default()
                .eps(self.eps.unwrap_or(default.instance_norm.eps)),
            affine: self.affine.unwrap_or(default.affine),
            clamp: self.clamp(default.clamp),
        })
    }

    fn conv<const D: usize>(&self, default: ConvSpec<D>) -> Result<ConvSpec<D>, String> {
        Ok(default
            .stride(axes("stride", &self.stride, default.stride)?)
            .padding(match &self.padding {
                None => default.padding,
                padding => Padding::Each(axes("padding", padding, [0; D])?),
            })
            .dilation(axes("dilation", &self.dilation, default.dilation)?)
            .groups(self.groups.unwrap_or(default.groups)))
    }

    fn clamp(&self, default: ClampSpec) -> ClampSpec {
        self.clamp
            .map_or(default, |Bounds([min, max])| ClampSpec::new(min, max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_from_options_and_from_json_alike() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            attributes: Attributes,
        }
        let options = "bench --kernel-size 5,3 --stride 2 --padding 2,1 --groups 2 --num-groups 8 \
                       --max-pool 3 --max-pool-stride 2,1 --clamp -1,0.5 --bias false --ceil-mode true";
        let command = <Command as clap::Parser>::parse_from(options.split_whitespace());
        let json = r#"[{"input": [1, 4, 20, 20], "attributes": {
            "kernel_size": [5, 3], "stride": 2, "padding": [2, 1], "groups": 2, "num_groups": 8, "max_pool": 3,
            "max_pool_stride": [2, 1], "clamp": [-1, 0.5], "bias": false, "ceil_mode": true}}]"#;
        let requests: Vec<Request> = serde_json::from_str(json).unwrap();
        let spec = command.attributes.problem_85(4).unwrap();
        assert_eq!(spec, requests[0].attributes.problem_85(4).unwrap());
        assert_eq!((spec.kernel_size, spec.conv.stride), ([5, 3], [2, 2]));
        assert_eq!(spec.max_pool.stride, Some([2, 1]));
        assert_eq!(spec.clamp, ClampSpec::new(-1.0, 0.5));
        let chain = spec.chain().unwrap();
        assert!(chain.problem(&requests[0].input).is_ok());
    }

    #[test]
    fn attributes_that_make_no_sense_are_refused() {
        let attributes =
            |json: &str| -> Result<Attributes, _> { serde_json::from_str::<Attributes>(json) };
        assert!(attributes(r#"{"strides": 2}"#).is_err());
        let three = attributes(r#"{"stride": [1, 2, 3]}"#).unwrap();
        assert!(three.problem_79(3).is_ok());
        assert_eq!(
            three.problem_85(3).unwrap_err(),
            "stride has 3 numbers, must have 1 or 2"
        );
        let pooled = attributes(r#"{"max_pool": 2}"#).unwrap();
        assert!(pooled.problem_79(3).unwrap_err().contains("no max_pool"));
        assert!("1,x".parse::<Axes>().is_err() && "1".parse::<Bounds>().is_err());
    }
}
