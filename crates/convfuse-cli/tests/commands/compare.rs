//! `compare`: files of tensors, and records of `bench`.

use safetensors::tensor::{Dtype, TensorView};

use crate::program::{Program, npy};

#[test]
fn elements_are_compared_one_by_one() {
    let program = Program::new();
    let next = f32::from_bits(1.0f32.to_bits() + 1);
    program.file("a.npy", npy("2, 2", [1.0, f32::NAN, f32::INFINITY, -0.0]));
    program.file("b.npy", npy("2, 2", [next, f32::NAN, f32::INFINITY, 0.0]));
    program.file("c.npy", npy("2, 2", [1.0, 1.0, f32::NEG_INFINITY, 0.0]));
    program.file("d.npy", npy("4,", [1.0; 4]));
    let compare = |arguments: &str| program.run(&format!("compare {arguments} --json"));
    assert_eq!(compare("a.npy a.npy").code, Some(0));
    let off = compare("a.npy b.npy");
    assert_eq!(off.code, Some(1), "{off:?}");
    let tensor = &off.json()["tensors"][0];
    assert_eq!(tensor["different"], 1);
    assert_eq!(tensor["largest_ulps"], 1);
    assert_eq!(tensor["first_beyond"], 0);
    for allowed in ["--ulps 1", "--atol 1e-6", "--rtol 1e-6"] {
        assert_eq!(compare(&format!("a.npy b.npy {allowed}")).code, Some(0));
    }
    // The tolerance is a part of the expected magnitude.
    program.file("e.npy", npy("4,", [2.0; 4]));
    assert_eq!(compare("d.npy e.npy --rtol 0.6").code, Some(0));
    assert_eq!(compare("e.npy d.npy --rtol 0.6").code, Some(1));
    let far = compare("a.npy c.npy --atol 1e30 --ulps 1000");
    assert_eq!(far.code, Some(1), "{far:?}");
    let tensor = &far.json()["tensors"][0];
    assert_eq!(tensor["nan"], 1);
    assert_eq!(tensor["beyond"], 2);
    let shape = compare("a.npy d.npy");
    assert_eq!(shape.code, Some(1), "{shape:?}");
    assert_eq!(
        shape.json()["tensors"][0]["flaw"],
        "shape [2, 2], expected [4]"
    );
}

/// A safetensors file with these f32 tensors, each given by its name, its length and the index of the one
/// element that is not 1.
fn safetensors(tensors: &[(&str, usize, Option<usize>)]) -> Vec<u8> {
    let data = tensors.iter().map(|&(_, len, other)| -> Vec<u8> {
        let values = (0..len).map(|index| if Some(index) == other { 2.0f32 } else { 1.0 });
        values.flat_map(f32::to_le_bytes).collect()
    });
    let data: Vec<_> = data.collect();
    let views = tensors.iter().zip(&data).map(|(&(name, len, _), data)| {
        let view = TensorView::new(Dtype::F32, vec![len], data);
        (name, view.expect("a tensor"))
    });
    safetensors::serialize(views, None).expect("a file of tensors")
}

#[test]
fn a_tensor_that_one_file_lacks_is_told() {
    let program = Program::new();
    program.file("one", safetensors(&[("a", 3, None), ("b", 2, None)]));
    program.file("other", safetensors(&[("a", 3, None), ("c", 2, None)]));
    let ran = program.run("compare one other --json");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let record = ran.json();
    let flaws = [0, 1, 2].map(|number| record["tensors"][number]["flaw"].clone());
    let missing = |file| serde_json::json!(format!("missing in the {file} file"));
    assert_eq!(
        flaws,
        [serde_json::Value::Null, missing("second"), missing("first")]
    );
}

/// A difference in any tensor decides the exit status. The middle tensor exceeds the number of elements read
/// at a time.
#[test]
fn every_tensor_is_compared_to_its_end() {
    const TENSORS: [(&str, usize); 3] = [("a", 3), ("b", (1 << 20) + 5), ("c", 2)];
    let program = Program::new();
    let file = |name: &str, different: Option<(usize, usize)>| {
        let place = |number| different.and_then(|(of, index)| (of == number).then_some(index));
        let tensors = [0, 1, 2].map(|number| (TENSORS[number].0, TENSORS[number].1, place(number)));
        program.file(name, safetensors(&tensors));
    };
    file("expected.safetensors", None);
    let last = |(number, (_, len)): (usize, &(&str, usize))| Some((number, len - 1));
    for different in TENSORS.iter().enumerate().map(last).chain([None]) {
        file("actual.safetensors", different);
        let ran = program.run("compare actual.safetensors expected.safetensors --json");
        let status = i32::from(different.is_some());
        assert_eq!(ran.code, Some(status), "{different:?}: {ran:?}");
        let record = ran.json();
        assert_eq!(record["status"], status);
        for (number, (name, len)) in TENSORS.iter().enumerate() {
            let tensor = &record["tensors"][number];
            let index = different.filter(|(of, _)| *of == number);
            assert_eq!(tensor["name"], *name);
            assert_eq!(tensor["elements"], *len);
            assert_eq!(tensor["different"], usize::from(index.is_some()));
            let first = index.map(|(_, index)| index);
            assert_eq!(tensor["first_beyond"], serde_json::json!(first));
        }
    }
}

#[test]
fn records_are_compared() {
    let program = Program::new();
    for name in ["a.json", "b.json"] {
        program.right(&format!("bench --device cpu --shape 1,8,9,9 --json {name}"));
    }
    let same = program.right("compare a.json b.json");
    assert!(same.out.contains("1 equal"), "{same:?}");
    let hash = "output_hash\": \"";
    let changed = program.read("a.json").replace(hash, &format!("{hash}0"));
    program.file("c.json", changed);
    assert_eq!(program.run("compare c.json b.json").code, Some(1));
    program.file("x.npy", npy("1,", [1.0]));
    program
        .run("compare a.json x.npy")
        .was_refused(&["must be two of a kind"]);
    program
        .run("compare a.json b.json --ulps 1")
        .was_refused(&["--ulps are for tensors"]);
}
