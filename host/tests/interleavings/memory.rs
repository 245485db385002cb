//! Memory that several threads read, write and give back.

use convfuse::{DType, Error, Tensor};
use shuttle::thread;

use super::{LEN, array, device, explore, holds, tensor};

/// Two threads read a tensor, each on a stream of its own, and once more when it was overwritten.
#[test]
fn other_threads_read_what_was_written_last() {
    let test = "memory::other_threads_read_what_was_written_last";
    explore(test, 2000, |_| {
        let device = device();
        let home = device.stream().unwrap();
        let (ones, twos) = (array(&device, 1.0), array(&device, 2.0));
        let mut x = Tensor::zeros(&home, &[LEN], DType::F32).unwrap();
        for (values, value) in [(&ones, 1.0), (&twos, 2.0)] {
            x.copy_from_pinned(values).unwrap();
            let read = || {
                let (reader, mut back) = (device.stream().unwrap(), array(&device, 0.0));
                x.on(&reader).unwrap().copy_to_pinned(&mut back).unwrap();
                assert!(holds(&back, value));
            };
            thread::scope(|scope| {
                scope.spawn(read);
                scope.spawn(read);
            });
        }
    });
}

/// Two threads read a tensor, each on a stream of its own, and let go of it, while others allocate on its
/// home stream.
#[test]
fn memory_is_given_back_after_all_its_readers() {
    let test = "memory::memory_is_given_back_after_all_its_readers";
    explore(test, 2000, |_| {
        let device = device();
        let home = device.stream().unwrap();
        let ones = array(&device, 1.0);
        let mut backs = [array(&device, 0.0), array(&device, 0.0)];
        let x = tensor(&home, &ones);
        thread::scope(|scope| {
            for back in &mut backs {
                let (x, device) = (x.clone(), &device);
                scope.spawn(move || {
                    let reader = device.stream().unwrap();
                    x.on(&reader).unwrap().copy_to_pinned(back).unwrap();
                });
            }
            scope.spawn(|| drop(Tensor::zeros(&home, &[LEN], DType::F32).unwrap()));
            drop(x);
        });
        let _overwritten = Tensor::zeros(&home, &[LEN], DType::F32).unwrap();
        home.synchronize().unwrap();
        assert!(backs.iter().all(|back| holds(back, 1.0)));
    });
}

/// Two threads read a tensor on one stream: the later of their events is the one that the home stream waits
/// for.
#[test]
fn of_two_reads_on_one_stream_the_later_is_waited_for() {
    let test = "memory::of_two_reads_on_one_stream_the_later_is_waited_for";
    explore(test, 2000, |_| {
        let device = device();
        let (home, reader) = (device.stream().unwrap(), device.stream().unwrap());
        let ones = array(&device, 1.0);
        let mut backs = [array(&device, 0.0), array(&device, 0.0)];
        let x = tensor(&home, &ones);
        let on_reader = x.on(&reader).unwrap();
        thread::scope(|scope| {
            for back in &mut backs {
                let on_reader = &on_reader;
                scope.spawn(move || on_reader.copy_to_pinned(back).unwrap());
            }
        });
        drop((x, on_reader));
        let _overwritten = Tensor::zeros(&home, &[LEN], DType::F32).unwrap();
        home.synchronize().unwrap();
        assert!(backs.iter().all(|back| holds(back, 1.0)));
    });
}

/// Two threads copy a pinned array on one stream: whoever writes it then waits for the later of their copies.
#[test]
fn of_two_copies_from_one_array_the_later_is_waited_for() {
    let test = "memory::of_two_copies_from_one_array_the_later_is_waited_for";
    explore(test, 2000, |_| {
        let device = device();
        let stream = device.stream().unwrap();
        let mut ones = array(&device, 1.0);
        let copies = thread::scope(|scope| {
            let copy = || tensor(&stream, &ones);
            let copies = [scope.spawn(copy), scope.spawn(copy)];
            copies.map(|copy| copy.join().unwrap())
        });
        ones.view_mut().unwrap().fill(2.0);
        for copy in copies {
            assert_eq!(copy.to_array::<f32>().unwrap().sum(), LEN as f32);
        }
    });
}

/// A thread overwrites a tensor as soon as another has let go of what it reads of it.
#[test]
fn what_was_read_is_overwritten_after_the_read() {
    let test = "memory::what_was_read_is_overwritten_after_the_read";
    explore(test, 2000, |_| {
        let device = device();
        let home = device.stream().unwrap();
        let (ones, twos) = (array(&device, 1.0), array(&device, 2.0));
        let mut back = array(&device, 0.0);
        let mut x = tensor(&home, &ones);
        thread::scope(|scope| {
            let shared = x.clone();
            let (device, back) = (&device, &mut back);
            scope.spawn(move || {
                let reader = device.stream().unwrap();
                shared.on(&reader).unwrap().copy_to_pinned(back).unwrap();
            });
            loop {
                match x.copy_from_pinned(&twos) {
                    Err(Error::TensorInUse { .. }) => thread::yield_now(),
                    result => break result.unwrap(),
                }
            }
        });
        home.synchronize().unwrap();
        assert!(holds(&back, 1.0));
        assert_eq!(x.to_array::<f32>().unwrap().sum(), 2.0 * LEN as f32);
    });
}

/// The bytes of two tensors.
const LIMIT: u64 = 2 * 4 * LEN as u64;

/// Memory for two tensors, and three threads that ask for one each.
#[test]
fn a_limit_is_never_exceeded() {
    explore("memory::a_limit_is_never_exceeded", 2000, |_| {
        let device = device();
        let stream = device.stream().unwrap();
        device.limit_memory(LIMIT);
        let allocate = || {
            let tensor = Tensor::zeros(&stream, &[LEN], DType::F32);
            assert!(device.memory_in_use() <= LIMIT);
            tensor
        };
        let tensors = thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(allocate));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(tensors.iter().filter(|tensor| tensor.is_ok()).count(), 2);
    });
}

/// Memory for two tensors, and a thread that asks for three.
#[test]
fn what_a_limit_refuses_takes_nothing_from_others() {
    let test = "memory::what_a_limit_refuses_takes_nothing_from_others";
    explore(test, 2000, |_| {
        let device = device();
        let stream = device.stream().unwrap();
        device.limit_memory(LIMIT);
        let allocate = |len| {
            let allocated = Tensor::zeros(&stream, &[len], DType::F32);
            assert!(device.memory_in_use() <= LIMIT);
            allocated
        };
        thread::scope(|scope| {
            scope.spawn(|| allocate(3 * LEN).unwrap_err());
            let two = [LEN, LEN].map(|len| scope.spawn(move || allocate(len).unwrap()));
            two.into_iter()
                .for_each(|tensor| drop(tensor.join().unwrap()));
        });
        assert_eq!(device.memory_in_use(), 0);
    });
}
