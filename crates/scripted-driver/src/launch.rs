//! Launches.

use std::ffi::c_void;
use std::sync::Arc;

use crate::outcome::{INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::state::State;
use crate::work::{Handle, Launch, Work, word};

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

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`, the only supported attribute.
const CLUSTER_DIMENSION: u32 = 4;

driver! {
    fn cuLaunchKernel(
        state; function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared: u32, stream: Handle, values: *mut *mut c_void, _extra: *mut *mut c_void,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(state, function, grid, block, shared, stream, values)
    }

    fn cuLaunchKernelEx(
        state; config: *const LaunchConfig, function: Handle, values: *mut *mut c_void, _extra: *mut *mut c_void,
    ) {
        // SAFETY: the caller passes a config with a valid attribute count.
        let (config, attributes) = unsafe {
            let config = &*config;
            let count = config.attribute_count as usize;
            (config, std::slice::from_raw_parts(config.attributes, count))
        };
        let fits = |attribute: &LaunchAttribute| {
            let mut axes = config.grid.iter().zip(&attribute.value);
            let is_whole = |(grid, &cluster): (&u32, &u32)| cluster > 0 && grid.is_multiple_of(cluster);
            attribute.id == CLUSTER_DIMENSION && axes.all(is_whole)
        };
        if !attributes.iter().all(fits) {
            return Err(INVALID_VALUE);
        }
        launch(state, function, config.grid, config.block, config.shared, config.stream, values)
    }
}

/// Queues a launch. `values` has the address of each parameter's value.
fn launch(
    state: &mut State,
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
    values: *mut *mut c_void,
) -> Outcome {
    let known = state.functions.get(&function).ok_or(INVALID_HANDLE)?;
    let (context, granted) = (known.context, known.granted);
    let (name, sizes) = (known.name.clone(), known.parameters.clone());
    state.must_be_current(context)?;
    let stream = state.stream_to_use(stream)?;
    if grid.contains(&0) || block.contains(&0) || shared > granted {
        return Err(INVALID_VALUE);
    }
    let sizes = sizes.iter().flat_map(|sizes| sizes.iter());
    let parameters = sizes.enumerate().map(|(index, &size)| {
        // SAFETY: the caller passes the address of each parameter's value.
        unsafe { std::slice::from_raw_parts((*values.add(index)).cast(), size) }.to_vec()
    });
    let parameters: Vec<Vec<u8>> = parameters.collect();
    let words = parameters.iter().flat_map(|value| value.chunks_exact(8));
    let places = words.filter_map(word);
    let places = places.filter_map(|address| Some(state.memory.place(address, 0)?.0));
    let launch = Launch {
        name,
        grid,
        block,
        shared,
        places: places.collect(),
        parameters,
    };
    state.log_launch(stream, &launch);
    state.give(stream, Work::Launch(Arc::new(launch)))
}
