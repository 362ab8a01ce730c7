//! Parses Chrome traces of `torch.profiler` (`export_chrome_trace`): events of category `kernel`.

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::error::BenchError;
use super::profile::{Kernels, Timed};

/// The relevant fields of an event; durations are in microseconds (Trace Event Format, "Complete Events").
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    ph: Option<String>,
    #[serde(default)]
    cat: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    dur: Option<f64>,
}

/// The kernels among a list of events, summed while parsing, since traces can have gigabytes.
struct Events(Kernels);

impl<'de> Deserialize<'de> for Events {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Events;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of trace events")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Events, A::Error> {
                let mut kernels = Kernels::new("chrome");
                while let Some(event) = list.next_element::<Event>()? {
                    let complete = event.ph.as_deref() == Some("X");
                    let kernel = event.cat.as_deref().is_some_and(|cat| cat.eq_ignore_ascii_case("kernel"));
                    if let (true, Some(name), Some(dur)) = (complete && kernel, event.name, event.dur) {
                        if !dur.is_finite() || dur < 0.0 {
                            return Err(serde::de::Error::custom(format!("kernel `{name}` lasts {dur} us")));
                        }
                        kernels.add(&name, Timed { nanoseconds: dur * 1e3, launches: 1, percent: None });
                    }
                }
                Ok(Events(kernels))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// The object that contains the list of events.
struct Trace(Option<Events>);

impl<'de> Deserialize<'de> for Trace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Trace;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a trace with `traceEvents`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Trace, A::Error> {
                let mut events = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key == "traceEvents" {
                        events = Some(map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Trace(events))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Parses the kernels of a trace.
pub(super) fn read(path: &Path, text: &str) -> Result<Kernels, BenchError> {
    let wrong = |message: String| BenchError::Form { path: path.to_owned(), message };
    let damaged = |e: serde_json::Error| wrong(format!("not a Chrome trace: {e}"));
    if text.trim_start().starts_with('[') {
        return Ok(serde_json::from_str::<Events>(text).map_err(damaged)?.0);
    }
    let trace: Trace = serde_json::from_str(text).map_err(damaged)?;
    trace
        .0
        .map(|events| events.0)
        .ok_or_else(|| wrong("JSON without `traceEvents` is not a Chrome trace".to_owned()))
}
