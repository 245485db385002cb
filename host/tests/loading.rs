//! Parameters from files, bytes and several files with an index. Tensors that may belong to a layer are never
//! ignored silently.

use std::fs;
use std::path::Path;

use convfuse::graph::{Chain, ConvLayer, Layer};
use convfuse::{
    DType, Device, Error, LoadOptions, Model, Parameters, ParametersError, Tensor, TensorFileError,
    data,
};
use ndarray::ArrayD;
use safetensors::tensor::{Dtype, TensorView};

/// Returns a convolution with or without a bias, and an instance norm with or without weight and bias.
fn chain(has_bias: bool, is_affine: bool) -> Chain {
    let conv = ConvLayer::new("conv", 2, [1]).bias(has_bias);
    let norm = Layer::instance_norm("norm").affine(is_affine);
    Chain::new(3, (Layer::from(conv), Layer::InstanceNorm(norm))).unwrap()
}

const CONV: [(&str, &[usize]); 2] = [("conv.weight", &[2, 3, 1]), ("conv.bias", &[2])];
const NORM: [(&str, &[usize]); 2] = [("norm.weight", &[2]), ("norm.bias", &[2])];

/// Returns a file with these tensors, each with the numbers from 1 on.
fn file(dtype: Dtype, tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let bytes = |value: usize| match dtype {
        Dtype::F64 => (value as f64).to_le_bytes().to_vec(),
        Dtype::F32 => (value as f32).to_le_bytes().to_vec(),
        _ => vec![0; dtype.bitsize() / 8],
    };
    let tensors: Vec<_> = tensors
        .iter()
        .map(|&(name, shape)| {
            let values = 1..=shape.iter().product::<usize>();
            (name, shape, values.flat_map(bytes).collect::<Vec<u8>>())
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (
            *name,
            TensorView::new(dtype, shape.to_vec(), bytes).unwrap(),
        )
    });
    safetensors::serialize(views, None).unwrap()
}

fn load(chain: &Chain, bytes: &[u8], options: &LoadOptions) -> Result<Parameters, String> {
    let loaded = Parameters::from_bytes(chain, bytes, options);
    loaded.map_err(|error| error.to_string())
}

#[test]
fn tensors_under_the_names_of_layers_are_refused_whether_strict_or_not() {
    let statistics: [(&str, &[usize]); 1] = [("norm.running_mean", &[2])];
    let others: [(&str, &[usize]); 2] = [("head.weight", &[4]), ("conv2.bias", &[4])];
    let bytes = file(
        Dtype::F32,
        &[&CONV[..], &NORM, &statistics, &others].concat(),
    );
    let of_layers = "(bytes): conv.bias: layer 0, conv1d, takes it only with \"bias\": true; \
        norm.bias, norm.weight: layer 1, instance_norm, takes them only with \"affine\": true; \
        norm.running_mean: layer 1, instance_norm, has no such parameter, whatever its attributes";
    let loose = LoadOptions::default().strict(false);
    let refusal = |options: &LoadOptions| load(&chain(false, false), &bytes, options).unwrap_err();
    assert_eq!(refusal(&loose), of_layers);
    let strict =
        format!("{of_layers}; conv2.bias, head.weight: given, but the model has no use for it");
    assert_eq!(refusal(&LoadOptions::default()), strict);
    let error = Parameters::from_bytes(chain(false, true), &bytes, &loose).unwrap_err();
    let TensorFileError::Parameters {
        defect: ParametersError::Unexpected { of_layers, .. },
        ..
    } = error
    else {
        panic!("{error}")
    };
    let told: Vec<_> = of_layers
        .iter()
        .map(|tensor| (&*tensor.name, tensor.layer, tensor.attribute))
        .collect();
    let expected = [
        ("conv.bias", 0, Some("bias")),
        ("norm.running_mean", 1, None),
    ];
    assert_eq!(told, expected);

    let bytes = file(Dtype::F32, &[&CONV[..], &NORM, &others].concat());
    load(&chain(true, true), &bytes, &loose).unwrap();
}

#[test]
fn the_count_of_batches_is_left_wherever_it_stands() {
    let counts: [(&str, &[usize]); 2] = [
        ("norm.num_batches_tracked", &[]),
        ("num_batches_tracked", &[]),
    ];
    let bytes = file(Dtype::F32, &[&CONV[..], &NORM, &counts].concat());
    load(&chain(true, true), &bytes, &LoadOptions::default()).unwrap();
}

#[test]
fn all_that_is_missing_is_told_at_once_and_so_is_what_is_given_twice() {
    let bytes = file(Dtype::F32, &[CONV[0], ("a.norm.weight", &[2])]);
    let options = LoadOptions::default();
    assert_eq!(
        load(&chain(true, true), &bytes, &options).unwrap_err(),
        "(bytes): missing: conv.bias of shape [2], norm.weight of shape [2], norm.bias of shape [2]; \
         given: a.norm.weight, conv.weight"
    );
    let bytes = file(Dtype::F32, &[CONV[0], ("old.weight", &[2, 3, 1])]);
    let options = options.rename("old", "conv");
    assert_eq!(
        load(&chain(false, false), &bytes, &options).unwrap_err(),
        "(bytes): conv.weight: given 2 times, as conv.weight, old.weight"
    );
}

#[test]
fn all_that_has_another_shape_is_told_at_once() {
    let tensors = [
        ("conv.weight", &[2, 4, 1][..]),
        CONV[1],
        ("norm.weight", &[1, 2]),
        NORM[1],
    ];
    let refused = load(
        &chain(true, true),
        &file(Dtype::F32, &tensors),
        &LoadOptions::default(),
    );
    let mismatches = "conv.weight: shape is [2, 4, 1], expected [2, 3, 1]; \
        norm.weight: shape is [1, 2], expected [2]";
    assert_eq!(refused.unwrap_err(), format!("(bytes): {mismatches}"));
    let named = tensors.map(|(name, shape)| (name.to_owned(), ArrayD::zeros(shape)));
    let refused = Parameters::new(chain(true, true), named).unwrap_err();
    assert_eq!(refused.to_string(), mismatches);
    let stream = Device::cpu().stream().unwrap();
    let tensors = tensors.map(|(_, shape)| {
        let zeros = ArrayD::<f32>::zeros(shape);
        Tensor::from_array(&stream, &zeros).unwrap()
    });
    let refused = Model::from_tensors(&stream, chain(true, true), tensors.into(), DType::F32);
    assert_eq!(refused.unwrap_err().to_string(), mismatches);
}

#[test]
fn what_is_missing_is_told_with_the_name_that_was_sought() {
    let bytes = file(
        Dtype::F32,
        &[("net.first.weight", &[2, 3, 1]), ("net.bn.gamma", &[2])],
    );
    let options = LoadOptions::default()
        .prefix("net.")
        .rename("first", "conv")
        .rename("bn", "norm");
    assert_eq!(
        load(&chain(true, true), &bytes, &options).unwrap_err(),
        "(bytes): missing: conv.bias of shape [2] (sought as net.first.bias), \
         norm.weight of shape [2] (sought as net.bn.weight), \
         norm.bias of shape [2] (sought as net.bn.bias); \
         given: net.first.weight (read as conv.weight), net.bn.gamma (read as norm.gamma)"
    );
    // A rename function cannot be reversed, so the error does not tell the sought names.
    let gammas = |name: &str| Some(name.replace("bn.gamma", "norm.gain"));
    let options = LoadOptions::default().rename("net.first", "conv");
    let options = options.rename_with(gammas).strict(false);
    assert_eq!(
        load(&chain(false, true), &bytes, &options).unwrap_err(),
        "(bytes): missing: norm.weight of shape [2], norm.bias of shape [2]; \
         given: net.first.weight (read as conv.weight), net.bn.gamma (read as net.norm.gain)"
    );
    // The error lists names that match nothing after renaming.
    let options = LoadOptions::default()
        .rename("net.first", "conv")
        .rename("net", "other");
    assert_eq!(
        load(&chain(false, false), &bytes, &options).unwrap_err(),
        "(bytes): net.bn.gamma (read as other.bn.gamma): given, but the model has no use for it"
    );
}

#[test]
fn names_are_changed_by_rules_and_by_functions() {
    let tensors: [(&str, &[usize]); 5] = [
        ("net.first.weight", &[2, 3, 1]),
        ("net.first.bias", &[2]),
        ("net.norm.gamma", &[2]),
        ("net.norm.beta", &[2]),
        ("other", &[7]),
    ];
    let bytes = file(Dtype::F32, &tensors);
    let options = LoadOptions::default()
        .prefix("net.")
        .rename("first", "conv");
    let chain = chain(true, true);
    assert!(load(&chain, &bytes, &options).is_err());
    let options = options.rename_with(|name| match name {
        "norm.gamma" => Some("norm.weight".to_owned()),
        "norm.beta" => Some("norm.bias".to_owned()),
        _ => None,
    });
    let parameters = load(&chain, &bytes, &options).unwrap();
    let names: Vec<&str> = parameters.iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["conv.weight", "conv.bias", "norm.weight", "norm.bias"]
    );
}

/// Writes two files and an index with `map`.
fn sharded(folder: &Path, map: &[(&str, &str)]) -> Result<Parameters, TensorFileError> {
    fs::create_dir_all(folder.join("part")).unwrap();
    fs::write(folder.join("part/1.safetensors"), file(Dtype::F32, &CONV)).unwrap();
    fs::write(folder.join("2.safetensors"), file(Dtype::F32, &NORM)).unwrap();
    let map: Vec<_> = map
        .iter()
        .map(|(name, shard)| format!("\"{name}\": \"{shard}\""))
        .collect();
    let text = format!(
        "{{\"metadata\": {{\"total_size\": 48}}, \"weight_map\": {{{}}}}}",
        map.join(", ")
    );
    let index = folder.join("model.safetensors.index.json");
    fs::write(&index, text).unwrap();
    Parameters::load(chain(true, true), index)
}

#[test]
fn several_files_are_read_by_their_index() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = ("part/1.safetensors", "2.safetensors");
    let map = [
        ("conv.weight", one),
        ("conv.bias", one),
        ("norm.weight", two),
        ("norm.bias", two),
    ];
    let loaded = sharded(folder.path(), &map).unwrap();
    let whole = file(Dtype::F32, &[CONV, NORM].concat());
    assert_eq!(
        loaded,
        load(&chain(true, true), &whole, &LoadOptions::default()).unwrap()
    );
    let refusal = |map: &[(&str, &str)]| {
        let error = sharded(folder.path(), map).unwrap_err();
        let text = error.to_string();
        text.replace(&format!("{}/", folder.path().display()), "")
    };
    for outside in [
        "../2.safetensors",
        "/2.safetensors",
        "part/../2.safetensors",
        "",
    ] {
        let mut map = map;
        map[3].1 = outside;
        assert_eq!(
            refusal(&map),
            format!(
                "model.safetensors.index.json: norm.bias is in {outside:?}, must be a file in the folder of the index"
            )
        );
    }
    let mut swapped = map;
    (swapped[0].1, swapped[2].1) = (two, one);
    assert!(
        refusal(&swapped).contains(", the index "),
        "{}",
        refusal(&swapped)
    );
    let mut absent = map;
    absent[2].1 = "3.safetensors";
    absent[3].1 = "3.safetensors";
    assert_eq!(refusal(&absent), "3.safetensors: cannot be read");
    assert!(refusal(&map[..3]).starts_with("model.safetensors.index.json: missing: norm.bias"));
    fs::write(folder.path().join("index.json"), "{}").unwrap();
    let error = Parameters::load(chain(true, true), folder.path().join("index.json"));
    assert!(matches!(error, Err(TensorFileError::Index { .. })));
}

#[test]
fn files_without_a_tensor_that_is_needed_are_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("index.json");
    fs::write(folder.path().join("a"), file(Dtype::F32, &CONV[..1])).unwrap();
    let text = r#"{"weight_map": {"conv.weight": "a", "head.weight": "absent"}}"#;
    fs::write(&index, text).unwrap();
    let options = LoadOptions::default().strict(false);
    Parameters::load_with(chain(false, false), &index, &options).unwrap();
}

#[test]
fn files_have_the_tensors_that_the_index_names_them_for_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("index.json");
    let refusal = |tensors: &[(&str, &[usize])], names: &[&str]| {
        fs::write(folder.path().join("a"), file(Dtype::F32, tensors)).unwrap();
        let map: Vec<String> = names
            .iter()
            .map(|name| format!("\"{name}\": \"a\""))
            .collect();
        fs::write(
            &index,
            format!("{{\"weight_map\": {{{}}}}}", map.join(", ")),
        )
        .unwrap();
        let options = LoadOptions::default().strict(false);
        let loaded = Parameters::load_with(chain(false, false), &index, &options);
        let text = loaded
            .err()
            .map_or_else(String::new, |error| error.to_string());
        text.replace(&format!("{}/", folder.path().display()), "")
    };
    let (weight, head) = (CONV[0], ("head", &[2][..]));
    assert_eq!(refusal(&[weight, head], &["conv.weight", "head"]), "");
    assert_eq!(
        refusal(&[weight, head], &["conv.weight"]),
        "a: head is there, the index does not name this file for it"
    );
    assert_eq!(
        refusal(&[weight], &["conv.weight", "head"]),
        "a: head is not there, the index names this file for it"
    );
}

/// A write that fails leaves no file beside the old one.
#[test]
fn files_that_cannot_be_written_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("weights.safetensors");
    // A folder of this name cannot be replaced by a file.
    fs::create_dir(&target).unwrap();
    let saved = Parameters::init(chain(true, true), 3)
        .unwrap()
        .save(&target);
    assert!(matches!(saved, Err(TensorFileError::Write { .. })));
    let names = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["weights.safetensors"]);
}

#[test]
fn a_file_without_tensors_has_the_parameters_of_a_graph_without_any() {
    let chain = Chain::new(2, [Layer::relu()]).unwrap();
    let loaded = load(&chain, &file(Dtype::F32, &[]), &LoadOptions::default());
    assert_eq!(loaded.unwrap().iter().count(), 0);
}

#[cfg(unix)]
#[test]
fn files_are_written_behind_links() {
    let folder = tempfile::tempdir().unwrap();
    let [target, link] = ["target", "link"].map(|name| folder.path().join(name));
    fs::write(&target, "before").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let chain = chain(true, true);
    Parameters::init(&chain, 3).unwrap().save(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let loaded = load(&chain, &fs::read(&target).unwrap(), &LoadOptions::default());
    assert!(loaded.is_ok());
}

#[test]
fn double_precision_is_taken_and_integers_are_refused_by_name() {
    let all = [CONV, NORM].concat();
    let (chain, options) = (chain(true, true), LoadOptions::default());
    let double = load(&chain, &file(Dtype::F64, &all), &options);
    assert_eq!(double, load(&chain, &file(Dtype::F32, &all), &options));
    let integers = load(&chain, &file(Dtype::I64, &all), &options);
    assert_eq!(
        integers.unwrap_err(),
        "(bytes): conv.weight holds I64, expected F64, F32, F16 or BF16"
    );
    // A number that a first rounding to f32 would turn into a tie of f16.
    let header = br#"{"prelu.weight":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}"#;
    let value = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    let bytes = [
        &header.len().to_le_bytes()[..],
        header,
        &value.to_le_bytes(),
    ]
    .concat();
    let chain = Chain::new(3, [Layer::prelu("prelu", 1)]).unwrap();
    let stream = Device::cpu().stream().unwrap();
    let model = Model::from_bytes(&stream, &chain, &bytes, &options.dtype(DType::F16)).unwrap();
    assert_eq!(model.dtype(), DType::F16);
    let slope = model.parameters().unwrap().get("prelu.weight").unwrap()[0];
    assert_eq!(slope, 1.0 + 2f32.powi(-10));
}

#[test]
fn files_of_other_kinds_are_refused_with_their_kind() {
    let kinds: [(&[u8], &str); 4] = [
        (b"PK\x03\x04\x14\0\0\0\x08\0", "is a zip archive, as "),
        (
            b"\x93NUMPY\x01\0v\0{'descr'",
            "is one array of NumPy, .npy, ",
        ),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8", "is a pickle, as "),
        (b"\x80\x06\x8a\nl\xfc\x9cF\xf9 j\xa8", "is not a complete "),
    ];
    for (bytes, kind) in kinds {
        let error = load(&chain(true, true), bytes, &LoadOptions::default()).unwrap_err();
        let expected = format!("(bytes): {kind}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_model_is_loaded_in_the_element_type_of_the_options() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let chain = chain(true, true);
    let parameters = Parameters::init(&chain, 3).unwrap();
    parameters.save(&path).unwrap();
    let stream = Device::cpu().stream().unwrap();
    let x = data::signed(1, (2, 3, 5));
    for dtype in [DType::F32, DType::BF16] {
        let options = LoadOptions::default().dtype(dtype);
        let loaded = Model::load_with(&stream, &chain, &path, &options).unwrap();
        let made = Model::with_dtype(&stream, &chain, &parameters, dtype).unwrap();
        assert_eq!(loaded.dtype(), dtype);
        assert_eq!(
            loaded.forward_array(&x).unwrap(),
            made.forward_array(&x).unwrap()
        );
    }
    let absent = Model::load(&stream, &chain, folder.path().join("absent"));
    assert!(matches!(
        absent,
        Err(Error::Weights(TensorFileError::Read { .. }))
    ));
}
