//! Several threads read, write and free memory.

use convfuse::{DType, Device, Error, Stream, Tensor};
use shuttle::thread;

use super::{device, explore};
use crate::things::{LEN, array, has, holds, read, tensor, zeros};

/// Two threads read a tensor, each on its own stream, and again after it was overwritten.
#[test]
fn other_threads_read_what_was_written_last() {
    explore(2000, |_| {
        let device = device();
        let (ones, twos) = (array(&device, 1.0), array(&device, 2.0));
        let mut x = zeros(&device.stream().unwrap());
        for (values, value) in [(&ones, 1.0), (&twos, 2.0)] {
            x.copy_from_pinned(values).unwrap();
            let read = || {
                let mut back = array(&device, 0.0);
                read(&x, &device.stream().unwrap(), &mut back);
                assert!(holds(&back, value));
            };
            thread::scope(|scope| {
                scope.spawn(read);
                scope.spawn(read);
            });
        }
    });
}

/// Two threads read a tensor on these streams and drop it, while another allocates on its home stream.
fn read_and_given_back(streams: impl Fn(&Device) -> [Stream; 2]) {
    let device = device();
    let home = device.stream().unwrap();
    let ones = array(&device, 1.0);
    let mut backs = [array(&device, 0.0), array(&device, 0.0)];
    let x = tensor(&home, &ones);
    thread::scope(|scope| {
        for (back, reader) in backs.iter_mut().zip(streams(&device)) {
            let x = x.clone();
            scope.spawn(move || read(&x, &reader, back));
        }
        scope.spawn(|| drop(zeros(&home)));
        drop(x);
    });
    let _overwritten = zeros(&home);
    home.synchronize().unwrap();
    assert!(backs.iter().all(|back| holds(back, 1.0)));
}

#[test]
fn memory_is_given_back_after_all_its_readers() {
    explore(2000, |_| {
        read_and_given_back(|device| [(); 2].map(|()| device.stream().unwrap()));
    });
}

/// The home stream waits for the later of the two reads' events.
#[test]
fn of_two_reads_on_one_stream_the_later_is_waited_for() {
    explore(2000, |_| {
        read_and_given_back(|device| {
            let reader = device.stream().unwrap();
            [reader.clone(), reader]
        });
    });
}

/// Two threads copy a pinned array on one stream. A later write waits for the later of their copies.
#[test]
fn of_two_copies_from_one_array_the_later_is_waited_for() {
    explore(2000, |_| {
        let device = device();
        let stream = device.stream().unwrap();
        let mut ones = array(&device, 1.0);
        let copies = thread::scope(|scope| {
            let copy = || tensor(&stream, &ones);
            let copies = [scope.spawn(copy), scope.spawn(copy)];
            copies.map(|copy| copy.join().unwrap())
        });
        ones.view_mut().unwrap().fill(2.0);
        assert!(copies.iter().all(|copy| has(copy, 1.0)));
    });
}

/// A thread overwrites a tensor as soon as another has dropped its read.
#[test]
fn what_was_read_is_overwritten_after_the_read() {
    explore(2000, |_| {
        let device = device();
        let home = device.stream().unwrap();
        let (ones, twos) = (array(&device, 1.0), array(&device, 2.0));
        let mut back = array(&device, 0.0);
        let mut x = tensor(&home, &ones);
        thread::scope(|scope| {
            let shared = x.clone();
            let (device, back) = (&device, &mut back);
            scope.spawn(move || read(&shared, &device.stream().unwrap(), back));
            loop {
                match x.copy_from_pinned(&twos) {
                    Err(Error::TensorInUse { .. }) => thread::yield_now(),
                    result => break result.unwrap(),
                }
            }
        });
        home.synchronize().unwrap();
        assert!(holds(&back, 1.0));
        assert!(has(&x, 2.0));
    });
}

/// There is memory for two tensors, and three threads request one: two succeed, and the device never accounts
/// for more.
fn two_fit(lens: [usize; 3]) {
    const LIMIT: u64 = 2 * 4 * LEN as u64;
    let device = device();
    let stream = device.stream().unwrap();
    device.limit_memory(LIMIT);
    let tensors = thread::scope(|scope| {
        let threads = lens.map(|len| {
            let (stream, device) = (&stream, &device);
            scope.spawn(move || {
                let tensor = Tensor::zeros(stream, &[len], DType::F32);
                assert!(device.memory_in_use() <= LIMIT);
                tensor
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    let granted = tensors.iter().flatten().map(|tensor| tensor.len());
    assert_eq!(granted.collect::<Vec<_>>(), [LEN, LEN]);
    drop(tensors);
    assert_eq!(device.memory_in_use(), 0);
}

#[test]
fn a_limit_is_never_exceeded() {
    explore(2000, |_| two_fit([LEN; 3]));
}

#[test]
fn what_a_limit_refuses_takes_nothing_from_others() {
    explore(2000, |_| two_fit([3 * LEN, LEN, LEN]));
}
