//! The warpgroups that multiply.

use cuda_std::mbarrier::Barrier;
use cuda_std::wgmma::{self, MatrixDescriptor, MatrixLayout};
use cuda_std::{opaque, thread};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::implicit_gemm::wide::{HALF_PIXELS, STEP_BYTES, chain_bytes};
use op_spec::launch::implicit_gemm::{CELL_BYTES, CELL_VALUES, CHAIN_STEPS, GemmGeometry, WIDE};

use super::super::place::Place;
use super::super::tables::{line_shift, may_round};
use super::exchange;
use super::format::{Operands, WideFormat};
use super::results::{HALF_SUMS, Output, Results};
use super::{Memory, Ring, Turn, WARPGROUP_WARPS, Work, share_of};

/// Units of the filters of one part of a step, and of one cell of them.
const STEP_UNITS: u32 = STEP_BYTES / wgmma::UNIT_BYTES;
const CELL_UNITS: u32 = WIDE.filters() * CELL_BYTES / wgmma::UNIT_BYTES;

/// Octets of half of a tile's pixels.
const HALF_OCTETS: u32 = HALF_PIXELS / CELL_VALUES;

/// Says that the warp has no more use for a slot.
#[inline(always)]
unsafe fn give_back(barrier: Barrier) {
    if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
        barrier.arrive();
    }
}

/// The warpgroup's number; computed anew, or it would take a register.
#[inline(always)]
unsafe fn warpgroup() -> u32 {
    opaque::uniform(opaque::to_compiler(thread::thread_idx_x()) / (WARPGROUP_WARPS * WARP_THREADS))
}

/// Which of the block's tiles of pixels are the warpgroup's, each in a round of its own.
struct Rounds<'a, const SUMS: usize> {
    work: &'a Work<'a>,
    /// Whether the other warpgroup has every second tile.
    alternate: u32,
}

impl<const SUMS: usize> Rounds<'_, SUMS> {
    /// How many of the other warpgroup's tiles come first.
    #[inline(always)]
    unsafe fn behind(&self) -> u32 {
        if SUMS == HALF_SUMS {
            0
        } else {
            self.alternate * warpgroup()
        }
    }

    /// The tile of round `round`.
    #[inline(always)]
    unsafe fn item(&self, round: u32) -> u32 {
        let tile = (opaque::to_compiler(round) << self.alternate) + self.behind();
        self.work.first_item + tile * self.work.item_step
    }
}

/// Chains of a tile whose sums are not split.
#[inline(always)]
fn chains(g: &GemmGeometry) -> u32 {
    opaque::to_compiler(g.stages) * (g.steps / CHAIN_STEPS)
}

/// How the pixels that a product multiplies lie; computed anew for each tile, or it would take registers while results are finished.
#[inline(always)]
unsafe fn layout<F: WideFormat<SUMS>, const SUMS: usize>(
    g: &GemmGeometry,
    parts: u32,
) -> MatrixLayout {
    let octet_units = opaque::to_compiler(g.octets_in_turn[usize::from(F::IN_TURN)]);
    let shift = line_shift::<F>(g, WIDE);
    if shift == 0 {
        MatrixLayout::apart(g.second_cell(parts), octet_units)
    } else {
        MatrixLayout::swizzled(opaque::to_compiler(shift), octet_units)
    }
}

/// Slots of two rings: of the chain before, and of the stage before if that chain was its last.
struct Used {
    filters: u32,
    patch: Option<u32>,
}

impl Used {
    #[inline(always)]
    unsafe fn give_back(&self, filters: &Ring, patches: &Ring) {
        give_back(filters.free(self.filters));
        if let Some(patch) = self.patch {
            give_back(patches.free(patch));
        }
    }
}

/// Multiplies and finishes all of the block's work that is the warpgroup's.
///
/// # Safety
/// All threads of a warpgroup call it, after the barrier behind `prepare`; `warp` is the warp's number in the block.
#[inline(always)]
pub(super) unsafe fn consume<F: WideFormat<SUMS>, const SUMS: usize>(
    work: &Work<'_>,
    memory: &Memory,
    output: &Output<F>,
    warp: u32,
) {
    let g = work.g;
    let (parts, step_parts) = (memory.format.parts, F::OPERANDS.step_parts());
    let tiles = memory.rings.tiles;
    let has_half = SUMS == HALF_SUMS;
    let (first_filter, first_half) = share_of(warp, tiles, has_half);
    let filter_tile = first_filter / WIDE.filters();
    let (patch_ring, filter_ring) = (memory.patches(), memory.filters());
    let (mut patch, mut filters) = (Turn::FIRST, Turn::FIRST);

    let [to_next, to_second] = g.octets_in_turn;
    let half_units = if F::IN_TURN {
        HALF_OCTETS / 2 * to_second
    } else {
        HALF_OCTETS * to_next
    };
    let slot_units = g.stage_bytes(parts) / wgmma::UNIT_BYTES;
    let chain_units = chain_bytes(step_parts) / wgmma::UNIT_BYTES;
    let first_pixels = wgmma::unit(memory.patches.addr(0)) + first_half * half_units;
    let first_filters = wgmma::unit(memory.filters.addr(0)) + filter_tile * chain_units;

    let rounds = Rounds::<SUMS> {
        work,
        alternate: if has_half { 0 } else { memory.rings.alternate },
    };
    let alternate = rounds.alternate;
    // Where warpgroups alternate, each leaves out what the other one does of the rings.
    if alternate == 1 {
        patch = patch.skip(rounds.behind() * g.stages, &patch_ring);
        filters = filters.skip(rounds.behind() * chains(g), &filter_ring);
    }

    let mut round = 0;
    while rounds.item(round) < g.items() as u32 {
        let parity = opaque::to_compiler(round) & 1;
        if alternate == 1 {
            // A new barrier's phase of parity 1 is over, as it were: the first one to begin is the first warpgroup.
            let warpgroup = warpgroup();
            memory.may_begin(warpgroup).wait(parity ^ 1 ^ warpgroup);
        }
        let layout = layout::<F, SUMS>(g, parts);
        let mut sums = F::nothing();
        let mut used: Option<Used> = None;
        let [mut stage, end_stage] = work.stages();
        while stage < end_stage {
            patch_ring.filled(patch.slot).wait(patch.parity);
            let pixels_at = first_pixels + patch.slot * slot_units;
            let mut step = 0;
            while step < g.steps {
                // Filters that stay have been waited for in the first round.
                if round == 0 || filter_ring.comes_round == 1 {
                    filter_ring.filled(filters.slot).wait(filters.parity);
                }
                let filters_at = first_filters + filters.slot * tiles * chain_units;
                let filter = |i: u32| {
                    MatrixDescriptor::new(filters_at + i * step_parts * STEP_UNITS, CELL_UNITS)
                };
                let pixel = |i: u32| {
                    let first = pixels_at + memory.offsets.load(step + i);
                    MatrixDescriptor::laid_out(first, layout)
                };
                let filter_operands = Operands {
                    first: [filter(0), filter(1), filter(2)],
                    low: STEP_UNITS,
                };
                let pixel_operands = Operands {
                    first: [pixel(0), pixel(1), pixel(2)],
                    low: g.patch_cells,
                };
                // Computed anew for each chain, or it would take a register.
                let to_next = opaque::to_compiler(g.octets_in_turn[0]);
                let second = if F::IN_TURN {
                    to_next
                } else {
                    HALF_OCTETS * to_next
                };
                sums = F::multiply(sums, filter_operands, pixel_operands, second);
                step += CHAIN_STEPS;
                let now = Used {
                    filters: filters.slot,
                    patch: (step == g.steps).then_some(patch.slot),
                };
                let over = if F::STAYS {
                    used.replace(now)
                } else {
                    Some(now)
                };
                if let Some(over) = over {
                    over.give_back(&filter_ring, &patch_ring);
                }
                // Else the slot would be free when the next stage is there; who rounds that would wait for others who do.
                if may_round::<F>() && step == g.steps && memory.rings.is_freed_at_once() {
                    F::settle(&sums);
                    if let Some(over) = used.take() {
                        over.give_back(&filter_ring, &patch_ring);
                    }
                }
                filters = filters.next(&filter_ring);
            }
            patch = patch.next(&patch_ring);
            stage += 1;
        }
        if alternate == 1 {
            // The warp has waited for all that its tile has of the rings, so what they come to next is the other's.
            give_back(memory.may_begin(1 - warpgroup()));
            patch = patch.skip(g.stages, &patch_ring);
            filters = filters.skip(chains(g), &filter_ring);
        }
        let more = rounds.item(round + 1) < g.items() as u32;
        // Divisions, while the last chain is under way.
        let place = Place::of(rounds.item(round), g);
        let place = Place {
            sample: opaque::to_compiler(place.sample),
            tile: 0,
            z: opaque::to_compiler(place.z),
            p: opaque::to_compiler(place.p),
            q: opaque::to_compiler(place.q),
        };
        let mut sums = F::finish(sums);
        if let Some(over) = used {
            over.give_back(&filter_ring, &patch_ring);
        }
        let is_mine = work.splits == 1
            || exchange::is_owner(g, memory.rings, memory.format, parity, more, &mut sums);
        if is_mine {
            // Not before, for a register less while sums are exchanged.
            let place = Place {
                tile: rounds.item(round) - place.sample * g.pixel_tiles(),
                ..place
            };
            Results::<F, SUMS>::new(work, memory.rings, output, &place).finish(sums);
        }
        round += 1;
    }
}
const _: () = assert!(CHAIN_STEPS == 3);
