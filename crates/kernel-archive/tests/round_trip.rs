//! Archives return the kernels that were written, and damaged archives return errors.
#![cfg(feature = "write")]

use std::io::Read;

use kernel_archive::{Archive, ArchiveError, Kernel};

fn write(kernels: &[Kernel]) -> Result<Vec<u8>, ArchiveError> {
    kernel_archive::write(kernels, 400_000)
}

/// Kernels in several sections: text and machine code.
fn kernels() -> Vec<Kernel> {
    let kernel = |index: usize, arch: &str, bytes| Kernel {
        name: format!("kernel_{}", 9 - index),
        arch: arch.into(),
        source: format!("{index:032x}"),
        bytes,
    };
    let text = |index| {
        let line = format!(".visible .entry kernel_{index}\n");
        line.repeat(7_000 + index).into_bytes()
    };
    let code = |index| {
        let byte = |at: usize| (at.wrapping_mul(index + 3) >> 4) as u8;
        (0..200_000 + index).map(byte).collect()
    };
    let mut kernels: Vec<Kernel> = (0..5).map(|n| kernel(n, "sm_80", text(n))).collect();
    kernels.extend((0..5).map(|n| kernel(n, "sm_90a", code(n))));
    kernels.push(kernel(7, "sm_80", Vec::new()));
    kernels
}

#[test]
fn every_kernel_is_read_by_itself() {
    let kernels = kernels();
    let file = write(&kernels).unwrap();
    let archive = Archive::open(&file).unwrap();
    assert_eq!(archive.entries().len(), kernels.len());
    for kernel in &kernels {
        let entry = archive.find(&kernel.name, &kernel.arch).unwrap();
        assert_eq!(
            (entry.len(), &entry.source),
            (kernel.bytes.len(), &kernel.source)
        );
        assert_eq!(entry.is_empty(), kernel.bytes.is_empty());
        assert!(archive.read(entry).unwrap() == kernel.bytes, "{entry:?}");
    }
    assert_eq!(archive.find("kernel_9", "sm_100"), None);
    assert_eq!(archive.find("kernel", "sm_80"), None);
}

#[test]
fn the_whole_file_is_a_sequence_of_xz_streams() {
    let kernels = kernels();
    let file = write(&kernels).unwrap();
    let mut all = Vec::new();
    let mut reader = lzma_rust2::XzReader::new(file.as_slice(), true);
    reader.read_to_end(&mut all).unwrap();
    let content: Vec<u8> = kernels
        .into_iter()
        .flat_map(|kernel| kernel.bytes)
        .collect();
    assert!(all.starts_with(b"kernel archive 1\nsection "));
    assert!(all.ends_with(&content));
}

#[test]
fn the_same_kernels_give_the_same_bytes() {
    assert!(write(&kernels()).unwrap() == write(&kernels()).unwrap());
}

#[test]
fn an_archive_may_be_empty() {
    let file = write(&[]).unwrap();
    assert!(Archive::open(&file).unwrap().entries().is_empty());
}

#[test]
fn damage_is_an_error() {
    let file = write(&kernels()).unwrap();
    for wrong in [&[][..], b"kernel archive 1\n", &file[..40]] {
        let refused = Archive::open(wrong).unwrap_err();
        assert!(matches!(refused, ArchiveError::Compression(_)), "{refused}");
    }
    // Missing sections are found when the archive is opened, or when a kernel is read.
    let index_alone = &file[..file.len() / 8];
    let read = |archive: &Archive<'_>| {
        let read = |entry| archive.read(entry).map(drop);
        archive.entries().iter().try_for_each(read)
    };
    assert!(
        Archive::open(index_alone)
            .and_then(|archive| read(&archive))
            .is_err()
    );
    let mut flipped = file.clone();
    let middle = file.len() / 2;
    flipped[middle..middle + 64].fill(0xFF);
    assert!(read(&Archive::open(&flipped).unwrap()).is_err());
}

#[test]
fn names_with_spaces_are_refused() {
    let mut kernel = kernels().remove(0);
    kernel.name = "two words".into();
    let refused = write(&[kernel]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "kernel archive: `two words` is no line of an index"
    );
}
