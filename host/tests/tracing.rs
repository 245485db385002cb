//! The events that a subscriber of `tracing` receives. There is one test, because the subscriber is global.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use convfuse::graph::presets::KernelBench79;
use convfuse::{Device, Model, Options, Tensor, data};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A subscriber that records events by target and level.
struct Listener;

static HEARD: Mutex<BTreeMap<(String, Level), Vec<String>>> = Mutex::new(BTreeMap::new());
static SPANS: AtomicU64 = AtomicU64::new(1);

fn note(metadata: &Metadata<'_>, text: String) {
    let key = (metadata.target().to_owned(), *metadata.level());
    HEARD.lock().unwrap().entry(key).or_default().push(text);
}

fn heard(target: &str, level: Level) -> Vec<String> {
    let heard = HEARD.lock().unwrap();
    heard
        .get(&(target.to_owned(), level))
        .cloned()
        .unwrap_or_default()
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("convfuse::")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text(format!("span {} ", span.metadata().name()));
        span.record(&mut text);
        note(span.metadata(), text.0);
        Id::from_u64(SPANS.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        note(event.metadata(), text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
#[cfg(feature = "emulator")]
fn a_subscriber_hears_of_choice_plan_copies_launches_and_memory() {
    tracing::subscriber::set_global_default(Listener).unwrap();
    let stream = Device::emulator().stream().unwrap();
    let chain = KernelBench79::default().chain().unwrap();
    let model = Model::init(&stream, &chain, 7).unwrap();
    let input = [1, 3, 5, 6, 7];
    let mut plan = model.plan(&stream, &input, &Options::default()).unwrap();
    let x = Tensor::from_array(&stream, &data::fill(1, input)).unwrap();
    let mut y = plan.output().unwrap();
    stream.take_counts();
    let before = heard("convfuse::launch", Level::TRACE).len();
    plan.execute(&x, &mut y).unwrap();
    let launches = &heard("convfuse::launch", Level::TRACE)[before..];
    assert_eq!(launches.len() as u64, stream.take_counts().launches);
    for launch in launches {
        assert!(launch.contains("kernel=") && launch.contains("grid=["));
    }

    let choices = heard("convfuse::choice", Level::DEBUG);
    assert!(choices[0].contains("layers=\"conv3d"), "{choices:?}");
    let plans = heard("convfuse::plan", Level::DEBUG);
    assert!(plans[0].starts_with("span plan input=[1, 3, 5, 6, 7]"));
    assert!(plans[1].contains("workspace_bytes="), "{plans:?}");
    let bytes = format!("bytes={}", x.bytes());
    let copies = heard("convfuse::copy", Level::TRACE);
    assert!(copies.iter().any(|copy| copy.contains(&bytes)));
    drop(x);
    let memory = heard("convfuse::memory", Level::TRACE);
    let given_back = |event: &String| event.contains(&bytes) && event.contains("given back");
    assert!(memory.iter().any(given_back), "{memory:?}");
    assert!(heard("convfuse::fault", Level::ERROR).is_empty());
}
