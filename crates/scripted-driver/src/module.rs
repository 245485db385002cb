//! Modules, their functions, and the linker.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use crate::call::{
    INVALID_HANDLE, INVALID_VALUE, NO_BINARY_FOR_GPU, NOT_FOUND, NOT_SUPPORTED, Outcome, put,
};
use crate::context::{has_linker, shared_bytes, takes_machine_code};
use crate::state::{Handle, State};

/// What machine code starts with, and what that does that this driver's linker made: the PTX follows.
const ELF: &[u8] = b"\x7fELF";
const LINKED: &[u8] = b"\x7fELF scripted\n";

pub(crate) struct Module {
    pub(crate) context: u32,
    /// The PTX, if it was made of such.
    ptx: Option<Arc<str>>,
}

pub(crate) struct Function {
    pub(crate) context: u32,
    pub(crate) name: Arc<str>,
    /// Bytes of each parameter, if the PTX tells.
    pub(crate) parameters: Option<Arc<[usize]>>,
    /// Bytes of shared memory that a launch may name.
    pub(crate) granted: u32,
}

/// What every launch may name.
const SHARED_WITHOUT_GRANT: u32 = 48 << 10;

pub(crate) struct Linker {
    pub(crate) context: u32,
    output: Vec<u8>,
}

/// The sizes of an entry's parameters, if the PTX has it.
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
            // SAFETY: the caller's promise: what ends with a NUL is read no further than that, and machine
            // code is longer.
            (0..start.len()).all(|index| unsafe { *byte.add(index) == start[index] })
        };
        let text = match (starts_with(LINKED), starts_with(ELF)) {
            (true, _) => Some(image.wrapping_add(LINKED.len())),
            (false, true) if !takes_machine_code(context) => return Err(NO_BINARY_FOR_GPU),
            (false, true) => None,
            (false, false) => Some(image),
        };
        let ptx = text.map(|text| {
            // SAFETY: PTX ends with a NUL, also in what the linker made.
            let text = unsafe { CStr::from_ptr(text) };
            let text = text.to_string_lossy();
            if let Some(known) = self.texts.get(&*text) {
                return Arc::clone(known);
            }
            let text: Arc<str> = text.into();
            self.texts.insert(Arc::clone(&text));
            text
        });
        let handle = self.handle();
        self.modules.insert(handle, Module { context, ptx });
        put(place, handle)
    }
}

driver! {
    fn cuModuleLoadData(state; module: *mut Handle, image: *const c_char) {
        // SAFETY: the driver's interface has callers pass such an image.
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
        match state.modules.remove(&module) {
            Some(_) => Ok(()),
            None => Err(state.stale("module", module)),
        }
    }

    fn cuModuleGetFunction(
        state; function: *mut Handle, module: Handle, name: *const c_char,
    ) {
        // SAFETY: the caller passes a text that ends with a NUL.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let handle = state.handle();
        let Some(known) = state.modules.get(&module) else {
            return Err(state.stale("module", module));
        };
        let (context, ptx) = (known.context, known.ptx.clone());
        state.must_be_current(context)?;
        let parameters = match ptx {
            Some(ptx) => Some(parameters(&ptx, &name).ok_or(NOT_FOUND)?),
            None => None,
        };
        let name = name.into();
        let granted = SHARED_WITHOUT_GRANT;
        state.functions.insert(handle, Function { context, name, parameters, granted });
        put(function, handle)
    }

    fn cuFuncGetAttribute(state; value: *mut c_int, _attribute: c_int, function: Handle) {
        match state.functions.contains_key(&function) {
            true => put(value, 0),
            false => Err(state.stale("function", function)),
        }
    }

    fn cuFuncSetAttribute(state; function: Handle, attribute: c_int, value: c_int) {
        let Some(known) = state.functions.get_mut(&function) else {
            return Err(state.stale("function", function));
        };
        // How much shared memory a launch may name.
        if attribute == 8 {
            let granted = u32::try_from(value).ok();
            let granted = granted.filter(|&bytes| bytes <= shared_bytes(known.context));
            known.granted = granted.ok_or(INVALID_VALUE)?;
        }
        Ok(())
    }

    fn cuLinkCreate_v2(
        state; _count: u32, _options: *const c_int, _values: *const *mut c_void,
        linker: *mut Handle,
    ) {
        let (context, handle) = (state.current()?, state.handle());
        if !has_linker(context) {
            return Err(NOT_SUPPORTED);
        }
        let output = LINKED.to_vec();
        state.linkers.insert(handle, Linker { context, output });
        put(linker, handle)
    }

    fn cuLinkAddData_v2(
        state; linker: Handle, kind: c_int, data: *const u8, bytes: usize, _name: *const c_char,
        _count: u32, _options: *const c_int, _values: *const *mut c_void,
    ) {
        let Some(linker) = state.linkers.get_mut(&linker) else {
            return Err(INVALID_HANDLE);
        };
        if kind != 1 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller passes `bytes` bytes, which are PTX.
        linker.output.extend_from_slice(unsafe { std::slice::from_raw_parts(data, bytes) });
        linker.output.push(0);
        Ok(())
    }

    fn cuLinkComplete(state; linker: Handle, code: *mut *mut u8, bytes: *mut usize) {
        let Some(linker) = state.linkers.get_mut(&linker) else {
            return Err(INVALID_HANDLE);
        };
        put(code, linker.output.as_mut_ptr())?;
        put(bytes, linker.output.len())
    }

    fn cuLinkDestroy(state; linker: Handle) {
        match state.linkers.remove(&linker) {
            Some(_) => Ok(()),
            None => Err(state.stale("linker", linker)),
        }
    }
}
