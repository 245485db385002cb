//! A program that uses `cust` has no libcuda in its dynamic section, and therefore starts without one.
//!
//! The test examines its own executable, which links `cust` and this crate like any other program.

use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn, FileHeader};
use object::{Endianness, Object, ObjectSymbol};

/// Returns the names of the shared libraries that an ELF file needs.
fn needed_libraries(data: &[u8]) -> Vec<String> {
    let header = FileHeader64::<Endianness>::parse(data).expect("an ELF file");
    let endian = header.endian().expect("a known byte order");
    let sections = header.sections(endian, data).expect("section headers");
    let (entries, link) = sections
        .dynamic(endian, data)
        .expect("a dynamic section that can be read")
        .expect("a dynamic section");
    let strings = sections
        .strings(endian, data, link)
        .expect("the names beside it");
    entries
        .iter()
        .filter(|entry| entry.d_tag(endian) == DT_NEEDED.into())
        .map(|entry| {
            let name = entry.string(endian, strings).expect("a library name");
            String::from_utf8_lossy(name).into_owned()
        })
        .collect()
}

#[test]
#[cfg(target_os = "linux")]
fn an_executable_that_links_cust_does_not_need_libcuda() {
    // Links the parts of `cust` that convfuse uses; the results do not matter.
    let initialised = cust::init(cust::CudaFlags::empty());
    let devices = cust::device::Device::num_devices();
    let driver = cuda_loader::driver();
    println!("driver: {driver:?}, cuInit: {initialised:?}, devices: {devices:?}");

    let path = std::env::current_exe().expect("the path of this test");
    let data = std::fs::read(path).expect("this test's executable");
    let needed = needed_libraries(&data);
    assert!(
        needed.iter().any(|name| name.starts_with("libc.so")),
        "{needed:?}"
    );
    assert!(
        !needed.iter().any(|name| name.starts_with("libcuda")),
        "{needed:?}"
    );

    let file = object::File::parse(&*data).expect("an ELF file");
    let defined = file
        .symbols()
        .any(|symbol| symbol.name() == Ok("cuInit") && symbol.is_definition());
    assert!(defined, "cuInit is defined in the executable itself");
}
