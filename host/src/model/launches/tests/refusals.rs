//! Refused parameters.

use super::*;

#[test]
fn other_parameters_than_the_graph_has_are_refused() {
    let stream = stream(Arch::Sm90);
    let chain = Chain::new(2, [Layer::scale("scale")]).unwrap();
    let x = Tensor::zeros(&stream, &[1, 2], DType::F32).unwrap();
    let given = |shapes: &[usize]| {
        let tensor = |&len: &usize| Tensor::zeros(&stream, &[len], DType::F32).unwrap();
        let tensors: Vec<Tensor> = shapes.iter().map(tensor).collect();
        let (of, options) = (Inputs::new(&x), Options::default());
        Launches::given(&stream, chain.as_ref(), of, &tensors, &options)
    };
    let refused = |launches: Result<Launches>| match launches {
        Err(Error::Parameters(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(given(&[])),
        "parameters: there are 0 tensors, the model has 1 parameters"
    );
    assert_eq!(refused(given(&[3])), "scale: shape is [3], expected [2]");
    let launches = given(&[2]).unwrap();
    let null = std::ptr::null_mut();
    // SAFETY: the run is refused before it uses an address.
    let ran = unsafe { launches.run(&stream, &[null], &[], &[null], null) };
    assert_eq!(
        refused(ran.map(|()| launches)),
        "parameters: there are 0 tensors, the model has 1 parameters"
    );
}

/// Every call that takes outputs counts them.
#[test]
fn other_numbers_of_outputs_are_refused() {
    let chain = Chain::new(2, [Layer::relu()]).unwrap();
    for device in [Device::emulator(), Device::cpu()] {
        let stream = device.stream().unwrap();
        let x = Tensor::zeros(&stream, &[1, 2], DType::F32).unwrap();
        let model = Model::init(&stream, &chain, 1).unwrap();
        let mut plan = model.plan(&stream, &[1, 2], &Options::default()).unwrap();
        for count in [0, 2] {
            let outputs =
                || -> Vec<Tensor> { (0..count).map(|_| plan.output().unwrap()).collect() };
            let (mut ys, mut timed) = (outputs(), outputs());
            let refused = [
                plan.execute_all(&x, &mut ys),
                plan.execute_with_events(&x, &mut timed).map(drop),
            ];
            for refused in refused {
                assert_eq!(
                    refused.unwrap_err().to_string(),
                    format!("plan: there are {count} outputs, must be 1")
                );
            }
        }
    }
}
