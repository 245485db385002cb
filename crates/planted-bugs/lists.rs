// All lists of planted bugs. `build.rs` and `tests/caught.rs` include this file; each defines the macro
// `bugs` and the type `Bug`.

include!("bugs.rs");
include!("warp_specialized_bugs.rs");
include!("channels_last_bugs.rs");
include!("ping_pong_bugs.rs");
include!("split_bugs.rs");
include!("nhwc_bugs.rs");
include!("written_bugs.rs");
include!("hardware_bugs.rs");
include!("gemm_bugs.rs");
include!("order_bugs.rs");

const LISTS: &[&[Bug]] = &[
    BUGS,
    WARP_SPECIALIZED_BUGS,
    CHANNELS_LAST_BUGS,
    PING_PONG_BUGS,
    SPLIT_BUGS,
    NHWC_BUGS,
    WRITTEN_BUGS,
    HARDWARE_BUGS,
    GEMM_BUGS,
    ORDER_BUGS,
];
