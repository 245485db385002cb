use std::fs;

use ndarray::ArrayD;
use op_spec::graph::presets::{KernelBench79, KernelBench85};
use op_spec::graph::{Chain, Layer};
use safetensors::tensor::{Dtype, TensorView};

use super::*;
use crate::dtype::{bf16, f16};

fn chain_85() -> Chain {
    KernelBench85::default().chain().unwrap()
}

#[test]
fn what_is_saved_is_loaded_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    for affine in [false, true] {
        let of_85 = KernelBench85 {
            affine,
            bias: affine,
            ..KernelBench85::default()
        };
        let of_79 = KernelBench79 {
            affine,
            ..KernelBench79::default()
        };
        for chain in [of_85.chain().unwrap(), of_79.chain().unwrap()] {
            let parameters = Parameters::init(&chain, 3).unwrap();
            parameters.check(&chain).unwrap();
            parameters.save(&path).unwrap();
            assert_eq!(Parameters::load(&chain, &path).unwrap(), parameters);
        }
    }
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "no partial file stays"
    );
}

#[test]
fn every_defect_of_a_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let load =
        |attributes: KernelBench85| match Parameters::load(attributes.chain().unwrap(), &path) {
            Ok(_) => panic!("a defective file was accepted"),
            Err(error) => error.to_string().replace(path.to_str().unwrap(), "FILE"),
        };
    let base = KernelBench85::default();
    assert_eq!(load(base), "FILE: cannot be read");

    let parameters = Parameters::init(chain_85(), 3).unwrap();
    parameters.save(&path).unwrap();
    let no_bias = KernelBench85 {
        bias: false,
        ..base
    };
    assert_eq!(
        load(no_bias),
        "FILE: conv.bias: layer 0, conv2d, takes it only with \"bias\": true"
    );
    let wide = KernelBench85 {
        kernel_size: [3, 5],
        ..base
    };
    assert_eq!(
        load(wide),
        "FILE: conv.weight: shape is [64, 8, 3, 3], expected [64, 8, 3, 5]"
    );

    let whole = fs::read(&path).unwrap();
    for len in [0, 7, 8, 100, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        assert_eq!(load(base), "FILE: is not a complete safetensors file");
    }

    let longer = [&whole[..], &[0]].concat();
    fs::write(&path, longer).unwrap();
    assert_eq!(load(base), "FILE: is not a complete safetensors file");

    let halves = String::from_utf8_lossy(&whole[8..]).find("F32").unwrap() + 8;
    let mut mistyped = whole.clone();
    mistyped[halves..halves + 3].copy_from_slice(b"I32");
    fs::write(&path, mistyped).unwrap();
    assert!(load(base).ends_with(" holds I32, expected F64, F32, F16 or BF16"));

    let bare = KernelBench85 {
        bias: false,
        affine: false,
        ..base
    };
    let bare = Parameters::init(bare.chain().unwrap(), 3).unwrap();
    bare.save(&path).unwrap();
    assert_eq!(
        load(no_bias),
        "FILE: missing: group_norm.weight of shape [64], group_norm.bias of shape [64]; given: conv.weight, scale"
    );
}

/// The tensors of a whole network, as left by a training in half precision.
#[test]
fn a_block_of_a_checkpoint_is_loaded_by_its_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network.safetensors");
    let chain = chain_85();
    let parameters = Parameters::init(&chain, 3).unwrap();
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        let bytes = |value: f32| match dtype {
            Dtype::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
            Dtype::BF16 => bf16::from_f32(value).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        };
        let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = vec![
            ("down.0.other".into(), vec![2], bytes(1.0).repeat(2)),
            ("up.0.conv.weight".into(), vec![1], bytes(1.0)),
        ];
        for (name, values) in parameters.iter() {
            let bytes = values.iter().flat_map(|&value| bytes(value)).collect();
            tensors.push((format!("down.0.{name}"), values.shape().to_vec(), bytes));
        }
        let views = tensors.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(dtype, shape.clone(), bytes).unwrap();
            (name.as_str(), view)
        });
        safetensors::serialize_to_file(views, None, &path).unwrap();

        let of_block = LoadOptions::default().prefix("down.0.");
        let load = |options: &LoadOptions| Parameters::load_with(&chain, &path, options);
        let refusal = |options: &LoadOptions| load(options).unwrap_err().to_string();
        let loaded = load(&of_block.clone().strict(false)).unwrap();
        let expected = match dtype {
            Dtype::F16 => parameters.clone().rounded(DType::F16),
            Dtype::BF16 => parameters.clone().rounded(DType::BF16),
            _ => parameters.clone(),
        };
        assert_eq!(loaded, expected);
        assert!(
            refusal(&of_block).ends_with(": down.0.other: given, but the model has no use for it")
        );
        let missing = refusal(&LoadOptions::default().prefix("up.0.").strict(false));
        let all = ": missing: conv.bias of shape [64] (sought as up.0.conv.bias), group_norm.weight of shape [64] (sought as up.0.group_norm.weight), group_norm.bias of shape [64] (sought as up.0.group_norm.bias), scale of shape [64, 1, 1] (sought as up.0.scale); given: up.0.conv.weight";
        assert!(missing.ends_with(all), "{missing}");
        let none = refusal(&LoadOptions::default().prefix("enc.").strict(false));
        let all =
            ": no tensor's name begins with enc.; given: down.0.conv.bias, down.0.conv.weight, ";
        assert!(none.contains(all), "{none}");
        let relu = Chain::new(64, [Layer::relu()]).unwrap();
        let of_none = LoadOptions::default().prefix("enc.");
        let nothing = Parameters::load_with(&relu, &path, &of_none).unwrap();
        assert_eq!(nothing.iter().count(), 0);
        let unnamed = refusal(&LoadOptions::default().strict(false));
        let hint = "; given: down.0.conv.bias, down.0.conv.weight, down.0.group_norm.bias, ";
        assert!(unnamed.contains(hint), "{unnamed}");
        assert!(
            unnamed.ends_with("; with the prefix down.0. all are there"),
            "{unnamed}"
        );
        for part in ["down", "down."] {
            let in_part = refusal(&LoadOptions::default().prefix(part));
            assert!(
                in_part.ends_with("; with the prefix down.0. all are there"),
                "{in_part}"
            );
        }
    }
}

#[test]
fn parameters_are_shown_in_one_line() {
    let chain = Chain::new(3, (Layer::conv2d("conv", 64, 3), Layer::scale("scale"))).unwrap();
    assert_eq!(
        format!("{:?}", Parameters::init(&chain, 1).unwrap()),
        "Parameters(conv.weight [64, 3, 3, 3], conv.bias [64], scale [64, 1, 1])"
    );
}

#[test]
fn initial_values_fill_pytorchs_bounds() {
    let parameters = Parameters::init(chain_85(), 1).unwrap();
    let bound = 1.0 / 72_f32.sqrt();
    let [weight, bias] = ["conv.weight", "conv.bias"].map(|name| parameters.get(name).unwrap());
    for values in [&weight, &bias] {
        let largest = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        assert!(largest <= bound && largest > 0.9 * bound);
    }
    assert_ne!(weight.first(), bias.first());
    let other = Parameters::init(chain_85(), 2).unwrap();
    assert_ne!(other.get("conv.weight"), Some(weight));
}

#[test]
fn values_that_there_is_no_use_for_are_named() {
    let chain = KernelBench79::default().chain().unwrap();
    let named = || -> Vec<(String, ArrayD<f32>)> {
        let parameters = Parameters::init(&chain, 1).unwrap();
        let named = parameters.iter();
        named
            .map(|(name, v)| (name.to_owned(), v.clone()))
            .collect()
    };
    let mut values = named();
    values.push(values[0].clone());
    let twice = Parameters::new(&chain, values).unwrap_err().to_string();
    assert_eq!(
        twice,
        "conv.weight: given 2 times, as conv.weight, conv.weight"
    );
    let bare = KernelBench79 {
        bias: false,
        ..KernelBench79::default()
    };
    let bare = bare.chain().unwrap();
    let parameters = Parameters::new(&chain, named()).unwrap();
    assert_eq!(
        parameters.check(&bare).unwrap_err().to_string(),
        "conv.bias: layer 0, conv3d, takes it only with \"bias\": true"
    );
    assert!(Parameters::init(&bare, 1).unwrap().check(&chain).is_err());
}

#[test]
fn a_value_for_no_parameter_is_refused_with_the_names_of_all() {
    let chain = Chain::new(2, (Layer::conv2d("conv", 4, 3), Layer::scale("scale"))).unwrap();
    let mut parameters = Parameters::init(&chain, 0).unwrap();
    let before = parameters.clone();
    let refused = parameters.set("bias", ArrayD::zeros(vec![4])).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "bias: no parameter has this name; the parameters are conv.weight, conv.bias, scale"
    );
    assert!(parameters == before);
}

/// The values on which existing files, benchmarks and goldens depend.
#[test]
fn a_seed_gives_the_values_that_it_always_gave() {
    let hash = |chain: &Graph| -> Vec<(String, u64)> {
        let parameters = Parameters::init(chain, 7).unwrap();
        let hashed = parameters.iter().map(|(name, values)| {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            (name.to_owned(), xxhash_rust::xxh3::xxh3_64(&bytes))
        });
        hashed.collect()
    };
    let named = |hashes: &[(&str, u64)]| -> Vec<(String, u64)> {
        let owned = hashes.iter();
        owned.map(|&(name, hash)| (name.to_owned(), hash)).collect()
    };
    let of_85 = [
        ("conv.weight", 6_387_063_771_517_971_606),
        ("conv.bias", 2_954_813_553_009_183_157),
    ];
    assert_eq!(hash(&chain_85())[..2], named(&of_85));
    let of_79 = [
        ("conv.weight", 423_722_645_285_155_746),
        ("conv.bias", 12_296_069_181_692_872_864),
        ("multiplier", 5_939_960_164_868_029_594),
    ];
    assert_eq!(
        hash(&KernelBench79::default().chain().unwrap()),
        named(&of_79)
    );
}

/// The file is sparse, so it fits the disk. Only its header and the chain's tensors are read.
#[test]
fn a_file_larger_than_any_memory_is_read_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.safetensors");
    let chain = chain_85();
    Parameters::init(&chain, 3).unwrap().save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let head_len = u64::from_le_bytes(whole[..8].try_into().unwrap());
    let (head, data) = whole[8..].split_at(head_len as usize);
    let head = String::from_utf8(head.to_vec()).unwrap();
    let huge = 1_usize << 42;
    let rest = format!(
        r#","rest":{{"dtype":"U8","shape":[{huge}],"data_offsets":[{},{}]}}}}"#,
        data.len(),
        data.len() + huge
    );
    let head = head.trim_end().strip_suffix('}').unwrap().to_owned() + &rest;
    let mut start = (head.len() as u64).to_le_bytes().to_vec();
    start.extend(head.into_bytes());
    start.extend(data);
    fs::write(&path, &start).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    if file.set_len((start.len() + huge) as u64).is_err() {
        return;
    }
    let error = Parameters::load(&chain, &path).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("rest: given, but the model has no use for it")
    );
    let options = LoadOptions::default().strict(false);
    let loaded = Parameters::load_with(&chain, &path, &options).unwrap();
    assert_eq!(loaded, Parameters::init(&chain, 3).unwrap());
}

/// Values in any order of memory are taken as the array shows them, by every call that takes values.
#[test]
fn values_in_any_order_of_memory_are_those_of_their_indices() {
    let chain = chain_85();
    let parameters = Parameters::init(&chain, 3).unwrap();
    let lying = |turn: fn(&ArrayD<f32>) -> ArrayD<f32>| {
        let named = parameters.iter().map(|(name, value)| {
            let turned = turn(value);
            assert_eq!(turned, *value);
            (name.to_owned(), turned)
        });
        named.collect::<Vec<_>>()
    };
    let fortran = lying(|value| {
        let reversed = value.t().as_standard_layout().into_owned();
        reversed.reversed_axes()
    });
    let backwards = lying(|value| {
        let mut turned = value.clone();
        for axis in 0..value.ndim() {
            turned.invert_axis(ndarray::Axis(axis));
        }
        let mut turned = turned.as_standard_layout().into_owned();
        for axis in 0..value.ndim() {
            turned.invert_axis(ndarray::Axis(axis));
        }
        turned
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    for values in [fortran, backwards] {
        let mut set = Parameters::init(&chain, 4).unwrap();
        for (name, value) in &values {
            set.set(name, value.clone()).unwrap();
        }
        for made in [set, Parameters::new(&chain, values).unwrap()] {
            assert_eq!(made, parameters);
            assert!(made.values().iter().all(ArrayD::is_standard_layout));
            made.save(&path).unwrap();
            assert_eq!(Parameters::load(&chain, &path).unwrap(), parameters);
        }
    }
}

#[test]
fn values_of_other_shapes_are_refused_by_every_call() {
    let wide = KernelBench85 {
        kernel_size: [3, 5],
        ..KernelBench85::default()
    };
    let wide = wide.chain().unwrap();
    let mut parameters = Parameters::init(chain_85(), 3).unwrap();
    let before = parameters.clone();
    let refused = "conv.weight: shape is [64, 8, 3, 3], expected [64, 8, 3, 5]";
    assert_eq!(parameters.check(&wide).unwrap_err().to_string(), refused);
    let named = parameters.iter();
    let named = named.map(|(name, value)| (name.to_owned(), value.clone()));
    let made = Parameters::new(&wide, named.collect::<Vec<_>>());
    assert_eq!(made.unwrap_err().to_string(), refused);
    // As many elements are not enough.
    for shape in [&[64, 8, 9][..], &[8, 64, 3, 3], &[64, 8, 3, 3, 1], &[0]] {
        let set = parameters.set("conv.weight", ArrayD::zeros(shape));
        assert!(
            matches!(set, Err(ParametersError::Shapes { .. })),
            "{shape:?}"
        );
    }
    assert_eq!(parameters, before);
}

/// A long list names twelve and counts the others.
#[test]
fn lists_of_names_end_after_twelve() {
    let listed = |len: usize| crate::tensor_file::given::listed(&(1..=len).collect::<Vec<_>>());
    let twelve = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12";
    assert_eq!(listed(0), "nothing");
    assert_eq!(listed(2), "1, 2");
    assert_eq!(listed(12), twelve);
    assert_eq!(listed(13), format!("{twelve} and 1 more"));
    assert_eq!(listed(20), format!("{twelve} and 8 more"));
}

/// The layer with the longest name that a tensor's name begins with is the tensor's layer.
#[test]
fn a_tensor_belongs_to_the_innermost_layer() {
    let layers = ["block", "block.conv", "block.conv.inner"];
    let conv = |name: &str| Layer::conv1d(name, 3, 1).bias(false);
    for order in [[0, 1, 2], [2, 1, 0]] {
        let chain = Chain::new(3, order.map(|at| Layer::from(conv(layers[at])))).unwrap();
        for (at, layer) in order.into_iter().enumerate() {
            let bias = format!("{}.bias", layers[layer]);
            let weights =
                layers.map(|name| (format!("{name}.weight"), ArrayD::zeros(&[3, 3, 1][..])));
            let given = weights
                .into_iter()
                .chain([(bias.clone(), ArrayD::zeros(&[3][..]))]);
            assert_eq!(
                Parameters::new(&chain, given).unwrap_err().to_string(),
                format!("{bias}: layer {at}, conv1d, takes it only with \"bias\": true")
            );
        }
    }
}
