#!/bin/sh
# Cargo calls this in place of the compiler, for the workspace's crates: the kernels alone count what runs.
# What writes the counters at the end is linked where a crate with counters is; nothing refers to it, so the
# tests' program names it.
case " $* " in
*" --crate-name kernels_gpu "*) set -- "$@" -Cinstrument-coverage ;;
*" --crate-name emulator "*) set -- "$@" -Clink-arg=-Wl,-u,__llvm_profile_runtime ;;
esac
exec "$@"
