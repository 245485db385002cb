//! The global memory of a device: its allocations, and the clock of their stamps.

use std::collections::BTreeMap;

use super::fault::{Fault, FaultKind};
use super::region::{Contents, Name, Region};
use super::stamp;

/// The allocations of a device, and its clock.
#[derive(Debug)]
pub(crate) struct Memory {
    regions: BTreeMap<usize, Box<Region>>,
    allocated: u64,
    used: u64,
    limit: u64,
    /// See `stamp`.
    pub(crate) now: u64,
}

impl Memory {
    /// Global memory of `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            regions: BTreeMap::new(),
            allocated: 0,
            used: 0,
            limit,
            now: stamp::time(stamp::HOST),
        }
    }

    /// Allocates memory, and returns its address.
    pub(crate) fn alloc(&mut self, bytes: usize) -> Result<usize, Fault> {
        let sum = self.used.checked_add(bytes as u64);
        let sum = sum
            .filter(|&sum| sum <= self.limit)
            .ok_or_else(|| self.too_much(bytes))?;
        let region = Region::new(Name::Allocation(self.allocated), bytes, None);
        let address = self.insert(bytes, region)?;
        self.used = sum;
        Ok(address)
    }

    fn too_much(&self, bytes: usize) -> Fault {
        Fault::on_host(FaultKind::OutOfMemory {
            bytes: bytes as u64,
            used: self.used,
            limit: self.limit,
        })
    }

    fn insert(&mut self, bytes: usize, region: Option<Region>) -> Result<usize, Fault> {
        let region = region.ok_or_else(|| self.too_much(bytes))?;
        self.allocated += 1;
        let address = region.base;
        self.regions.insert(address, Box::new(region));
        Ok(address)
    }

    /// Makes a sparse allocation, which does not count against the limit, and returns its address.
    pub(crate) fn alloc_sparse(
        &mut self,
        bytes: usize,
        element_bytes: usize,
        contents: Option<Contents>,
    ) -> Result<usize, Fault> {
        let name = Name::Allocation(self.allocated);
        let region = Region::sparse(name, bytes, element_bytes, contents);
        self.insert(bytes, region)
    }

    /// Frees the allocation that starts at `address`, if there is one.
    pub(crate) fn free(&mut self, address: usize) {
        if let Some(region) = self.regions.remove(&address)
            && !region.is_sparse()
        {
            self.used -= region.len() as u64;
        }
    }

    /// The allocation that starts at `address`.
    pub(crate) fn get(&self, address: usize) -> Option<&Region> {
        self.regions.get(&address).map(|region| &**region)
    }

    /// The allocation that contains `address`, or ends there.
    pub(crate) fn find(&self, address: usize) -> Option<&Region> {
        let (_, region) = self.regions.range(..=address).next_back()?;
        (address <= region.base + region.len()).then_some(region)
    }

    /// Restarts the clock before it overflows, which replaces all stamps. A sparse allocation has too many of
    /// them.
    pub(crate) fn wind_clock(&mut self) -> Result<(), Fault> {
        const ENOUGH: u64 = 1 << 32;
        if self.now < ENOUGH {
            return Ok(());
        }
        if let Some(sparse) = self.regions.values().find(|region| region.is_sparse()) {
            let object = sparse.describe();
            return Err(Fault::on_host(FaultKind::HostMemory { object }));
        }
        self.regions
            .values()
            .for_each(|region| region.restart_clock());
        self.now = stamp::time(stamp::HOST);
        Ok(())
    }
}
