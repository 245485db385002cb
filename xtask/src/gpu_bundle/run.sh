#!/bin/sh
# Runs convfuse's tests and demo on a machine that has a GPU and its driver, and nothing else.
#
#   ./run.sh                     tests, then verify and the demo
#   ./run.sh sanitize [FILTER]   tests of the GPU under each tool of compute-sanitizer, by default
#                                those on small shapes
#
# Exit status 0 means that everything passed. A test that finds no GPU fails here.
set -u
cd "$(dirname "$0")" || exit 1
export CONVFUSE_GOLDEN="$PWD/golden" CONVFUSE_REQUIRE_GPU=1 RUST_BACKTRACE=1
failed=0

run() {
    echo "== $*"
    "$@" || { failed=1; echo "== FAILED: $*"; }
}

./convfuse info || exit 1

if [ "${1:-}" = sanitize ]; then
    for tool in memcheck racecheck initcheck synccheck; do
        run compute-sanitizer --tool "$tool" --error-exitcode 1 --print-limit 20 \
            ./tests/suite --test-threads 1 "${2:-gpu::matches_reference_on_smoke_shapes}"
    done
else
    for test in ./tests/*; do
        run "$test"
    done
    run ./convfuse verify
    run ./convfuse demo
fi

if [ "$failed" = 0 ]; then echo "== all passed"; else echo "== something failed"; fi
exit "$failed"
