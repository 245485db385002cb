//! Devices and their primary contexts.
//!
//! There are [`DEVICES`] of four kinds, which repeat:
//!
//! | ordinal modulo 4 | compute capability | pools of memory | what it loads |
//! |---|---|---|---|
//! | 0 | 9.0 | yes | PTX, and what its linker makes of it; refuses other machine code |
//! | 1 | 8.0 | yes | machine code, PTX |
//! | 2 | 8.0 | no | PTX; has no linker, and refuses machine code |
//! | 3 | 9.0 | yes | machine code, PTX |

use std::ffi::{c_char, c_int};

use crate::call::{INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, Outcome, put};
use crate::state::{Handle, State};

/// How many devices there are.
const DEVICES: u32 = 1 << 16;

/// A primary context.
#[derive(Default)]
pub(crate) struct Context {
    pub(crate) retained: u32,
    /// The code that it answers with once it is lost.
    pub(crate) lost: Option<u32>,
    /// The bytes of memory that the device has for pools, if a test says so.
    pub(crate) room: Option<usize>,
}

/// The handle of a device's primary context, which is none of [`State::handle`].
fn handle_of(ordinal: u32) -> Handle {
    (1 << 40) + 16 * ordinal as usize
}

pub(crate) fn is_hopper(ordinal: u32) -> bool {
    matches!(ordinal % 4, 0 | 3)
}

pub(crate) fn has_pools(ordinal: u32) -> bool {
    ordinal % 4 != 2
}

pub(crate) fn has_linker(ordinal: u32) -> bool {
    ordinal % 4 != 2
}

pub(crate) fn takes_machine_code(ordinal: u32) -> bool {
    matches!(ordinal % 4, 1 | 3)
}

/// Shared memory that a block can have.
pub(crate) fn shared_bytes(ordinal: u32) -> u32 {
    if is_hopper(ordinal) { 232_448 } else { 166_912 }
}

/// The ordinal that a device handle is.
fn ordinal(device: c_int) -> Outcome<u32> {
    let known = |ordinal: &u32| *ordinal < DEVICES;
    let ordinal = u32::try_from(device).ok().filter(known);
    ordinal.ok_or(INVALID_DEVICE)
}

driver! {
    fn cuInit(_state; flags: u32) {
        if flags == 0 { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn cuDriverGetVersion(_state; version: *mut c_int) {
        put(version, 12080)
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
        let hopper = is_hopper(ordinal);
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
            75 => if hopper { 9 } else { 8 },
            76 => 0,
            97 => shared_bytes(ordinal) as c_int,
            115 => c_int::from(has_pools(ordinal)),
            _ => return Err(INVALID_VALUE),
        })
    }

    fn cuDevicePrimaryCtxRetain(state; context: *mut Handle, device: c_int) {
        let ordinal = ordinal(device)?;
        let known = state.contexts.entry(ordinal).or_default();
        known.retained += 1;
        put(context, handle_of(ordinal))
    }

    fn cuDevicePrimaryCtxRelease_v2(state; device: c_int) {
        let ordinal = ordinal(device)?;
        let context = state.contexts.get_mut(&ordinal).ok_or(INVALID_CONTEXT)?;
        context.retained -= 1;
        if context.retained == 0 {
            state.contexts.remove(&ordinal);
            // Everything that was in it goes with it.
            state.modules.retain(|_, module| module.context != ordinal);
            state.pools.retain(|_, pool| pool.context != ordinal);
        }
        Ok(())
    }

    fn cuCtxGetCurrent(state; context: *mut Handle) {
        let top = state.stack().last().copied().unwrap_or(0);
        put(context, top)
    }

    fn cuCtxSetCurrent(state; context: Handle) {
        let stack = state.stack();
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
        Ok(())
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
        state.refuse_while_capturing(current)?;
        state.finish(Some(current), false);
        Ok(())
    }
}

impl State {
    /// The device of a context that is retained.
    pub(crate) fn ordinal_of(&self, context: Handle) -> Option<u32> {
        let ordinal = u32::try_from(context.checked_sub(1 << 40)? / 16).ok()?;
        self.contexts.contains_key(&ordinal).then_some(ordinal)
    }

    /// Whether a device has so many bytes more than it holds.
    pub(crate) fn has_room(&self, context: u32, bytes: usize) -> bool {
        let room = self.contexts[&context].room.unwrap_or(usize::MAX);
        self.memory.held(context).saturating_add(bytes) <= room
    }

    /// Fails as waiting for all work of a context does while some of its streams is in capture.
    fn refuse_while_capturing(&mut self, context: u32) -> Outcome {
        let mut streams = self.streams.values_mut();
        match streams.find(|stream| stream.context == context && stream.capture.is_some()) {
            Some(stream) => Err(stream.invalidate()),
            None => Ok(()),
        }
    }
}
