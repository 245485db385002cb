//! Transposed convolution in one to three dimensions: a convolution for each class of phases, whose results
//! are interleaved.

use std::fmt;

use kernels_gpu::conv_transpose::{
    CONV_TRANSPOSE_FILTERS, CONV_TRANSPOSE_INTERLEAVE, CONV_TRANSPOSE_INTERLEAVE_NHWC,
};
use launch_config::conv_transpose::{Class, InterleaveGeometry, MAX_CLASSES, PhaseFiltersGeometry};
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::depthwise::nhwc::NhwcGeometry;
use launch_config::implicit_gemm::{Epilogue, RoundedEpilogue};
use launch_config::pointwise::ResidualList;
use launch_config::{KernelGeometry, Refusal};
use op_spec::Layout;

use super::conv::{self, Filters};
use super::fused::{
    ConvolutionParameters, Preparation, Preparations, depthwise, implicit_gemm, prepared,
};
use super::launching::Affine;
use crate::device::{DType, Order};
use crate::error::Result;
use crate::operators::implicit_gemm::Gemm;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::{ConvProblem, ConvTransposeProblem};

/// The kernels of a class's convolution.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are at most eight for a layer"
)]
pub(crate) enum ClassKernels {
    ImplicitGemm(Gemm),
    Depthwise(DepthwiseGeometry),
    /// Of channels-last tensors.
    DepthwiseNhwc(NhwcGeometry),
    Direct,
}

impl ClassKernels {
    /// The layouts of input and output.
    fn layouts(&self) -> [Layout; 2] {
        match self {
            Self::ImplicitGemm(gemm) => [gemm.reads(), gemm.writes()],
            Self::DepthwiseNhwc(_) => [Layout::Nhwc; 2],
            Self::Depthwise(_) | Self::Direct => [Layout::Nchw; 2],
        }
    }
}

/// A class with its convolution.
#[derive(Debug)]
struct PlannedClass {
    class: Class,
    convolution: ConvProblem<3>,
    kernels: ClassKernels,
}

/// A transposed convolution with all decisions about its launches.
#[derive(Debug)]
pub(crate) struct Transposed {
    problem: ConvTransposeProblem<3>,
    geometry: InterleaveGeometry,
    classes: Vec<PlannedClass>,
    /// The layouts of the input, and of the classes' results and the output.
    pub(crate) reads: Layout,
    pub(crate) writes: Layout,
}

impl Transposed {
    /// The classes of a transposed convolution with kernels that `choose` gives for each convolution; none if
    /// these differ in what they read or write.
    ///
    /// # Errors
    /// Extents that no kernel can index; what `choose` refuses.
    pub(crate) fn new(
        problem: &ConvTransposeProblem<3>,
        choose: impl Fn(&ConvProblem<3>) -> Result<ClassKernels, Refusal>,
    ) -> Result<Option<Self>, Refusal> {
        let limit = |_| Refusal::Needs("planes, filters and steps that are indexed with 32 bits");
        let geometry = problem.geometry().map_err(limit)?;
        let mut classes = Vec::new();
        for class in geometry.classes() {
            let convolution = class.convolution(&geometry, problem).map_err(limit)?;
            let kernels = choose(&convolution)?;
            classes.push(PlannedClass {
                class,
                convolution,
                kernels,
            });
        }
        let mut layouts = classes.iter().map(|class| class.kernels.layouts());
        let [reads, writes] = layouts.next().unwrap_or([Layout::Nchw; 2]);
        let is_one = layouts.all(|other| other == [reads, writes]);
        Ok(is_one.then_some(Self {
            problem: *problem,
            geometry,
            classes,
            reads,
            writes,
        }))
    }

    /// Whether the only convolution has the output itself.
    fn is_convolution(&self) -> bool {
        self.geometry.is_convolution().is_some()
    }

    /// Plans the launches, and those that prepare the filters of each class.
    pub(crate) fn plan(&self, plan: &mut LaunchPlan, dtype: DType) -> Result<()> {
        let labels = [dtype.label()];
        for planned in &self.classes {
            let filters = PhaseFiltersGeometry::of(&planned.class, &self.geometry, &self.problem);
            plan.preparation(&CONV_TRANSPOSE_FILTERS, &labels, filters.shape())?;
            match &planned.kernels {
                ClassKernels::ImplicitGemm(gemm) => gemm.plan(plan, dtype)?,
                ClassKernels::Depthwise(geometry) => {
                    depthwise::plan(plan, dtype, geometry, false)?;
                }
                ClassKernels::DepthwiseNhwc(geometry) => {
                    depthwise::plan_nhwc(plan, dtype, geometry)?;
                }
                ClassKernels::Direct => conv::plan_volumes(plan, dtype, &planned.convolution)?,
            }
        }
        if self.is_convolution() {
            return Ok(());
        }
        let shape = self.geometry.shape(self.writes);
        match self.writes {
            Layout::Nchw => plan.launch(&CONV_TRANSPOSE_INTERLEAVE, &labels, shape),
            Layout::Nhwc => plan.launch(&CONV_TRANSPOSE_INTERLEAVE_NHWC, &labels, shape),
        }
    }
}

impl fmt::Display for Transposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.classes.is_empty() {
            return f.write_str("no output has taps");
        }
        for (index, planned) in self.classes.iter().enumerate() {
            let [t, r, s] = planned.class.phases.map(|of| of.taps);
            let (separator, count) = (if index > 0 { "; " } else { "" }, planned.class.count());
            let phases = if count == 1 { "phase" } else { "phases" };
            write!(f, "{separator}{count} {phases} of {t}x{r}x{s} taps by ")?;
            match &planned.kernels {
                ClassKernels::ImplicitGemm(gemm) => write!(f, "implicit GEMM, {gemm}")?,
                ClassKernels::Depthwise(_) | ClassKernels::DepthwiseNhwc(_) => {
                    f.write_str("depthwise convolution")?;
                }
                ClassKernels::Direct => f.write_str("direct convolution")?,
            }
        }
        Ok(())
    }
}

/// The filters and the bias of a class, [prepared] from those of the layer `layer`.
fn prepare(
    program: &mut ProgramBuilder,
    preparations: &Preparations,
    layer: usize,
    Filters { weight, bias }: Filters,
    (class, g): (usize, PhaseFiltersGeometry),
) -> Result<[Value; 2]> {
    let append = |program: &mut ProgramBuilder, [weight, bias]: [Option<Value>; 2]| {
        let weight = weight.expect("a filter is not optional");
        let (dtype, filters) = (program.dtype(weight), g.filters() as usize);
        let (kernel, shape) = program.next(&CONV_TRANSPOSE_FILTERS);
        let weights = program.tensor(&[filters, g.filter_elements() as usize], dtype)?;
        let repeated = program.tensor(&[bias.map_or(0, |_| filters)], dtype)?;
        let arguments = (weight, bias, weights, repeated, g);
        // SAFETY: weight and bias have the shapes that the geometry was made from, and the two outputs the
        // sizes that it says; the bias is there if it says so.
        unsafe { program.launch(kernel, shape, arguments) }
        Ok([weights, repeated])
    };
    let of = (layer, Preparation::PhaseFilters { class });
    prepared(program, preparations, of, [Some(weight), bias], append)
}

/// Appends a transposed convolution of `x`, which lies as it is read, to an output of the shape `output`.
///
/// `transposed` was chosen for the shapes of `x` and of the parameters, and for the program's device.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    (layer, filters): (usize, Filters),
    preparations: &Preparations,
    transposed: &Transposed,
    output: &[usize],
) -> Result<Value> {
    let Transposed {
        problem, geometry, ..
    } = transposed;
    let dtype = program.dtype(x);
    let mut results = [None; MAX_CLASSES];
    for planned in &transposed.classes {
        let number = planned.class.number;
        let g = PhaseFiltersGeometry::of(&planned.class, geometry, problem);
        let [weight, bias] = prepare(program, preparations, layer, filters, (number, g))?;
        let none = Affine {
            weight: None,
            bias: None,
        };
        let parameters = ConvolutionParameters {
            filters: Filters {
                weight,
                bias: problem.bias.then_some(bias),
            },
            norm: none,
            folded: None,
            residual: None,
            factors: None,
            layer,
            class: number,
            preparations,
        };
        let volumes = planned.convolution.output_shape();
        let shape = match transposed.is_convolution() {
            true => output,
            false => &volumes[..],
        };
        let store = (Epilogue::NONE, ResidualList::EMPTY);
        let y = match &planned.kernels {
            ClassKernels::ImplicitGemm(gemm) => {
                let epilogue = (Epilogue::NONE, RoundedEpilogue::NONE);
                implicit_gemm::append(program, x, &parameters, gemm, epilogue, shape)?.y
            }
            ClassKernels::Depthwise(geometry) => {
                depthwise::append(program, x, &parameters, geometry, store, shape)?.y
            }
            ClassKernels::DepthwiseNhwc(geometry) => {
                depthwise::append_nhwc(program, x, &parameters, geometry, store, shape)?.y
            }
            ClassKernels::Direct => {
                let y = conv::append(program, x, parameters.filters, &planned.convolution)?;
                program.see_as(y, shape);
                y
            }
        };
        if transposed.is_convolution() {
            return Ok(y);
        }
        results[number] = Some(y);
    }
    let [a, b, c, d, e, f, g, h] = results;
    let order = Order::of_layout(output, transposed.writes)?;
    let y = program.tensor_as(output, dtype, order)?;
    let arguments = (a, b, c, d, e, f, g, h, filters.bias, y, *geometry);
    // SAFETY: the results are the outputs of the geometry's classes in the layout of `y`, which has an
    // element for each output; the bias is there if the geometry says so. `geometry()` refused planes of 2^31
    // elements.
    unsafe {
        match transposed.writes {
            Layout::Nchw => {
                let (kernel, shape) = program.next(&CONV_TRANSPOSE_INTERLEAVE);
                program.launch(kernel, shape, arguments);
            }
            Layout::Nhwc => {
                let (kernel, shape) = program.next(&CONV_TRANSPOSE_INTERLEAVE_NHWC);
                program.launch(kernel, shape, arguments);
            }
        }
    }
    Ok(y)
}
