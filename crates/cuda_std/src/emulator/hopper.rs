//! What the emulator lacks of sm_90a: clusters, and chains of `wgmma` with A in registers.

use std::panic::Location;

use super::exec::fail;
use super::fault::FaultKind;

#[track_caller]
fn lacking(instruction: &str) -> ! {
    let text = format!(
        "{instruction}: the emulator does not have it, run this kernel on a device of sm_90a"
    );
    fail(Location::caller(), FaultKind::Argument(text))
}

#[track_caller]
pub(crate) fn cluster_fence_barriers() {
    lacking("fence.mbarrier_init");
}

#[track_caller]
pub(crate) fn cluster_block_rank() -> u32 {
    lacking("%cluster_ctarank")
}

#[track_caller]
pub(crate) fn cluster_sync() {
    lacking("barrier.cluster");
}

#[track_caller]
pub(crate) unsafe fn cluster_wait(_: u32, _: u32) {
    lacking("mbarrier.try_wait.acquire.cluster");
}

#[track_caller]
pub(crate) unsafe fn cluster_store_async(_: u32, _: u32, _: u32, _: [f32; 2]) {
    lacking("st.async");
}

macro_rules! chains {
    ($($name:ident, $steps:literal;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name(_: &[[u32; 4]; $steps], _: &[u64; $steps]) -> [f32; 64] {
            lacking("wgmma with A in registers")
        }
    )*};
}

chains! {
    m64n128_f16_5, 5;
    m64n128_bf16_5, 5;
    m64n128_f16_14, 14;
}
