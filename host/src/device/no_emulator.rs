//! The emulator's types in a build without it: uninhabited.

use std::sync::Arc;

use cuda_std::{Instance, KernelArgs};
use launch_config::{Arch, LaunchShape};

use super::counters::Counters;
use crate::error::Result;

pub(crate) enum Emulator {}

impl Emulator {
    pub(crate) fn arch(&self) -> Arch {
        match *self {}
    }

    pub(crate) unsafe fn launch<A: KernelArgs>(
        &self,
        _: &Instance<A>,
        _: &LaunchShape,
        _: A,
    ) -> Result<()> {
        match *self {}
    }
}

pub(crate) enum EmulatedBuffer {}

impl EmulatedBuffer {
    pub(crate) fn allocate(
        emulator: &Emulator,
        _: &Arc<Counters>,
        _: usize,
    ) -> Result<EmulatedBuffer> {
        match *emulator {}
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        match *self {}
    }

    pub(crate) fn write(&self, _: usize, _: &[u8]) -> Result<()> {
        match *self {}
    }

    pub(crate) fn zero(&self) -> Result<()> {
        match *self {}
    }

    pub(crate) fn read(&self, _: usize, _: &mut [u8]) -> Result<()> {
        match *self {}
    }
}
