use op_spec::graph::presets::KernelBench85;

use op_spec::graph::Chain;

use super::*;

#[test]
fn only_what_folds_a_scale_into_16_bits_is_judged_so() {
    let chain = KernelBench85::default().chain().unwrap();
    let case = Case::of_graph("kernelbench_85/modes", chain, &[1, 8, 10, 14]);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for mode in ExecutionMode::all(&case, dtype) {
            let folds = mode.to_string().starts_with("folded-scale") && dtype != DType::F32;
            assert_eq!(mode.precision().folds_scale, folds, "{mode}");
        }
    }
}

/// A convolution, followed by a fusable tail with these factors before the norm and after the clamp.
fn of_factors(before: &str, behind: &str) -> Case {
    let layers = [
        Layer::from(Layer::conv3d("conv", 7, 2)),
        Layer::from(Layer::scale(before)),
        Layer::from(Layer::instance_norm("norm")),
        Layer::clamp(-0.5, 0.5),
        Layer::from(Layer::scale(behind)),
        Layer::from(Layer::max(&[1])),
    ];
    let chain = Chain::new(3, layers).unwrap();
    Case::of_graph("volumes/factors", chain, &[2, 3, 5, 6, 7])
}

#[test]
fn a_strategy_is_asked_for_where_the_library_has_kernels_for_it() {
    let device = Device::emulator();
    let stream = device.stream().unwrap();
    for (behind, is_asked) in [("factor", true), ("another", false)] {
        let case = of_factors("factor", behind);
        let modes = ExecutionMode::all_on(&device, &case, DType::F32);
        let name = |mode: &ExecutionMode| mode.to_string() == "norm-clamp-multiply-max";
        assert_eq!(modes.iter().any(name), is_asked, "{behind}");
        for mode in modes {
            let expected = case.expected(&mode.precision()).unwrap();
            expected
                .check_all(&mode.run(&case, &stream).unwrap())
                .unwrap();
        }
    }
}

#[test]
fn modes_that_launch_the_same_kernels_are_listed_once() {
    let names = |layers: Vec<Layer>| -> Vec<String> {
        let chain = Chain::new(4, layers).unwrap();
        let case = Case::of_graph("modes/different", chain, &[2, 4, 9, 9]);
        let modes = ExecutionMode::by_models(&case, DType::F32);
        modes.iter().map(ExecutionMode::to_string).collect()
    };
    let conv = || Layer::conv2d("conv", 3, 3);
    assert_eq!(names(vec![Layer::relu()]), ["fused"]);
    assert_eq!(
        names(vec![Layer::from(Layer::scale("scale")), Layer::relu()]),
        ["unfused-direct", "fused"]
    );
    let of_products = ["unfused-direct", "fused", "fused fast"];
    assert_eq!(names(vec![conv().into()]), of_products);
    assert_eq!(names(vec![conv().into(), Layer::relu()]), of_products);
}

#[test]
fn only_products_on_tensor_cores_are_allowed_what_those_cut_off() {
    let conv = Layer::conv2d("conv", 16, 3);
    let precision = |layers: &[Layer], name: &str| {
        let chain = Chain::new(4, layers.to_vec()).unwrap();
        let case = Case::of_graph("modes/precisions", chain, &[2, 4, 9, 9]);
        let mut modes = ExecutionMode::by_models(&case, DType::F32).into_iter();
        modes
            .find(|mode| mode.to_string() == name)
            .unwrap()
            .precision()
    };
    let conv = Layer::from(conv);
    let alone = [conv.clone(), Layer::relu()];
    let with_norm = [conv, Layer::from(Layer::group_norm("norm", 4))];
    assert_eq!(precision(&alone, "unfused-direct"), Precision::F32);
    assert_eq!(precision(&alone, "fused"), Precision::BF16X3);
    assert_eq!(precision(&alone, "fused fast"), Precision::TF32);
    assert_eq!(precision(&with_norm, "fused"), Precision::F16X2);
    assert_eq!(precision(&with_norm, "unfused-direct"), Precision::F32);
    let without = [
        Layer::from(Layer::scale("scale")),
        Layer::from(Layer::group_norm("norm", 4)),
    ];
    assert_eq!(precision(&without, "fused"), Precision::F32);
}
