//! The launches of a configuration, before they are appended to a program.

use cuda_std::{Family, KernelArgs, Label};

use crate::device::LaunchShape;
use crate::error::{Error, Result};

/// A launch of a configuration: the kernel's symbol, and grid, block and shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedLaunch {
    pub(crate) kernel: &'static str,
    pub(crate) shape: LaunchShape,
}

/// All launches of a configuration, in order. Operators append exactly these to a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LaunchPlan {
    /// The launches of every run. A program omits launches without blocks.
    pub(crate) launches: Vec<PlannedLaunch>,
    /// The launches that prepare parameters, once for all programs of a model.
    pub(crate) preparations: Vec<PlannedLaunch>,
}

impl LaunchPlan {
    /// Adds the launch of the kernel of `family` with these labels.
    ///
    /// # Errors
    /// [`Error::TooManyBlocks`] if there is no shape; an error if no kernel has the labels.
    pub(crate) fn launch<A: KernelArgs>(
        &mut self,
        family: &Family<A>,
        labels: &[Label],
        shape: Option<LaunchShape>,
    ) -> Result<()> {
        self.launches
            .push(PlannedLaunch::of(family, labels, shape)?);
        Ok(())
    }

    /// Adds a launch that prepares parameters.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub(crate) fn preparation<A: KernelArgs>(
        &mut self,
        family: &Family<A>,
        labels: &[Label],
        shape: Option<LaunchShape>,
    ) -> Result<()> {
        let launch = PlannedLaunch::of(family, labels, shape)?;
        self.preparations.push(launch);
        Ok(())
    }
}

impl PlannedLaunch {
    fn of<A: KernelArgs>(
        family: &Family<A>,
        labels: &[Label],
        shape: Option<LaunchShape>,
    ) -> Result<Self> {
        let operator = family.name();
        Ok(Self {
            kernel: family.instance(labels)?.name(),
            shape: shape.ok_or(Error::TooManyBlocks { operator })?,
        })
    }
}
