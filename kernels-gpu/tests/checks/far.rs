//! Tensors of more than 2³² elements, of which only a few blocks run: those around element 2³¹, at element
//! 2³² and at the end. The value of an element follows from its index. An index that is too narrow therefore
//! reads a wrong value, or leaves an element unwritten. All values are small fractions, and so are exact.

use launch_config::pad::PadGeometry;
use std::ops::Range;

use cuda_std::emulator::Launch;
use cuda_std::{Family, KernelArgs, Label, Storage};
use launch_config::LaunchShape;
use launch_config::copy_rows::{RowsGeometry, RowsOf};
use launch_config::copy_strided::{Collapsed, CopyGeometry};
use launch_config::elementwise::{BLOCK_ELEMENTS, ChannelGeometry, shape};
use launch_config::norm::NormGeometry;
use launch_config::pointwise::PointwiseList;
use op_spec::graph::Layer;
use op_spec::{Conv2dSpec, PaddingMode};

use super::super::kernels::conv::CONV_PAD;
use super::super::kernels::copy_rows::COPY_ROWS;
use super::super::kernels::copy_strided::COPY_STRIDED;
use super::super::kernels::fused::group_norm_scale_pointwise::GROUP_NORM_SCALE_POINTWISE;
use super::super::kernels::pointwise::{POINTWISE, POINTWISE_RESIDUAL};
use super::super::kernels::scale::SCALE;
use super::{Failure, Outcome, Run, Tensor, bits, label, value};

/// The value of element `index`: quarters from -4 to below 4.
pub(super) fn number(index: u64) -> f32 {
    let mixed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 59) as f32 / 4.0 - 4.0
}

impl Run {
    /// A tensor whose element `i` is `of(i)`.
    pub(super) fn computed<T: Storage>(
        &self,
        len: u64,
        of: impl Fn(u64) -> f32 + Send + Sync + 'static,
    ) -> Result<Tensor<T>, Failure> {
        let element = size_of::<T>();
        let contents = move |offset: usize, bytes: &mut [u8]| {
            let stored = bits(T::from_f32(of((offset / element) as u64)));
            bytes.copy_from_slice(&stored);
        };
        let len = len as usize;
        Ok(Tensor {
            buffer: (self.device).alloc_computed(element * len, element, contents)?,
            len,
            element: std::marker::PhantomData,
        })
    }

    /// An uninitialised tensor that takes host memory only for touched elements.
    pub(super) fn sparse<T: Storage>(&self, len: u64) -> Result<Tensor<T>, Failure> {
        let (element, len) = (size_of::<T>(), len as usize);
        Ok(Tensor {
            buffer: self.device.alloc_sparse(element * len, element)?,
            len,
            element: std::marker::PhantomData,
        })
    }

    /// Runs some blocks of an instance's launch.
    pub(super) fn launch_some<A: KernelArgs>(
        &self,
        family: &Family<A>,
        labels: &[Label],
        shape: Option<LaunchShape>,
        blocks: &[u64],
        arguments: A,
    ) -> Outcome {
        let kernel = family.instance(labels)?;
        let shape = shape.ok_or_else(|| Failure("no launch of so many blocks".to_owned()))?;
        let launch = Launch {
            only: blocks.iter().map(|&block| [block as u32, 0, 0]).collect(),
            ..self.launch_of(shape)
        };
        // SAFETY: kernels access memory through views, which the emulator checks.
        unsafe { self.device.launch_instance(kernel, &launch, arguments)? };
        Ok(())
    }
}

impl<T: Storage> Tensor<T> {
    /// Checks these elements against `wanted`.
    pub(super) fn are(
        &self,
        what: &str,
        elements: Range<u64>,
        wanted: impl Fn(u64) -> f32,
    ) -> Outcome {
        let mut bytes = vec![0; size_of::<T>() * (elements.end - elements.start) as usize];
        let first = elements.start as usize * size_of::<T>();
        self.buffer.read(first, &mut bytes)?;
        for (index, bytes) in elements.zip(bytes.chunks_exact(size_of::<T>())) {
            let (got, wanted) = (value::<T>(bytes).to_f32(), wanted(index));
            if !(got == wanted) {
                return Err(Failure(format!(
                    "{what}: element {index} is {got}, not {wanted}"
                )));
            }
        }
        Ok(())
    }
}

/// The blocks of `span` elements that contain elements 2³¹ and 2³² and the last of `total`.
pub(super) fn far_blocks(total: u64, span: u64) -> Vec<u64> {
    let elements = [1 << 31, 1 << 32, total - 1];
    let there = elements.into_iter().filter(|&element| element < total);
    there.map(|element| element / span).collect()
}

/// Checks the elements that these blocks of `span` elements wrote against `wanted`.
pub(super) fn blocks_are<T: Storage>(
    what: &str,
    y: &Tensor<T>,
    span: u64,
    blocks: &[u64],
    wanted: impl Fn(u64) -> f32,
) -> Outcome {
    let total = y.len as u64;
    blocks.iter().try_for_each(|&block| {
        let end = total.min((block + 1) * span);
        y.are(what, block * span..end, &wanted)
    })
}

const BLOCK: u64 = BLOCK_ELEMENTS as u64;

/// Checks scales, sums, functions, and layers after a norm: flat tensors.
pub(crate) fn elementwise(run: &Run) -> Outcome {
    let (n, c, spatial) = (3, 5, 400_000_009);
    let g = ChannelGeometry::new(n, c, spatial);
    let labels = [label::<f32>()];
    let x = run.computed::<f32>(g.elements, number)?;
    let factors = [0.5, -1.0, 2.0, 4.0, 0.25];
    let channel = move |index: u64| (index / spatial % u64::from(c)) as usize;
    let (blocks, launch) = (far_blocks(g.elements, BLOCK), shape(g.elements));

    let scale = run.tensor::<f32>(&factors)?;
    let y = run.sparse::<f32>(g.elements)?;
    let arguments = (x.source(), scale.source(), y.ptr(), g, f32::INFINITY);
    run.launch_some(&SCALE, &labels, launch, &blocks, arguments)?;
    let scaled = |index| number(index) * factors[channel(index)];
    blocks_are("scale", &y, BLOCK, &blocks, scaled)?;

    let other = run.computed::<f32>(g.elements, |index| number(index + 1))?;
    let y = run.sparse::<f32>(g.elements)?;
    let list_of = |layer| super::pointwise::list(&[layer]);
    let list = list_of(Layer::add("residual"));
    let arguments = (x.source(), other.source(), y.ptr(), g.elements, list);
    run.launch_some(&POINTWISE_RESIDUAL, &labels, launch, &blocks, arguments)?;
    blocks_are("add", &y, BLOCK, &blocks, |index| {
        number(index) + number(index + 1)
    })?;

    let y = run.sparse::<f32>(g.elements)?;
    let list = list_of(Layer::clamp(-1.0, 2.0));
    let arguments = (x.source(), y.ptr(), g.elements, list.functions);
    run.launch_some(&POINTWISE, &labels, launch, &blocks, arguments)?;
    blocks_are("clamp", &y, BLOCK, &blocks, |index| {
        number(index).clamp(-1.0, 2.0)
    })?;

    // Rows of one split, of mean 1 and variance 4.
    let (channels, spatial) = (8, 1003);
    let norm = NormGeometry::new(700_001, channels, channels, spatial, 0.0);
    let g = norm.apply(4);
    let deviations = 4.0 * norm.row_elements as f32;
    let partials = norm.partial_elements();
    let of = move |index| if index % 2 == 0 { 1.0 } else { deviations };
    let partials = run.computed::<f32>(partials, of)?;
    let x = run.computed::<f32>(g.elements, number)?;
    let y = run.sparse::<f32>(g.elements)?;
    let none = std::ptr::null();
    let arguments = (
        x.source(),
        partials.source(),
        none,
        none,
        none,
        none,
        y.ptr(),
        g,
        PointwiseList::EMPTY,
    );
    let span = u64::from(g.block_elements);
    let blocks = far_blocks(g.elements, span);
    let family = &GROUP_NORM_SCALE_POINTWISE;
    run.launch_some(family, &labels, g.shape(), &blocks, arguments)?;
    blocks_are("norm", &y, span, &blocks, |index| {
        (number(index) - 1.0) / 2.0
    })
}

/// Checks padded planes, strided copies, and copies of parts of rows.
pub(crate) fn moved(run: &Run) -> Outcome {
    let labels = [label::<f32>()];
    let (planes, inner) = (4, [44_000, 45_001]);
    let spec = Conv2dSpec::default()
        .padding([3, 2])
        .padding_mode(PaddingMode::Circular);
    let problem = spec.problem(&[1, planes, inner[0], inner[1]], &[1, planes, 1, 1], None);
    let pad = problem.expect("a convolution").pad.expect("a pad");
    let g = PadGeometry::of("conv", &pad, planes).expect("planes of 2^31 elements");
    let x = run.computed::<f32>((planes * inner[0] * inner[1]) as u64, number)?;
    let y = run.sparse::<f32>(g.elements)?;
    let blocks = far_blocks(g.elements, BLOCK);
    let arguments = (x.source(), y.ptr(), g);
    run.launch_some(&CONV_PAD, &labels, g.shape(), &blocks, arguments)?;
    let outer = inner.map(|extent| extent as u64);
    let [h, w] = [outer[0] + 6, outer[1] + 4];
    blocks_are("pad", &y, BLOCK, &blocks, |index| {
        let (plane, p, q) = (index / (h * w), index / w % h, index % w);
        let [p, q] = [(p + outer[0] - 3) % outer[0], (q + outer[1] - 2) % outer[1]];
        number((plane * outer[0] + p) * outer[1] + q)
    })?;

    // Channels last, in tiles; rows with gaps, and backwards.
    let (c, h, w) = (64, 6000, 5003);
    for (shape, strides) in [
        (vec![3, c, h * w], vec![(c * h * w) as isize, 1, c as isize]),
        (vec![90_000, 50_021], vec![50_023, 1]),
        (vec![90_000, 50_021], vec![-50_023, -1]),
    ] {
        let collapsed = Collapsed::new(&shape, &strides).expect("few axes");
        let g = CopyGeometry::new(&collapsed, false);
        let x = run.computed::<f32>(g.span, number)?;
        let y = run.sparse::<f32>(g.elements)?;
        let (before, last) = (g.before, shape.len() - 1);
        let from = |index: u64| {
            let (mut left, mut at) = (index, before as i64);
            for axis in (0..=last).rev() {
                at += (left % shape[axis] as u64) as i64 * strides[axis] as i64;
                left /= shape[axis] as u64;
            }
            number(at as u64)
        };
        let launch = g.shape();
        let grid = u64::from(launch.expect("few blocks").grid[0]);
        let start = x.source::<f32>().wrapping_add(before as usize).cast();
        let both = [labels[0], labels[0]];
        run.launch_some(
            &COPY_STRIDED,
            &both,
            launch,
            &[grid - 1],
            (start, y.ptr(), g),
        )?;
        // The last block writes the last elements for every tile.
        let what = format!("{shape:?} by {strides:?}");
        y.are(&what, g.elements - 3..g.elements, from)?;
    }

    // Parts of rows, of single elements and of vectors.
    for (elements, pitch, start) in [(50_021, 50_023, 2), (50_020, 50_024, 4)] {
        let rows = 90_000;
        let [source, target] =
            [(pitch, start), (elements, 0)].map(|(pitch, start)| RowsOf { pitch, start });
        let g = RowsGeometry::new(rows, elements, source, target);
        let x = run.computed::<f32>(rows * pitch, number)?;
        let y = run.sparse::<f32>(rows * elements)?;
        let grid = u64::from(g.shape().expect("few blocks").grid[0]);
        let arguments = (x.source(), y.ptr(), g);
        run.launch_some(&COPY_ROWS, &labels, g.shape(), &[grid - 1], arguments)?;
        let last = rows * elements;
        let what = format!("{elements} of each row");
        y.are(&what, last - 3..last, |index| {
            number(index / elements * pitch + start + index % elements)
        })?;
    }
    Ok(())
}
