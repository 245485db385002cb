//! Launches: what they were given, and the one kernel that runs.

use std::ffi::c_void;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::call::{INVALID_VALUE, Outcome};
use crate::queue::{Place, Work};
use crate::state::{Handle, State};

pub(crate) struct Launch {
    pub(crate) name: Arc<str>,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    /// The bytes of each parameter, where they are known.
    parameters: Vec<Vec<u8>>,
    /// Memory that parameters point to.
    pub(crate) places: Vec<Place>,
}

/// The steps of a list, and the bytes of each.
const STEPS: usize = 8;
const STEP_BYTES: usize = 16;

fn word(bytes: &[u8]) -> Option<usize> {
    Some(u64::from_ne_bytes(bytes.try_into().ok()?) as usize)
}

impl Launch {
    /// Kernels do nothing here, but for one.
    pub(crate) fn run(&self) {
        let [x, y, elements, list] = &self.parameters[..] else {
            return;
        };
        if &*self.name != "pointwise_f32" {
            return;
        }
        let address = |parameter: &[u8]| word(parameter).unwrap_or_default();
        let word_at = |at: usize| list.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        // Of each step its bounds, behind the word that says which function it is: tests give clamps.
        let bound = |at: usize| word_at(at).map(f32::from_ne_bytes);
        let steps = word_at(STEPS * STEP_BYTES).map_or(0, u32::from_ne_bytes) as usize;
        let bounds_at = |at: usize| Some((bound(at + 4)?, bound(at + 8)?));
        let steps = (0..steps.min(STEPS)).map(|step| bounds_at(step * STEP_BYTES));
        let Some(clamps) = steps.collect::<Option<Vec<_>>>() else {
            return;
        };
        let x: *const f32 = std::ptr::with_exposed_provenance(address(x));
        let y: *mut f32 = std::ptr::with_exposed_provenance_mut(address(y));
        for index in 0..address(elements) {
            // SAFETY: both have as many elements, as the kernel asks of its callers, and are there.
            let value = unsafe { *x.add(index) };
            let clamp = |value: f32, &(low, high): &(f32, f32)| value.max(low).min(high);
            // SAFETY: as above.
            unsafe { *y.add(index) = clamps.iter().fold(value, clamp) };
        }
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
    attributes: *const LaunchAttribute,
    attribute_count: u32,
}

/// `CUlaunchAttribute`.
#[repr(C)]
struct LaunchAttribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`, the only one that is known here.
const CLUSTER_DIMENSION: u32 = 4;

driver! {
    fn cuLaunchKernel(
        state; function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared: u32, stream: Handle, values: *mut *mut c_void, _extra: *mut *mut c_void,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        state.launch(function, grid, block, shared, stream, values)
    }

    fn cuLaunchKernelEx(
        state; config: *const LaunchConfig, function: Handle, values: *mut *mut c_void, _extra: *mut *mut c_void,
    ) {
        // SAFETY: the caller passes a config, with as many attributes as it says.
        let (config, attributes) = unsafe {
            let config = &*config;
            let count = config.attribute_count as usize;
            (config, std::slice::from_raw_parts(config.attributes, count))
        };
        let fits = |attribute: &LaunchAttribute| {
            let [x, y, z] = [0, 1, 2].map(|axis| (config.grid[axis], attribute.value[axis]));
            let whole = |(grid, cluster): (u32, u32)| cluster > 0 && grid.is_multiple_of(cluster);
            attribute.id == CLUSTER_DIMENSION && whole(x) && whole(y) && whole(z)
        };
        if !attributes.iter().all(fits) {
            return Err(INVALID_VALUE);
        }
        state.launch(function, config.grid, config.block, config.shared, config.stream, values)
    }
}

impl State {
    /// Queues a launch. `values` has the address of each parameter's value.
    fn launch(
        &mut self,
        function: Handle,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        stream: Handle,
        values: *mut *mut c_void,
    ) -> Outcome {
        let Some(known) = self.functions.get(&function) else {
            return Err(self.stale("function", function));
        };
        let (context, granted) = (known.context, known.granted);
        let (name, sizes) = (known.name.clone(), known.parameters.clone());
        self.must_be_current(context)?;
        let stream = self.stream_to_use(stream)?;
        if grid.contains(&0) || block.contains(&0) || shared > granted {
            return Err(INVALID_VALUE);
        }
        let mut parameters = Vec::new();
        for (index, &size) in sizes.iter().flat_map(|sizes| sizes.iter()).enumerate() {
            // SAFETY: the caller passes the address of each parameter's value.
            let value = unsafe { std::slice::from_raw_parts((*values.add(index)).cast(), size) };
            parameters.push(value.to_vec());
        }
        let words = parameters
            .iter()
            .flat_map(|value| value.chunks_exact(8))
            .filter_map(word);
        let found = words.filter_map(|address| {
            let (start, block) = self.memory.block(address)?;
            Some(Place::Device {
                address,
                start,
                id: block.id,
            })
        });
        let places = found.collect();
        let launch = Launch {
            name,
            grid,
            block,
            shared,
            parameters,
            places,
        };
        self.log_launch(stream, &launch);
        self.give(stream, Work::Launch(Arc::new(launch)))
    }
}

impl State {
    /// Notes a launch in words that do not depend on where memory is.
    pub(crate) fn log_launch(&mut self, stream: Handle, launch: &Launch) {
        let Launch {
            name,
            grid,
            block,
            shared,
            ..
        } = launch;
        let mut text = format!("{name} {grid:?} {block:?} {shared}");
        for value in &launch.parameters {
            for chunk in value.chunks(8) {
                let in_block = word(chunk).and_then(|address| {
                    let (start, block) = self.memory.block(address)?;
                    Some((block.bytes, address - start))
                });
                let _ = match in_block {
                    Some((bytes, offset)) => write!(text, " [{offset} of {bytes}]"),
                    None => write!(text, " {chunk:?}"),
                };
            }
        }
        let context = self.streams[&stream].context;
        self.log.push((context, text));
    }

    /// Notes a copy likewise, with a hash of what is known of it.
    pub(crate) fn log_copy(&mut self, stream: Handle, to: &Place, from: &Place, bytes: usize) {
        let of = |place: &Place| match place {
            Place::Device { address, start, .. } => format!("device+{}", address - start),
            Place::Pinned { .. } => "pinned".to_owned(),
            Place::Host(_) => "host".to_owned(),
            Place::Staged(values) => {
                let mut hasher = DefaultHasher::new();
                values.hash(&mut hasher);
                format!("host {:x}", hasher.finish())
            }
        };
        let context = self.streams[&stream].context;
        let text = format!("copy {bytes} from {} to {}", of(from), of(to));
        self.log.push((context, text));
    }
}
