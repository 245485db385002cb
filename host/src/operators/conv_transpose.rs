//! Transposed convolution in one to three dimensions, as one convolution for each class of phases. The
//! convolutions shuffle their results into the output, or a launch interleaves them.

mod classes;

use std::fmt;

use kernels_gpu::conv_transpose::nhwc::CONV_TRANSPOSE_INTERLEAVE_NHWC;
use kernels_gpu::conv_transpose::{CONV_TRANSPOSE_FILTERS, CONV_TRANSPOSE_INTERLEAVE};
use launch_config::conv_transpose::{
    InterleaveGeometry, MAX_CLASSES, PhaseFiltersGeometry, ShuffledClass, shuffled,
};
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::OperandList;
use launch_config::{KernelGeometry, Refusal};
use op_spec::Layout;

pub(crate) use classes::ClassKernels;

use super::conv::{self, Filters};
use super::fused::{ConvolutionParameters, depthwise, gemm, implicit_gemm};
use super::preparation::{Preparation, Preparations, prepared};
use crate::device::{DType, Order};
use crate::error::Result;
use crate::operators::implicit_gemm::ImplicitGemm;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{ConvProblem, ConvTransposeProblem};

/// An epilogue and a list that change nothing.
const NO_STORE: (Epilogue, OperandList) = (Epilogue::NONE, OperandList::EMPTY);

/// A class of phases with its convolution.
#[derive(Debug)]
struct PlannedClass {
    /// The class number. Within all programs of the layer, other filters have other numbers.
    number: usize,
    filters: PhaseFiltersGeometry,
    convolution: ConvProblem<3>,
    kernels: ClassKernels,
}

/// A transposed convolution with all decisions about its launches.
#[derive(Debug)]
pub(crate) struct Transposed {
    problem: ConvTransposeProblem<3>,
    geometry: InterleaveGeometry,
    classes: Vec<PlannedClass>,
    /// The epilogue and the list that are applied to all outputs before they are written, including outputs
    /// without taps.
    store: (Epilogue, OperandList),
    /// Whether a separate launch writes the output from the results of all classes. Otherwise the
    /// convolutions write it: the only class all of it, or each class its own elements.
    interleaves: bool,
    /// The layout of the input, and the layout of the classes' results and of the output.
    pub(crate) reads: Layout,
    pub(crate) writes: Layout,
}

impl Transposed {
    /// Returns the classes of a transposed convolution, with the kernels that `choose` returns for each
    /// convolution; `None` if the kernels read or write different layouts. `store` is applied to outputs. The
    /// second argument of `choose` tells whether an earlier convolution has already reformatted the input as
    /// an implicit GEMM needs it.
    ///
    /// # Errors
    /// Extents that no kernel can index; the refusals of `choose`.
    pub(crate) fn new(
        problem: &ConvTransposeProblem<3>,
        store: (Epilogue, OperandList),
        choose: impl Fn(
            &ConvProblem<3>,
            &dyn Fn(&ImplicitGemm) -> bool,
        ) -> Result<ClassKernels, Refusal>,
    ) -> Result<Option<Self>, Refusal> {
        let limit = |_| Refusal::Needs("planes, filters and steps that are indexed with 32 bits");
        let geometry = problem.geometry().map_err(limit)?;
        let mut classes: Vec<PlannedClass> = Vec::new();
        for class in geometry.classes() {
            let convolution = class.convolution(&geometry, problem).map_err(limit)?;
            let is_reformatted = |gemm: &ImplicitGemm| {
                classes.iter().any(|earlier| match &earlier.kernels {
                    ClassKernels::ImplicitGemm(earlier) => gemm.reformats_as(earlier),
                    _ => false,
                })
            };
            let kernels = choose(&convolution, &is_reformatted)?;
            classes.push(PlannedClass {
                number: class.number,
                filters: PhaseFiltersGeometry::of(&class, &geometry, problem),
                convolution,
                kernels,
            });
        }
        let mut layouts = classes.iter().map(|class| class.kernels.layouts());
        let [reads, writes] = layouts.next().unwrap_or([Layout::Nchw; 2]);
        let is_one = layouts.all(|other| other == [reads, writes]);
        Ok(is_one.then_some(Self {
            problem: *problem,
            interleaves: geometry.is_convolution().is_none(),
            geometry,
            classes,
            store,
            reads,
            writes,
        }))
    }

    /// Returns the classes with implicit GEMMs that shuffle their results into an NCHW output. `None` if
    /// `choose` returns no GEMM for one of them, or if they read different layouts.
    /// [`can_store`](Self::can_store) tells whether they can store results through `store`.
    pub(crate) fn shuffled(
        problem: &ConvTransposeProblem<3>,
        store: (Epilogue, OperandList),
        choose: impl Fn(&ShuffledClass) -> Option<ImplicitGemm>,
    ) -> Option<Self> {
        let geometry = problem.geometry().ok()?;
        let mut classes = Vec::new();
        for class in shuffled(problem)?.into_iter().flatten() {
            classes.push(PlannedClass {
                number: MAX_CLASSES + class.number,
                filters: class.filters,
                convolution: class.convolution,
                kernels: ClassKernels::ImplicitGemm(choose(&class)?),
            });
        }
        let mut layouts = classes.iter().map(|class| class.kernels.layouts());
        let [reads, writes] = layouts.next()?;
        let is_one = layouts.all(|other| other == [reads, writes]);
        is_one.then_some(Self {
            problem: *problem,
            geometry,
            classes,
            store,
            interleaves: false,
            reads,
            writes,
        })
    }

    /// Returns a single class of all phases, whose implicit GEMM reduces its results; `None` if the GEMM does
    /// not store results through `store`.
    pub(crate) fn reduced(
        problem: &ConvTransposeProblem<3>,
        class: &ShuffledClass,
        gemm: ImplicitGemm,
        (store, dtype): ((Epilogue, OperandList), DType),
    ) -> Option<Self> {
        let [reads, writes] = [gemm.reads(), gemm.writes()];
        let kernels = ClassKernels::ImplicitGemm(gemm);
        kernels.can_store(&store, dtype).then_some(())?;
        Some(Self {
            problem: *problem,
            geometry: problem.geometry().ok()?,
            classes: vec![PlannedClass {
                number: MAX_CLASSES + class.number,
                filters: class.filters,
                convolution: class.convolution,
                kernels,
            }],
            store,
            interleaves: false,
            reads,
            writes,
        })
    }

    /// Whether the launches can apply `store` to outputs of `dtype`: the interleaving launch, or all
    /// convolutions.
    pub(crate) fn can_store(&self, dtype: DType) -> bool {
        if self.interleaves {
            return true;
        }
        let mut classes = self.classes.iter();
        classes.all(|class| class.kernels.can_store(&self.store, dtype))
    }

    /// Whether the launches apply `store` faster than a launch for it, where they can.
    pub(crate) fn stores(&self, dtype: DType) -> bool {
        let (_, list) = &self.store;
        let mut classes = self.classes.iter();
        self.interleaves
            || classes.all(|class| match &class.kernels {
                ClassKernels::ImplicitGemm(gemm) => gemm.stores(list, dtype),
                _ => true,
            })
    }

    /// Whether each class's convolution writes its own elements of the output.
    fn is_shuffled(&self) -> bool {
        let mut classes = self.classes.iter();
        classes.any(|planned| match &planned.kernels {
            ClassKernels::ImplicitGemm(gemm) => gemm.is_shuffled(),
            _ => false,
        })
    }

    /// Returns the epilogue and the list that the classes' convolutions apply.
    fn class_store(&self) -> (Epilogue, OperandList) {
        match self.interleaves {
            true => NO_STORE,
            false => self.store,
        }
    }
}

impl fmt::Display for Transposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.classes.is_empty() {
            return f.write_str("no output has taps");
        }
        for (index, planned) in self.classes.iter().enumerate() {
            let [t, r, s] = planned.filters.taps;
            let separator = if index > 0 { "; " } else { "" };
            let count: u32 = planned.filters.phases.iter().product();
            let phases = if count == 1 { "phase" } else { "phases" };
            write!(f, "{separator}{count} {phases} of {t}x{r}x{s} taps by ")?;
            match &planned.kernels {
                ClassKernels::Gemm(gemm) => write!(f, "a matrix product, {gemm}")?,
                ClassKernels::ImplicitGemm(gemm) => write!(f, "implicit GEMM, {gemm}")?,
                ClassKernels::Depthwise(_) | ClassKernels::DepthwiseNhwc(_) => {
                    f.write_str("depthwise convolution")?;
                }
                ClassKernels::Direct => f.write_str("direct convolution")?,
            }
        }
        f.write_str(match (self.interleaves, self.is_shuffled()) {
            (true, _) => "; results are interleaved",
            (false, true) => "; results are shuffled into the output",
            (false, false) => "",
        })
    }
}

/// Returns the filters and the bias of a class, [prepared] from those of the layer `layer`.
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
        let label = program.label(weight);
        let weights = program.tensor(&[filters, g.filter_elements() as usize], dtype)?;
        let repeated = program.tensor(&[bias.map_or(0, |_| filters)], dtype)?;
        let arguments = (weight, bias, weights, repeated, g);
        // SAFETY: weight and bias have the shapes that the geometry was made from, the two outputs have the
        // geometry's sizes, and the bias is present if the geometry says so.
        unsafe { program.launch(&CONV_TRANSPOSE_FILTERS, &label, g.shape(), arguments)? }
        Ok([weights, repeated])
    };
    let of = (layer, Preparation::PhaseFilters { class });
    prepared(program, preparations, of, [Some(weight), bias], append)
}

/// Appends a transposed convolution of `x`, which has the layout that is read, with an output of the shape
/// `output`. `parameters` are the layer's, with the tensors of the store.
///
/// `transposed` was chosen for the shapes of `x` and of the parameters, and for the program's device.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &ConvolutionParameters<'_>,
    transposed: &Transposed,
    output: &[usize],
) -> Result<Value> {
    let &Transposed {
        ref problem,
        ref geometry,
        store: (epilogue, list),
        interleaves,
        ..
    } = transposed;
    let dtype = program.dtype(x);
    let ConvolutionParameters {
        filters,
        layer,
        preparations,
        ..
    } = *parameters;
    let (mut results, mut y) = ([None; MAX_CLASSES], None);
    for planned in &transposed.classes {
        let (number, g) = (planned.number, planned.filters);
        let [weight, bias] = prepare(program, preparations, layer, filters, (number, g))?;
        let parameters = ConvolutionParameters {
            filters: Filters {
                weight,
                bias: problem.bias.then_some(bias),
            },
            folded: parameters.folded.filter(|_| !interleaves),
            folded_behind: parameters.folded_behind.filter(|_| !interleaves),
            residual: parameters.residual.filter(|_| !interleaves),
            class: number,
            ..*parameters
        };
        let volumes = planned.convolution.output_shape();
        let shape = match interleaves {
            true => &volumes[..],
            false => output,
        };
        let store = transposed.class_store();
        y = Some(match &planned.kernels {
            ClassKernels::Gemm(gemm) => {
                let y = gemm::output(program, x, shape)?;
                gemm::append(program, x, &parameters, None, gemm, store, y)?
            }
            ClassKernels::ImplicitGemm(gemm) => {
                // All convolutions shuffle their results into one output.
                let y = (shape, y.filter(|_| !interleaves));
                implicit_gemm::append(program, x, &parameters, gemm, store, y)?.y
            }
            ClassKernels::Depthwise(geometry) => {
                depthwise::append(program, x, &parameters, geometry, store, shape)?.y
            }
            ClassKernels::DepthwiseNhwc(kernel) => {
                depthwise::append_nhwc(program, x, &parameters, None, kernel, store, shape)?
            }
            ClassKernels::Direct => {
                let (filters, convolution) = (parameters.filters, &planned.convolution);
                let y = conv::append_volumes(program, x, filters, convolution)?;
                program.see_as(y, shape);
                y
            }
        });
        if interleaves {
            results[number] = y;
        }
    }
    if let Some(y) = y.filter(|_| !interleaves) {
        return Ok(y);
    }
    let [a, b, c, d, e, f, g, h] = results;
    let order = Order::of_layout(output, transposed.writes)?;
    let y = program.tensor_as(output, dtype, order)?;
    let [(gain, shift), (gain_behind, shift_behind)] = parameters.gains_and_shifts();
    let (bias, residual) = (filters.bias, parameters.residual);
    let geometry = geometry.of_elements(dtype.size() as u32);
    let (label, shape) = ([dtype.label()], geometry.shape(transposed.writes));
    let arguments = (
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        bias,
        gain,
        shift,
        gain_behind,
        shift_behind,
        residual,
        y,
        geometry,
        epilogue,
        list,
    );
    // SAFETY: the results are the outputs of the geometry's classes in the layout of `y`, which has an
    // element for each output. The bias is present if the geometry says so, gain and shift of each channel if
    // the epilogue does, and the list's gain and shift if the list does. The list also says whether there is
    // a residual, which has the shape and layout of `y`. `geometry()` refused planes of 2^31 elements.
    unsafe {
        match transposed.writes {
            Layout::Nchw => {
                let family = &CONV_TRANSPOSE_INTERLEAVE;
                program.launch(family, &label, shape, arguments)?;
            }
            Layout::Nhwc => {
                let family = &CONV_TRANSPOSE_INTERLEAVE_NHWC;
                program.launch(family, &label, shape, arguments)?;
            }
        }
    }
    Ok(y)
}
