//! Devices and their primary contexts.

use std::ffi::{c_char, c_int};

use crate::kind;
use crate::outcome::{INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, Outcome, put};
use crate::state::handle_of;
use crate::work::Handle;

/// The number of devices.
const DEVICES: u32 = 1 << 16;

/// Returns the ordinal of a device handle.
fn ordinal(device: c_int) -> Outcome<u32> {
    let known = |ordinal: &u32| *ordinal < DEVICES;
    let ordinal = u32::try_from(device).ok().filter(known);
    ordinal.ok_or(INVALID_DEVICE)
}

driver! {
    fn cuInit(_state; flags: u32) {
        if flags == 0 { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn cuDriverGetVersion(state; version: *mut c_int) {
        put(version, state.version.unwrap_or(12080))
    }

    fn cuDeviceGetCount(_state; count: *mut c_int) {
        put(count, DEVICES as c_int)
    }

    fn cuDeviceGet(_state; device: *mut c_int, number: c_int) {
        put(device, ordinal(number)? as c_int)
    }

    fn cuDeviceGetName(_state; name: *mut c_char, bytes: c_int, device: c_int) {
        ordinal(device)?;
        let text = c"scripted".to_bytes_with_nul();
        if (bytes as usize) < text.len() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller passes a place for `bytes` characters.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), text.len()) };
        Ok(())
    }

    fn cuDeviceTotalMem_v2(_state; bytes: *mut usize, device: c_int) {
        ordinal(device)?;
        put(bytes, 64 << 30)
    }

    fn cuDeviceGetAttribute(_state; value: *mut c_int, attribute: c_int, device: c_int) {
        let ordinal = ordinal(device)?;
        put(value, match attribute {
            1..=3 => 1024,               // threads of a block; its extents
            4 => 64,
            5 => i32::MAX,               // extents of a grid
            6 | 7 => 65535,
            13 => 1_830_000,             // kHz of the multiprocessors
            16 => 132,                   // multiprocessors
            36 => 2_619_000,             // kHz of the memory
            37 => 5120,                  // bits of its bus
            38 => 50 << 20,              // bytes of the second cache
            75 => if kind::is_hopper(ordinal) { 9 } else { 8 },
            76 => 0,
            97 => kind::shared_bytes(ordinal) as c_int,
            115 => c_int::from(kind::has_pools(ordinal)),
            _ => return Err(INVALID_VALUE),
        })
    }

    fn cuDevicePrimaryCtxRetain(state; context: *mut Handle, device: c_int) {
        let ordinal = ordinal(device)?;
        state.contexts.entry(ordinal).or_default().retained += 1;
        put(context, handle_of(ordinal))
    }

    fn cuDevicePrimaryCtxRelease_v2(state; device: c_int) {
        let ordinal = ordinal(device)?;
        let context = state.contexts.get_mut(&ordinal).ok_or(INVALID_CONTEXT)?;
        context.retained -= 1;
        if context.retained == 0 {
            state.contexts.remove(&ordinal);
            // The context's modules and pools are destroyed with it.
            state.modules.retain(|_, module| module.context != ordinal);
            state.pools.retain(|_, pool| pool.context != ordinal);
        }
        Ok(())
    }

    fn cuCtxGetCurrent(state; context: *mut Handle) {
        let top = state.stack().last().copied().unwrap_or(0);
        put(context, top)
    }

    fn cuCtxPushCurrent_v2(state; context: Handle) {
        state.ordinal_of(context).ok_or(INVALID_CONTEXT)?;
        state.stack().push(context);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(state; context: *mut Handle) {
        let top = state.stack().pop().ok_or(INVALID_CONTEXT)?;
        put(context, top)
    }

    fn cuCtxSynchronize(state) {
        let current = state.current()?;
        state.refuse_in_captures(true)?;
        state.finish(Some(current), false);
        Ok(())
    }
}
