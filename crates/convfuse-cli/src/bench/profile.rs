//! Where the time of a run goes.

use convfuse::Result;
use convfuse::model::{Explanation, Options};
use serde::Serialize;

use super::{Protocol, Subject, Summary};

/// The times of the launches of a run, and of the whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Profile {
    /// What runs.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// The whole run, without events between its launches.
    pub time: Summary,
    /// Its launches, in order, each between two events. Together they may take longer than the whole, in
    /// which a launch may begin before the one in front of it is complete.
    pub launch_times: Vec<Summary>,
}

/// A region of a [`Profile`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RegionTime<'a> {
    /// The name of the value that it gives; in a chain, whose values have none, the operators' names.
    pub name: &'a str,
    /// The row of the table that does it.
    pub kernels: &'static str,
    /// Launches.
    pub launches: usize,
    /// The sum of the medians of its launches, in seconds.
    pub seconds: f64,
    /// Its part of the time of all launches; 0 where there are none.
    pub share: f64,
    /// The least time that the device allows for it, in seconds, where its rates are known.
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

/// The sum of the medians. Of no numbers `sum` makes -0.
fn seconds_of<'a>(times: impl IntoIterator<Item = &'a Summary>) -> f64 {
    times.into_iter().fold(0.0, |sum, time| sum + time.median)
}

impl Subject {
    /// Times the launches of the model under these options. Results are not compared with anything.
    ///
    /// # Errors
    /// [`Error::Unsupported`](convfuse::Error::Unsupported) on the CPU device, which launches nothing; what a
    /// plan may run into.
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
