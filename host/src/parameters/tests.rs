use std::fs;

use ndarray::ArrayD;
use op_spec::chain::Chain;
use op_spec::chain::presets::{KernelBench79, KernelBench85};

use super::*;
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
            assert_eq!(Parameters::load(&path, &chain).unwrap(), parameters);
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
        |attributes: KernelBench85| match Parameters::load(&path, &attributes.chain().unwrap()) {
            Ok(_) => panic!("a defective file was accepted"),
            Err(error) => error.to_string().replace(path.to_str().unwrap(), "FILE"),
        };
    let base = KernelBench85::default();
    assert_eq!(load(base), "FILE: cannot be read");

    let parameters = Parameters::init(&chain_85(), 3).unwrap();
    parameters.save(&path).unwrap();
    let no_bias = KernelBench85 {
        bias: false,
        ..base
    };
    assert_eq!(
        load(no_bias),
        "FILE: conv.bias: given, but the chain has no use for it"
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

    let halves = String::from_utf8_lossy(&whole[8..]).find("F32").unwrap() + 8;
    let mut mistyped = whole.clone();
    mistyped[halves..halves + 3].copy_from_slice(b"I32");
    fs::write(&path, mistyped).unwrap();
    assert!(load(base).ends_with(" holds I32, expected F32"));

    let bare = KernelBench85 {
        bias: false,
        affine: false,
        ..base
    };
    let bare = Parameters::init(&bare.chain().unwrap(), 3).unwrap();
    bare.save(&path).unwrap();
    assert_eq!(
        load(no_bias),
        "FILE: group_norm.weight: is missing, the chain has it with shape [64]; given: conv.weight, scale"
    );
}

#[test]
fn initial_values_fill_pytorchs_bounds() {
    let parameters = Parameters::init(&chain_85(), 1).unwrap();
    let bound = 1.0 / 72_f32.sqrt();
    let [weight, bias] = ["conv.weight", "conv.bias"].map(|name| parameters.get(name).unwrap());
    for values in [&weight, &bias] {
        let largest = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        assert!(largest <= bound && largest > 0.9 * bound);
    }
    assert_ne!(weight.first(), bias.first());
    let other = Parameters::init(&chain_85(), 2).unwrap();
    assert_ne!(other.get("conv.weight"), Some(weight));
}

#[test]
fn values_that_do_not_fit_are_named() {
    let chain = KernelBench79::default().chain().unwrap();
    let named = || -> Vec<(String, ArrayD<f32>)> {
        let parameters = Parameters::init(&chain, 1).unwrap();
        let named = parameters.iter();
        named
            .map(|(name, v)| (name.to_owned(), v.clone()))
            .collect()
    };
    let refusal = |values| Parameters::new(&chain, values).unwrap_err().to_string();
    let mut values = named();
    values[2].1 = ArrayD::ones(IxDyn(&[15, 1, 1, 1]));
    assert_eq!(
        refusal(values),
        "multiplier: shape is [15, 1, 1, 1], expected [16, 1, 1, 1]"
    );
    let mut values = named();
    values.remove(1);
    assert_eq!(
        refusal(values),
        "conv.bias: is missing, the chain has it with shape [16]; given: conv.weight, multiplier"
    );
    let mut values = named();
    values.push(values[0].clone());
    assert_eq!(
        refusal(values),
        "conv.weight: given, but the chain has no use for it"
    );
    let bare = KernelBench79 {
        bias: false,
        ..KernelBench79::default()
    };
    let bare = bare.chain().unwrap();
    let parameters = Parameters::new(&chain, named()).unwrap();
    assert_eq!(
        parameters.check(&bare).unwrap_err().to_string(),
        "conv.bias: given, but the chain has no use for it"
    );
    assert!(Parameters::init(&bare, 1).unwrap().check(&chain).is_err());
}

#[test]
fn more_than_memory_holds_is_refused() {
    let wide = KernelBench85 {
        in_channels: 1,
        out_channels: usize::MAX / 4,
        group_norm: op_spec::GroupNormSpec::new(1),
        ..KernelBench85::default()
    };
    let error = Parameters::init(&wide.chain().unwrap(), 1).unwrap_err();
    assert!(error.to_string().starts_with("conv.weight: shape is ["));
}

/// Values that files, benchmarks and goldens were made from.
#[test]
fn a_seed_gives_the_values_that_it_always_gave() {
    let hash = |chain: &Chain| -> Vec<(String, u64)> {
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

/// A sparse one, which the disk has room for.
#[test]
fn a_file_larger_than_any_memory_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.safetensors");
    let file = std::fs::File::create(&path).unwrap();
    if file.set_len(1 << 43).is_ok() {
        let chain = KernelBench79::default().chain().unwrap();
        let error = Parameters::load(&path, &chain).unwrap_err();
        let TensorFileError::Read { source, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(source.kind(), std::io::ErrorKind::OutOfMemory);
    }
}
