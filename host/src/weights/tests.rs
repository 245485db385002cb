use std::fs;

use super::*;

fn spec_85() -> Conv2dGroupNormScaleMaxPoolClampSpec {
    Conv2dGroupNormScaleMaxPoolClampSpec::kernelbench()
}

fn spec_79() -> Conv3dMultiplyInstanceNormClampMultiplyMaxSpec {
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec::kernelbench()
}

#[test]
fn what_is_saved_is_loaded_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    for affine in [false, true] {
        let spec = Conv2dGroupNormScaleMaxPoolClampSpec {
            affine,
            bias: affine,
            ..spec_85()
        };
        let weights = Conv2dGroupNormScaleMaxPoolClampWeights::init(&spec, 3);
        weights.check(&spec).unwrap();
        weights.save(&path).unwrap();
        let loaded = Conv2dGroupNormScaleMaxPoolClampWeights::load(&path, &spec).unwrap();
        assert_eq!(loaded, weights);

        let spec = Conv3dMultiplyInstanceNormClampMultiplyMaxSpec {
            affine,
            ..spec_79()
        };
        let weights = Conv3dMultiplyInstanceNormClampMultiplyMaxWeights::init(&spec, 3);
        weights.check(&spec).unwrap();
        weights.save(&path).unwrap();
        let loaded = Conv3dMultiplyInstanceNormClampMultiplyMaxWeights::load(&path, &spec).unwrap();
        assert_eq!(loaded, weights);
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
    let load = |spec| match Conv2dGroupNormScaleMaxPoolClampWeights::load(&path, &spec) {
        Ok(_) => panic!("a defective file was accepted"),
        Err(error) => error.to_string().replace(path.to_str().unwrap(), "FILE"),
    };
    assert_eq!(load(spec_85()), "FILE: cannot be read");

    let weights = Conv2dGroupNormScaleMaxPoolClampWeights::init(&spec_85(), 3);
    weights.save(&path).unwrap();
    let no_bias = Conv2dGroupNormScaleMaxPoolClampSpec {
        bias: false,
        ..spec_85()
    };
    assert_eq!(load(no_bias), "FILE: has conv.bias, which the model lacks");
    let wide = Conv2dGroupNormScaleMaxPoolClampSpec {
        kernel_size: [3, 5],
        ..spec_85()
    };
    assert_eq!(
        load(wide),
        "FILE: conv.weight has shape [64, 8, 3, 3], expected [64, 8, 3, 5]"
    );

    let whole = fs::read(&path).unwrap();
    for len in [0, 7, 8, 100, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        assert_eq!(load(spec_85()), "FILE: is not a complete safetensors file");
    }

    let halves = String::from_utf8_lossy(&whole[8..]).find("F32").unwrap() + 8;
    let mut mistyped = whole.clone();
    mistyped[halves..halves + 3].copy_from_slice(b"I32");
    fs::write(&path, mistyped).unwrap();
    assert!(load(spec_85()).ends_with(" holds I32, expected F32"));

    let bare = Conv2dGroupNormScaleMaxPoolClampSpec {
        bias: false,
        affine: false,
        ..spec_85()
    };
    Conv2dGroupNormScaleMaxPoolClampWeights::init(&bare, 3)
        .save(&path)
        .unwrap();
    assert_eq!(
        load(no_bias),
        "FILE: tensor group_norm.weight is missing; the file has conv.weight, scale"
    );
}

#[test]
fn initial_values_fill_pytorchs_bounds() {
    let weights = Conv2dGroupNormScaleMaxPoolClampWeights::init(&spec_85(), 1);
    let bound = 1.0 / 72_f32.sqrt();
    for values in [
        weights.conv_weight.as_slice(),
        weights.conv_bias.as_ref().unwrap().as_slice(),
    ] {
        let largest = values.unwrap().iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        assert!(largest <= bound && largest > 0.9 * bound);
    }
    assert_ne!(
        weights.conv_weight[[0, 0, 0, 0]],
        weights.conv_bias.unwrap()[0]
    );
    let other = Conv2dGroupNormScaleMaxPoolClampWeights::init(&spec_85(), 2);
    assert_ne!(weights.conv_weight, other.conv_weight);
}

#[test]
fn parameters_that_do_not_fit_are_named() {
    let spec = spec_79();
    let mut weights = Conv3dMultiplyInstanceNormClampMultiplyMaxWeights::init(&spec, 1);
    weights.multiplier = Array1::ones(15);
    assert_eq!(
        weights.check(&spec).unwrap_err().to_string(),
        "multiply: multiplier[0] is 15, expected 16"
    );
    weights.conv_bias = None;
    assert_eq!(
        weights.check(&spec).unwrap_err().to_string(),
        "conv3d: bias is absent, the specification has one"
    );
}
