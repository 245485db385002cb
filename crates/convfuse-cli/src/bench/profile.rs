//! The time of a run, launch by launch.

use convfuse::Result;
use convfuse::model::{Explanation, Options};
use serde::Serialize;

use super::{Protocol, Subject, Summary};

/// Times of the launches of a run, and of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Profile {
    /// The regions and launches of the run.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// The time of the whole run, without events between its launches.
    pub time: Summary,
    /// The time of each launch, in order, between two events. Their sum may exceed the time of the whole
    /// run, in which a launch may start before the previous one is complete.
    pub launch_times: Vec<Summary>,
}

/// The time of a region of a [`Profile`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RegionTime<'a> {
    /// The name of the region's output value. In a chain, whose values have no names, the operators' names.
    pub name: &'a str,
    /// The row of the kernel table that computes the region.
    pub kernels: &'static str,
    /// The number of launches.
    pub launches: usize,
    /// The sum of the medians of its launches, in seconds.
    pub seconds: f64,
    /// The region's share of the time of all launches; 0 if there are none.
    pub share: f64,
    /// The least time in seconds that the device allows for the region, if the device's rates are known.
    pub least_s: Option<f64>,
}

impl Profile {
    /// The regions, in order.
    pub fn regions(&self) -> impl Iterator<Item = RegionTime<'_>> {
        let mut times = self.launch_times.iter();
        let all = self.seconds_of_launches().max(f64::MIN_POSITIVE);
        self.explanation.regions.iter().map(move |region| {
            let launches = region.launches.len();
            let times = times.by_ref().take(launches);
            let seconds = seconds_of(times);
            RegionTime {
                name: match &*region.value {
                    "" => &region.layers,
                    value => value,
                },
                kernels: region.kernels,
                launches,
                seconds,
                share: seconds / all,
                least_s: region.least_s,
            }
        })
    }

    /// The sum over all launches of their medians, in seconds.
    #[must_use]
    pub fn seconds_of_launches(&self) -> f64 {
        seconds_of(&self.launch_times)
    }
}

/// Sums the medians. A fold, since `sum` of no numbers is -0.
fn seconds_of<'a>(times: impl IntoIterator<Item = &'a Summary>) -> f64 {
    times.into_iter().fold(0.0, |sum, time| sum + time.median)
}

impl Subject {
    /// Times the launches of the model under these options, without checking results.
    ///
    /// # Errors
    /// [`Error::Unsupported`](convfuse::Error::Unsupported) on the CPU device, which launches no kernels;
    /// errors of preparing the plan.
    pub fn profile(&self, options: &Options, protocol: &mut Protocol) -> Result<Profile> {
        let stream = protocol.stream().clone();
        let mut plan = self.model.plan_for(&stream, self.inputs(), options)?;
        let mut outputs = plan.outputs()?;
        let explanation = plan.explain()?;
        let launch_times = protocol.time_spans(explanation.launches.len(), || {
            plan.execute_with_events(self.inputs(), &mut outputs)
        })?;
        let time = protocol.time(|| plan.execute_all(self.inputs(), &mut outputs))?;
        Ok(Profile {
            explanation,
            time,
            launch_times,
        })
    }
}
