//! Streams of runs in captures.

use crate::device::Stream;
use crate::error::Result;
use crate::program::other_streams;
use crate::sync::{Mutex, lock};

/// The streams beside the caller's for runs in captures. They are part of a capture until it ends, so each
/// run takes streams that are in no capture.
#[derive(Default)]
pub(super) struct OtherStreams(Mutex<Vec<Vec<Stream>>>);

impl OtherStreams {
    /// Takes streams of the device of `origin` that are in no capture.
    pub(super) fn take(&self, origin: &Stream) -> Result<Vec<Stream>> {
        let is_free = |streams: &Vec<Stream>| {
            let mut streams = streams.iter();
            streams.all(|stream| matches!(stream.is_capturing(), Ok(false)))
        };
        let mut known = lock(&self.0);
        match known.iter().position(is_free) {
            Some(position) => Ok(known.swap_remove(position)),
            None => other_streams(origin),
        }
    }

    /// Keeps streams after a run.
    pub(super) fn give_back(&self, streams: &mut Vec<Stream>) {
        if !streams.is_empty() {
            lock(&self.0).push(std::mem::take(streams));
        }
    }
}
