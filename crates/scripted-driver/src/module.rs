//! Modules, their functions, and the linker.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use crate::kind::{has_linker, shared_bytes, takes_machine_code};
use crate::outcome::{
    INVALID_HANDLE, INVALID_VALUE, NO_BINARY_FOR_GPU, NOT_FOUND, NOT_SUPPORTED, Outcome, put,
};
use crate::state::{Function, State};
use crate::work::Handle;

/// The first bytes of machine code, and the first bytes of this driver's linker output, before the PTX.
const ELF: &[u8] = b"\x7fELF";
const LINKED: &[u8] = b"\x7fELF scripted\n";

/// The maximum shared memory of a launch without an opt-in, in bytes.
const SHARED_WITHOUT_GRANT: u32 = 48 << 10;

/// Returns the sizes of an entry's parameters, if the PTX has the entry.
fn parameters(ptx: &str, name: &str) -> Option<Arc<[usize]>> {
    let entry = format!(".entry {name}(");
    let start = ptx.find(&entry)? + entry.len();
    let list = ptx[start..].split_once(')')?.0;
    let size = |parameter: &str| {
        let words: Vec<&str> = parameter.split_whitespace().collect();
        let elements = parameter.trim_end().strip_suffix(']');
        let elements = elements.and_then(|text| text.rsplit_once('[')?.1.parse::<usize>().ok());
        let mut types = words.iter().filter_map(|word| {
            let bits = word
                .strip_prefix(['.'])?
                .strip_prefix(['b', 'u', 's', 'f'])?;
            Some(bits.parse::<usize>().ok()? / 8)
        });
        Some(types.next_back()? * elements.unwrap_or(1))
    };
    let list = list.trim();
    let each = list.split(',').filter(|parameter| !parameter.is_empty());
    each.map(size).collect()
}

impl State {
    /// # Safety
    /// `image` is PTX that ends with a NUL, or machine code.
    unsafe fn load(&mut self, place: *mut Handle, image: *const c_char) -> Outcome {
        let context = self.current()?;
        let starts_with = |start: &[u8]| {
            let byte = image.cast::<u8>();
            // SAFETY: the caller's promise. Text that ends with a NUL is read no further than the NUL, and
            // machine code is longer.
            (0..start.len()).all(|index| unsafe { *byte.add(index) == start[index] })
        };
        let text = match (starts_with(LINKED), starts_with(ELF)) {
            (true, _) => Some(image.wrapping_add(LINKED.len())),
            (false, true) if !takes_machine_code(context) => return Err(NO_BINARY_FOR_GPU),
            (false, true) => None,
            (false, false) => Some(image),
        };
        let ptx = text.map(|text| {
            // SAFETY: PTX ends with a NUL, also in the linker's output.
            let text = unsafe { CStr::from_ptr(text) };
            let text = text.to_string_lossy();
            let known = self.texts.get(&*text).cloned();
            known.unwrap_or_else(|| {
                let text: Arc<str> = text.into();
                self.texts.insert(Arc::clone(&text));
                text
            })
        });
        put(place, self.add(|state| &mut state.modules, context, ptx))
    }
}

/// The static shared memory of each kernel, which reduces the limit of its dynamic shared memory.
const STATIC_SHARED_BYTES: u32 = 16;

driver! {
    fn cuModuleLoadData(state; module: *mut Handle, image: *const c_char) {
        // SAFETY: the driver's interface requires callers to pass such an image.
        unsafe { state.load(module, image) }
    }

    fn cuModuleLoadDataEx(
        state; module: *mut Handle, image: *const c_char, _count: u32, _options: *const c_int,
        _values: *const *mut c_void,
    ) {
        // SAFETY: as above.
        unsafe { state.load(module, image) }
    }

    fn cuModuleUnload(state; module: Handle) {
        state.modules.remove(&module).map(drop).ok_or(INVALID_HANDLE)
    }

    fn cuModuleGetFunction(
        state; function: *mut Handle, module: Handle, name: *const c_char,
    ) {
        // SAFETY: the caller passes a text that ends with a NUL.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let known = state.modules.get(&module).ok_or(INVALID_HANDLE)?;
        let context = known.context;
        let parameters = match &**known {
            Some(ptx) => Some(parameters(ptx, &name).ok_or(NOT_FOUND)?),
            None => None,
        };
        state.must_be_current(context)?;
        let made = Function { name: name.into(), parameters, granted: SHARED_WITHOUT_GRANT };
        put(function, state.add(|state| &mut state.functions, context, made))
    }

    fn cuFuncGetAttribute(state; value: *mut c_int, attribute: c_int, function: Handle) {
        state.functions.get(&function).ok_or(INVALID_HANDLE)?;
        // The static shared memory of a block.
        put(value, if attribute == 1 { STATIC_SHARED_BYTES as c_int } else { 0 })
    }

    fn cuFuncSetAttribute(state; function: Handle, attribute: c_int, value: c_int) {
        let known = state.functions.get_mut(&function).ok_or(INVALID_HANDLE)?;
        // The maximum dynamic shared memory of a launch.
        if attribute == 8 {
            let granted = u32::try_from(value).ok();
            let granted = granted.filter(|&bytes| bytes + STATIC_SHARED_BYTES <= shared_bytes(known.context));
            known.granted = granted.ok_or(INVALID_VALUE)?;
        }
        Ok(())
    }

    fn cuLinkCreate_v2(
        state; _count: u32, _options: *const c_int, _values: *const *mut c_void,
        linker: *mut Handle,
    ) {
        let context = state.current()?;
        if !has_linker(context) {
            return Err(NOT_SUPPORTED);
        }
        put(linker, state.add(|state| &mut state.linkers, context, LINKED.to_vec()))
    }

    fn cuLinkAddData_v2(
        state; linker: Handle, kind: c_int, data: *const u8, bytes: usize, _name: *const c_char,
        _count: u32, _options: *const c_int, _values: *const *mut c_void,
    ) {
        let output = state.linkers.get_mut(&linker).ok_or(INVALID_HANDLE)?;
        if kind != 1 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller passes `bytes` bytes, which are PTX.
        output.extend_from_slice(unsafe { std::slice::from_raw_parts(data, bytes) });
        output.push(0);
        Ok(())
    }

    fn cuLinkComplete(state; linker: Handle, code: *mut *mut u8, bytes: *mut usize) {
        let output = state.linkers.get_mut(&linker).ok_or(INVALID_HANDLE)?;
        put(code, output.as_mut_ptr())?;
        put(bytes, output.len())
    }

    fn cuLinkDestroy(state; linker: Handle) {
        state.linkers.remove(&linker).map(drop).ok_or(INVALID_HANDLE)
    }
}
