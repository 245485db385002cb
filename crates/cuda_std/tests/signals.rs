//! The emulator leaves the process's signals alone until a launch asks for them. Afterwards it passes
//! signals of other origin to the previous handlers.
//!
//! This is one test, because handlers belong to the process and stay installed.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::sync::atomic::{AtomicU32, Ordering};

use cuda_std::emulator::{Device, FaultKind, Launch};
use cuda_std::prelude::*;

/// Writes `value` through a view, and then to an unmapped address without a view.
///
/// # Safety
/// `y` has one element; `wild` is set only if signals are caught.
#[kernel]
unsafe fn write(y: *mut u32, wild: bool) {
    // SAFETY: as for this function; the view is checked.
    unsafe {
        GlobalMut::new(y, 1).store(0, 7);
        if wild {
            std::ptr::without_provenance_mut::<u32>(std::hint::black_box(16)).write_volatile(1);
        }
    }
}

const SIGNALS: [libc::c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGURG,
];

static WITH_INFO: AtomicU32 = AtomicU32::new(0);
static PLAIN: AtomicU32 = AtomicU32::new(0);

extern "C" fn with_info(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    assert!(!info.is_null());
    WITH_INFO.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn plain(_: libc::c_int) {
    PLAIN.fetch_add(1, Ordering::Relaxed);
}

fn handle(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) {
    // SAFETY: the handlers have the signature that the flags ask for, and do what handlers may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler, flags);
        assert_eq!(
            libc::sigaction(signal, &raw const action, std::ptr::null_mut()),
            0
        );
    }
}

fn handlers() -> [libc::sighandler_t; 5] {
    SIGNALS.map(|signal| {
        // SAFETY: only queries; all-zero is a valid `sigaction`.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            action.sa_sigaction
        }
    })
}

#[test]
fn handlers_are_installed_for_a_launch_that_asks_and_pass_on_what_is_not_its() {
    handle(
        libc::SIGURG,
        with_info as *const () as libc::sighandler_t,
        libc::SA_SIGINFO,
    );
    handle(
        libc::SIGBUS,
        plain as *const () as libc::sighandler_t,
        libc::SA_RESTART,
    );
    let before = handlers();
    let device = Device::new();
    let y = device.alloc(4).unwrap();

    // SAFETY: `write` touches its view, which is checked.
    unsafe { device.launch::<write>(&Launch::default(), (y.ptr(), false)) }.unwrap();
    assert_eq!(handlers(), before);

    let catching = Launch {
        catch_signals: true,
        ..Launch::default()
    };
    // SAFETY: the wild write hits no memory, so it raises a signal, which is caught.
    let fault = unsafe { device.launch::<write>(&catching, (y.ptr(), true)) }.unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Signal { .. }), "{fault}");
    let during = handlers();
    assert!(during.iter().zip(&before).all(|(now, then)| now != then));

    // SAFETY: both have handlers that return.
    unsafe {
        libc::raise(libc::SIGURG);
        libc::raise(libc::SIGBUS);
        libc::raise(libc::SIGBUS);
    }
    let counts = [&WITH_INFO, &PLAIN].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts, [1, 2]);

    // SAFETY: as for the first launch.
    unsafe { device.launch::<write>(&Launch::default(), (y.ptr(), false)) }.unwrap();
    assert_eq!(handlers(), during);
}
