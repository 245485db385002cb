//! Copies from GPU to GPU.

use super::driver::cu;
use super::memory::GpuBuffer;
use crate::error::Result;

impl GpuBuffer {
    /// Queues a copy of `bytes` bytes, from `first` of a buffer on any GPU to `offset` of this buffer, in the
    /// order of the home stream.
    pub(crate) fn copy_from(
        &mut self,
        offset: usize,
        source: &GpuBuffer,
        first: usize,
        bytes: usize,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let (to, from) = (self.range(offset, bytes), source.range(first, bytes));
        self.home().must_not_capture("copy between devices")?;
        source.before_read(self.home())?;
        let _current = self.home().gpu.make_current()?;
        let [target, origin] = [self.home(), source.home()].map(|stream| stream.gpu.context());
        // SAFETY: both sides have as many bytes, each in its device's primary context. The copy comes after
        // the write of the source (ordered above) and before its freeing (recorded below).
        unsafe {
            cu!(cuMemcpyPeerAsync(
                to,
                target,
                from,
                origin,
                bytes,
                self.home().raw()?
            ))?
        };
        source.after_read(self.home())
    }
}
